// A heap costs each cluster what is used of it, under both kinds of protection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::Finished;
using Words = std::vector<std::string>;

struct Memory {
  double allocated_s;
  unsigned long shared_after_allocation_kib, all_kib, shared_kib;
};

// One for each cluster.
std::vector<Memory> run(const std::string& protection, const Words& program) {
  Words words = {BRAID_COMMAND,
                 "run",
                 "--clusters",
                 "2",
                 "--compute",
                 "1",
                 "--proxies",
                 "1",
                 "--heap-mib",
                 "65536",
                 BRAID_LARGE_HEAP_PROGRAM};
  words.insert(words.end(), program.begin(), program.end());
  Command command(words, {{"BRAID_PROTECTION", protection}});
  const Finished finished = command.wait(std::chrono::seconds(100));
  EXPECT_EQ(finished.status, 0) << finished.err;
  std::vector<Memory> all;
  std::istringstream lines(finished.out);
  for (std::string line; std::getline(lines, line);) {
    Memory m{};
    const std::size_t at = line.find("allocated in");
    if (at != std::string::npos &&
        std::sscanf(line.c_str() + at,
                    "allocated in %lf s, then shared %lu KiB; at the end %lu KiB, of these shared %lu KiB",
                    &m.allocated_s, &m.shared_after_allocation_kib, &m.all_kib, &m.shared_kib) == 4)
      all.push_back(m);
  }
  EXPECT_EQ(all.size(), 2u) << finished.out << finished.err;
  return all;
}

class LargeHeap : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Protections, LargeHeap, ::testing::Values("userfaultfd", "mprotect"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(LargeHeap, OfWhichALittleIsUsedCostsLittleMemory) {
  for (const Memory& m : run(GetParam(), {"10", "10", "block"})) EXPECT_LE(m.all_kib, 30u * 1024);
}

// As far as mappings of their own allow (mprotect): 500 pages apart from each other.
TEST_P(LargeHeap, AllocationsTakeMemoryWhenTheyAreUsed) {
  for (const char* const placement : {"block", "cyclic", "on", "first-touch"}) {
    SCOPED_TRACE(placement);
    if (GetParam() == "mprotect" && placement == std::string("cyclic")) continue;  // every page a mapping
    for (const Memory& m : run(GetParam(), {"1024", "2", placement})) {
      EXPECT_LE(m.shared_after_allocation_kib, 4u * 1024);
      EXPECT_LE(m.shared_kib, 12u * 1024);
      EXPECT_LE(m.all_kib, 60u * 1024) << "with what the tables of pages have of 262,144 pages";
    }
  }
}

}  // namespace
}  // namespace braid
