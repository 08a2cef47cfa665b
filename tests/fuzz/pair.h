// Two ends of a sub-connection over a link that the input controls, and an unknown peer between them. The
// unknown peer knows addresses and numbers but no current epoch; it has packets of earlier ones.
//
// In every case: nothing crashes; only the other end's messages are delivered; a message is delivered once at
// most; and when the faults end, the two establish a connection and every message that was sent arrives.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/check.h"
#include "stack/sub_connection.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"
#include "tests/virtual_security.h"

namespace braid::fuzz {

using namespace stack;

inline constexpr std::size_t kMaxPayload = 600;  // so that messages are cut
inline constexpr Duration kDelay = 20_us;

struct Message : OutMessage {
  ByteView content;
  bool finished = false;
  bool begun = false;  // a part of it was delivered
  std::size_t arrived_bytes = 0;

  bool arrived() const { return begun && arrived_bytes == content.size(); }
};

struct Packet {
  Instant arrives;
  std::vector<std::byte> bytes;
  Endpoint source;
  Endpoint destination;
};

class Pair {
 public:
  // `sealed`: the two ends have a secret that the one between them does not know. The one may then know everything
  // else, and does.
  explicit Pair(bool sealed = false) : sealed_(sealed) {
    for (int i : {0, 1}) {
      ends_[i].address = home(i);
      start(i);
    }
  }

  // A new incarnation: what the old one held is gone with it.
  void start(int i) {
    End& end = ends_[i];
    SubConnectionConfig c;
    c.local = {ClusterId(static_cast<std::uint16_t>(i)), ProxyId(0)};
    c.remote = {ClusterId(static_cast<std::uint16_t>(1 - i)), ProxyId(0)};
    c.max_payload_bytes = kMaxPayload;
    c.shared_hash = 0x5a5a;
    c.path_death = 50_ms;
    c.peer_death = 400_ms;
    c.max_rto = 20_ms;
    if (sealed_) c.security = virtual_security(last_epoch_);
    end.sub.reset();
    end.ending = false;
    for (auto& m : end.messages) m->finished = true;  // whether it arrived is not known
    end.agenda = std::make_unique<Agenda>(1);
    end.sub = std::make_unique<SubConnection>(c, ++last_epoch_ * 0x9e3779b97f4a7c15 | 1, now_,
                                              end.agenda->entry(0));
    if (sealed_) end.sub->let_move(home(1 - i), kLink);
  }

  void send(int i, std::uint32_t bytes) {
    End& end = ends_[i];
    if (end.messages.size() >= kMaxMessages || end.ending) return;
    auto m = std::make_unique<Message>();
    const auto number = static_cast<std::uint32_t>(end.messages.size());
    m->content = content(i, number, bytes);
    m->data = m->content.data();
    m->bytes = bytes;
    m->record.position = Position(number);
    m->record.message = Position(number);
    m->record.message_bytes = bytes;
    m->record.destination = PortId(7);
    m->record.source = PortId(9);
    end.messages.push_back(std::move(m));
    end.sub->send(*end.messages.back());
  }

  // Sends everything that is due; the input decides what the link does with it. nullptr: nothing is lost.
  void transmit(int i, Input* faults) {
    End& end = ends_[i];
    for (int guard = 0; guard < 600; ++guard) {
      std::uint64_t sum = 0;
      const std::size_t length = end.sub->poll(now_, room_, &sum);
      if (length == 0) break;
      CHECK_LT(guard, 599);
      const ByteView packet = ByteView(room_).first(length);
      Endpoint to = home(1 - i);
      if (sealed_) to = end.sub->elsewhere() != nullptr ? *end.sub->elsewhere() : end.sub->peer_address();
      if (is_forged(to)) forged_[to.port].received += length;
      digest(packet);
      capture(packet);
      const unsigned fate = faults == nullptr ? 0 : faults->below(8);
      if (fate == 7) continue;  // lost
      for (unsigned copies = fate == 6 ? 2 : 1; copies > 0; --copies) {
        const Duration late = fate == 5 ? 2_ms : fate == 4 ? 300_us : 0_us;
        ends_[1 - i].arriving.push_back(
            {now_ + kDelay + late, {packet.begin(), packet.end()}, end.address, to});
      }
    }
    collect(i);
  }

  void receive(int i, bool deliver) {
    End& end = ends_[i];
    for (std::size_t k = 0; k < end.arriving.size();) {
      if (end.arriving[k].arrives > now_) {
        ++k;
        continue;
      }
      const Packet packet = std::move(end.arriving[k]);
      end.arriving.erase(end.arriving.begin() + static_cast<std::ptrdiff_t>(k));
      if (packet.destination == end.address) take(i, packet.bytes, deliver, packet.source);
    }
  }

