// Whole nodes with clients in one thread and in virtual time, on a wire of which every path can be cut in
// either direction, and whose NIs may have a rate.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "sim/event_queue.h"
#include "sim/frame_fields.h"
#include "sim/frame_pool.h"
#include "sim/links.h"
#include "sim/virtual_config.h"
#include "sim/virtual_nic.h"
#include "sim/virtual_service.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {

struct VirtualWorldOptions {
  std::vector<std::uint16_t> proxies = {1, 1};  // by cluster
  bool all_pairs = false;
  bool at_first_use = false;          // transport.connect
  unsigned nis = 1;                   // of each cluster: proxy i is reached at number i modulo so many
  std::uint64_t bits_per_second = 0;  // of each NI; 0: no limit
  Duration latency = 10_us;
  Duration turn = 2_us;  // of everything: that is how often a proxy looks
  // By cluster: the machine that it belongs to, which numbers its clusters for itself; none: all are
  // of one. And what its node says about other machines.
  std::vector<unsigned> machine = {};
  bool sealed = false;  // packets are
  std::uint32_t mtu_bytes = 1500;
  std::uint32_t arrivals = 4096;  // that an NI's queue keeps while its proxy does something else
  std::vector<MachinesConfig> machines = {};
};

using sim::ProxyAddress;

class VirtualWorld final : private sim::VirtualNic::Wire {
 public:
  explicit VirtualWorld(VirtualWorldOptions options)
      : options_(std::move(options)), proxies_(options_.proxies), lives_(options_.proxies.size()) {
    for (std::uint16_t c = 0; c < proxies_.size(); ++c) nodes_.push_back(make_node(c, 77 + c));
  }
  VirtualWorld(std::vector<std::uint16_t> proxies, bool all_pairs)
      : VirtualWorld(VirtualWorldOptions{.proxies = std::move(proxies), .all_pairs = all_pairs}) {}

  std::shared_ptr<Node> make_node(std::uint16_t c, std::uint64_t seed) {
    sim::VirtualClusters machine;
    unsigned number = 0;
    for (unsigned k = 0; k < proxies_.size(); ++k) {
      if (machine_of(k) != machine_of(c)) continue;
      if (k == c) number = static_cast<unsigned>(machine.proxies.size());
      machine.proxies.push_back(proxies_[k]);
      machine.stations.push_back(k);
    }
    machine.nis = options_.nis;
    machine.transport.mtu_bytes = options_.mtu_bytes;
    machine.transport.all_pairs = options_.all_pairs;
    machine.transport.connect =
        options_.at_first_use ? settings::Connect::kAtFirstUse : settings::Connect::kAtStart;
    machine.transport.path_death_ms = 5;
    machine.transport.peer_death_ms = 100;
    machine.transport.max_rto_us = 2000;
    NodeConfig n = sim::virtual_node_config(machine, number);
    if (!options_.machines.empty()) n.machines = options_.machines[c];
    n.seed = seed;
    NodeSurroundings surroundings;
    surroundings.make_queue = [this, c](LinkId link, unsigned p) { return make_nic({c, p}, link.value()); };
    if (options_.sealed) surroundings.security = virtual_security(seed);
    Result<std::unique_ptr<Node>> node = Node::create(n, now, surroundings);
    CHECK(node.ok());
    return std::move(node).value();
  }
  unsigned machine_of(unsigned c) const { return options_.machine.empty() ? 0 : options_.machine[c]; }
  // Its number in its own machine.
  std::uint16_t number_of(unsigned c) const {
    std::uint16_t number = 0;
    for (unsigned k = 0; k < c; ++k)
      if (machine_of(k) == machine_of(c)) ++number;
    return number;
  }
  void restart(std::uint16_t c) {
    nodes_[c].reset();
    ++lives_[c];
    nodes_[c] = make_node(c, 1000 + c);
  }

  Node& node(unsigned c) { return *nodes_[c]; }
  std::shared_ptr<Node> shared(unsigned c) { return nodes_[c]; }
  std::unique_ptr<Client> client(unsigned c, const ClientOptions& options = {});

