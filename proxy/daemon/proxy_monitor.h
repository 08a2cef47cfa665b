// Which proxies of a node run, and what has to happen before a stalled one is used again (FO-5, FO-6).
//
//              no heartbeat for the path death time, while another has one
//   running ─────────────────────────────────────────────────────────────► fenced
//      ▲                                                                      │  the others dropped what was its
//      │   settled: nothing that it sent before can arrive any more: may_settle() ◄──┤
//      └── returned: its thread goes on: may_return() ◄───────────────────────┘
//
// Either may come first: one that has returned and is not settled takes what peers send, and nothing of clients.
//
// Pure: heartbeats and time come in, answers go out; the node carries out what they mean. Owned by its control
// plane. Where nobody takes idle turns (simulation), switch it off: a heartbeat that stands says nothing there.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/time.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class ProxyMonitor {
 public:
  struct Config {
    unsigned proxies = 1;
    Duration patience = 500_ms;  // without a heartbeat, before a proxy is fenced
    bool enabled = true;         // false: is_stalled() is never true
  };
  // A control plane that looks so much later than the last time was itself held up.
  static constexpr Duration kControlGap = 50_ms;
  ProxyMonitor(const Config& config, Instant now);

  unsigned proxies() const { return static_cast<unsigned>(proxies_.size()); }
  bool running(unsigned proxy) const { return !proxies_[proxy].fenced; }
  // Running, and may take what clients send.
  bool serves(unsigned proxy) const { return running(proxy) && !proxies_[proxy].unsettled; }
  // What it sent before it stalled may still arrive: its lanes wait.
  bool unsettled(unsigned proxy) const { return proxies_[proxy].unsettled; }

  // The heartbeats of all proxies at this moment. False: the control plane itself was held up before, so what
  // it did not see meanwhile says nothing.
  [[nodiscard]] bool observe(Instant now, std::span<const std::uint64_t> heartbeats);
  Instant observed() const { return observed_; }
  // As of the last observe(): it had no heartbeat for too long, and another had. If none has, the host is
  // stalled, or no proxy is left that could take over.
  bool is_stalled(unsigned proxy) const;

  // FO-5: the others go on without it.
  void fence(unsigned proxy);
  // How often each was fenced.
  ProxyGenerations generations() const;
  // ProxyForgotten: `by` has dropped what it had of it.
  void forgotten(unsigned proxy, unsigned by) { proxies_[proxy].awaited.erase(by); }
  // Somebody may still have something of a fenced proxy.
  bool awaits_anybody() const;
  // ProxyResumed: the fenced proxy's thread goes on.
  void resumed(unsigned proxy) { proxies_[proxy].resumed = true; }

  // Nobody in this node has anything of it, and what peers may have is all that keeps it unsettled.
  bool may_settle(unsigned proxy) const;
  void mark_settled(unsigned proxy) { proxies_[proxy].unsettled = false; }
  // It goes on, and nobody in this node has anything of what it had before.
  bool may_return(unsigned proxy) const;
  void take_back(unsigned proxy);

 private:
  struct Proxy {
    bool fenced = false;
    bool resumed = false;  // fenced: its thread goes on
    bool unsettled = false;
    std::uint32_t generation = 0;
    std::set<unsigned> awaited;  // who has not dropped what it had of it
    std::uint64_t heartbeat = 0;
    Instant beat_at;  // since when that is the last one
  };

  Config config_;
  std::vector<Proxy> proxies_;
  Instant observed_;
  bool somebody_runs_ = false;
};

}  // namespace braid::proxy
