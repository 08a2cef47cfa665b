#include "proxy/daemon/port_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/mutant.h"
#include "convergence/position.h"
#include "proxy/daemon/proxy_state.h"

namespace braid::proxy {
namespace {

// How long a client's ring of arrivals may be full.
constexpr Duration kFullRingTimeout = 1_s;

}  // namespace

void PortTable::end_incarnation(ClusterId peer, std::uint64_t incarnation) {
  for (PortEntry& port : ports_)
    port.peer_lost =
        port.peer_lost || (port.id != PortId() && port.peer == peer && port.peer_incarnation == incarnation);
}

void PortTable::clear() {
  for (PortEntry& port : ports_) port = PortEntry{};
  rung_.clear();
}

// PS-3. A sender gives a connection's records the protocol that both ends agreed on: another one is a record that it
// cannot have made.
void PortTable::refuse(Instant now, ClusterId source, const stack::Record& r) {
  const PortEntry* const named = find(r.destination);
  const bool of_another = named != nullptr && named->peer == source && named->peer_port == r.source;
  if (of_another || protocols_[r.protocol].carries != Protocol::Carries::kConnections)
    ++protocols_[r.protocol].traffic.refused;
  else
    counters_.no_port.add();
  if (PortEntry* const port = meant(now, source, r)) mark_corrupted(*port);
}

// CV-10: a sender names both ends of one connection, so a record that names one of them belongs there. To a
// port that was closed records come as long as its peer has not heard of it; that names neither of an open
// one. (A peer that comes back may use again a number that it had; whose peer was lost does not count.) A
// peer that makes up records does not make us search more than once a turn.
PortEntry* PortTable::meant(Instant now, ClusterId source, const stack::Record& r) {
  PortEntry* const named = find(r.destination);
  if (named != nullptr && named->peer == source) return named;
  if (last_search_ == now) return nullptr;
  last_search_ = now;
  const auto found = std::find_if(ports_.begin(), ports_.end(), [&](const PortEntry& port) {
    return port.id != PortId() && port.peer == source && port.peer_port == r.source && !port.peer_lost;
  });
  return found == ports_.end() ? nullptr : &*found;
}

// The message that came here was there before. Only what may have been delivered by another proxy, or in a
// packet that was turned away, comes again.
PortTable::Delivery PortTable::drop_repeated(PortEntry& port, const stack::Record& r) {
  counters_.stale_records.add();
  if (!r.maybe_duplicate && !turned_away_) mark_corrupted(port);
  return Delivery::kDropped;
}

// CV-10
void PortTable::mark_corrupted(PortEntry& port) {
  port.cell->corrupted.store(1, std::memory_order_release);
}

// It has an entry for every granule that was promised. A client that keeps it full (it says that it consumed
// what it does not take) keeps the whole sub-connection waiting, so not for long.
PortTable::Delivery PortTable::ring_full(Instant now, Channel& channel) {
  if (channel.arrivals.peer() == Peer::kViolates) return Delivery::kProtocolViolation;
  counters_.arrival_ring_full.add();
  if (channel.full_since == Instant::never()) channel.full_since = now;
  return now - channel.full_since < kFullRingTimeout ? Delivery::kNoRoom : Delivery::kProtocolViolation;
}

// FO-9: another proxy may have delivered it, and its space may be granted again at this very moment. Either
// this sees that it was consumed, or may_grant() sees this. False: it was consumed.
bool PortTable::begin_rewriting(const PortEntry& port, const stack::Record& r) {
  writing_.store(hazard(port.id, r.position), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (r.position - Position(port.cell->consumed.load(std::memory_order_acquire)) < 0) {
    writing_.store(0, std::memory_order_relaxed);
    counters_.stale_records.add();
    return false;
  }
  counters_.redelivered.add();
  return true;
}

PortTable::Delivery PortTable::deliver(Instant now, PortEntry& port, const stack::Record& r, ByteView bytes) {
  // The client's word on what it has consumed can only hurt itself: whatever it says, the bytes go into its
  // own buffer.
  const Position consumed(port.cell->consumed.load(std::memory_order_acquire));
  const std::int32_t ahead = r.position - consumed;
  const std::uint32_t granules = convergence::granules_of(r.bytes);
  const std::uint32_t index = r.position.value() & (port.window_granules - 1);
  if (ahead < 0) return drop_repeated(port, r);
  if (static_cast<std::uint32_t>(ahead) + granules > port.window_granules ||
      index + granules > port.window_granules) {
    counters_.stale_records.add();
    mark_corrupted(port);
    return Delivery::kDropped;
  }
  Channel& channel = *port.channel;
  if (channel.closed || channel.detaching) {
    counters_.no_port.add();
    return Delivery::kDropped;
  }
  if (consumed != port.forgotten) forget_consumed(port, consumed);
  std::uint64_t& word = port.reported[index / 64];
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  if ((word & bit) != 0) return drop_repeated(port, r);
  if (channel.arrivals.room() == 0) return ring_full(now, channel);
  if (channel.full_since != Instant::never()) channel.full_since = Instant::never();
  if (r.maybe_duplicate && !begin_rewriting(port, r)) return Delivery::kDropped;
  word |= bit;
  std::memcpy(port.window + std::size_t{index} * convergence::kGranuleBytes, bytes.data(), bytes.size());
  if (r.maybe_duplicate) writing_.store(0, std::memory_order_release);
  ArrivalDescriptor d{};
  d.destination_port = r.destination.value();
  d.position = (mutant(Mutant::kMisorderAfterFailover) && r.maybe_duplicate ? consumed : r.position).value();
  d.message_bytes = r.message_bytes;
  d.message_offset = r.message_offset;
  d.message = r.message.value();
  d.bytes = r.bytes;
  d.skip = r.skip;
  d.many_pieces = r.many_pieces ? 1 : 0;
  if (!channel.arrivals.unpublished()) rung_.push_back(&channel);
  channel.arrivals.push(d);
  ++port.traffic->received;
  port.traffic->received_bytes += r.bytes;
  return Delivery::kDelivered;
}

bool PortTable::deliver_train(PortEntry& port, const stack::Record& train, ByteView bytes,
                              const stack::TrainLengths& lengths) {
  const Position consumed(port.cell->consumed.load(std::memory_order_acquire));
  const std::int32_t ahead = train.position - consumed;
  // Where its messages begin: a bit for each of its granules, of which even the longest train has no more.
  static_assert(stack::kMaxTrainMessages + stack::kMaxTrainBytes / convergence::kGranuleBytes <= 64);
  std::uint64_t begins = 0;
  std::uint32_t granules = 0;
  std::uint32_t message_bytes = 0;
  for (unsigned i = 0; i < train.messages; ++i) {
    begins |= std::uint64_t{1} << granules;
    granules += convergence::granules_of(lengths[i]);
    message_bytes += lengths[i];
  }
  const std::uint32_t index = train.position.value() & (port.window_granules - 1);
  Channel& channel = *port.channel;
  if (train.maybe_duplicate || ahead < 0 ||
      static_cast<std::uint32_t>(ahead) + granules > port.window_granules ||
      index + granules > port.window_granules || channel.closed || channel.detaching ||
      channel.arrivals.room() < 2)
    return false;
  if (consumed != port.forgotten) forget_consumed(port, consumed);
  if (!begin_messages(port, index, begins)) return false;
  channel.full_since = Instant::never();
  std::byte* to = port.window + std::size_t{index} * convergence::kGranuleBytes;
  if (bytes.size() == std::size_t{granules} * convergence::kGranuleBytes &&
      !mutant(Mutant::kRepeatTrainMessage)) {
    std::memcpy(to, bytes.data(), bytes.size());  // they lie there as in the record
  } else {
    const std::byte* from = bytes.data();
    for (unsigned i = 0; i < train.messages; ++i) {
      const std::byte* const source = mutant(Mutant::kRepeatTrainMessage) && i == 1 ? bytes.data() : from;
      std::memcpy(to, source, lengths[i]);
      from += stack::train_aligned(lengths[i]);
      to += std::size_t{convergence::granules_of(lengths[i])} * convergence::kGranuleBytes;
    }
  }
  ArrivalDescriptor d{};
  d.destination_port = train.destination.value();
  d.position = train.position.value();
  d.skip = train.skip;
  d.messages = static_cast<std::uint8_t>(train.messages - (mutant(Mutant::kLoseTrainMessage) ? 1 : 0));
  if (!channel.arrivals.unpublished()) rung_.push_back(&channel);
  channel.arrivals.push(d);
  channel.arrivals.push(std::bit_cast<ArrivalDescriptor>(lengths));
  counters_.trains_received.add();
  port.traffic->received += train.messages;
  port.traffic->received_bytes += message_bytes;
  return true;
}

// Messages begin at these granules of the window from `index` on. False, and nothing happened: one that began at
// one of them was delivered.
bool PortTable::begin_messages(PortEntry& port, std::uint32_t index, std::uint64_t begins) {
  std::uint64_t& low = port.reported[index / 64];
  const unsigned shift = index % 64;
  const std::uint64_t in_low = begins << shift;
  const std::uint64_t in_high = shift == 0 ? 0 : begins >> (64 - shift);
  if ((low & in_low) != 0) return false;
  if (in_high != 0) {
    std::uint64_t& high = port.reported[index / 64 + 1];
    if ((high & in_high) != 0) return false;
    high |= in_high;
  }
  low |= in_low;
  return true;
}

void PortTable::forget_consumed(PortEntry& port, Position consumed) {
  const std::int32_t moved = consumed - port.forgotten;
  if (moved <= 0) return;  // a lie, which costs its client what arrives now
  if (static_cast<std::uint32_t>(moved) >= port.window_granules) {
    std::fill_n(port.reported, reported_words(port.window_granules), 0);
  } else {
    std::uint32_t at = port.forgotten.value() & (port.window_granules - 1);
    for (auto left = static_cast<std::uint32_t>(moved); left > 0;) {
      const std::uint32_t bits = std::min(left, 64 - at % 64);
      const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      port.reported[at / 64] &= ~(mask << (at % 64));
      at = (at + bits) & (port.window_granules - 1);
      left -= bits;
    }
  }
  port.forgotten = consumed;
}

void PortTable::publish() {
  for (Channel* channel : rung_) {
    channel->arrivals.publish();
    channel->doorbell->ring();
  }
  rung_.clear();
}

}  // namespace braid::proxy
