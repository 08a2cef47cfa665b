// A protocol of one's own, served by proxies: counters that any cluster adds to, with nobody running where they are.
//
// A client sends a datagram of this protocol to a cluster: its destination port is the counter, its 8 bytes are what is
// added. The first proxy there that gets it adds, and answers with the sum. To have it in a node, register it before
// the node starts: in proxy/daemon/main.cpp, or in NodeSurroundings::protocols of a node inside a process.
//
//   Protocols protocols;
//   protocols.add(RemoteCounters::kId, "remote_counters", RemoteCounters::protocol());
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "proxy/daemon/protocols.h"

namespace braid::examples {

class RemoteCounters final : public proxy::DatagramProtocol {
 public:
  // Anything that no other protocol of the machine has. All its nodes must mean the same by it.
  static constexpr stack::ProtocolId kId{70};
  static constexpr std::size_t kCounters = 16;

  // What add() takes: it makes one object for each proxy, and all of a node share the counters.
  static proxy::MakeDatagramProtocol protocol() {
    return [counters = std::make_shared<Counters>()] { return std::make_unique<RemoteCounters>(counters); };
  }

  using Counters = std::array<std::atomic<std::uint64_t>, kCounters>;
  explicit RemoteCounters(std::shared_ptr<Counters> counters) : counters_(std::move(counters)) {}

  // Ports below kCounters are counters. A datagram for any other port is an answer, and for the client there.
  Verdict receive(Instant /*now*/, const proxy::Datagram& request, proxy::Datagram& answer) override {
    const std::uint32_t port = request.destination.value();
    if (port >= kCounters) return Verdict::kForClient;
    if (request.bytes != sizeof(std::uint64_t)) return Verdict::kRefused;  // a peer can send anything
    const auto added = load<std::uint64_t>(request.data.data());
    store(answer.data.data(), (*counters_)[port].fetch_add(added) + added);
    answer.bytes = sizeof(std::uint64_t);
    return Verdict::kAnswered;
  }

 private:
  std::shared_ptr<Counters> counters_;
};

}  // namespace braid::examples
