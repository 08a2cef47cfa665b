// Two sub-connections over a link of virtual time: each packet is late, lost, doubled or overtaken as the
// test says. What arrives is put together again and compared with what was sent.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/sub_connection.h"
#include "stack/wire/checksum.h"
#include "tests/virtual_security.h"
#include "wire_bytes.h"

namespace braid::stack {

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(5'000'000'000) + since_start;
}

// A piece as a client hands it over, and what became of it.
struct TestMessage : OutMessage {
  Bytes content;
  int finishes = 0;
};

// A packet in flight.
struct InFlight {
  Instant arrives;
  std::uint64_t order;  // ties arrive in the order in which they left
  int to;
  Bytes bytes;
  Endpoint source = {};  // port 0: nobody asks for addresses
  Endpoint destination = {};
};

// One side: the sub-connection, what its driver was given to send, and what it was handed up.
struct End {
  std::unique_ptr<Agenda> agenda = std::make_unique<Agenda>(1);
  std::unique_ptr<SubConnection> sub;
  std::vector<std::unique_ptr<TestMessage>> sent;
  Position next_position;
  std::vector<TestMessage*> finished;  // in the order of take_finished()
  int lost = 0;                        // times that take_lost() was true
  int moves = 0;                       // and take_moved()

  struct Arriving {
    Bytes bytes;
    std::uint32_t missing = 0;
    std::map<std::uint32_t, bool> parts;  // by offset
  };
  std::map<std::uint32_t, Arriving> arriving;  // by the message's position
  std::vector<Bytes> delivered;                // complete messages, in the order of completion
  std::vector<Seq> delivered_seqs;
  std::map<PacketFate, int> fates;
  bool ring_full = false;  // the driver cannot deliver: it does not call delivered()
  int turned_away = 0;
};

class TwoEnds {
 public:
  // The fate of the n-th packet from `from` (0 or 1): one delay for every copy that arrives.
  using Link = std::function<std::vector<Duration>(int from, std::size_t n, const PacketHeader& header)>;

  // Whether packets are sealed where the test does not say (SealedOrPlain).
  static inline bool sealed_by_default = false;

  explicit TwoEnds(SubConnectionConfig c = {}) : config(c) {
    if (sealed_by_default && !config.security.secret) config.security = virtual_security(0);
    config.local = {ClusterId(0), ProxyId(0)};
    config.remote = {ClusterId(1), ProxyId(0)};
    start(0, 0xa1);
    start(1, 0xb1);
  }

  // A new incarnation of an end; the old one is gone with everything that it held.
  void start(int i, std::uint64_t epoch) {
    SubConnectionConfig c = config;
    if (i == 1) std::swap(c.local, c.remote);
    c.incarnation = incarnation_of(epoch);
    store(c.security.seed.data(), epoch);
    const Position elsewhere = ends[i].next_position + 1'000'000;  // so that incarnations' bytes differ
    ends[i] = End{};
    ends[i].next_position = elsewhere;
    ends[i].sub = std::make_unique<SubConnection>(c, epoch, now, ends[i].agenda->entry(0));
    if (moving) ends[i].sub->let_move(homes[1 - i], kLink);
  }
  // From now on each end has an address, which address[] says; packets to others are lost. The other end takes it to be
  // at `home`, or where it is now.
  void let_move(std::optional<Endpoint> home_of_a = {}) {
    moving = true;
    homes[0] = home_of_a.value_or(address[0]);
    homes[1] = address[1];
    for (int i = 0; i < 2; ++i) ends[i].sub->let_move(homes[1 - i], kLink);
  }
  // Of the node whose end started with `epoch`.
  static std::uint64_t incarnation_of(std::uint64_t epoch) { return epoch << 32 | 0x77; }
  End& a() { return ends[0]; }
  End& b() { return ends[1]; }

