# Everything that is not ours: Debian 12 packages, listed for apt in tools/packages.txt and, where only tests and benches need
# them, in tools/test_packages.txt.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(TBB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto SSL)
find_package(Boost 1.74 REQUIRED)

find_library(BRAID_ELF elf REQUIRED)
find_library(BRAID_HWLOC hwloc REQUIRED)
find_path(BRAID_PMIX_INCLUDE pmix.h PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include
  PATHS /usr/lib REQUIRED DOC "libpmix 4: install libpmix-dev (tools/install_packages)")

if(BRAID_DPDK OR BRAID_XDP)
  find_package(PkgConfig REQUIRED)
endif()
if(BRAID_DPDK)
  pkg_check_modules(DPDK REQUIRED libdpdk)
endif()
if(BRAID_XDP)
  pkg_check_modules(XDP REQUIRED libxdp libbpf)
endif()

# For the stack trace of a program that crashes: libbacktrace, and the demangler that takes no memory of the heap. Both are
# archives of GCC's own folder, whichever compiler is in use; the package g++ brings them.
find_program(BRAID_GCC NAMES gcc-12 gcc REQUIRED)
foreach(library backtrace supc++)
  execute_process(COMMAND ${BRAID_GCC} -print-file-name=lib${library}.a OUTPUT_VARIABLE archive OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${archive}")
    message(FATAL_ERROR "${BRAID_GCC} has no lib${library}.a; install the package g++ (tools/packages.txt)")
  endif()
  string(REPLACE "+" "X" name "${library}")
  string(TOUPPER "BRAID_${name}" variable)
  set(${variable} "${archive}")
endforeach()
execute_process(COMMAND ${BRAID_GCC} -print-file-name=include OUTPUT_VARIABLE BRAID_GCC_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)

# Packages that only tests/ and bench/ need. BRAID_TESTS=AUTO configures the two where these are installed.
if(BRAID_TESTS STREQUAL "AUTO")
  find_package(GTest QUIET)
  find_package(benchmark QUIET)
  find_package(Python3 QUIET COMPONENTS Interpreter)
elseif(BRAID_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
set(BRAID_WITH_TESTS OFF)
if(BRAID_TESTS AND GTest_FOUND AND benchmark_FOUND AND Python3_FOUND)
  set(BRAID_WITH_TESTS ON)
  include(GoogleTest)
elseif(BRAID_TESTS)
  message(STATUS "Tests and benches: left out, their packages are missing (tools/install_packages --tests)")
endif()
