# braid_mutant_program(name SOURCES... LIBRARIES braid-libraries... [DEPENDS targets...]): a program with its sources and
# those of LIBRARIES compiled once more, with mutants that can be switched on (base/mutant.h). The libraries are shared by
# all such programs.
#
# LIBRARIES are those with a file that reads base/mutant.h, itself or through a header. All others are among DEPENDS, as
# every program has them. If one is missing in LIBRARIES its mutants are never active, and the program finds that they
# are not caught. The copies are linked as a whole and first, so that nothing of the originals is, which others depend on.
#
# Its checkers notice the same faults under a sanitizer. There it is built only when it is named, and the caller adds no
# test.
function(braid_mutant_program name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;DEPENDS" ${ARGN})
  set(mutants)
  foreach(library ${arg_LIBRARIES})
    if(NOT TARGET ${library}_mutants)
      get_target_property(sources ${library} SOURCES)
      get_target_property(folder ${library} SOURCE_DIR)
      list(TRANSFORM sources PREPEND ${folder}/)
      add_library(${library}_mutants STATIC EXCLUDE_FROM_ALL ${sources})
      target_compile_definitions(${library}_mutants PRIVATE BRAID_MUTANTS)
      target_link_libraries(${library}_mutants PRIVATE
        braid_options fmt::fmt Boost::headers nlohmann_json::nlohmann_json Threads::Threads)
      braid_reuse_precompiled(${library}_mutants braid_precompiled)
    endif()
    list(APPEND mutants ${library}_mutants)
  endforeach()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_compile_definitions(${name} PRIVATE BRAID_MUTANTS)
  target_link_libraries(${name} PRIVATE braid_options
    -Wl,--whole-archive ${mutants} -Wl,--no-whole-archive ${arg_DEPENDS})
  if(BRAID_SANITIZE)
    set_property(TARGET ${name} PROPERTY EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()
