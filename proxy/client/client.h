// The library that applications link to send and receive messages through a node's proxies. No DPDK in it.
//
//     auto client = Client::attach(service_address, {});            // to the braidd of this node
//     Endpoint& endpoint = client.value()->endpoint(0);
//     auto connection = endpoint.connect(ClusterId(1), PortId(9), {}, 5_s);
//     connection.value()->try_send(bytes);
//     endpoint.poll([](Connection& from, ByteView message) { ... });
//
// Messages arrive exactly once while both ends live, in order where the connection asked for order.
// try_send() and reserve() never block: no credit, or a full channel, is a status. Nothing here allocates
// after set-up except for messages longer than a piece (convergence/position.h).
//
// Threads: an Endpoint and its connections belong to one thread at a time (the caller may pass them on under
// a lock of its own). Endpoints of one client may be used by different threads at once; setting up (attach,
// listen, connect, accept, close) is serialised inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "convergence/dispatch.h"
#include "convergence/receiver.h"
#include "convergence/sender.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "proxy/channel/doorbell.h"
#include "proxy/channel/node_counters.h"

namespace braid::proxy {

struct ClientOptions {
  // Threads, or groups of threads under a lock, that send and receive on their own.
  std::uint16_t endpoints = 1;
  // Receive buffers of each endpoint's connections together; connections take their windows from it.
  std::uint32_t receive_bytes = 1u << 20;
  // Per endpoint and proxy: bytes of messages handed over and not yet acknowledged.
  std::uint32_t send_bytes = 512u << 10;
};

struct ConnectionOptions {
  // Unordered: a message is handed over as soon as it is complete. Both ends must ask for the same.
  bool ordered = true;
  // Space at this end for messages that the application has not taken: what the peer may have in flight. A
  // power of two.
  std::uint32_t window_bytes = 256u << 10;
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
};

enum class SendStatus : std::uint8_t {
  kSent,
  kNoCredit,     // the receiver has not taken enough yet: poll, try again
  kChannelFull,  // the proxies have not sent enough yet: poll, try again
  kTooLong,      // longer than max_message_bytes(): send() cuts it
  kClosed,       // state() tells why
  kTimeout,      // send(): the deadline passed before the last byte was accepted
};

enum class ConnectionState : std::uint8_t {
  kOpen,
  kPeerClosed,   // the peer closed, or died and was cleaned up; what it sent before has been delivered
  kPeerLost,     // its cluster was not heard for the peer death time, or came back as a new incarnation
  kServiceLost,  // this node's braidd is gone
};
const char* to_string(ConnectionState state);

// A cluster of another logical machine: where its network interfaces are.
struct RemoteCluster {
  std::vector<std::string> addresses;  // IPv4, dotted, of all of them: 1 .. kMaxNis
  std::uint16_t udp_port = 7699;       // machines.udp_port of its node
};

class Client;
class Endpoint;

// How a client reaches its node's control plane, and how its waiting lets proxies run: over a socket to
// braidd, or by calls when the node lives in this process (proxy/daemon/in_process.h).
class Service {
 public:
  virtual ~Service() = default;
  // Sends a request and waits for its answer; events that arrive meanwhile are kept for next_event(). `fd`,
  // if given, takes a descriptor that came with the answer.
  virtual Result<control::Message> call(const control::Message& request, Duration timeout,
                                        int* fd = nullptr) = 0;
  // Where a client finds its memory when the answer to its attach came without a descriptor: the node's own,
  // in this process, which outlives the client. nullptr: there is none.
  virtual std::byte* memory() { return nullptr; }
  // An event (an accepted connection) for `endpoint`, if one has come.
  virtual bool next_event(unsigned endpoint, control::Message* event) = 0;
  // Returns when an event may have come, or after `timeout`.
  virtual void wait_for_event(Duration timeout) = 0;
  // Called in every turn of a loop that waits: lets in-process proxies work; otherwise only looks whether the
  // service lives. Returns the work done.
  virtual int turn() = 0;
  // The proxies work in turn() and nowhere else: nothing moves, and no doorbell rings, unless it is called.
  virtual bool works_only_in_turn() const { return false; }
  // False once the service is gone. Looks at most every few milliseconds, so it may be asked in any loop.
  virtual bool alive() = 0;
  // The time by which the client's timeouts run: monotonic_now(), unless time is virtual.
  virtual Instant now();
};

// One end of a parallel connection. Owned by its endpoint.
class Connection {
 public:
  ClusterId peer() const { return peer_; }
  PortId port() const { return port_; }
  // The listener's port, if this end accepted the connection; 0 if it connected.
  PortId listener() const { return listener_; }
  ConnectionState state() const;
  // A record came that the peer cannot have sent so: it was damaged behind all checksums, and the message
  // that it was is lost. The connection goes on without it; who needs every message gives it up.
  bool corrupted() const;

