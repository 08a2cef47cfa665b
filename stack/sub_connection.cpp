#include "stack/sub_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

// Timestamps on the wire count 64 ns: fine enough for shared memory, and they wrap after four minutes.
constexpr int kTimestampShift = 6;
constexpr Duration kSlowestHello = 200_ms;
// The shared hash, the node's incarnation; then, only from who asks for one, the source port.
constexpr std::size_t kHelloBytes = 16;
constexpr std::size_t kAskingHelloBytes = kHelloBytes + 2;
// Worth a pass of its own that copies and sums together.
constexpr std::uint32_t kCopyAndSumFrom = 512;
constexpr std::size_t kCopyInlineUpTo = 128;
// Of path_death: several probes before the judgement.
constexpr int kProbesBeforeDeath = 4;
// An end that closes says so until its peer shows that it knows, but not more often.
constexpr unsigned kGoodbyes = 4;
// A connection counts positions in granules of so many bytes (convergence/position.h).
constexpr std::uint32_t kCutBytes = 64;
constexpr unsigned kMaxRecords = 0xff;  // a packet's number of them has 8

// The header of a record that holds `bytes` of a piece, from `offset` on.
[[gnu::always_inline]] inline std::size_t write_record(std::byte* to, const OutMessage& m,
                                                       std::uint32_t offset, std::uint32_t bytes) {
  if (offset == 0) [[likely]]
    return write_record_header(to, m.record, static_cast<std::uint16_t>(bytes));
  Record r = m.record;
  r.position += offset / kCutBytes;
  r.message_offset += offset;
  r.skip = 0;
  return write_record_header(to, r, static_cast<std::uint16_t>(bytes));
}

// Copies `n` bytes and adds zeroes up to padded(n). Short ones without a call.
[[gnu::always_inline]] inline void copy_padded(std::byte* to, const std::byte* from, std::size_t n) {
  if (padded(n) != n) store(to + padded(n) - 4, std::uint32_t{0});  // the copy ends in it
  if (n > kCopyInlineUpTo) {
    std::memcpy(to, from, n);
    return;
  }
  if (n >= 64) {
    std::memcpy(to, from, 64);
    if (n == 64) return;
    to += 64;
    from += 64;
    n -= 64;
  }
  for (const std::size_t step : {64, 32, 16, 8, 4, 2, 1}) {
    if ((n & step) == 0) continue;
    std::memcpy(to, from, step);
    to += step;
    from += step;
  }
}

}  // namespace

SubConnection::SubConnection(const SubConnectionConfig& config, std::uint64_t epoch, Instant now,
                             Agenda::Entry entry)
    : config_(config),
      epoch_(epoch),
      last_epoch_(epoch),
      window_(config.window_packets, config.first_seq),
      rtt_(config.min_rto, config.max_rto),
      congestion_(config.congestion, config.window_packets),
      received_(config.first_seq),
      window_packets_(config.window_packets),
      window_units_(units(config.receive_window_bytes)),
      hello_wait_(config.hello_retry),
      hello_next_(now),
      last_heard_(now),
      last_sent_(now),
      entry_(entry) {
  entry_.set_due(now);
  CHECK_GE(config.max_payload_bytes, kMaxPacketHeaderBytes + kPartRecordBytes + 64);
  CHECK_LT(config.peer_death, Duration::ns(std::int64_t{1} << (31 + kTimestampShift)));  // before they wrap
  CHECK_NE(epoch, 0u);
}

std::uint16_t SubConnection::units(std::uint32_t bytes) {
  return static_cast<std::uint16_t>(std::min(bytes / kWindowUnitBytes, std::uint32_t{0xffff}));
}

std::uint32_t SubConnection::timestamp(Instant now) {
  const auto t = static_cast<std::uint32_t>(now.ns() >> kTimestampShift);
  return t == 0 ? 1 : t;  // 0 says "no timestamp"
}

// ---------------------------------------------------------------- sending

void SubConnection::send(OutMessage& m) {
  m.next = nullptr;
  m.failed = false;
  CHECK_LE(m.bytes, kMaxRecordBytes);
  CHECK(!closing_);
  m.unacknowledged = std::max(m.bytes, 1u);
  ++stats_.messages_sent;
  stats_.message_bytes_sent += m.bytes;
  if (unsent_ == nullptr) {
    entry_.set_ready();
    unsent_ = &m;
    unsent_offset_ = 0;
    if (shut_out()) entry_.set_due(Instant());  // so that the window is probed
  } else {
    last_->next = &m;
  }
  last_ = &m;
}

