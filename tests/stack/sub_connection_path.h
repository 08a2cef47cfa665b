// Sub-connections over links of virtual time that have a rate, a length, a queue and faults: what a transport
// is measured by. Every sender has a NIC of its own; where there are several they meet before one link to
// the receiver, as behind a switch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/link.h"
#include "stack/sub_connection.h"
#include "stack/wire/flow.h"
#include "wire_bytes.h"

namespace braid::stack {

// The headers before a packet in its frame: Ethernet, IPv4, UDP.
inline constexpr std::uint32_t kFrameHeaderBytes = kFlowHeaderBytes;

struct PathConfig {
  std::uint32_t mtu_bytes = 1500;
  Duration round_trip = 20_us;  // of the bare path, without serialisation
  std::uint64_t bits_per_second = 10'000'000'000;
  std::uint64_t queue_bytes = 512u << 10;  // of the switch's port
  double loss = 0;                         // of a frame in either direction
  std::size_t flows = 1;
  // Messages that each sender has waiting at any time, 0: it is told when to send; and their length.
  std::size_t waiting = 64;
  std::uint32_t message_bytes = 32 * 1024;
  // Both ends' processors do other work for a while, not at the same time; what arrives waits. Their drivers
  // know (SW-11) unless it is kept from them.
  Duration sleeps_every{};
  Duration sleeps_for{};
  bool sleep_is_known = true;
  std::uint64_t seed = 1;
  SubConnectionConfig sub_connection;  // ids and max_payload_bytes are filled in
};

class Path {
 public:
  explicit Path(const PathConfig& config)
      : config_(config), events_(Instant::from_ns(1'000'000'000)), bytes_(random_bytes_of(64 * 1024)) {
    sim::LinkConfig link;
    link.bits_per_second = config.bits_per_second;
    link.mtu_bytes = config.mtu_bytes;
    link.propagation = config.round_trip / 2;
    link.queue_bytes = config.flows > 1 ? config.queue_bytes : 1u << 20;
    shared_ = std::make_unique<sim::Link>(link);
    link.queue_bytes = 1u << 20;
    sim::FaultConfig faults;
    faults.loss = config.loss;
    for (std::size_t f = 0; f < config.flows; ++f) {
      auto flow = std::make_unique<Flow>();
      SubConnectionConfig c = config.sub_connection;
      c.max_payload_bytes = config.mtu_bytes - 28;
      c.local = {ClusterId(static_cast<std::uint16_t>(f + 1)), ProxyId(0)};
      c.remote = {ClusterId(0), ProxyId(0)};
      for (int end = 0; end < 2; ++end) {
        const std::uint64_t seed = config.seed * 1000 + 2 * f + static_cast<std::uint64_t>(end);
        flow->end[end] = std::make_unique<End>(c, seed, link, faults, now());
        std::swap(c.local, c.remote);
      }
      flow->messages.resize(config.waiting);
      flows_.push_back(std::move(flow));
    }
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      pump(f, 0);
      pump(f, 1);
    }
  }

  Instant now() const { return events_.now(); }
  SubConnection& sender(std::size_t flow = 0) { return *flows_[flow]->end[0]->sub; }
  // Bytes of messages that arrived.
  std::uint64_t delivered(std::size_t flow) const { return flows_[flow]->delivered; }
  std::uint64_t delivered() const {
    std::uint64_t sum = 0;
    for (const auto& f : flows_) sum += f->delivered;
    return sum;
  }
  // Dropped by the switch's full queue.
  std::uint64_t dropped() const { return shared_->dropped(); }
  // The longest time that a frame waited in the switch.
  Duration longest_queue() const { return longest_queue_; }
  void forget_longest_queue() { longest_queue_ = Duration(); }

