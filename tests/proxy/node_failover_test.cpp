// Paths, NIs and proxies that die and come back under traffic, and proxies that are set aside, in virtual
// time: whole nodes with clients, on a wire of which every path can be cut in either direction.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

constexpr Duration kLatency = 10_us;
constexpr Duration kTurn = 2_us;
constexpr std::uint16_t kPort = 7700;

class World;

// The queue of one proxy on its node's only link.
class VirtualQueue final : public NicQueue {
 public:
  VirtualQueue(World& world, unsigned cluster, unsigned proxy)
      : world_(world), cluster_(cluster), proxy_(proxy), room_(kMaxBurst) {
    for (auto& r : room_) r.resize(1514);
  }
  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<TxFrame> frames) override {
    const std::size_t n = std::min(frames.size(), kMaxBurst);
    for (std::size_t i = 0; i < n; ++i) frames[i] = {room_[i].data(), 1514, 0};
    return n;
  }
  void commit(std::span<const TxFrame> frames) override;
  std::uint32_t max_frame_bytes() const override { return 1514; }

 private:
  World& world_;
  unsigned cluster_;
  unsigned proxy_;
  std::vector<std::vector<std::byte>> room_;
  std::vector<std::vector<std::byte>> arrived_;
};

struct Place {
  unsigned cluster = 0;
  unsigned proxy = 0;
  auto operator<=>(const Place&) const = default;
};

class World {
 public:
  explicit World(std::vector<std::uint16_t> proxies, bool all_pairs = false) : proxies_(std::move(proxies)) {
    for (std::uint16_t c = 0; c < proxies_.size(); ++c) nodes_.push_back(make_node(c, 77 + c, all_pairs));
    all_pairs_ = all_pairs;
  }

  std::shared_ptr<Node> make_node(std::uint16_t c, std::uint64_t seed, bool all_pairs) {
    const auto mac = [](unsigned k) { return fmt::format("02:62:72:64:00:{:02x}", k + 1); };
    const auto address = [](unsigned k) { return fmt::format("10.98.0.{}", k + 1); };
    NodeConfig n;
    n.cluster = c;
    n.clusters = static_cast<std::uint16_t>(proxies_.size());
    n.proxies = proxies_[c];
    n.address = address(c);
    n.mac = mac(c);
    n.seed = seed;
    n.listen_address = "@unused";
    n.transport.all_pairs = all_pairs;
    n.transport.path_death_ms = 5;
    n.transport.peer_death_ms = 100;
    n.transport.max_rto_us = 2000;
    n.links.resize(1);
    n.links[0].fd = 0;
    for (std::uint16_t k = 0; k < proxies_.size(); ++k) {
      if (k == c) continue;
      PeerConfig peer;
      peer.cluster = k;
      peer.proxies = proxies_[k];
      peer.address = address(k);
      peer.udp_port = kPort;
      peer.mac = mac(k);
      n.peers.push_back(peer);
    }
    Result<std::unique_ptr<Node>> node =
        Node::create(n, now, [&](LinkId, unsigned p) { return std::make_unique<VirtualQueue>(*this, c, p); });
    CHECK(node.ok());
    return std::move(node).value();
  }
  void restart(std::uint16_t c) {
    nodes_[c].reset();
    for (auto& [place, frames] : wire_)
      if (place.cluster == c) frames.clear();
    nodes_[c] = make_node(c, 1000 + c, all_pairs_);
  }

  Node& node(unsigned c) { return *nodes_[c]; }
  std::shared_ptr<Node> shared(unsigned c) { return nodes_[c]; }
  std::unique_ptr<Client> client(unsigned c);

  int turn() {
    now = now + kTurn;
    int work = 0;
    for (unsigned c = 0; c < nodes_.size(); ++c) {
      for (unsigned p = 0; p < nodes_[c]->proxies(); ++p)
        if (!stalled.contains({c, p})) work += nodes_[c]->worker(p).do_work(now);
      work += nodes_[c]->do_control(now);
    }
    return work;
  }
  void run(Duration time) {
    for (const Instant end = now + time; now < end;) turn();
  }

