// The receiving half of a parallel connection: knows each granule of its window that has arrived, puts
// messages in order where order was asked for, rejoins those that were cut, drops duplicates whichever
// sub-connection brings them, and says what may be returned as credit.
//
//      consumed          window: arrived, missing or consumed out of order          not granted
//   ------|------------------------------------------------------------------|--------------->
//      consumed_                                                     consumed_ + window
//
// The bytes lie in the connection's receive buffer, where a proxy put them; this object sees them through
// `buffer` and hands out views on it. Pure; owned by the receiving thread. Allocates only to rejoin messages
// longer than a piece.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/seq.h"
#include "base/zeroed_table.h"
#include "convergence/position.h"
#include "stack/wire/segment.h"

namespace braid::convergence {

enum class Accepted : std::uint8_t {
  kNew,
  kDuplicate,     // arrived before: dropped
  kBeyondWindow,  // outside what was granted: dropped
  kMalformed,     // lengths or offsets that no sender makes: dropped
};

class Receiver {
 public:
  // `buffer` is the window: a power of two of bytes, owned by the caller, written by proxies before they
  // report. Both ends begin at `start`.
  Receiver(MutableBytes buffer, bool ordered, Position start = Position());

  // A proxy reports that the record's bytes lie at its position. Call next() afterwards until it is empty.
  // The record may be anything that a peer makes up: it can corrupt this connection's own messages, no more.
  [[nodiscard]] Accepted on_arrival(const stack::Record& r) {
    CHECK(all_taken());
    // Nearly all of the short ones.
    if (r.whole() && r.skip == 0 && !r.many_pieces && is_next_in_line(r.position, r.bytes)) {
      ready_ = Ready::kNextInLine;
      ready_bytes_ = r.bytes;
      return Accepted::kNew;
    }
    return accept(r, granules_of(r.bytes));
  }
  // on_arrival() and next() for a whole message without a gap before it, if it is short and next in line; otherwise
  // nothing happens. Call next() afterwards until it is empty.
  std::optional<ByteView> take_next_in_line(Position position, std::uint32_t bytes) {
    CHECK(all_taken());
    if (!is_next_in_line(position, bytes)) return std::nullopt;
    handed_next_in_line_ = true;
    return view(index(position), bytes);
  }

  // The message that was handed over last is consumed, and the next one taken as by take_next_in_line(); otherwise
  // nothing happens, and next() does both.
  std::optional<ByteView> pass_to_next_in_line(Position position, std::uint32_t bytes) {
    const Position following = consumed_ + 1;
    if (!handed_next_in_line_ || position != following || bytes > kGranuleBytes || !is_unknown(position))
      return std::nullopt;
    consumed_ = following;
    return view(index(position), bytes);
  }

  // The next message that may be handed over (CV-4 in order, CV-5 as soon as complete). The view stays valid
  // until the following call of next().
  std::optional<ByteView> next() {
    if (ready_ == Ready::kNextInLine) {
      ready_ = Ready::kNone;
      handed_next_in_line_ = true;
      return view(index(consumed_), ready_bytes_);
    }
    if (handed_next_in_line_) {
      handed_next_in_line_ = false;
      ++consumed_;
      if (units_[index(consumed_)].state == State::kMissing) return std::nullopt;
      advance();
    }
    return next_of_others();
  }

  // Everything before this has been consumed; the view given by the last next() counts as not yet consumed.
  Position consumed() const { return consumed_; }
  // The position to return as credit now, if it is worth a record: a quarter of the window since the last
  // (CV-3).
  std::optional<Position> credit_due() const;
  void credit_returned(Position position) { returned_ = position; }

  void check() const;

 private:
  enum class State : std::uint8_t { kMissing, kArrived, kConsumed };
  // Of the unit that begins at this granule of the ring: a record's bytes, or a gap that was skipped
  // (kConsumed).
  struct Unit {
    State state = State::kMissing;
    bool many_pieces = false;
    std::uint16_t bytes = 0;
    std::uint32_t granules = 0;
    std::uint32_t message_bytes = 0;
    std::uint32_t message_offset = 0;
    std::uint32_t message_left = 0;  // at a message's first granule: bytes of it that are missing
    Position message;
  };
  // A message of many pieces in progress.
  struct Rejoin {
    Position message;
    std::uint32_t message_bytes = 0;
    std::uint32_t left = 0;
    std::unique_ptr<std::byte[]> bytes;
  };

  // next() was called until it was empty.
  bool all_taken() const { return handed_granules_ == 0 && !handed_next_in_line_ && ready_ == Ready::kNone; }
  // It takes the one granule at consumed_, of which nothing is known.
  bool is_next_in_line(Position position, std::uint32_t bytes) const {
    return position == consumed_ && bytes <= kGranuleBytes && is_unknown(position);
  }
  // No part of any message has come to this granule.
  bool is_unknown(Position position) const {
    const Unit& unit = units_[index(position)];
    return unit.state == State::kMissing && unit.message_left == 0;
  }
  std::uint32_t index(Position p) const { return p.value() & mask_; }
  ByteView view(std::uint32_t index, std::uint32_t bytes) const {
    return {buffer_.data() + std::size_t{index} * kGranuleBytes, bytes};
  }
  // Messages of many pieces that can be incomplete at once: each is longer than a piece and has one missing
  // in the window.
  std::size_t max_rejoining() const;
  bool well_formed(const stack::Record& record, std::uint32_t granules) const;
  // Counts a part of a message that lies in one run.
  enum class Part : std::uint8_t { kMore, kComplete, kMalformed };
  Part count_part(const stack::Record& record);
  // Copies a part of a message of many pieces out of the window.
  Part rejoin(Position message, std::uint32_t message_bytes, std::uint32_t offset, ByteView part);
  void consume(Position position, std::uint32_t granules);
  void advance();
  Accepted accept(const stack::Record& record, std::uint32_t granules);
  std::optional<ByteView> next_of_others();
  std::optional<ByteView> hand_over(Position position, std::uint32_t bytes);
  void finish_handed_over();

  MutableBytes buffer_;
  std::uint32_t window_;  // granules
  std::uint32_t mask_;
  bool ordered_;
  Position consumed_;
  Position returned_;
  ZeroedTable<Unit> units_;  // of a connection that carries little, little is touched
  std::vector<Rejoin> rejoining_;
  // How the last arrival completed a message, if that can be handed over without a search.
  // kNextInLine: it takes the one granule at consumed_, of which the unit says nothing.
  enum class Ready : std::uint8_t { kNone, kNextInLine, kInWindow, kRejoined };
  Ready ready_ = Ready::kNone;
  Position ready_at_;
  std::uint32_t ready_bytes_ = 0;
  // Handed over by the last next(), to be consumed at the following one.
  bool handed_next_in_line_ = false;
  std::uint32_t handed_granules_ = 0;
  Position handed_at_;
  Rejoin rejoined_;
};

}  // namespace braid::convergence
