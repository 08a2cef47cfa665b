# Half of what the compiler does for one of our files is reading the standard library again: three headers that are read
# once, for each of the three sets of flags. Not with ccache, which cannot keep what was compiled with them, nor in the preset
# `debug`, so that somebody notices a missing include.
set(default_of_precompiled_headers ON)
if(BRAID_CCACHE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(default_of_precompiled_headers OFF)
endif()
option(BRAID_PRECOMPILED_HEADERS "Read the standard library once" ${default_of_precompiled_headers})

# braid_precompile(name OPTIMISATION HEADERS...): what targets with these flags reuse.
function(braid_precompile name optimisation)
  if(NOT BRAID_PRECOMPILED_HEADERS)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:${optimisation}>)
  target_link_libraries(${name} PRIVATE braid_options fmt::fmt)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()
set(standard_headers <algorithm> <array> <atomic> <bit> <cstdint> <cstring> <deque> <functional> <map> <memory> <optional>
  <span> <string> <string_view> <utility> <vector> <fmt/core.h>)
braid_precompile(braid_precompiled "${optimisation}" ${standard_headers})
# Without CLI11 and nlohmann/json, which would serve few files: reading them would cost every other one 2.6 s instead of 1.
braid_precompile(braid_precompiled_quickly -Og ${standard_headers})
if(BRAID_WITH_TESTS)
  braid_precompile(braid_precompiled_tests "${optimisation_of_tests}" ${standard_headers} <gmock/gmock.h> <gtest/gtest.h>)
  # Tests are programs, and libraries are compiled to fit into anything.
  if(TARGET braid_precompiled_tests)
    set_property(TARGET braid_precompiled_tests PROPERTY POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(braid_precompiled_tests PRIVATE -fPIE)
    target_link_libraries(braid_precompiled_tests PRIVATE GTest::gmock)
  endif()
endif()

# braid_reuse_precompiled(target name): not for a target that compiles C, too.
function(braid_reuse_precompiled target name)
  get_target_property(sources ${target} SOURCES)
  if(TARGET ${name} AND NOT sources MATCHES "\\.c(;|$)")
    set_property(TARGET ${target} PROPERTY PRECOMPILE_HEADERS_REUSE_FROM ${name})
    add_dependencies(${target} ${name})
  endif()
endfunction()