  void take(int i, const std::vector<std::byte>& payload, bool deliver, const Endpoint& source) {
    End& end = ends_[i];
    PacketHeader header;
    std::size_t header_bytes = 0;
    if (!parse_packet_header(payload, &header, &header_bytes)) return;
    // The stack finds the sub-connection by these.
    if (!(header.source == end.sub->config().remote && header.destination == end.sub->config().local)) return;
    const ByteView rest = ByteView(payload).subspan(header_bytes);
    const PacketFate fate = end.sub->on_packet(now_, header, rest, Duration(), {source, kLink});
    // He passes on what comes to an address of his: then the peer is there, for all that can be known.
    if (end.sub->take_moved() && is_forged(end.sub->peer_address()))
      forged_[source.port].has_moved_one = true;
    if (fate == PacketFate::kRecords && deliver) {
      RecordReader reader(end.sub->records(rest), header.records);
      Record record;
      ByteView bytes;
      while (reader.next(&record, &bytes)) arrived(i, record, bytes);
      CHECK(!reader.broken());
      end.sub->delivered(now_, header);
    }
    end.sub->check();
    collect(i);
  }

  // A packet of the unknown peer: anything that names no current epoch.
  void inject(int i, Input& in) {
    std::vector<std::byte> payload;
    if (in.truth() && !captured_.empty()) {
      payload = captured_[in.below(static_cast<std::uint32_t>(captured_.size()))].bytes;
      mutate(in, payload);
    } else {
      PacketHeader header;
      header.type = static_cast<PacketType>(1 + in.below(7));
      header.records = static_cast<std::uint8_t>(in.below(3));
      header.sack_words = static_cast<std::uint8_t>(in.below(kMaxSackWords + 1));
      header.source = {ClusterId(static_cast<std::uint16_t>(1 - i)), ProxyId(0)};
      header.destination = {ClusterId(static_cast<std::uint16_t>(i)), ProxyId(0)};
      header.sender_epoch = in.truth() ? 0x1111 + in.below(4) : in.number<std::uint64_t>();
      header.receiver_epoch = in.truth() ? 0 : in.number<std::uint64_t>();
      header.seq = Seq(in.number<std::uint32_t>());
      header.ack = Seq(in.truth() ? in.below(8) : in.number<std::uint32_t>());
      header.timestamp = in.number<std::uint32_t>();
      header.timestamp_echo = in.number<std::uint32_t>();
      for (std::uint64_t& word : header.sack) word = in.number<std::uint64_t>();
      std::byte written[kMaxPacketHeaderBytes] = {};
      const std::size_t bytes = write_packet_header(written, header);
      payload.assign(written, written + bytes);
      if (in.truth()) {
        std::byte shared[16] = {};
        store(shared, std::uint64_t{0x5a5a});
        store(shared + 8, in.number<std::uint64_t>());
        payload.insert(payload.end(), shared, shared + 16);
      } else {
        const ByteView more = in.some_bytes(64);
        payload.insert(payload.end(), more.begin(), more.end());
      }
    }
    PacketHeader header;
    std::size_t header_bytes = 0;
    if (!parse_packet_header(payload, &header, &header_bytes)) return;
    // An unchanged copy of a packet between the two is theirs. A changed one that still names their epochs is
    // not: without a secret nothing keeps a listener on the wire out.
    if (!sealed_ && names_current_epoch(header) && !is_captured(payload)) return;
    // From an address of his, or the other's.
    const unsigned from = sealed_ ? in.below(kForged) : 0;
    const Endpoint source =
        from == 0 ? ends_[1 - i].address : Endpoint{kForgedAddress, static_cast<std::uint16_t>(from)};
    if (is_forged(source)) forged_[from].sent += payload.size();
    take(i, payload, true, source);
  }
  // The host has another address, or is behind a NAT that has forgotten it.
  void move(int i) {
    if (!sealed_) return;
    ends_[i].address.port = static_cast<std::uint16_t>(ends_[i].address.port + 1);
  }

