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
        probe_interval_(std::min(path_death_ / kProbesBeforeDeath, kLongestProbeInterval)),
        quiet_probe_interval_(std::min(quiet_path_death_ / kProbesBeforeDeath, kLongestProbeInterval)),
        probes_first_(config.local < config.remote),
        last_received_(now),
        path_silent_from_(now),
        last_sent_(now),
        last_record_(now) {}

  // A packet of the peer arrived.
  void received(Instant now) { last_received_ = path_silent_from_ = now; }
  // A packet with records left or arrived, or a hello left, or records wait for the peer's window.
  void active(Instant now) {
    last_record_ = now;
    if (!quiet_) [[likely]]
      return;
    quiet_ = false;
    path_silent_from_ = now;
  }
  // Since judge() was called last.
  bool quiet() const { return quiet_; }
  // This end did not run for `gap` until now. That time is no silence of the peer; the silence before it is, else a
  // host with a gap now and then would never find that a peer is dead.
  void on_scheduling_gap(Instant now, Duration gap) {
    const auto later = [&](Instant& when) { when = std::min(now, when + gap); };
    later(last_received_);
    later(path_silent_from_);
    later(last_record_);
    if (mutant(Mutant::kForgiveAllSilence)) last_received_ = path_silent_from_ = now;
  }
  void sent(Instant now) { last_sent_ = now; }
  // The path works: a packet arrived that only a peer that receives ours sends. Also when a connection ends.
  void set_path_alive() { path_dead_ = false; }
  bool path_dead() const { return path_dead_; }
  // It was silent for so long that the path is dead, whether judge() was called or not.
  bool silent(Instant now) const { return now >= path_death_due(); }

  // Also decides whether this end is quiet. Call it when judgement_due() or probe_due() has come.
  Verdict judge(Instant now) {
    if (now - last_received_ >= peer_death_) return Verdict::kPeerDied;
    const bool path_died = !path_dead_ && silent(now);
    quiet_ = now - last_record_ >= path_death_ * kQuietAfter;
    if (!path_died) return Verdict::kUnchanged;
    path_dead_ = true;
    return Verdict::kPathDied;
  }
  Instant judgement_due() const { return path_dead_ ? last_received_ + peer_death_ : path_death_due(); }

  // Of an end that is not quiet.
  Duration probe_interval() const { return probe_interval_; }
  Instant probe_due() const {
    if (!quiet_) [[likely]]
      return last_sent_ + probe_interval_;
    const Instant due = last_sent_ + (probes_first_ ? quiet_probe_interval_ : quiet_probe_interval_ * 5 / 4);
    return Instant::from_ns(due.ns() - due.ns() % (quiet_probe_interval_ / 4).ns());
  }

 private:
  Instant path_death_due() const { return path_silent_from_ + (quiet_ ? quiet_path_death_ : path_death_); }

  Duration path_death_;
  Duration quiet_path_death_;
  Duration peer_death_;
  Duration probe_interval_;
  Duration quiet_probe_interval_;
  bool probes_first_;  // of two quiet ends
  bool quiet_ = false;
  bool path_dead_ = false;
  Instant last_received_;
  Instant path_silent_from_;  // a packet arrived last, or the first record after a quiet time left
  Instant last_sent_;
  Instant last_record_;
};

}  // namespace braid::stack
