// One end of a parallel connection.
//
// Owned by its endpoint, and used by the endpoint's thread. Nothing here blocks except send(); nothing allocates
// except for messages longer than a piece (convergence/position.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "convergence/dispatch.h"
#include "convergence/receiver.h"
#include "convergence/sender.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "proxy/client/lane.h"
#include "proxy/client/service.h"

namespace braid::proxy {

struct ConnectionOptions {
  // Unordered: a message is handed over as soon as it is complete. Both ends must ask for the same.
  bool ordered = true;
  // The protocol that its messages are of and are counted for. Both ends must ask for the same.
  stack::ProtocolId protocol = stack::kMessages;
  // Space at this end for messages that the application has not taken: what the peer may have in flight. A
  // power of two.
  std::uint32_t window_bytes = 256u << 10;
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
};

enum class SendStatus : std::uint8_t {
  kSent,
  kNoCredit,     // the receiver has not taken enough yet: poll, try again
  kChannelFull,  // the proxies have not sent enough yet: poll, try again
  kTooLong,      // longer than max_message_bytes(): send() takes it
  kClosed,       // state() tells why
  kTimeout,      // send(): the deadline passed before the last byte was accepted
};

enum class ConnectionState : std::uint8_t {
  kOpen,
  kPeerClosed,  // the peer closed, or died and was cleaned up; what it sent before has been delivered
  kPeerLost,    // nothing came from its cluster for the peer death time, or it came back as a new incarnation
  kServiceLost,  // this node's braidd is gone
};
const char* to_string(ConnectionState state);

struct EndpointCounts {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t duplicates = 0;    // records that had arrived before
  std::uint64_t bad_arrivals = 0;  // for no connection of ours, outside its window, or malformed
  std::uint64_t no_credit = 0;     // sends refused for want of credit
  std::uint64_t channel_full = 0;  // sends refused because a proxy's channel was full
};

// Shared by the connections of an endpoint, and outlives them.
struct ConnectionContext {
  EndpointLanes& lanes;
  Service& service;
  EndpointCounts& counts;
  std::byte* memory;  // the client's, laid out as `geometry` says
  const ChannelGeometry& geometry;
};

class Connection {
 public:
  ClusterId peer() const { return peer_; }
  PortId port() const { return port_; }
  // The listener's port, if this end accepted the connection; 0 if it connected.
  PortId listener() const { return listener_; }
  ConnectionState state() const;
  // A record came that no sender makes: it was damaged past all checksums, and its message is lost. The connection goes on without it; an application that needs every message closes
  // it.
  bool corrupted() const;

  // A whole message, or nothing. `compute_node` sends it (for Dispatch::kFixed). It leaves at the endpoint's next
  // poll() or flush() at the latest; small messages that leave at the same one share a record (CV-11), which costs
  // less than a record for each.
  [[nodiscard]] SendStatus try_send(ByteView message, unsigned compute_node = 0);
  // Room for a message of `bytes` to be written in place, empty when there is none (see status). commit()
  // sends the first `bytes` of it; a reservation that is not committed is void at the next call.
  MutableBytes reserve(std::uint32_t bytes, unsigned compute_node = 0, SendStatus* status = nullptr);
  void commit(std::uint32_t bytes);
  // A message of any length up to convergence::kMaxMessageBytes, in pieces that the proxies share; waits (and lets proxies run) until all of it
  // is accepted. Arrivals meanwhile stay where they are. After kTimeout the message is lost and the
  // connection closed, because a part of it may have left.
  [[nodiscard]] SendStatus send(ByteView message, Duration timeout, unsigned compute_node = 0);
  // The longest message that try_send() and reserve() can ever take. One proxy carries it, and the receiver hands it over
  // where it arrived (CV-12).
  std::uint32_t max_message_bytes() const { return sender_.max_run_bytes(); }

  // The lane that the last message was given to.
  unsigned last_lane() const { return proxy_; }

  // Free for the application, e.g. an index of its own.
  std::uint64_t tag = 0;