  // A whole message, or nothing. `lane` is the compute node on whose behalf it goes, for Dispatch::kFixed. It
  // leaves at the endpoint's next poll() or flush() at the latest.
  [[nodiscard]] SendStatus try_send(ByteView message, unsigned lane = 0);
  // Room for a message of `bytes` to be written in place, empty when there is none (see status). commit()
  // sends the first `bytes` of it; a reservation that is not committed is void at the next call.
  MutableBytes reserve(std::uint32_t bytes, unsigned lane = 0, SendStatus* status = nullptr);
  void commit(std::uint32_t bytes);
  // A message of any length up to convergence::kMaxMessageBytes; waits (and lets proxies run) until all of it
  // is accepted. Arrivals meanwhile stay where they are. After kTimeout the message is lost and the
  // connection closed, because a part of it may have left.
  [[nodiscard]] SendStatus send(ByteView message, Duration timeout, unsigned lane = 0);
  // What try_send() and reserve() can take at most, ever.
  std::uint32_t max_message_bytes() const { return sender_.max_piece_bytes(); }

  // The lane that the last message was given to.
  unsigned last_lane() const { return proxy_; }

  // Free for the application, e.g. an index of its own.
  std::uint64_t tag = 0;

  Connection(Endpoint& endpoint, const control::Opened& opened, convergence::Dispatch dispatch);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  friend class Endpoint;
  struct Piece {
    std::uint32_t message_bytes;
    std::uint32_t message_offset;
    bool many_pieces;
  };
  // Takes room for `bytes` in the channel of the dispatched proxy and a place on the connection.
  SendStatus take_room(std::uint32_t bytes, unsigned lane);
  unsigned pick_proxy(unsigned lane);
  void send_piece(std::uint32_t bytes, const Piece& piece);
  void read_credit();
  void return_credit();

  Endpoint& endpoint_;
  ClusterId peer_;
  PortId port_;
  PortId peer_port_;
  PortId listener_;
  PortCell* cell_;
  convergence::Sender sender_;
  convergence::Receiver receiver_;
  convergence::Dispatcher dispatcher_;
  bool corrupted_ = false;
  bool failed_ = false;  // this end gave up: send() timed out half-way
  // The reservation.
  unsigned proxy_ = 0;
  convergence::Sender::Place place_;
  std::uint32_t data_offset_ = 0;
  std::uint32_t room_bytes_ = 0;
  std::uint32_t room_at_ = 0;  // the lane's descriptor that it is for
  Position message_;           // of the message of many pieces in progress
};

struct EndpointCounts {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t duplicates = 0;    // records that had arrived before
  std::uint64_t bad_arrivals = 0;  // for no connection of ours, outside its window, or malformed
  std::uint64_t no_credit = 0;     // sends refused for want of credit
  std::uint64_t channel_full = 0;  // sends refused because a proxy's channel was full
};

class Endpoint {
 public:
  // Connections to `port` of this cluster will appear in accept(), and in poll() when they send.
  Result<void> listen(PortId port, const ConnectionOptions& options);
  // The peer must be listening; waits until `timeout` for it to begin.
  Result<Connection*> connect(ClusterId cluster, PortId port, const ConnectionOptions& options,
                              Duration timeout);
  // The same to a cluster of another logical machine. The daemons make sub-connections with it first, where
  // there are none yet; both nodes must allow it (machines.connect, machines.accept). peer() of the
  // connection is a number that this node gives that cluster as long as it knows it. The error names the
  // address that failed, and what is known of the cause.
  Result<Connection*> connect(const RemoteCluster& cluster, PortId port, const ConnectionOptions& options,
                              Duration timeout);
  // The next connection that a peer made to one of our listeners; nullptr when there is none (yet).
  Connection* try_accept();
  Result<Connection*> accept(Duration timeout);
  // Ends the connection and frees it; what was sent before is still delivered.
  void close(Connection* connection);

