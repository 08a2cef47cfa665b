// The sending half of a parallel connection: gives each piece its position and keeps to the receiver's
// credit.
//
//      consumed by receiver     sent, not consumed        may be sent        no credit
//   ------------|-----------------------|------------------------|--------------->
//            credit_                  next_             credit_ + window
//
// Pure; owned by the sending thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/seq.h"
#include "convergence/position.h"

namespace braid::convergence {

class Sender {
 public:
  // Where a piece goes: `skip` granules before it stay unused because the piece would not fit before the
  // ring's end.
  struct Place {
    Position position;
    std::uint16_t skip = 0;
  };

  // Both ends begin at `start`.
  explicit Sender(std::uint32_t window_bytes, Position start = Position())
      : window_(window_bytes / kGranuleBytes),
        max_run_bytes_(convergence::max_run_bytes(window_ * kGranuleBytes)),
        max_piece_bytes_(convergence::max_piece_bytes(window_ * kGranuleBytes)),
        next_(start),
        credit_(start) {
    CHECK_GE(window_bytes, kMinWindowBytes);
    CHECK_EQ(window_ & (window_ - 1), 0u);
    measure_room();
  }

  // The place of the next piece, or nothing while the receiver has not freed enough (CV-2). bytes <=
  // max_run_bytes().
  std::optional<Place> place(std::uint32_t bytes) const {
    CHECK_LE(bytes, max_run_bytes());
    const std::uint32_t granules = granules_of(bytes);
    const std::uint32_t index = next_.value() & (window_ - 1);
    const std::uint32_t skip = index + granules > window_ ? window_ - index : 0;
    if (static_cast<std::uint32_t>(next_ - credit_) + skip + granules > window_) return std::nullopt;
    return Place{next_ + skip, static_cast<std::uint16_t>(skip)};
  }
  // place(bytes) is next(). bytes <= max_run_bytes().
  bool has_place_at_next(std::uint32_t bytes) const { return granules_of(bytes) <= room_at_next_; }
  // The piece at `place` has been handed to a proxy.
  void sent(const Place& place, std::uint32_t bytes) {
    next_ = place.position + granules_of(bytes);
    measure_room();
    check();
  }
  // The same of a piece at next(). has_place_at_next(bytes).
  void sent_at_next(std::uint32_t bytes) {
    const std::uint32_t granules = granules_of(bytes);
    CHECK_LE(granules, room_at_next_);
    next_ += granules;
    room_at_next_ -= granules;
    if (room_at_next_ == 0) measure_room();  // at the ring's end
  }
  // The receiver consumed everything before `consumed`. Cumulative: repeated, late or lost returns do no harm
  // (CV-3). A return of what was never sent is a lie, and false.
  [[nodiscard]] bool on_credit(Position consumed) {
    if (consumed > next_) return false;
    if (consumed > credit_) credit_ = consumed;
    measure_room();
    check();
    return true;
  }

  // Somewhere credit is left for this sender, and replaced by what is newer. Where none has come for long,
  // what was left must not fall behind by half of all positions, from where it would look new: what has to
  // stand there instead, if it has fallen far (CV-3).
  std::optional<Position> instead_of(Position left) const {
    constexpr std::int32_t kFar = 1 << 30;
    if (credit_ - left < kFar) return std::nullopt;
    return credit_;
  }

  // The longest message that can be one piece, and the length of the pieces of longer ones.
  std::uint32_t max_run_bytes() const { return max_run_bytes_; }
  std::uint32_t max_piece_bytes() const { return max_piece_bytes_; }
  Position next() const { return next_; }
  Position credit() const { return credit_; }
  void check() const { CHECK_LE(static_cast<std::uint32_t>(next_ - credit_), window_); }

 private:
  void measure_room() {
    room_at_next_ =
        window_ - std::max(next_.value() & (window_ - 1), static_cast<std::uint32_t>(next_ - credit_));
  }

  std::uint32_t window_;  // granules, a power of two
  std::uint32_t max_run_bytes_;
  std::uint32_t max_piece_bytes_;
  Position next_;
  Position credit_;
  std::uint32_t room_at_next_ = 0;  // granules from next_ to the ring's end or to the end of the credit
};

}  // namespace braid::convergence
