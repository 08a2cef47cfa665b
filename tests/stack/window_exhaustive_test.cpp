// The two windows, of small sizes, under every interleaving of sending, loss, duplication, reordering, delay
// and timers: every state that they can reach is visited once. In none is a packet taken twice, acknowledged
// without having arrived, or corrupted; and out of each, once the network is good, everything arrives.
//
// Then whole sub-connections, where the states are too many: every fate of their first packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "stack/window/receive_window.h"
#include "stack/window/send_window.h"
#include "two_ends.h"

namespace braid::stack {
namespace {

struct Bounds {
  std::uint32_t packets;  // to be brought over, in all
  std::uint32_t window;   // of the sender
  std::size_t data_room;  // packets in flight at once; what does not fit is lost
  std::size_t acks_room;  // acknowledgements
  int copies;             // that the network may make, in all
  Duration round_trip{};  // in units of a transmission; 0: no packet is lost by time
};

struct WindowWorld {
  using Window = SendWindow<int, 8>;
  struct Data {
    std::uint32_t seq;
    Instant sent;
    int content;
  };
  struct Ack {
    std::uint32_t edge;
    std::uint64_t bits;
    std::uint8_t words;
    Instant echo;
  };

  explicit WindowWorld(const Bounds& b) : bounds(b), sender(b.window) {}

  Bounds bounds;
  Instant now = Instant::from_ns(1000);
  Window sender;
  ReceiveWindow receiver;
  std::vector<Data> data;
  std::vector<Ack> acks;
  std::uint32_t arrived = 0;       // bit per packet
  std::uint32_t acknowledged = 0;  // to the sender
  int copies = 0;

  bool finished() const { return acknowledged == (1u << bounds.packets) - 1; }

  // As a driver's poll(). False if nothing leaves.
  bool poll() {
    if (data.size() == bounds.data_room) return false;
    if (const std::optional<Seq> lost = sender.next_lost()) {
      now = now + 1_ns;
      data.push_back({lost->value(), now, sender.content(*lost)});
      sender.resent(now, *lost);
      return true;
    }
    if (!sender.may_send() || sender.next().value() == bounds.packets) return false;
    now = now + 1_ns;
    const std::uint32_t seq = sender.next().value();
    data.push_back({seq, now, content(seq)});
    sender.sent(now, content(seq), 1);
    return true;
  }
  static int content(std::uint32_t seq) { return static_cast<int>(seq * 7 + 3); }

  void arrive(const Data& p) {
    switch (receiver.classify(Seq(p.seq))) {
      case PacketArrival::kNew:
        EXPECT_EQ(p.content, content(p.seq));
        EXPECT_EQ(arrived >> p.seq & 1, 0u) << "taken twice";
        arrived |= 1u << p.seq;
        receiver.delivered(Seq(p.seq));
        break;
      case PacketArrival::kDuplicate:
        EXPECT_EQ(arrived >> p.seq & 1, 1u) << "refused unseen";
        break;
      case PacketArrival::kBeyondWindow:
        ADD_FAILURE() << "the sender went beyond the window";
    }
    receiver.check();
    if (acks.size() == bounds.acks_room) return;  // as good as lost
    std::uint64_t words[kMaxSackWords] = {};
    const std::uint8_t used = receiver.sack(words);
    EXPECT_LE(used, 1);
    acks.push_back({receiver.edge().value(), words[0], used, p.sent});
  }
  void receive_ack(const Ack& a) {
    const auto result =
        sender.on_ack(Seq(a.edge), &a.bits, a.words, {now, a.echo, bounds.round_trip}, [&](int c) {
          const auto seq = static_cast<std::uint32_t>((c - 3) / 7);
          EXPECT_EQ(arrived >> seq & 1, 1u) << "acknowledged, never arrived";
          EXPECT_EQ(acknowledged >> seq & 1, 0u) << "acknowledged twice";
          acknowledged |= 1u << seq;
        });
    EXPECT_NE(result, Window::Ack::kImpossible);
    sender.check();
  }