  // Hands a message to end i. Its bytes follow from its position.
  TestMessage& send(int i, std::uint32_t bytes) {
    End& end = ends[i];
    auto m = std::make_unique<TestMessage>();
    m->content = content(end.next_position, bytes);
    m->data = m->content.data();
    m->bytes = bytes;
    m->record.destination = PortId(7);
    m->record.source = PortId(9);
    m->record.position = end.next_position;
    m->record.message = end.next_position;
    m->record.message_bytes = bytes;
    end.next_position += granules(bytes);
    end.sent.push_back(std::move(m));
    end.sub->send(*end.sent.back());
    return *end.sent.back();
  }
  // Hands a train of messages of these lengths to end i.
  TestMessage& send_train(int i, const std::vector<std::uint16_t>& lengths) {
    End& end = ends[i];
    auto m = std::make_unique<TestMessage>();
    m->record.destination = PortId(7);
    m->record.source = PortId(9);
    m->record.position = end.next_position;
    m->record.message = end.next_position;
    m->record.messages = static_cast<std::uint8_t>(lengths.size());
    for (std::size_t k = 0; k < lengths.size(); ++k) {
      m->lengths[k] = lengths[k];
      const Bytes message = content(end.next_position, lengths[k]);
      m->content.insert(m->content.end(), message.begin(), message.end());
      m->content.resize(train_aligned(static_cast<std::uint32_t>(m->content.size())));
      end.next_position += granules(lengths[k]);
    }
    m->data = m->content.data();
    m->bytes = static_cast<std::uint32_t>(m->content.size());
    m->record.message_bytes = m->bytes;
    end.sent.push_back(std::move(m));
    end.sub->send(*end.sent.back());
    return *end.sent.back();
  }
  // Closes end i's incarnation; what was not acknowledged, in the order in which it came back.
  std::vector<TestMessage*> fence(int i) {
    std::vector<TestMessage*> out;
    for (OutMessage* m = ends[i].sub->fence(now); m != nullptr; m = m->next) {
      EXPECT_FALSE(m->failed);
      EXPECT_EQ(m->unacknowledged, 0u);
      out.push_back(static_cast<TestMessage*>(m));
    }
    return out;
  }
  void send_many(int i, int count, std::uint32_t bytes) {
    for (int n = 0; n < count; ++n) send(i, bytes);
  }
  static Bytes content(Position position, std::uint32_t bytes) {
    Prng prng(position.value() + 1);
    return random_bytes(prng, bytes);
  }

  static std::uint32_t granules(std::uint32_t bytes) { return bytes == 0 ? 1 : (bytes + 63) / 64; }

  // Lets everything happen up to and including `until`.
  void run_until(Instant until) {
    int turns_now = 0;
    for (;;) {
      turn();
      const Instant next = next_event();
      if (next > until) break;
      turns_now = next <= now ? turns_now + 1 : 0;
      ASSERT_LT(turns_now, 1000) << "nothing moves at " << now.ns();
      now = std::max(now, next);
    }
    now = until;
  }
  void run_for(Duration d) { run_until(now + d); }
  // Until nothing is unfinished on either side.
  void run_until_finished(Duration at_most) {
    const Instant limit = now + at_most;
    turn();
    while (now < limit && (a().sub->has_unfinished() || b().sub->has_unfinished()))
      run_until(std::min(limit, std::max(next_event(), now)));
    EXPECT_FALSE(a().sub->has_unfinished());
    EXPECT_FALSE(b().sub->has_unfinished());
  }
  // Both ends know each other, and no acknowledgement of it is in flight.
  void establish() {
    run_for(50_ms);
    ASSERT_TRUE(a().sub->established());
    ASSERT_TRUE(b().sub->established());
    packets.clear();
  }

  // Everything that now leaves and arrives.
  void turn() {
    for (bool moved = true; moved;) {
      moved = false;
      std::stable_sort(in_flight.begin(), in_flight.end(), [](const InFlight& x, const InFlight& y) {
        return x.arrives != y.arrives ? x.arrives < y.arrives : x.order < y.order;
      });
      for (;;) {
        const auto due = std::find_if(in_flight.begin(), in_flight.end(), [&](const InFlight& p) {
          return p.arrives <= now && !suspended[p.to];
        });
        if (due == in_flight.end()) break;
        const InFlight packet = std::move(*due);
        in_flight.erase(due);
        moved = true;
        if (!moving)
          arrive(packet.to, packet.bytes);
        else if (packet.destination == address[packet.to])
          arrive(packet.to, packet.bytes, {packet.source, kLink});
        else
          ++lost_on_the_way;
      }
      for (int i = 0; i < 2; ++i) {
        if (!suspended[i]) moved = pump(i) || moved;
      }
    }
  }

  // A packet lands at an end, whoever wrote it.
  PacketFate arrive(int i, const Bytes& packet, const Origin& origin = {}) {
    End& end = ends[i];
    PacketHeader header;
    std::size_t header_bytes = 0;
    EXPECT_TRUE(parse_packet_header(packet, &header, &header_bytes));
    const ByteView rest = ByteView(packet).subspan(header_bytes);
    const PacketFate fate = end.sub->on_packet(now, header, rest, Duration(), origin);
    end.moves += end.sub->take_moved() ? 1 : 0;
    ++end.fates[fate];
    if (fate == PacketFate::kRecords) {
      if (end.ring_full) {
        ++end.turned_away;
        return fate;
      }
      take_records(end, header, end.sub->records(rest));
      end.delivered_seqs.push_back(header.seq);
      end.sub->delivered(now, header);
    }
    end.sub->check();
    return fate;
  }

