#include "dsm/live/server_thread.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "base/clock.h"
#include "dsm/live/start_thread.h"

namespace braid::dsm {

namespace {

// How often the server checks whether a node polls, where no bell wakes it.
constexpr Duration kPeriodWithoutBell = 1_ms;
// Serves that find nothing while output waits for room: its receiver
// must run first. After this many yields the server sleeps in between.
constexpr int kYields = 64;
constexpr unsigned kPauseUs = 50;

}  // namespace

ServerThread::ServerThread(Network& network, Combiner& combiner, Pollers& pollers,
                           std::function<void(Instant)> watch)
    : network_(network),
      combiner_(combiner),
      pollers_(pollers),
      watch_(std::move(watch)),
      no_bell_(network.moves_only_in_poll()),
      thread_(start_thread("that serves", &ServerThread::run, this)) {}

ServerThread::~ServerThread() {
  stopping_.store(true);
  network_.wake();
  thread_.join();
}

void ServerThread::run() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  Instant last_check = monotonic_now();
  while (!stopping_.load()) {
    const bool nobody_polls = pollers_.nobody();
    if (nobody_polls && (no_bell_ || combiner_.work_is_there())) {
      serve();
    } else {
      if (!pollers_.prepare_sleep(nobody_polls)) continue;
      network_.wait(no_bell_ ? kPeriodWithoutBell : kWatchPeriod);
      idle_serves_ = 0;
    }
    const Instant now = monotonic_now();
    if (now - last_check < kWatchPeriod) continue;
    last_check = now;
    combiner_.check_descriptors();
    const std::lock_guard hold(combiner_);
    combiner_.check_links();
    if (watch_) watch_(now);
  }
}

void ServerThread::serve() {
  if (combiner_.try_lock()) {
    const std::lock_guard hold(combiner_, std::adopt_lock);
    if (combiner_.serve(0)) idle_serves_ = 0;
  }
  if (++idle_serves_ < kYields) {
    ::sched_yield();
  } else {
    ::usleep(kPauseUs);
  }
}

}  // namespace braid::dsm
