# braid_application(name SOURCES files... [LIBRARIES targets...]): a shared-memory program, build/<preset>/bin/<name>. It
# needs nothing of Braid but dsm/api.h and dsm/threads.h and runs alone or under `braid run`.
function(braid_application name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "braid_application(${name}): name its files after SOURCES")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE braid_options braid_dsm CLI11::CLI11 ${arg_LIBRARIES})
endfunction()
