#include "proxy/client/connection.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace braid::proxy {
namespace {

// Between looks for room: what a yield costs when no other thread wants the core.
constexpr int kSpinsBeforeYield = 16;

// Lets others run while this thread waits for something that another process does.
class Backoff {
 public:
  void wait() {
    if (++turns_ > kSpinsBeforeYield) ::sched_yield();
  }

 private:
  int turns_ = 0;
};

}  // namespace

const char* to_string(ConnectionState state) {
  switch (state) {
    case ConnectionState::kOpen:
      return "open";
    case ConnectionState::kPeerClosed:
      return "the peer closed it, or died";
    case ConnectionState::kPeerLost:
      return "nothing came from its cluster for the peer death time, or it was restarted";
    case ConnectionState::kServiceLost:
      return "this node's braidd is gone";
  }
  return "unknown";
}

Connection::Connection(const ConnectionContext& context, const control::Opened& o,
                       convergence::Dispatch dispatch)
    : lanes_(context.lanes),
      service_(context.service),
      counts_(context.counts),
      peer_(o.peer_cluster),
      port_(o.port),
      listener_(o.listener),
      cell_(reinterpret_cast<PortCell*>(context.memory + context.geometry.cell(o.cell))),
      sender_(o.peer_window_bytes),
      receiver_({context.memory + o.window_offset, o.window_bytes}, o.ordered != 0),
      dispatcher_(dispatch, context.lanes.size(), o.port),
      lane_(&context.lanes[0].send) {}

ConnectionState Connection::state() const {
  switch (cell_->state.load(std::memory_order_acquire)) {
    case PortState::kPeerClosed:
      return ConnectionState::kPeerClosed;
    case PortState::kPeerLost:
      return ConnectionState::kPeerLost;
    case PortState::kUnused:
    case PortState::kOpen:
      break;
  }
  if (failed_) return ConnectionState::kPeerClosed;
  return service_.alive() ? ConnectionState::kOpen : ConnectionState::kServiceLost;
}

// CV-10
bool Connection::corrupted() const {
  return corrupted_ || cell_->corrupted.load(std::memory_order_acquire) != 0;
}

void Connection::read_credit() {
  for (unsigned p = 0; p < lanes_.size(); ++p) {
    // The peer's client chose the value: on_credit() ignores a position that was never sent.
    std::uint32_t left = cell_->credit[p].load(std::memory_order_acquire);
    (void)sender_.on_credit(Position(left));
    // Only if the proxy has written nothing meanwhile.
    if (const auto instead = sender_.instead_of(Position(left)))
      cell_->credit[p].compare_exchange_strong(left, instead->value(), std::memory_order_relaxed);
  }
}

unsigned Connection::pick_proxy(unsigned compute_node) {
  return dispatcher_.pick(compute_node, [&](unsigned p) { return lanes_.load(p); });
}

SendStatus Connection::take_place(std::uint32_t bytes) {
  room_bytes_ = 0;
  if (bytes > max_message_bytes()) return SendStatus::kTooLong;
  if (!is_open()) return SendStatus::kClosed;
  std::optional<convergence::Sender::Place> place = sender_.place(bytes);
  if (!place) {
    read_credit();
    place = sender_.place(bytes);
  }
  if (!place) {
    ++counts_.no_credit;
    return state() == ConnectionState::kOpen ? SendStatus::kNoCredit : SendStatus::kClosed;
  }
  place_ = *place;
  return SendStatus::kSent;
}

// CV-11
bool Connection::joins(std::uint32_t bytes, unsigned compute_node) const {
  const SendLane& lane = *lane_;
  return lane.joinable(port_.value(), place_.position, bytes) && dispatcher_.may_stay(compute_node, proxy_);
}

SendStatus Connection::take_room(std::uint32_t bytes, unsigned compute_node) {
  if (!lane_->find_room(bytes, &data_offset_)) {
    ++counts_.channel_full;
    return state() == ConnectionState::kOpen ? SendStatus::kChannelFull : SendStatus::kClosed;
  }
  room_bytes_ = bytes;
  room_at_ = lane_->pushed();
  room_node_ = compute_node;
  return SendStatus::kSent;
}

