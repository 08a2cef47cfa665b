// The machine's start and end, and the threads of the program.
//
// main() runs in cluster 0 alone, on a stack in memory that becomes shared memory, until the first pthread_create() starts
// the other clusters as clones (dsm/once). It goes on as compute node 0. In each other cluster the initial thread waits for
// threads to start; in cluster 0 a thread of the runtime does.
//
// In a live run a thread is a thread of the system that becomes a compute node of its cluster; each cluster has kNodes of them,
// so threads may be more than those that compute at once. In simulation each compute node waits for threads, and runs one at
// a time (dsm/program/thread_host.h).
//
// A new thread goes to the place, of all compute nodes that the run has, that has
// the fewest threads, the first of these; main() counts at the first place. So threads are spread in the order of their
// creation, cluster after cluster, and again the same way when they are created again.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/system_error.h"
#include "dsm/blocks/early_blocks.h"
#include "dsm/once/early_heap.h"
#include "dsm/once/main_once.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/system_calls.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/clocks.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"
#include "dsm/pthreads/wrapped.h"

extern "C" {
int __real_main(int argc, char** argv, char** environment);
// Defined by tries.cpp and timed.cpp, if they are linked.
extern const char braid_pthreads_tries __attribute__((weak));
extern const char braid_pthreads_timed __attribute__((weak));
}

