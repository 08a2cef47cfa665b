// The packets of a sub-connection that are under way: which were acknowledged, which are lost, what may be
// sent.
//
//      acknowledged         under way: acknowledged or not        may be sent
//   ------|-------------------------------------------|--------------------------|---->
//       base_                                       next_              base_ + window
//
// A packet is lost when one that left three transmissions after it was acknowledged, or when the oldest one's
// timer expired. The order of transmissions, not of sequence numbers, decides, so a packet that was sent
// again can be lost again without waiting for a timer (after RFC 8985, which uses time for it). An expired
// timer sends only the oldest packet again: what its acknowledgement brings tells which others are lost, and
// a peer that was merely not scheduled is not flooded.
//
// Content is the payload type that the owner attaches to a packet. Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/seq.h"
#include "base/time.h"
#include "stack/window/receive_window.h"

namespace braid::stack {

template <class Content>
class SendWindow {
 public:
  static constexpr std::uint32_t kCapacity = ReceiveWindow::kWindow;
  // How many transmissions later one must be acknowledged: RFC 5681's duplicate threshold.
  static constexpr std::uint32_t kReorderTolerance = 3;

  // `first` is the number of the first packet; both ends agree on it.
  explicit SendWindow(std::uint32_t window_packets, Seq first = Seq())
      : window_(window_packets), base_(first), next_(first) {
    CHECK_GT(window_packets, 0u);
    CHECK_LE(window_packets, kCapacity);
  }

  // SW-7
  bool may_send() const { return static_cast<std::uint32_t>(next_ - base_) < window_; }
  bool idle() const { return base_ == next_; }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(next_ - base_); }
  Seq base() const { return base_; }
  Seq next() const { return next_; }

  // A new packet leaves. may_send() holds.
  Seq sent(Instant now, const Content& content) {
    CHECK(may_send());
    const Seq seq = next_;
    ++next_;
    slot(seq) = {content, now, ++transmissions_, 1, State::kInFlight};
    check();
    return seq;
  }

  // The oldest packet that must be sent again now, if any (SW-4); resent() must follow.
  std::optional<Seq> next_lost() const {
    if (lost_ == 0) return std::nullopt;
    for (Seq s = base_; s != next_; ++s)
      if (slot(s).state == State::kLost) return s;
    return std::nullopt;
  }
  void resent(Instant now, Seq seq) {
    Slot& s = slot(seq);
    CHECK(s.state == State::kLost);
    --lost_;
    s.state = State::kInFlight;
    s.sent = now;
    s.transmission = ++transmissions_;
    ++s.times;
  }

  enum class Ack : std::uint8_t { kNothingNew, kProgress, kImpossible };
  // An acknowledgement arrived: everything before `ack`, and what the words say. `echo_sent` is when the
  // packet that it answers left (by its timestamp). Calls acknowledged(content) for each packet acknowledged
  // for the first time, and detects losses (SW-3, SW-4). kImpossible, and nothing happened: it speaks of what
  // was never sent.
  template <class OnAcknowledged>
  Ack on_ack(Seq ack, const std::uint64_t* sack, std::uint8_t sack_words, Instant echo_sent,
             OnAcknowledged&& acknowledged) {
    if (ack - base_ < 0) return Ack::kNothingNew;  // older than what we know
    if (ack == base_ && sack_words == 0) return Ack::kNothingNew;
    if (last_named(ack, sack, sack_words) - next_ >= 0 || ack - next_ > 0) return Ack::kImpossible;
    bool progress = false;
    std::uint64_t newest = newest_acknowledged_;
    const auto take = [&](Seq seq) {
      Slot& s = slot(seq);
      if (s.state == State::kAcknowledged) return;
      if (s.state == State::kLost) --lost_;
      // Of a packet that was sent twice, the echo tells which transmission arrived.
      if (s.times == 1 || echo_sent >= s.sent) newest = std::max(newest, s.transmission);
      s.state = State::kAcknowledged;
      acknowledged(s.content);
      progress = true;
    };
    for (; base_ != ack; ++base_) take(base_);
    for (std::uint32_t w = 0; w < sack_words; ++w) {
      for (std::uint64_t bits = sack[w]; bits != 0; bits &= bits - 1) {
        take(ack + 1 + 64 * w + static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
    while (base_ != next_ && slot(base_).state == State::kAcknowledged) ++base_;
    if (newest > newest_acknowledged_) {
      newest_acknowledged_ = newest;
      detect_losses();
    }
    check();
    return progress ? Ack::kProgress : Ack::kNothingNew;
  }

  // When the oldest packet under way was last sent: what the retransmission timer runs from. None while a
  // lost one waits to be sent again, because the timer is about what follows that.
  std::optional<Instant> oldest_sent() const {
    if (idle() || lost_any()) return std::nullopt;
    return slot(base_).sent;
  }
  // The timer expired, so oldest_sent() is something: that packet is taken for lost (SW-5).
  void on_timeout() {
    CHECK(oldest_sent().has_value());
    mark_lost(slot(base_));
  }
  // Time in which we ourselves were not running says nothing about the peer.
  void restart_timers(Instant now) {
    for (Seq s = base_; s != next_; ++s) slot(s).sent = now;
  }

  // The content of every packet not yet acknowledged, oldest first: what a fallen sub-connection still owes.
  template <class F>
  void for_each_unacknowledged(F&& f) const {
    for (Seq s = base_; s != next_; ++s)
      if (slot(s).state != State::kAcknowledged) f(slot(s).content);
  }
  const Content& content(Seq seq) const { return slot(seq).content; }
  bool lost_any() const { return lost_ != 0; }

  void check() const {
    CHECK_LE(in_flight(), window_);
    CHECK_LE(lost_, in_flight());
    // The oldest is never an acknowledged one: it is what the timer and the hole are about.
    CHECK(idle() || slot(base_).state != State::kAcknowledged);
  }

 private:
  enum class State : std::uint8_t { kInFlight, kLost, kAcknowledged };
  struct Slot {
    Content content{};
    Instant sent;
    std::uint64_t transmission = 0;
    std::uint32_t times = 0;
    State state = State::kAcknowledged;
  };

  void mark_lost(Slot& s) {
    s.state = State::kLost;
    ++lost_;
  }
  // The last packet that the words name; the one before `ack` if they name none.
  static Seq last_named(Seq ack, const std::uint64_t* sack, std::uint32_t words) {
    while (words > 0 && sack[words - 1] == 0) --words;
    if (words == 0) return ack - 1;
    return ack + 64 * words - static_cast<std::uint32_t>(std::countl_zero(sack[words - 1]));
  }
  void detect_losses() {
    for (Seq s = base_; s != next_; ++s) {
      Slot& candidate = slot(s);
      const bool overtaken = candidate.transmission + kReorderTolerance <= newest_acknowledged_;
      if (overtaken && candidate.state == State::kInFlight) mark_lost(candidate);
      // Whatever follows one that was sent once was sent later than it.
      if (!overtaken && candidate.times == 1) return;
    }
  }
  Slot& slot(Seq seq) { return slots_[seq.value() % kCapacity]; }
  const Slot& slot(Seq seq) const { return slots_[seq.value() % kCapacity]; }

  std::uint32_t window_;
  Seq base_;
  Seq next_;
  std::uint64_t transmissions_ = 0;        // counts every packet that leaves, again or not
  std::uint64_t newest_acknowledged_ = 0;  // the latest transmission known to have arrived
  std::uint32_t lost_ = 0;
  Slot slots_[kCapacity];
};

}  // namespace braid::stack
