// The sending window on its own: what may leave, what is lost, when a timer runs.
#include "stack/window/send_window.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "base/prng.h"

namespace braid::stack {
namespace {

using Window = SendWindow<int>;

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(1'000'000'000) + since_start;
}

// A window whose packets hold their own number.
struct Fixture {
  explicit Fixture(std::uint32_t packets = 256, std::uint32_t first = 0) : window(packets, Seq(first)) {}

  void sends(Instant now, int count) {
    for (int i = 0; i < count; ++i) window.sent(now, next++);
  }
  // Acknowledges everything before `edge` and the packets of `beyond`; the packet that was answered left at
  // `echo`.
  Window::Ack on_ack(std::uint32_t edge, const std::vector<std::uint32_t>& beyond, Instant echo = Instant()) {
    return on_ack(edge, beyond, Window::Timing{at(1_s), echo, Duration()});
  }
  Window::Ack on_ack(std::uint32_t edge, const std::vector<std::uint32_t>& beyond,
                     const Window::Timing& timing) {
    std::uint64_t words[kMaxSackWords] = {};
    std::uint8_t used = 0;
    for (const std::uint32_t seq : beyond) {
      const std::uint32_t bit = seq - edge - 1;
      words[bit / 64] |= std::uint64_t{1} << bit % 64;
      used = std::max(used, static_cast<std::uint8_t>(bit / 64 + 1));
    }
    return window.on_ack(Seq(edge), words, used, timing,
                         [&](int content) { acknowledged.push_back(content); });
  }
  // The packets that are retransmitted at `now`.
  std::vector<std::uint32_t> resends(Instant now) {
    std::vector<std::uint32_t> out;
    while (const auto seq = window.next_lost()) {
      out.push_back(seq->value());
      window.resent(now, *seq);
    }
    return out;
  }