namespace braid::dsm::pthreads {

namespace {

constexpr std::size_t kMainStackBytes = (8u << 20) + kGuardBytes;

bool main_has_begun = false;
bool is_started = false;
bool is_coming = false;
std::uintptr_t main_left_at = 0;  // where its stack was when it has called pthread_exit()
thread_host::Machine machine;     // since the start, as
pid_t process = 0;

EarlyHeap& early_heap() {
  static EarlyHeap heap;
  return heap;
}

// The lowest node that is not in use.
unsigned first_free(const std::bitset<kNodes>& nodes) {
  unsigned node = 0;
  while (node < nodes.size() && nodes[node]) ++node;
  return node;
}

// Stacks of threads of this cluster that have ended. The lock is never held while the machine is called.
// In simulation the order of those that take and give one is part of the run.
struct Stacks {
  std::mutex mutex;
  std::vector<std::pair<std::size_t, void*>> free;
};
Stacks& stacks() {
  static Stacks& all = *new Stacks;
  return all;
}

void* take_stack(std::size_t bytes) {
  {
    joined_host("pthread_create()").keep_order();
    const std::lock_guard hold(stacks().mutex);
    auto& free = stacks().free;
    for (auto& stack : free) {
      if (stack.first != bytes) continue;
      void* const memory = stack.second;
      stack = free.back();
      free.pop_back();
      return memory;
    }
  }
  return calling_node_of("pthread_create()").allocate_bytes(bytes, Placement::first_touch());
}
void give_stack(std::size_t bytes, void* memory) {
  joined_host("pthread_create()").keep_order();
  const std::lock_guard hold(stacks().mutex);
  stacks().free.emplace_back(bytes, memory);
}

unsigned index_of(const Thread& thread) {
  return static_cast<unsigned>(&thread - shared().threads.data());
}

// --- The system's threads, in a live run

// By compute node of this cluster; 0: it has no thread of the program, or one that has not begun. The lock is never held while the
// machine is called.
struct SystemThreads {
  std::mutex mutex;
  std::array<pthread_t, kNodes> threads{};
};
SystemThreads& system_threads() {
  static SystemThreads& all = *new SystemThreads;
  return all;
}
void set_system_thread(unsigned local, pthread_t thread) {
  if (!thread_host::starts_threads()) return;
  const std::lock_guard hold(system_threads().mutex);
  system_threads().threads[local] = thread;
}

// --- A thread's life

std::uint64_t run_function(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  thread.result = thread.function(thread.argument);
  return 0;
}

void run_thread(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  own.thread = &thread;
  set_system_thread(thread.local, ::pthread_self());
  // It is not the one that has called pthread_create() which has made the thread of the system.
  if (thread_host::starts_threads()) ::pthread_sigmask(SIG_SETMASK, &thread.blocked, nullptr);
  void* const stack = take_stack(thread.stack_bytes);
  own.stack = stack;
  stack_guard.low = reinterpret_cast<std::uintptr_t>(stack);
  stack_guard.bytes = kGuardBytes;
  run_on_shared_stack(run_function, &thread, stack, thread.stack_bytes);
}

std::uint64_t run_destructors(void*) {
  begin_to_end();
  run_variable_destructors();
  run_key_destructors();
  notify_at_end();
  return 0;
}

void free_node(Shared& all, const Thread& thread) {
  all.nodes[thread.cluster].reset(thread.local);
  --all.places[thread.place];
}

// `ended`: the thread's record, which may be another's as soon as it is joined.
void leave_node(Guard& guard, const Thread& ended, Thread& record) {
  Shared& all = shared();
  free_node(all, ended);
  if (ended.detached) record.used = false;
  --all.live;
  if (all.main_waits) guard.wake(kThreadEnds);
}

// After the destructors of its thread-local variables.
void end_thread(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  use_shared_stack({});
  run_on_shared_stack(run_destructors, nullptr, own.stack, thread.stack_bytes);
  free_thread_variables();
  set_system_thread(thread.local, 0);
  give_stack(thread.stack_bytes, own.stack);
  // One that waits for threads may have the next one, which begins when this has ended.
  const bool node_waits = !thread_host::starts_threads();
  Thread ended;
  {
    Guard guard(kThreadsLock);
    thread.done = true;
    ended = thread;
    if (uses_cancellation()) guard.wake(kThreadEnds);  // of those that join it
    if (node_waits) leave_node(guard, ended, thread);
  }
  if (!ended.detached) calling_node_of("pthread").semaphore_post(index_of(thread));
  if (node_waits) return;
  // With the end of this the compute node may be another thread's.
  Guard guard(kThreadsLock);
  leave_node(guard, ended, thread);
}

// In a live run.
void start_thread_here(Thread& thread) {
  if (!joined_host("pthread_create()")
           .start_node(thread.local, {.body = run_thread, .ended = end_thread, .argument = &thread}))
    fail("pthread_create(): {}", cause_and_cure(errno).c_str());
}

// A thread on the calling compute node's fibre, from its beginning to its end, in simulation.
void run_thread_of_node(Thread& thread) {
  if (!run_until_exit(run_thread, &thread)) use_shared_stack({});
  end_thread(&thread);
  thread_host::renew_thread_variables();
}

// --- The end of a cluster's process, in a live run

// The machine is left, but its memory stays, for threads that still run; they end with the process. Streams are written as by exit(), which does
// not wait for one that a thread has locked (flockfile(), or a read of standard input).
[[noreturn]] void leave_process(int status) {
  const bool at_once = shared().ended_at_once;
  joined_host("exit()").finish();
  if (!at_once) (void)::fcloseall();
  ::_exit(status);
}

[[noreturn]] void await_end_of_process() {
  for (;;) ::pause();
}

// --- Each cluster's thread that starts others, in a live run

// Whether there were any.
bool start_jobs(unsigned cluster) {
  Shared& all = shared();
  std::vector<Thread*> threads;
  std::bitset<kNodes> interrupted;
  {
    const Guard guard(kThreadsLock);
    for (unsigned i = 0; i < all.job_count[cluster]; ++i)
      threads.push_back(&all.threads[all.jobs[cluster][i]]);
    all.job_count[cluster] = 0;
    if (uses_cancellation()) interrupted = std::exchange(all.interrupted[cluster], {});
  }
  for (Thread* const thread : threads) start_thread_here(*thread);
  interrupt_cancelled(interrupted);
  return !threads.empty() || interrupted.any();
}

bool is_ending() {
  const Guard guard(kThreadsLock);
  return shared().ending;
}

void serve_jobs(unsigned cluster) {
  for (;;) {
    wait_for_semaphore(kJobSemaphore + cluster, "pthread", {WaitedFor::Kind::kThreadToRun});
    if (is_ending()) return;
    if (!start_jobs(cluster)) release_and_acquire();  // ask_for_releases()
  }
}

void serve_first_cluster(void*) {
  serve_jobs(0);
  if (shared().ended_by_thread) leave_process(0);
}

// --- The compute node that runs handlers of signals, in a live run

void run_handlers(void*) {
  constexpr std::size_t kBytes = kStackBytes + kGuardBytes;
  void* const stack = take_stack(kBytes);
  stack_guard.low = reinterpret_cast<std::uintptr_t>(stack);
  stack_guard.bytes = kGuardBytes;
  serve_signals(stack, kBytes);
}

[[noreturn]] void serve_cluster(unsigned cluster) {
  serve_jobs(cluster);
  leave_process(0);
}

// --- Each compute node, in simulation, from the start to the end of the run

unsigned node_number(unsigned cluster, unsigned local) {
  return cluster * machine.nodes + local;
}

[[noreturn]] void serve_node(unsigned cluster, unsigned local) {
  for (;;) {
    wait_for_semaphore(kJobSemaphore + node_number(cluster, local), "pthread",
                       {WaitedFor::Kind::kThreadToRun});
    run_thread_of_node(shared().threads[shared().jobs[cluster][local]]);
  }
}

// The end of the program, in a live run: all clusters leave the machine. Of several ends the first. `at_once`: as by _exit(), what
// streams have in their buffers is lost.
[[noreturn]] void end_all(int status, bool by_main, bool at_once) {
  Shared& all = shared();
  bool is_first = false;
  {
    const Guard guard(kThreadsLock);
    is_first = !all.ending;
    all.ending = true;
    if (is_first) all.ended_by_thread = !by_main;
    if (is_first) all.ended_at_once = at_once;
  }
  if (!is_first) await_end_of_process();
  Node self = calling_node_of("exit()");
  for (unsigned cluster = 0; cluster < machine.clusters; ++cluster)
    self.semaphore_post(kJobSemaphore + cluster);
  // In the cluster of another thread the one that starts threads leaves, as in all others.
  if (by_main || machine.clusters == 1) leave_process(status);
  await_end_of_process();
}

// Ends the program with this process, or returns: a thread that is not main() and has another status than 0 ends its process,
// and so the run.
void leave(int status, bool at_once) {
  const Host* const host = current_host();
  if (host == nullptr || is_forked_child() || host->current_node() < 0) return;
  const bool by_main = own.thread == nullptr && !serves_signals();
  if (!by_main && status != 0) return;
  if (thread_host::starts_threads()) end_all(status, by_main, at_once);
  thread_host::leave();
  if (!at_once) (void)::fflush(nullptr);
  ::_exit(status);
}

// The last of the handlers of exit(): destructors of the program's objects use shared memory.
void leave_at_exit(int status, void*) {
  leave(status, false);
}

// _exit(). A child of vfork() has this process's memory.
[[noreturn]] void leave_at_once(int status) {
  if (is_run_process()) leave(status, true);
  ::_exit(status);
}

// --- The start

// The threads of the runtime that start others.
void begin_live(unsigned cluster, const HeldSignals& signals) {
  Host& host = joined_host("pthread_create()");
  host.begin_parallel(nullptr);
  if (cluster != 0) {
    signals.let_come();
    serve_cluster(cluster);
  }
  if (machine.clusters > 1 &&
      !host.start_node(1, {.body = serve_first_cluster, .ended = [](void*) {}, .argument = nullptr}))
    fail("pthread_create(): {}", cause_and_cure(errno).c_str());
}

// All nodes but main()'s wait for threads.
void begin_simulated(unsigned cluster, const HeldSignals& signals) {
  joined_host("pthread_create()").begin_parallel([=](Node& node) { serve_node(cluster, node.local()); });
  if (cluster == 0) return;
  signals.let_come();
  thread_host::renew_thread_variables();  // those of main(), of which this process is a copy
  serve_node(cluster, 0);
}

void check_machine() {
  if (!thread_host::starts_threads() && machine.clusters * machine.nodes > kMaxThreads)
    fail("the run has {} compute nodes, and programs with threads at most {}: start it with fewer",
         machine.clusters * machine.nodes, +kMaxThreads);
}

std::uint64_t start_machine(void*) {
  machine = thread_host::machine();
  check_machine();
  stack_guard.low = shared_stack.low;
  stack_guard.bytes = kGuardBytes;
  const HeldSignals signals;
  const unsigned cluster = start_clusters();
  early_heap().close();
  process = ::getpid();
  thread_host::join();
  early_heap().publish();
  end_early_blocks(cluster == 0);
  is_started = true;
  ::__libc_single_threaded = 0;  // where no threads of the system come: the C++ library counts references
  if (thread_host::starts_threads())
    begin_live(cluster, signals);
  else
    begin_simulated(cluster, signals);
  Node main = calling_node_of("pthread_create()");
  for (const void* const lock : early_locks()) main.lock_at(lock);
  set_system_thread(0, ::pthread_self());
  signals.let_come();
  return 0;
}

// On the system's stack, and for unwinding at its beginning: the callers' frames are in memory that goes and comes.
[[gnu::noinline]] void start() {
  if (is_started) return;
  if (!main_has_begun)
    refuse("pthread_create() before main()",
           "a constructor of a global object has made it; let main() make the object, or begin its threads");
  check_not_forked();
  is_coming = true;
  (void)shared();
  const std::uintptr_t top = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - 1024;
  braid_pthreads_begin_stack(start_machine, nullptr, top);
}

// --- pthread_create()

constexpr unsigned kAnyCluster = ~0u;

struct Request {
  void* (*function)(void*) = nullptr;
  void* argument = nullptr;
  bool has_attributes = true;  // else those of all threads count
  bool detached = false;
  sigset_t blocked{};
  std::optional<Priority> priority{};  // none: its creator's
  std::size_t stack_bytes = 0;         // 0: as those of all threads say; without the guard, as there
  unsigned cluster = kAnyCluster;
  const char* call = "pthread_create()";  // for messages
  const Thread* caller = nullptr;         // of which it makes a call that pthread_cancel() interrupts
};

Request read_request(const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  Request request{.function = function, .argument = argument};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &request.blocked);
  request.has_attributes = attributes != nullptr;
  if (attributes == nullptr) return request;
  sigset_t blocked;
  if (::pthread_attr_getsigmask_np(attributes, &blocked) == 0) request.blocked = blocked;
  request.detached = says_detached(attributes);
  ::pthread_attr_getstacksize(attributes, &request.stack_bytes);
  request.priority = priority_of(attributes);
  return request;
}

void add_defaults(const DefaultAttributes& defaults, Request& request) {
  const std::size_t usual_bytes = default_stack_bytes(defaults);
  if (request.stack_bytes == 0) request.stack_bytes = usual_bytes;
  // They may say nothing, or have been made before the defaults.
  if (request.stack_bytes == kStackBytes) request.stack_bytes = std::max(usual_bytes, kStackBytes);
  if (request.has_attributes) return;
  request.detached = defaults.detached;
  if (defaults.has_mask) request.blocked = defaults.blocked;
}

Thread* take_record(Shared& all, const Request& request) {
  for (Thread& thread : all.threads)
    if (!thread.used) return &thread;
  fail("{}{}: {} threads live or have ended and were not joined: join them, or create them detached",
       request.call, place_of_call().c_str(), +kMaxThreads);
}

// Where the next thread runs. False: no cluster has room, or not the one that is asked for.
bool choose_place(Shared& all, Thread& thread, unsigned wanted) {
  const unsigned count = machine.clusters * machine.computing;
  int best = -1;
  for (unsigned place = 0; place < count; ++place) {
    const unsigned cluster = place / machine.computing;
    if (wanted != kAnyCluster && cluster != wanted) continue;
    if (all.nodes[cluster].count() == machine.nodes) continue;
    if (best < 0 || all.places[place] < all.places[static_cast<unsigned>(best)])
      best = static_cast<int>(place);
  }
  if (best < 0) return false;
  thread.place = static_cast<std::uint16_t>(best);
  thread.cluster = static_cast<std::uint16_t>(static_cast<unsigned>(best) / machine.computing);
  thread.local = static_cast<std::uint16_t>(first_free(all.nodes[thread.cluster]));
  all.nodes[thread.cluster].set(thread.local);
  ++all.places[thread.place];
  return true;
}

[[noreturn]] void fail_for_full_machine(const Request& request) {
  if (request.cluster != kAnyCluster)
    fail("{}{} needs a thread of cluster {}, and the cluster has room for no more: {}", request.call,
         place_of_call().c_str(), request.cluster,
         thread_host::starts_threads() ? "create fewer threads" : "raise --compute of `braid sim`");
  if (thread_host::starts_threads())
    fail(
        "pthread_create(){}: the program has more threads at once than the {} for which each of the {} clusters has room: "
        "create fewer, or start it with more --clusters",
        place_of_call().c_str(), kNodes - 2, machine.clusters);
  fail(
      "pthread_create(){}: the program has more threads at once than the run has compute nodes, {} with that of main(): "
      "create fewer, or raise --compute or --clusters of `braid sim` (sysconf(_SC_NPROCESSORS_ONLN) and "
      "std::thread::hardware_concurrency() grow with them: one less than there are compute nodes)",
      place_of_call().c_str(), machine.clusters * machine.nodes);
}

Thread* create(Request request) {
  start();
  Shared& all = shared();
  const unsigned here = joined_host("pthread_create()").shape().cluster;
  Thread* thread = nullptr;
  {
    const Guard guard(kThreadsLock);
    add_defaults(all.defaults, request);
    thread = take_record(all, request);
    Thread fresh{};
    fresh.function = request.function;
    fresh.argument = request.argument;
    fresh.detached = request.detached;
    fresh.blocked = request.blocked;
    ::sigemptyset(&fresh.sent);
    fresh.stack_bytes = (request.stack_bytes + 4095) / 4096 * 4096 + kGuardBytes;
    fresh.name = current_thread()->name;
    fresh.priority = request.priority.value_or(current_thread()->priority);
    fresh.used = true;
    if (!choose_place(all, fresh, request.cluster)) fail_for_full_machine(request);
    *thread = fresh;
    forget_cancellation(*thread);
    if (request.caller != nullptr) tell_helper(*request.caller, *thread);
    ++all.live;
    if (!thread_host::starts_threads())
      all.jobs[thread->cluster][thread->local] = static_cast<std::uint16_t>(index_of(*thread));
    else if (thread->cluster != here)
      all.jobs[thread->cluster][all.job_count[thread->cluster]++] =
          static_cast<std::uint16_t>(index_of(*thread));
  }
  Node self = calling_node_of("pthread_create()");
  if (!thread_host::starts_threads())
    self.semaphore_post(kJobSemaphore + node_number(thread->cluster, thread->local));
  else if (thread->cluster == here)
    start_thread_here(*thread);
  else
    self.semaphore_post(kJobSemaphore + thread->cluster);
  return thread;
}

void wait_for_end(const Thread& thread, const char* call) {
  wait_for_semaphore(index_of(thread), call, {WaitedFor::Kind::kThreadEnd, index_of(thread)});
}

// Of one that has ended: a detached one may still be named by a program that takes it for another.
int error_of_unused(const Thread& thread) {
  return thread.detached ? EINVAL : ESRCH;
}

// The C library's pthread_tryjoin_np() looks at nothing else if it is.
bool is_alive(pthread_t name) {
  const Thread* const thread = thread_of(name);
  if (thread == nullptr) return false;
  const Guard guard(kThreadsLock);
  return thread->used && !thread->done;
}

// Until it has ended, or the caller is cancelled: false.
bool await_end(Guard& guard, const Thread& thread) {
  tell_wait(kThreadsLock, kThreadEnds);
  while (!thread.done) {
    if (is_cancelled()) return false;
    guard.wait(kThreadEnds, "pthread_join()", {WaitedFor::Kind::kThreadEnd, index_of(thread)});
  }
  return true;
}

// ECANCELED: the caller is, which `can_end` allows.
int join(pthread_t name, void** result, bool waits, bool can_end) {
  Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  if (thread == current_thread()) return EDEADLK;
  {
    Guard guard(kThreadsLock);
    if (!thread->used) return error_of_unused(*thread);
    if (thread->detached || thread->joined) return EINVAL;
    if (can_end && is_cancelled()) return ECANCELED;
    if (!waits && !thread->done) return EBUSY;
    thread->joined = true;
    if (can_end && thread != shared().threads.data() && !await_end(guard, *thread)) {
      thread->joined = false;
      return ECANCELED;
    }
  }
  if (!started()) fail_alone("pthread_join()");
  if (thread != shared().threads.data())
    wait_for_end(*thread, "pthread_join()");
  else
    refuse("pthread_join() of main()", "main() ends with the program");
  *result = thread->result;
  const Guard guard(kThreadsLock);
  thread->used = false;
  return 0;
}

int join_before(pthread_t name, void** result, const timespec& deadline, clockid_t clock, bool can_end) {
  constexpr Duration kLook = 500_us;
  for (;; thread_host::sleep(kLook)) {
    const int error_number = join(name, result, false, can_end);
    if (error_number != EBUSY) return error_number;
    if (!is_deadline(deadline, clock)) return EINVAL;
    if (has_come_to(clock, deadline)) return ETIMEDOUT;
  }
}

int detach(pthread_t name) {
  Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  {
    const Guard guard(kThreadsLock);
    if (!thread->used) return error_of_unused(*thread);
    if (thread->detached || thread->joined) return EINVAL;
    thread->detached = true;
    if (!thread->done) return 0;
  }
  wait_for_end(*thread, "pthread_detach()");
  const Guard guard(kThreadsLock);
  thread->used = false;
  return 0;
}

// --- Calls in another cluster

void make_thread_call(unsigned home, const char* call, void* (*function)(void*), void* argument,
                      const Thread* caller) {
  on_private([=] {
    Request request{
        .function = function, .argument = argument, .cluster = home, .call = call, .caller = caller};
    ::sigfillset(&request.blocked);
    const Thread* const thread = create(request);
    void* result = nullptr;
    (void)join(reinterpret_cast<pthread_t>(thread), &result, true, false);
  });
}

// On the program's stack.
struct CallForAnother {
  void* (*function)(void*);
  void* argument;
  const Thread* caller;
};
void* call_for_another(void* argument) {
  const CallForAnother call = *static_cast<const CallForAnother*>(argument);
  if (!begin_point_for(*call.caller)) return nullptr;
  void* const result = call.function(call.argument);
  end_point_for(*call.caller);
  return result;
}

// --- pthread_kill()

bool has_ended(const Thread& thread) {
  const Guard guard(kThreadsLock);
  return !thread.used || thread.done;
}

// The cluster where the thread is; the caller's: kHere.
unsigned home_of_thread(const Thread& thread) {
  const unsigned cluster = thread.cluster;
  return !started() || cluster == joined_host("pthread_kill()").shape().cluster ? kHere : cluster;
}

// In the thread's cluster. It may not have begun.
int kill_here(const Thread& thread, int number) {
  if (!started()) return ::pthread_kill(::pthread_self(), number);
  constexpr Duration kLook = 100_us;
  for (;; thread_host::sleep(kLook)) {
    if (has_ended(thread)) return 0;
    const std::lock_guard hold(system_threads().mutex);
    const pthread_t system = system_threads().threads[thread.local];
    if (system != 0) return ::pthread_kill(system, number);
  }
}

// In simulation, where all threads of a cluster are one of the system: the thread takes the signal when it waits for it (signal_waits.cpp).
void leave_signal(Thread& thread, int number) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (::sigismember(&blocked, number) == 0)
    refuse(
        "pthread_kill() in simulation, of a signal that is not blocked,",
        "the threads of a cluster are one of the system; let the thread look at a flag or wait for a semaphore, or block the signal in "
        "main() and wait for it by sigwait()");
  const Guard guard(kThreadsLock);
  ::sigaddset(&thread.sent, number);
}