  void send(const Place& from, ByteView frame) {
    const unsigned to_cluster = load<std::uint8_t>(frame.data() + 33) - 1u;  // the last byte of the address
    const unsigned to_proxy = load_be<std::uint16_t>(frame.data() + 36) - unsigned{kPort};
    if (cut.contains({from, {to_cluster, to_proxy}})) return;
    wire_[{to_cluster, to_proxy}].push_back({now + kLatency, {frame.begin(), frame.end()}});
  }
  std::optional<std::vector<std::byte>> receive(const Place& at) {
    auto& frames = wire_[at];
    if (frames.empty() || frames.front().first > now) return std::nullopt;
    std::vector<std::byte> frame = std::move(frames.front().second);
    frames.pop_front();
    return frame;
  }
  // Everything that goes through the NI of a proxy, in either direction.
  void cut_ni(const Place& ni, bool dark = true) {
    for (unsigned c = 0; c < proxies_.size(); ++c)
      for (unsigned p = 0; p < proxies_[c]; ++p) {
        if (dark) {
          cut.insert({ni, {c, p}});
          cut.insert({{c, p}, ni});
        } else {
          cut.erase({ni, {c, p}});
          cut.erase({{c, p}, ni});
        }
      }
  }
  std::uint64_t sum(unsigned c, Counter ProxyCounters::*counter) {
    std::uint64_t total = 0;
    for (unsigned p = 0; p < nodes_[c]->proxies(); ++p) {
      total += (nodes_[c]->counters(p).*counter).get();
    }
    return total;
  }

  Instant now = Instant() + 1_s;
  std::set<std::pair<Place, Place>> cut;  // from, to
  std::set<Place> stalled;

 private:
  std::vector<std::uint16_t> proxies_;
  bool all_pairs_ = false;
  std::map<Place, std::deque<std::pair<Instant, std::vector<std::byte>>>> wire_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

std::size_t VirtualQueue::receive(std::span<MutableBytes> frames) {
  arrived_.clear();
  while (arrived_.size() < std::min(frames.size(), kMaxBurst)) {
    std::optional<std::vector<std::byte>> frame = world_.receive({cluster_, proxy_});
    if (!frame) break;
    arrived_.push_back(std::move(*frame));
  }
  for (std::size_t i = 0; i < arrived_.size(); ++i) frames[i] = arrived_[i];
  return arrived_.size();
}
void VirtualQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& f : frames) world_.send({cluster_, proxy_}, {f.data, f.length});
}

class WorldService final : public Service {
 public:
  WorldService(World& world, unsigned cluster)
      : world_(world), node_(world.shared(cluster)), client_(node_->add_client()) {}
  ~WorldService() override {
    node_->client_gone(client_);
    node_.reset();
    for (int i = 0; i < 2000; ++i) world_.turn();
  }
  Result<control::Message> call(const control::Message& request, Duration timeout, int* fd) override {
    control::Message message = request;
    message.serial = ++serial_;
    const Instant deadline = world_.now + timeout;
    node_->on_request(world_.now, client_, message);
    for (;;) {
      world_.turn();
      while (const std::optional<Node::Outbound> out = node_->poll_outbound(client_)) {
        if (out->message.serial != message.serial) {
          events_.push_back(out->message);
          continue;
        }
        if (out->message.kind == control::Kind::kRefused) return error("{}", out->message.refused.text);
        if (fd != nullptr && out->fd >= 0) *fd = ::dup(out->fd);
        return out->message;
      }
      if (world_.now >= deadline) return error("no answer");
    }
  }
  bool next_event(unsigned endpoint, control::Message* event) override {
    while (const std::optional<Node::Outbound> out = node_->poll_outbound(client_))
      events_.push_back(out->message);
    const auto found = std::find_if(events_.begin(), events_.end(), [&](const control::Message& m) {
      return m.kind == control::Kind::kOpened && m.opened.endpoint == endpoint;
    });
    if (found == events_.end()) return false;
    *event = *found;
    events_.erase(found);
    return true;
  }
  void wait_for_event(Duration) override { world_.turn(); }
  int turn() override { return world_.turn(); }
  bool alive() override { return node_->has_client(client_); }
  Instant now() override { return world_.now; }

 private:
  World& world_;
  std::shared_ptr<Node> node_;
  Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::deque<control::Message> events_;
};

std::unique_ptr<Client> World::client(unsigned c) {
  auto made = Client::attach(std::make_unique<WorldService>(*this, c), {});
  CHECK(made.ok());
  return std::move(made).value();
}

