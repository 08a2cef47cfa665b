// Two nodes that are each other's only peer, in virtual time, and clients of theirs that do not use the client
// library.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "proxy/daemon/node.h"
#include "tests/fuzz/memory_wire.h"

namespace braid::fuzz {

class Nodes {
 public:
  Nodes() {
    const auto wire = std::make_shared<MemoryWire>();
    for (std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
      Result<std::unique_ptr<proxy::Node>> node =
          proxy::Node::create(config_of(i), now_, [&](LinkId, unsigned) -> std::unique_ptr<proxy::NicQueue> {
            return std::make_unique<MemoryQueue>(wire, i);
          });
      CHECK(node.ok());
      nodes_.push_back(std::move(node).value());
    }
    for (int i = 0; i < 200 && !(nodes_[0]->ready() && nodes_[1]->ready()); ++i) turn(50_us);
    CHECK(nodes_[0]->ready() && nodes_[1]->ready());
  }

  proxy::Node& node(unsigned i) { return *nodes_[i]; }
  Instant now() const { return now_; }
  // Each node once, and so much time.
  void turn(Duration d = 50_us) {
    for (const auto& node : nodes_) {
      node->worker(0).do_work(now_);
      node->do_control(now_);
    }
    now_ = now_ + d;
  }
  // Until `done`; false if it never is.
  template <class Done>
  [[nodiscard]] bool until(Done&& done, int turns = 4000) {
    for (; turns > 0; --turns) {
      if (done()) return true;
      turn();
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
    // They may also connect as if each was a machine of its own.
    n.machines = {.connect = true, .accept = true, .slots = 1, .max_proxies = 1};
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;  // never opened: the queues are made here
    link.device = "none";
    n.links.push_back(link);
    proxy::PeerConfig peer;
    peer.cluster = static_cast<std::uint16_t>(1 - cluster);
    peer.address = cluster == 0 ? "10.98.0.2" : "10.98.0.1";
    peer.mac = cluster == 0 ? "02:62:72:64:00:02" : "02:62:72:64:00:01";
    peer.udp_port = 7700;
    n.peers.push_back(peer);
    return n;
  }

  Instant now_ = Instant::from_ns(9'000'000'000);
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
    int fd = -1;
    const proxy::control::Message reply = ask(m, &fd);
    CHECK(reply.kind == proxy::control::Kind::kAttached);
    geometry_ = reply.attached.geometry;
    void* const memory = ::mmap(nullptr, geometry_.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    ::close(fd);
  }
  ~RawClient() {
    node_.client_gone(id_);
    // Everything that it held is freed, whatever it wrote before.
    CHECK(nodes_.until([&] { return !node_.has_client(id_); }, 200'000));
    ::munmap(memory_, geometry_.total_bytes());
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // The answer; kRefused if none comes, as when the node has disconnected this client.
  proxy::control::Message ask(proxy::control::Message m, int* fd = nullptr) {
    m.serial = ++serial_;
    node_.on_request(nodes_.now(), id_, m);
    proxy::control::Message reply;
    reply.kind = proxy::control::Kind::kRefused;
    (void)nodes_.until([&] {
      while (const auto out = node_.poll_outbound(id_)) {
        if (out->message.serial != serial_) continue;
        reply = out->message;
        if (fd != nullptr && out->fd >= 0) *fd = ::dup(out->fd);
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
