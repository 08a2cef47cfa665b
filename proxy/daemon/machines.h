// Other logical machines that clients of this node connect to, and whose clusters connect to this one (paper,
// section 2.3): who they are, which of this node's spare cluster numbers stands for which of their clusters,
// and how the two get to know each other.
//
// Machines number their clusters each for itself. So each of the two nodes gives the other one of its slots,
// a number above those of its own machine's clusters, and says so; in what the other then sends it calls
// itself by that number. They tell each other in plain datagrams, before there is any sub-connection:
//
//   caller                                                           callee
//   a slot for it ── Call: who I am, what I call you ──────────────► allowed? alike? a slot for it
//   sub-connections ◄── Answer: who I am, what I call you ─────────── sub-connections
//            … the sub-connections do their handshakes; when they are up: Ports' Connect …
//   the last connection is gone: sub-connections close ──────────────► lost: sub-connections close
//
//   free ──► calling ──► meeting ──► met ──► parting ──► free          of a slot
//    └─── a Call ───────────▲
//
// A Call may be lost: it is said again, to each of the addresses in turn, and answered again. Nobody believes
// who sent it: all that it can take is a slot, for a moment; and what is known of a machine stays until its
// sub-connections say that it is gone.
//
// Pure: requests, datagrams and time come in; events for the node and datagrams go out. Owned by the node's
// control plane.
#pragma once

#include <array>
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
#include "stack/fragmentation.h"
#include "stack/stack.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

// What two nodes tell each other of themselves.
struct Introduction {
  enum class Kind : std::uint8_t { kCall = 1, kAnswer, kRefusal };
  enum class Reason : std::uint8_t {
    kNone,
    kNotAllowed,      // it does not let other machines in
    kDifferent,       // what sub-connections need is not the same: `link`
    kTooManyProxies,  // `proxies` are the most
    kNoPlace,         // all are taken
    kNoWay,           // one of the caller's addresses cannot be reached from there
    kBusy,            // it has not forgotten an earlier life of the caller yet: ask again
  };
  // What both must have alike.
  struct Link {
    std::uint32_t mtu_bytes = 0;
    std::uint16_t window_packets = 0;
    stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;
    bool all_pairs = false;
    bool operator==(const Link&) const = default;
  };
  Kind kind = Kind::kCall;
  Reason reason = Reason::kNone;
  std::uint64_t nonce = 0;        // the caller's, repeated
  std::uint64_t incarnation = 0;  // of the sender's node: another in each of its lives
  ClusterId cluster;              // what the sender's cluster is called in its own machine
  ClusterId slot;                 // what the sender calls the other's
  std::uint16_t proxies = 0;
  std::uint16_t udp_port = 0;  // of proxy 0
  Link link;
  std::vector<stack::Ipv4Address> addresses;  // of its NIs, 1 .. kMaxNis
};
inline constexpr std::size_t kIntroductionBytes = 72;
using IntroductionBytes = std::array<std::byte, kIntroductionBytes>;
IntroductionBytes write_introduction(const Introduction& introduction);
// nullopt: nobody of ours wrote it.
std::optional<Introduction> parse_introduction(ByteView bytes);

class Machines {
 public:
  struct Config {
    Introduction self;  // addresses, proxies, port, what must be alike
    std::vector<stack::Interface> links;
    std::uint16_t introduction_port = 0;
    ClusterId first_slot;
    std::uint16_t slots = 0;
    std::uint16_t max_proxies = 0;  // of the other
    bool may_connect = false;
    bool may_accept = false;
    std::uint64_t seed = 1;
  };
  // A client's wish.
  struct Request {
    std::uint32_t client = 0;
    std::uint32_t serial = 0;
    std::uint32_t endpoint = 0;
    PortId port;
    std::uint32_t window_bytes = 0;
    bool ordered = true;
    Instant deadline;
    std::vector<stack::Ipv4Address> addresses;
    std::uint16_t introduction_port = 0;
  };
  struct Event {
    enum class Kind : std::uint8_t {
      kMeet,     // make sub-connections with `peer`, which has `slot`
      kConnect,  // they are up: connect
      kRefused,  // `request`, with `text`
      kPart,     // close them, then call gone()
    };
    Kind kind = Kind::kMeet;
    ClusterId slot;
    Introduction peer;
    Request request;
    std::string text;
  };
  struct Datagram {
    stack::Endpoint to;
    IntroductionBytes bytes;
  };
  // Wishes that wait at once.
  static constexpr std::size_t kMaxRequests = 64;

