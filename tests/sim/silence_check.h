// Checks that the peers of a stopped node give it up in time. Time in which a peer itself was not scheduled does
// not count, because the peer cannot judge then.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"

namespace braid::sim {

class SilenceCheck {
 public:
  // `limit`: a peer must have given up a node that is silent for longer.
  SilenceCheck(unsigned nodes, Duration limit) : limit_(limit), gaps_at_stop_(nodes) {}

  // The node is silent from now on, and no peer is expected to give it up yet.
  void begin(unsigned node, Instant now) {
    stopped_ = node;
    stopped_at_ = now;
    for (std::vector<Duration>& gaps : gaps_at_stop_) gaps.clear();
  }
  // The peer, which has reached the node, must give it up. `gaps`: the sum of the scheduling gaps of each of the
  // peer's proxies until now; at least one proxy.
  void expect(unsigned peer, std::vector<Duration> gaps) { gaps_at_stop_[peer] = std::move(gaps); }
  void end() { stopped_at_ = Instant::never(); }

  bool is_expected(unsigned peer) const {
    return stopped_at_ != Instant::never() && !gaps_at_stop_[peer].empty();
  }
  unsigned stopped() const { return stopped_; }

  // Text for the user if the peer is too late; empty: it is not. `gaps` as above. `given_up`: the peer gives the
  // node up now, and nothing more is expected of it.
  std::string check(unsigned peer, Instant now, std::span<const Duration> gaps, bool given_up) {
    if (!is_expected(peer)) return {};
    Duration longest;
    for (std::size_t p = 0; p < gaps.size(); ++p)
      longest = std::max(longest, gaps[p] - gaps_at_stop_[peer][p]);
    if (given_up) gaps_at_stop_[peer].clear();
    const Duration silence = now - stopped_at_ - longest;
    if (silence <= limit_) return {};
    return fmt::format(
        "cluster {} {} cluster {}, which was silent for {:.0f} ms, {:.0f} ms of scheduling gaps aside", peer,
        given_up ? "gave up only now" : "has not given up", stopped_, silence.ms(), longest.ms());
  }

 private:
  const Duration limit_;
  unsigned stopped_ = 0;
  Instant stopped_at_ = Instant::never();            // never: no node is stopped
  std::vector<std::vector<Duration>> gaps_at_stop_;  // by peer, then proxy; empty: nothing is expected of it
};

}  // namespace braid::sim