  SubConnectionConfig config;
  Instant now = at(0_us);
  Duration delay = 10_us;
  Link link;                           // empty: every packet arrives once, after `delay`
  bool suspended[2] = {false, false};  // it does not run; what arrives waits
  static constexpr LinkId kLink{3};
  bool moving = false;
  Endpoint homes[2];
  Endpoint address[2] = {{Ipv4Address(10, 0, 0, 1), 7700}, {Ipv4Address(10, 0, 0, 2), 7700}};
  int lost_on_the_way = 0;  // to addresses that nobody has
  End ends[2];
  std::vector<InFlight> in_flight;
  struct Sent {
    Instant when;
    int from;
    PacketHeader header;
    std::size_t bytes;
    Bytes packet;
    Endpoint destination;
  };
  std::vector<Sent> packets;  // everything that left since establish()
  std::size_t count(int from, PacketType type) const {
    return static_cast<std::size_t>(std::count_if(packets.begin(), packets.end(), [&](const Sent& p) {
      return p.from == from && p.header.type == type;
    }));
  }
  std::vector<std::uint32_t> data_seqs(int from) const {
    std::vector<std::uint32_t> out;
    for (const Sent& p : packets)
      if (p.from == from && p.header.type == PacketType::kData) out.push_back(p.header.seq.value());
    return out;
  }

  Instant next_event() const {
    Instant next = Instant::never();
    for (const InFlight& p : in_flight)
      if (!suspended[p.to]) next = earlier(next, p.arrives);
    for (int i = 0; i < 2; ++i)
      if (!suspended[i]) next = earlier(next, ends[i].sub->next_deadline());
    return next;
  }

 private:
  bool pump(int i) {
    End& end = ends[i];
    bool moved = false;
    constexpr std::size_t kGuard = 16;
    while (end.sub->wants_to_send(now)) {
      Bytes room(config.max_payload_bytes + kGuard, std::byte{0xee});
      std::uint64_t sum = 0;
      const std::size_t length = end.sub->poll(now, MutableBytes(room).first(config.max_payload_bytes), &sum);
      EXPECT_LE(length, config.max_payload_bytes);
      for (std::size_t g = config.max_payload_bytes; g < room.size(); ++g)
        EXPECT_EQ(room[g], std::byte{0xee}) << "written past the room";
      if (length == 0) break;
      moved = true;
      room.resize(length);
      EXPECT_EQ(checksum_fold(sum), checksum_fold(checksum_add(0, room)));
      Endpoint destination;
      if (moving)
        destination = end.sub->elsewhere() != nullptr ? *end.sub->elsewhere() : end.sub->peer_address();
      leave(i, std::move(room), destination);
    }
    for (OutMessage* m = end.sub->take_finished(); m != nullptr;) {
      OutMessage* const next = m->next;
      auto* const message = static_cast<TestMessage*>(m);
      EXPECT_EQ(++message->finishes, 1) << "a message came back twice";
      end.finished.push_back(message);
      m = next;
      moved = true;
    }
    if (end.sub->take_lost()) ++end.lost;
    end.sub->check();
    return moved;
  }
  void leave(int from, Bytes packet, const Endpoint& destination) {
    PacketHeader header;
    std::size_t header_bytes = 0;
    ASSERT_TRUE(parse_packet_header(packet, &header, &header_bytes));
    packets.push_back({now, from, header, packet.size(), packet, destination});
    const std::size_t n = left_[from]++;
    const std::vector<Duration> copies = link ? link(from, n, header) : std::vector<Duration>{delay};
    for (const Duration d : copies)
      in_flight.push_back({now + d, order_++, 1 - from, packet, address[from], destination});
  }
  void take_records(End& end, const PacketHeader& header, ByteView rest) {
    RecordReader reader(rest, header.records);
    Record r;
    ByteView bytes;
    while (reader.next(&r, &bytes)) {
      if (r.messages > 0) {
        take_train(end, r, bytes, reader.lengths(r));
        continue;
      }
      End::Arriving& m = end.arriving[r.message.value()];
      if (m.parts.empty()) {
        m.bytes.resize(r.message_bytes);
        m.missing = r.message_bytes;
      }
      EXPECT_TRUE(m.parts.emplace(r.message_offset, true).second) << "a record was handed up twice";
      EXPECT_EQ(r.position, r.message + r.message_offset / 64);
      ASSERT_LE(r.bytes, m.missing);
      std::copy(bytes.begin(), bytes.end(), m.bytes.begin() + r.message_offset);
      m.missing -= r.bytes;
      if (m.missing == 0) {
        EXPECT_EQ(m.bytes, content(r.message, r.message_bytes)) << "other bytes than were sent";
        end.delivered.push_back(m.bytes);
      }
    }
    EXPECT_FALSE(reader.broken());
  }
  // Each of its messages was delivered.
  static void take_train(End& end, const Record& train, ByteView bytes, const TrainLengths& lengths) {
    Position position = train.position;
    std::size_t offset = 0;
    for (unsigned i = 0; i < train.messages; ++i) {
      const ByteView message = bytes.subspan(offset, lengths[i]);
      end.delivered.emplace_back(message.begin(), message.end());
      EXPECT_EQ(end.delivered.back(), content(position, lengths[i])) << "other bytes than were sent";
      offset += train_aligned(lengths[i]);
      position += granules(lengths[i]);
    }
  }

  std::size_t left_[2] = {0, 0};
  std::uint64_t order_ = 0;
};

}  // namespace braid::stack
