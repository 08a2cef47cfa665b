#include "proxy/daemon/remote_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ClusterId kNear{1}, kFar{4};

RemotePath path(unsigned local, ClusterId cluster, unsigned remote) {
  const ProxyId theirs(static_cast<std::uint8_t>(remote));
  RemotePath r{{ProxyId(static_cast<std::uint8_t>(local)), cluster, theirs}, {}};
  r.stack.id = {cluster, theirs};
  r.stack.address = *stack::Ipv4Address::parse("10.0.0.7");
  r.stack.udp_port = static_cast<std::uint16_t>(7700 + remote);
  return r;
}

TEST(RemotePaths, ProblemsNamePathsThatAreNotUpAndWhy) {
  RemotePaths paths;
  for (unsigned p = 0; p < 3; ++p) paths.add(path(p, kNear, p));
  paths.set_unreachable(path(1, kNear, 1).path, stack::Unreachable::kPort);
  paths.set_unreachable(path(0, kFar, 0).path, stack::Unreachable::kPort);  // not known
  const auto is_up = [](const convergence::PathId& id) { return id.local == ProxyId(0); };
  EXPECT_EQ(paths.problems(kNear, is_up), std::string("10.0.0.7:7701 ") +
                                              stack::to_string(stack::Unreachable::kPort) +
                                              ", 10.0.0.7:7702 is silent");
  EXPECT_EQ(paths.problems(kNear, [](const auto&) { return true; }), "");
  EXPECT_EQ(paths.problems(kFar, [](const auto&) { return false; }), "");
}

TEST(RemotePaths, ProblemsFitIntoARefusal) {
  RemotePaths paths;
  for (unsigned p = 0; p < 32; ++p) paths.add(path(p, kNear, p));
  const std::string text = paths.problems(kNear, [](const auto&) { return false; });
  EXPECT_LE(text.size(), 105u);
  EXPECT_TRUE(text.ends_with(", …")) << text;
}

TEST(RemotePaths, ClustersComeAndGo) {
  RemotePaths paths;
  paths.add(path(0, kFar, 0));
  paths.add(path(0, kNear, 0));
  paths.add(path(1, kNear, 1));
  EXPECT_THAT(paths.clusters(), ElementsAre(kNear, kFar));
  EXPECT_EQ(paths.of(kNear).size(), 2u);
  paths.erase(kNear);
  EXPECT_THAT(paths.of(kNear), IsEmpty());
  EXPECT_THAT(paths.clusters(), ElementsAre(kFar));
}

TEST(RemotePaths, ClusterIsDrainedWhenEveryProxyHasDroppedIt) {
  RemotePaths paths;
  paths.add(path(0, kFar, 0));
  paths.drain(kFar, {0, 1, 2});
  EXPECT_TRUE(paths.draining(kFar));
  EXPECT_FALSE(paths.draining(kNear));
  paths.drained(kFar, 0);
  paths.drained(kNear, 1);  // it was not requested
  paths.proxy_fenced(1);    // it has dropped everything
  EXPECT_THAT(paths.drained(), IsEmpty());
  paths.drained(kFar, 2);
  EXPECT_THAT(paths.drained(), ElementsAre(kFar));
  paths.erase(kFar);
  EXPECT_FALSE(paths.draining(kFar));
  EXPECT_THAT(paths.drained(), IsEmpty());
}

}  // namespace
}  // namespace braid::proxy
