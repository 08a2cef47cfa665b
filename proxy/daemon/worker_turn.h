// The part of a worker's turn that tells a meter what it goes through: templates, so that live, with NoMeter,
// nothing is left of it. Included by worker.cpp and by whoever drives a worker unit by unit.
#pragma once

#include <algorithm>

#include "base/mutant.h"
#include "proxy/daemon/worker.h"

namespace braid::proxy {

// Descriptors of one channel that a turn takes: a busy client does not keep the others waiting.
inline constexpr std::uint32_t kDescriptorsPerTurn = 64;

// ---------------------------------------------------------------- one unit of work

template <class Meter>
void Worker::do_frame(Instant now, LinkId link, ByteView frame, Meter& meter) {
  if (!begin(now)) return;
  last_turn_ = now;
  if (mailbox_.has_commands()) (void)obey_commands(now);
  receive_frame(now, link, frame, true, meter);
  end_unit(now);
}

template <class Meter>
bool Worker::do_descriptor(Instant now, unsigned endpoint, unsigned lane, Meter& meter) {
  if (!begin(now)) return false;
  last_turn_ = now;
  if (mailbox_.has_commands()) (void)obey_commands(now);
  int taken = 0;
  for (Channel* channel : channels_.all())
    if (taken == 0 && channel->endpoint == endpoint && channel->lane == lane && channel->takes_descriptors())
      taken = take_descriptors(*channel, 1, meter);
  end_unit(now);
  return taken > 0;
}

template <class Meter>
void Worker::do_rest(Instant now, Meter& meter) {
  if (!begin(now)) return;
  last_turn_ = now;
  (void)obey_commands(now);
  int frames = 0;
  handoffs_.drain(frames,
                  [&](LinkId link, ByteView frame) { receive_frame(now, link, frame, false, meter); });
  if (taking_ && channels_.take_inherited()) {
    while (take_descriptors(meter) > 0) {
    }
  }
  (void)run_relays();
  (void)send_datagrams(now);
  end_unit(now);
}

// ---------------------------------------------------------------- arrivals

template <class Meter>
void Worker::receive_frame(Instant now, LinkId link, ByteView frame, bool may_hand_over, Meter& meter) {
  counters_.frame_bytes_received.add(frame.size());
  const stack::Stack::Received received = stack_.receive(now, link, frame);
  meter.received(frame, received);
  switch (received.what) {
    case stack::Stack::Received::What::kNothing:
      return;
    case stack::Stack::Received::What::kMisdirected:
      hand_over(link, frame, received, may_hand_over);
      return;
    case stack::Stack::Received::What::kDatagram:
      told_ = true;
      datagrams_.arrived(received);
      return;
    case stack::Stack::Received::What::kUnreachable:
      if (received.sub_connection == nullptr) datagrams_.arrived(received);  // else path_report() has it
      return;
    case stack::Stack::Received::What::kForAllProxies:
      if (may_hand_over) counters_.handoff_drops.add(handoffs_.push_to_all(link, frame));
      return;
    case stack::Stack::Received::What::kRecords:
      break;
  }
  // If there is no room for all of them the packet stays unacknowledged and comes again. What was delivered
  // of it is then a duplicate, which connections know and others do not: so records of no connection go last, and all
  // or none.
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  bool any_unconnected = false;
  while (reader.next(&record, &bytes)) {
    if (record.kind >= stack::RecordKind::kDatagram)
      any_unconnected = true;
    else if (!deliver(now, received.source, record, bytes, reader, meter)) {
      ports_.packet_turned_away();
      return;
    }
  }
  if (reader.broken()) {
    ports_.packet_turned_away();
    stack_.malformed();
    return;
  }
  if (any_unconnected && !deliver_unconnected(now, received)) [[unlikely]] {
    ports_.packet_turned_away();
    return;
  }
  served_ = true;
  stack_.delivered(now, received);
}

// True when the record needs no more: it lies where it belongs, or nobody will ever take it.
template <class Meter>
bool Worker::deliver(Instant now, ClusterId source, const stack::Record& r, ByteView bytes,
                     const stack::RecordReader& reader, Meter& meter) {
  PortEntry* const port = ports_.destination(now, source, r);
  if (port == nullptr) return true;
  if (r.kind == stack::RecordKind::kCredit) {
    if (mutant(Mutant::kLeakCredit) && r.position.value() % 8 == 0) return true;
    const Position granted = r.position + (mutant(Mutant::kGrantTooMuch) ? 1 : 0);
    if (!meter.keeps_credit(*port->cell, source, granted)) store_credit(*port->cell, self(), granted);
    return true;
  }
  const auto delivered = [&](const stack::Record& message) { meter.delivered(source, message); };
  PortTable::Delivery delivery = PortTable::Delivery::kDelivered;
  if (r.messages == 0) [[likely]] {
    delivery = ports_.deliver(now, *port, r, bytes);
    if (delivery == PortTable::Delivery::kDelivered) delivered(r);
  } else if (const stack::TrainLengths lengths = reader.lengths(r);
             ports_.deliver_train(*port, r, bytes, lengths)) {
    if constexpr (Meter::kCountsMessages)
      convergence::for_each_message(r, bytes, lengths, [&](const stack::Record& message, ByteView) {
        delivered(message);
        return true;
      });
  } else {
    delivery = ports_.deliver_one_by_one(now, *port, r, bytes, lengths, delivered);
  }
  if (delivery == PortTable::Delivery::kProtocolViolation) protocol_violation(*port->channel);
  return delivery != PortTable::Delivery::kNoRoom;
}

// ---------------------------------------------------------------- departures

template <class Meter>
int Worker::take_descriptors(Meter& meter) {
  int taken = 0;
  for (Channel* channel : channels_.all())
    if (channel->takes_descriptors() && channel->may_be_taken())
      taken += take_descriptors(*channel, kDescriptorsPerTurn, meter);
  return taken;
}

template <class Meter>
int Worker::take_descriptors(Channel& channel, std::uint32_t most, Meter& meter) {
  const std::uint32_t readable = std::min(channel.send.readable(), most);
  if (channel.send.peer() == Peer::kViolates) {
    protocol_violation(channel);
    return 0;
  }
  bool unsent = false;
  // Records of one port share its look-up. If there is a choice of paths each record has its own.
  std::uint32_t last_port = 0;
  const PortEntry* port = nullptr;
  stack::SubConnection* only_way = nullptr;
  const std::uint32_t end = channel.send.taken() + readable;  // a train's lengths are behind its descriptor
  int taken = 0;
  for (; static_cast<std::int32_t>(channel.send.taken() - end) < 0; ++taken) {
    SendDescriptor d;
    Outgoing& out = channel.take(&d);  // copied, then checked, then used
    if (port == nullptr || d.source_port != last_port) {
      port = ports_.find_own(channel, PortId(d.source_port));
      last_port = d.source_port;
      only_way = port != nullptr ? paths_.routes().only(port->peer) : nullptr;
    }
    if (port == nullptr || !channel.permits(d, out.lengths)) {
      finish(out);
      protocol_violation(channel);
      return taken;
    }
    if (port->peer_lost) {  // nobody will ever take it, and nobody waits until the peer comes back
      finish(out);
      unsent = true;
      continue;
    }
    channel.describe(out, d, *port);
    const bool credit = out.record.kind == stack::RecordKind::kCredit;
    if (!credit) {
      ++port->traffic->sent;
      port->traffic->sent_bytes += out.bytes;
    }
    if (d.messages != 0) {
      counters_.trains_sent.add();
      port->traffic->sent += d.messages - 1u;
    }
    meter.taken(out);
    if (credit && !may_grant(states_, proxies(), port->id, out.record.position))
      waiting_.defer(out);
    else if (stack::SubConnection* const sub =
                 only_way != nullptr ? only_way : paths_.routes().pick(port->peer))
      sub->send(out);
    else
      dispatch(out);
  }
  if (unsent) channels_.release(channel);
  return taken;
}

}  // namespace braid::proxy