// An error number; or kill_here() is next. 0: the thread has ended, or is there.
constexpr int kNext = -1;
int before_kill(Thread* thread, int number, bool in_handler) {
  if (thread == nullptr || !thread->used) return ESRCH;
  if (number < 0 || number >= NSIG) return EINVAL;
  if (number == 0 || has_ended(*thread)) return 0;
  if (!thread_host::starts_threads() && started()) return leave_signal(*thread, number), 0;
  if (in_handler && home_of_thread(*thread) != kHere)
    refuse("pthread_kill() of a thread of another cluster, by a handler of a signal,",
           "let a thread call it");
  return kNext;
}

// --- exit()

[[noreturn]] void exit_main_when_alone() {
  if (started()) {
    Guard guard(kThreadsLock);
    shared().main_waits = true;
    while (shared().live > 0) guard.wait(kThreadEnds, "pthread_exit()", {WaitedFor::Kind::kAllThreadEnds});
  }
  ::exit(0);
}

struct Arguments {
  int argc;
  char** argv;
  char** environment;
  void* stack;
  int status;
};
std::uint64_t run_main(void* argument) {
  const Arguments a = *static_cast<const Arguments*>(argument);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(__real_main(a.argc, a.argv, a.environment)));
}
void run_main_on_its_stack(void* argument) {
  auto& a = *static_cast<Arguments*>(argument);
  a.status = static_cast<int>(run_on_shared_stack(run_main, argument, a.stack, kMainStackBytes));
}

