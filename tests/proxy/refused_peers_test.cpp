#include "proxy/daemon/refused_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using stack::Refusal;
using ::testing::HasSubstr;

TEST(RefusedPeers, EachIsToldOnceForEachReason) {
  RefusedPeers refused;
  for (int again = 0; again < 100; ++again)
    for (const Refusal why : {Refusal::kOtherSecret, Refusal::kNoSecret}) refused.add({ClusterId(3), why});
  refused.add({ClusterId(4), Refusal::kNoSecret});
  std::vector<std::pair<ClusterId, Refusal>> told;
  while (const std::optional<PeerRefused> one = refused.poll()) told.emplace_back(one->cluster, one->why);
  EXPECT_THAT(told, ::testing::ElementsAre(std::pair(ClusterId(3), Refusal::kOtherSecret),
                                           std::pair(ClusterId(3), Refusal::kNoSecret),
                                           std::pair(ClusterId(4), Refusal::kNoSecret)));
  refused.add({ClusterId(4), Refusal::kNoSecret});
  EXPECT_FALSE(refused.poll());
}

TEST(RefusedPeers, TextNamesTheAddressTheCauseAndTheCure) {
  NodeConfig config;
  config.peers.push_back({.cluster = 3, .address = "10.0.0.4", .mac = ""});
  const auto text = [&](std::uint16_t cluster, Refusal why) {
    return RefusedPeers::text(config, {ClusterId(cluster), why});
  };
  EXPECT_EQ(
      text(3, Refusal::kOtherSecret),
      "cluster 3 (10.0.0.4) is refused: it has another secret, or what it sends is changed on the way; give every "
      "node the same security.secret_file (docs/SECURITY.md)");
  EXPECT_THAT(text(3, Refusal::kNoSecret),
              HasSubstr("it is not sealed, and this node is; give both the same security.mode"));
  EXPECT_THAT(text(3, Refusal::kUnexpectedSecret), HasSubstr("it is sealed, and this node is not"));
  EXPECT_THAT(text(9, Refusal::kNoSecret), HasSubstr("a cluster of another machine is refused"));
}

}  // namespace
}  // namespace braid::proxy
