# Compiler options of every target of the project, and the one place that knows them.

# Of debugging information the functions and lines: what a backtrace and a sanitizer's report need. Local variables, most
# of them gone at -O2, are a third of the compiler's time; the preset `debug` has them. Tests are most of what there is to
# compile, and what they do themselves is little, so they are optimised less than what they test; and because
# instrumented code takes the optimiser three times as long, that less for a sanitizer. The fuzzers live on speed.
set(optimisation -O2)
set(optimisation_of_tests -Og)
if(BRAID_SANITIZE AND NOT BRAID_FUZZ)
  set(optimisation -O1)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${optimisation} -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${optimisation} -g1")

add_library(braid_options INTERFACE)
target_include_directories(braid_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(braid_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wimplicit-fallthrough -Wundef -fno-strict-aliasing
  # g++ 12 warns wrongly about std::optional members at -O2.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  # The project's compiler is g++; clang is here for the fuzzers, and what only it complains of stops nobody.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-error>
  # The baseline of every distribution's "v2": bit operations and SSE4.2, and valgrind knows all of it.
  -march=x86-64-v2 -mtune=generic)

set(BRAID_SANITIZER_FLAGS "")
if(BRAID_SANITIZE STREQUAL "address+undefined")
  # Without checks of pointers that AddressSanitizer makes too: they are a third of the compiler's time.
  set(BRAID_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize=null,object-size,vptr
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_compile_options(${BRAID_SANITIZER_FLAGS})
  add_link_options(-fsanitize=address,undefined)
elseif(BRAID_SANITIZE STREQUAL "thread")
  # ThreadSanitizer does not model fences, and g++ warns of each. Ours only order a wake-up against a last look (the
  # doorbell); what is handed over goes through acquire and release, which it does model.
  set(BRAID_SANITIZER_FLAGS -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_compile_options(${BRAID_SANITIZER_FLAGS})
  add_link_options(-fsanitize=thread)
elseif(BRAID_SANITIZE)
  message(FATAL_ERROR "BRAID_SANITIZE is '${BRAID_SANITIZE}': use address+undefined, thread, or leave it empty")
endif()

if(BRAID_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BRAID_FUZZ needs clang++ and its libFuzzer: cmake --preset fuzz chooses them "
      "(packages clang and libclang-rt-14-dev)")
  endif()
  # The counters that lead the search; only the fuzzers have libFuzzer's main(). What costs time and finds nothing is left
  # out: operands of comparisons (inputs are decisions that a fuzzer decodes, so an operand is no byte of the input),
  # counters in assertions of invariants.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp,stack-depth
    -fsanitize-coverage-ignorelist=${PROJECT_SOURCE_DIR}/tests/fuzz/without_coverage.txt)
endif()

if(BRAID_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

find_program(BRAID_CCACHE ccache)
if(DEFINED ENV{CCACHE_DISABLE})  # ccache's own variable
  set(BRAID_CCACHE OFF)
endif()
if(BRAID_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BRAID_CCACHE})
endif()

# braid_library(name DIR-RELATIVE-SOURCES... [DEPENDS targets...]): a static library of the project.
function(braid_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PUBLIC braid_options ${arg_DEPENDS})
    if(arg_DEPENDS)  # without them it has not fmt's definitions
      braid_reuse_precompiled(${name} braid_precompiled)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE braid_options ${arg_DEPENDS})
  endif()
endfunction()

# braid_compile_quickly(target): for code that runs once in a process and costs the compiler dear: command lines, JSON. On
# such files -Og takes two thirds of the time of -O2. A library's or an object library's only: programs have other flags.
function(braid_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og>)
  get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
  if(reused)
    braid_reuse_precompiled(${target} braid_precompiled_quickly)
  endif()
endfunction()

# braid_main(name SOURCE DEPENDS targets...): a program of libraries and one file that reads its command line.
function(braid_main name source)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  add_library(${name}_main OBJECT ${source})
  target_link_libraries(${name}_main PUBLIC braid_options fmt::fmt ${arg_DEPENDS})
  braid_reuse_precompiled(${name}_main braid_precompiled_quickly)
  braid_compile_quickly(${name}_main)
  add_executable(${name})
  target_link_libraries(${name} PRIVATE ${name}_main)
endfunction()

# For programs that handle a run's secret. A function that is found at its first call leaves the processor's registers on the
# stack, and with them what was just copied.
add_library(braid_functions_found_at_start INTERFACE)
target_link_options(braid_functions_found_at_start INTERFACE LINKER:-z,now)

# What the preset `tsan` builds.
if(BRAID_SANITIZE STREQUAL "thread")
  add_custom_target(tests_of_threads)
endif()

# From the environment of CMake, and empty for all tests. "units": those that neither start processes nor test the command `braid`;
# "commands": the others, and those that no sanitizer can run.
set(BRAID_TESTS_OF "$ENV{BRAID_TESTS_OF}")

# braid_test(name SOURCES... [DEPENDS targets...] [LABELS labels...]): a GoogleTest binary; each of its tests is one of
# ctest's, named after the binary too, so that equal names in two binaries stay two tests. Label `live`: it starts
# processes or measures time, so nothing else runs beside it. What a sanitizer's run or BRAID_TESTS_OF leaves out is built
# when it is named.
function(braid_test name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LABELS" ${ARGN})
  # Files of C are objects of their own, because a target with such files cannot reuse what is precompiled for C++.
  set(sources ${arg_UNPARSED_ARGUMENTS})
  set(c_sources ${sources})
  list(FILTER c_sources INCLUDE REGEX "\\.c$")
  if(c_sources)
    add_library(${name}_c OBJECT ${c_sources})
    target_compile_options(${name}_c PRIVATE $<$<CONFIG:RelWithDebInfo>:${optimisation_of_tests}>)
    target_link_libraries(${name}_c PRIVATE braid_options)
    list(REMOVE_ITEM sources ${c_sources})
    list(APPEND sources $<TARGET_OBJECTS:${name}_c>)
  endif()
  add_executable(${name} ${sources})
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:${optimisation_of_tests}>)
  target_link_libraries(${name} PRIVATE braid_options ${arg_DEPENDS} fmt::fmt GTest::gmock GTest::gtest_main)
  if(arg_DEPENDS)
    braid_reuse_precompiled(${name} braid_precompiled_tests)
  endif()
  set(is_unit TRUE)
  if("live" IN_LIST arg_LABELS OR "command" IN_LIST arg_LABELS OR "no-asan" IN_LIST arg_LABELS)
    set(is_unit FALSE)
  endif()
  if(BRAID_SANITIZE STREQUAL "thread" AND "threads" IN_LIST arg_LABELS)
    add_dependencies(tests_of_threads ${name})
  elseif(BRAID_SANITIZE STREQUAL "thread" OR (BRAID_SANITIZE AND "no-asan" IN_LIST arg_LABELS) OR
         (BRAID_TESTS_OF STREQUAL "units" AND NOT is_unit) OR (BRAID_TESTS_OF STREQUAL "commands" AND is_unit))
    set_property(TARGET ${name} PROPERTY EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  set(alone FALSE)
  if("live" IN_LIST arg_LABELS)
    set(alone TRUE)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}. TEST_LIST ${name}_tests
    PROPERTIES TIMEOUT 300 RUN_SERIAL ${alone})
  if(arg_LABELS)
    # gtest_discover_tests() flattens its properties into one list, so a value that is a list itself must come later.
    set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
    file(GENERATE OUTPUT ${labels_file} CONTENT
      "if(${name}_tests)\n  set_tests_properties(\${${name}_tests} PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  endif()
endfunction()
