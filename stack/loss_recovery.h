// The sending half of a sub-connection, packet by packet: what is in flight, which of it is lost, when the next
// may leave, and the timers that find a loss that nothing else tells of.
//
//   acknowledgements ──► SendWindow (lost by order or by time) ──► next_lost()
//                   ├──► RttEstimator ──► retransmission timeout (SW-5), tail probe (SW-10)
//                   └──► Congestion (window and pacing) ──► may_send()
//
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/mutant.h"
#include "base/time.h"
#include "stack/message_queue.h"
#include "stack/sub_connection_config.h"
#include "stack/timestamp.h"
#include "stack/window/congestion.h"
#include "stack/window/rtt.h"

namespace braid::stack {

class LossRecovery {
 public:
  explicit LossRecovery(const SubConnectionConfig& config)
      : ack_delay_(config.ack_delay),
        peer_death_(config.peer_death),
        window_(config.window_packets, config.first_seq),
        rtt_(config.min_rto, config.max_rto),
        congestion_(config.congestion, config.window_packets) {}

  const PacketWindow& window() const { return window_; }
  const RttEstimator& rtt() const { return rtt_; }
  const Congestion& congestion() const { return congestion_; }
  bool idle() const { return window_.idle(); }
  bool lost_any() const { return window_.lost_any(); }
  bool may_send(Instant now) const {
    return window_.may_send() && congestion_.may_send(now, window_.outstanding());
  }

  // A new packet left; `asked`: it asks for its acknowledgement at once.
  void sent(Instant now, const PacketContent& content, std::uint32_t bytes, bool asked) {
    window_.sent(now, content, bytes);
    left(now, asked);
  }
  void resent(Instant now, Seq seq) {
    window_.resent(now, seq);
    retransmitted_any_ = true;
    left(now, true);
  }

  using Ack = PacketWindow::Ack;
  struct AckOutcome {
    Ack ack;
    bool found_loss = false;      // packets are lost, and none was before
    bool spurious_probe = false;  // the tail probe is answered, and what was sent before it had arrived
  };
  // An acknowledgement arrived, which waited for `unseen` before it was looked at. Calls acknowledged(content)
  // for each packet that it acknowledges for the first time. kImpossible, and nothing happened: it
  // acknowledges what was never sent.
  template <class F>
  AckOutcome on_ack(Instant now, const PacketHeader& h, Duration unseen, F&& acknowledged);
  // The round trip that the packet's echo tells of; nullopt: none that means anything.
  std::optional<Duration> round_trip(Instant now, const PacketHeader& h) const {
    if (h.timestamp_echo == 0) return std::nullopt;
    const Duration rtt = since_timestamp(now, h.timestamp_echo);
    if (rtt >= peer_death_) return std::nullopt;  // no packet is in flight so long
    return rtt;
  }
  void on_round_trip(Duration rtt) { rtt_.on_sample(rtt); }

  // The timers that have expired. Packets may be lost now, or a probe wanted.
  struct Expired {
    bool loss = false;  // overtaken packets had their time (SW-4)
    bool timeout = false;
    bool tail_probe = false;
  };
  Expired on_timer(Instant now);
  // A packet without records should leave that asks for its acknowledgement (SW-10).
  bool probe_wanted() const { return tail_.wanted; }
  void probed(Instant now) {
    tail_.wanted = false;
    tail_.left = tail_.timer_from = now;
    tail_.transmissions = window_.transmissions();
  }
  // The earliest of its timers, pacing aside; never() if nothing is in flight.
  Instant next_deadline() const;
  // A bound of it after a packet left: cheap, and early at most.
  Instant deadline_after_sending(Instant now) const { return now + std::min(rtt_.probe_wait(), rtt_.rto()); }
  // This end did not run for `gap` until now: that time does not count for any timer.
  void on_scheduling_gap(Instant now, Duration gap) {
    window_.postpone_timers(now, gap);
    data_sent_ = std::min(now, data_sent_ + gap);
    tail_.timer_from = std::min(now, tail_.timer_from + gap);
  }
  // Frees memory that an end without packets in flight does not need.
  void give_back() { window_.give_back(); }
  // Packets take another way from now on: what was learned about the old one is forgotten (RFC 9000, 9.4).
  void start_path(const SubConnectionConfig& config) {
    rtt_ = RttEstimator(config.min_rto, config.max_rto);
    congestion_ = Congestion(config.congestion, config.window_packets);
  }
  void check() const {
    window_.check();
    congestion_.check();
  }