  Window window;
  int next = 0;
  std::vector<int> acknowledged;
};

using Numbers = std::vector<std::uint32_t>;

TEST(SendWindow, WindowBoundsPacketsInFlightAndOpensWithAcknowledgements) {
  Fixture w(4);
  EXPECT_TRUE(w.window.idle());
  w.sends(at(0_us), 4);
  EXPECT_FALSE(w.window.may_send());
  EXPECT_EQ(w.on_ack(0, {1, 2, 3}), Window::Ack::kProgress);
  EXPECT_FALSE(w.window.may_send()) << "the hole at 0 holds the window";
  EXPECT_EQ(w.on_ack(4, {}), Window::Ack::kProgress);
  EXPECT_TRUE(w.window.may_send());
  EXPECT_TRUE(w.window.idle());
  EXPECT_EQ(w.acknowledged, (std::vector<int>{1, 2, 3, 0})) << "each once, at its first acknowledgement";
}

TEST(SendWindow, ResendsExactlyTheHoleAndNothingElse) {  // SW-4
  Fixture w(8);
  w.sends(at(0_us), 8);
  EXPECT_EQ(w.on_ack(3, {4, 5}), Window::Ack::kProgress);
  EXPECT_EQ(w.resends(at(1_us)), Numbers{}) << "two later ones may have overtaken it";
  EXPECT_EQ(w.on_ack(3, {4, 5, 6}), Window::Ack::kProgress);
  EXPECT_EQ(w.resends(at(2_us)), Numbers{3});
  EXPECT_EQ(w.on_ack(3, {4, 5, 6, 7}), Window::Ack::kProgress);
  EXPECT_EQ(w.resends(at(3_us)), Numbers{}) << "the second 3 left after all of these";
}

TEST(SendWindow, RetransmittedPacketIsLostAgainAfterThreeLaterArrivals) {  // SW-4
  Fixture w(16);
  w.sends(at(0_us), 4);
  w.on_ack(0, {1, 2, 3});
  EXPECT_EQ(w.resends(at(10_us)), Numbers{0});
  w.sends(at(11_us), 3);
  w.on_ack(0, {1, 2, 3, 4, 5});
  EXPECT_EQ(w.resends(at(20_us)), Numbers{});
  w.on_ack(0, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(w.resends(at(21_us)), Numbers{0}) << "without waiting for a timer";
}

TEST(SendWindow, RetransmittedPacketDoesNotHideALaterLoss) {  // SW-4
  Fixture w(16);
  w.sends(at(0_us), 9);
  w.on_ack(0, {1, 2, 3});
  EXPECT_EQ(w.resends(at(10_us)), Numbers{0});
  w.on_ack(0, {1, 2, 3, 5, 6, 7, 8});
  EXPECT_EQ(w.resends(at(11_us)), Numbers{4});
}

TEST(SendWindow, EchoIdentifiesTheTransmissionThatArrived) {  // SW-4
  for (const bool first_arrived : {true, false}) {
    Fixture w(16);
    w.sends(at(0_us), 2);
    w.window.on_timeout();
    EXPECT_EQ(w.resends(at(10_us)), Numbers{0});
    w.sends(at(11_us), 1);
    w.window.on_timeout();
    EXPECT_EQ(w.resends(at(12_us)), Numbers{0});
    // 1 left first of all; only if the copy of 0 from 12 us arrived are there three that left after it.
    w.on_ack(1, {}, first_arrived ? at(0_us) : at(12_us));
    EXPECT_EQ(w.resends(at(20_us)), first_arrived ? Numbers{} : Numbers{1});
  }
}

TEST(SendWindow, OvertakenPacketIsLostAfterARoundTripAndAQuarter) {  // SW-4
  Fixture w(8);
  w.sends(at(0_us), 2);
  w.on_ack(0, {1}, Window::Timing{at(20_us), at(0_us), 20_us});
  EXPECT_EQ(w.resends(at(20_us)), Numbers{});
  EXPECT_EQ(w.window.loss_due(), at(25_us));
  EXPECT_FALSE(w.window.on_loss_timer(at(24_us), 20_us));
  EXPECT_TRUE(w.window.on_loss_timer(at(25_us), 20_us));
  EXPECT_EQ(w.window.loss_due(), Instant::never());
  EXPECT_EQ(w.resends(at(25_us)), Numbers{0});
}

TEST(SendWindow, AfterReorderingOnlyTimeDetectsLoss) {  // SW-4
  Fixture w(64);
  const auto on_ack = [&](Duration now, std::uint32_t edge, const Numbers& beyond) {
    w.on_ack(edge, beyond, Window::Timing{at(now), at(now - 20_us), 20_us});
  };
  w.sends(at(0_us), 2);
  on_ack(20_us, 0, {1});
  on_ack(21_us, 2, {});  // 0 was late, not lost
  w.sends(at(30_us), 9);
  on_ack(50_us, 2, {3, 4, 5, 6, 7, 8});
  EXPECT_EQ(w.resends(at(50_us)), Numbers{}) << "six have overtaken it";
  EXPECT_EQ(w.window.loss_due(), at(55_us));
  on_ack(55_us, 2, {3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(w.resends(at(55_us)), Numbers{2});
  // After sixteen recoveries without it, three later ones count again.
  std::uint32_t edge = 11;
  on_ack(75_us, edge, {});
  Instant now = at(100_us);
  for (std::uint32_t recovery = 1; recovery < Window::kReorderMemory; ++recovery) {
    w.sends(now, 2);
    w.on_ack(edge, {edge + 1}, Window::Timing{now + 25_us, now, 20_us});
    ASSERT_EQ(w.resends(now + 25_us), Numbers{edge});
    edge += 2;
    w.on_ack(edge, {}, Window::Timing{now + 45_us, now + 25_us, 20_us});
    now = now + 100_us;
  }
  w.sends(now, 4);
  w.on_ack(edge, {edge + 1, edge + 2, edge + 3}, Window::Timing{now + 20_us, now, 20_us});
  EXPECT_EQ(w.resends(now + 20_us), Numbers{edge});
}

TEST(SendWindow, SpuriousRetransmissionRaisesThreshold) {  // SW-4
  Fixture w(64);
  w.sends(at(0_us), 2);
  w.on_ack(0, {1}, Window::Timing{at(25_us), at(0_us), 20_us});
  EXPECT_EQ(w.resends(at(25_us)), Numbers{0});
  w.on_ack(2, {}, Window::Timing{at(27_us), at(0_us), 20_us});  // the first transmission, 27 us late
  w.sends(at(30_us), 2);
  w.on_ack(2, {3}, Window::Timing{at(50_us), at(30_us), 20_us});
  EXPECT_EQ(w.window.loss_due(), at(60_us)) << "a quarter of a round trip more than before";
}

// Packets left at 0 and 10 us; the first is acknowledged, and the second left again at 40 us, because a probe told
// that it is lost.
struct ProbedTail : Fixture {
  ProbedTail() : Fixture(8) {
    window.sent(at(0_us), 0);
    window.sent(at(10_us), 1);
    on_ack(1, {});
    EXPECT_EQ(window.on_probe_answered(window.transmissions()), 1u);
    EXPECT_EQ(resends(at(40_us)), Numbers{1});
  }
  void answers(std::uint32_t edge, Instant echo) { on_ack(edge, {}, Window::Timing{at(90_us), echo, 20_us}); }
  std::uint64_t spurious() const { return window.verdicts().spurious_by(LossCause::kOvertaken); }
};

TEST(SendWindow, EchoOfTheFirstTransmissionTellsThatTheSecondWasSpurious) {  // SW-12
  ProbedTail w;
  w.answers(2, end_of_tick(at(10_us)));
  EXPECT_EQ(w.spurious(), 1u);
  EXPECT_EQ(w.window.verdicts().needed, 0u);
}

TEST(SendWindow, EchoOfTheRetransmissionTellsThatItWasNeeded) {  // SW-12
  ProbedTail w;
  w.answers(2, end_of_tick(at(40_us)));
  EXPECT_EQ(w.spurious(), 0u);
  EXPECT_EQ(w.window.verdicts().needed, 1u);
}

TEST(SendWindow, AnswerToAnAcknowledgedPacketsRetransmissionTellsThatItWasSpurious) {  // SW-12
  ProbedTail w;
  w.answers(2, end_of_tick(
                   at(0_us)));  // of an earlier packet, so either transmission of the second may have arrived
  EXPECT_EQ(w.spurious(), 0u);
  EXPECT_EQ(w.window.verdicts().needed, 0u);
  w.window.on_echo(end_of_tick(at(30_us)));
  EXPECT_EQ(w.spurious(), 0u);
  for (int i = 0; i < 2; ++i) {
    w.window.on_echo(end_of_tick(at(40_us)));
    EXPECT_EQ(w.spurious(), 1u) << "counted once";
  }
}

TEST(SendWindow, EachSpuriousRetransmissionCountsForItsCause) {  // SW-12
  ProbedTail w;
  w.answers(1, end_of_tick(at(0_us)));
  for (const Instant when : {at(1_ms), at(2_ms)}) {
    w.window.on_timeout();
    EXPECT_EQ(w.resends(when), Numbers{1});
  }
  w.answers(2, end_of_tick(at(10_us)));
  EXPECT_EQ(w.spurious(), 1u);
  EXPECT_EQ(w.window.verdicts().spurious_by(LossCause::kTimeout), 2u);
}

TEST(SendWindow, AnswerToAProbeTellsWhichPacketsBeforeItAreLost) {  // SW-10
  Fixture w(8);
  w.sends(at(0_us), 5);
  w.on_ack(1, {});
  const std::uint64_t probed = w.window.transmissions();
  w.sends(at(30_us), 1);
  EXPECT_EQ(w.window.outstanding(), 5u);
  w.on_ack(1, {3});
  EXPECT_EQ(w.window.on_probe_answered(probed), 3u);
  EXPECT_EQ(w.window.outstanding(), 1u) << "that left after the probe";
  EXPECT_EQ(w.resends(at(50_us)), (Numbers{1, 2, 4}));
  EXPECT_EQ(w.window.on_probe_answered(probed), 0u) << "they left after the probe, too";
}

TEST(SendWindow, CountsBytesInFlightFromTheOldestPacket) {  // SW-9
  Window window(8);
  for (const std::uint32_t bytes : {100u, 200u, 300u}) window.sent(at(0_us), 0, bytes);
  EXPECT_EQ(window.in_flight_bytes(), 600u);
  const std::uint64_t third = 2;
  const auto ignore = [](int) {};
  window.on_ack(Seq(0), &third, 1, {at(1_us), at(0_us), Duration()}, ignore);
  EXPECT_EQ(window.in_flight_bytes(), 600u) << "the hole keeps the window";
  window.on_ack(Seq(3), nullptr, 0, {at(1_us), at(0_us), Duration()}, ignore);
  EXPECT_EQ(window.in_flight_bytes(), 0u);
}

TEST(SendWindow, TimeoutMarksOnlyTheOldestLost) {  // SW-5
  Fixture w(8);
  w.sends(at(0_us), 8);
  EXPECT_EQ(w.window.oldest_sent(), at(0_us));
  w.window.on_timeout();
  EXPECT_EQ(w.window.oldest_sent(), std::nullopt) << "no timer runs until it has left";
  EXPECT_EQ(w.resends(at(500_us)), Numbers{0});
  EXPECT_EQ(w.window.oldest_sent(), at(500_us)) << "the timer runs from the new transmission";
  // The answer to it tells about all the others: they left before it.
  w.on_ack(1, {}, at(500_us));
  EXPECT_EQ(w.resends(at(600_us)), (Numbers{1, 2, 3, 4, 5})) << "6 and 7 left less than three before it";
}

TEST(SendWindow, SchedulingGapPostponesTheTimersByItsLength) {  // SW-5
  Fixture w(8);
  w.sends(at(0_us), 2);
  w.window.postpone_timers(at(90_ms), 60_ms);
  EXPECT_EQ(w.window.oldest_sent(), at(60_ms)) << "30 ms of waiting count";
  w.window.postpone_timers(at(100_ms), 60_ms);
  EXPECT_EQ(w.window.oldest_sent(), at(100_ms)) << "nothing is sent later than now";
}

TEST(SendWindow, LatePacketIsNotRetransmitted) {  // SW-4
  Fixture w(8);
  w.sends(at(0_us), 4);
  w.on_ack(0, {1, 2, 3});
  EXPECT_TRUE(w.window.lost_any());
  EXPECT_EQ(w.on_ack(4, {}), Window::Ack::kProgress);
  EXPECT_FALSE(w.window.lost_any());
  EXPECT_EQ(w.resends(at(1_us)), Numbers{});
}

TEST(SendWindow, OldAcknowledgementsAreIgnored) {  // SW-3
  Fixture w(8);
  w.sends(at(0_us), 6);
  EXPECT_EQ(w.on_ack(4, {}), Window::Ack::kProgress);
  EXPECT_EQ(w.on_ack(2, {3, 4, 5}), Window::Ack::kOld) << "older than the known edge";
  EXPECT_EQ(w.on_ack(4, {}), Window::Ack::kNothingNew);
  EXPECT_EQ(w.window.base(), Seq(4));
  EXPECT_EQ(w.acknowledged, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SendWindow, AcknowledgementOfUnsentPacketsChangesNothing) {  // SW-3
  Fixture w(8);
  w.sends(at(0_us), 4);
  EXPECT_EQ(w.on_ack(5, {}), Window::Ack::kImpossible);
  EXPECT_EQ(w.on_ack(1, {2, 4}), Window::Ack::kImpossible);
  EXPECT_EQ(w.on_ack(0x8000'0000u - 1, {}), Window::Ack::kImpossible);
  EXPECT_EQ(w.on_ack(2, {2 + 1 + 64, 2 + 1 + 200}), Window::Ack::kImpossible);
  EXPECT_EQ(w.acknowledged, std::vector<int>{});
  EXPECT_EQ(w.window.base(), Seq(0));
  EXPECT_EQ(w.window.in_flight(), 4u);
  EXPECT_EQ(w.on_ack(4, {}), Window::Ack::kProgress);
}

// The memory for packets grows while some are in flight, one of them lost, and goes when none is.
TEST(SendWindow, MemoryFollowsThePacketsInFlight) {
  Window w(Window::kCapacity, Seq(0xfffffff0));  // numbers wrap on the way
  const auto fill = [&](std::uint32_t to) {
    while (w.in_flight() < to)
      w.sent(at(0_us) + Duration::us(w.in_flight()), static_cast<int>(w.in_flight()), 10);
  };
  fill(3);
  w.on_timeout();
  const Seq first = w.base();
  ASSERT_EQ(w.next_lost(), first);
  for (const std::uint32_t many : {16u, 17u, 64u, 65u, 256u}) {
    fill(many);
    EXPECT_EQ(w.next_lost(), first);
    EXPECT_EQ(w.content(first + (many - 1)), static_cast<int>(many - 1));
    std::vector<int> contents;
    w.for_each_unacknowledged([&](int c) { contents.push_back(c); });
    std::vector<int> expected(many);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(contents, expected);
  }
  w.give_back();
  EXPECT_EQ(w.content(first), 0) << "not while packets are in flight";
  // The first transmission of the lost packet is echoed: what is known of it came along.
  w.resent(at(300_us), first);
  const Instant echo = end_of_tick(at(0_us));
  ASSERT_EQ(w.on_ack(w.next(), nullptr, 0, {at(400_us), echo, 100_us}, [](int) {}), Window::Ack::kProgress);
  EXPECT_EQ(w.verdicts().spurious_by(LossCause::kTimeout), 1u);
  w.give_back();
  fill(1);
  EXPECT_EQ(w.content(w.base()), 0);
}

TEST(SendWindow, UnacknowledgedContentIsReturnedOldestFirst) {  // SC-5
  Fixture w(8);
  w.sends(at(0_us), 5);
  w.on_ack(1, {3});
  std::vector<int> unacknowledged;
  w.window.for_each_unacknowledged([&](int content) { unacknowledged.push_back(content); });
  EXPECT_EQ(unacknowledged, (std::vector<int>{1, 2, 4}));
}

// Against a plain model: any acknowledgement that a peer can make, numbers that wrap.
TEST(SendWindow, AgreesWithAModelAcrossTheWrapOfNumbers) {  // SW-3, SW-4
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const std::uint32_t first = 0u - static_cast<std::uint32_t>(prng.below(600));
    Fixture w(static_cast<std::uint32_t>(1 + prng.below(256)), first);
    // Counted from `first`, in 64 bits.
    std::uint64_t base = 0;
    std::uint64_t next = 0;
    std::set<std::uint64_t> got;
    std::set<std::uint64_t> acknowledged;
    Instant now = at(0_us);
    for (int step = 0; step < 6000; ++step) {
      now = now + 1_us;
      if (w.window.may_send() && prng.chance(0.5)) {
        w.sends(now, 1);
        if (prng.chance(0.8)) got.insert(next);
        ++next;
      }
      for (const std::uint32_t seq : w.resends(now)) {
        const std::uint64_t number =
            base + static_cast<std::uint32_t>(seq - first - static_cast<std::uint32_t>(base));
        EXPECT_LT(number, next);
        EXPECT_FALSE(acknowledged.contains(number));
        if (prng.chance(0.8)) got.insert(number);
      }
      if (prng.chance(0.02) && w.window.oldest_sent()) w.window.on_timeout();
      if (!prng.chance(0.3)) continue;
      while (got.contains(base)) got.erase(base++);
      const std::size_t known = w.acknowledged.size();
      const auto edge = first + static_cast<std::uint32_t>(base);
      Numbers beyond;
      for (const std::uint64_t number : got) beyond.push_back(first + static_cast<std::uint32_t>(number));
      EXPECT_NE(w.on_ack(edge, beyond), Window::Ack::kImpossible);
      for (std::size_t i = known; i < w.acknowledged.size(); ++i)
        EXPECT_TRUE(acknowledged.insert(static_cast<std::uint64_t>(w.acknowledged[i])).second) << "twice";
      EXPECT_EQ(w.window.base(), Seq(edge));
      EXPECT_EQ(acknowledged.size(), base + got.size());
    }
    EXPECT_GT(base, 600u);
  }
}

}  // namespace
}  // namespace braid::stack