// One connection each way between clusters 0 and 1, and how far each has come.
struct Traffic {
  explicit Traffic(World& w, bool ordered = true) : world(w), a(w.client(0)), b(w.client(1)) {
    ConnectionOptions options;
    options.ordered = ordered;
    pair = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), PortId(9), options);
    is_ordered = ordered;
  }
  // As many messages each way as there is room for, and what has arrived.
  void turn(bool send = true) {
    for (int i = 0; send && i < 4; ++i) {
      if (pair.out->try_send(numbered(sent[0], size(sent[0]))) == SendStatus::kSent) ++sent[0];
      if (pair.in->try_send(numbered(sent[1], size(sent[1]))) == SendStatus::kSent) ++sent[1];
    }
    const auto take = [&](Connection& at, ByteView message) {
      const int way = &at == pair.in ? 0 : 1;
      ASSERT_TRUE(intact(message));
      const std::uint32_t n = number_of(message);
      ASSERT_TRUE(got[way].insert(n).second) << "message " << n << " came twice";
      ASSERT_TRUE(!is_ordered || n == got[way].size() - 1) << n << " after " << got[way].size() - 1;
    };
    a->endpoint(0).poll(take);
    b->endpoint(0).poll(take);
  }
  void run(Duration time) {
    for (const Instant end = world.now + time; world.now < end;) turn();
  }
  // Everything that was sent arrives.
  [[nodiscard]] bool settles(Duration within) {
    const auto all = [&] { return got[0].size() == sent[0] && got[1].size() == sent[1]; };
    for (const Instant end = world.now + within; world.now < end && !all();) turn(false);
    return all();
  }
  static std::size_t size(std::uint32_t n) { return n % 7 == 0 ? 9000 : n % 5 == 0 ? 1400 : 100; }

  World& world;
  std::unique_ptr<Client> a;
  std::unique_ptr<Client> b;
  Pair pair;
  bool is_ordered = true;
  std::array<std::uint32_t, 2> sent{};
  std::array<std::set<std::uint32_t>, 2> got;
};

// With and without a sub-connection for every pair of proxies.
class Failover : public ::testing::TestWithParam<bool> {
 protected:
  bool all_pairs() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Pairs, Failover, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "AllPairs" : "Aligned"; });

TEST_P(Failover, WhatADeadPathOwedGoesOverTheOthersOnceAndInOrder) {  // FO-1, FO-2, FO-4
  World world({2, 2}, all_pairs());
  Traffic t(world);
  t.run(2_ms);
  world.cut_ni({0, 1});
  t.run(1_ms);
  const std::uint32_t before = t.sent[0];
  t.run(20_ms);
  EXPECT_GT(t.sent[0], before);
  EXPECT_TRUE(t.settles(20_ms));
  EXPECT_GT(world.sum(0, &ProxyCounters::failed_over), 0u);
  EXPECT_GT(world.sum(1, &ProxyCounters::failed_over), 0u);
  EXPECT_GE(world.node(0).path_stats().fenced, 1u);

  // It comes back, and is used again.
  world.cut_ni({0, 1}, false);
  world.run(300_ms);
  const std::uint64_t through = world.node(0).counters(1).messages_sent.get();
  const std::uint64_t lent = world.node(0).counters(1).lent.get();
  t.run(5_ms);
  EXPECT_TRUE(t.settles(20_ms));
  world.run(1_ms);
  EXPECT_GT(world.node(0).counters(1).messages_sent.get(), through);
  EXPECT_EQ(world.node(0).counters(1).lent.get(), lent);
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

TEST_P(Failover, WhenOnlyTheAcknowledgementsAreLostNothingComesTwice) {  // FO-9
  World world({2, 2}, all_pairs());
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    Traffic t(world, ordered);
    t.run(2_ms);
    // Proxy 1 of cluster 0 is heard and hears nothing.
    for (unsigned p = 0; p < 2; ++p) world.cut.insert({{1, p}, {0, 1}});
    t.run(20_ms);
    EXPECT_TRUE(t.settles(20_ms));
    EXPECT_GT(world.sum(1, &ProxyCounters::redelivered) + world.sum(1, &ProxyCounters::stale_records), 0u);
    world.cut.clear();
    world.run(300_ms);
  }
}