 private:
  void left(Instant now, bool asked) {
    congestion_.sent(now);
    data_sent_ = now;
    tail_asked_ = asked;
  }
  // An acknowledgement was taken: were retransmissions needed (SW-12)?
  void learn(Instant echo_sent);
  // Of the answer to a tail probe, or to what left later.
  bool answers_probe(Instant echo_sent) const {
    return tail_.left != Instant::never() && echo_sent >= end_of_tick(tail_.left);
  }
  // When the packet that left at `oldest` and is the oldest is lost (SW-5).
  Instant timeout_due(Instant oldest) const;
  // The tail probe is answered. True: it found no loss.
  bool on_probe_answered();
  // When a probe leaves unless word of the last packet comes first; never() if one has left, or nothing is in
  // flight.
  Instant tail_probe_due() const;

  Duration ack_delay_;
  Duration peer_death_;
  PacketWindow window_;
  RttEstimator rtt_;
  Congestion congestion_;
  Instant data_sent_;        // the last packet with records left
  Instant progress_;         // something was acknowledged for the first time
  bool tail_asked_ = false;  // the last packet asks for its acknowledgement at once
  struct TailProbe {
    bool expired = false;             // its timer, since the last progress
    bool wanted = false;              // it is to leave
    Instant left = Instant::never();  // it is not answered yet
    Instant timer_from;               // when it left, without time in which this end did not run
    std::uint64_t transmissions = 0;  // that had left before it
  };
  TailProbe tail_;
  bool retransmitted_any_ = false;
  std::uint64_t needed_ = 0;  // retransmissions that the timers have learned of
};

template <class F>
LossRecovery::AckOutcome LossRecovery::on_ack(Instant now, const PacketHeader& h, Duration unseen,
                                              F&& acknowledged) {
  const std::optional<Duration> rtt = round_trip(now, h);
  // Packets that were sent in the same tick do not count as sent after it.
  const Instant echo_sent = rtt ? end_of_tick(now) - *rtt : Instant();
  const bool had_lost = window_.lost_any();
  std::uint32_t packets = 0;
  const Ack ack = window_.on_ack(h.ack, h.sack, h.sack_words, {now, echo_sent, rtt_.srtt()},
                                 [&](const PacketContent& content) {
                                   ++packets;
                                   acknowledged(content);
                                 });
  if (ack == Ack::kImpossible) return {ack};
  if (retransmitted_any_) [[unlikely]]
    learn(echo_sent);
  if (ack == Ack::kProgress) {
    progress_ = now;
    tail_.expired = tail_.wanted = false;
  }
  const bool spurious_probe = rtt && answers_probe(echo_sent) && on_probe_answered();
  if (rtt) {
    // Time that the peer held the acknowledgement on purpose is no part of the round trip. Time that it did not
    // run is, for the timers, but not for congestion control (SW-6, SW-11).
    const Duration held = held_duration(h.ack_held);
    const Duration path = *rtt - std::min(held, ack_delay_);
    rtt_.on_sample(path);
    if (congestion_.enabled())
      congestion_.on_ack(now, path, h.ack_held == kHeldForLong ? Duration() : *rtt - held - unseen, packets);
  }
  const bool found_loss = !had_lost && window_.lost_any();
  if (found_loss) congestion_.on_loss(now);
  return {ack, found_loss, spurious_probe};
}

}  // namespace braid::stack
