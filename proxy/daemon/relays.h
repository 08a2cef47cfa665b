// Messages that go between a proxy and the others of its node: lent to one that has a live path where this one
// has none, or borrowed to be sent for another (relay.h).
//
// A lender keeps a message until the borrower gives it back. When one of the two was fenced meanwhile its
// generation is another one, and what went between them before is dropped: the lender gets such messages back
// by reclaim(), once nothing that the borrower sent of them can arrive any more.
//
// Pure but for the rings. Owned by the proxy's worker.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "proxy/daemon/datagram.h"
#include "proxy/daemon/outgoing.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/relay.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class Relays {
 public:
  // A borrower has at most so many messages of all lenders together.
  static constexpr std::size_t kMaxBorrowed = Relay::kMessages;

  // `states`: of all proxies of the node; they outlive this.
  explicit Relays(const ProxyStates& states);
  Relays(const Relays&) = delete;
  Relays& operator=(const Relays&) = delete;

  // Messages that proxy `other` shall send for this one go into `lend`, those that this one shall send for it
  // come out of `borrow`.
  void connect(unsigned other, Relay* lend, Relay* borrow);
  // One bit for each proxy that is connected.
  std::uint32_t connected() const { return connected_; }

  // --- lending

  // True: a proxy that reaches its destination has it, and poll_returned() gives it back; false: none takes it.
  [[nodiscard]] bool lend(Outgoing& message);
  struct Returned {
    Outgoing* message = nullptr;
    RelayReturn::Outcome outcome{};
  };
  // The next message that proxy `from` returns. It must be connected.
  std::optional<Returned> poll_returned(unsigned from) {
    if (peers_[from].lend->back.read_available() == 0) return std::nullopt;
    return take_returned(from);
  }
  // Some message to that cluster is lent.
  bool any_lent(ClusterId to) const;

  // --- borrowing

  // A message that this proxy shall send for that one, which is connected; nullptr: there is none, or too many
  // are borrowed.
  Outgoing* poll_borrowed(unsigned from) {
    return peers_[from].borrow->there.read_available() == 0 ? nullptr : take_borrowed(from);
  }
  // The borrowed message is returned.
  void give_back(Outgoing& message, RelayReturn::Outcome outcome);
  // This proxy sees the client's memory there; borrowed messages lie in it.
  void map(ClientId client, std::byte* memory) { memories_.push_back({client, memory}); }
  void unmap(ClientId client) {
    std::erase_if(memories_, [&](const Memory& m) { return m.client == client; });
  }

  // --- proxies that were fenced

  // That proxy was fenced: messages that are borrowed from it are not returned.
  void forget(unsigned proxy);
  // True once after forget(): none of the messages borrowed from that proxy is in flight any more.
  [[nodiscard]] bool poll_forgotten(unsigned proxy) {
    Peer& peer = peers_[proxy];
    return peer.forgetting && peer.dropped == 0 && std::exchange(peer.forgetting, false);
  }
  // None of the packets that it sent before it was fenced can arrive any more: this proxy has the messages
  // back that it had lent to it. They may have been delivered.
  std::vector<Outgoing*> reclaim(unsigned proxy);
  // This proxy was fenced: no message is lent or borrowed.
  void restart();
  // How often each of the others was fenced, for a proxy that was stalled meanwhile.
  void set_generations(const ProxyGenerations& generations);

  // Proxies, one bit each, that messages were handed to since the last call.
  std::uint32_t take_woken() { return std::exchange(woken_, 0); }

 private:
  // One other proxy of this node.
  struct Peer {
    Relay* lend = nullptr;
    Relay* borrow = nullptr;
    std::uint32_t generation = 0;   // how often it was fenced
    std::vector<Outgoing*> lent;    // in that order, in former generations too
    std::uint32_t outstanding = 0;  // lent in this generation
    std::uint32_t borrowed = 0;
    std::uint32_t dropped = 0;  // borrowed of a generation that is gone, and still in flight
    bool forgetting = false;    // the control plane waits until `dropped` is 0
  };
  struct Memory {
    ClientId client;
    std::byte* at;
  };
  struct Slot : Outgoing {
    std::array<std::byte, Datagram::kMaxBytes> room{};  // for what lies in no client's memory
  };

  std::optional<Returned> take_returned(unsigned from);
  Outgoing* take_borrowed(unsigned from);
  Outgoing* accept(unsigned from, const RelayedMessage& item);

  const ProxyStates& states_;
  std::array<Peer, kMaxProxies> peers_{};
  std::uint32_t connected_ = 0;
  std::uint32_t generation_ = 0;  // how often this proxy was fenced
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::vector<Memory> memories_;
  std::uint32_t woken_ = 0;
};

}  // namespace braid::proxy