  void run_for(Duration d) {
    const Instant until = now() + d;
    while (events_.next_time() <= until) step();
    events_.push(until, {Event::Kind::kNothing, 0, 0, 0});
    while (now() < until) step();
  }
  // Until `bytes` more have arrived than had. The time that it took.
  Duration run_until_delivered(std::uint64_t bytes, Duration at_most) {
    const Instant began = now();
    const std::uint64_t enough = delivered() + bytes;
    while (now() - began < at_most && delivered() < enough) step();
    EXPECT_EQ(delivered(), enough);
    return now() - began;
  }
  // One message of `bytes` from the first sender.
  void send(std::uint32_t bytes) {
    extra_.push_back(std::make_unique<OutMessage>());
    offer(*flows_[0], *extra_.back(), bytes);
    pump(0, 0);
  }
  // Loses the next `count` data packets of the first flow from its `from`-th after this call on.
  void lose(std::size_t from, std::size_t count) {
    lose_from_ = data_left_ + from;
    lose_until_ = lose_from_ + count;
  }

 private:
  struct End {
    End(const SubConnectionConfig& c, std::uint64_t seed, const sim::LinkConfig& link_config,
        const sim::FaultConfig& fault_config, Instant when)
        : link(link_config), faults(fault_config, seed) {
      sub = std::make_unique<SubConnection>(c, seed | 1, when, agenda.entry(0));
    }
    Agenda agenda{1};
    std::unique_ptr<SubConnection> sub;
    sim::Link link;  // outward
    sim::FaultModel faults;
    Instant wakes = Instant::never();  // the event that is no longer wanted is another's
  };
  struct Flow {
    std::unique_ptr<End> end[2];
    std::vector<OutMessage> messages;
    bool filled = false;
    Position position;
    std::uint64_t delivered = 0;
  };
  struct Event {
    enum class Kind : std::uint8_t { kNothing, kWake, kAtSwitch, kArrives };
    Kind kind;
    std::uint8_t to;  // end
    std::uint16_t flow;
    std::uint32_t packet;
    bool waited = false;  // for its end to wake up
  };

