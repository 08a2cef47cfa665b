# Everything that is not ours: Debian 12 packages, listed for apt in tools/packages.txt and, where only tests and benches need
# them, in tools/test_packages.txt.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(TBB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)

if(BRAID_DPDK)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(DPDK REQUIRED libdpdk)
endif()

# What only tests/ and bench/ need. BRAID_TESTS=AUTO configures the two where this is there.
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