  // Everything that decides what can happen from here on; equal for worlds that differ in names only.
  std::string key() const {
    std::string k;
    const auto put = [&](std::uint64_t v) { k.push_back(static_cast<char>(v)); };
    put(sender.base().value());
    put(sender.next().value());
    put(arrived);
    put(acknowledged);
    put(static_cast<std::uint64_t>(copies));
    put(sender.reordering());
    put(static_cast<std::uint64_t>(sender.reorder_window()));
    std::vector<Window::PacketView> view;
    sender.for_each_packet([&](const Window::PacketView& p) { view.push_back(p); });
    // Of transmissions only the order counts, and the distance up to what is tolerated.
    std::vector<std::uint64_t> order;
    for (const auto& p : view)
      if (!p.acknowledged) order.push_back(p.transmission);
    order.push_back(sender.newest_acknowledged());
    std::sort(order.begin(), order.end());
    const auto rank = [&](std::uint64_t t) {
      std::uint64_t r = 0;
      for (std::size_t i = 0; i < order.size() && order[i] < t; ++i) {
        const std::uint64_t next = i + 1 < order.size() ? order[i + 1] : order[i];
        r += std::min<std::uint64_t>(next - order[i], Window::kReorderTolerance + 1);
      }
      return r;
    };
    const auto age = [&](Instant sent) {
      return static_cast<std::uint64_t>(std::min((now - sent).ns(), 3 * bounds.round_trip.ns()));
    };
    for (const auto& p : view) {
      put((p.acknowledged ? 2u : 0u) | (p.lost ? 1u : 0u) | (p.retransmitted ? 4u : 0u));
      put(p.acknowledged ? 0 : rank(p.transmission));
      put(p.acknowledged ? 0 : age(p.sent));
    }
    put(rank(sender.newest_acknowledged()));
    // Of an echo counts which of the second transmissions it is not older than.
    const auto echo = [&](Instant sent) {
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < view.size(); ++i)
        if (!view[i].acknowledged && view[i].retransmitted && sent >= view[i].sent) bits |= 1u << i;
      return bits;
    };
    std::vector<std::string> items;
    for (const Data& p : data)
      items.push_back({'d', static_cast<char>(p.seq), static_cast<char>(echo(p.sent))});
    for (const Ack& a : acks)
      items.push_back({'a', static_cast<char>(a.edge), static_cast<char>(a.words == 0 ? 0 : a.bits),
                       static_cast<char>(echo(a.echo))});
    std::sort(items.begin(), items.end());
    for (const std::string& i : items) k += i;
    return k;
  }

  // With a network that loses nothing and keeps the order, and timers that expire when nothing else happens.
  bool ends_well() {
    for (int step = 0; step < 200; ++step) {
      if (finished()) return sender.idle() && receiver.edge().value() == bounds.packets;
      if (!data.empty()) {
        const Data p = data.front();
        data.erase(data.begin());
        arrive(p);
      } else if (!acks.empty()) {
        const Ack a = acks.front();
        acks.erase(acks.begin());
        receive_ack(a);
      } else if (!poll()) {
        if (!sender.oldest_sent()) return false;
        sender.on_timeout();
      }
    }
    return false;
  }
};

struct Census {
  std::size_t states = 0;
  std::size_t steps = 0;
  std::size_t stuck = 0;
};

Census explore(const Bounds& bounds) {
  Census census;
  std::unordered_set<std::string> seen;
  std::deque<WindowWorld> todo;
  const auto visit = [&](WindowWorld&& w) {
    ++census.steps;
    if (!seen.insert(w.key()).second) return;
    WindowWorld friendly = w;
    if (!friendly.ends_well()) ++census.stuck;
    todo.push_back(std::move(w));
  };
  visit(WindowWorld(bounds));
  while (!todo.empty() && !testing::Test::HasFailure()) {
    const WindowWorld w = std::move(todo.front());
    todo.pop_front();
    if (WindowWorld next = w; next.poll()) visit(std::move(next));
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      WindowWorld lost = w;
      lost.data.erase(lost.data.begin() + at);
      WindowWorld arrives = lost;
      arrives.arrive(w.data[i]);
      visit(std::move(lost));
      visit(std::move(arrives));
      if (w.copies == bounds.copies) continue;
      WindowWorld doubled = w;
      ++doubled.copies;
      doubled.arrive(w.data[i]);
      visit(std::move(doubled));
    }
    for (std::size_t i = 0; i < w.acks.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      WindowWorld lost = w;
      lost.acks.erase(lost.acks.begin() + at);
      WindowWorld received = lost;
      received.receive_ack(w.acks[i]);
      visit(std::move(lost));
      visit(std::move(received));
      if (w.copies == bounds.copies) continue;
      WindowWorld doubled = w;
      ++doubled.copies;
      doubled.receive_ack(w.acks[i]);
      visit(std::move(doubled));
    }
    // Timers may expire at any time: who can tell how long the network takes?
    if (w.sender.oldest_sent()) {
      WindowWorld timeout = w;
      timeout.sender.on_timeout();
      visit(std::move(timeout));
      WindowWorld probe = w;
      (void)probe.sender.on_probe_answered(probe.sender.transmissions());
      visit(std::move(probe));
    }
    if (w.sender.loss_due() != Instant::never()) {
      WindowWorld later = w;
      later.now = std::max(later.now, w.sender.loss_due());
      (void)later.sender.on_loss_timer(later.now, bounds.round_trip);
      visit(std::move(later));
    }
  }
  census.states = seen.size();
  std::printf("%u packets, window %u, %zu + %zu in flight, %d copies, %s: %zu states, %zu steps\n",
              bounds.packets, bounds.window, bounds.data_room, bounds.acks_room, bounds.copies,
              bounds.round_trip > Duration() ? "loss by count and time" : "loss by count", census.states,
              census.steps);
  return census;
}

