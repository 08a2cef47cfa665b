// The ring between two processes that do not trust each other: what honest sides see, and what becomes of a
// side that writes nonsense into the shared part.
#include "base/client_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/prng.h"

namespace braid {
namespace {

struct Entry {
  std::uint64_t number;
  std::uint64_t complement;  // ~number: an entry that is torn or stale shows
};
Entry entry(std::uint64_t n) {
  return {n, ~n};
}

constexpr std::uint32_t kCapacity = 8;

// Shared memory as both sides map it, and both sides.
template <std::uint32_t kEntries = kCapacity>
struct Ring {
  alignas(kCacheLine) std::array<std::byte, ring_bytes<Entry>(kEntries)> memory{};
  RingProducer<Entry> producer{memory.data(), kEntries};
  RingConsumer<Entry> consumer{memory.data(), kEntries};

  RingControl& control() { return *reinterpret_cast<RingControl*>(memory.data()); }

  void send(std::uint64_t first, std::uint32_t count) {
    for (std::uint64_t n = first; n < first + count; ++n) producer.push(entry(n));
    producer.publish();
  }
  void expect(std::uint64_t first, std::uint32_t count) {
    for (std::uint64_t n = first; n < first + count; ++n) {
      const Entry e = consumer.take();
      ASSERT_EQ(e.number, n);
      ASSERT_EQ(e.complement, ~n);
    }
  }
};

TEST(ClientRing, IsEmptyAtFirst) {
  Ring r;
  EXPECT_EQ(r.producer.room(), kCapacity);
  EXPECT_EQ(r.consumer.readable(), 0u);
  EXPECT_FALSE(r.producer.unpublished());
}

TEST(ClientRing, ShowsNothingBeforePublish) {
  Ring r;
  r.producer.push(entry(1));
  r.producer.push(entry(2));
  EXPECT_TRUE(r.producer.unpublished());
  EXPECT_EQ(r.consumer.readable(), 0u);
  r.producer.publish();
  EXPECT_FALSE(r.producer.unpublished());
  EXPECT_EQ(r.consumer.readable(), 2u);
  r.expect(1, 2);
  EXPECT_EQ(r.consumer.readable(), 0u);
}

TEST(ClientRing, HoldsItsCapacityAndNoMore) {
  Ring r;
  r.send(0, kCapacity);
  EXPECT_EQ(r.producer.room(), 0u);
  EXPECT_EQ(r.consumer.readable(), kCapacity);
}

TEST(ClientRing, TakenSlotIsKeptUntilItIsReleased) {
  Ring r;
  r.send(0, kCapacity);
  EXPECT_EQ(r.consumer.readable(), kCapacity);
  r.expect(0, 3);
  EXPECT_EQ(r.producer.room(), 0u) << "taken, not released";
  r.consumer.release(2);
  EXPECT_EQ(r.producer.room(), 2u);
  EXPECT_EQ(r.producer.consumed(), 2u);
  EXPECT_EQ(r.consumer.taken(), 3u);
  EXPECT_EQ(r.consumer.released(), 2u);
}

TEST(ClientRing, ConsumersIndexIsReadOnlyIfNoRoomIsLeft) {
  Ring r;
  r.send(0, kCapacity - 1);
  EXPECT_EQ(r.consumer.readable(), kCapacity - 1);
  r.expect(0, 4);
  r.consumer.release(4);
  EXPECT_EQ(r.producer.room(), 1u) << "the cached index still has room, so the other's line is left alone";
  EXPECT_EQ(r.producer.refresh(), Peer::kHonest);
  EXPECT_EQ(r.producer.room(), 5u);
}

TEST(ClientRing, WrapsManyTimesInBurstsOfEveryLength) {
  constexpr std::uint64_t kSeed = 20;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Prng random(kSeed);
  Ring r;
  std::uint64_t sent = 0, received = 0;
  while (received < 1'000 * kCapacity) {
    const auto burst = static_cast<std::uint32_t>(random.below(r.producer.room() + 1));
    r.send(sent, burst);
    sent += burst;
    const auto take = static_cast<std::uint32_t>(random.below(r.consumer.readable() + 1));
    ASSERT_NO_FATAL_FAILURE(r.expect(received, take));
    received += take;
    const std::uint32_t held = r.consumer.taken() - r.consumer.released();
    r.consumer.release(r.consumer.released() + static_cast<std::uint32_t>(random.below(held + 1)));
    ASSERT_LE(sent - received, kCapacity);
  }
  EXPECT_EQ(r.producer.peer(), Peer::kHonest);
  EXPECT_EQ(r.consumer.peer(), Peer::kHonest);
}

TEST(ClientRing, RingOfOneEntryWorks) {
  Ring<1> r;
  for (std::uint64_t n = 0; n < 10; ++n) {
    ASSERT_EQ(r.producer.room(), 1u);
    r.send(n, 1);
    ASSERT_EQ(r.producer.room(), 0u);
    ASSERT_EQ(r.consumer.readable(), 1u);
    ASSERT_NO_FATAL_FAILURE(r.expect(n, 1));
    r.consumer.release(r.consumer.taken());
  }
}

// --- the other side is hostile
// ---------------------------------------------------------------------------------

TEST(ClientRingHostileProducer, ClaimAboveTheCapacityIsDetected) {
  Ring r;
  r.control().tail = kCapacity + 1;
  EXPECT_EQ(r.consumer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.consumer.readable(), 0u);
}

TEST(ClientRingHostileProducer, OverwriteOfUnreleasedSlotsIsDetected) {
  Ring r;
  r.send(0, kCapacity);
  ASSERT_EQ(r.consumer.readable(), kCapacity);
  r.expect(0, kCapacity);  // all taken, none released: the producer owns no slot
  r.control().tail = kCapacity + 1;
  EXPECT_EQ(r.consumer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.consumer.readable(), 0u);
}

TEST(ClientRingHostileProducer, WithdrawalOfEntriesIsDetected) {
  Ring r;
  r.send(0, 4);
  ASSERT_EQ(r.consumer.readable(), 4u);
  r.expect(0, 1);
  r.control().tail = 2;  // between what was taken and what was seen
  EXPECT_EQ(r.consumer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.consumer.readable(), 3u) << "what was believed before stays readable, in bounds";
  r.control().tail = 0;  // before what was taken
  EXPECT_EQ(r.consumer.refresh(), Peer::kViolates);
}

TEST(ClientRingHostileProducer, ViolationIsPermanent) {
  Ring r;
  r.control().tail = 0x8000'0000;
  ASSERT_EQ(r.consumer.refresh(), Peer::kViolates);
  r.control().tail = 0;
  EXPECT_EQ(r.consumer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.consumer.peer(), Peer::kViolates);
}

TEST(ClientRingHostileProducer, CannotMakeTheConsumerReadPastTheRingWhateverItWrites) {
  constexpr std::uint64_t kSeed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Prng random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Ring r;
    for (int write = 0; write < 50; ++write) {
      r.control().tail = static_cast<std::uint32_t>(random.chance(0.5) ? random.next() : random.below(16));
      const std::uint32_t readable = r.consumer.readable();
      ASSERT_LE(readable, kCapacity);
      for (std::uint32_t i = random.chance(0.5) ? readable : 0; i > 0; --i) r.consumer.take();
      ASSERT_LE(r.consumer.taken() - r.consumer.released(), kCapacity);
      if (random.chance(0.3)) r.consumer.release(r.consumer.taken());
    }
  }
}

TEST(ClientRingHostileConsumer, ReleaseOfMoreThanWasSentIsDetected) {
  Ring r;
  r.send(0, kCapacity);
  r.control().head = kCapacity + 1;
  EXPECT_EQ(r.producer.room(), 0u);
  EXPECT_EQ(r.producer.peer(), Peer::kViolates);
}

TEST(ClientRingHostileConsumer, ReleaseOfUnpublishedEntriesIsDetected) {
  Ring r;
  r.send(0, 2);
  r.producer.push(entry(2));  // staged: no honest consumer has seen it
  r.control().head = 3;
  EXPECT_EQ(r.producer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.producer.consumed(), 0u);
}

TEST(ClientRingHostileConsumer, BackwardIndexIsDetected) {
  Ring r;
  r.send(0, 6);
  ASSERT_EQ(r.consumer.readable(), 6u);
  r.expect(0, 4);
  r.consumer.release(4);
  ASSERT_EQ(r.producer.refresh(), Peer::kHonest);
  r.control().head = 1;
  EXPECT_EQ(r.producer.refresh(), Peer::kViolates);
  EXPECT_EQ(r.producer.consumed(), 4u);
  r.control().head = 4;
  EXPECT_EQ(r.producer.refresh(), Peer::kViolates) << "not forgiven";
}

TEST(ClientRingHostileConsumer, CannotMakeTheProducerWritePastTheRingWhateverItWrites) {
  constexpr std::uint64_t kSeed = 22;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Prng random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Ring r;
    for (int write = 0; write < 50; ++write) {
      r.control().head = static_cast<std::uint32_t>(random.chance(0.5) ? random.next() : random.below(16));
      const std::uint32_t room = r.producer.room();
      ASSERT_LE(room, kCapacity);
      if (room > 0) r.send(r.producer.produced(), static_cast<std::uint32_t>(random.below(room + 1)));
      ASSERT_LE(r.producer.produced() - r.producer.consumed(), kCapacity);
    }
  }
}

