// Clusters in one process for the tests: a Node each, a shm wire between every two, driven by whichever
// client waits. And messages whose every byte is known.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"
#include "proxy/nic/shm_wire.h"
#include "tests/virtual_security.h"

namespace braid::proxy::test {

struct NodesOptions {
  std::vector<std::uint16_t> proxies = {1, 1};  // by cluster
  TransportConfig transport;
  FaultConfig faults;
  bool misdirect = false;
  unsigned frames_per_ring = 256;
  std::vector<Protocols> protocols = {};  // by cluster; none: Braid's own
  bool sealed = false;                    // packets are
};

// The configuration of one node of a machine; wires[a][b] is the descriptor between clusters a < b.
inline NodeConfig node_config(const NodesOptions& o, std::uint16_t cluster,
                              const std::map<std::pair<int, int>, int>& wires) {
  const auto clusters = static_cast<std::uint16_t>(o.proxies.size());
  const auto mac = [](unsigned c) { return fmt::format("02:62:72:64:00:{:02x}", c + 1); };
  const auto address = [](unsigned c) { return fmt::format("10.98.0.{}", c + 1); };
  NodeConfig n;
  n.cluster = cluster;
  n.clusters = clusters;
  n.proxies = o.proxies[cluster];
  n.address = address(cluster);
  n.mac = mac(cluster);
  n.transport = o.transport;
  n.faults = o.faults;
  n.misdirect = o.misdirect;
  n.seed = 77 + cluster;
  n.listen_address = "@unused";  // no socket is needed in one process
  for (std::uint16_t c = 0; c < clusters; ++c) {
    if (c == cluster) continue;
    LinkConfig link;
    link.fd = wires.at({std::min(c, cluster), std::max(c, cluster)});
    link.first_side = cluster < c;
    n.links.push_back(link);
    PeerConfig peer;
    peer.cluster = c;
    peer.proxies = o.proxies[c];
    peer.address = address(c);
    peer.udp_port = 7700;
    peer.mac = mac(c);
    peer.link = static_cast<std::uint16_t>(n.links.size() - 1);
    n.peers.push_back(peer);
  }
  return n;
}

inline std::map<std::pair<int, int>, int> make_wires(const NodesOptions& o) {
  std::map<std::pair<int, int>, int> wires;
  for (int a = 0; a < static_cast<int>(o.proxies.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(o.proxies.size()); ++b) {
      ShmWireOptions wire;
      wire.queues = std::max(o.proxies[a], o.proxies[b]);
      wire.frames_per_ring = o.frames_per_ring;
      Result<int> fd = create_shm_wire(wire);
      CHECK(fd.ok());
      wires[{a, b}] = fd.value();
    }
  }
  return wires;
}

class Nodes {
 public:
  explicit Nodes(const NodesOptions& options) : options_(options) {
    const auto wires = make_wires(options);
    for (std::uint16_t c = 0; c < options.proxies.size(); ++c) {
      NodeSurroundings surroundings;
      if (!options.protocols.empty()) surroundings.protocols = options.protocols[c];
      if (options.sealed) surroundings.security = virtual_security(c);
      Result<std::unique_ptr<Node>> node =
          Node::create(node_config(options, c, wires), monotonic_now(), surroundings);
      if (!node) ADD_FAILURE() << node.error().text;
      CHECK(node.ok());
      nodes_.push_back(std::move(node).value());
    }
    for (const auto& [ends, fd] : wires) ::close(fd);
  }
  explicit Nodes(std::vector<std::uint16_t> proxies) : Nodes(with_proxies(std::move(proxies))) {}

  std::shared_ptr<Node> node(unsigned cluster) { return nodes_[cluster]; }
  std::size_t clusters() const { return nodes_.size(); }

  // A client that drives every node while it waits.
  std::unique_ptr<Client> client(unsigned cluster, const ClientOptions& options = {}) {
    Result<std::unique_ptr<Client>> made = try_client(cluster, options);
    if (!made) ADD_FAILURE() << made.error().text;
    CHECK(made.ok());
    return std::move(made).value();
  }
  Result<std::unique_ptr<Client>> try_client(unsigned cluster, const ClientOptions& options = {}) {
    std::vector<std::shared_ptr<Node>> others;
    for (unsigned c = 0; c < nodes_.size(); ++c)
      if (c != cluster) others.push_back(nodes_[c]);
    return Client::attach(in_process_service(nodes_[cluster], others), options);
  }
  // A client that drives its own node only.
  std::unique_ptr<Client> lonely_client(unsigned cluster, const ClientOptions& options = {}) {
    auto made = Client::attach(in_process_service(nodes_[cluster]), options);
    CHECK(made.ok());
    return std::move(made).value();
  }