  // Sends what was committed, lets in-process proxies work, takes what has arrived and hands at most `limit`
  // messages to `handler(Connection&, ByteView)`. The view is valid during the call only. The handler may
  // send, listen, connect and close, its own connection too; it may not poll. Returns the number of messages.
  template <class Handler>
  int poll(Handler&& handler, int limit = 64);
  // Takes one arrival of `proxy`'s lane, if there is one, and hands over what it completes; returns the
  // number of messages. What it owes for them, and what the handler commits, leaves with the next flush().
  // For a driver that gives each arrival a time of its own; it lets no proxy work.
  template <class Handler>
  int take_one(unsigned proxy, Handler&& handler);
  // Returns the credit that found no room in a channel before, as far as there is room now.
  void return_owed_credit();
  // Descriptors for `proxy` that the next flush() makes visible.
  std::uint32_t unpublished(unsigned proxy) const { return lanes_[proxy].send.unpublished_entries(); }
  // Notes what `proxy` has given back. Sending does it when it needs room; done early it keeps the channel's
  // memory small and warm.
  void reclaim(unsigned proxy) { lanes_[proxy].reclaim(); }
  // Makes everything committed visible to the proxies now. poll() does it too.
  void flush();
  // Something has arrived that poll() has not taken. Any thread (a hint).
  bool has_arrivals() const;
  // To sleep until something arrives; see proxy/channel/doorbell.h.
  Doorbell& doorbell() { return *doorbell_; }
  Service& service() { return *service_; }
  const EndpointCounts& counts() const { return counts_; }
  unsigned proxies() const { return static_cast<unsigned>(lanes_.size()); }
  // Clusters whose connections of this endpoint are no longer open are noticed by Connection::state().
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }

 private:
  friend class Client;
  friend class Connection;
  // The channel to one proxy.
  struct Lane {
    SendProducer send;
    std::byte* data = nullptr;
    ArrivalConsumer arrivals;
    const RingControl* arrival_control = nullptr;
    // The data area is a ring in the order of the descriptors: data_end_[descriptor] tells what its release
    // frees.
    std::uint32_t data_bytes = 0;
    std::uint32_t tail_offset = 0;  // data_tail modulo data_bytes: a division for each message is dear
    std::uint64_t data_tail = 0;
    std::uint64_t data_head = 0;
    std::vector<std::uint64_t> data_end;
    std::uint32_t reclaimed = 0;
    // An arrival for a connection that we have not heard of yet: the next to be looked at.
    std::optional<ArrivalDescriptor> early;
    Instant early_until;  // then it is given up

    bool take_room(std::uint32_t bytes, std::uint32_t* offset);
    // The next descriptor to be pushed has `bytes` at `offset`, where take_room() put them.
    void use_room(std::uint32_t bytes, std::uint32_t offset);
    void reclaim();
  };

  Endpoint(Client& client, Service* service, std::byte* memory, const ChannelGeometry& geometry,
           unsigned index);
  // For Dispatch::kLeastLoaded: the proxies' counters, mapped when they are first asked for.
  Result<void> prepare(convergence::Dispatch dispatch);
  control::Connect connect_request(PortId port, const ConnectionOptions& options, Duration timeout) const;
  Connection* find(PortId port);
  Connection* open(const control::Opened& opened, convergence::Dispatch dispatch);
  // One arrival of `lane`, into its connection: `to`, nullptr if nothing new came of it.
  enum class Arrived : std::uint8_t { kTaken, kTooEarly };
  Arrived take_arrival(Lane& lane, Connection** to);
  void take_accepted();
  // Tells the peer how much of the connection has been consumed, unless a handler has closed it.
  void return_credit(Connection* connection);
  // Hands over what the connection has ready, at most `limit` messages.
  template <class Handler>
  int hand_over(Connection& connection, std::optional<ByteView> message, Handler&& handler, int limit);

  Client& client_;
  Service* service_;
  std::byte* memory_;
  ChannelGeometry geometry_;
  unsigned index_;
  const NodeCounters* counters_ = nullptr;
  Doorbell* doorbell_;
  std::vector<Lane> lanes_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> by_index_;  // of the port
  std::vector<PortId> closed_;         // beside it: the last one that we closed
  std::deque<Connection*> accepted_;   // not yet asked for
  struct Listener {
    PortId port;
    ConnectionOptions options;
  };
  std::vector<Listener> listeners_;
  unsigned next_lane_ = 0;
  bool owes_credit_ = false;
  bool polling_ = false;
  Connection* handing_over_ = nullptr;  // in poll(): whose message the handler has; nullptr once it closed it
  // A message that the last poll() had no room for, and whose it is.
  Connection* unfinished_ = nullptr;
  ByteView unfinished_message_;
  std::vector<std::unique_ptr<Connection>> closed_while_polling_;
  std::atomic<bool> left_over_{false};  // the last poll() did not take all that it saw
  EndpointCounts counts_;
};