  void pass(Duration d) {
    now_ = now_ + d;
    for (int i : {0, 1}) {
      if (ends_[i].sub->next_deadline() <= now_) ends_[i].sub->on_timer(now_);
    }
  }
  // Unacknowledged messages go back to the driver; this one drops them.
  void fence(int i) {
    End& end = ends_[i];
    for (OutMessage* m = end.sub->fence(now_); m != nullptr; m = m->next) {
      CHECK(!static_cast<Message*>(m)->finished);
      CHECK_EQ(m->unacknowledged, 0u);
      static_cast<Message*>(m)->finished = true;
    }
    end.ending = true;
  }
  void close(int i) {
    ends_[i].sub->close(now_);
    ends_[i].ending = true;
  }
  void reopen(int i) {
    End& end = ends_[i];
    if (!is_closed(end)) return;
    end.sub->reopen(now_, ++last_epoch_);
    end.ending = false;
  }
  void set_window(int i, std::uint32_t packets, std::uint32_t bytes) {
    ends_[i].sub->set_receive_window(now_, packets, bytes);
  }
  void gap(int i, Duration length) { ends_[i].sub->on_scheduling_gap(now_, length); }

  // A link without faults from here on: within 5 s both are established and every message is finished.
  void expect_recovery() {
    const Instant limit = now_ + 5_s;
    // SE-9
    for (const Forged& f : forged_)
      if (!f.has_moved_one) CHECK_LE(f.received, PeerAddress::kAmplification * f.sent);
    for (int i : {0, 1}) ends_[i].address = home(i);
    for (int i : {0, 1}) set_window(i, 256, 1u << 20);
    for (;;) {
      for (int i : {0, 1}) {
        reopen(i);
        receive(i, true);
        if (ends_[i].sub->next_deadline() <= now_) ends_[i].sub->on_timer(now_);
        transmit(i, nullptr);
      }
      const bool done = ends_[0].sub->established() && ends_[1].sub->established() && all_finished();
      if (done) break;
      CHECK_LT(now_, limit);
      now_ = now_ + 10_us;
      Instant next = limit;
      for (const End& end : ends_) {
        if (is_closed(end)) next = now_;  // it is reopened now: a closed end has no deadline
        next = earlier(next, end.sub->next_deadline());
        for (const Packet& p : end.arriving) next = earlier(next, p.arrives);
      }
      now_ = std::max(now_, next);
    }
  }

 private:
  static constexpr std::size_t kMaxMessages = 64;
  struct End {
    std::unique_ptr<Agenda> agenda;
    std::unique_ptr<SubConnection> sub;
    Endpoint address;     // where it is
    bool ending = false;  // it was fenced or closed: nothing is given to it until it is open again
    std::vector<std::unique_ptr<Message>> messages;
    std::deque<Packet> arriving;
    std::map<std::uint32_t, std::set<std::uint32_t>> parts;  // of the other's messages: offsets that arrived
  };

  // Addresses of who is between them.
  static constexpr Ipv4Address kForgedAddress{10, 66, 0, 1};
  static constexpr unsigned kForged = 4;  // 0: none
  struct Forged {
    std::size_t sent = 0;
    std::size_t received = 0;
    bool has_moved_one = false;
  };
  static bool is_forged(const Endpoint& end) { return end.address == kForgedAddress; }
  // Where an end is at first.
  static Endpoint home(int i) { return {Ipv4Address(10, 0, 0, static_cast<std::uint8_t>(1 + i)), 7700}; }
  static constexpr LinkId kLink{0};

  struct Captured {
    std::vector<std::byte> bytes;
    std::uint64_t sender_epoch;  // 0: none
  };
  static constexpr std::size_t kMaxCaptured = 64;

  // The unknown peer sees a packet.
  void capture(ByteView packet) {
    PacketHeader header;
    std::size_t bytes = 0;
    const std::uint64_t epoch = parse_packet_header(packet, &header, &bytes) ? header.sender_epoch : 0;
    captured_.push_back({{packet.begin(), packet.end()}, epoch});
    if (captured_.size() > kMaxCaptured) captured_.pop_front();
  }

  static ByteView content(int from, std::uint32_t number, std::uint32_t bytes) {
    return random_bytes((number * 2 + static_cast<unsigned>(from)) * 257, bytes);
  }

  static bool is_closed(const End& end) {
    return end.sub->state() == SubConnection::State::kFenced ||
           end.sub->state() == SubConnection::State::kClosed;
  }

  void arrived(int at, const Record& record, ByteView bytes) {
    const std::uint32_t number = record.message.value();
    auto& theirs = ends_[1 - at].messages;
    CHECK_LT(number, theirs.size());
    Message& m = *theirs[number];
    CHECK_EQ(record.message_bytes, m.bytes);
    CHECK(inside(record.message_offset, bytes.size(), m.bytes));
    CHECK(equal(bytes, m.content.subspan(record.message_offset, bytes.size())));
    digest(bytes);
    auto& parts = ends_[at].parts[number];
    // Delivered once. A new incarnation of the receiver knows nothing of the former one's records, but by then
    // the sender has taken its messages back and does not send them any more.
    CHECK(parts.insert(record.message_offset).second);
    m.begun = true;
    m.arrived_bytes += bytes.size();
  }

