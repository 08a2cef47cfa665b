// Whole nodes with clients in one thread and in virtual time, on a wire of which every path can be cut in
// either direction, and whose NIs may have a rate.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "sim/link.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {

struct VirtualWorldOptions {
  std::vector<std::uint16_t> proxies = {1, 1};  // by cluster
  bool all_pairs = false;
  unsigned nis = 1;                   // of each cluster: proxy i is reached at number i modulo so many
  std::uint64_t bits_per_second = 0;  // of each NI; 0: no limit
  Duration latency = 10_us;
  Duration turn = 2_us;  // of everything: that is how often a proxy looks
  // By cluster: the logical machine that it belongs to, which numbers its clusters for itself; none: all are
  // of one. And what its node says about other machines.
  std::vector<unsigned> machine = {};
  std::vector<MachinesConfig> machines = {};
};

inline constexpr std::uint16_t kUdpPort = 7700;

class VirtualWorld;

// The queue of one proxy on an NI of its node.
class VirtualQueue final : public NicQueue {
 public:
  VirtualQueue(VirtualWorld& world, unsigned cluster, unsigned proxy, unsigned ni)
      : world_(world), cluster_(cluster), proxy_(proxy), ni_(ni), room_(kMaxBurst) {
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
  VirtualWorld& world_;
  unsigned cluster_;
  unsigned proxy_;
  unsigned ni_;
  std::vector<std::vector<std::byte>> room_;
  std::vector<std::vector<std::byte>> arrived_;
};

struct Place {
  unsigned cluster = 0;
  unsigned proxy = 0;
  auto operator<=>(const Place&) const = default;
};

class VirtualWorld {
 public:
  explicit VirtualWorld(VirtualWorldOptions options)
      : options_(std::move(options)), proxies_(options_.proxies) {
    sim::LinkConfig link;
    link.bits_per_second = options_.bits_per_second == 0 ? 1'000'000'000'000'000 : options_.bits_per_second;
    link.propagation = options_.latency;
    link.queue_bytes = 4u << 20;
    for (std::uint16_t c = 0; c < proxies_.size(); ++c) {
      links_.emplace_back(options_.nis, sim::Link(link));
      nodes_.push_back(make_node(c, 77 + c));
    }
  }
  VirtualWorld(std::vector<std::uint16_t> proxies, bool all_pairs)
      : VirtualWorld(VirtualWorldOptions{.proxies = std::move(proxies), .all_pairs = all_pairs}) {}

  std::shared_ptr<Node> make_node(std::uint16_t c, std::uint64_t seed) {
    const auto mac = [](unsigned k, unsigned ni) {
      return fmt::format("02:62:72:64:{:02x}:{:02x}", ni, k + 1);
    };
    const auto address = [](unsigned k, unsigned ni) { return fmt::format("10.98.{}.{}", ni, k + 1); };
    NodeConfig n;
    n.cluster = number_of(c);
    n.clusters = 0;
    for (std::uint16_t k = 0; k < proxies_.size(); ++k)
      if (machine_of(k) == machine_of(c)) ++n.clusters;
    n.proxies = proxies_[c];
    if (!options_.machines.empty()) n.machines = options_.machines[c];
    n.address = address(c, 0);
    n.mac = mac(c, 0);
    n.seed = seed;
    n.listen_address = "@unused";
    n.transport.all_pairs = options_.all_pairs;
    n.transport.path_death_ms = 5;
    n.transport.peer_death_ms = 100;
    n.transport.max_rto_us = 2000;
    n.links.resize(options_.nis);
    for (unsigned ni = 0; ni < options_.nis; ++ni) {
      n.links[ni].kind = LinkConfig::Kind::kEthdev;
      n.links[ni].device = "in this process";
      n.links[ni].address = address(c, ni);
      n.links[ni].mac = mac(c, ni);
      n.links[ni].prefix_bits = 24;
    }
    for (std::uint16_t k = 0; k < proxies_.size(); ++k) {
      if (k == c || machine_of(k) != machine_of(c)) continue;
      PeerConfig peer;
      peer.cluster = number_of(k);
      peer.proxies = proxies_[k];
      peer.address = address(k, 0);
      peer.udp_port = kUdpPort;
      peer.mac = mac(k, 0);
      for (std::uint16_t ni = 1; ni < options_.nis; ++ni)
        peer.more_nis.push_back({address(k, ni), mac(k, ni), ni});
      n.peers.push_back(peer);
    }
    Result<std::unique_ptr<Node>> node = Node::create(n, now, [&](LinkId link, unsigned p) {
      return std::make_unique<VirtualQueue>(*this, c, p, link.value());
    });
    CHECK(node.ok());
    return std::move(node).value();
  }
  unsigned machine_of(unsigned c) const { return options_.machine.empty() ? 0 : options_.machine[c]; }
  // What its own machine calls it.
  std::uint16_t number_of(unsigned c) const {
    std::uint16_t number = 0;
    for (unsigned k = 0; k < c; ++k)
      if (machine_of(k) == machine_of(c)) ++number;
    return number;
  }
  void restart(std::uint16_t c) {
    nodes_[c].reset();
    for (auto& [place, frames] : wire_)
      if (place.cluster == c) frames.clear();
    nodes_[c] = make_node(c, 1000 + c);
  }

