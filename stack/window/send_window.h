// The packets of a sub-connection that are in flight: which were acknowledged, which are lost, what may be
// sent.
//
//      acknowledged         in flight: acknowledged or not        may be sent
//   ------|-------------------------------------------|--------------------------|---->
//       base_                                       next_              base_ + window
//
// A packet is lost when one that left after it was acknowledged, and either three transmissions lie between
// them or it has had its time, a round trip and a quarter; when reordering was seen, only time counts (RFC
// 8985). The order of transmissions, not of sequence numbers, decides, so a retransmitted packet can be
// lost again without waiting for the retransmission timer. When that expires only the oldest packet goes
// again: what its acknowledgement brings tells which others are lost, and a peer that was merely not
// scheduled is not flooded. Long before it a probe leaves: if a tail was lost, no packet that left after it could
// tell. The probe has no records, and its answer tells which packets before it are lost.
//
// Memory for packets is taken as more of them are in flight, and given back when the owner says so: most
// sub-connections of a large machine never have many.
//
// Content is the payload type that the owner attaches to a packet. Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/seq.h"
#include "base/time.h"
#include "stack/timestamp.h"
#include "stack/window/receive_window.h"

namespace braid::stack {

// Why a packet was retransmitted.
enum class LossCause : std::uint8_t { kOvertaken, kTimeout };
inline constexpr std::size_t kLossCauses = 2;

// How many retransmissions were needed or spurious, as far as acknowledgements tell.
struct RetransmissionVerdicts {
  std::uint64_t spurious[kLossCauses] = {};  // by LossCause: an earlier transmission had arrived
  std::uint64_t needed = 0;                  // the peer answered the retransmission
  std::uint64_t spurious_by(LossCause cause) const { return spurious[static_cast<std::size_t>(cause)]; }
};

template <class Content, std::uint32_t kSlots = ReceiveWindow::kWindow>
class SendWindow {
 public:
  static constexpr std::uint32_t kCapacity = kSlots;
  static_assert(std::has_single_bit(kSlots));
  // How many transmissions later one must be acknowledged: RFC 5681's duplicate threshold.
  static constexpr std::uint32_t kReorderTolerance = 3;
  // Recoveries for which reordering is remembered (RFC 8985, 6.2).
  static constexpr std::uint32_t kReorderMemory = 16;

  // `first` is the number of the first packet; both ends agree on it.
  explicit SendWindow(std::uint32_t window_packets, Seq first = Seq())
      : window_(window_packets), base_(first), next_(first) {
    CHECK_GT(window_packets, 0u);
    CHECK_LE(window_packets, kCapacity);
  }

  // SW-7
  bool may_send() const { return static_cast<std::uint32_t>(next_ - base_) < window_; }
  bool idle() const { return base_ == next_; }
  // Packets from the oldest unacknowledged one on, and their bytes: what counts against a window.
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(next_ - base_); }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  // Packets that may still be on the network: what counts against congestion.
  std::uint32_t outstanding() const { return outstanding_; }
  Seq base() const { return base_; }
  Seq next() const { return next_; }

  // A new packet of `bytes` leaves. may_send() holds.
  Seq sent(Instant now, const Content& content, std::uint32_t bytes = 0) {
    CHECK(may_send());
    if (in_flight() == room()) [[unlikely]]
      grow();
    const Seq seq = next_;
    ++next_;
    Slot& s = slot(seq);
    s.content = content;
    s.sent = now;
    s.transmission = ++transmissions_;
    s.bytes = bytes;
    s.times = 1;
    s.state = State::kInFlight;
    ++outstanding_;
    in_flight_bytes_ += bytes;
    check();
    return seq;
  }

