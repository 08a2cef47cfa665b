# braid_application(name SOURCES files... [LIBRARIES targets...]): a shared-memory program, in two flavours of the same
# sources. It needs nothing of Braid but dsm/api.h and dsm/threads.h; apps/common/arguments.h is there for its arguments.
#   build/<preset>/bin/<name>      target <name>: runs alone or under `braid run`
#   build/<preset>/bin/sim/<name>  target <name>_sim: for `braid sim`; counts what it computes (sim/charge)
#   build/<preset>/bin/sim/checked/<name>  target <name>_checked: the same with access checks, for pages of 1 and 2 KiB
function(braid_application name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "braid_application(${name}): name its files after SOURCES")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE braid_options braid_arguments braid_dsm ${arg_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY BRAID_APPLICATIONS ${name})
  if(TARGET braid_dsm_sim)
    # The program has one thread there: what oneTBB's would run runs on compute nodes (apps/common/team.h).
    list(REMOVE_ITEM arg_LIBRARIES TBB::tbb)
    add_executable(${name}_sim ${arg_SOURCES})
    target_link_libraries(${name}_sim PRIVATE braid_options braid_charged braid_arguments braid_dsm_sim ${arg_LIBRARIES})
    set_target_properties(${name}_sim PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sim)
    # ThreadSanitizer does not follow fibres, so no test there runs it.
    if(BRAID_SANITIZE STREQUAL "thread")
      set_property(TARGET ${name}_sim PROPERTY EXCLUDE_FROM_ALL TRUE)
    else()
      set_property(GLOBAL APPEND PROPERTY BRAID_APPLICATIONS ${name}_sim)
    endif()
    if(braid_checks_accesses)
      add_executable(${name}_checked ${arg_SOURCES})
      target_link_libraries(${name}_checked PRIVATE braid_options braid_charged braid_checked braid_arguments braid_dsm_sim
        ${arg_LIBRARIES})
      set_target_properties(${name}_checked PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sim/checked)
      set_property(GLOBAL APPEND PROPERTY BRAID_CHECKED_APPLICATIONS ${name}_checked)
    endif()
  endif()
endfunction()
