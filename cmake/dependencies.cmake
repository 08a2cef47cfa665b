# Everything that is not ours: Debian 12 packages, listed for apt in tools/packages.txt.

include(GoogleTest)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(TBB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

if(BRAID_DPDK)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(DPDK REQUIRED libdpdk)
endif()