std::uint64_t run_destructors_of_main(void*) {
  run_key_destructors();
  return 0;
}
// After its cleanup handlers. What main() had on its stack stays, for threads that were told of it.
[[noreturn]] void end_main(void* stack) {
  use_shared_stack({});
  const std::size_t below = (main_left_at - reinterpret_cast<std::uintptr_t>(stack) - 4096) / 4096 * 4096;
  run_on_shared_stack(run_destructors_of_main, nullptr, stack, below);
  exit_main_when_alone();
}

void* take_early(std::size_t bytes) {
  return early_heap().allocate((bytes + 4095) / 4096 * 4096);
}

// Before the program's constructors, which may allocate; so its handler is the last of exit()'s.
[[gnu::constructor(102)]] void begin() {
  // With a message if there is no run: later one cannot be made, for memory for it would come from the run's.
  if (!thread_host::starts_threads()) (void)thread_host::machine();
  begin_early_blocks(take_early);
  (void)::on_exit(leave_at_exit, nullptr);
}

}  // namespace

bool started() {
  return is_started;
}

bool is_run_process() {
  return is_started && ::getpid() == process;
}

bool machine_is_coming() {
  return is_coming;
}

void start_to_serve_signals() {
  if (!thread_host::starts_threads()) return;
  Host& host = joined_host("sigaction()");
  const unsigned cluster = host.shape().cluster;
  unsigned local = 0;
  {
    const Guard guard(kThreadsLock);
    std::bitset<kNodes>& nodes = shared().nodes[cluster];
    local = first_free(nodes);
    if (local >= machine.nodes)
      fail(
          "sigaction(){}: all {} compute nodes of the cluster have threads, and one must run handlers: set them earlier",
          place_of_call().c_str(), machine.nodes);
    nodes.set(local);
  }
  if (!host.start_node(
          local, {.body = run_handlers, .ended = [](void*) {}, .argument = nullptr, .only_serves = true}))
    fail("sigaction(): {}", cause_and_cure(errno).c_str());
}

