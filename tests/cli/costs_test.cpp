// The costs of a run, from invented reports.
#include "tools/braid/run/costs.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace braid::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

constexpr const char* kNothing = "null";

// A report with one page; `written` is JSON.
Json page(const char* written, std::uint64_t write_faults = 5, std::uint64_t faults_ns = 400'000'000) {
  return Json::parse(fmt::format(
      R"({{"nodes": [{{"node": 0, "faults_ns": {}}}], "costly_pages": [{{"page": 9, "faults_ns": {}, "read_faults": 3,
          "write_faults": {}, "read": [0, 0], "written": {}, "allocated": {{"place": "f() at f.cpp:2", "bytes": 4096}}}}]}})",
      faults_ns, faults_ns, write_faults, written));
}

Sharing sharing_of(const std::vector<Json>& clusters) {
  const RunCosts costs = costs_of(clusters);
  EXPECT_EQ(costs.pages.size(), 1u);
  EXPECT_EQ(costs.memory.size(), 1u);
  EXPECT_EQ(costs.memory.front().sharing, costs.pages.front().sharing());
  return costs.pages.front().sharing();
}

TEST(Costs, WritersOfDifferentBytesShareFalsely) {
  EXPECT_EQ(sharing_of({page("[0, 2040]"), page("[2048, 4088]")}), Sharing::kOtherPlaces);
  EXPECT_EQ(sharing_of({page("[2048, 4088]"), page("[0, 2040]")}), Sharing::kOtherPlaces);
  EXPECT_EQ(sharing_of({page("[0, 2040]"), page("[2040, 4088]")}), Sharing::kSamePlaces);
  EXPECT_EQ(sharing_of({page("[0, 8]"), page("[64, 72]"), page("[8, 8]")}), Sharing::kSamePlaces);
}

TEST(Costs, OneWriterOrNoneIsSharedByReaders) {
  EXPECT_EQ(sharing_of({page("[0, 2040]"), page(kNothing, 0)}), Sharing::kReaders);
  EXPECT_EQ(sharing_of({page(kNothing, 0), page(kNothing, 0)}), Sharing::kReaders);
  EXPECT_EQ(sharing_of({page("[0, 2040]")}), Sharing::kOneCluster);
}

std::string advice_of(const std::vector<Json>& clusters) {
  return advice(costs_of(clusters), clusters, Duration::ms(1000));
}

// Each cluster tells of some pages of many: one that is among those of one cluster only may be another's, too.
TEST(Costs, PageOfOneClusterIsNotKnownToBeItsOwnWhileAnotherHasMoreThanItTells) {
  const auto cluster = [](std::initializer_list<unsigned> pages, bool full) {
    Json json = page("[0, 2040]");
    const Json given = json["costly_pages"][0];
    json["costly_pages"] = Json::array();
    for (const unsigned p : pages) {
      json["costly_pages"].push_back(given);
      json["costly_pages"].back()["page"] = p;
    }
    json["costly_pages_full"] = full;
    return json;
  };
  const auto sharing = [](const std::vector<Json>& clusters) {
    return costs_of(clusters).memory.front().sharing;
  };
  EXPECT_EQ(sharing({cluster({1, 2, 3}, true), cluster({4, 5, 6}, true)}), Sharing::kUnknown);
  EXPECT_EQ(sharing({cluster({1, 2, 3}, true), cluster({4}, false)}), Sharing::kOneCluster)
      << "1 to 3 are not the other's";
  EXPECT_EQ(sharing({cluster({1, 2, 3}, false), cluster({4}, false)}), Sharing::kOneCluster);
  EXPECT_EQ(sharing({cluster({1, 2, 3}, true), cluster({3, 4, 5}, true)}), Sharing::kSamePlaces)
      << "the page of which it is known speaks for the others";
  const std::vector<Json> unknown = {cluster({1}, true), cluster({2}, true)};
  EXPECT_THAT(advice_of(unknown), AllOf(HasSubstr("use fewer pages of the memory of f() at f.cpp:2"),
                                        HasSubstr("(--page-bytes 16384)"), HasSubstr("a smaller input")));
  std::vector<Json> long_pages = unknown;
  for (Json& of : long_pages) of["page_bytes"] = 16384;
  EXPECT_THAT(advice_of(long_pages), Not(HasSubstr("--page-bytes")));
}

