// Two nodes that are each other's only peer, in virtual time, and clients of theirs that do not use the client
// library.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/check.h"
#include "proxy/daemon/node.h"
#include "tests/fuzz/arena.h"
#include "tests/fuzz/memory_wire.h"

namespace braid::fuzz {

// A client's memory as one block, beyond which a sanitizer lets nobody read or write. Isolation does nothing, as in
// simulations: nothing runs beside a turn.
class BlockRegion final : public proxy::SharedRegion {
 public:
  static Result<std::unique_ptr<proxy::SharedRegion>> make(std::uint64_t bytes) {
    return std::unique_ptr<proxy::SharedRegion>(std::make_unique<BlockRegion>(bytes));
  }
  explicit BlockRegion(std::uint64_t bytes) : memory_(::operator new(bytes, kAlignment)) {
    std::memset(memory_, 0, bytes);
  }
  ~BlockRegion() override { ::operator delete(memory_, kAlignment); }

  int fd() const override { return -1; }
  std::byte* map() override { return static_cast<std::byte*>(memory_); }
  void unmap(std::byte*) override {}
  void isolate(std::byte*) override {}

 private:
  static constexpr std::align_val_t kAlignment{kCacheLine};
  void* const memory_;
};

class Nodes {
 public:
  Nodes() {
    for (std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
      proxy::NodeSurroundings surroundings;
      surroundings.make_queue = [&](LinkId, unsigned) -> std::unique_ptr<proxy::NicQueue> {
        return std::make_unique<MemoryQueue>(wire_, i);
      };
      surroundings.make_region = BlockRegion::make;
      surroundings.client_memory_bytes = std::uint64_t{64} << 20;
      Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(config_of(i), now_, surroundings);
      CHECK(node.ok());
      nodes_.push_back(std::move(node).value());
    }
    for (int i = 0; i < 200 && !(nodes_[0]->ready() && nodes_[1]->ready()); ++i) turn();
    CHECK(nodes_[0]->ready() && nodes_[1]->ready());
    if (!Arena::instance().in_use()) return;
    for (const auto& node : nodes_) {
      // The counters are mapped memory.
      std::byte* const counters =
          reinterpret_cast<std::byte*>(&node->counters(0)) - offsetof(proxy::NodeCounters, proxy);
      Arena::instance().add(counters, sizeof(proxy::NodeCounters));
    }
  }

  proxy::Node& node(unsigned i) { return *nodes_[i]; }
  Instant now() const { return now_; }
  // Each node once, and so much time.
  void turn(Duration d = kTurn) {
    (void)work();
    now_ = now_ + d;
  }
  // Until `done`, for so long; false if it never is.
  template <class Done>
  [[nodiscard]] bool until(Done&& done, Duration limit = 200_ms) {
    for (const Instant end = now_ + limit; now_ < end;) {
      if (done()) return true;
      const bool idle = work() == 0 && wire_->frames[0].empty() && wire_->frames[1].empty();
      now_ = now_ + (idle ? kIdleTurn : kTurn);
    }
    return false;
  }

 private:
  static proxy::NodeConfig config_of(std::uint16_t cluster) {
    proxy::NodeConfig n;
    n.cluster = cluster;
    n.clusters = 2;
    n.address = cluster == 0 ? "10.98.0.1" : "10.98.0.2";
    n.mac = cluster == 0 ? "02:62:72:64:00:01" : "02:62:72:64:00:02";
    n.seed = 5u + cluster;
    n.listen_address = "@unused";
    n.channel.max_ports = 64;  // every input pays for them
    n.channel.send_descriptors = 128;
    // They may also connect as if each was a machine of its own.
    n.machines = {.connect = true, .accept = true, .slots = 1, .max_proxies = 1};
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;  // never opened: the queues are made here
    link.device = "none";
    n.security.mode = settings::SecurityMode::kOff;
    n.links.push_back(link);
    proxy::PeerConfig peer;
    peer.cluster = static_cast<std::uint16_t>(1 - cluster);
    peer.address = cluster == 0 ? "10.98.0.2" : "10.98.0.1";
    peer.mac = cluster == 0 ? "02:62:72:64:00:02" : "02:62:72:64:00:01";
    peer.udp_port = 7700;
    n.peers.push_back(peer);
    return n;
  }

  // Shorter than what a proxy takes for a gap in its scheduling.
  static constexpr Duration kTurn = 50_us;
  static constexpr Duration kIdleTurn = 500_us;

  int work() {
    int done = 0;
    for (const auto& node : nodes_) {
      done += node->worker(0).do_work(now_);
      done += node->do_control(now_);
    }
    return done;
  }

  Instant now_ = Instant::from_ns(9'000'000'000);
  const std::shared_ptr<MemoryWire> wire_ = std::make_shared<MemoryWire>();
  std::vector<std::unique_ptr<proxy::Node>> nodes_;
};

// An attached client with its memory mapped, which sends any request and writes anything.
class RawClient {
 public:
  RawClient(Nodes& nodes, unsigned cluster)
      : nodes_(nodes), node_(nodes.node(cluster)), id_(node_.add_client()) {
    proxy::control::Message m;
    m.kind = proxy::control::Kind::kAttach;
    m.attach = {1, 65536, 65536};
    const proxy::control::Message reply = ask(m);
    CHECK(reply.kind == proxy::control::Kind::kAttached);
    geometry_ = reply.attached.geometry;
    memory_ = node_.client_memory(id_);
    CHECK(memory_ != nullptr);
  }
  ~RawClient() {
    node_.client_gone(id_);
    // Everything that it held is freed, whatever it wrote before.
    CHECK(nodes_.until([&] { return !node_.has_client(id_); }, 10_s));
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // The answer; kRefused if none comes, as when the node has disconnected this client.
  proxy::control::Message ask(proxy::control::Message m) {
    m.serial = ++serial_;
    node_.on_request(nodes_.now(), id_, m);
    proxy::control::Message reply;
    reply.kind = proxy::control::Kind::kRefused;
    (void)nodes_.until([&] {
      while (const auto out = node_.poll_outbound(id_)) {
        if (out->message.serial != serial_) continue;
        reply = out->message;
        return true;
      }
      return false;
    });
    return reply;
  }
  proxy::Node::ClientId id() const { return id_; }
  std::byte* memory() { return memory_; }
  const proxy::ChannelGeometry& geometry() const { return geometry_; }

 private:
  Nodes& nodes_;
  proxy::Node& node_;
  const proxy::Node::ClientId id_;
  std::uint32_t serial_ = 0;
  proxy::ChannelGeometry geometry_;
  std::byte* memory_ = nullptr;
};

}  // namespace braid::fuzz
