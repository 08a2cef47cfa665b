// What the C++ library has compiled in itself, and would carry out by the system's threads: std::thread,
// std::condition_variable and the waits of std::future. The rest of it (std::mutex, std::lock, std::call_once, ...) is compiled
// into the program, whose calls come here anyway.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace {

static_assert(sizeof(std::thread) == sizeof(pthread_t));
static_assert(sizeof(std::condition_variable) == sizeof(pthread_cond_t));

pthread_t& name_of(std::thread* thread) {
  return *reinterpret_cast<pthread_t*>(thread);
}
pthread_cond_t* of(std::condition_variable* condition) {
  return reinterpret_cast<pthread_cond_t*>(condition);
}

void* run_state(void* state) {
  const std::unique_ptr<std::thread::_State> owned(static_cast<std::thread::_State*>(state));
  owned->_M_run();
  return nullptr;
}

// By the library: its exceptions have their texts in the program's memory.
void check(int error_number) {
  if (error_number != 0) std::__throw_system_error(error_number);
}

// While one of the library's lockers lives (std::atomic_load() and so on of a std::shared_ptr). In it references are counted, by
// atomic operations, whose guards are others.
void lock_pointer(unsigned char* locker, const void* pointer) {
  namespace p = braid::dsm::pthreads;
  static_assert(p::kGuards <= std::numeric_limits<unsigned char>::max());
  *locker = p::on_private([=]() -> unsigned char {
    if (!p::started()) return 0;
    const unsigned lock = p::guard_of(pointer);
    p::calling_node_of("std::atomic operations of a shared_ptr").lock(lock);
    return static_cast<unsigned char>(lock - p::kFirstGuard + 1);
  });
}
void unlock_pointer(const unsigned char* locker) {
  namespace p = braid::dsm::pthreads;
  const unsigned held = *locker;
  if (held == 0) return;
  p::on_private([=] {
    p::calling_node_of("std::atomic operations of a shared_ptr").unlock(p::kFirstGuard + held - 1);
  });
}

// Nobody is woken in another cluster, so a wait ends soon, and the caller looks again.
constexpr braid::Duration kLook = braid::Duration::us(200);

void look_later() {
  braid::dsm::pthreads::on_private([] { braid::dsm::thread_host::sleep(kLook); });
}

// What the calling thread does at its end for std::notify_all_at_thread_exit(), the last first.
struct Notification {
  pthread_mutex_t* mutex;
  pthread_cond_t* condition;
  Notification* next;
};
constinit thread_local Notification* notifications __attribute__((tls_model("initial-exec"))) = nullptr;

bool wait_a_little(bool has_deadline, clockid_t clock, std::chrono::seconds s, std::chrono::nanoseconds ns) {
  if (has_deadline && braid::dsm::pthreads::has_come_to(clock, {s.count(), ns.count()})) return false;
  look_later();
  return true;
}

}  // namespace

void braid::dsm::pthreads::notify_at_end() {
  while (notifications != nullptr) {
    const Notification due = *notifications;
    on_private([] { delete std::exchange(notifications, notifications->next); });
    WRAPPED(pthread_mutex_unlock)(due.mutex);
    WRAPPED(pthread_cond_broadcast)(due.condition);
  }
}