// How many bytes of the message the record at `offset` holds. It depends on nothing else (SC-6): a message
// that another sub-connection carries again has the same records there, and its receiver knows them again.
std::uint32_t SubConnection::part_bytes(const OutMessage& m, std::uint32_t offset) const {
  const std::size_t capacity = config_.max_payload_bytes - kMaxPacketHeaderBytes;
  const std::uint32_t rest = m.bytes - offset;
  const bool whole = offset == 0 && m.bytes == m.record.message_bytes;
  if ((whole ? kWholeRecordBytes : kPartRecordBytes) + padded(rest) <= capacity) return rest;
  return static_cast<std::uint32_t>((capacity - kPartRecordBytes) / kCutBytes * kCutBytes);
}

// Calls f(message, offset, bytes) for the records of a packet that was cut before.
template <class F>
void SubConnection::for_each_record(const Content& content, F&& f) {
  OutMessage* m = content.first;
  std::uint32_t offset = content.offset;
  for (unsigned left = content.records; left > 0; --left) {
    OutMessage* const next = m->next;  // f may give the message back
    f(*m, offset, left > 1 ? m->bytes - offset : content.last_bytes);
    m = next;
    offset = 0;
  }
}

[[gnu::always_inline]] inline SubConnection::PacketWriter SubConnection::open_packet(Instant now,
                                                                                     PacketType type, Seq seq,
                                                                                     MutableBytes room) {
  PacketHeader h;
  h.type = type;
  h.source = config_.local;
  h.destination = config_.remote;
  h.sender_epoch = epoch_;
  h.receiver_epoch = peer_epoch_;
  h.seq = seq;
  h.ack = received_.edge();
  h.timestamp = timestamp(now);
  h.timestamp_echo = echo_;
  if (echo_ != 0)
    h.ack_held = static_cast<std::uint16_t>(
        std::min<std::int64_t>((now - echo_since_).ns() >> kTimestampShift, 0xffff));
  h.window_packets = static_cast<std::uint16_t>(window_packets_);
  h.window_units = window_units_;
  h.sack_words = received_.sack(h.sack);
  std::byte* const begin = room.data();
  return {begin, begin + write_packet_header(begin, h), begin, 0};
}

[[gnu::always_inline]] inline void SubConnection::PacketWriter::put(const OutMessage& m, std::uint32_t offset,
                                                                    std::uint32_t bytes) {
  at += write_record(at, m, offset, bytes);
  if (bytes >= kCopyAndSumFrom) {
    total = checksum_add(total, {summed, static_cast<std::size_t>(at - summed)});
    total = copy_and_sum(at, m.data + offset, bytes, total);
    // An odd end is followed by a zero, which the sum has taken into account already.
    summed = at + ((bytes + 1) & ~std::size_t{1});
    if (padded(bytes) != bytes) std::memset(at + bytes, 0, padded(bytes) - bytes);
  } else {
    copy_padded(at, m.data + offset, bytes);
  }
  at += padded(bytes);
}

// Writes the records of the next packet, cut from the messages that were not sent yet (SC-6).
[[gnu::always_inline]] inline SubConnection::Content SubConnection::cut_packet(PacketWriter& into) {
  PacketWriter packet = into;  // in registers, as far as they go
  // As if the header were the longest, so that the same records fit whenever the packet is sent again.
  std::size_t left = config_.max_payload_bytes - kMaxPacketHeaderBytes;
  Content content{unsent_, unsent_offset_, 0, 0};
  unsigned records = 0;
  OutMessage* m = unsent_;
  std::uint32_t offset = unsent_offset_;
  for (; m != nullptr && records < kMaxRecords; offset = 0) {
    // Nearly all are whole messages that fit.
    std::uint32_t bytes = m->bytes;
    std::size_t record = kWholeRecordBytes + padded(bytes);
    if (offset != 0 || bytes != m->record.message_bytes || record > left) [[unlikely]] {
      bytes = part_bytes(*m, offset);
      record = (bytes == m->record.message_bytes ? kWholeRecordBytes : kPartRecordBytes) + padded(bytes);
      if (record > left) break;
    }
    left -= record;
    ++records;
    content.last_bytes = bytes;
    packet.put(*m, offset, bytes);
    if (offset + bytes < m->bytes) {  // no part of a message has room beside another of it
      offset += bytes;
      break;
    }
    m = m->next;
  }
  unsent_ = m;
  unsent_offset_ = offset;
  content.records = static_cast<std::uint8_t>(records);
  into = packet;
  return content;
}