TEST(Costs, PagesOfOnePlaceAreAddedAndTheCostliestComesFirst) {
  std::vector<Json> clusters(2, Json::object());
  for (unsigned k = 0; k < 2; ++k) {
    clusters[k]["costly_pages"] = Json::array();
    for (unsigned p = 0; p < 6; ++p) {
      clusters[k]["costly_pages"].push_back({{"page", p},
                                             {"faults_ns", 100 + p},
                                             {"read_faults", 1},
                                             {"write_faults", 2},
                                             {"allocated", {{"place", p < 4 ? "many()" : "few()"}}}});
    }
  }
  const RunCosts costs = costs_of(clusters);
  ASSERT_EQ(costs.pages.size(), 6u);
  EXPECT_EQ(costs.pages[0].page, 5u);
  EXPECT_EQ(costs.pages[0].faults_ns, 210u);
  ASSERT_EQ(costs.memory.size(), 2u);
  EXPECT_EQ(costs.memory[0].place, "many()");
  EXPECT_EQ(costs.memory[0].pages, 4u);
  EXPECT_EQ(costs.memory[0].faults_ns, 2 * (100u + 101 + 102 + 103));
  EXPECT_EQ(costs.memory[0].read_faults, 8u);
  EXPECT_EQ(costs.memory[0].write_faults, 16u);
}

TEST(Costs, PlaceThatOnlyOneClusterKnowsIsEverybodys) {
  std::vector<Json> clusters = {page("[0, 0]"), page("[0, 0]")};
  clusters[0]["costly_pages"][0]["allocated"] = nullptr;
  EXPECT_EQ(costs_of(clusters).memory.front().place, "f() at f.cpp:2");
}

TEST(Costs, WaitsOfALockAreAddedAndTheLongestStays) {
  const Json one = {{"costly_locks",
                     {{{"lock", 3}, {"locks_ns", 10}, {"waits", 1}, {"longest_ns", 10}},
                      {{"lock", 4}, {"locks_ns", 25}, {"waits", 1}, {"longest_ns", 25}}}}};
  const Json two = {{"costly_locks", {{{"lock", 3}, {"locks_ns", 20}, {"waits", 4}, {"longest_ns", 8}}}}};
  const std::vector<Json> clusters = {one, two};
  const RunCosts costs = costs_of(clusters);
  ASSERT_EQ(costs.locks.size(), 2u);
  EXPECT_EQ(costs.locks[0].lock, 3u);
  EXPECT_EQ(costs.locks[0].locks_ns, 30u);
  EXPECT_EQ(costs.locks[0].waits, 5u);
  EXPECT_EQ(costs.locks[0].longest_ns, 10u);
}

TEST(Costs, LockAtAnAddressIsNamedByWhatItLiesIn) {
  const Json unknown = {{"costly_locks", {{{"lock", 70000}, {"name", "the lock at 0x40"}, {"locks_ns", 9}}}}};
  Json known = unknown;
  known["costly_locks"][0]["allocated"] = {{"place", "f() at f.cpp:2"}, {"offset", 64}};
  EXPECT_EQ(costs_of({{unknown, known}}).locks.at(0).name,
            "the lock at 0x40, 64 bytes into what was allocated in f() at f.cpp:2");
  known["costly_locks"][0]["allocated"] = {{"kind", "global"}, {"place", "table"}, {"offset", 0}};
  EXPECT_EQ(costs_of({{known, unknown}}).locks.at(0).name, "the lock at 0x40, the beginning of global table");
  // A function of the program's may have any name.
  known["costly_locks"][0]["allocated"] = {
      {"kind", "allocation"}, {"place", "global at f.cpp:2"}, {"offset", 0}};
  EXPECT_EQ(costs_of({{known, unknown}}).locks.at(0).name,
            "the lock at 0x40, the beginning of what was allocated in global at f.cpp:2");
  known["costly_locks"][0]["allocated"] = {{"place", 5}, {"offset", "x"}};
  EXPECT_EQ(costs_of({{known}}).locks.at(0).name, "the lock at 0x40");
}

