// The receiving half of a parallel connection on its own: records in the order that the test writes down, and
// records that no sender makes.
#include "convergence/receiver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/prng.h"

namespace braid::convergence {
namespace {

using stack::Record;

constexpr std::uint32_t kWindow = 64;  // granules

// A receiver and its buffer, written as a proxy would.
struct Fixture {
  explicit Fixture(bool ordered, Position start = Position(), std::uint32_t granules = kWindow)
      : buffer(granules * kGranuleBytes), receiver(buffer, ordered, start) {}

  // Every byte of the record is `letter`.
  Accepted arrives(const Record& r, char letter) {
    const std::size_t at = std::size_t{r.position.value() % (buffer.size() / kGranuleBytes)} * kGranuleBytes;
    if (at + r.bytes <= buffer.size())
      std::fill_n(buffer.begin() + static_cast<long>(at), r.bytes, std::byte(letter));
    return receiver.on_arrival(r);
  }
  // All messages that are handed over: one letter and the length for each.
  std::string takes() {
    std::string out;
    while (const auto m = receiver.next()) {
      if (!out.empty()) out += ' ';
      out += m->empty() ? '-' : static_cast<char>((*m)[0]);
      out += std::to_string(m->size());
      for (const std::byte b : *m) runs_ += b != (*m)[0] ? 1 : 0;
    }
    receiver.check();
    return out;
  }