  static Bytes random_bytes_of(std::size_t n) {
    Prng prng(7);
    return random_bytes(prng, n);
  }
  void offer(Flow& flow, OutMessage& m, std::uint32_t bytes) {
    m.data = bytes_.data();
    m.bytes = bytes;
    m.record.message_bytes = bytes;
    m.record.position = m.record.message = flow.position;
    flow.position = flow.position + (bytes + 63) / 64;
    flow.end[0]->sub->send(m);
  }
  std::uint32_t take_packet() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(packets_.size()));
      packets_.emplace_back();
    }
    const std::uint32_t p = free_.back();
    free_.pop_back();
    return p;
  }

  // When the end runs: now, or when it wakes up.
  Instant runs_at(int end) const {
    if (config_.sleeps_every == Duration()) return now();
    const std::int64_t every = config_.sleeps_every.ns();
    const std::int64_t phase = (now().ns() + end * every * 3 / 8) % every;
    return phase < config_.sleeps_for.ns() ? now() + config_.sleeps_for - Duration::ns(phase) : now();
  }

  void step() {
    const Event e = events_.pop();
    switch (e.kind) {
      case Event::Kind::kNothing:
        return;
      case Event::Kind::kWake:
        if (flows_[e.flow]->end[e.to]->wakes != now()) return;
        flows_[e.flow]->end[e.to]->wakes = Instant::never();
        return pump(e.flow, e.to);
      case Event::Kind::kAtSwitch:
        return carry(*shared_, e);
      case Event::Kind::kArrives:
        return arrive(e);
    }
  }
  void arrive(const Event& e) {
    if (const Instant runs = runs_at(e.to); runs > now()) {
      Event later = e;
      later.waited = true;
      return events_.push(runs, later);
    }
    const Duration unseen = e.waited && config_.sleep_is_known ? config_.sleeps_for : Duration();
    Flow& flow = *flows_[e.flow];
    SubConnection& sub = *flow.end[e.to]->sub;
    const Bytes& packet = packets_[e.packet];
    PacketHeader header;
    std::size_t header_bytes = 0;
    ASSERT_TRUE(parse_packet_header(packet, &header, &header_bytes));
    const ByteView rest = ByteView(packet).subspan(header_bytes);
    if (sub.on_packet(now(), header, rest, unseen) == PacketFate::kRecords) {
      RecordReader reader(sub.records(rest), header.records);
      Record r;
      ByteView bytes;
      while (reader.next(&r, &bytes)) {
        EXPECT_EQ(std::memcmp(bytes.data(), bytes_.data() + r.message_offset, bytes.size()), 0);
        flow.delivered += bytes.size();
      }
      ASSERT_FALSE(reader.broken());
      sub.delivered(now(), header);
    }
    free_.push_back(e.packet);
    pump(e.flow, e.to);
  }
  void pump(std::size_t f, int i) {
    Flow& flow = *flows_[f];
    End& end = *flow.end[i];
    if (i == 0 && !std::exchange(flow.filled, true))
      for (OutMessage& m : flow.messages) offer(flow, m, config_.message_bytes);
    // A NIC's ring holds a few frames; then its driver waits until it has room.
    const std::uint64_t ring = 4u * (config_.mtu_bytes + 38);
    Instant again = runs_at(i) > now() ? runs_at(i) : Instant::never();
    while (again == Instant::never() && end.sub->wants_to_send(now())) {
      if (end.link.backlog_bytes(now()) > ring) {
        again = now() + end.link.serialisation(config_.mtu_bytes);
        break;
      }
      const std::uint32_t p = take_packet();
      packets_[p].resize(config_.mtu_bytes - 28);
      std::uint64_t sum = 0;
      const std::size_t length = end.sub->poll(now(), packets_[p], &sum);
      packets_[p].resize(length);
      if (length == 0) {
        free_.push_back(p);
        break;
      }
      leave(f, i, p);
    }
    for (OutMessage* m = end.sub->take_finished(); m != nullptr;) {
      OutMessage* const next = m->next;
      if (config_.waiting > 0) offer(flow, *m, config_.message_bytes);
      m = next;
    }
    if (again == Instant::never()) again = std::max(end.sub->next_deadline(), now() + 1_ns);
    if (again == Instant::never()) return;
    if (again >= end.wakes) return;
    end.wakes = again;
    events_.push(again, {Event::Kind::kWake, static_cast<std::uint8_t>(i), static_cast<std::uint16_t>(f), 0});
  }
  void leave(std::size_t f, int from, std::uint32_t p) {
    End& end = *flows_[f]->end[from];
    const Event e{Event::Kind::kArrives, static_cast<std::uint8_t>(1 - from), static_cast<std::uint16_t>(f),
                  p};
    const bool data = load<std::uint8_t>(packets_[p].data() + 1) == 2;
    bool lost = false;
    if (f == 0 && from == 0 && data) {
      lost = data_left_ >= lose_from_ && data_left_ < lose_until_;
      ++data_left_;
    }
    if (config_.flows > 1 && from == 0) {
      const sim::Link::Transit t = end.link.offer(now(), frame_bytes(p));
      ASSERT_EQ(t.verdict, sim::Link::Verdict::kCarried);
      events_.push(t.sent, {Event::Kind::kAtSwitch, e.to, e.flow, p});
      return;
    }
    if (lost) {
      (void)end.link.offer(now(), frame_bytes(p));
      free_.push_back(p);
      return;
    }
    carry(end.link, e);
  }
  void carry(sim::Link& link, const Event& e) {
    End& from = *flows_[e.flow]->end[1 - e.to];
    const sim::Link::Transit t = link.offer(now(), frame_bytes(e.packet));
    const bool lost = from.faults.strike(now(), frame_bytes(e.packet)).copies == 0;
    if (t.verdict != sim::Link::Verdict::kCarried || lost) {
      free_.push_back(e.packet);
      return;
    }
    if (&link == shared_.get()) longest_queue_ = std::max(longest_queue_, t.sent - now());
    events_.push(t.arrives, {Event::Kind::kArrives, e.to, e.flow, e.packet});
  }
  std::uint32_t frame_bytes(std::uint32_t p) const {
    return kFrameHeaderBytes + static_cast<std::uint32_t>(packets_[p].size());
  }

  PathConfig config_;
  sim::EventQueue<Event> events_;
  Bytes bytes_;  // of every message
  std::vector<std::unique_ptr<Flow>> flows_;
  std::unique_ptr<sim::Link> shared_;
  std::vector<Bytes> packets_;
  std::vector<std::uint32_t> free_;
  std::vector<std::unique_ptr<OutMessage>> extra_;
  Duration longest_queue_;
  std::size_t data_left_ = 0;
  std::size_t lose_from_ = 0;
  std::size_t lose_until_ = 0;
};

}  // namespace braid::stack
