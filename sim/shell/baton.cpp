#include "sim/shell/baton.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "dsm/program/failure.h"

namespace braid::sim {

namespace {

// How often a shell that waits checks whether the engine lives.
constexpr timespec kCheckPeriod = {.tv_sec = 1, .tv_nsec = 0};

}  // namespace

void Baton::give(std::uint32_t asking) {
  control_.asking = asking;
  const bool is_passed = asking == Control::kNobody && control_.next != Control::kEngine;
  std::atomic<std::uint32_t>& taker =
      is_passed ? control_of(control_, control_.next).turn : control_of(control_, 0).engines_turn;
  // Before another one has the baton, who could give it back at once.
  control_.turn.store(Control::kOthers, std::memory_order_relaxed);
  taker.store(is_passed ? Control::kShell : 1, std::memory_order_release);
  ::syscall(SYS_futex, &taker, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  await();
}

void Baton::await() {
  for (;;) {
    const std::uint32_t turn = control_.turn.load(std::memory_order_acquire);
    if (turn == Control::kLeave) {
      (void)std::fflush(nullptr);
      ::_exit(0);
    }
    if (turn == Control::kShell) return;
    const long waited = ::syscall(SYS_futex, &control_.turn, FUTEX_WAIT, turn, &kCheckPeriod, nullptr, 0);
    // An engine that died never gives the baton, and no other process would end this one.
    if (waited != 0 && errno == ETIMEDOUT && ::getppid() != engine_) ::_exit(dsm::kFailureStatus);
  }
}

}  // namespace braid::sim