  int turn() { return turn(options_.turn); }
  int turn(Duration length) {
    now = now + length;
    if (each_turn && !std::exchange(in_turn_, true)) {
      each_turn();  // which takes turns of its own
      in_turn_ = false;
    }
    deliver();
    int work = 0;
    for (unsigned c = 0; c < nodes_.size(); ++c) {
      for (unsigned p = 0; p < nodes_[c]->proxies(); ++p)
        if (!stalled.contains({c, p})) work += work_of({c, p});
      work += nodes_[c]->do_control(now);
    }
    return work;
  }
  void run(Duration time) {
    for (const Instant end = now + time; now < end;) turn();
  }
  // As run(), but everybody looks 25 times less often: for long waits with little to do.
  void wait(Duration time) {
    for (const Instant end = now + time; now < end;) turn(options_.turn * 25);
  }

  // A frame of somebody else arrives at the NI. False: the proxy's queue is full.
  bool arrive(const ProxyAddress& to, ByteView frame) {
    const auto nic = nics_.find({to, 0});
    if (nic == nics_.end()) return false;
    const sim::FrameRef copy{pool_.take(), static_cast<std::uint32_t>(frame.size())};
    std::copy(frame.begin(), frame.end(), pool_.data(copy.buffer));
    if (nic->second->arrive(copy)) return true;
    pool_.give(copy.buffer);
    return false;
  }

  // Nothing passes from one proxy to another until it is mended.
  void cut(const ProxyAddress& from, const ProxyAddress& to) { links_.cut_path(from, to, Instant::never()); }
  // Nothing that goes to a proxy or comes from it passes.
  void cut_off(const ProxyAddress& proxy) {
    for_each_peer(proxy, [&](const ProxyAddress& other) {
      cut(proxy, other);
      cut(other, proxy);
    });
  }
  void mend(const ProxyAddress& proxy) {
    for_each_peer(proxy, [&](const ProxyAddress& other) {
      links_.mend_path(proxy, other);
      links_.mend_path(other, proxy);
    });
  }
  void mend_all() { links_.mend_paths(); }
  std::uint64_t sum(unsigned c, Counter ProxyCounters::*counter) {
    std::uint64_t total = 0;
    for (unsigned p = 0; p < nodes_[c]->proxies(); ++p) {
      total += (nodes_[c]->counters(p).*counter).get();
    }
    return total;
  }

  Instant now = Instant() + 1_s;
  std::set<ProxyAddress> stalled;
  std::function<void()> each_turn;  // other work of this thread
  // A proxy calls it in the middle of its turn, with every frame that it has just taken. It may stall that
  // proxy and let time pass: then the proxy continues, later, where it stopped.
  std::function<void(const ProxyAddress&, ByteView)> mid_turn;
  // And with every frame that it sends.
  std::function<void(const ProxyAddress&, ByteView)> sent;
  // How long the turn has kept the proxy busy that it has just had; it has the next one after that. None: a proxy has a
  // turn whenever the world has.
  std::function<Duration(const ProxyAddress&)> busy;

 private:
  // A frame on its way.
  struct Flight {
    sim::FrameRef frame;
    ProxyAddress to;
    unsigned ni = 0;
    unsigned life = 0;  // of the cluster that it was sent to
  };

  static sim::LinksConfig links_config(const VirtualWorldOptions& options) {
    sim::LinksConfig links;
    links.layout = sim::LinksConfig::Layout::kOfNi;
    links.clusters = static_cast<unsigned>(options.proxies.size());
    links.nis = options.nis;
    links.link.mtu_bytes = options.mtu_bytes;
    links.link.bits_per_second =
        options.bits_per_second == 0 ? 1'000'000'000'000'000 : options.bits_per_second;
    links.link.propagation = options.latency;
    links.link.queue_bytes = 4u << 20;
    return links;
  }
  template <class F>
  void for_each_peer(const ProxyAddress& proxy, F&& f) {
    for (unsigned c = 0; c < proxies_.size(); ++c)
      for (unsigned p = 0; p < proxies_[c]; ++p)
        if (c != proxy.cluster) f(ProxyAddress{c, p});
  }

