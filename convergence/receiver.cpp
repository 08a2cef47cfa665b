#include "convergence/receiver.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace braid::convergence {

Receiver::Receiver(MutableBytes buffer, bool ordered, Position start)
    : buffer_(buffer),
      window_(static_cast<std::uint32_t>(buffer.size() / kGranuleBytes)),
      mask_(window_ - 1),
      ordered_(ordered),
      consumed_(start),
      returned_(start),
      units_(window_) {
  CHECK_GE(buffer.size(), kMinWindowBytes);
  CHECK_LE(buffer.size(), kMaxWindowBytes);
  CHECK_EQ(window_ & mask_, 0u);
  rejoining_.reserve(max_rejoining());
}

std::size_t Receiver::max_rejoining() const {
  // And one whose head, one whose tail lies outside the window.
  return buffer_.size() / max_piece_bytes(static_cast<std::uint32_t>(buffer_.size())) + 2;
}

// CV-9
bool Receiver::well_formed(const stack::Record& r, std::uint32_t granules) const {
  const std::uint32_t at = index(r.position);
  if (at + granules > window_) return false;
  if (r.message_bytes > kMaxMessageBytes) return false;
  if (r.whole()) return true;
  const bool last = r.message_offset + r.bytes == r.message_bytes;
  if (!inside(r.message_offset, r.bytes, r.message_bytes)) return false;
  if (r.bytes == 0 || r.message_offset % kGranuleBytes != 0) return false;
  if (!last && r.bytes % kGranuleBytes != 0) return false;
  if (r.many_pieces) return true;
  // The whole message lies in one run, inside what was granted, and none of it was consumed.
  const std::uint32_t message_granules = granules_of(r.message_bytes);
  return r.message + r.message_offset / kGranuleBytes == r.position && r.message >= consumed_ &&
         static_cast<std::uint32_t>(r.message - consumed_) + message_granules <= window_ &&
         index(r.message) + message_granules <= window_;
}

Accepted Receiver::accept(const stack::Record& r, std::uint32_t granules) {
  // A gap ends at the ring's end. Before anything is concluded from where it begins.
  if (r.skip > 0 && (index(r.position) != 0 || r.skip > window_)) return Accepted::kMalformed;
  const Position start = r.position - r.skip;
  if (start < consumed_) return Accepted::kDuplicate;  // CV-6
  if (static_cast<std::uint32_t>(start - consumed_) + r.skip + granules > window_)
    return Accepted::kBeyondWindow;
  if (!well_formed(r, granules)) return Accepted::kMalformed;
  Unit& unit = units_[index(r.position)];
  // CV-6. Of a message of several parts that was consumed out of order only the first granule remembers it.
  const bool in_parts = !r.whole() && !r.many_pieces;
  if (unit.state != State::kMissing || (in_parts && units_[index(r.message)].state == State::kConsumed))
    return Accepted::kDuplicate;

  if (r.skip > 0) consume(start, r.skip);
  if (r.whole() && (!ordered_ || r.position == consumed_)) {  // nearly all: complete, and next in line
    unit.state = State::kArrived;
    ready_ = Ready::kInWindow;
    ready_at_ = r.position;
    ready_bytes_ = r.bytes;
    return Accepted::kNew;
  }

  if (!ordered_ && r.many_pieces) {
    const Part part = rejoin(r.message, r.message_bytes, r.message_offset, view(index(r.position), r.bytes));
    if (part == Part::kMalformed) return Accepted::kMalformed;
    if (part == Part::kComplete) ready_ = Ready::kRejoined;
    consume(r.position, granules);
    return Accepted::kNew;
  }

  if (in_parts) {
    const Part part = count_part(r);
    if (part == Part::kMalformed) return Accepted::kMalformed;
    if (part == Part::kComplete && !ordered_) {
      ready_ = Ready::kInWindow;
      ready_at_ = r.message;
      ready_bytes_ = r.message_bytes;
    }
  }
  unit.state = State::kArrived;
  unit.many_pieces = r.many_pieces;
  unit.bytes = r.bytes;
  unit.granules = granules;
  unit.message_offset = r.message_offset;
  unit.message = r.message;
  if (r.whole() || r.many_pieces) unit.message_bytes = r.message_bytes;
  return Accepted::kNew;
}