TEST(WindowExhaustive,
     NoInterleavingLosesDuplicatesOrStallsAnything) {  // SW-1, SW-2, SW-3, SW-4, SW-5, SW-10
  const Bounds all[] = {
      {2, 1, 2, 2, 2}, {2, 2, 2, 2, 1},       {3, 2, 2, 1, 1},       {3, 3, 2, 1, 0},
      {4, 2, 2, 1, 0}, {2, 2, 2, 1, 1, 4_ns}, {3, 2, 2, 1, 0, 2_ns},
  };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint32_t kMost = 4;  // packets times window: what an instrumented build does in seconds
#else
  constexpr std::uint32_t kMost = 9;
#endif
  for (const Bounds& b : all) {
    if (b.packets * b.window > kMost) continue;
    const Census c = explore(b);
    EXPECT_EQ(c.stuck, 0u);
    EXPECT_GT(c.states, 100u);
  }
}

// ---------------------------------------------------------------- whole sub-connections

// The fate of the n-th packet that leaves either end, in base 4.
std::vector<Duration> fate(unsigned fates, std::size_t n) {
  switch (fates >> 2 * n & 3) {
    case 0:
      return {10_us};
    case 1:
      return {};
    case 2:
      return {10_us, 35_us};
    default:
      return {35_us};  // what follows overtakes it
  }
}

void every_fate(std::size_t packets, bool of_the_handshake) {
  std::size_t runs = 0;
  Duration slowest;
  for (unsigned fates = 0; fates < 1u << 2 * packets; ++fates) {
    SCOPED_TRACE(testing::Message() << "fates " << fates);
    TwoEnds t;
    if (!of_the_handshake) t.run_for(1_ms);
    std::size_t left = 0;
    t.link = [&](int, std::size_t, const PacketHeader&) {
      const std::size_t n = left++;
      return n < packets ? fate(fates, n) : std::vector<Duration>{10_us};
    };
    const Instant began = t.now;
    t.send(0, 3000);  // three packets
    t.send(1, 100);
    t.run_until_finished(100_ms);
    slowest = std::max(slowest, t.now - began);
    t.run_for(100_us);  // copies that come after all
    ASSERT_EQ(t.a().delivered.size(), 1u);
    ASSERT_EQ(t.b().delivered.size(), 1u);
    ASSERT_EQ(t.a().lost + t.b().lost, 0);
    ASSERT_FALSE(t.a().finished[0]->failed || t.b().finished[0]->failed);
    ++runs;
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%zu fates of the first %zu packets%s, the slowest run %.0f us\n", runs, packets,
              of_the_handshake ? ", the handshake's among them" : "", slowest.us());
}

TEST(SubConnectionExhaustive, EveryFateOfTheFirstPackets) {  // SC-1, SC-4, SW-1, SW-4, SW-5, SW-10
  every_fate(7, false);
}

TEST(SubConnectionExhaustive, EveryFateOfTheHandshakeAndTheNextPackets) {  // SC-1, SC-3, SC-4
  every_fate(7, true);
}

}  // namespace
}  // namespace braid::stack