[[gnu::always_inline]] inline std::size_t SubConnection::close_packet(Instant now, const PacketWriter& packet,
                                                                      std::uint8_t records, bool ack_at_once,
                                                                      std::uint64_t* sum) {
  const std::uint64_t total =
      checksum_add(packet.total, {packet.summed, static_cast<std::size_t>(packet.at - packet.summed)});
  *sum = checksum_combine(total, complete_header(packet.begin, records, ack_at_once));
  ++stats_.packets_sent;
  last_sent_ = now;
  unacknowledged_ = 0;
  ack_due_ = Instant::never();
  echo_ = 0;
  return static_cast<std::size_t>(packet.at - packet.begin);
}

std::size_t SubConnection::write_empty(Instant now, PacketType type, MutableBytes room, std::uint64_t* sum) {
  return close_packet(now, open_packet(now, type, Seq(), room), 0, false, sum);
}

std::size_t SubConnection::write_hello(Instant now, MutableBytes room, std::uint64_t* sum) {
  PacketHeader h;
  h.type = PacketType::kHello;
  h.source = config_.local;
  h.destination = config_.remote;
  h.sender_epoch = hello_from_;
  h.receiver_epoch = hello_to_;
  h.timestamp = timestamp(now);
  h.timestamp_echo = hello_echo_;
  const std::size_t length = write_packet_header(room.data(), h);
  store(room.data() + length, config_.shared_hash);
  store(room.data() + length + 8, config_.incarnation);
  const bool asks = config_.wanted_source_port != 0;  // SC-12
  if (asks) store(room.data() + length + kHelloBytes, config_.wanted_source_port);
  const std::size_t whole = length + (asks ? kAskingHelloBytes : kHelloBytes);
  *sum = checksum_add(0, room.first(whole));
  ++stats_.packets_sent;
  last_sent_ = now;
  return whole;
}

std::size_t SubConnection::poll(Instant now, MutableBytes room, std::uint64_t* sum) {
  if (entry_.due() <= now) on_timer(now);
  if (lost_) return 0;  // SC-7
  if (hello_due_) {
    hello_due_ = false;
    return write_hello(now, room, sum);
  }
  if (!established()) return 0;

  std::size_t written = 0;
  if (const std::optional<Seq> lost = window_.next_lost()) {
    const Content& content = window_.content(*lost);
    PacketWriter packet = open_packet(now, PacketType::kData, *lost, room);
    for_each_record(content, [&](OutMessage& m, std::uint32_t offset, std::uint32_t bytes) {
      packet.put(m, offset, bytes);
    });
    written = close_packet(now, packet, content.records, true, sum);
    window_.resent(now, *lost);
    ++stats_.retransmissions;
    data_left(now, true);
  } else if (unsent_ != nullptr && may_send(now)) {
    PacketWriter packet = open_packet(now, PacketType::kData, window_.next(), room);
    const Content content = cut_packet(packet);
    // Of a burst that is over nothing else would tell soon (SW-8). A packet alone is often answered, and the
    // answer acknowledges it.
    const bool last_of_burst = ++burst_ > 1 && unsent_ == nullptr;
    if (unsent_ == nullptr) burst_ = 0;
    written = close_packet(now, packet, content.records, last_of_burst, sum);
    window_.sent(now, content, static_cast<std::uint32_t>(written));
    data_left(now, last_of_burst);
  } else if (ack_due_ <= now) {
    written = write_empty(now, PacketType::kAck, room, sum);
    ++stats_.acknowledgements_sent;
  } else if (shut_out() && window_probe_next_ <= now) {  // SW-9
    written = write_empty(now, PacketType::kProbe, room, sum);
    ++stats_.window_probes;
    window_probe_next_ = now + window_probe_wait_;
    window_probe_wait_ = std::min(window_probe_wait_ * 2, config_.path_death / kProbesBeforeDeath);
  } else if (closing_ && !has_unfinished() && goodbye_next_ <= now) {  // SC-11
    written = write_empty(now, PacketType::kClose, room, sum);
    goodbye_next_ = now + rtt_.rto();
    if (++goodbyes_ == kGoodbyes) start_over(now, State::kClosed, epoch_);
  } else if (last_sent_ + config_.path_death / kProbesBeforeDeath <= now) {
    written = write_empty(now, PacketType::kProbe, room, sum);
  }
  if (entry_.due() <= now) schedule();
  return written;
}

