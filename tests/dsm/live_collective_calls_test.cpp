// Collective calls: clusters that make different calls are detected and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "dsm/live/collective_calls.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

CollectiveCall call_of(CallKind kind, decltype(CollectiveCall::numbers) numbers = {},
                       std::string_view name = {}) {
  CollectiveCall call;
  call.kind = kind;
  call.numbers = numbers;
  name.copy(call.name.data(), call.name.size() - 1);
  return call;
}

ByteView bytes_of(const CallMessage& m) {
  return std::as_bytes(std::span(&m, 1));
}

struct Clusters {
  explicit Clusters(unsigned n) {
    for (std::uint16_t k = 0; k < n; ++k) calls.emplace_back(ClusterId(k), n);
  }
  // Cluster `k` makes a call, and all others receive its message.
  void take(std::uint16_t k, const CollectiveCall& call) { tell(k, calls[k].begin(call)); }
  void tell(std::uint16_t k, const CallMessage& m) {
    for (std::uint16_t to = 0; to < calls.size(); ++to) {
      if (to == k) continue;
      EXPECT_TRUE(calls[to].on_message(ClusterId(k), bytes_of(m)));
    }
  }
  std::vector<CollectiveCalls> calls;
};

TEST(CollectiveCalls, IsCompleteWhenAllClustersHaveMadeIt) {
  Clusters c(3);
  const CollectiveCall hello = call_of(CallKind::kJoin, {1, 3, 2, 256}, "jacobi");
  c.take(0, hello);
  EXPECT_FALSE(c.calls[0].complete());
  c.take(2, hello);
  EXPECT_FALSE(c.calls[0].complete());
  c.take(1, hello);
  for (const CollectiveCalls& s : c.calls) EXPECT_TRUE(s.complete());
}

TEST(CollectiveCalls, CallOfAClusterThatIsOneAheadIsKept) {
  Clusters c(2);
  const CallMessage first = c.calls[1].begin(call_of(CallKind::kJoin));
  c.take(0, call_of(CallKind::kJoin));
  ASSERT_TRUE(c.calls[1].complete());
  const CallMessage second = c.calls[1].begin(call_of(CallKind::kParallel));
  // The network has reordered them.
  c.tell(1, second);
  EXPECT_FALSE(c.calls[0].complete());
  c.tell(1, first);
  EXPECT_TRUE(c.calls[0].complete());
  c.take(0, call_of(CallKind::kParallel));
  EXPECT_TRUE(c.calls[0].complete());
}

TEST(CollectiveCalls, DifferentAllocationsAreNamedWithBothSizes) {
  Clusters c(2);
  c.take(0, call_of(CallKind::kAllocate, {4096, 0, 0, 0}));
  c.take(1, call_of(CallKind::kAllocate, {8192, 1, 0, 0}));
  ASSERT_TRUE(c.calls[0].disagreement());
  EXPECT_FALSE(c.calls[0].complete());
  EXPECT_THAT(
      c.calls[0].explain(),
      HasSubstr("cluster 0 allocates 4096 bytes (block) where cluster 1 allocates 8192 bytes (cyclic)"));
}

TEST(CollectiveCalls, DifferentCallsAreNamed) {
  Clusters c(2);
  c.take(0, call_of(CallKind::kParallel));
  c.take(1, call_of(CallKind::kFinish));
  ASSERT_TRUE(c.calls[1].disagreement());
  EXPECT_THAT(c.calls[1].explain(), HasSubstr("cluster 1 called finish() where cluster 0 called parallel()"));
}

TEST(CollectiveCalls, DifferentMachinesAndProgramsAreNamed) {
  Clusters heaps(2);
  heaps.take(0, call_of(CallKind::kJoin, {1, 2, 2, 256}, "jacobi"));
  heaps.take(1, call_of(CallKind::kJoin, {1, 2, 2, 128}, "jacobi"));
  EXPECT_THAT(heaps.calls[0].explain(),
              HasSubstr("BRAID_HEAP_MIB is 256 here in cluster 0, but 128 in cluster 1"));

  Clusters protocols(2);
  protocols.take(0, call_of(CallKind::kJoin, {1, 2, 2, 256, 0}, "jacobi"));
  protocols.take(1, call_of(CallKind::kJoin, {1, 2, 2, 256, 1}, "jacobi"));
  EXPECT_THAT(protocols.calls[0].explain(),
              HasSubstr("BRAID_PROTOCOL (0: eager) is 0 here in cluster 0, but 1 in cluster 1"));

  Clusters lengths(2);
  lengths.take(0, call_of(CallKind::kJoin, {1, 2, 2, 256, 0, 4096}, "jacobi"));
  lengths.take(1, call_of(CallKind::kJoin, {1, 2, 2, 256, 0, 8192}, "jacobi"));
  EXPECT_THAT(lengths.calls[0].explain(),
              HasSubstr("BRAID_PAGE_BYTES is 4096 here in cluster 0, but 8192 in cluster 1"));

  Clusters programs(2);
  programs.take(0, call_of(CallKind::kJoin, {1, 2, 2, 256}, "jacobi"));
  programs.take(1, call_of(CallKind::kJoin, {1, 2, 2, 256}, "matmul"));
  EXPECT_THAT(programs.calls[0].explain(), HasSubstr("cluster 0 runs 'jacobi', but cluster 1 runs 'matmul'"));

  Clusters builds(2);
  CollectiveCall call = call_of(CallKind::kJoin, {1, 2, 2, 256}, "jacobi");
  call.build = 0xab;
  builds.take(0, call);
  call.build = 0xcd;
  builds.take(1, call);
  EXPECT_THAT(
      builds.calls[0].explain(),
      HasSubstr("cluster 0 runs another build of 'jacobi' (build id 00000000000000ab...) than cluster 1 "
                "(00000000000000cd...)"));
}

TEST(CollectiveCalls, RefusesMessagesThatNoClusterSends) {
  CollectiveCalls s(ClusterId(0), 2);
  CallMessage m;
  m.sequence = 1;
  m.call = call_of(CallKind::kJoin);
  EXPECT_FALSE(s.on_message(ClusterId(0), bytes_of(m))) << "our own";
  EXPECT_FALSE(s.on_message(ClusterId(2), bytes_of(m))) << "no such cluster";
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m).first(sizeof m - 1))) << "cut";
  m.sequence = 2;
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m))) << "two calls ahead";
  m.sequence = 1;
  m.call.name.fill('x');
  EXPECT_FALSE(s.on_message(ClusterId(1), bytes_of(m))) << "a name without end";
  m.call.name = {};
  EXPECT_TRUE(s.on_message(ClusterId(1), bytes_of(m)));
}

}  // namespace
}  // namespace braid::dsm