bool several_clusters() {
  return is_started && machine.clusters > 1;
}

bool several_clusters_come() {
  static const bool several = on_private([] { return thread_host::machine().clusters > 1; });
  return several;
}

void release_and_acquire() {
  (void)calling_node_of("pthread").fetch_add(kReleaseWord, 0);
}

void ask_for_releases() {
  Node self = calling_node_of("pthread");
  const unsigned here = joined_host("pthread").shape().cluster;
  for (unsigned cluster = 0; cluster < machine.clusters; ++cluster)
    if (cluster != here) self.semaphore_post(kJobSemaphore + cluster);
}

bool uses_tries() {
  return &braid_pthreads_tries != nullptr;
}
bool uses_timed_waits() {
  return &braid_pthreads_timed != nullptr;
}

void call_at(unsigned home, const char* call, void* (*function)(void*), void* argument) {
  if (pause_point()) {
    CallForAnother made{function, argument, current_thread()};
    make_thread_call(home, call, call_for_another, &made, made.caller);
    return resume_point();
  }
  make_thread_call(home, call, function, argument, nullptr);
}

Shared& shared() {
  // Clones have the address, too.
  static Shared& all = []() -> Shared& {
    auto& fresh = *static_cast<Shared*>(take_early(sizeof(Shared)));
    Thread& main = fresh.threads[0];
    main.used = true;
    (void)::prctl(PR_GET_NAME, main.name.data());
    fresh.places[0] = 1;
    // Those of main() and, in a live run, of the runtime's threads.
    const bool live = thread_host::starts_threads();
    if (live)
      for (std::bitset<kNodes>& nodes : fresh.nodes) nodes.set(0);
    fresh.nodes[0].set(0).set(1, live);
    return fresh;
  }();
  return all;
}

