#include "stack/agenda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace braid::stack {
namespace {

Instant at(Duration d) {
  return Instant() + d;
}

std::vector<std::size_t> ready(const Agenda& agenda, std::size_t first = 0) {
  std::vector<std::size_t> all;
  Agenda::Round round(agenda, first);
  for (std::size_t i = 0; round.next(i);) all.push_back(i);
  return all;
}

TEST(Agenda, RoundVisitsReadyEntriesInOrderAcrossWords) {
  Agenda agenda(200);
  for (const std::size_t i : {0u, 63u, 64u, 130u, 199u}) agenda.entry(i).set_ready();
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{0, 63, 64, 130, 199}));
  agenda.clear_ready(64);
  EXPECT_EQ(ready(agenda), (std::vector<std::size_t>{0, 63, 130, 199}));
  EXPECT_TRUE(agenda.any_ready());
}

TEST(Agenda, RoundBeginsAnywhereAndVisitsEachReadyEntryOnce) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 128u, 200u}) {
    Agenda agenda(size);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < size; i += 3) {
      agenda.entry(i).set_ready();
      all.push_back(i);
    }
    for (std::size_t first = 0; first < size; ++first) {
      std::vector<std::size_t> expected = all;
      std::rotate(expected.begin(), std::lower_bound(expected.begin(), expected.end(), first),
                  expected.end());
      EXPECT_EQ(ready(agenda, first), expected) << size << " from " << first;
    }
  }
}

TEST(Agenda, EntryMayBeClearedDuringARound) {
  Agenda agenda(70);
  for (const std::size_t i : {2u, 3u, 69u}) agenda.entry(i).set_ready();
  std::vector<std::size_t> visited;
  Agenda::Round round(agenda, 3);
  for (std::size_t i = 0; round.next(i);) {
    visited.push_back(i);
    agenda.clear_ready(i);
  }
  EXPECT_EQ(visited, (std::vector<std::size_t>{3, 69, 2}));
  EXPECT_FALSE(agenda.any_ready());
}

TEST(Agenda, EmptyAgendaHasNothingToDo) {
  Agenda agenda(0);
  EXPECT_FALSE(agenda.any_due(at(1_s)));
  agenda.collect(at(1_s));
  EXPECT_FALSE(agenda.any_ready());
  EXPECT_FALSE(agenda.any_changed());
  EXPECT_TRUE(ready(agenda).empty());
  EXPECT_EQ(agenda.next_due(), Instant::never());
}

TEST(Agenda, EntryBecomesReadyWhenItsTimerRunsOut) {
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

TEST(Agenda, NextDueIsTheEarliestTimer) {
  Agenda agenda(4);
  std::vector<Agenda::Entry> entries;
  for (std::size_t i = 0; i < 4; ++i) entries.push_back(agenda.entry(i));
  EXPECT_EQ(agenda.next_due(), Instant::never());
  entries[1].set_due(at(30_us));
  entries[2].set_due(at(20_us));
  EXPECT_EQ(agenda.next_due(), at(20_us));
  agenda.collect(at(20_us));
  entries[2].set_due(at(90_us));
  agenda.clear_ready(2);
  EXPECT_EQ(agenda.next_due(), at(30_us));
  entries[3].set_due(at(5_us));
  EXPECT_EQ(agenda.next_due(), at(5_us));
  EXPECT_EQ(agenda.due(1), at(30_us));
}

TEST(Agenda, UncheckedReadyEntryIsStillDue) {
  Agenda agenda(4);
  agenda.entry(1).set_due(at(30_us));
  agenda.entry(3).set_due(at(5_us));
  agenda.collect(at(5_us));
  EXPECT_EQ(agenda.next_due(), at(5_us));
  agenda.collect(at(40_us));
  EXPECT_EQ(agenda.next_due(), at(5_us));
}

TEST(Agenda, TimerThatWasCollectedIsNotCollectedAgain) {
  Agenda agenda(2);
  agenda.entry(0).set_due(at(5_us));
  EXPECT_TRUE(agenda.any_due(at(5_us)));
  agenda.collect(at(5_us));
  EXPECT_FALSE(agenda.any_due(at(1_s)));
  agenda.entry(0).set_due(at(5_us));  // due again
  EXPECT_TRUE(agenda.any_due(at(5_us)));
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

TEST(Agenda, EntryThatFinishesMoreWhenItIsTakenIsTakenAgain) {
  Agenda agenda(2);
  agenda.entry(1).set_finished();
  int times = 0;
  agenda.take_finished([&](std::size_t i) {
    if (++times == 1) agenda.entry(i).set_finished();
  });
  agenda.take_finished([&](std::size_t) { ++times; });
  EXPECT_EQ(times, 2);
}

TEST(Agenda, ChangesStayUntilTheyAreTaken) {
  Agenda agenda(65);
  agenda.entry(64).set_changed();
  EXPECT_TRUE(agenda.any_changed());
  std::vector<std::size_t> changed;
  agenda.take_changed([&](std::size_t i) { changed.push_back(i); });
  EXPECT_EQ(changed, std::vector<std::size_t>{64});
  EXPECT_FALSE(agenda.any_changed());
}

}  // namespace
}  // namespace braid::stack