  Node& node(unsigned c) { return *nodes_[c]; }
  std::shared_ptr<Node> shared(unsigned c) { return nodes_[c]; }
  std::unique_ptr<Client> client(unsigned c, const ClientOptions& options = {});

  int turn() {
    now = now + options_.turn;
    if (each_turn && !std::exchange(in_turn_, true)) {
      each_turn();  // which takes turns of its own
      in_turn_ = false;
    }
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

  void send(const Place& from, unsigned ni, ByteView frame) {
    // The last byte of the address. What is not for a proxy's port is proxy 0's: ARP, datagrams.
    const bool arp = load_be<std::uint16_t>(frame.data() + 12) == 0x0806;
    const unsigned to_cluster = load<std::uint8_t>(frame.data() + (arp ? 41 : 33)) - 1u;
    unsigned to_proxy = arp ? 0 : load_be<std::uint16_t>(frame.data() + 36) - unsigned{kUdpPort};
    if (to_proxy >= kMaxProxies) to_proxy = 0;
    if (cut.contains({from, {to_cluster, to_proxy}})) return;
    const sim::Link::Transit transit =
        links_[from.cluster][ni].offer(now, static_cast<std::uint32_t>(frame.size()));
    if (transit.verdict != sim::Link::Verdict::kCarried) return;
    // A proxy has a queue on each NI, and looks at all of them.
    wire_[{to_cluster, to_proxy}][ni].push_back({transit.arrives, {frame.begin(), frame.end()}});
  }
  std::optional<std::vector<std::byte>> receive(const Place& at, unsigned ni) {
    auto& frames = wire_[at][ni];
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
  std::function<void()> each_turn;  // somebody else who lives in this thread
  // A proxy calls it in the middle of its turn, with every frame that it has just taken. It may stall that
  // proxy and let time pass: then the proxy goes on, later, where it stood.
  std::function<void(const Place&, ByteView)> mid_turn;

 private:
  bool in_turn_ = false;
  VirtualWorldOptions options_;
  std::vector<std::uint16_t> proxies_;
  std::vector<std::vector<sim::Link>> links_;  // by cluster and NI: what it sends by
  std::map<Place, std::map<unsigned, std::deque<std::pair<Instant, std::vector<std::byte>>>>> wire_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

inline std::size_t VirtualQueue::receive(std::span<MutableBytes> frames) {
  arrived_.clear();
  while (arrived_.size() < std::min(frames.size(), kMaxBurst)) {
    std::optional<std::vector<std::byte>> frame = world_.receive({cluster_, proxy_}, ni_);
    if (!frame) break;
    arrived_.push_back(std::move(*frame));
  }
  for (std::size_t i = 0; i < arrived_.size(); ++i) frames[i] = arrived_[i];
  for (const std::vector<std::byte>& frame : arrived_)
    if (world_.mid_turn) world_.mid_turn({cluster_, proxy_}, frame);
  return arrived_.size();
}
inline void VirtualQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& f : frames) world_.send({cluster_, proxy_}, ni_, {f.data, f.length});
}

class VirtualService final : public Service {
 public:
  VirtualService(VirtualWorld& world, unsigned cluster)
      : world_(world), node_(world.shared(cluster)), client_(node_->add_client()) {}
  ~VirtualService() override {
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
  VirtualWorld& world_;
  std::shared_ptr<Node> node_;
  Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::deque<control::Message> events_;
};

inline std::unique_ptr<Client> VirtualWorld::client(unsigned c, const ClientOptions& options) {
  auto made = Client::attach(std::make_unique<VirtualService>(*this, c), options);
  CHECK(made.ok());
  return std::move(made).value();
}

}  // namespace braid::proxy::test