// A packet with records left; `asked` for its acknowledgement.
void SubConnection::data_left(Instant now, bool asked) {
  congestion_.sent(now);
  data_sent_ = now;
  tail_asked_ = asked;
  wake(now + std::min(rtt_.probe_wait(), rtt_.rto()));
  if (unsent_ != nullptr && congestion_.departure() > now) wake(congestion_.departure());
}

[[gnu::always_inline]] inline void SubConnection::finish(OutMessage& m, bool failed) {
  if (failed) m.failed = true;
  ++gone_messages_;
  gone_bytes_ += m.bytes;
  *finished_tail_ = &m;
  finished_tail_ = &m.next;
}

OutMessage* SubConnection::take_finished() {
  if (finished_tail_ == &finished_) return nullptr;
  *finished_tail_ = nullptr;
  finished_tail_ = &finished_;
  return finished_;
}

// Its packet was acknowledged, or will never be: the messages of which nothing else is in flight are
// finished.
void SubConnection::finish_messages(const Content& content, bool failed) {
  for_each_record(content, [&](OutMessage& m, std::uint32_t, std::uint32_t bytes) {
    const std::uint32_t finished_bytes = std::max(bytes, 1u);
    CHECK(m.unacknowledged >= finished_bytes);
    m.unacknowledged -= finished_bytes;
    if (m.unacknowledged == 0) finish(m, failed);
  });
  entry_.set_finished();
}

// ---------------------------------------------------------------- receiving

PacketFate SubConnection::on_packet(Instant now, const PacketHeader& h, ByteView rest, Duration unseen) {
  if (h.sender_epoch == 0) return PacketFate::kRefused;
  if (state_ == State::kFenced || state_ == State::kClosed) return PacketFate::kUnknownEpoch;  // SC-10
  if (h.type == PacketType::kHello) return on_hello(now, h, rest);
  if (h.type != PacketType::kData && (h.records != 0 || !rest.empty())) return PacketFate::kRefused;
  if (h.receiver_epoch == challenge_epoch_ && h.sender_epoch == unknown_peer_epoch_) {  // SC-3
    // Only the hello that we sent it can have told it this epoch. What else the packet says comes again.
    take_over(now, h.sender_epoch, HelloContent(unknown_peer_hello_));
    confirmed_ = true;
    schedule();
    return PacketFate::kNothing;
  }
  // SC-2. An unknown sender in the handshake is one whose hello, and shared hash, we have not seen.
  if ((h.receiver_epoch != epoch_ || h.sender_epoch != peer_epoch_) && !mutant(Mutant::kAcceptOldEpoch))
    return PacketFate::kUnknownEpoch;
  if (lost_) return PacketFate::kNothing;  // SC-7
  if (!established()) establish(now, h.sender_epoch, peer_hello_);
  if (!on_acknowledgement(now, h, unseen)) return PacketFate::kRefused;

  last_heard_ = now;
  if (path_dead_ || !confirmed_) [[unlikely]] {
    path_dead_ = false;
    confirmed_ = true;
    entry_.set_changed();
  }
  PacketFate fate = PacketFate::kNothing;
  if (h.type == PacketType::kClose) return on_close(now);
  if (h.type == PacketType::kProbe) ack_due_ = now;
  if (h.type == PacketType::kData) {
    switch (received_.classify(h.seq)) {
      case PacketArrival::kNew:
        if (echo_ == 0) echo_since_ = now - unseen;
        return PacketFate::kRecords;
      case PacketArrival::kDuplicate:
        // The acknowledgement was lost, or late: say it again at once.
        if (echo_ == 0) {
          echo_ = h.timestamp;
          echo_since_ = now - unseen;
        }
        ack_due_ = now;
        fate = PacketFate::kDuplicate;
        break;
      case PacketArrival::kBeyondWindow:  // SW-1
        fate = PacketFate::kRefused;
        break;
    }
  }
  wake(ack_due_);
  return fate;
}