void Connection::send_piece(std::uint32_t bytes, const Piece& piece) {
  SendDescriptor d{};
  d.source_port = port_.value();
  d.position = place_.position.value();
  d.message_bytes = piece.message_bytes;
  d.message_offset = piece.message_offset;
  d.message = (piece.message_offset == 0 ? place_.position : message_).value();
  d.data_offset = data_offset_;
  d.bytes = bytes;
  d.skip = place_.skip;
  d.kind = static_cast<std::uint8_t>(stack::RecordKind::kMessage);
  if (piece.message_offset == 0) message_ = place_.position;
  sender_.sent(place_, bytes);
  room_bytes_ = 0;
  if (d.many_pieces())
    lane_->push(d);
  else
    lane_->push_joinable(d, sender_.next());
}

SendStatus Connection::try_send_alone(ByteView message, unsigned compute_node) {
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(message.size(), convergence::kMaxMessageBytes));
  if (const SendStatus status = take_place(bytes); status != SendStatus::kSent) return status;
  if (joins(bytes, compute_node)) {
    SendLane& lane = *lane_;
    if (bytes > 0) std::memcpy(lane.data(lane.join_offset()), message.data(), bytes);
    join_train(bytes);
  } else {
    choose_proxy(compute_node);
    if (const SendStatus status = take_room(bytes, compute_node); status != SendStatus::kSent) return status;
    if (bytes > 0) std::memcpy(lane_->data(data_offset_), message.data(), bytes);
    send_piece(bytes, {bytes, 0});
  }
  ++counts_.messages_sent;
  return SendStatus::kSent;
}

MutableBytes Connection::reserve(std::uint32_t bytes, unsigned compute_node, SendStatus* status) {
  SendStatus got = take_place(bytes);
  if (got == SendStatus::kSent) {
    if (!joins(bytes, compute_node)) choose_proxy(compute_node);
    got = take_room(bytes, compute_node);
  }
  if (status != nullptr) *status = got;
  if (got != SendStatus::kSent) return {};
  return {lane_->data(data_offset_), bytes};
}

void Connection::commit(std::uint32_t bytes) {
  CHECK_LE(bytes, room_bytes_);
  SendLane& lane = *lane_;
  CHECK_EQ(room_at_, lane.pushed());  // nothing was sent in between
  // It was placed for the whole reservation; the shorter message has a place at least as good.
  if (const auto place = sender_.place(bytes)) place_ = *place;
  // It was written where it can be a message of its own, because the train may have left since.
  if (joins(bytes, room_node_)) {
    if (bytes > 0) std::memmove(lane.data(lane.join_offset()), lane.data(data_offset_), bytes);
    join_train(bytes);
  } else {
    send_piece(bytes, {bytes, 0});
  }
  ++counts_.messages_sent;
}

SendStatus Connection::send(ByteView message, Duration timeout, unsigned compute_node) {
  if (message.size() > convergence::kMaxMessageBytes) return SendStatus::kTooLong;
  const auto total = static_cast<std::uint32_t>(message.size());
  const std::uint32_t most = sender_.max_piece_bytes();
  const Instant deadline = service_.now() + timeout;
  std::uint32_t offset = 0;
  Backoff backoff;
  do {
    const std::uint32_t bytes = std::min(most, total - offset);
    SendStatus status = take_place(bytes);
    if (status == SendStatus::kSent) {
      choose_proxy(compute_node);
      status = take_room(bytes, compute_node);
    }
    if (status == SendStatus::kSent) {
      if (bytes > 0) std::memcpy(lane_->data(data_offset_), message.data() + offset, bytes);
      send_piece(bytes, {total, offset});
      lanes_.publish();
      offset += bytes;
      if (offset == total) break;
      continue;
    }
    if (status == SendStatus::kClosed) return status;
    lanes_.publish();
    if (service_.turn() == 0) backoff.wait();
    if (service_.now() >= deadline) {
      failed_ = failed_ || offset > 0;
      return SendStatus::kTimeout;
    }
  } while (true);
  ++counts_.messages_sent;
  return SendStatus::kSent;
}

bool Connection::return_credit() {
  const Position consumed = receiver_.consumed();
  cell_->consumed.store(consumed.value(), std::memory_order_release);
  const std::optional<Position> due = receiver_.credit_due();
  if (!due) return true;
  // Credit needs no credit, but a descriptor.
  SendLane& lane = lanes_[pick_proxy(0)].send;
  std::uint32_t offset = 0;
  if (!lane.find_room(0, &offset)) return false;
  SendDescriptor d{};
  d.source_port = port_.value();
  d.position = due->value();
  d.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit);
  lane.push_empty(d);
  receiver_.credit_returned(*due);
  return true;
}

}  // namespace braid::proxy