class Client {
 public:
  // `address` is the Unix socket of the node's braidd: a path, or "@name" for the abstract namespace.
  static Result<std::unique_ptr<Client>> attach(const std::string& address, const ClientOptions& options);
  // Over any service, e.g. a node in this process.
  static Result<std::unique_ptr<Client>> attach(std::unique_ptr<Service> service,
                                                const ClientOptions& options);
  ~Client();

  Endpoint& endpoint(unsigned index) { return *endpoints_[index]; }
  ClusterId cluster() const { return cluster_; }
  std::uint16_t clusters() const { return clusters_; }
  std::uint16_t proxies() const { return geometry_.proxies; }
  Service& service() { return *service_; }

 private:
  friend class Endpoint;
  Client() = default;
  Result<const NodeCounters*> counters();
  std::unique_ptr<Service> service_;
  ChannelGeometry geometry_;
  ClusterId cluster_;
  std::uint16_t clusters_ = 1;
  std::byte* memory_ = nullptr;
  std::uint64_t memory_bytes_ = 0;
  bool mapped_ = false;  // by this client
  std::mutex counters_lock_;
  const NodeCounters* counters_ = nullptr;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

// --- inline

template <class Handler>
int Endpoint::hand_over(Connection& connection, std::optional<ByteView> message, Handler&& handler,
                        int limit) {
  int handed = 0;
  handing_over_ = &connection;
  while (message && handed < limit) {
    ++counts_.messages_received;
    ++handed;
    handler(connection, *message);
    if (handing_over_ == nullptr) return handed;  // the handler closed it
    message = connection.receiver_.next();
  }
  handing_over_ = nullptr;
  if (message) {
    unfinished_ = &connection;
    unfinished_message_ = *message;
  }
  return handed;
}

template <class Handler>
int Endpoint::take_one(unsigned proxy, Handler&& handler) {
  CHECK(!polling_);
  Lane& lane = lanes_[proxy];
  if (!lane.early && lane.arrivals.readable() == 0) return 0;
  polling_ = true;
  int handed = 0;
  Connection* connection = nullptr;
  if (take_arrival(lane, &connection) == Arrived::kTaken && connection != nullptr) {
    handed = hand_over(*connection, connection->receiver_.next(), handler, std::numeric_limits<int>::max());
    return_credit(connection);
  }
  lane.arrivals.release(lane.arrivals.taken());
  polling_ = false;
  closed_while_polling_.clear();
  return handed;
}

template <class Handler>
int Endpoint::poll(Handler&& handler, int limit) {
  CHECK(!polling_);
  flush();
  service_->turn();
  if (owes_credit_) return_owed_credit();
  polling_ = true;
  int handed = 0;
  // Whose messages were handed over last: its credit goes back when another's turn comes.
  Connection* last = nullptr;
  if (unfinished_ != nullptr && limit > 0) {
    last = std::exchange(unfinished_, nullptr);
    handed = hand_over(*last, unfinished_message_, handler, limit);
  }
  for (std::size_t visited = 0; visited < lanes_.size() && handed < limit; ++visited) {
    Lane& lane = lanes_[next_lane_];
    next_lane_ = next_lane_ + 1 == lanes_.size() ? 0 : next_lane_ + 1;
    while (handed < limit && (lane.early || lane.arrivals.readable() > 0)) {
      Connection* connection = nullptr;
      if (take_arrival(lane, &connection) == Arrived::kTooEarly) break;
      if (connection == nullptr) continue;
      if (last != connection) return_credit(std::exchange(last, connection));
      handed += hand_over(*connection, connection->receiver_.next(), handler, limit - handed);
    }
    lane.arrivals.release(lane.arrivals.taken());
  }
  return_credit(last);
  polling_ = false;
  closed_while_polling_.clear();
  bool left_over = unfinished_ != nullptr;
  for (const Lane& lane : lanes_) left_over = left_over || lane.early.has_value();
  if (left_over != left_over_.load(std::memory_order_relaxed))
    left_over_.store(left_over, std::memory_order_relaxed);
  flush();
  return handed;
}

}  // namespace braid::proxy