void SubConnection::delivered(Instant now, const PacketHeader& h) {
  if (h.receiver_epoch != epoch_ || h.sender_epoch != peer_epoch_) return;  // fenced in between (SC-10)
  const bool had_hole = received_.has_hole();
  received_.delivered(h.seq);           // SC-4
  if (echo_ == 0) echo_ = h.timestamp;  // of the first packet since the last acknowledgement (RFC 7323, 4.3)
  ++unacknowledged_;
  // SW-8. Also the news that a hole is filled: its packet is about to be taken for lost.
  if (h.ack_at_once || unacknowledged_ >= config_.ack_every || had_hole || received_.has_hole())
    ack_due_ = now;
  else
    ack_due_ = earlier(ack_due_, now + config_.ack_delay);
  wake(ack_due_);
}

void SubConnection::set_receive_window(Instant now, std::uint32_t packets, std::uint32_t bytes) {
  packets = std::min(packets, ReceiveWindow::kWindow);
  const bool more = packets > window_packets_ || units(bytes) > window_units_;
  window_packets_ = packets;
  window_units_ = units(bytes);
  if (!more || !established()) return;
  ack_due_ = now;  // who is shut out waits for this
  wake(now);
}

void SubConnection::take_window(Instant now, const PacketHeader& h) {
  const bool was_closed = told_packets_ == 0 || told_units_ == 0;
  told_packets_ = h.window_packets;
  told_units_ = h.window_units;
  if (unsent_ != nullptr) entry_.set_ready();
  if (told_packets_ != 0 && told_units_ != 0) return;
  if (!was_closed) {
    window_probe_wait_ = rtt_.rto();
    window_probe_next_ = now + window_probe_wait_;
  }
  wake(window_probe_next_);
}

// SC-11
PacketFate SubConnection::on_close(Instant now) {
  lose_peer(now, next_epoch());
  peer_closed_ = true;
  schedule();
  return PacketFate::kNothing;
}

std::optional<Duration> SubConnection::round_trip(Instant now, const PacketHeader& h) const {
  if (h.timestamp_echo == 0) return std::nullopt;
  const std::uint32_t age = timestamp(now) - h.timestamp_echo;  // right also when they have wrapped
  const Duration rtt = Duration::ns(std::int64_t{age} << kTimestampShift);
  if (rtt >= config_.peer_death) return std::nullopt;  // no packet is in flight so long: it means nothing
  return rtt;
}

bool SubConnection::on_acknowledgement(Instant now, const PacketHeader& h, Duration unseen) {
  if (h.timestamp_echo == 0 && h.ack == window_.base() && h.sack_words == 0) {  // nothing but data comes
    if (h.window_packets != told_packets_ || h.window_units != told_units_) take_window(now, h);
    return true;
  }
  const std::optional<Duration> rtt = round_trip(now, h);
  // The end of the tick in which the packet left: what was sent in that tick was not sent after it.
  constexpr std::int64_t kTick = std::int64_t{1} << kTimestampShift;
  const Instant echo_sent = rtt ? now + Duration::ns(kTick - 1 - now.ns() % kTick) - *rtt : Instant();
  const bool had_lost = window_.lost_any();
  using Window = SendWindow<Content>;
  std::uint32_t acknowledged = 0;
  const Window::Ack ack =
      window_.on_ack(h.ack, h.sack, h.sack_words, {now, echo_sent, rtt_.srtt()}, [&](const Content& content) {
        ++acknowledged;
        finish_messages(content, false);
      });
  if (ack == Window::Ack::kImpossible) return false;
  if (ack == Window::Ack::kProgress) {
    progress_ = now;
    tail_probed_ = false;
    wake(window_.loss_due());
  }
  if (unsent_ != nullptr || window_.lost_any()) entry_.set_ready();
  if (rtt) {
    // What the peer held on purpose is no part of the path; what it held because it did not run is, for the
    // timers, and is not for congestion control (SW-6, SW-11).
    const Duration held = Duration::ns(std::int64_t{h.ack_held} << kTimestampShift);
    const bool held_for_long = h.ack_held == 0xffff;  // or longer: then nothing is known of the network
    rtt_.on_sample(*rtt - std::min(held, config_.ack_delay));
    if (congestion_.enabled())
      congestion_.on_ack(now, *rtt - std::min(held, config_.ack_delay),
                         held_for_long ? Duration() : *rtt - held - unseen, acknowledged);
  }
  if (ack != Window::Ack::kOld && (h.window_packets != told_packets_ || h.window_units != told_units_))
    take_window(now, h);
  if (!had_lost && window_.lost_any()) {
    ++stats_.fast_retransmissions;
    congestion_.on_loss(now);
  }
  return true;
}

