#include "proxy/daemon/proxy_loop.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/short_turns.h"

namespace braid::proxy {
namespace {

// On its processor, where others want that too: longer than nearly any turn of its worker, and the shortest that Linux has.
constexpr Duration kTurn = 100_us;

// A sleeping proxy has no heartbeat; it must not seem stalled.
Duration longest_sleep(const NodeConfig& config) {
  return std::min(ProxySleep::kLongest, Duration::ms(config.transport.path_death_ms) / 4);
}

}  // namespace

ProxyLoop::ProxyLoop(Node& node, unsigned proxy, bool can_sleep, int control_plane_fd)
    : node_(node),
      worker_(node.worker(proxy)),
      counters_(node.counters(proxy)),
      control_plane_fd_(control_plane_fd),
      idle_(node.config().idle),
      sleep_(worker_, counters_, can_sleep),
      longest_sleep_(longest_sleep(node.config())) {}

void ProxyLoop::run(const std::atomic<bool>& stop) {
  take_short_turns(kTurn);
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // a sleep of 20 us shall not become one of 70
  stop_ = &stop;
  while (!stop.load(std::memory_order_relaxed)) {
    if (turn() > 0)
      worked();
    else
      wait();
  }
  worker_.publish_counters();
}

int ProxyLoop::turn() {
  now_ = monotonic_now();
  const int work = worker_.do_work(now_);
  for (std::uint32_t woken = worker_.take_woken(); woken != 0; woken &= woken - 1)
    node_.worker(static_cast<unsigned>(std::countr_zero(woken))).wake();
  if (worker_.take_told()) wake_control_plane();
  return work;
}

void ProxyLoop::wake_control_plane() {
  const std::uint64_t one = 1;
  (void)!::write(control_plane_fd_, &one, sizeof one);
}

void ProxyLoop::wait() {
  switch (idle_.next()) {
    case Idle::Next::kSpin:
      return __builtin_ia32_pause();
    case Idle::Next::kYield: {
      const Instant before = monotonic_now();
      ::sched_yield();
      return idle_.yielded(monotonic_now() - before);
    }
    case Idle::Next::kSleep:
      return sleep();
  }
}

void ProxyLoop::sleep() {
  if (!std::exchange(prepared_, true)) worker_.about_to_sleep(now_);
  const Instant deadline = earlier(worker_.next_deadline(), now_ + longest_sleep_);
  if (deadline <= now_) {
    ::sched_yield();
    return;
  }
  // A client that wakes for nothing, again and again, costs no more than polling.
  if (std::exchange(woken_, false)) return nap(deadline - now_);
  const auto last_look = [this] { return stop_->load(std::memory_order_relaxed) ? 1 : turn(); };
  switch (sleep_.sleep(deadline, last_look)) {
    case ProxySleep::Outcome::kWoken:
      woken_ = true;
      prepared_ = false;
      return;
    case ProxySleep::Outcome::kTimeout:
      prepared_ = false;
      return;
    case ProxySleep::Outcome::kWorked:
      return worked();
    case ProxySleep::Outcome::kMustPoll:
      return nap(deadline - now_);
  }
}

void ProxyLoop::worked() {
  woken_ = false;
  prepared_ = false;
  idle_.worked(worker_.take_served());
}

// For a while in which nobody wakes it.
void ProxyLoop::nap(Duration longest) {
  counters_.sleeps.add();
  counters_.naps.add();
  const timespec t{0, std::min(idle_.next_nap(), longest).ns()};
  ::nanosleep(&t, nullptr);
}

}  // namespace braid::proxy
