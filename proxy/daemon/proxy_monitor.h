// Which proxies of a node run, and what has to happen before a stalled one is used again (FO-5, FO-6).
//
//              no heartbeat for the path death time, while another has one
//   running ─────────────────────────────────────────────────────────────► fenced
//      ▲                                                      the others dropped its messages │
//      │   settled: none of its earlier packets can arrive any more: may_settle() ◄───────────┤
//      └── returned: its thread moves again: may_return() ◄───────────────────────────────────┘
//
// Either may come first: a proxy that has returned and is not settled takes packets of peers, and no messages
// of clients.
//
// Pure: heartbeats and time come in, answers go out; the node acts on them. Owned by its control plane. Disable
// it where proxies take no idle turns (simulation): a heartbeat without progress means nothing there.
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
    Duration heartbeat_timeout = 500_ms;  // without a heartbeat, before a proxy is fenced
    bool enabled = true;                  // false: is_stalled() is never true
  };
  // Between two calls of observe(), or after the end of a pause: a control plane that calls it so late was itself
  // held up.
  static constexpr Duration kControlGap = 50_ms;
  ProxyMonitor(const Config& config, Instant now);

  unsigned proxies() const { return static_cast<unsigned>(proxies_.size()); }
  bool running(unsigned proxy) const { return !proxies_[proxy].fenced; }
  // Running, and may take messages of clients.
  bool serves(unsigned proxy) const { return running(proxy) && !proxies_[proxy].unsettled; }
  // Packets that it sent before it stalled may still arrive, so its lanes wait.
  bool unsettled(unsigned proxy) const { return proxies_[proxy].unsettled; }

  // The heartbeats of all proxies at this moment. Returns for how long the control plane itself was held up before, 0
  // if it was not: that time does not count for a proxy without a heartbeat.
  [[nodiscard]] Duration observe(Instant now, std::span<const std::uint64_t> heartbeats);
  Instant observed() const { return observed_; }
  // The next call of observe() is meant to come at `then` at the latest: until then the control plane is not held up.
  void pauses_until(Instant then) { resumes_ = then; }
  // As of the last observe(): it had no heartbeat for too long, and another had. If none has, the host is
  // stalled, or no proxy is left that could take over.
  bool is_stalled(unsigned proxy) const;

  // FO-5: the others take over.
  void fence(unsigned proxy);
  // How often each was fenced.
  ProxyGenerations generations() const;
  // ProxyForgotten: `by` has dropped the messages that it had borrowed from `proxy`.
  void forgotten(unsigned proxy, unsigned by) { proxies_[proxy].awaited.erase(by); }
  // Some proxy may still have messages of a fenced one.
  bool awaits_anybody() const;
  // ProxyResumed: the fenced proxy's thread moves again.
  void resumed(unsigned proxy) { proxies_[proxy].resumed = true; }

  // No proxy of this node has messages of it; it is settled when peers have none either.
  bool may_settle(unsigned proxy) const;
  void mark_settled(unsigned proxy) { proxies_[proxy].unsettled = false; }
  // Its thread moves again, and no proxy of this node has messages of before.
  bool may_return(unsigned proxy) const;
  void take_back(unsigned proxy);

 private:
  struct Proxy {
    bool fenced = false;
    bool resumed = false;  // fenced: its thread moves again
    bool unsettled = false;
    std::uint32_t generation = 0;
    std::set<unsigned> awaited;  // proxies that have not dropped its messages
    std::uint64_t heartbeat = 0;
    Instant beat_at;  // since when that is the last one
  };

  Config config_;
  std::vector<Proxy> proxies_;
  Instant observed_;
  Instant resumes_;
  bool somebody_runs_ = false;
};

}  // namespace braid::proxy
