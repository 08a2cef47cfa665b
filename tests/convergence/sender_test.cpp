// The sending half of a parallel connection: places on the ring, and credit.
#include "convergence/sender.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/prng.h"

namespace braid::convergence {
namespace {

constexpr std::uint32_t kWindow = kMinWindowBytes;  // 64 granules, pieces up to 16

Position send(Sender& sender, std::uint32_t bytes) {
  const auto place = sender.place(bytes);
  EXPECT_TRUE(place.has_value());
  if (!place) return Position();
  sender.sent(*place, bytes);
  return place->position;
}

TEST(Sender, PositionsCountGranules) {  // CV-2
  Sender s(kWindow);
  EXPECT_EQ(send(s, 1), Position(0));
  EXPECT_EQ(send(s, 0), Position(1)) << "an empty message has a position too";
  EXPECT_EQ(send(s, 64), Position(2));
  EXPECT_EQ(send(s, 65), Position(3));
  EXPECT_EQ(send(s, 1), Position(5));
}

TEST(Sender, StopsAtTheEndOfTheReceiversSpace) {  // CV-2
  Sender s(kWindow);
  for (int i = 0; i < 4; ++i) send(s, 1024);
  EXPECT_EQ(s.place(0), std::nullopt);
  EXPECT_TRUE(s.on_credit(Position(1)));
  EXPECT_EQ(send(s, 64), Position(64));
  EXPECT_EQ(s.place(1), std::nullopt);
}

TEST(Sender, PieceThatDoesNotFitBeforeTheRingsEndSkipsToItsStart) {  // CV-2
  Sender s(kWindow);
  for (int i = 0; i < 3; ++i) send(s, 1024);
  send(s, 10 * 64);  // 58 of 64
  EXPECT_TRUE(s.on_credit(Position(58)));
  const auto place = s.place(7 * 64);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->skip, 6);
  EXPECT_EQ(place->position, Position(64));
  s.sent(*place, 7 * 64);
  EXPECT_EQ(s.next(), Position(71));
}

TEST(Sender, TheSkippedGranulesNeedCreditToo) {  // CV-2
  Sender s(kWindow);
  for (int i = 0; i < 3; ++i) send(s, 1024);
  send(s, 10 * 64);
  EXPECT_TRUE(s.on_credit(Position(6)));  // 12 free: 6 before the end, 6 after
  EXPECT_EQ(s.place(7 * 64), std::nullopt);
  EXPECT_TRUE(s.on_credit(Position(7)));
  EXPECT_TRUE(s.place(7 * 64).has_value());
}

TEST(Sender, OldOrRepeatedCreditIsIgnored) {  // CV-3
  Sender s(kWindow);
  for (int i = 0; i < 4; ++i) send(s, 1024);
  EXPECT_TRUE(s.on_credit(Position(20)));
  EXPECT_TRUE(s.on_credit(Position(20)));
  EXPECT_TRUE(s.on_credit(Position(5)));
  EXPECT_EQ(s.credit(), Position(20));
}

TEST(Sender, CreditForUnsentGranulesIsRefused) {  // CV-3
  Sender s(kWindow);
  send(s, 1024);
  EXPECT_FALSE(s.on_credit(Position(17)));
  EXPECT_FALSE(s.on_credit(Position(0x7fffffff)));
  EXPECT_EQ(s.credit(), Position(0));
  EXPECT_TRUE(s.on_credit(Position(16)));
}

// Each proxy stores the newest credit that it received. One of two receives none until all positions have
// gone round more than half: what it leaves then is new.
TEST(Sender, CreditIsRecognizedAfterHalfOfAllPositions) {  // CV-3
  constexpr std::uint32_t kBytes = 32768;
  Sender s(kBytes * 4);
  Position ways[2];
  const auto leave = [&](Position& way) {
    if (s.next() > way) way = s.next();
  };
  const auto read = [&] {
    for (Position& way : ways) {
      EXPECT_TRUE(s.on_credit(way) || s.credit() - way > 0);
      if (const auto instead = s.instead_of(way)) way = *instead;
    }
  };
  std::uint64_t granules = 0;
  for (; granules < 5ull << 30; granules += kBytes / kGranuleBytes) {
    send(s, kBytes);
    leave(ways[0]);
    read();
    ASSERT_EQ(s.credit(), s.next()) << "after " << granules;
  }
  for (int i = 0; i < 8; ++i) {
    send(s, kBytes);
    leave(ways[1]);
    read();
    ASSERT_EQ(s.credit(), s.next());
  }
}

TEST(Sender, MessagesInOnePieceAreAQuarterOfTheWindowAtMost) {  // CV-12
  EXPECT_EQ(Sender(kMinWindowBytes).max_run_bytes(), 1024u);
  EXPECT_EQ(Sender(256 << 10).max_run_bytes(), 64u << 10);
  EXPECT_EQ(Sender(kMaxWindowBytes).max_run_bytes(), 96u << 10);
  Sender s(kMinWindowBytes);
  ASSERT_TRUE(s.place(1024).has_value());
  EXPECT_DEATH((void)s.place(1025), "max_run_bytes");
}

TEST(Sender, PiecesAreAQuarterOfTheWindowAtMost) {  // CV-8
  EXPECT_EQ(Sender(kMinWindowBytes).max_piece_bytes(), 1024u);
  EXPECT_EQ(Sender(64 << 10).max_piece_bytes(), 16384u);
  EXPECT_EQ(Sender(kMaxWindowBytes).max_piece_bytes(), 32768u);
}

// has_place_at_next() agrees with place().
TEST(Sender, PlaceAtNextIsAPlaceWithoutAGap) {  // CV-2, CV-11
  Prng prng(7);
  Sender s(kWindow, Position(0) - 100);
  for (int step = 0; step < 20000; ++step) {
    const auto bytes = static_cast<std::uint32_t>(prng.below(s.max_run_bytes() + 1));
    const auto place = s.place(bytes);
    ASSERT_EQ(s.has_place_at_next(bytes), place.has_value() && place->skip == 0) << "step " << step;
    if (!place || prng.below(4) == 0) {
      const auto sent = static_cast<std::uint64_t>(s.next() - s.credit());
      EXPECT_TRUE(s.on_credit(s.credit() + static_cast<std::uint32_t>(prng.below(sent + 1))));
    } else if (place->skip == 0 && prng.below(2) == 0) {
      s.sent_at_next(bytes);
      ASSERT_EQ(s.next(), place->position + granules_of(bytes));
    } else {
      s.sent(*place, bytes);
    }
  }
}

// Messages have random sizes. When the receiver has taken everything and returned credit by the rule of a
// quarter, there is room for the next piece. Also when it holds the last message that it was given.
TEST(Sender, NeverStarves) {  // CV-2, CV-3
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const std::uint32_t window_bytes = kMinWindowBytes << prng.below(8);
    const std::uint32_t window = window_bytes / kGranuleBytes;
    const Position start(0u - static_cast<std::uint32_t>(prng.below(2 * window)));
    Sender s(window_bytes, start);
    Position returned = start;
    struct Piece {
      Position first;
      Position end;
    };
    std::deque<Piece> pieces;
    const bool large_only = prng.chance(0.3);
    for (int i = 0; i < 3000; ++i) {
      const std::uint32_t most = s.max_run_bytes();
      const auto bytes = static_cast<std::uint32_t>(
          large_only || prng.chance(0.3) ? most - prng.below(most / 8) : prng.below(most + 1));
      auto place = s.place(bytes);
      while (!place) {
        // All but the piece in the application's hands has been consumed.
        ASSERT_FALSE(pieces.empty());
        Position consumed = pieces.back().first;
        if (prng.chance(0.5)) consumed = pieces.back().end;
        ASSERT_GE(static_cast<std::uint32_t>(consumed - returned) * 4, window)
            << "the sender waits, and no credit is due";
        ASSERT_TRUE(s.on_credit(consumed));
        returned = consumed;
        while (pieces.size() > 1) pieces.pop_front();
        place = s.place(bytes);
      }
      ASSERT_LE(place->position.value() % window + granules_of(bytes), window) << "it lies in one run";
      pieces.push_back({place->position, place->position + granules_of(bytes)});
      s.sent(*place, bytes);
    }
  }
}

}  // namespace
}  // namespace braid::convergence