  explicit Machines(const Config& config);

  void connect(Instant now, Request request);
  void client_gone(std::uint32_t client);
  void on_datagram(Instant now, const stack::Endpoint& from, ByteView bytes);
  // A host says that what was sent there did not arrive.
  void on_unreachable(const stack::Endpoint& to, stack::Unreachable reason);
  void on_timer(Instant now);

  // Its sub-connections are to come up: on_paths() is wanted.
  bool is_meeting(ClusterId slot) const {
    return slots_[slot.value() - config_.first_slot.value()].state == State::kMeeting;
  }
  // Of such a slot's sub-connections `up` of `all` are established. `problems` names the others and what is
  // known of them.
  void on_paths(Instant now, ClusterId slot, unsigned up, unsigned all, const std::string& problems);
  // Its peer was lost, or has left.
  void lost(ClusterId slot);
  // Connections with it, also those that are only asked for.
  void in_use(Instant now, ClusterId slot, std::uint32_t connections);
  // Nothing of it is left: another may have the slot.
  void gone(ClusterId slot);

  std::optional<Event> poll_event();
  std::optional<Datagram> poll_datagram();

  bool is_place(ClusterId cluster) const {
    return cluster.value() >= config_.first_slot.value() &&
           cluster.value() - config_.first_slot.value() < config_.slots;
  }
  // Slots whose sub-connections exist.
  std::vector<ClusterId> occupied() const;
  // Who has the slot, for people.
  std::string name(ClusterId slot) const;

 private:
  enum class State : std::uint8_t { kFree, kCalling, kMeeting, kMet, kParting };
  struct Slot {
    State state = State::kFree;
    bool called = false;  // by us: who called closes
    std::uint64_t nonce = 0;
    std::vector<stack::Ipv4Address> wanted;  // kCalling: whom we call
    std::uint16_t introduction_port = 0;
    std::size_t next_address = 0;
    Instant next_call;
    Introduction peer;  // from kMeeting on
    Instant since;      // kMeeting
    Instant until;      // kMeeting
    Instant unused_since;
    bool busy = false;     // kCalling: it said so
    std::string problems;  // what hosts on the way said, or what on_paths() did
    std::uint64_t freed = 0;
  };
  struct Waiting {
    Request request;
    std::optional<std::size_t> slot;
  };

  ClusterId id(const Slot& slot) const {
    return ClusterId(static_cast<std::uint16_t>(config_.first_slot.value() + (&slot - slots_.data())));
  }
  Slot& at(ClusterId slot) { return slots_[slot.value() - config_.first_slot.value()]; }
  Slot* free_slot();
  void free(Slot& slot);
  // Whom we call with that nonce at that address, among others.
  Slot* calling(std::uint64_t nonce, stack::Ipv4Address whom);
  Slot* slot_of(const std::vector<stack::Ipv4Address>& addresses);
  void find_slot(Instant now, Waiting& waiting);
  void refuse(const Request& request, std::string text);
  void refuse_all(const Slot& slot, const std::string& text);
  void say(const stack::Endpoint& to, Introduction introduction);
  void call(Instant now, Slot& slot);
  void on_call(Instant now, const stack::Endpoint& from, const Introduction& caller);
  void on_answer(Instant now, const stack::Endpoint& from, const Introduction& callee);
  void on_refusal(const stack::Endpoint& from, const Introduction& refusal);
  // `used`: of its addresses, those that sub-connections lead to.
  void meet(Instant now, Slot& slot, const Introduction& peer, std::vector<stack::Ipv4Address> used);
  void part(Slot& slot);
  void connect_waiting(Slot& slot);
  void drop_served();
  std::string timeout_text(const Waiting& waiting) const;

  Config config_;
  Prng prng_;
  std::vector<Slot> slots_;
  std::deque<Waiting> waiting_;
  std::uint64_t freed_ = 0;
  std::deque<Event> events_;
  std::deque<Datagram> datagrams_;
};

}  // namespace braid::proxy