  int work_of(const ProxyAddress& proxy) {
    Worker& worker = nodes_[proxy.cluster]->worker(proxy.proxy);
    if (!busy) return worker.do_work(now);
    Instant& until = busy_until_[proxy];
    if (until > now) return 0;
    const int work = worker.do_work(now);
    until = std::max(until, now - options_.turn) + busy(proxy);
    return work;
  }
  std::unique_ptr<NicQueue> make_nic(const ProxyAddress& place, unsigned ni) {
    const sim::VirtualNicOptions options{
        .cluster = place.cluster, .proxy = place.proxy, .ni = ni, .rx_frames = options_.arrivals};
    sim::VirtualNic::Wire& wire = *this;
    auto nic = std::make_unique<sim::VirtualNic>(wire, pool_, options);
    nics_[{place, ni}] = nic.get();
    return nic;
  }
  void on_detach(const sim::VirtualNic& nic) override {
    // A former node lives for as long as its clients do, beside the one that has its place.
    const auto found = nics_.find({{nic.cluster(), nic.proxy()}, nic.ni()});
    if (found != nics_.end() && found->second == &nic) nics_.erase(found);
  }
  void on_receive(const sim::VirtualNic& at, std::span<const MutableBytes> frames) override {
    for (const MutableBytes& frame : frames)
      if (mid_turn) mid_turn({at.cluster(), at.proxy()}, frame);
  }
  void transmit(const sim::VirtualNic& from, std::span<const sim::FrameRef> frames) override {
    for (const sim::FrameRef& frame : frames) {
      if (sent) sent({from.cluster(), from.proxy()}, {pool_.data(frame.buffer), frame.length});
      if (!send({from.cluster(), from.proxy()}, from.ni(), frame)) pool_.give(frame.buffer);
    }
  }
  // False: it is lost.
  bool send(const ProxyAddress& from, unsigned ni, sim::FrameRef frame) {
    // The last byte of the address. What is not for a proxy's port is proxy 0's: ARP, datagrams.
    std::byte* const bytes = pool_.data(frame.buffer);
    const bool arp = sim::is_arp({bytes, frame.length});
    const unsigned to_cluster = load<std::uint8_t>(bytes + (arp ? 41 : 33)) - 1u;
    const std::uint16_t port = sim::destination_port({bytes, frame.length}).value_or(sim::kUdpPortBase);
    unsigned to_proxy = port - unsigned{sim::kUdpPortBase};
    if (to_proxy >= kMaxProxies) to_proxy = 0;
    const ProxyAddress to{to_cluster, to_proxy};
    if (to_cluster >= lives_.size()) return false;
    const sim::Passage passage = links_.send(now, {from, ni}, {to, ni}, {bytes, frame.length});
    if (passage.copies == 0) return false;
    // A proxy has a queue on each NI, and looks at all of them.
    flights_.push(passage.arrives[0], {frame, to, ni, lives_[to_cluster]});
    return true;
  }
  // Puts the frames that have arrived by now into the queues.
  void deliver() {
    while (flights_.next_time() <= now) {
      const Flight flight = flights_.pop();
      const auto nic = nics_.find({flight.to, flight.ni});
      if (flight.life != lives_[flight.to.cluster] || nic == nics_.end() ||
          !nic->second->arrive(flight.frame))
        pool_.give(flight.frame.buffer);
    }
  }

  bool in_turn_ = false;
  VirtualWorldOptions options_;
  std::vector<std::uint16_t> proxies_;
  std::map<ProxyAddress, Instant> busy_until_;
  sim::FramePool pool_{options_.mtu_bytes + static_cast<std::uint32_t>(kEthernetHeaderBytes)};
  sim::Links links_{links_config(options_), [] { return 1u; }};
  sim::EventQueue<Flight> flights_;
  std::map<std::pair<ProxyAddress, unsigned>, sim::VirtualNic*> nics_;  // by NI
  std::vector<unsigned> lives_;  // by cluster: how often it was restarted
  std::vector<std::shared_ptr<Node>> nodes_;
};

class VirtualWorldService final : public sim::VirtualService {
 public:
  VirtualWorldService(VirtualWorld& world, unsigned cluster)
      : VirtualService(world.node(cluster)), world_(world), node_(world.shared(cluster)) {}
  ~VirtualWorldService() override {
    node_->client_gone(client());
    node_.reset();
    for (int i = 0; i < 2000; ++i) world_.turn();
  }
  int turn() override { return world_.turn(); }
  Instant now() override { return world_.now; }

 private:
  Node* node() override { return node_.get(); }
  void on_posted() override {}
  bool step() override {
    world_.turn();
    return true;
  }

  VirtualWorld& world_;
  std::shared_ptr<Node> node_;
};

inline std::unique_ptr<Client> VirtualWorld::client(unsigned c, const ClientOptions& options) {
  auto made = Client::attach(std::make_unique<VirtualWorldService>(*this, c), options);
  CHECK(made.ok());
  return std::move(made).value();
}

}  // namespace braid::proxy::test