  // `opened` is the control plane's word for a connection of this endpoint.
  Connection(const ConnectionContext& context, const control::Opened& opened, convergence::Dispatch dispatch);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  friend class Endpoint;
  friend class MessageHandover;
  struct Piece {
    std::uint32_t message_bytes;
    std::uint32_t message_offset;
  };
  bool is_open() const {
    return !failed_ && cell_->state.load(std::memory_order_relaxed) == PortState::kOpen;
  }
  // try_send() of a message that does not simply join the train of the one before.
  SendStatus try_send_alone(ByteView message, unsigned compute_node);
  // The place of a message of `bytes` on the connection, if it may be sent.
  SendStatus take_place(std::uint32_t bytes);
  // The message at place_ can join a train in the lane of the one before it.
  bool joins(std::uint32_t bytes, unsigned compute_node) const;
  // Takes room for `bytes` in the channel of the dispatched proxy.
  SendStatus take_room(std::uint32_t bytes, unsigned compute_node);
  unsigned pick_proxy(unsigned compute_node);
  // The proxy that takes the next message.
  void choose_proxy(unsigned compute_node) {
    proxy_ = pick_proxy(compute_node);
    lane_ = &lanes_[proxy_].send;
  }
  void send_piece(std::uint32_t bytes, const Piece& piece);
  // Sends the message at the sender's next place as one more of a train. Its bytes lie at the lane's join_offset().
  void join_train(std::uint32_t bytes);
  void read_credit();
  // Tells the peer how much has been consumed, where that is worth a record. False: there was no room for it
  // in the channel.
  [[nodiscard]] bool return_credit();
  // A record of this connection lies in its receive buffer. Call next_message() afterwards until it is empty.
  convergence::Accepted on_arrival(const ArrivalDescriptor& arrival);
  // The next message for the application, if there is one; the view is valid until the next call.
  std::optional<ByteView> next_message() { return receiver_.next(); }
  // Both for a message of a train, if it is short and next in line; else nothing happens.
  std::optional<ByteView> take_next_in_line(const ArrivalLane::TrainMessage& message) {
    return receiver_.take_next_in_line(message.position, message.bytes);
  }
  // The same, after a message of this connection was handed over: that is consumed then.
  std::optional<ByteView> pass_to_next_in_line(const ArrivalLane::TrainMessage& message) {
    return receiver_.pass_to_next_in_line(message.position, message.bytes);
  }

  EndpointLanes& lanes_;
  Service& service_;
  EndpointCounts& counts_;
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
  SendLane* lane_;  // of proxy_
  convergence::Sender::Place place_;
  std::uint32_t data_offset_ = 0;
  std::uint32_t room_bytes_ = 0;
  std::uint32_t room_at_ = 0;  // the lane's descriptor that it is for
  unsigned room_node_ = 0;     // the compute node that sends it
  Position message_;           // of the message of many pieces in progress
};

// --- inline

inline SendStatus Connection::try_send(ByteView message, unsigned compute_node) {
  SendLane& lane = *lane_;
  const auto bytes = static_cast<std::uint32_t>(message.size());
  if (message.size() > max_message_bytes() || !lane.joinable(port_.value(), sender_.next(), bytes) ||
      !sender_.has_place_at_next(bytes) || !is_open() || !dispatcher_.may_stay(compute_node, proxy_))
    return try_send_alone(message, compute_node);
  if (bytes > 0) std::memcpy(lane.data(lane.join_offset()), message.data(), bytes);
  join_train(bytes);
  ++counts_.messages_sent;
  return SendStatus::kSent;
}

// CV-11
[[gnu::always_inline]] inline void Connection::join_train(std::uint32_t bytes) {
  sender_.sent_at_next(bytes);
  room_bytes_ = 0;
  lane_->join(bytes, sender_.next());
}

inline convergence::Accepted Connection::on_arrival(const ArrivalDescriptor& d) {
  stack::Record r;
  r.position = Position(d.position);
  r.bytes = d.bytes;
  r.skip = d.skip;
  r.many_pieces = d.many_pieces != 0;
  r.message_bytes = d.message_bytes;
  r.message_offset = d.message_offset;
  r.message = Position(d.message);
  const convergence::Accepted accepted = receiver_.on_arrival(r);
  switch (accepted) {
    case convergence::Accepted::kNew:
      break;
    case convergence::Accepted::kDuplicate:
      ++counts_.duplicates;
      break;
    case convergence::Accepted::kBeyondWindow:
    case convergence::Accepted::kMalformed:
      ++counts_.bad_arrivals;
      corrupted_ = true;
      break;
  }
  return accepted;
}

}  // namespace braid::proxy