  // One turn of every node.
  int turn() {
    const Instant now = monotonic_now();
    int work = 0;
    for (const auto& node : nodes_) {
      for (unsigned p = 0; p < node->proxies(); ++p) work += node->worker(p).do_work(now);
      work += node->do_control(now);
    }
    return work;
  }
  void run(Duration time) {
    for (const Instant end = monotonic_now() + time; monotonic_now() < end;) turn();
  }

  // The sum over a node's proxies.
  std::uint64_t sum(unsigned cluster, Counter ProxyCounters::*counter) {
    std::uint64_t total = 0;
    for (unsigned p = 0; p < nodes_[cluster]->proxies(); ++p)
      total += (nodes_[cluster]->counters(p).*counter).get();
    return total;
  }

 private:
  static NodesOptions with_proxies(std::vector<std::uint16_t> proxies) {
    NodesOptions o;
    o.proxies = std::move(proxies);
    return o;
  }

  NodesOptions options_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

// Calls `step` until `done` is true; false if it never is.
template <class Step, class Done>
[[nodiscard]] bool until(Step&& step, Done&& done, Duration timeout = 30_s) {
  for (const Instant deadline = monotonic_now() + timeout; !done();) {
    if (monotonic_now() >= deadline) return false;
    step();
  }
  return true;
}

// Message `number` of a stream: its number, then bytes made from it. Torn, stale or swapped ones do not
// match.
inline std::vector<std::byte> numbered(std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> m(bytes);
  Prng prng(number);
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) store(m.data() + i, prng.next());
  for (; i < bytes; ++i) m[i] = static_cast<std::byte>(prng.next());
  if (bytes >= 4) store(m.data(), number);
  return m;
}
inline std::uint32_t number_of(ByteView m) {
  return m.size() >= 4 ? load<std::uint32_t>(m.data()) : 0xffffffff;
}
inline bool intact(ByteView m) {
  const std::vector<std::byte> expected = numbered(number_of(m), m.size());
  return m.size() >= 4 && std::equal(m.begin(), m.end(), expected.begin());
}

// Both ends of a connection from cluster `from` to a listener of `to`.
struct Pair {
  Connection* out = nullptr;
  Connection* in = nullptr;
};
inline Pair connect(Endpoint& from, ClusterId to_cluster, Endpoint& to, PortId port,
                    const ConnectionOptions& options = {}) {
  const Result<void> listening = to.listen(port, options);
  EXPECT_TRUE(listening.ok()) << listening.error().text;
  const Result<Connection*> out = from.connect(to_cluster, port, options, 20_s);
  EXPECT_TRUE(out.ok()) << out.error().text;
  const Result<Connection*> in = to.accept(20_s);
  EXPECT_TRUE(in.ok()) << in.error().text;
  CHECK(out.ok() && in.ok());
  return {out.value(), in.value()};
}

// A turn of two ends that send both ways: one message each, and the arrivals, which are what was sent
// and in its order. Returns how many came.
inline int talk_both_ways(const Pair& ends, Endpoint& from, Endpoint& to, std::array<std::uint32_t, 2>& sent,
                          std::array<std::uint32_t, 2>& got) {
  if (ends.out->try_send(numbered(sent[0], 100)) == SendStatus::kSent) ++sent[0];
  if (ends.in->try_send(numbered(sent[1], 100)) == SendStatus::kSent) ++sent[1];
  const auto take = [&](Connection& at, ByteView message) {
    if (&at != ends.out && &at != ends.in) return;
    std::uint32_t& next = got[&at == ends.in ? 0 : 1];
    ASSERT_TRUE(intact(message));
    ASSERT_EQ(number_of(message), next);
    ++next;
  };
  const int came = from.poll(take);
  return came + to.poll(take);
}

inline auto ignore() {
  return [](Connection&, ByteView) {};
}

}  // namespace braid::proxy::test
