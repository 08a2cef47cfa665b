#include <gtest/gtest.h>

#include "dsm/live/fault_repetitions.h"

namespace braid::dsm {
namespace {

constexpr std::uintptr_t kAddress = 0x1000;

// Faults at kAddress while its page is open: the first is no repetition. True if one of them is taken for the last.
bool any_endless(FaultRepetitions& faults, unsigned repetitions) {
  bool endless = false;
  for (unsigned i = 0; i < repetitions; ++i) endless = faults.on_fault(kAddress, true) || endless;
  return endless;
}

TEST(FaultRepetitions, AccessThatFailsAgainAndAgainCanNeverSucceed) {
  FaultRepetitions faults;
  EXPECT_FALSE(faults.on_fault(kAddress, true));
  EXPECT_FALSE(any_endless(faults, FaultRepetitions::kMax - 1));
  EXPECT_TRUE(faults.on_fault(kAddress, true));
}

TEST(FaultRepetitions, FaultThatOpensThePageBeginsTheCountAnew) {
  FaultRepetitions faults;
  EXPECT_FALSE(any_endless(faults, FaultRepetitions::kMax));
  EXPECT_FALSE(faults.on_fault(kAddress, false));
  EXPECT_FALSE(any_endless(faults, FaultRepetitions::kMax - 1));
  EXPECT_TRUE(faults.on_fault(kAddress, true));
}

TEST(FaultRepetitions, FaultAtAnotherAddressBeginsTheCountAnew) {
  FaultRepetitions faults;
  EXPECT_FALSE(any_endless(faults, FaultRepetitions::kMax));
  EXPECT_FALSE(faults.on_fault(kAddress + 8, true));
  EXPECT_FALSE(any_endless(faults, FaultRepetitions::kMax)) << "the first of these is no repetition either";
  EXPECT_TRUE(faults.on_fault(kAddress, true));
}

}  // namespace
}  // namespace braid::dsm
