# braid_planted_program(name SOURCES... LIBRARIES braid-libraries... [DEPENDS targets...]): a program with its sources and
# those of the libraries compiled once more, so that mistakes can be planted in them (base/planted.h). The libraries are
# shared by all such programs.
#
# What its checkers notice is the same under a sanitizer, so there it is built only when it is named; and the caller adds
# no test.
function(braid_planted_program name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;DEPENDS" ${ARGN})
  set(planted)
  foreach(library ${arg_LIBRARIES})
    if(NOT TARGET ${library}_planted)
      get_target_property(sources ${library} SOURCES)
      get_target_property(folder ${library} SOURCE_DIR)
      list(TRANSFORM sources PREPEND ${folder}/)
      add_library(${library}_planted STATIC EXCLUDE_FROM_ALL ${sources})
      target_compile_definitions(${library}_planted PRIVATE BRAID_PLANTED)
      target_link_libraries(${library}_planted PRIVATE
        braid_options fmt::fmt Boost::headers nlohmann_json::nlohmann_json Threads::Threads)
    endif()
    list(APPEND planted ${library}_planted)
  endforeach()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_compile_definitions(${name} PRIVATE BRAID_PLANTED)
  target_link_libraries(${name} PRIVATE braid_options ${arg_DEPENDS} -Wl,--start-group ${planted} -Wl,--end-group)
  if(BRAID_SANITIZE)
    set_property(TARGET ${name} PROPERTY EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()
