#include "proxy/channel/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace braid::proxy {
namespace {

// Between processes, so not FUTEX_PRIVATE_FLAG.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void Doorbell::arm() {
  word_.store(kArmed, std::memory_order_relaxed);
  // The look for arrivals that follows must not be done before the bell is seen to be armed; ring() has the
  // other half.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Doorbell::wait(Duration timeout) {
  const std::uint32_t seen = word_.load(std::memory_order_relaxed);
  if (seen == kRung) return;
  const timespec t{timeout.ns() / 1'000'000'000, timeout.ns() % 1'000'000'000};
  futex(&word_, FUTEX_WAIT, seen, &t);
}

void Doorbell::wake() {
  word_.store(kRung, std::memory_order_release);
  futex(&word_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Doorbell::ring() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (word_.load(std::memory_order_relaxed) == kArmed) wake();
}

}  // namespace braid::proxy