PacketFate SubConnection::on_hello(Instant now, const PacketHeader& h, ByteView rest) {
  if (rest.size() != kHelloBytes && rest.size() != kAskingHelloBytes) return PacketFate::kRefused;
  if (load<std::uint64_t>(rest.data()) != config_.shared_hash) {
    refused_hash_ = true;
    entry_.set_changed();
    return PacketFate::kRefused;
  }
  refused_hash_ = false;
  if (closing_ && established() && goodbyes_ > 0 && h.receiver_epoch == 0 && h.sender_epoch != peer_epoch_) {
    start_over(now, State::kClosed, epoch_);  // the peer has let go of one that owes nothing (SC-11)
    schedule();
    return PacketFate::kUnknownEpoch;
  }
  HelloContent hello_content{load<std::uint64_t>(rest.data() + 8), 0};
  if (rest.size() == kAskingHelloBytes)
    hello_content.source_port = load<std::uint16_t>(rest.data() + kHelloBytes);
  const bool knows_us = h.receiver_epoch == epoch_;
  if (!established()) {  // SC-1
    if (knows_us) {
      establish(now, h.sender_epoch, hello_content);
      if (const std::optional<Duration> rtt = round_trip(now, h)) rtt_.on_sample(*rtt);  // SW-6
    } else {
      peer_epoch_ = h.sender_epoch;
      peer_hello_ = hello_content;
    }
  } else if (h.sender_epoch == peer_epoch_) {
    if (knows_us) last_heard_ = now;
  } else if (h.receiver_epoch == 0) {
    // Perhaps a new incarnation, perhaps a packet of a dead one that was long in flight. Ask it (SC-3).
    challenge(now, h);
    unknown_peer_hello_ = hello_content;
    return PacketFate::kUnknownEpoch;
  } else if (h.receiver_epoch == challenge_epoch_ && h.sender_epoch == unknown_peer_epoch_) {
    take_over(now, h.sender_epoch, hello_content);
  } else {
    return PacketFate::kUnknownEpoch;  // SC-2: an answer to an incarnation of ours that is no more
  }
  // Whoever does not know us learns our epoch from a hello; who does, that we know it, from any packet.
  if (established() && h.receiver_epoch == epoch_) {
    ack_due_ = now;
  } else {
    answer(h, epoch_);
  }
  schedule();
  return PacketFate::kNothing;
}

void SubConnection::challenge(Instant now, const PacketHeader& hello) {
  if (hello.sender_epoch != unknown_peer_epoch_) {
    unknown_peer_epoch_ = hello.sender_epoch;
    challenge_epoch_ = next_epoch();
  }
  answer(hello, challenge_epoch_);
  entry_.set_due(now);
}

void SubConnection::answer(const PacketHeader& hello, std::uint64_t as) {
  hello_due_ = true;
  hello_from_ = as;
  hello_to_ = hello.sender_epoch;
  hello_echo_ = hello.timestamp;
}

// All numbers of 64 bits in an order without short cycles (a full-period congruential generator), from the
// random one that we were given.
std::uint64_t SubConnection::next_epoch() {
  do last_epoch_ = last_epoch_ * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
  while (last_epoch_ == 0);  // "unknown"
  return last_epoch_;
}

void SubConnection::establish(Instant now, std::uint64_t peer_epoch, const HelloContent& hello_content) {
  state_ = State::kEstablished;
  entry_.set_changed();
  peer_epoch_ = peer_epoch;
  peer_incarnation_ = hello_content.incarnation;
  peer_asks_ = hello_content.source_port;
  met_[next_met_++ % met_.size()] = peer_epoch;
  peer_closed_ = false;
  wake(now);
  last_heard_ = now;
  ack_due_ = now;  // the peer may not know yet that we know it: any packet tells
  hello_due_ = false;
  path_dead_ = false;
  unknown_peer_epoch_ = 0;
  challenge_epoch_ = 0;
}

// Everything that was on its way is given back (SC-5).
void SubConnection::fail_everything() {
  window_.for_each_unacknowledged([&](const Content& content) { finish_messages(content, true); });
  if (unsent_ != nullptr && unsent_offset_ > 0) {  // partly sent: what was not sent fails as well
    OutMessage* const m = unsent_;
    OutMessage* const next = m->next;
    finish(*m, true);
    unsent_ = next;
  }
  while (unsent_ != nullptr) {
    OutMessage* const next = unsent_->next;
    finish(*unsent_, true);
    unsent_ = next;
  }
  unsent_offset_ = 0;
  last_ = nullptr;
  entry_.set_finished();
}