TEST(Costs, AdviceNamesTheMemoryThatCostsMost) {
  EXPECT_THAT(advice_of({page("[0, 2040]"), page("[2048, 4088]")}),
              AllOf(HasSubstr("40 % of the time in page faults"), HasSubstr("whole pages"),
                    HasSubstr("f() at f.cpp:2")));
  EXPECT_THAT(advice_of({page("[8, 8]"), page("[8, 8]")}), HasSubstr("reduce()"));
  EXPECT_THAT(advice_of({page("[0, 2040]"), page(kNothing, 0)}), HasSubstr("fetched ahead"));
  EXPECT_THAT(advice_of({page("[0, 2040]")}), HasSubstr("Placement"));
}

TEST(Costs, AdviceNamesTheLockThatCostsMost) {
  EXPECT_THAT(advice_of({Json::parse(
                  R"({"nodes": [{"locks_ns": 500000000}], "costly_locks": [{"lock": 12, "locks_ns": 9}]})")}),
              AllOf(HasSubstr("50 % of the time waiting for locks"), HasSubstr("lock 12:")));
}

TEST(Costs, NodesThatWaitForOthersToComputeAreLeftOut) {
  // Two threads that compute and call often, and one that joins them.
  const std::vector<Json> clusters = {
      Json::parse(
          R"({"nodes": [{"syncs_ns": 200000000, "sync_calls": 100}, {"syncs_ns": 900000000, "sync_calls": 2}]})"),
      Json::parse(R"({"nodes": [{"syncs_ns": 400000000, "sync_calls": 100}]})")};
  EXPECT_THAT(advice_of(clusters), HasSubstr("30 % of the time in calls of words"));
  const std::vector<Json> computes = {Json::parse(
      R"({"nodes": [{"syncs_ns": 1000000, "sync_calls": 100}, {"syncs_ns": 900000000, "sync_calls": 2}]})")};
  EXPECT_THAT(advice_of(computes), IsEmpty());
}

TEST(Costs, LongCallsOfANodeThatFaultsAreNotCounted) {
  Json cluster = page("[0, 8]");
  cluster["nodes"][0]["syncs_ns"] = 500'000'000;
  cluster["nodes"][0]["sync_calls"] = 3;
  EXPECT_THAT(advice_of({cluster}), HasSubstr("page faults"));
}

TEST(Costs, AdviceForALockOfTheRuntimeIsWhatTheProgramCanChange) {
  const std::string advised = advice_of({Json::parse(
      R"({"nodes": [{"locks_ns": 500000000}], "costly_locks": [{"lock": 4095, "locks_ns": 9,
          "name": "the runtime's lock of keys", "cure": "make fewer keys"}]})")});
  EXPECT_THAT(advised, HasSubstr("most for the runtime's lock of keys: make fewer keys"));
}

TEST(Costs, AdviceNamesTheNodesThatWaitMostAndLeastAtBarriers) {
  const std::vector<Json> clusters = {
      Json::parse(
          R"({"nodes": [{"node": 0, "barriers_ns": 900000000}, {"node": 1, "barriers_ns": 100000000}]})"),
      Json::parse(
          R"({"nodes": [{"node": 2, "barriers_ns": 400000000}, {"node": 3, "barriers_ns": 2000000}]})")};
  EXPECT_THAT(advice_of(clusters),
              HasSubstr("35 % of the time at barriers, node 0 900.0 ms and node 3 2.0 ms"));
}

TEST(Costs, FaultsExplainWaitsAtBarriersThatAreAtMostTwiceAsLong) {
  for (const auto& [barriers, expected] :
       {std::pair(790'000'000u, "page faults"), std::pair(810'000'000u, "barriers")}) {
    Json cluster = page("[0, 8]");
    cluster["nodes"][0]["barriers_ns"] = barriers;
    EXPECT_THAT(advice_of({cluster}), HasSubstr(expected));
  }
}

TEST(Costs, NoAdviceForARunThatComputes) {
  EXPECT_THAT(advice_of({page("[0, 2040]", 5, 90'000'000), page("[2048, 4088]", 5, 90'000'000)}), IsEmpty());
  EXPECT_THAT(advice_of({}), IsEmpty());
}

}  // namespace
}  // namespace braid::cli
