#include "dsm/pthreads/machine.h"

#include <errno.h>

#include <algorithm>

#include "base/prng.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/clocks.h"

namespace braid::dsm::pthreads {

Node calling_node_of(const char* call) {
  const int local = joined_host(call).current_node();
  if (local < 0)
    fail(
        "{}{} was called by a thread that pthread_create() of this program has not made: a shared library's own, which calls a function "
        "of the program; build the library with braid-cc --pthreads, and link it as an archive",
        call, place_of_call().c_str());
  return Node(static_cast<unsigned>(local));
}

void keep_order() {
  if (started()) joined_host("pthread").keep_order();
}

std::vector<const void*>& early_locks() {
  static std::vector<const void*> all;
  return all;
}

Guard::Guard(unsigned lock) : lock_(lock) {
  if (started()) calling_node_of("pthread").lock(lock_);
}
Guard::~Guard() {
  if (started()) calling_node_of("pthread").unlock(lock_);
}

namespace {

void call_machine(const char* call, const SyncCall& sync) {
  Host& host = joined_host(call);
  (void)host.sync(calling_node_of(call).local(), sync);
}

}  // namespace

void Guard::wait(unsigned condition, const char* call, const WaitedFor& what) {
  if (!started()) fail_alone(call);
  call_machine(call,
               {.op = SyncOp::kConditionWait, .id = condition, .lock = LockId(lock_), .waits_for = what});
}

void wait_for_semaphore(unsigned semaphore, const char* call, const WaitedFor& what) {
  call_machine(call, {.op = SyncOp::kSemaphoreWait, .id = semaphore, .waits_for = what});
}

void Guard::wait_at(const void* condition, const char* call) {
  if (!started()) fail_alone(call);
  call_machine(call, {.op = SyncOp::kConditionWait,
                      .id = object_id(call, condition, kConditions, joined_host(call).shape().heap_pages),
                      .lock = LockId(lock_)});
}

void Guard::wake(unsigned condition) {
  if (started()) calling_node_of("pthread").condition_broadcast(condition);
}

bool has_come_to(clockid_t clock, const timespec& deadline) {
  return now(clock) >= to_duration(deadline);
}

int Guard::sleep_before(const timespec& deadline, clockid_t clock) {
  if (!is_deadline(deadline, clock)) return EINVAL;
  if (has_come_to(clock, deadline)) return ETIMEDOUT;
  constexpr Duration kLook = 500_us;
  if (started()) calling_node_of("pthread").unlock(lock_);
  thread_host::sleep(kLook);
  if (started()) calling_node_of("pthread").lock(lock_);
  return 0;
}

int after_try(int result, int busy) {
  own.has_failed = result == busy;
  own.failed_tries = own.has_failed ? own.failed_tries + 1 : 0;
  return result;
}

void before_try() {
  if (!own.has_failed || thread_host::starts_threads() || !started()) return;
  own.has_failed = false;
  const auto thread = static_cast<std::uint64_t>(current_thread() - shared().threads.data());
  Prng random((thread << 32) + own.failed_tries);
  constexpr std::uint64_t kFirst_ns = 10'000;
  constexpr std::uint32_t kDoublings = 6;
  thread_host::sleep(Duration::ns(
      static_cast<std::int64_t>(random.below(kFirst_ns << std::min(own.failed_tries, kDoublings)))));
}

std::uint32_t stamp_of(const void* object, std::uint32_t number) {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  return static_cast<std::uint32_t>(((address ^ (std::uint64_t{number} << 40)) * 0x9e37'79b9'7f4a'7c15u) >>
                                    32);
}

// A node may read the words while another writes them, so that it finds one of them, or a part: then the stamp differs, and
// it reads them again with the lock.
template <unsigned kLimit>
std::uint32_t number_in(Numbers<kLimit>& numbers, std::uint32_t* number, std::uint32_t* stamp) {
  const auto read = [&] {
    keep_order();
    const std::uint32_t n = __atomic_load_n(number, __ATOMIC_ACQUIRE);
    return n != 0 && __atomic_load_n(stamp, __ATOMIC_RELAXED) == stamp_of(number, n) ? n : 0;
  };
  if (const std::uint32_t n = read(); n != 0) return n;
  const Guard guard(kNumbersLock);
  if (const std::uint32_t n = read(); n != 0) return n;
  std::uint32_t taken = kNoNumber;
  if (numbers.freed_count > 0)
    taken = numbers.freed[--numbers.freed_count];
  else if (numbers.next < kLimit)
    taken = ++numbers.next;
  keep_order();
  __atomic_store_n(stamp, stamp_of(number, taken), __ATOMIC_RELAXED);
  __atomic_store_n(number, taken, __ATOMIC_RELEASE);
  return taken;
}

template <unsigned kLimit>
void give_number(Numbers<kLimit>& numbers, std::uint32_t* number, std::uint32_t* stamp) {
  if (*number == 0 || *stamp != stamp_of(number, *number)) return;
  if (*number != kNoNumber) {
    const Guard guard(kNumbersLock);
    numbers.freed[numbers.freed_count++] = *number;
  }
  *number = 0;
  *stamp = 0;
}

template std::uint32_t number_in(Numbers<kMaxBarriers>&, std::uint32_t*, std::uint32_t*);
template void give_number(Numbers<kMaxBarriers>&, std::uint32_t*, std::uint32_t*);

void fail_alone(const char* call) {
  fail("{}{} waits for ever: no thread was created yet that could end the wait{}", call,
       place_of_call().c_str(), forked_before_start() ? ", and processes from fork() do not" : "");
}

void refuse(const char* call, const char* why) {
  fail("{}{} is not available with --pthreads: {}", call, place_of_call().c_str(), why);
}

}  // namespace braid::dsm::pthreads