TEST_P(Failover, ManyDeathsAndReturns) {  // FO-1, FO-3, FO-4
  World world({3, 2}, all_pairs());
  Traffic t(world);
  Prng prng(4711);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    world.cut.clear();
    // One NI, or one direction of one path, and sometimes nothing.
    if (prng.chance(0.5)) world.cut_ni({prng.chance(0.5) ? 0u : 1u, static_cast<unsigned>(prng.below(2))});
    if (prng.chance(0.5)) world.cut.insert({{0, static_cast<unsigned>(prng.below(3))}, {1, 0}});
    t.run(Duration::us(static_cast<std::int64_t>(500 + prng.below(12'000))));
    ASSERT_FALSE(HasFatalFailure());
  }
  world.cut.clear();
  EXPECT_TRUE(t.settles(400_ms));
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
  EXPECT_EQ(world.node(0).path_stats().peers_lost, 0u);
}

TEST_P(Failover, AProxyThatStandsStillIsFencedAndItsLanesGoOn) {  // FO-5, FO-6
  World world({2, 2}, all_pairs());
  Traffic t(world);
  t.run(2_ms);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    const Place sleeper{static_cast<unsigned>(round % 2), 1};
    world.stalled.insert(sleeper);
    t.run(1_ms);
    const std::uint32_t before = t.sent[0];
    t.run(30_ms);
    EXPECT_GT(t.sent[0], before + 100);
    EXPECT_TRUE(t.settles(30_ms));
    EXPECT_EQ(world.node(sleeper.cluster).poll_fenced_proxy(), std::optional<unsigned>(1));
    // It wakes, with frames and descriptors of long ago before it.
    t.run(1_ms);
    world.stalled.clear();
    t.run(10_ms);
    EXPECT_TRUE(t.settles(30_ms));
    world.run(300_ms);
    const std::uint64_t through = world.node(sleeper.cluster).counters(1).messages_received.get();
    t.run(5_ms);
    EXPECT_TRUE(t.settles(30_ms));
    world.run(1_ms);
    EXPECT_GT(world.node(sleeper.cluster).counters(1).messages_received.get(), through) << "it is used again";
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
}

TEST_P(Failover, ConnectionsComeAndGoWhileAProxyStandsStill) {  // FO-5, CN-6
  World world({2, 2}, all_pairs());
  Traffic t(world);
  t.run(1_ms);
  EXPECT_TRUE(t.settles(10_ms));
  world.stalled.insert({1, 0});
  for (int i = 0; i < 5; ++i) {
    Pair p = connect(t.a->endpoint(0), ClusterId(1), t.b->endpoint(0), PortId(20 + static_cast<unsigned>(i)));
    for (int n = 0; n < 10; ++n) ASSERT_EQ(p.out->try_send(numbered(1, 64)), SendStatus::kSent);
    t.a->endpoint(0).close(p.out);
    int got = 0;
    for (const Instant end = world.now + 100_ms; world.now < end && got < 10;)
      t.b->endpoint(0).poll([&](Connection& at, ByteView m) {
        if (&at == p.in && intact(m)) ++got;
      });
    EXPECT_EQ(got, 10);
    for (const Instant end = world.now + 100_ms; world.now < end && p.in->state() == ConnectionState::kOpen;)
      world.turn();
    EXPECT_EQ(p.in->state(), ConnectionState::kPeerClosed);
    t.b->endpoint(0).close(p.in);
  }
  world.stalled.clear();
  world.run(20_ms);
  t.run(2_ms);
  EXPECT_TRUE(t.settles(30_ms));
}

TEST_P(Failover, TheNumberOfActiveProxiesChangesUnderTraffic) {  // FO-8
  World world({3, 2}, all_pairs());
  Traffic t(world);
  t.run(1_ms);
  for (const unsigned n : {1u, 3u, 2u, 1u, 2u, 3u, 1u}) {
    SCOPED_TRACE(n);
    world.node(0).set_active_proxies(n);
    world.node(1).set_active_proxies(n % 2 + 1);
    t.run(2_ms);
    std::vector<std::uint64_t> before;
    for (unsigned p = 0; p < 3; ++p) before.push_back(world.node(0).counters(p).messages_sent.get());
    t.run(4_ms);
    for (unsigned p = 0; p < 3; ++p) {
      const std::uint64_t sent = world.node(0).counters(p).messages_sent.get() - before[p];
      EXPECT_EQ(sent > 0, p < n) << "proxy " << p << " sent " << sent;
    }
    EXPECT_TRUE(t.settles(20_ms));
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(world.node(0).path_stats().fenced, 0u);
}

TEST_P(Failover, APeerThatRestartsIsLostOnceHoweverManyPathsItHad) {  // FO-7
  World world({2, 2}, all_pairs());
  {
    Traffic t(world);
    t.run(2_ms);
    world.restart(1);
    for (const Instant end = world.now + 50_ms;
         world.now < end && t.pair.out->state() == ConnectionState::kOpen;)
      world.turn();
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kPeerLost);
    t.a.reset();
  }
  // A connection that is made at once lives, whoever hears late of the old one's end.
  Traffic again(world);
  again.run(30_ms);
  EXPECT_TRUE(again.settles(20_ms));
  EXPECT_EQ(again.pair.out->state(), ConnectionState::kOpen);
  EXPECT_EQ(world.node(0).path_stats().peers_lost, 1u);
}

TEST_P(Failover, APeerThatIsNotHeardOnAnyPathIsLostAndFoundAgain) {  // FO-7, SC-8
  World world({2, 2}, all_pairs());
  {
    Traffic t(world);
    t.run(2_ms);
    world.cut_ni({0, 0});
    world.cut_ni({0, 1});
    t.run(50_ms);
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kOpen);
    world.run(150_ms);
    EXPECT_EQ(t.pair.out->state(), ConnectionState::kPeerLost);
    EXPECT_EQ(t.pair.in->state(), ConnectionState::kPeerLost);
    world.cut.clear();
    world.run(300_ms);
  }
  Traffic again(world);
  again.run(5_ms);
  EXPECT_TRUE(again.settles(20_ms));
  EXPECT_EQ(again.pair.out->state(), ConnectionState::kOpen);
}

}  // namespace
}  // namespace braid::proxy::test