// --- our own mistakes
// ------------------------------------------------------------------------------------------

TEST(ClientRingDeathTest, OverfillingIsAProgrammingError) {
  Ring r;
  r.send(0, kCapacity);
  EXPECT_DEATH(r.producer.push(entry(9)), "tail_ - head_seen_ < capacity_: 8 and 8");
}

TEST(ClientRingDeathTest, TakingFromAnEmptyRingIsAProgrammingError) {
  Ring r;
  EXPECT_DEATH(r.consumer.take(), "head_ != tail_seen_: 0 and 0");
}

TEST(ClientRingDeathTest, ReleasingWhatWasNotTakenIsAProgrammingError) {
  Ring r;
  r.send(0, 2);
  ASSERT_EQ(r.consumer.readable(), 2u);
  r.expect(0, 1);
  EXPECT_DEATH(r.consumer.release(2), "CHECK failed");
}

TEST(ClientRingDeathTest, ACapacityIsAPowerOfTwo) {
  Ring r;
  EXPECT_DEATH((RingProducer<Entry>{r.memory.data(), 6}), "has_single_bit");
  EXPECT_DEATH((RingConsumer<Entry>{r.memory.data(), 0}), "has_single_bit");
}

// --- two threads
// -----------------------------------------------------------------------------------------------

TEST(ClientRing, TwoThreadsSeeEveryEntryOnceInOrderAndWhole) {
  constexpr std::uint64_t kCount = 200'000;
  Ring<64> r;
  std::thread sender([&] {
    Prng random(23);
    for (std::uint64_t n = 0; n < kCount;) {
      const std::uint32_t room = r.producer.room();
      if (room == 0) {
        std::this_thread::yield();
        continue;
      }
      for (std::uint64_t burst = 1 + random.below(room); burst > 0 && n < kCount; --burst) {
        r.producer.push(entry(n++));
      }
      r.producer.publish();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t n = 0; n < kCount;) {
    const std::uint32_t readable = r.consumer.readable();
    if (readable == 0) {
      std::this_thread::yield();
      continue;
    }
    for (std::uint32_t i = 0; i < readable; ++i, ++n) {
      const Entry e = r.consumer.take();
      wrong += e.number != n || e.complement != ~n;
    }
    r.consumer.release(r.consumer.taken());
  }
  sender.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(r.producer.peer(), Peer::kHonest);
  EXPECT_EQ(r.consumer.peer(), Peer::kHonest);
}

}  // namespace
}  // namespace braid
