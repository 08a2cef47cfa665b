#include "stack/agenda.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::stack {
namespace {

Instant at(Duration d) {
  return Instant() + d;
}

std::vector<std::size_t> ready(const Agenda& agenda) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; (i = agenda.next_ready(i, agenda.size())) < agenda.size(); ++i) all.push_back(i);
  return all;
}

TEST(Agenda, FindsReadyEntriesInOrderAndAcrossWords) {
  Agenda agenda(200);
  for (const std::size_t i : {0u, 63u, 64u, 130u, 199u}) agenda.entry(i).set_ready();
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{0, 63, 64, 130, 199}));
  EXPECT_EQ(agenda.next_ready(65, 200), 130u);
  EXPECT_EQ(agenda.next_ready(65, 130), 130u);  // none before the end
  EXPECT_EQ(agenda.next_ready(1, 63), 63u);
  agenda.clear_ready(64);
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{0, 63, 130, 199}));
  EXPECT_TRUE(agenda.any_ready());
}

TEST(Agenda, AnEmptyOneHasNothing) {
  Agenda agenda(0);
  agenda.collect(at(1_s));
  EXPECT_FALSE(agenda.any_ready());
  EXPECT_FALSE(agenda.any_changed());
  EXPECT_EQ(agenda.next_ready(0, 0), 0u);
  EXPECT_EQ(agenda.next_due(), Instant::never());
}

TEST(Agenda, AnEntryIsReadyWhenItsTimerRunsOutAndNotBefore) {
  Agenda agenda(70);
  agenda.entry(3).set_due(at(10_us));
  agenda.entry(69).set_due(at(20_us));
  agenda.collect(at(9_us));
  EXPECT_FALSE(agenda.any_ready());
  agenda.collect(at(10_us));
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{3}));
  agenda.collect(at(25_us));
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{3, 69}));
}

TEST(Agenda, NextDueIsTheEarliestOfAllTimersAsTheyStandNow) {
  Agenda agenda(4);
  EXPECT_EQ(agenda.next_due(), Instant::never());
  agenda.entry(1).set_due(at(30_us));
  agenda.entry(2).set_due(at(20_us));
  EXPECT_EQ(agenda.next_due(), at(20_us));
  agenda.collect(at(20_us));
  agenda.entry(2).set_due(at(90_us));  // it was looked at
  EXPECT_EQ(agenda.next_due(), at(30_us));
  agenda.entry(3).set_due(at(5_us));
  EXPECT_EQ(agenda.next_due(), at(5_us));
  agenda.collect(at(40_us));
  EXPECT_EQ(agenda.next_due(), at(5_us));  // nobody has dealt with it
  EXPECT_EQ(agenda.due(1), at(30_us));
}

TEST(Agenda, FinishedEntriesAreTakenOnce) {
  Agenda agenda(128);
  agenda.entry(5).set_finished();
  agenda.entry(127).set_finished();
  std::vector<std::size_t> taken;
  agenda.take_finished([&](std::size_t i) { taken.push_back(i); });
  EXPECT_EQ(taken, (std::vector<std::size_t>{5, 127}));
  taken.clear();
  agenda.take_finished([&](std::size_t i) { taken.push_back(i); });
  EXPECT_TRUE(taken.empty());
}

TEST(Agenda, AnEntryThatFinishesMoreWhileItIsTakenComesAgain) {
  Agenda agenda(2);
  agenda.entry(1).set_finished();
  int times = 0;
  agenda.take_finished([&](std::size_t i) {
    if (++times == 1) agenda.entry(i).set_finished();
  });
  agenda.take_finished([&](std::size_t) { ++times; });
  EXPECT_EQ(times, 2);
}

TEST(Agenda, ChangesStayUntilTheyAreCleared) {
  Agenda agenda(65);
  agenda.entry(64).set_changed();
  EXPECT_TRUE(agenda.any_changed());
  agenda.clear_changed();
  EXPECT_FALSE(agenda.any_changed());
}

}  // namespace
}  // namespace braid::stack