// CV-7
Receiver::Part Receiver::count_part(const stack::Record& r) {
  Unit& first = units_[index(r.message)];
  if (first.message_left == 0) {
    first.message_left = r.message_bytes;
    first.message_bytes = r.message_bytes;
  }
  if (first.message_bytes != r.message_bytes || first.message_left < r.bytes) return Part::kMalformed;
  first.message_left -= r.bytes;
  return first.message_left == 0 ? Part::kComplete : Part::kMore;
}

// CV-8
Receiver::Part Receiver::rejoin(Position message, std::uint32_t message_bytes, std::uint32_t offset,
                                ByteView part) {
  auto found = std::find_if(rejoining_.begin(), rejoining_.end(),
                            [&](const Rejoin& j) { return j.message == message; });
  if (found == rejoining_.end()) {
    if (rejoining_.size() == max_rejoining()) return Part::kMalformed;
    // The length is the peer's word: too much of it is malformed, not our end.
    std::unique_ptr<std::byte[]> room(new (std::nothrow) std::byte[message_bytes]);
    if (room == nullptr) return Part::kMalformed;
    rejoining_.push_back({message, message_bytes, message_bytes, std::move(room)});
    found = rejoining_.end() - 1;
  }
  if (found->message_bytes != message_bytes || found->left < part.size() ||
      !inside(offset, part.size(), message_bytes)) {
    return Part::kMalformed;
  }
  std::memcpy(found->bytes.get() + offset, part.data(), part.size());
  found->left -= static_cast<std::uint32_t>(part.size());
  if (found->left > 0) return Part::kMore;
  rejoined_ = std::move(*found);
  rejoining_.erase(found);
  return Part::kComplete;
}

std::optional<ByteView> Receiver::hand_over(Position position, std::uint32_t bytes) {
  handed_at_ = position;
  handed_granules_ = granules_of(bytes);
  return view(index(position), bytes);
}

void Receiver::finish_handed_over() {
  if (handed_granules_ == 0) return;
  const std::uint32_t granules = handed_granules_;
  handed_granules_ = 0;
  Unit* const first = &units_[index(handed_at_)];
  std::fill(first, first + granules, Unit{});
  consume(handed_at_, granules);
}

std::optional<ByteView> Receiver::next_of_others() {
  finish_handed_over();
  if (ready_ != Ready::kRejoined) rejoined_.bytes.reset();
  if (ready_ != Ready::kNone) {
    const Ready ready = std::exchange(ready_, Ready::kNone);
    if (ready == Ready::kInWindow) return hand_over(ready_at_, ready_bytes_);
    return ByteView{rejoined_.bytes.get(), rejoined_.message_bytes};
  }
  if (!ordered_) return std::nullopt;

  for (;;) {  // CV-4
    const std::uint32_t at = index(consumed_);
    const Unit unit = units_[at];
    if (unit.state != State::kArrived) return std::nullopt;
    if (unit.many_pieces) {
      const Part part = rejoin(unit.message, unit.message_bytes, unit.message_offset, view(at, unit.bytes));
      units_[at] = Unit{};
      consume(consumed_, unit.granules);
      if (part == Part::kComplete) return ByteView{rejoined_.bytes.get(), rejoined_.message_bytes};
    } else if (unit.message_left == 0) {
      return hand_over(consumed_, unit.message_bytes);
    } else {
      return std::nullopt;
    }
  }
}

void Receiver::consume(Position position, std::uint32_t granules) {
  if (position == consumed_) {
    consumed_ += granules;
    advance();
    return;
  }
  Unit& unit = units_[index(position)];
  unit = Unit{};
  unit.state = State::kConsumed;
  unit.granules = granules;
}

void Receiver::advance() {
  for (;;) {
    Unit& unit = units_[index(consumed_)];
    if (unit.state != State::kConsumed) return;
    consumed_ += unit.granules;
    unit = Unit{};
  }
}

std::optional<Position> Receiver::credit_due() const {
  if (static_cast<std::uint32_t>(consumed_ - returned_) * 4 < window_) return std::nullopt;
  return consumed_;
}

void Receiver::check() const {
  CHECK_GE(consumed_, returned_);
  CHECK_LE(handed_granules_, window_);
  CHECK_LE(rejoining_.size(), max_rejoining());
}

}  // namespace braid::convergence
