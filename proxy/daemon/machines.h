// The other machines whose clusters this node's clients connect to, and whose clusters connect to this one (paper,
// section 2.3): who they are, which slot each of their clusters has, and how two nodes introduce themselves.
//
// Each machine numbers its own clusters. So each of the two nodes gives the other one of its slots, a number above
// those of its own machine's clusters, and tells it; the other uses that number as its own in what it then sends.
// They do so in plain datagrams, before there is any sub-connection:
//
//   caller                                                             callee
//   a slot for it ── Call: who I am, my slot for you ────────────────► allowed? same settings? a slot for it
//   sub-connections ◄── Answer: who I am, my slot for you ──────────── sub-connections
//            … the sub-connections do their handshakes; when they are up: Ports' Connect …
//   the last connection is gone: sub-connections close ──────────────► lost: sub-connections close
//
// A Call may be lost: it is repeated, to each of the addresses in turn, and answered again. Its sender is not
// authenticated: all that it can take is a slot, for a moment; and what is known of a machine stays until its
// sub-connections report its loss.
//
// Pure: requests, datagrams and time come in; events for the node and datagrams go out. Owned by the node's
// control plane.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"
#include "proxy/channel/control.h"
#include "proxy/daemon/introduction.h"
#include "proxy/daemon/machine_slots.h"
#include "stack/stack.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

class Machines {
 public:
  struct Config {
    Introduction self;  // addresses, proxies, port, what both must have in common
    std::vector<stack::Interface> links;
    std::uint16_t introduction_port = 0;
    ClusterId first_slot;
    std::uint16_t slots = 0;
    std::uint16_t max_proxies = 0;  // that another cluster may have
    bool may_connect = false;
    bool may_accept = false;
    std::uint64_t seed = 1;
  };
  // A client's request for a connection with a cluster of another machine.
  struct Request {
    std::uint32_t client = 0;
    std::uint32_t serial = 0;
    std::uint32_t endpoint = 0;
    PortId port;
    std::uint32_t window_bytes = 0;
    bool ordered = true;
    stack::ProtocolId protocol = stack::kMessages;
    Instant deadline;
    std::vector<stack::Ipv4Address> addresses;
    std::uint16_t introduction_port = 0;
  };
  struct Event {
    enum class Kind : std::uint8_t {
      kConnectPaths,  // make sub-connections with `peer`, which has `slot`
      kConnect,       // they are up: carry out `request` with the cluster in `slot`
      kRefused,       // refuse `request` with `text`
      kDrain,         // close the sub-connections of `slot`, then call gone()
    };
    Kind kind = Kind::kConnectPaths;
    ClusterId slot;
    Introduction peer;
    Request request;
    std::string text;
  };
  struct Datagram {
    stack::Endpoint to;
    IntroductionBytes bytes;
  };
  // Requests that wait at the same time.
  static constexpr std::size_t kMaxRequests = 64;

  explicit Machines(const Config& config);

  // Answered by kConnect or kRefused, within the deadline.
  void connect(Instant now, Request request);
  // Its requests are dropped without an answer.
  void client_gone(std::uint32_t client);
  void on_datagram(Instant now, const stack::Endpoint& from, ByteView bytes);
  // A host on the way reports that a datagram to that address did not arrive.
  void on_unreachable(const stack::Endpoint& to, stack::Unreachable reason);
  void on_timer(Instant now);

  // The slot's sub-connections are to come up: on_paths() must be called.
  bool is_connecting(ClusterId slot) const { return slots_.at(slot).state == State::kConnecting; }
  // Of such a slot's sub-connections `up` of `all` are established. `problems` names the others and what is
  // known of them.
  void on_paths(Instant now, ClusterId slot, unsigned up, unsigned all, const std::string& problems);
  // The slot's peer was lost, or has left.
  void lost(ClusterId slot);
  // How many connections with the slot's cluster exist or are requested.
  void in_use(Instant now, ClusterId slot, std::uint32_t connections);
  // Nothing of the slot's cluster is left: the slot is free.
  void gone(ClusterId slot);

  std::optional<Event> poll_event();
  std::optional<Datagram> poll_datagram();

  bool is_slot(ClusterId cluster) const { return slots_.contains(cluster); }
  // Slots whose sub-connections exist, and are not being closed.
  std::vector<ClusterId> occupied() const { return slots_.with_paths(); }
  // The addresses of the cluster that has the slot, for people.
  std::string name(ClusterId slot) const { return to_string(slots_.at(slot).addresses()); }

 private:
  using Slot = MachineSlot;
  using State = MachineSlot::State;
  struct Waiting {
    Request request;
    std::optional<ClusterId> slot;
  };

  std::string request_problem(const Request& request) const;
  void find_slot(Instant now, Waiting& waiting);
  void refuse(const Request& request, std::string text);
  void refuse_all(const Slot& slot, const std::string& text);
  bool is_wanted(const Slot& slot) const;
  void send(const stack::Endpoint& to, Introduction introduction);
  void call(Instant now, Slot& slot);
  void on_call(Instant now, const stack::Endpoint& from, const Introduction& caller);
  Introduction::Reason call_refusal(const Introduction& caller) const;
  Introduction::Reason take_slot(Instant now, const Introduction& caller, Slot*& slot);
  void on_answer(Instant now, const stack::Endpoint& from, const Introduction& callee);
  void on_refusal(const stack::Endpoint& from, const Introduction& refusal);
  // `used`: of its addresses, those that sub-connections lead to.
  void connect_paths(Instant now, Slot& slot, const Introduction& peer, Ipv4Addresses used);
  void drain(Slot& slot);
  void connect_waiting(Slot& slot);
  void drop_answered();
  std::string timeout_text(const Waiting& waiting) const;

  Config config_;
  Prng prng_;
  MachineSlots slots_;
  std::deque<Waiting> waiting_;
  std::deque<Event> events_;
  std::deque<Datagram> datagrams_;
};

}  // namespace braid::proxy