extern "C" {

void WRAPPED(_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE)(
    std::thread* thread, std::unique_ptr<std::thread::_State>* state, void (*)()) {
  check(WRAPPED(pthread_create)(&name_of(thread), nullptr, run_state, state->get()));
  (void)state->release();
}
void WRAPPED(_ZNSt6thread4joinEv)(std::thread* thread) {
  check(name_of(thread) == 0 ? EINVAL : WRAPPED(pthread_join)(name_of(thread), nullptr));
  name_of(thread) = 0;
}
void WRAPPED(_ZNSt6thread6detachEv)(std::thread* thread) {
  check(name_of(thread) == 0 ? EINVAL : WRAPPED(pthread_detach)(name_of(thread)));
  name_of(thread) = 0;
}
unsigned WRAPPED(_ZNSt6thread20hardware_concurrencyEv)() {
  return braid::dsm::pthreads::processors();
}

void WRAPPED(_ZNSt18condition_variableC1Ev)(std::condition_variable* condition) {
  WRAPPED(pthread_cond_init)(of(condition), nullptr);
}
void WRAPPED(_ZNSt18condition_variableD1Ev)(std::condition_variable* condition) {
  WRAPPED(pthread_cond_destroy)(of(condition));
}
void WRAPPED(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)(std::condition_variable* condition,
                                                                        std::unique_lock<std::mutex>* lock) {
  WRAPPED(pthread_cond_wait)(of(condition), lock->mutex()->native_handle());
}
void WRAPPED(_ZNSt18condition_variable10notify_oneEv)(std::condition_variable* condition) {
  WRAPPED(pthread_cond_signal)(of(condition));
}
void WRAPPED(_ZNSt18condition_variable10notify_allEv)(std::condition_variable* condition) {
  WRAPPED(pthread_cond_broadcast)(of(condition));
}

void WRAPPED(_ZSt25notify_all_at_thread_exitRSt18condition_variableSt11unique_lockISt5mutexE)(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  pthread_mutex_t* const mutex = lock->release()->native_handle();
  braid::dsm::pthreads::on_private([=] {
    notifications = new Notification{mutex, of(condition), notifications};
  });
}
// The library counts who refers to a promise's state by atomic operations of its own, of one cluster.
void WRAPPED(_ZNSt13__future_base13_State_baseV211_Make_ready6_M_setEv)(void*) {
  braid::dsm::pthreads::on_private([] {
    braid::dsm::pthreads::refuse(
        "std::promise::set_value_at_thread_exit(), or a similar function of promises and packaged tasks,",
        "let the thread call set_value() when it has done all else");
  });
}

// Of the pointer that is changed, and perhaps of the caller's own, which it may be compared with.
void WRAPPED(_ZNSt10_Sp_lockerC1EPKv)(unsigned char* locker, const void* pointer) {
  lock_pointer(locker, pointer);
}
void WRAPPED(_ZNSt10_Sp_lockerC1EPKvS1_)(unsigned char* locker, const void* pointer, const void*) {
  lock_pointer(locker, pointer);
}
void WRAPPED(_ZNSt10_Sp_lockerD1Ev)(const unsigned char* locker) {
  unlock_pointer(locker);
}

void __real__ZNSt3pmr26synchronized_pool_resourceC1ERKNS_12pool_optionsEPNS_15memory_resourceE(
    void*, const void*, void*);  // NOLINT
void WRAPPED(_ZNSt3pmr26synchronized_pool_resourceC1ERKNS_12pool_optionsEPNS_15memory_resourceE)(
    void* pool, const void* options, void* upstream) {
  if (braid::dsm::pthreads::several_clusters_come()) {
    braid::dsm::pthreads::on_private([] {
      braid::dsm::pthreads::refuse(
          "std::pmr::synchronized_pool_resource on several clusters",
          "its locks are the library's own, of one process: take std::pmr::new_delete_resource(), or an "
          "unsynchronized_pool_resource with a mutex");
    });
  }
  __real__ZNSt3pmr26synchronized_pool_resourceC1ERKNS_12pool_optionsEPNS_15memory_resourceE(pool, options,
                                                                                            upstream);
}

bool WRAPPED(
    _ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_untilEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE)(
    void*, unsigned*, unsigned, bool has_deadline, std::chrono::seconds s, std::chrono::nanoseconds ns) {
  return wait_a_little(has_deadline, CLOCK_REALTIME, s, ns);
}
bool WRAPPED(
    _ZNSt28__atomic_futex_unsigned_base26_M_futex_wait_until_steadyEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE)(
    void*, unsigned*, unsigned, bool has_deadline, std::chrono::seconds s, std::chrono::nanoseconds ns) {
  return wait_a_little(has_deadline, CLOCK_MONOTONIC, s, ns);
}
void WRAPPED(_ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj)(unsigned*) {}

// std::atomic::wait(), std::barrier and so on wait by the system's futex, of one process.
long WRAPPED(syscall)(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  const braid::dsm::Host* const host = braid::dsm::current_host();
  const bool shared =
      host != nullptr && braid::dsm::in_heap(static_cast<std::uintptr_t>(a[0]), host->shape().heap_pages);
  if (number != SYS_futex || !shared) return ::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const long operation = a[1] & FUTEX_CMD_MASK;
  if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) return 0;
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
    braid::dsm::pthreads::refuse("syscall(SYS_futex)",
                                 "of operations on shared memory only waits and wakes are");
  look_later();
  return 0;
}

}  // extern "C"