void SubConnection::lose_peer(Instant now, std::uint64_t epoch) {
  fail_everything();
  lost_incarnation_ = peer_incarnation_;
  start_over(now, State::kHandshake, epoch);
  lost_ = true;
  ++stats_.peers_lost;
}

// SC-3
void SubConnection::take_over(Instant now, std::uint64_t peer_epoch, const HelloContent& hello_content) {
  if (hello_content.incarnation == 0 || hello_content.incarnation != peer_incarnation_) {
    lose_peer(now, challenge_epoch_);
  } else {
    OutMessage* const owed = take_back();
    start_over(now, State::kHandshake, challenge_epoch_);
    queue_again(owed);
    ++stats_.renewals;
  }
  establish(now, peer_epoch, hello_content);
}

// SC-13: the peer has closed its end, so nothing of this can still arrive there from the old one.
void SubConnection::queue_again(OutMessage* first) {
  unsent_ = first;
  for (OutMessage* m = first; m != nullptr; m = m->next) {
    m->record.maybe_duplicate = true;
    m->unacknowledged = std::max(m->bytes, 1u);
    last_ = m;
  }
}

void SubConnection::start_over(Instant now, State state, std::uint64_t epoch) {
  window_ = SendWindow<Content>(config_.window_packets, config_.first_seq);
  received_ = ReceiveWindow(config_.first_seq);
  rtt_ = RttEstimator(config_.min_rto, config_.max_rto);
  congestion_ = Congestion(config_.congestion, config_.window_packets);
  told_packets_ = told_units_ = 0xffff;
  tail_probed_ = false;
  burst_ = 0;
  echo_ = 0;
  unacknowledged_ = 0;
  ack_due_ = Instant::never();
  state_ = state;
  entry_.set_changed();
  peer_epoch_ = 0;
  epoch_ = epoch;
  hello_due_ = false;
  confirmed_ = false;
  unknown_peer_epoch_ = 0;
  challenge_epoch_ = 0;
  hello_wait_ = config_.hello_retry;
  hello_next_ = now;
}

OutMessage* SubConnection::take_back() {
  OutMessage* first = nullptr;
  OutMessage* last = nullptr;
  const auto take = [&](OutMessage& m) {
    if (&m == last) return;  // another part of it
    m.unacknowledged = 0;
    if (first == nullptr)
      first = &m;
    else
      last->next = &m;
    last = &m;
  };
  window_.for_each_unacknowledged([&](const Content& content) {
    for_each_record(content, [&](OutMessage& m, std::uint32_t, std::uint32_t) { take(m); });
  });
  for (OutMessage* m = unsent_; m != nullptr;) {
    OutMessage* const next = m->next;
    take(*m);
    m = next;
  }
  if (last != nullptr) last->next = nullptr;
  unsent_ = nullptr;
  unsent_offset_ = 0;
  last_ = nullptr;
  return first;
}

// SC-10
OutMessage* SubConnection::fence(Instant now) {
  OutMessage* const first = take_back();
  gone_messages_ = stats_.messages_sent;
  gone_bytes_ = stats_.message_bytes_sent;
  closing_ = false;
  start_over(now, State::kFenced, epoch_);
  path_dead_ = false;
  schedule();
  return first;
}

void SubConnection::close(Instant now) {
  if (state_ == State::kFenced || state_ == State::kClosed) return;
  closing_ = true;
  goodbyes_ = 0;
  goodbye_next_ = now;
  if (!established() && !has_unfinished()) start_over(now, State::kClosed, epoch_);
  schedule();
}

OutMessage* SubConnection::recall() {
  CHECK(state_ == State::kHandshake);
  CHECK_EQ(unsent_offset_, 0u);
  OutMessage* const first = std::exchange(unsent_, nullptr);
  for (OutMessage* m = first; m != nullptr; m = m->next) m->unacknowledged = 0;
  last_ = nullptr;
  gone_messages_ = stats_.messages_sent;
  gone_bytes_ = stats_.message_bytes_sent;
  return first;
}

void SubConnection::rename(StackId local, StackId remote, std::uint64_t shared_hash) {
  CHECK(state_ == State::kFenced || state_ == State::kClosed);
  config_.local = local;
  config_.remote = remote;
  config_.shared_hash = shared_hash;
  refused_hash_ = false;
}

