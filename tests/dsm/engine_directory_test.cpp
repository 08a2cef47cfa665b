// The directory of a home: copies, rounds, and when the home moves. Four clusters; this one is 0.
#include "dsm/engine/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace braid::dsm {
namespace {

using testing::ElementsAre;

constexpr std::uint32_t kPage = 1;
constexpr ClusterId kSelf{0}, kA{1}, kB{2}, kC{3};

EngineConfig four_clusters(std::uint32_t migrate_after = 0) {
  return {.clusters = 4, .pages = 3, .flush_window = 2, .migrate_after = migrate_after};
}

struct DirectoryTest : testing::Test {
  explicit DirectoryTest(std::uint32_t migrate_after = 0) : directory(four_clusters(migrate_after)) {}

  void give_copy(ClusterId to, std::uint32_t page = kPage) {
    ASSERT_TRUE(directory.may_request(page, to));
    directory.add_reply(page, to);
    directory.reply_sent(page, to);
  }
  // Sends the invalidations of a round; every target acknowledges its own.
  void acknowledge(const Directory::RoundBegun& round, bool has_changes = false) {
    for (const ClusterId target : round.targets) {
      directory.invalidation_sent(kPage, target);
      ASSERT_TRUE(directory.awaits_acknowledgement(kPage, target, round.version));
      directory.acknowledged(kPage, target, has_changes);
    }
  }
  // A complete round of that writer; the copies elsewhere are dropped.
  Directory::RoundEnded round_of(ClusterId writer, bool others_have_changes = false) {
    directory.add_change(kPage, writer);
    acknowledge(directory.begin_round(kPage).value(), others_have_changes);
    const Directory::RoundEnded ended = directory.end_round(kPage).value();
    directory.change_answered(writer);
    directory.check_page(kPage, true, false);
    return ended;
  }

  Directory directory;
};

TEST_F(DirectoryTest, PageIsUnsharedUntilItsFirstCopy) {  // PG-13
  EXPECT_TRUE(directory.unshared(kPage));
  directory.add_reply(kPage, kA);
  EXPECT_TRUE(directory.unshared(kPage));
  EXPECT_FALSE(directory.unused(kPage));  // a reply is queued
  directory.reply_sent(kPage, kA);
  EXPECT_FALSE(directory.unshared(kPage));
  EXPECT_TRUE(directory.unshared(kPage + 1));
}

TEST_F(DirectoryTest, ClusterWithACopyOrAChangeMayNotRequest) {  // PG-2
  give_copy(kA);
  EXPECT_FALSE(directory.may_request(kPage, kA));
  EXPECT_TRUE(directory.may_request(kPage, kB));
  directory.add_change(kPage, kB);
  EXPECT_FALSE(directory.may_request(kPage, kB));
}

TEST_F(DirectoryTest, RoundInvalidatesEveryCopyButItsOnlyInitiators) {  // PG-10
  give_copy(kA);
  give_copy(kB);
  give_copy(kC);
  directory.add_change(kPage, kB);
  const Directory::RoundBegun round = directory.begin_round(kPage).value();
  EXPECT_THAT(round.targets, ElementsAre(kA, kC));
  EXPECT_EQ(round.version, 1u);
  EXPECT_FALSE(directory.end_round(kPage));
  acknowledge(round);
  const Directory::RoundEnded ended = directory.end_round(kPage).value();
  EXPECT_THAT(ended.initiators, ElementsAre(kB));
  EXPECT_EQ(ended.version, 1u);
  EXPECT_FALSE(directory.may_request(kPage, kB));  // it kept its copy
  EXPECT_TRUE(directory.may_request(kPage, kA));
}

TEST(LargeDirectory, RoundInvalidatesTheCopiesOfHundredsOfClusters) {  // PG-10
  constexpr std::uint16_t kClusters = 300;
  Directory directory({.clusters = kClusters, .pages = 3});
  for (std::uint16_t c = 1; c < kClusters; ++c) {
    directory.add_reply(kPage, ClusterId(c));
    directory.reply_sent(kPage, ClusterId(c));
  }
  directory.add_change(kPage, ClusterId(200));
  const Directory::RoundBegun begun = directory.begin_round(kPage).value();
  std::vector<ClusterId> expected;
  for (std::uint16_t c = 1; c < kClusters; ++c)
    if (c != 200) expected.emplace_back(c);
  EXPECT_THAT(begun.targets, testing::ElementsAreArray(expected));
  for (const ClusterId c : expected) {
    EXPECT_FALSE(directory.end_round(kPage));
    directory.invalidation_sent(kPage, c);
    ASSERT_TRUE(directory.awaits_acknowledgement(kPage, c, 1));
    directory.check_page(kPage, true, false);
    directory.acknowledged(kPage, c, false);
  }
  EXPECT_THAT(directory.end_round(kPage)->initiators, ElementsAre(ClusterId(200)));
  EXPECT_FALSE(directory.may_request(kPage, ClusterId(200)));
  EXPECT_TRUE(directory.may_request(kPage, ClusterId(299)));
}

TEST_F(DirectoryTest, OfSeveralInitiatorsNoneKeepsItsCopy) {  // PG-10
  give_copy(kA);
  give_copy(kB);
  directory.add_change(kPage, kA);
  directory.add_change(kPage, kB);
  EXPECT_THAT(directory.begin_round(kPage)->targets, ElementsAre(kA, kB));
}

TEST_F(DirectoryTest, ChangeThatArrivesInARoundBelongsToTheNext) {  // PG-11
  give_copy(kA);
  directory.add_own_change(kPage);
  const Directory::RoundBegun first = directory.begin_round(kPage).value();
  directory.add_change(kPage, kB);
  acknowledge(first);
  EXPECT_THAT(directory.end_round(kPage)->initiators, ElementsAre(kSelf));
  const Directory::RoundBegun second = directory.begin_round(kPage).value();
  EXPECT_EQ(second.version, first.version + 1);
  EXPECT_THAT(directory.end_round(kPage)->initiators, ElementsAre(kB));
  EXPECT_FALSE(directory.begin_round(kPage));
}

TEST_F(DirectoryTest, PageIsNotUnsharedWhileACopyIsBeingInvalidated) {  // PG-13
  give_copy(kA);
  directory.add_own_change(kPage);
  const Directory::RoundBegun round = directory.begin_round(kPage).value();
  EXPECT_FALSE(directory.unshared(kPage));
  EXPECT_EQ(directory.rounds(), 1u);
  acknowledge(round);
  directory.end_round(kPage);
  EXPECT_TRUE(directory.unshared(kPage));
  EXPECT_EQ(directory.rounds(), 0u);
}

TEST_F(DirectoryTest, UnexpectedAcknowledgementIsRecognised) {
  give_copy(kA);
  directory.add_change(kPage, kB);
  const Directory::RoundBegun round = directory.begin_round(kPage).value();
  EXPECT_FALSE(directory.awaits_acknowledgement(kPage, kA, round.version));  // the invalidation has not left
  directory.invalidation_sent(kPage, kA);
  EXPECT_TRUE(directory.awaits_acknowledgement(kPage, kA, round.version));
  EXPECT_FALSE(directory.awaits_acknowledgement(kPage, kA, round.version + 1));
  EXPECT_FALSE(directory.awaits_acknowledgement(kPage, kC, round.version));
  directory.acknowledged(kPage, kA, false);
  EXPECT_FALSE(directory.awaits_acknowledgement(kPage, kA, round.version));
}

TEST_F(DirectoryTest, SecondChangeOfAPageWaitsForTheFirst) {  // PG-3
  directory.add_change(kPage, kA);
  EXPECT_FALSE(directory.expects_change(kPage, kA));
  directory.begin_round(kPage);
  EXPECT_FALSE(directory.expects_change(kPage, kA));
  directory.end_round(kPage);
  EXPECT_TRUE(directory.expects_change(kPage, kA));
}

TEST_F(DirectoryTest, ClusterMaySendChangesOfAWindowOfPages) {  // PG-18
  directory.add_change(0, kA);
  directory.add_change(1, kA);
  EXPECT_FALSE(directory.expects_change(2, kA));
  EXPECT_TRUE(directory.expects_change(2, kB));
  directory.change_answered(kA);
  EXPECT_TRUE(directory.expects_change(2, kA));
}

struct MovingDirectory : DirectoryTest {
  MovingDirectory() : DirectoryTest(2) { give_copy(kA); }
  Directory::Streak round_and_streak(ClusterId writer, bool others_have_changes = false) {
    round_of(writer, others_have_changes);
    return directory.only_writer(kPage, writer);
  }
};

TEST_F(MovingDirectory, HomeMayMoveAfterTwoRoundsOfOneWriter) {  // PG-23
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kFull);
}

