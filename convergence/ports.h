// Ports of one cluster, and how connections between them are set up and taken down inside one machine
// (paper, section 2.3): a server binds a port and listens; a client names (cluster id, port).
//
//   client                 its cluster                       the server's cluster              server
//   connect() ──► port, window ── Connect ──► listener? window? ──► port installed
//                 port installed ◄── Accept ──
//   ◄── opened                   ── Confirm ─────────────────────────────────────────► accepted
//
// The Confirm is there because messages may overtake each other: the server must not send before the client's
// port is installed. Every control message arrives exactly once (the sub-connections and their driver see to
// that), in any order.
//
// Pure: requests, control messages and time go in; events for the node and control messages for peers come
// out of poll_event() and poll_control(), the events first. Owned by the node's control plane. Not on the
// message path.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "convergence/control_message.h"
#include "convergence/position.h"

namespace braid::convergence {

class Ports {
 public:
  using Client = std::uint32_t;
  // Above are the ports of connections: a generation in the upper half, an index in the lower.
  static constexpr std::uint32_t kMaxListenerPort = 0xffff;

  // Where a connection end's receive buffer and cell lie in its client's memory.
  struct Grant {
    std::uint32_t cell = 0;
    std::uint64_t window_offset = 0;
  };
  // Gives out clients' memory. Implemented by the node.
  class Resources {
   public:
    virtual ~Resources() = default;
    virtual std::optional<Grant> grant(Client client, std::uint32_t endpoint, std::uint32_t window_bytes) = 0;
    virtual void give_back(Client client, std::uint32_t endpoint, const Grant& grant,
                           std::uint32_t window_bytes) = 0;
  };

  struct End {
    PortId port;
    Client client = 0;
    std::uint32_t endpoint = 0;
    std::uint32_t window_bytes = 0;
    bool ordered = true;
    stack::ProtocolId protocol = stack::kMessages;
    Grant grant;
    ClusterId peer;
    PortId peer_port;
    std::uint32_t peer_window_bytes = 0;
    PortId listener;           // 0 if this end connected
    std::uint32_t serial = 0;  // of the connect request
  };

  struct Event {
    enum class Kind : std::uint8_t {
      kInstall,     // proxies must know the port before anything else is done
      kOpened,      // tell the client: its connect() succeeded
      kAccepted,    // tell the client: a peer connected
      kRefused,     // tell the client: its connect() failed
      kPeerClosed,  // mark the cell
      kPeerLost,    // mark the cell
      kDrain,       // wait until proxies have sent what the port's client handed over, then call drained()
      kRemove,      // proxies forget the port
    };
    Kind kind;
    End end;
    Refusal refusal = Refusal::kNone;
  };

  struct Outgoing {
    ClusterId to;
    ControlMessage message;
  };

  Ports(ClusterId self, std::uint16_t clusters, Resources& resources, std::uint32_t max_ports = 8192);

  Refusal listen(Client client, PortId port, std::uint32_t endpoint, std::uint32_t window_bytes, bool ordered,
                 stack::ProtocolId protocol = stack::kMessages);
  // Answered by kOpened or kRefused with `serial`.
  void connect(Instant now, Client client, std::uint32_t serial, std::uint32_t endpoint, ClusterId cluster,
               PortId port, std::uint32_t window_bytes, bool ordered, Duration timeout,
               stack::ProtocolId protocol = stack::kMessages);
  void close(Client client, PortId port);
  void drained(PortId port);
  // The client is dead: its listeners go at once, its connections when they are drained. It is not told of
  // connections that it was asking for.
  void client_gone(Client client);
  // Ports that the client still holds; 0 when its memory may go.
  std::size_t held_by(Client client) const;
  // Connection ends whose peer is, or shall be, in that cluster.
  std::uint32_t held_with(ClusterId cluster) const;

  void on_control(Instant now, ClusterId from, const ControlMessage& message);
  void peer_lost(ClusterId cluster);
  void on_timer(Instant now);
  Instant next_deadline() const;

  std::optional<Event> poll_event();
  std::optional<Outgoing> poll_control();

 private:
  enum class State : std::uint8_t { kFree, kConnecting, kAccepting, kOpen, kPeerClosed, kPeerLost, kClosing };
  struct Entry {
    State state = State::kFree;
    std::uint16_t generation = 0;
    bool tell_peer = false;  // kClosing: the peer has an open end
    End end;
    PortId target;  // kConnecting: the listener's port
    bool awaiting_answer = false;
    bool nobody_listened = false;  // kConnecting: said an answer
    Instant retry;
    Instant deadline;
  };
  struct Listener {
    PortId port;
    Client client;
    std::uint32_t endpoint;
    std::uint32_t window_bytes;
    bool ordered;
    stack::ProtocolId protocol;
  };

  Entry* find(PortId port);
  Entry* allocate(Client client, std::uint32_t endpoint, std::uint32_t window_bytes, bool ordered,
                  ClusterId peer);
  void free(Entry& entry);
  void send(ClusterId to, ControlMessage::Kind kind, PortId source, PortId destination,
            std::uint32_t window_bytes = 0, bool ordered = true, Refusal reason = Refusal::kNone);
  void refuse(Entry& entry, Refusal refusal);
  void start_closing(Entry& entry);
  void on_connect(ClusterId from, const ControlMessage& message);
  void on_accept(Entry* entry, ClusterId from, const ControlMessage& message);
  void on_close(Entry& entry, const ControlMessage& message);
  void ask(Entry& entry);
  // When something must be done about an end that is kConnecting. Its clock runs while it is, and stops before `due` changes.
  static Instant due(const Entry& entry);
  void start_clock(const Entry& entry);
  void stop_clock(const Entry& entry);

  ClusterId self_;
  std::uint16_t clusters_;
  Resources& resources_;
  std::vector<Entry> entries_;
  std::uint32_t next_index_ = 1;
  std::map<std::uint16_t, std::uint32_t> with_;  // by peer: entries that are not free
  std::set<std::pair<Instant, PortId>> due_;     // of entries that are kConnecting
  std::vector<Listener> listeners_;
  std::deque<Event> events_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace braid::convergence