  void collect(int i) {
    for (OutMessage* m = ends_[i].sub->take_finished(); m != nullptr;) {
      auto* const message = static_cast<Message*>(m);
      m = m->next;
      CHECK(!message->finished);
      message->finished = true;
      CHECK(message->failed || message->arrived());
    }
    (void)ends_[i].sub->take_lost();
  }
  bool all_finished() const {
    for (const End& end : ends_) {
      for (const auto& m : end.messages)
        if (!m->finished) return false;
    }
    return true;
  }
  bool is_captured(ByteView payload) const {
    return std::any_of(captured_.begin(), captured_.end(),
                       [&](const Captured& c) { return equal(c.bytes, payload); });
  }
  static bool equal(ByteView a, ByteView b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
  }
  bool names_current_epoch(const PacketHeader& header) const {
    for (const End& end : ends_) {
      const std::uint64_t epoch = end.sub->epoch();
      if (header.sender_epoch == epoch || header.receiver_epoch == epoch) return true;
    }
    // The answer to a challenge names an epoch that has not begun; only a listener on the wire knows it too.
    return header.receiver_epoch != 0 &&
           std::any_of(captured_.begin(), captured_.end(),
                       [&](const Captured& c) { return c.sender_epoch == header.receiver_epoch; });
  }

  bool sealed_;
  std::array<Forged, kForged> forged_{};  // by port
  Instant now_ = Instant::from_ns(7'000'000'000);
  std::uint64_t last_epoch_ = 0;
  End ends_[2];
  std::deque<Captured> captured_;  // packets that the unknown peer has seen, latest last
  std::vector<std::byte> room_ = std::vector<std::byte>(kMaxPayload);  // for the packet that is being sent
};

inline void run(Pair& pair, Input& in) {
  while (!in.empty()) {
    const unsigned op = in.byte();
    const int i = op & 1;
    switch (op >> 1 & 7) {
      case 0:
        pair.transmit(i, &in);
        break;
      case 1:
        pair.receive(i, true);
        break;
      case 2:
        pair.receive(i, false);
        break;  // the driver has no room for the records
      case 3:
        pair.inject(i, in);
        break;
      case 4:
        pair.send(i, in.number<std::uint16_t>() % 2000);
        break;
      case 5:
        pair.pass(Duration::us(in.number<std::uint16_t>()));
        break;
      case 6:
        switch (in.below(8)) {
          case 0:
            pair.start(i);
            break;
          case 1:
            pair.fence(i);
            break;
          case 2:
            pair.close(i);
            break;
          case 3:
            pair.reopen(i);
            break;
          case 4:
            pair.set_window(i, in.below(300), in.number<std::uint16_t>());
            break;
          case 5:
            pair.move(i);
            break;
          default:
            pair.gap(i, 60_ms);
            break;
        }
        break;
      case 7:
        pair.transmit(0, nullptr);
        pair.transmit(1, nullptr);
        pair.pass(kDelay);
        pair.receive(0, true);
        pair.receive(1, true);
        break;
    }
  }
  pair.expect_recovery();
}

// As run() and Pair::inject() read it: a packet of the unknown peer.
inline std::vector<std::byte> make_operation(Draw& draw) {
  Writer w;
  const unsigned records = draw.below(3);
  w.byte(3 << 1 | draw.below(2)).byte(0);
  w.byte(draw.below(7)).byte(records).byte(draw.below(kMaxSackWords + 1));
  if (draw.one_in(2))
    w.byte(1).byte(draw.below(4));
  else
    w.byte(0).number(draw.number<std::uint64_t>());
  if (draw.one_in(2))
    w.byte(1);
  else
    w.byte(0).number(draw.number<std::uint64_t>());
  w.number(draw.number<std::uint32_t>());
  if (draw.one_in(2))
    w.byte(1).byte(draw.below(8));
  else
    w.byte(0).number(draw.number<std::uint32_t>());
  w.number(draw.number<std::uint32_t>()).number(draw.number<std::uint32_t>());
  for (std::size_t i = 0; i < kMaxSackWords; ++i) w.number(draw.number<std::uint64_t>());
  if (draw.one_in(2)) return w.byte(1).number(draw.number<std::uint64_t>()).take();
  return w.byte(0).some_bytes(make_records(draw, records)).take();
}

}  // namespace braid::fuzz
