#include "proxy/daemon/proxy_sleep.h"

#include <algorithm>

#include "base/wake_word.h"

namespace braid::proxy {

ProxySleep::ProxySleep(Worker& worker, ProxyCounters& counters, bool allowed)
    : worker_(worker), counters_(counters), allowed_(allowed) {
  words_.words.reserve(WakeWait::kMaxWords);
}

Result<void> ProxySleep::supported() {
  if (Result<void> joined = WakeBarrier::join(); !joined) return joined;
  if (Result<void> executed = WakeBarrier::execute(); !executed) return executed;
  return WakeWait::probe();
}

bool ProxySleep::can_be_woken() {
  if (!allowed_) return false;
  worker_.collect_wake_words(words_);
  return words_.polled_queues == 0 && words_.words.size() <= WakeWait::kMaxWords;
}

// The sleeper of base/wake_word.h.
struct ProxySleep::Protocol {
  ProxySleep& self;
  const Instant deadline;
  const std::function<int()>& turn;
  Outcome outcome = Outcome::kTimeout;

  void announce() { self.worker_.announce_sleep(); }
  void barrier() {
    if (WakeBarrier::execute()) return;
    self.allowed_ = false;
    outcome = Outcome::kMustPoll;
  }
  bool look() {
    if (outcome == Outcome::kMustPoll) return true;
    if (turn() > 0)
      outcome = Outcome::kWorked;
    else if (!self.worker_.can_be_woken())
      outcome = Outcome::kMustPoll;
    return outcome != Outcome::kTimeout;
  }
  void wait() {
    // The turn may have dropped channels, whose memory may be unmapped (FO-6).
    self.worker_.collect_wake_words(self.words_);
    self.worker_.sleeps_until(deadline);
    self.counters_.sleeps.add();
    switch (WakeWait::wait(self.words_.words, deadline)) {
      case WakeWait::Outcome::kWoken:
        outcome = Outcome::kWoken;
        return self.count_wake();
      case WakeWait::Outcome::kTimeout:
      case WakeWait::Outcome::kInterrupted:
        return;
      case WakeWait::Outcome::kRefused:
        self.allowed_ = false;
    }
  }
  void withdraw() { self.worker_.withdraw_sleep(); }
};

ProxySleep::Outcome ProxySleep::sleep(Instant deadline, const std::function<int()>& turn) {
  Protocol protocol{*this, deadline, turn};
  const bool wakeable = can_be_woken();
  counters_.polls_asleep.set(wakeable ? 0 : 1);
  if (!wakeable) return Outcome::kMustPoll;
  sleep_until_woken(protocol);
  return protocol.outcome;
}

// Counts the first of the wakers that the words show.
void ProxySleep::count_wake() {
  const auto rung =
      std::find_if(words_.words.begin(), words_.words.end(), [](const WakeWord* w) { return !w->asleep(); });
  const auto index = static_cast<std::size_t>(rung - words_.words.begin());
  if (index == 0)
    counters_.woken_by_node.add();
  else if (index <= words_.links)
    counters_.woken_by_links.add();
  else
    counters_.woken_by_clients.add();
}

}  // namespace braid::proxy