TEST_F(MovingDirectory, AnotherWriterRestartsTheStreak) {  // PG-23
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  give_copy(kB);
  EXPECT_EQ(round_and_streak(kB), Directory::Streak::kNearly);
}

TEST_F(MovingDirectory, RoundOfTheHomeItselfRestartsTheStreak) {  // PG-23
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  directory.add_own_change(kPage);
  acknowledge(directory.begin_round(kPage).value());
  directory.end_round(kPage);
  give_copy(kA);
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
}

TEST_F(MovingDirectory, AccessAtTheHomeDelaysTheMoveForTwiceAsManyRounds) {  // PG-23
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  directory.touched(kPage);
  for (int round = 0; round < 4; ++round) EXPECT_EQ(round_and_streak(kA), Directory::Streak::kShort);
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kFull);
}

TEST_F(MovingDirectory, HomeStaysWhileAnotherClusterHasACopyOrIsSentOne) {  // PG-23
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);
  round_of(kA);
  directory.add_reply(kPage, kB);
  EXPECT_EQ(directory.only_writer(kPage, kA), Directory::Streak::kShort);
  directory.reply_sent(kPage, kB);
  EXPECT_EQ(directory.only_writer(kPage, kA), Directory::Streak::kShort);
}

TEST_F(MovingDirectory, HomeStaysWhileChangesOfAnotherClusterMayBeInFlight) {  // PG-23
  give_copy(kB);
  EXPECT_EQ(round_and_streak(kA, true), Directory::Streak::kNearly);
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kNearly);  // kB may still have changes
  give_copy(kB);                                                // kB asked: it has none
  EXPECT_EQ(round_and_streak(kA), Directory::Streak::kFull);
}

TEST_F(MovingDirectory, NewHomeBeginsWithTheVersionAndNoCopies) {  // PG-23
  round_of(kA);
  const std::uint32_t version = directory.version(kPage);
  directory.give(kPage);
  directory.check_page(kPage, false, false);
  directory.take(kPage, version);
  EXPECT_TRUE(directory.unused(kPage));
  EXPECT_EQ(directory.version(kPage), version);
}

TEST_F(DirectoryTest, HomeNeverMovesWhereMigrationIsOff) {  // PG-23
  give_copy(kA);
  for (int round = 0; round < 5; ++round) {
    round_of(kA);
    EXPECT_EQ(directory.only_writer(kPage, kA), Directory::Streak::kShort);
  }
}

}  // namespace
}  // namespace braid::dsm