  std::vector<std::byte> buffer;
  Receiver receiver;
  int runs_ = 0;  // bytes that differ from the first of their message
};

Record whole(std::uint32_t position, std::uint32_t bytes, std::uint32_t skip = 0) {
  Record r;
  r.position = Position(position);
  r.message = r.position;
  r.bytes = static_cast<std::uint16_t>(bytes);
  r.message_bytes = bytes;
  r.skip = static_cast<std::uint16_t>(skip);
  return r;
}
// A part of a message that lies in one run from `message` on.
Record part(std::uint32_t message, std::uint32_t message_bytes, std::uint32_t offset, std::uint32_t bytes) {
  Record r = whole(message + offset / kGranuleBytes, bytes);
  r.message = Position(message);
  r.message_bytes = message_bytes;
  r.message_offset = offset;
  return r;
}
Record piece(std::uint32_t position, std::uint32_t message, std::uint32_t message_bytes, std::uint32_t offset,
             std::uint32_t bytes) {
  Record r = whole(position, bytes);
  r.many_pieces = true;
  r.message = Position(message);
  r.message_bytes = message_bytes;
  r.message_offset = offset;
  return r;
}

TEST(Receiver, ShortMessageNextInLineIsHandedOverAtOnce) {  // CV-4
  Fixture f(true);
  const std::optional<ByteView> first = f.receiver.take_next_in_line(Position(0), 10);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->data(), f.buffer.data());
  EXPECT_EQ(first->size(), 10u);
  EXPECT_EQ(f.receiver.consumed(), Position(0)) << "the application looks at it";
  EXPECT_EQ(f.takes(), "");
  EXPECT_EQ(f.receiver.consumed(), Position(1));
}

TEST(Receiver, MessageThatIsNotNextInLineOrNotShortIsNotTakenAtOnce) {
  Fixture f(true);
  EXPECT_FALSE(f.receiver.take_next_in_line(Position(1), 10).has_value());
  EXPECT_FALSE(f.receiver.take_next_in_line(Position(0), 65).has_value());
  EXPECT_EQ(f.arrives(whole(1, 5), 'b'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "");
  EXPECT_FALSE(f.receiver.take_next_in_line(Position(1), 5).has_value()) << "it is there already";
  ASSERT_TRUE(f.receiver.take_next_in_line(Position(0), 10).has_value());
  EXPECT_EQ(f.takes(), "b5") << "what waited behind it";
  EXPECT_FALSE(f.receiver.take_next_in_line(Position(0), 10).has_value()) << "consumed";
}

TEST(Receiver, PassingToTheNextInLineConsumesTheMessageBefore) {
  Fixture f(true);
  ASSERT_TRUE(f.receiver.take_next_in_line(Position(0), 10).has_value());
  const std::optional<ByteView> second = f.receiver.pass_to_next_in_line(Position(1), 64);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->data(), f.buffer.data() + kGranuleBytes);
  EXPECT_EQ(second->size(), 64u);
  EXPECT_EQ(f.receiver.consumed(), Position(1)) << "the application looks at the second";
  EXPECT_EQ(f.takes(), "");
  EXPECT_EQ(f.receiver.consumed(), Position(2));
}

TEST(Receiver, NothingIsPassedToThatIsNotNextInLineOrNotShort) {
  Fixture f(true);
  EXPECT_FALSE(f.receiver.pass_to_next_in_line(Position(1), 5).has_value()) << "nothing was handed over";
  EXPECT_EQ(f.arrives(whole(1, 5), 'b'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "");
  ASSERT_TRUE(f.receiver.take_next_in_line(Position(0), 10).has_value());
  EXPECT_FALSE(f.receiver.pass_to_next_in_line(Position(0), 5).has_value());
  EXPECT_FALSE(f.receiver.pass_to_next_in_line(Position(1), 5).has_value()) << "it is there already";
  EXPECT_FALSE(f.receiver.pass_to_next_in_line(Position(2), 5).has_value());
  EXPECT_EQ(f.receiver.consumed(), Position(0)) << "nothing happened";
  EXPECT_EQ(f.takes(), "b5");
  ASSERT_TRUE(f.receiver.take_next_in_line(Position(2), 10).has_value());
  EXPECT_FALSE(f.receiver.pass_to_next_in_line(Position(3), 65).has_value());
  EXPECT_TRUE(f.receiver.pass_to_next_in_line(Position(3), 64).has_value());
}

TEST(Receiver, OrderedMessagesWaitForTheirPredecessors) {  // CV-4
  Fixture f(true);
  EXPECT_EQ(f.arrives(whole(2, 65), 'c'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "");
  EXPECT_EQ(f.arrives(whole(1, 3), 'b'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "");
  EXPECT_EQ(f.arrives(whole(0, 64), 'a'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "a64 b3 c65");
  EXPECT_EQ(f.receiver.consumed(), Position(4));
}

TEST(Receiver, UnorderedMessagesDoNotWait) {  // CV-5
  Fixture f(false);
  EXPECT_EQ(f.arrives(whole(2, 65), 'c'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "c65");
  EXPECT_EQ(f.receiver.consumed(), Position(0)) << "but their space is not free before the first's";
  f.arrives(whole(0, 64), 'a');
  EXPECT_EQ(f.takes(), "a64");
  EXPECT_EQ(f.receiver.consumed(), Position(1));
  f.arrives(whole(1, 0), 'b');
  EXPECT_EQ(f.takes(), "-0");
  EXPECT_EQ(f.receiver.consumed(), Position(4));
}

TEST(Receiver, DuplicateIsRecognizedOnAnyPath) {  // CV-6
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    Fixture f(ordered);
    f.arrives(whole(1, 10), 'b');
    f.takes();
    EXPECT_EQ(f.arrives(whole(1, 10), 'b'), Accepted::kDuplicate) << "waiting, or consumed out of order";
    EXPECT_EQ(f.takes(), "");
    f.arrives(whole(0, 10), 'a');
    f.takes();
    EXPECT_EQ(f.arrives(whole(1, 10), 'b'), Accepted::kDuplicate) << "consumed";
    EXPECT_EQ(f.arrives(whole(0, 10), 'a'), Accepted::kDuplicate);
    EXPECT_EQ(f.takes(), "");
  }
}

TEST(Receiver, DuplicatePartOfAMessageConsumedOutOfOrderIsRecognized) {  // CV-6
  Fixture f(false);
  f.arrives(part(1, 150, 0, 128), 'm');
  EXPECT_EQ(f.takes(), "");
  f.arrives(part(1, 150, 128, 22), 'm');
  EXPECT_EQ(f.takes(), "m150");
  EXPECT_EQ(f.arrives(part(1, 150, 128, 22), 'm'), Accepted::kDuplicate);
  EXPECT_EQ(f.arrives(part(1, 150, 0, 128), 'm'), Accepted::kDuplicate);
  f.arrives(whole(0, 7), 'a');
  EXPECT_EQ(f.takes(), "a7");
  EXPECT_EQ(f.receiver.consumed(), Position(4));
  EXPECT_EQ(f.arrives(whole(4 + 63, 5), 'z'), Accepted::kNew) << "nothing of it is left in its granules";
  EXPECT_EQ(f.takes(), "z5");
}

TEST(Receiver, DuplicateBehindASkippedGapIsRecognized) {  // CV-6
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    Fixture f(ordered);
    for (std::uint32_t i = 0; i < 6; ++i) f.arrives(whole(10 * i, 640), 'a'), f.takes();
    EXPECT_EQ(f.arrives(whole(64, 640, 4), 'b'), Accepted::kNew);
    EXPECT_EQ(f.takes(), "b640");
    EXPECT_EQ(f.receiver.consumed(), Position(74));
    EXPECT_EQ(f.arrives(whole(64, 640, 4), 'b'), Accepted::kDuplicate);
    EXPECT_EQ(f.takes(), "");
  }
}

TEST(Receiver, SkippedGapIsConsumedInAnyOrder) {  // CV-2
  for (const bool ordered : {true, false}) {
    SCOPED_TRACE(ordered);
    Fixture f(ordered, Position(50));
    EXPECT_EQ(f.arrives(whole(64, 64, 4), 'c'), Accepted::kNew);  // 60..63 are skipped
    EXPECT_EQ(f.takes(), ordered ? "" : "c64");
    EXPECT_EQ(f.arrives(whole(50, 640), 'a'), Accepted::kNew);
    EXPECT_EQ(f.takes(), ordered ? "a640 c64" : "a640");
    EXPECT_EQ(f.receiver.consumed(), Position(65));
  }
}

TEST(Receiver, RecordBeyondTheGrantedCreditIsRefused) {  // CV-2
  Fixture f(true);
  EXPECT_EQ(f.arrives(whole(64, 1), 'x'), Accepted::kBeyondWindow);
  EXPECT_EQ(f.arrives(whole(63, 65), 'x'), Accepted::kBeyondWindow);
  EXPECT_EQ(f.arrives(whole(0x7fff'ffff, 1), 'x'), Accepted::kBeyondWindow);
  EXPECT_EQ(f.arrives(whole(0xffff'ffff, 1), 'x'), Accepted::kDuplicate) << "before the window";
  EXPECT_EQ(f.arrives(whole(63, 64), 'z'), Accepted::kNew);
  EXPECT_EQ(f.takes(), "");
}

TEST(Receiver, PartsInAnyOrderCompleteTheMessage) {  // CV-7
  std::vector<int> order = {0, 1, 2};
  do {
    for (const bool ordered : {true, false}) {
      Fixture f(ordered);
      const Record parts[] = {part(0, 300, 0, 128), part(0, 300, 128, 128), part(0, 300, 256, 44)};
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(f.arrives(parts[order[static_cast<std::size_t>(i)]], 'm'), Accepted::kNew);
        EXPECT_EQ(f.takes(), i < 2 ? "" : "m300");
      }
      EXPECT_EQ(f.arrives(parts[1], 'm'), Accepted::kDuplicate);
      EXPECT_EQ(f.receiver.consumed(), Position(5));
      EXPECT_EQ(f.runs_, 0);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Receiver, PiecesOfALongMessageAreRejoinedInAnyOrder) {  // CV-8
  std::vector<int> order = {0, 1, 2, 3};
  do {
    for (const bool ordered : {true, false}) {
      Fixture f(ordered);
      // Three pieces of a message, and a short one behind them.
      const Record records[] = {piece(0, 0, 2300, 0, 1024), piece(16, 0, 2300, 1024, 1024),
                                piece(32, 0, 2300, 2048, 252), whole(36, 5)};
      std::string taken;
      for (const int i : order) {
        EXPECT_EQ(f.arrives(records[i], i == 3 ? 's' : 'm'), Accepted::kNew);
        const std::string now = f.takes();
        taken += taken.empty() || now.empty() ? now : " " + now;
      }
      EXPECT_TRUE(taken == "m2300 s5" || (!ordered && taken == "s5 m2300")) << taken;
      EXPECT_EQ(f.receiver.consumed(), Position(37));
      EXPECT_EQ(f.runs_, 0);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Receiver, MessageLongerThanTheWindowArrivesInPieces) {  // CV-8
  for (const bool ordered : {true, false}) {
    Fixture f(ordered);
    constexpr std::uint32_t kLong = 100 * 1024;
    for (std::uint32_t i = 0; i < 100; ++i) {
      EXPECT_EQ(f.arrives(piece(16 * i, 0, kLong, 1024 * i, 1024), 'm'), Accepted::kNew);
      EXPECT_EQ(f.takes(), i < 99 ? "" : "m102400");
      if (const auto due = f.receiver.credit_due()) f.receiver.credit_returned(*due);
    }
  }
}

// With a large window and one slow sub-connection very many messages can lack a piece at the same time.
TEST(Receiver, IncompleteLongMessagesFillTheWindow) {  // CV-8
  constexpr std::uint32_t kGranules = kMaxWindowBytes / kGranuleBytes;
  Fixture f(false, Position(), kGranules);
  constexpr std::uint32_t kBytes = 32768 + 64;
  const std::uint32_t messages = kMaxWindowBytes / (kBytes + 32768);
  // The first pieces are late...
  std::vector<std::pair<std::uint32_t, std::uint32_t>> late;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; next + 1024 < kGranules; ++i) {
    const std::uint32_t first = next;
    std::uint32_t second = first + 512;
    ASSERT_EQ(f.arrives(piece(second, first, kBytes, 32768, 64), 'm'), Accepted::kNew) << i;
    EXPECT_EQ(f.takes(), "");
    late.push_back({first, second});
    next = first + 513;
    if (next % 512 != 0 && kGranules - next < 512) break;
  }
  EXPECT_GT(late.size(), 400u);
  static_cast<void>(messages);
  // ...and come at last.
  for (const auto& [first, second] : late) {
    ASSERT_EQ(f.arrives(piece(first, first, kBytes, 0, 32768), 'm'), Accepted::kNew);
    ASSERT_EQ(f.takes(), "m32832");
  }
  EXPECT_EQ(f.receiver.consumed(), Position(next));
}

TEST(Receiver, CreditIsDueAtAQuarterOfTheWindow) {  // CV-3
  Fixture f(true);
  for (std::uint32_t i = 0; i < 15; ++i) f.arrives(whole(i, 64), 'a'), f.takes();
  EXPECT_EQ(f.receiver.credit_due(), std::nullopt);
  f.arrives(whole(15, 64), 'a');
  f.takes();
  EXPECT_EQ(f.receiver.credit_due(), Position(16));
  f.receiver.credit_returned(Position(16));
  EXPECT_EQ(f.receiver.credit_due(), std::nullopt);
}

TEST(Receiver, MessageHeldByTheApplicationIsNotConsumed) {  // CV-3
  Fixture f(true);
  f.arrives(whole(0, 640), 'a');
  ASSERT_TRUE(f.receiver.next().has_value());
  EXPECT_EQ(f.receiver.consumed(), Position(0));
  EXPECT_EQ(f.receiver.next(), std::nullopt);
  EXPECT_EQ(f.receiver.consumed(), Position(10));
}

TEST(Receiver, ReceiverThatDoesNotTakeIsReported) {
  Fixture f(false);
  EXPECT_EQ(f.arrives(whole(0, 1), 'a'), Accepted::kNew);
  EXPECT_DEATH((void)f.arrives(whole(1, 1), 'b'), "all_taken");
}

TEST(Receiver, ImpossibleRecordsAreMalformed) {  // CV-9
  struct Case {
    const char* what;
    Record record;
  };
  Record skips_from_the_middle = whole(5, 1, 3);
  Record across_the_end = whole(60, 64 * 5);
  Record no_granule = part(0, 300, 128, 64);
  no_granule.message_offset = 100;
  no_granule.position = Position(1);
  Record elsewhere = part(0, 300, 128, 64);
  elsewhere.position = Position(7);
  Record ragged = part(0, 300, 0, 100);
  Record empty_part = part(0, 300, 64, 0);
  Record past_its_end = piece(0, 0, 1000, 960, 64);
  Record far_past_its_end = piece(0, 0, 1000, 0xffff'ffc0, 64);
  Record too_long = piece(0, 0, kMaxMessageBytes + 64, 0, 64);
  Record run_across_the_end = part(50, 64 * 20, 0, 64);
  Record before_the_window = part(0xffff'ffff, 128, 64, 64);
  for (const Case& c :
       {Case{"a gap that does not end at the ring's end", skips_from_the_middle},
        Case{"across the ring's end", across_the_end}, Case{"an offset between granules", no_granule},
        Case{"not where its offset says", elsewhere}, Case{"not the last, and no whole granules", ragged},
        Case{"a part of no bytes", empty_part}, Case{"past its message's end", past_its_end},
        Case{"far past its message's end", far_past_its_end}, Case{"longer than any message", too_long},
        Case{"a run across the ring's end", run_across_the_end},
        Case{"begins where all is consumed", before_the_window}}) {
    SCOPED_TRACE(c.what);
    for (const bool ordered : {true, false}) {
      Fixture f(ordered);
      const Accepted accepted = f.arrives(c.record, 'x');
      EXPECT_TRUE(accepted == Accepted::kMalformed || accepted == Accepted::kBeyondWindow)
          << static_cast<int>(accepted);
      EXPECT_EQ(f.takes(), "");
      EXPECT_EQ(f.arrives(whole(0, 5), 'a'), Accepted::kNew) << "the next good one is none the worse";
      EXPECT_EQ(f.takes(), "a5");
    }
  }
}

TEST(Receiver, ARunThatEndsBeyondTheWindowIsMalformedFromItsFirstPart) {  // CV-9
  for (const bool ordered : {true, false}) {
    Fixture f(ordered, Position(32));  // granted up to 96
    EXPECT_EQ(f.arrives(part(84, 12 * 64, 0, 64), 'm'), Accepted::kNew);
    EXPECT_EQ(f.takes(), "");
    EXPECT_EQ(f.arrives(part(83, 14 * 64, 64 * 8, 64), 'm'), Accepted::kMalformed);
  }
}

TEST(Receiver, ImpossibleMessagesAreNotRejoined) {  // CV-9
  for (const bool ordered : {true, false}) {
    Fixture f(ordered);
    // The second piece says another length of the same message.
    f.arrives(piece(0, 0, 2048, 0, 1024), 'm');
    f.takes();
    f.arrives(piece(16, 0, 4096, 1024, 1024), 'm');
    EXPECT_EQ(f.takes(), "");
  }
}

// Seeded nonsense: whatever a peer sends, nothing outside the buffer is read (the sanitizer watches), no
// CHECK fails, and what is handed over is no longer than the records that came.
TEST(Receiver, NoSequenceOfRecordsCrashesIt) {  // CV-9
  std::uint64_t read = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const std::uint32_t granules = kWindow << prng.below(3);
    const Position start(static_cast<std::uint32_t>(prng.next()));
    Fixture f(prng.chance(0.5), start, granules);
    const auto near = [&] {
      return f.receiver.consumed() + static_cast<std::uint32_t>(prng.below(granules + 8)) - 4u;
    };
    for (int i = 0; i < 500; ++i) {
      Record r;
      r.position = prng.chance(0.95) ? near() : Position(static_cast<std::uint32_t>(prng.next()));
      r.bytes = static_cast<std::uint16_t>(prng.chance(0.9) ? prng.below(10 * 64) : prng.next());
      r.message_bytes = r.bytes;
      r.message = r.position;
      r.skip = static_cast<std::uint16_t>(prng.chance(0.1) ? prng.below(granules + 2) : 0);
      if (prng.chance(0.2)) r.position = r.position - r.position.value() % granules;
      if (prng.chance(0.2)) r.position = f.receiver.consumed();
      r.many_pieces = prng.chance(0.3);
      if (prng.chance(0.6)) {
        // A part, consistent in most respects.
        r.bytes = static_cast<std::uint16_t>(64 * prng.below(6));
        r.message_offset = static_cast<std::uint32_t>(64 * prng.below(8));
        r.message_bytes = static_cast<std::uint32_t>(prng.chance(0.95) ? prng.below(2000) : prng.next());
        r.message = r.position - r.message_offset / 64;
      }
      if (prng.chance(0.02)) r.message = Position(static_cast<std::uint32_t>(prng.next()));
      if (prng.chance(0.02)) r.message_offset = static_cast<std::uint32_t>(prng.next());
      (void)f.arrives(r, static_cast<char>('a' + i % 26));
      const Position before = f.receiver.consumed();
      while (const auto m = f.receiver.next()) {
        for (const std::byte b : m->first(std::min<std::size_t>(m->size(), 4096)))
          read += std::to_integer<unsigned>(b);
      }
      f.receiver.check();
      ASSERT_LE(static_cast<std::uint32_t>(f.receiver.consumed() - before), granules);
      if (const auto due = f.receiver.credit_due()) f.receiver.credit_returned(*due);
    }
  }
  EXPECT_GT(read, 1'000'000u);
}

}  // namespace
}  // namespace braid::convergence
