// Whether path and peer are alive, from when the last packet was received and sent (SC-8).
//
//   nothing received for path_death ──► the path is dead;  for peer_death ──► the peer is lost
//   nothing sent for a quarter of path_death ──► probe, so that the peer does not judge so of us
//   nothing sent for 15 s ──► probe, so that no NAT on the way forgets us
//
// An end that has sent and received no records for four path_deaths is *quiet*. It only has to know that its peer lives, so
// it probes eight times in peer_death, and its path is dead after half of peer_death; or path_death after the next
// record, from which on it probes more often again. The peer may be quiet or not: it answers every probe. Of two quiet ends
// the second (by cluster and proxy) waits a quarter longer, so that mostly only the first probes. Quiet ends of a stack
// probe together, at most a quarter of the time too early, so that their proxy is woken seldom.
//
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>

#include "base/mutant.h"
#include "base/time.h"
#include "stack/sub_connection_config.h"

namespace braid::stack {

class Liveness {
 public:
  enum class Verdict { kUnchanged, kPathDied, kPeerDied };
  // Several probes before the judgement, of a path and of a quiet one.
  static constexpr int kProbesBeforeDeath = 4;
  static constexpr int kQuietAfter = 4;  // path_deaths without records
  // Some NATs forget after 30 s (RFC 4787, 4.3, has them remember for 2 minutes), and a probe may be lost.
  static constexpr Duration kLongestProbeInterval = 15_s;

  Liveness(const SubConnectionConfig& config, Instant now)
      : path_death_(config.path_death),
        quiet_path_death_(std::max(config.path_death, config.peer_death / 2)),
        peer_death_(config.peer_death),
        probed_together_(std::min(quiet_path_death_ / kProbesBeforeDeath, kLongestProbeInterval) / 4),
        quiet_probe_interval_(quiet_path_death_ / kProbesBeforeDeath *
                              (config.local < config.remote ? 4 : 5) / 4),
        last_received_(now),
        last_sent_(now),
        last_record_(now),
        began_(now) {}

  // A packet of the peer arrived.
  void received(Instant now) { last_received_ = now; }
  // A packet with records left or arrived, or a hello left, or records wait for the peer's window.
  void active(Instant now) {
    if (quiet(now)) began_ = now;
    last_record_ = now;
  }
  bool quiet(Instant now) const { return now >= quiet_from(); }
  // This end did not run for `gap` until now. That time is no silence of the peer; the silence before it is, else a
  // host with a gap now and then would never find that a peer is dead.
  void on_scheduling_gap(Instant now, Duration gap) {
    last_received_ = mutant(Mutant::kForgiveAllSilence) ? now : std::min(now, last_received_ + gap);
    last_record_ = std::min(now, last_record_ + gap);
    began_ = std::min(now, began_ + gap);
  }
  void sent(Instant now) { last_sent_ = now; }
  // The path works: a packet arrived that only a peer that receives ours sends. Also when a connection ends.
  void set_path_alive() { path_dead_ = false; }
  bool path_dead() const { return path_dead_; }
  // It was silent for so long that the path is dead, whether judge() was called or not.
  bool silent(Instant now) const { return now >= path_death_due(); }

  Verdict judge(Instant now) {
    if (now - last_received_ >= peer_death_) return Verdict::kPeerDied;
    if (path_dead_ || !silent(now)) return Verdict::kUnchanged;
    path_dead_ = true;
    return Verdict::kPathDied;
  }
  Instant judgement_due() const { return path_dead_ ? last_received_ + peer_death_ : path_death_due(); }

  // While there are records.
  Duration probe_interval() const {
    return std::min(path_death_ / kProbesBeforeDeath, kLongestProbeInterval);
  }
  Instant probe_due() const {
    const Instant due = last_sent_ + probe_interval();
    if (due < quiet_from()) return due;
    const Instant quiet_due = last_sent_ + std::min(quiet_probe_interval_, kLongestProbeInterval);
    return Instant::from_ns(quiet_due.ns() - quiet_due.ns() % probed_together_.ns());
  }

 private:
  Instant quiet_from() const { return last_record_ + path_death_ * kQuietAfter; }
  Instant path_death_due() const {
    const Instant due = std::max(last_received_, began_) + path_death_;
    return due < quiet_from() ? due : last_received_ + quiet_path_death_;
  }

  Duration path_death_;
  Duration quiet_path_death_;
  Duration peer_death_;
  Duration probed_together_;
  Duration quiet_probe_interval_;
  Instant last_received_;
  Instant last_sent_;
  Instant last_record_;
  Instant began_;  // the first record after a quiet time: silence before it says nothing of the path
  bool path_dead_ = false;
};

}  // namespace braid::stack