void SubConnection::reopen(Instant now, std::uint64_t incarnation, std::uint64_t epoch) {
  CHECK(state_ == State::kFenced || state_ == State::kClosed);
  closing_ = false;
  config_.incarnation = incarnation;
  start_over(now, State::kHandshake, epoch != 0 ? epoch : next_epoch());
  schedule();
}

// ---------------------------------------------------------------- time

void SubConnection::on_timer(Instant now) {
  if (state_ == State::kFenced || state_ == State::kClosed) return;
  if (!established()) {
    if (closing_ && !has_unfinished()) {
      start_over(now, State::kClosed, epoch_);
      schedule();
      return;
    }
    if (hello_next_ <= now) {
      hello_due_ = true;
      hello_from_ = epoch_;
      hello_to_ = 0;
      hello_echo_ = 0;
      hello_next_ = now + hello_wait_;
      hello_wait_ = std::min(hello_wait_ * 2, kSlowestHello);
    }
  } else {
    if (now - last_heard_ >= config_.peer_death) {  // SC-8
      // It may be alive, and merely was not heard: its next handshake is another incarnation's (FO-7).
      lose_peer(now, next_epoch());
      entry_.set_due(now);
      return;
    }
    if (!path_dead_ && now - last_heard_ >= config_.path_death) {
      path_dead_ = true;
      entry_.set_changed();
      ++stats_.path_deaths;
    }
    on_loss_timers(now);
    if (window_.lost_any()) entry_.set_ready();
  }
  schedule();
}

Instant SubConnection::tail_probe_due() const {
  if (mutant(Mutant::kDropTailProbe)) return Instant::never();
  if (tail_probed_ || window_.idle() || window_.lost_any() || rtt_.srtt() == Duration())
    return Instant::never();
  const Instant its_time = data_sent_ + rtt_.probe_wait() + (tail_asked_ ? Duration() : config_.ack_delay);
  // While others are acknowledged one after the other its turn may not have come.
  return std::max(its_time, progress_ + config_.ack_delay * 5 / 4);
}

void SubConnection::on_loss_timers(Instant now) {
  if (window_.loss_due() <= now && window_.on_loss_timer(now, rtt_.srtt())) {  // SW-4
    ++stats_.fast_retransmissions;
    congestion_.on_loss(now);
  }
  const std::optional<Instant> oldest = window_.oldest_sent();
  if (!oldest) return;
  if (*oldest + rtt_.rto() <= now) {  // SW-5
    window_.on_timeout();
    rtt_.on_timeout();
    congestion_.on_timeout(now);
    ++stats_.timeouts;
  } else if (tail_probe_due() <= now) {  // SW-10
    window_.probe_tail();
    tail_probed_ = true;
    ++stats_.tail_probes;
  }
}

void SubConnection::schedule() {
  entry_.set_due(next_event());
}

Instant SubConnection::next_event() const {
  if (state_ == State::kFenced || state_ == State::kClosed) return Instant::never();
  if (hello_due_) return Instant();
  if (!established()) return hello_next_;
  Instant next = earlier(ack_due_, last_sent_ + config_.path_death / kProbesBeforeDeath);
  if (const std::optional<Instant> oldest = window_.oldest_sent()) {
    next = earlier(next, *oldest + rtt_.rto());
    next = earlier(next, tail_probe_due());
    next = earlier(next, window_.loss_due());
  }
  // Held back by pacing alone.
  if (unsent_ != nullptr && congestion_.enabled() && may_send(congestion_.departure()))
    next = earlier(next, congestion_.departure());
  if (shut_out()) next = earlier(next, window_probe_next_);
  if (closing_ && !has_unfinished()) next = earlier(next, goodbye_next_);
  return earlier(next, last_heard_ + (path_dead_ ? config_.peer_death : config_.path_death));
}

void SubConnection::on_scheduling_gap(Instant now) {
  last_heard_ = now;
  window_.restart_timers(now);
  data_sent_ = now;
  schedule();
}

void SubConnection::flush_ack(Instant now) {
  if (ack_due_ == Instant::never() || ack_due_ <= now) return;
  ack_due_ = now;
  wake(now);
}

void SubConnection::check() const {
  window_.check();
  received_.check();
  congestion_.check();
  CHECK(unsent_ == nullptr || last_ != nullptr);
}

}  // namespace braid::stack
