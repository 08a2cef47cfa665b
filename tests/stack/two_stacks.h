// Whole stacks of several proxies on one wire of virtual time: what one writes the others read, after what
// the test does to it.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "stack/stack.h"
#include "wire_bytes.h"

namespace braid::stack {

constexpr LinkId kWire(0);

inline MacAddress mac_of(std::uint16_t cluster) {
  return {2, 0, 0, 0, static_cast<std::uint8_t>(cluster), 1};
}
inline Ipv4Address ip_of(std::uint16_t cluster) {
  return {10, 0, 0, static_cast<std::uint8_t>(1 + cluster)};
}

// Proxy 0 of `cluster`, which has `proxies`; it knows every proxy 0 of the other clusters.
inline StackConfig stack_config(std::uint16_t cluster, std::uint16_t clusters, bool arp = false,
                                std::uint16_t proxies = 1) {
  StackConfig c;
  c.local = {ClusterId(cluster), ProxyId(0)};
  c.interfaces = {{ip_of(cluster), mac_of(cluster)}};
  c.proxies = proxies;
  c.seed = 1000u + cluster;
  for (std::uint16_t other = 0; other < clusters; ++other) {
    if (other == cluster) continue;
    RemoteStack r;
    r.id = {ClusterId(other), ProxyId(0)};
    r.address = ip_of(other);
    r.udp_port = c.udp_port_base;
    r.link = kWire;
    if (!arp) r.mac = mac_of(other);
    c.remotes.push_back(r);
  }
  return c;
}

struct TestStack {
  explicit TestStack(const StackConfig& config, Instant now) : stack(std::make_unique<Stack>(config, now)) {}

  struct Message : OutMessage {
    Bytes content;
    bool finished = false;
  };
  Message& send(ClusterId to, std::uint32_t bytes, std::uint64_t seed) {
    auto m = std::make_unique<Message>();
    Prng prng(seed);
    m->content = random_bytes(prng, bytes);
    m->data = m->content.data();
    m->bytes = bytes;
    m->record.message_bytes = bytes;
    sent.push_back(std::move(m));
    stack->to(to)[0]->send(*sent.back());
    return *sent.back();
  }
  Stack::Received receive(Instant now, const Bytes& frame) {
    const Stack::Received r = stack->receive(now, kWire, frame);
    for (const auto& sub : stack->sub_connections()) (void)sub->take_lost();  // a driver takes notice
    if (r.what == Stack::Received::What::kDatagram)
      datagrams.push_back({r.peer, r.port, Bytes(r.datagram.begin(), r.datagram.end())});
    if (r.what == Stack::Received::What::kUnreachable) unreachables.push_back({r.peer, r.port, r.reason});
    if (r.what != Stack::Received::What::kRecords) return r;
    RecordReader reader(r.records, r.record_count);
    Record record;
    ByteView bytes;
    while (reader.next(&record, &bytes)) {
      if (record.whole()) delivered.emplace_back(bytes.begin(), bytes.end());
    }
    if (reader.broken())
      stack->malformed();
    else
      stack->delivered(now, r);
    return r;
  }
  std::unique_ptr<Stack> stack;
  std::vector<std::unique_ptr<Message>> sent;
  std::vector<Bytes> delivered;
  struct Datagram {
    Endpoint from;
    std::uint16_t port;
    Bytes content;
  };
  std::vector<Datagram> datagrams;
  struct Unreached {
    Endpoint peer;
    std::uint16_t port;
    Unreachable reason;
  };
  std::vector<Unreached> unreachables;
};

class Wire {
 public:
  struct Frame {
    Instant arrives;
    std::size_t from;
    Bytes bytes;
  };

  TestStack& add(const StackConfig& config) {
    stacks.push_back(std::make_unique<TestStack>(config, now));
    return *stacks.back();
  }
  // A broadcast medium: each stack sees what the others sent, and takes what is for it.
  void turn() {
    for (bool moved = true; moved;) {
      moved = false;
      while (!frames.empty() && frames.front().arrives <= now) {
        const Frame f = std::move(frames.front());
        frames.pop_front();
        for (std::size_t i = 0; i < stacks.size(); ++i) {
          const auto to = MacAddress::load(f.bytes.data());
          if (i != f.from && (to == stacks[i]->stack->config().interfaces[0].mac || to.is_broadcast()))
            stacks[i]->receive(now, f.bytes);
        }
        moved = true;
      }
      for (std::size_t i = 0; i < stacks.size(); ++i) moved = transmit(i) || moved;
    }
  }
  bool transmit(std::size_t i) {
    bool moved = false;
    TestStack& s = *stacks[i];
    for (;;) {
      Bytes room(s.stack->frame_bytes());
      const std::size_t length = s.stack->poll_transmit(now, kWire, room);
      if (length == 0) break;
      room.resize(length);
      left.push_back({now, i, room});
      for (Bytes& copy : change ? change(room) : std::vector<Bytes>{room})
        frames.push_back({now + delay, i, std::move(copy)});
      moved = true;
    }
    for (const auto& sub : s.stack->sub_connections()) {
      for (OutMessage* m = sub->take_finished(); m != nullptr; m = m->next)
        static_cast<TestStack::Message*>(m)->finished = true;
    }
    return moved;
  }
  void run_for(Duration d) {
    const Instant until = now + d;
    int turns_now = 0;
    for (;;) {
      turn();
      Instant next = frames.empty() ? Instant::never() : frames.front().arrives;
      for (const auto& s : stacks) next = earlier(next, s->stack->next_deadline());
      if (next > until) break;
      turns_now = next <= now ? turns_now + 1 : 0;
      ASSERT_LT(turns_now, 1000) << "nothing moves, and nobody sleeps";
      now = std::max(now, next);
    }
    now = until;
  }

  Instant now = Instant::from_ns(1'000'000'000);
  Duration delay = 10_us;
  std::function<std::vector<Bytes>(const Bytes&)> change;  // what becomes of a frame; empty: it arrives
  std::vector<std::unique_ptr<TestStack>> stacks;
  std::deque<Frame> frames;
  std::vector<Frame> left;  // everything that was transmitted
};

}  // namespace braid::stack
