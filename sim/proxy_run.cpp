#include "sim/proxy_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "convergence/train.h"
#include "proxy/daemon/worker_turn.h"
#include "sim/virtual_config.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/segment.h"
#include "stack/wire/udp.h"

namespace braid::sim {

namespace {

// A unit of work rarely sends more frames at once; if it does, it asks again.
constexpr std::uint32_t kFramesAtOnce = 2;

// The messages that are complete once the packet has arrived, as far as its first frame tells: of a packet that IP
// fragments, a record that the frame cuts off counts as one.
std::uint32_t messages_in(ByteView first_frame) {
  stack::EthernetFrame ethernet;
  stack::Ipv4Packet ip;
  stack::PacketHeader header;
  std::size_t header_bytes = 0;
  if (stack::parse_ethernet(first_frame, ethernet) != stack::EthernetParse::kOk) return 0;
  const stack::Ipv4Parse parsed = stack::parse_ipv4(ethernet.payload, ip);
  if (parsed != stack::Ipv4Parse::kOk && parsed != stack::Ipv4Parse::kFragment) return 0;
  if (ip.payload.size() < stack::kUdpHeaderBytes) return 0;
  const ByteView packet = ip.payload.subspan(stack::kUdpHeaderBytes);
  if (!stack::parse_packet_header(packet, &header, &header_bytes)) return 0;
  std::uint32_t messages = header.records;
  stack::RecordReader reader(packet.subspan(header_bytes), header.records);
  stack::Record record;
  for (ByteView bytes; reader.next(&record, &bytes);) {
    const bool ends = record.message_offset + record.bytes == record.message_bytes;
    if (record.kind == stack::RecordKind::kCredit || !ends) --messages;
    if (record.messages > 0) messages += record.messages - 1u;
  }
  return messages;
}

}  // namespace

std::unique_ptr<proxy::NicQueue> ProxyRun::make_nic(LinkId link) {
  // Arrivals come by the proxy's one queue, not by receive().
  const VirtualNicOptions options{.cluster = cluster_.value(),
                                  .proxy = index_,
                                  .ni = link.value(),
                                  .rx_frames = 0,
                                  .tx_frames = kFramesAtOnce};
  VirtualNic::Wire& wire = *this;
  return std::make_unique<VirtualNic>(wire, shared_.frames.pool(), options);
}

// ---------------------------------------------------------------- the queue

void ProxyRun::count_queue() {
  const Instant now = shared_.events.now();
  if (shared_.measuring) {
    figures_.queue.add(now - counted_until_, queued());
    figures_.stay += (now - counted_until_) * waiting_messages_;
  }
  counted_until_ = now;
}

void ProxyRun::stop_measuring(Instant end) {
  count_queue();
  if (shared_.measuring) figures_.queue.add(end - shared_.events.now(), 0);
}

void ProxyRun::enqueue(EventKind kind, std::uint32_t item) {
  count_queue();
  Ticket ticket{.kind = kind, .item = item};
  if (kind == EventKind::kTimer) {
    rest_queued_ = true;
  } else if (kind == EventKind::kMessageArrives) {
    enter(item, ticket);
  } else {
    Frame& frame = shared_.frames[item];
    frame.ahead = queued();
    frame.arrived = shared_.events.now();
    ticket.things = 1;
    ticket.messages = frame.messages;
  }
  queue_.push_back(ticket);
  waiting_ += ticket.things;
  waiting_messages_ += ticket.messages;
  if (!busy_ && !is_stopped()) serve();
  if (shared_.measuring) figures_.queue.touch(queued());
}

void ProxyRun::enter(MessageLog::Index first, Ticket& ticket) {
  std::uint64_t behind = 0;
  if (!queue_.empty())
    behind = queue_.back().number;
  else if (busy_)
    behind = in_service_.number;
  for (MessageLog::Index i = first; i != MessageLog::kNone; i = shared_.log[i].next) {
    MessageReport& report = shared_.log[i].report;
    report.proxy = index_;
    report.ahead = queued() + ticket.things++;
    if (!shared_.log[i].is_credit) ++ticket.messages;
    report.behind = std::exchange(behind, report.number);
  }
  ticket.number = behind;
}

void ProxyRun::poke() {
  if (!rest_queued_) enqueue(EventKind::kTimer, 0);  // a rest in service has checked already
}

void ProxyRun::on_timer() {
  if (timer_ != shared_.events.now()) return;  // replaced by a later timer
  timer_ = Instant::never();
  if (rest_queued_ || rest_in_service()) return;
  if (worker_->next_deadline() > shared_.events.now()) return arm_timer();
  enqueue(EventKind::kTimer, 0);
}

void ProxyRun::arm_timer() {
  const Instant due = std::max(worker_->next_deadline(), shared_.events.now());
  if (due == Instant::never() || timer_ <= due) return;
  timer_ = due;
  shared_.events.push(due, {EventKind::kTimer, static_cast<std::uint8_t>(index_), cluster_.value(), 0});
}

void ProxyRun::on_service_ends() {
  count_queue();
  busy_ = false;
  if (is_stopped()) return;
  if (queue_.empty())
    arm_timer();
  else
    serve();
}

void ProxyRun::stop(Instant until) {
  stopped_until_ = std::max(stopped_until_, until);
}

void ProxyRun::resume() {
  if (busy_ || is_stopped()) return;
  if (queue_.empty())
    poke();  // its timers may have expired meanwhile
  else
    serve();
}

// Takes the next item: the worker processes it now, and the effects happen when the stages' time has passed.
void ProxyRun::serve() {
  const Instant now = shared_.events.now();
  if (shared_.last_in_first_out) {
    in_service_ = queue_.back();
    queue_.pop_back();
  } else {
    in_service_ = queue_.front();
    queue_.pop_front();
  }
  waiting_ -= in_service_.things;
  waiting_messages_ -= in_service_.messages;
  // This service does its work at once; work that others leave from now on needs another one.
  if (in_service_.kind == EventKind::kTimer) rest_queued_ = false;
  busy_ = true;
  until_ = messages_until_ = now;
  const std::uint32_t item = in_service_.item;
  switch (in_service_.kind) {
    case EventKind::kMessageArrives:
      (void)worker_->do_descriptor(now, 0, shared_.log[item].lane, *this);
      break;
    case EventKind::kFrameArrives:
      if (shared_.measuring) ++figures_.frames_received;
      worker_->do_frame(now, LinkId(shared_.frames[item].to_ni),
                        ByteView(shared_.frames.data(item), shared_.frames[item].length), *this);
      shared_.frames.give(item);
      break;
    default:
      if (shared_.measuring) ++figures_.timers;
      spend(shared_.costs.timer());
      worker_->do_rest(now, *this);
  }
  if (shared_.measuring) {
    figures_.busy += until_ - now;
    figures_.stay += (messages_until_ - now) * in_service_.messages;
  }
  shared_.events.push(until_,
                      {EventKind::kServiceEnds, static_cast<std::uint8_t>(index_), cluster_.value(), 0});
  if (in_service_.kind == EventKind::kMessageArrives) {
    if (shared_.log[item].is_taken || shared_.last_in_first_out)
      shared_.log.release(item);
    else
      owner_.not_taken(*this, item);
  }
  owner_.worked(*this);
}

void ProxyRun::spend(const Service& service) {
  if (shared_.measuring) {
    for (std::size_t s = 0; s < service.stages.size(); ++s)
      figures_.stages[s] += service.stages[s] / shared_.costs.proxy_speed();
  }
  until_ = until_ + shared_.costs.time(service);
}

// ---------------------------------------------------------------- the worker's stages

void ProxyRun::received(ByteView frame, const stack::Stack::Received& what) {
  // Handed over by another proxy: it has no ticket here.
  const bool own = in_service_.kind == EventKind::kFrameArrives;
  spend(shared_.costs.receive(own ? shared_.frames[in_service_.item].shape : shape_of(frame), what));
}

void ProxyRun::push_arrival(const Arrival& arrival) {
  Arrival a = arrival;
  if (in_service_.kind == EventKind::kFrameArrives) {
    const Frame& frame = shared_.frames[in_service_.item];
    a.ahead = frame.ahead;
    a.left = frame.left;
    a.on_link = frame.on_link;
    a.arrived = frame.arrived;
  }
  a.taken = shared_.events.now();
  a.delivered = messages_until_ = until_;
  arrivals_.push_back(a);
  shared_.events.push(until_ + shared_.notice,
                      {EventKind::kDelivery, static_cast<std::uint8_t>(index_), cluster_.value(), 0});
}

void ProxyRun::delivered(ClusterId source, const stack::Record& record) {
  Arrival arrival;
  arrival.source = source;
  arrival.position = record.message;
  push_arrival(arrival);
}

bool ProxyRun::keeps_credit(proxy::PortCell& cell, ClusterId source, Position credit) {
  Arrival arrival;
  arrival.source = source;
  arrival.cell = &cell;
  arrival.position = credit;
  push_arrival(arrival);
  return true;
}

void ProxyRun::taken(const proxy::Outgoing& message) {
  const bool train = message.record.messages != 0;
  if (shared_.measuring) {
    ++figures_.records;
    figures_.messages += train ? message.record.messages : 1;
  }
  const proxy::Channel& lane = *message.channel;
  const std::optional<MessageLog::Index> first =
      shared_.log.take(cluster_, lane.lane, lane.send.taken() - (train ? 2 : 1));
  if (!first) return;
  if (shared_.log[*first].is_credit) {
    shared_.log.release(*first);
    return;
  }
  MessageLog::Index i = *first;
  const auto place = [&](const stack::Record& one, ByteView) {
    shared_.log[i].report.times.served = shared_.events.now();
    shared_.log.place(cluster_, message.to, one.message, i);
    i = shared_.log[i].next;
    return true;
  };
  const ByteView bytes(message.data, message.bytes);
  if (train)
    convergence::for_each_message(message.record, bytes, message.lengths, place);
  else
    place(message.record, bytes);
}

void ProxyRun::transmit(const VirtualNic& from, std::span<const FrameRef> frames) {
  for (const FrameRef& sent : frames) {
    const ByteView bytes(shared_.frames.data(sent.buffer), sent.length);
    Frame& frame = shared_.frames.admit(sent.buffer);
    frame.shape = shape_of(bytes);
    spend(shared_.costs.send(frame.shape));
    if (frame.shape.ip && frame.shape.first) {
      fragments_to_ = static_cast<std::uint8_t>(frame.shape.udp_port - kUdpPortBase);
      fragments_messages_ = frame.shape.has_records ? messages_in(bytes) : 0;
    }
    frame.messages = frame.shape.ip && frame.shape.last ? fragments_messages_ : 0;
    if (frame.messages > 0) messages_until_ = until_;
    const std::optional<Station> to = station_of(bytes);
    CHECK(to.has_value());
    frame.length = sent.length;
    frame.to = ClusterId(static_cast<std::uint16_t>(to->cluster));
    frame.to_proxy = fragments_to_;  // a packet's fragments leave consecutively
    frame.from_ni = static_cast<std::uint8_t>(from.ni());
    frame.to_ni = static_cast<std::uint8_t>(to->ni);
    if (shared_.measuring) ++figures_.frames_sent;
    shared_.events.push(
        until_, {EventKind::kFrameLeaves, static_cast<std::uint8_t>(index_), cluster_.value(), sent.buffer});
  }
}

}  // namespace braid::sim
