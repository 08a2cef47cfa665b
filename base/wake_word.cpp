#include "base/wake_word.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "base/timespec.h"

namespace braid {

Result<void> WakeBarrier::join() {
  const bool refused = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
  refused_.store(refused, std::memory_order_relaxed);
  if (refused) return error("membarrier(2): {}", std::strerror(errno));
  return {};
}

Result<void> WakeBarrier::execute() {
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0) return {};
  return error("membarrier(2): {}", std::strerror(errno));
}

// Between processes, so not FUTEX_PRIVATE_FLAG.
void WakeWord::wake() {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

WakeWait::Outcome WakeWait::wait(std::span<WakeWord* const> words, Instant deadline) {
  CHECK_LE(words.size(), kMaxWords);
  std::array<futex_waitv, kMaxWords> waits;
  for (std::size_t i = 0; i < words.size(); ++i)
    waits[i] = {.val = WakeWord::kAsleep,
                .uaddr = reinterpret_cast<std::uintptr_t>(&words[i]->word_),
                .flags = FUTEX_32,
                .__reserved = 0};
  const timespec until = to_timespec(deadline - Instant());
  if (::syscall(SYS_futex_waitv, waits.data(), words.size(), 0, &until, CLOCK_MONOTONIC) >= 0)
    return Outcome::kWoken;
  switch (errno) {
    case EAGAIN:
      return Outcome::kWoken;
    case ETIMEDOUT:
      return Outcome::kTimeout;
    case EINTR:
      return Outcome::kInterrupted;
    default:
      return Outcome::kRefused;
  }
}

Result<void> WakeWait::probe() {
  WakeWord awake;
  futex_waitv one{.val = WakeWord::kAsleep,
                  .uaddr = reinterpret_cast<std::uintptr_t>(&awake.word_),
                  .flags = FUTEX_32,
                  .__reserved = 0};
  ::syscall(SYS_futex_waitv, &one, 1, 0, nullptr, CLOCK_MONOTONIC);
  if (errno != EAGAIN) return error("futex_waitv(2): {}", std::strerror(errno));
  return {};
}

}  // namespace braid