Thread* current_thread() {
  Thread* const thread = own.thread;
  return thread != nullptr ? thread : shared().threads.data();
}

Thread* thread_of(pthread_t name) {
  auto* const thread = reinterpret_cast<Thread*>(name);
  const Shared& all = shared();
  const bool is_one =
      thread >= all.threads.data() && thread < all.threads.data() + kMaxThreads &&
      (reinterpret_cast<std::uintptr_t>(thread) - reinterpret_cast<std::uintptr_t>(all.threads.data())) %
              sizeof(Thread) ==
          0;
  return is_one ? thread : nullptr;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(main)(int argc, char** argv, char** environment) {
  void* const stack = take_early(kMainStackBytes);
  Arguments arguments{argc, argv, environment, stack, 0};
  main_begins();
  main_has_begun = true;
  if (!run_main_until_exit(run_main_on_its_stack, &arguments)) end_main(stack);
  return arguments.status;
}

int WRAPPED(pthread_create)(pthread_t* name, const pthread_attr_t* attributes, void* (*function)(void*),
                            void* argument) {
  const Request request = read_request(attributes, function, argument);
  Thread* const thread = on_private([request] { return create(request); });
  *name = reinterpret_cast<pthread_t>(thread);
  return 0;
}

int WRAPPED(pthread_join)(pthread_t name, void** result) {
  void* value = nullptr;
  test_cancellation();
  const bool can_end = can_be_cancelled();
  const int error_number = on_private([=, to = &value] { return join(name, to, true, can_end); });
  if (error_number == ECANCELED) end_cancelled();
  if (error_number == 0 && result != nullptr) *result = value;
  return error_number;
}
int WRAPPED(pthread_tryjoin_np)(pthread_t name, void** result) {
  void* value = nullptr;
  const int error_number =
      on_private([name, to = &value] { return is_alive(name) ? EBUSY : join(name, to, false, false); });
  if (error_number == 0 && result != nullptr) *result = value;
  return error_number;
}

int WRAPPED(pthread_clockjoin_np)(pthread_t name, void** result, clockid_t clock, const timespec* until) {
  if (until == nullptr) return WRAPPED(pthread_join)(name, result);
  if (!is_for_limits(clock)) return EINVAL;
  void* value = nullptr;
  test_cancellation();
  const bool can_end = can_be_cancelled();
  const int error_number = on_private(
      [=, to = &value, deadline = *until] { return join_before(name, to, deadline, clock, can_end); });
  if (error_number == ECANCELED) end_cancelled();
  if (error_number == 0 && result != nullptr) *result = value;
  return error_number;
}
int WRAPPED(pthread_timedjoin_np)(pthread_t name, void** result, const timespec* until) {
  return WRAPPED(pthread_clockjoin_np)(name, result, CLOCK_REALTIME, until);
}

int WRAPPED(pthread_kill)(pthread_t name, int number) {
  Thread* const thread = thread_of(name);
  const bool in_handler = !on_shared_stack();
  const int early = on_private([=] { return before_kill(thread, number, in_handler); });
  if (early != kNext) return early;
  const unsigned home = on_private([=] { return home_of_thread(*thread); });
  return at(home, "pthread_kill()", [=] { return on_private([=] { return kill_here(*thread, number); }); });
}

int WRAPPED(pthread_detach)(pthread_t name) {
  return on_private([name] { return detach(name); });
}

pthread_t WRAPPED(pthread_self)() {
  return reinterpret_cast<pthread_t>(serves_signals() ? interrupted_thread() : current_thread());
}
int WRAPPED(pthread_equal)(pthread_t a, pthread_t b) {
  return a == b ? 1 : 0;
}

[[noreturn]] void WRAPPED(pthread_exit)(void* result) {
  Thread* const thread = own.thread;
  if (serves_signals())
    on_private([] {
      refuse("pthread_exit() in a handler of a signal that has interrupted a call that waits",
             "let the handler write a variable or post a semaphore, and the thread end itself");
    });
  begin_to_end();
  if (thread == nullptr)
    main_left_at = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  else
    thread->result = result;
  if (!thread_host::starts_threads()) exit_thread();
  ::pthread_exit(nullptr);
}

[[noreturn]] void WRAPPED(exit)(int status) {
  on_private([status] { ::exit(status); });
  ::abort();
}

[[noreturn]] void WRAPPED(_exit)(int status) {
  on_private([status] { leave_at_once(status); });
  ::abort();
}
[[noreturn]] void WRAPPED(_Exit)(int status) {
  WRAPPED(_exit)(status);
}

int WRAPPED(pthread_setname_np)(pthread_t name, const char* text) {
  Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  if (::strlen(text) >= thread->name.size()) return ERANGE;
  ::strcpy(thread->name.data(), text);
  return 0;
}
int WRAPPED(pthread_getname_np)(pthread_t name, char* text, std::size_t room) {
  const Thread* const thread = thread_of(name);
  if (thread == nullptr) return ESRCH;
  if (room < thread->name.size()) return ERANGE;  // as in the C library
  ::strcpy(text, thread->name.data());
  return 0;
}

}  // extern "C"