  // The oldest packet that must be retransmitted now, if any (SW-4); resent() must follow.
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
    ++outstanding_;
    s.state = State::kInFlight;
    s.sent = now;
    s.transmission = ++transmissions_;
    if (s.times < 0xff) ++s.times;
  }

  enum class Ack : std::uint8_t { kOld, kNothingNew, kProgress, kImpossible };
  // The times that are known when an acknowledgement arrives.
  struct Timing {
    Instant now;
    Instant echo_sent;    // when the packet that it answers left, by its timestamp
    Duration round_trip;  // smoothed; 0: none known, and no packet is lost by time
  };
  // An acknowledgement arrived: everything before `ack`, and what the words say. Calls acknowledged(content)
  // for each packet acknowledged for the first time, and detects losses (SW-3, SW-4). kOld: older than what
  // is known. kImpossible, and nothing happened: it speaks of what was never sent.
  template <class OnAcknowledged>
  Ack on_ack(Seq ack, const std::uint64_t* sack, std::uint8_t sack_words, const Timing& timing,
             OnAcknowledged&& acknowledged) {
    if (ack - base_ < 0) return Ack::kOld;
    if (ack == base_ && sack_words == 0) return Ack::kNothingNew;
    if (last_named(ack, sack, sack_words) - next_ >= 0 || ack - next_ > 0) return Ack::kImpossible;
    bool progress = false;
    std::uint64_t newest = newest_acknowledged_;
    const auto take = [&](Seq seq) {
      Slot& s = slot(seq);
      if (s.state == State::kAcknowledged) return;
      if (s.state == State::kLost)
        --lost_;
      else
        --outstanding_;
      if (s.times == 1) {
        if (s.transmission < newest_acknowledged_) reordering_ = kReorderMemory;
        newest = std::max(newest, s.transmission);
      } else {
        newest = std::max(newest, take_retransmitted(s, timing));
      }
      s.state = State::kAcknowledged;
      acknowledged(s.content);
      progress = true;
    };
    for (; base_ != ack; ++base_) {
      take(base_);
      in_flight_bytes_ -= slot(base_).bytes;
    }
    for (std::uint32_t w = 0; w < sack_words; ++w) {
      for (std::uint64_t bits = sack[w]; bits != 0; bits &= bits - 1) {
        take(ack + 1 + 64 * w + static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
    while (base_ != next_ && slot(base_).state == State::kAcknowledged) {
      in_flight_bytes_ -= slot(base_).bytes;
      ++base_;
    }
    if (newest > newest_acknowledged_) {
      newest_acknowledged_ = newest;
      detect_losses(timing.now, timing.round_trip);
    }
    check();
    return progress ? Ack::kProgress : Ack::kNothingNew;
  }

  // Called after on_ack() if any packet was ever retransmitted, with the same Timing's echo_sent. A retransmission
  // that is answered after its packet was acknowledged was spurious (SW-12).
  void on_echo(Instant echo_sent) {
    if (echo_sent != undecided_) return;
    ++verdicts_.spurious[static_cast<std::size_t>(undecided_cause_)];
    undecided_ = Instant::never();
  }

  // When the oldest packet in flight was last sent: what the retransmission timer runs from. None while a
  // lost one waits to be retransmitted, because the timer is about what follows that.
  std::optional<Instant> oldest_sent() const {
    if (idle() || lost_any()) return std::nullopt;
    return slot(base_).sent;
  }
  // The timer expired, so oldest_sent() is something: that packet is taken for lost (SW-5).
  void on_timeout() {
    CHECK(oldest_sent().has_value());
    mark_lost(slot(base_), LossCause::kTimeout);
  }
  // Packets that have left so far, each transmission counted.
  std::uint64_t transmissions() const { return transmissions_; }
  // A probe that left after so many transmissions was answered, and on_ack() has had the answer: what it does not
  // acknowledge of these is lost (SW-10). Returns how many packets that is.
  std::uint32_t on_probe_answered(std::uint64_t transmissions) {
    const std::uint32_t before = lost_;
    for (Seq s = base_; s != next_; ++s)
      if (Slot& p = slot(s); p.state == State::kInFlight && p.transmission <= transmissions)
        mark_lost(p, LossCause::kOvertaken);
    check();
    return lost_ - before;
  }
  // When a packet that was overtaken will have had its time; never() if none was. Then on_loss_timer().
  Instant loss_due() const { return loss_due_; }
  // True if a packet is lost now (SW-4).
  bool on_loss_timer(Instant now, Duration round_trip) {
    detect_losses(now, round_trip);
    return lost_any();
  }
  // This end did not run for `gap` until now, which says nothing about the peer: every timer expires that much
  // later. Time before the gap counts, else timers longer than the time between gaps would never expire.
  void postpone_timers(Instant now, Duration gap) {
    for (Seq s = base_; s != next_; ++s) slot(s).sent = std::min(now, slot(s).sent + gap);
    if (loss_due_ != Instant::never()) loss_due_ = now;  // to be computed anew
  }

  // The content of every packet not yet acknowledged, oldest first: what is left to do when a sub-connection ends.
  template <class F>
  void for_each_unacknowledged(F&& f) const {
    for (Seq s = base_; s != next_; ++s)
      if (slot(s).state != State::kAcknowledged) f(slot(s).content);
  }
  const Content& content(Seq seq) const { return slot(seq).content; }

  // The state that determines all later decisions, to compare windows: each packet from the oldest on.
  struct PacketView {
    Seq seq;
    Instant sent;
    std::uint64_t transmission;
    bool retransmitted;  // sent more than once
    bool lost;
    bool acknowledged;
  };
  template <class F>
  void for_each_packet(F&& f) const {
    for (Seq s = base_; s != next_; ++s) {
      const Slot& p = slot(s);
      f(PacketView{s, p.sent, p.transmission, p.times > 1, p.state == State::kLost,
                   p.state == State::kAcknowledged});
    }
  }
  // Frees the memory for packets, if none is in flight.
  void give_back() {
    if (!idle() || room() == 0) return;
    slots_ = {};
    histories_ = {};
    slot_mask_ = kNoSlots;
  }
  const RetransmissionVerdicts& verdicts() const { return verdicts_; }
  std::uint64_t newest_acknowledged() const { return newest_acknowledged_; }
  // Recoveries for which reordering is still remembered, and quarters of a round trip that it grants.
  std::uint32_t reordering() const { return reordering_; }
  std::int64_t reorder_window() const { return reorder_window_; }
  bool lost_any() const { return lost_ != 0; }

  void check() const {
    CHECK_LE(in_flight(), window_);
    CHECK_LE(lost_ + outstanding_, in_flight());
    CHECK(!idle() || in_flight_bytes_ == 0);
    // The oldest is never an acknowledged one: it is what the timer and the hole are about.
    CHECK(idle() || slot(base_).state != State::kAcknowledged);
  }

 private:
  enum class State : std::uint8_t { kInFlight, kLost, kAcknowledged };
  struct Slot {
    Content content{};
    Instant sent;
    std::uint64_t transmission = 0;
    std::uint32_t bytes = 0;
    std::uint8_t times = 0;  // that it was sent; 255: at least
    State state = State::kAcknowledged;
  };
  // Of a packet that was sent more than once; apart, so that all others cost no cache lines.
  struct History {
    Instant first_sent;
    LossCause latest_cause{};             // why it was sent the last time
    std::uint8_t lost_by[kLossCauses]{};  // how often, by cause; 255: at least
  };
  static constexpr std::int64_t kMaxReorderWindow = 4;  // quarters: one round trip more
  static constexpr std::uint32_t kNoSlots = ~std::uint32_t{0};
  static constexpr std::uint32_t kFirstRoom = 16;
  static constexpr std::uint32_t kGrowth = 4;

  // A packet that was sent more than once was acknowledged. Returns the transmission that the echo tells of; 0: it
  // tells of an earlier one.
  [[gnu::noinline]] std::uint64_t take_retransmitted(const Slot& s, const Timing& timing) {
    judge(s, timing.echo_sent);
    // Sooner than an answer to the second can be here: the first was not lost, only late.
    if (s.state == State::kInFlight && timing.now - s.sent < timing.round_trip / 2) {
      reordering_ = kReorderMemory;
      reorder_window_ = std::min(reorder_window_ + 1, kMaxReorderWindow);
    }
    return timing.echo_sent >= s.sent ? s.transmission : 0;
  }
  // A retransmitted packet was acknowledged: the echo tells which transmission arrived (SW-12), unless it is of
  // an earlier packet, because one acknowledgement answers several.
  void judge(const Slot& s, Instant echo_sent) {
    if (s.state == State::kLost) return;  // it was not retransmitted yet
    if (echo_sent >= s.sent) {
      ++verdicts_.needed;
    } else if (echo_sent == end_of_tick(history(s).first_sent)) {
      for (std::size_t cause = 0; cause < kLossCauses; ++cause)
        verdicts_.spurious[cause] += history(s).lost_by[cause];
    } else {
      undecided_ = end_of_tick(s.sent);
      undecided_cause_ = history(s).latest_cause;
    }
  }
  [[gnu::noinline]] void mark_lost(Slot& s, LossCause cause) {
    s.state = State::kLost;
    History& h = history(s);
    if (s.times == 1) h = {s.sent, cause, {}};
    h.latest_cause = cause;
    if (std::uint8_t& times = h.lost_by[static_cast<std::size_t>(cause)]; times < 0xff) ++times;
    ++lost_;
    --outstanding_;
  }
  // The last packet that the words name; the one before `ack` if they name none.
  static Seq last_named(Seq ack, const std::uint64_t* sack, std::uint32_t words) {
    while (words > 0 && sack[words - 1] == 0) --words;
    if (words == 0) return ack - 1;
    return ack + 64 * words - static_cast<std::uint32_t>(std::countl_zero(sack[words - 1]));
  }
  [[gnu::always_inline]] void detect_losses(Instant now, Duration round_trip) {
    loss_due_ = Instant::never();
    const Duration its_time = round_trip + round_trip * reorder_window_ / 4;
    const std::uint32_t lost_before = lost_;
    for (Seq s = base_; s != next_; ++s) {
      Slot& candidate = slot(s);
      const bool overtaken = candidate.transmission < newest_acknowledged_;
      if (overtaken && candidate.state == State::kInFlight) {
        const bool by_far = candidate.transmission + kReorderTolerance <= newest_acknowledged_;
        const bool by_time = round_trip > Duration() && candidate.sent + its_time <= now;
        if (by_time || (by_far && reordering_ == 0))
          mark_lost(candidate, LossCause::kOvertaken);
        else if (round_trip > Duration())
          loss_due_ = earlier(loss_due_, candidate.sent + its_time);
      }
      // All packets after one that was sent only once were sent later than it.
      if (!overtaken && candidate.times == 1) break;
    }
    if (lost_ != lost_before && reordering_ > 0 && --reordering_ == 0) reorder_window_ = 1;
  }
  std::uint32_t room() const { return slot_mask_ + 1; }
  Slot& slot(Seq seq) { return slots_[seq.value() & slot_mask_]; }
  const Slot& slot(Seq seq) const { return slots_[seq.value() & slot_mask_]; }
  History& history(const Slot& s) {
    if (histories_.empty()) histories_.resize(room());
    return histories_[static_cast<std::size_t>(&s - slots_.data())];
  }
  [[gnu::noinline]] void grow() {
    const std::uint32_t more = std::min(kCapacity, room() == 0 ? kFirstRoom : room() * kGrowth);
    std::vector<Slot> slots(more);
    std::vector<History> histories(histories_.empty() ? 0 : more);
    for (Seq s = base_; s != next_; ++s) {
      const std::size_t to = s.value() & (more - 1);
      if (!histories.empty()) histories[to] = history(slot(s));
      slots[to] = slot(s);
    }
    slots_ = std::move(slots);
    histories_ = std::move(histories);
    slot_mask_ = more - 1;
  }

  std::uint32_t window_;
  Seq base_;
  Seq next_;
  std::uint64_t transmissions_ = 0;        // counts every packet that leaves, again or not
  std::uint64_t newest_acknowledged_ = 0;  // the latest transmission known to have arrived
  std::uint32_t lost_ = 0;
  std::uint32_t outstanding_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint32_t reordering_ = 0;     // it was seen: for so many more recoveries only time tells a loss
  std::int64_t reorder_window_ = 1;  // quarters of a round trip that an overtaken packet may be late
  Instant loss_due_ = Instant::never();
  RetransmissionVerdicts verdicts_;
  // The last retransmission whose packet was acknowledged while nothing told which transmission had arrived: an
  // answer to it would say that it was spurious. As an echo; never(): none.
  Instant undecided_ = Instant::never();
  LossCause undecided_cause_{};
  std::uint32_t slot_mask_ = kNoSlots;
  std::vector<Slot> slots_;  // by the last bits of packets' numbers; a power of two, none since give_back()
  std::vector<History> histories_;  // beside slots_; empty until a packet was lost
};

}  // namespace braid::stack
