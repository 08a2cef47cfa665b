// Whether path and peer are alive, from when the last packet was received and sent (SC-8).
//
//   nothing received for path_death ──► the path is dead;  for peer_death ──► the peer is lost
//   nothing sent for a quarter of path_death ──► probe, so that the peer does not judge so of us
//   nothing sent for 15 s ──► probe, so that no NAT on the way forgets us
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
  // Of path_death: several probes before the judgement.
  static constexpr int kProbesBeforeDeath = 4;
  // Some NATs forget after 30 s (RFC 4787, 4.3, has them remember for 2 minutes), and a probe may be lost.
  static constexpr Duration kLongestProbeInterval = 15_s;

  Liveness(const SubConnectionConfig& config, Instant now)
      : path_death_(config.path_death),
        peer_death_(config.peer_death),
        last_received_(now),
        last_sent_(now) {}

  // A packet of the peer arrived.
  void received(Instant now) { last_received_ = now; }
  // This end did not run for `gap` until now. That time is no silence of the peer; the silence before it is, else a
  // host with a gap now and then would never find that a peer is dead.
  void on_scheduling_gap(Instant now, Duration gap) {
    last_received_ = mutant(Mutant::kForgiveAllSilence) ? now : std::min(now, last_received_ + gap);
  }
  void sent(Instant now) { last_sent_ = now; }
  // The path works: a packet arrived that only a peer that receives ours sends. Also when a connection ends.
  void set_path_alive() { path_dead_ = false; }
  bool path_dead() const { return path_dead_; }
  // Nothing was received for path_death, whether judge() was called or not.
  bool silent(Instant now) const { return now - last_received_ >= path_death_; }

  Verdict judge(Instant now) {
    const Duration silence = now - last_received_;
    if (silence >= peer_death_) return Verdict::kPeerDied;
    if (path_dead_ || silence < path_death_) return Verdict::kUnchanged;
    path_dead_ = true;
    return Verdict::kPathDied;
  }
  Instant judgement_due() const { return last_received_ + (path_dead_ ? peer_death_ : path_death_); }

  Duration probe_interval() const {
    return std::min(path_death_ / kProbesBeforeDeath, kLongestProbeInterval);
  }
  Instant probe_due() const { return last_sent_ + probe_interval(); }

 private:
  Duration path_death_;
  Duration peer_death_;
  Instant last_received_;
  Instant last_sent_;
  bool path_dead_ = false;
};

}  // namespace braid::stack
