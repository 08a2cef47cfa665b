// CREATE and WAIT_FOR_END. The thread of main() is compute node 0 and goes on inside a parallel() of the machine; every other
// compute node waits for a job, runs it and waits for the next, until main()'s process exits.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

#include "dsm/engine/types.h"
#include "dsm/once/main_once.h"
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"

// Of sleeps.cpp, if the program has such calls.
extern const char braid_parmacs_sleeps __attribute__((weak));

namespace braid::dsm::parmacs {

namespace {

// A function of the program, in either form. Addresses are the same in all clusters.
struct Job {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

// The processes that main() has created. Only its thread uses this.
//
// Calls of CREATE between which main() does not wait for others make a group: no two of its processes have one compute node, so
// each has a number of its own, and they may wait for each other. A process of a later group may have the node of one that has
// ended, whether WAIT_FOR_END was called or not.
struct Created {
  struct Place {
    bool has_process = false;  // of which main() does not know yet that it has ended
    bool of_this_group = false;
  };
  std::array<Place, kMaxNodes> places;  // by compute node
  unsigned next = 1;                    // compute node that is tried first
  // places with a process == running + ends_without_place
  unsigned running = 0;             // processes on other nodes whose end main() has not waited for
  unsigned ends_without_place = 0;  // ends that main() has waited for, and does not know of which process
  bool begins_group = false;
  std::optional<Job> deferred;  // one more process than there are other nodes: runs in WAIT_FOR_END
};
Created created;
bool is_started = false;

// In a program that sleeps or yields: `node` is about to wait, or to end.
void release_for_sleepers(const Node& node) {
  if (&braid_parmacs_sleeps != nullptr) release_and_acquire(node);
}

void post_job(Node& main, unsigned node, const Job& job) {
  main.store(job_word(node), std::bit_cast<std::int64_t>(job.function), MemoryOrder::kRelaxed);
  main.store(job_word(node) + 1, std::bit_cast<std::int64_t>(job.argument), MemoryOrder::kRelaxed);
  main.semaphore_post(job_semaphore(node));
}

bool has_ended(Node& main, unsigned node) {
  return main.load(job_word(node)) == 0;
}

// Until a process has ended that was not waited for.
void wait_for_one(const Node& main, WaitedFor::Kind kind) {
  const SyncCall call{.op = SyncOp::kSemaphoreWait, .id = kDoneSemaphore, .waits_for = {.kind = kind}};
  joined_host("CREATE").sync(main.local(), call);
  --created.running;
}

// The process of `place`, which has ended, counts as waited for.
void wait_for_ended(const Node& main, Created::Place& place) {
  place.has_process = false;
  if (created.ends_without_place > 0)
    --created.ends_without_place;
  else
    wait_for_one(main, WaitedFor::Kind::kProcessEnd);  // at once, or nearly
}

// Until `most` of the last group have ended, or all of it. Returns how many those are.
long wait_for_group(Node& main, long most) {
  for (long waited = 0;;) {
    bool is_done = true;
    for (unsigned node = 1; node < main.count(); ++node) {
      Created::Place& place = created.places[node];
      if (!place.of_this_group || !place.has_process) continue;
      if (waited == most) return waited;
      if (has_ended(main, node)) {
        wait_for_ended(main, place);
        ++waited;
      } else {
        is_done = false;
      }
    }
    if (is_done) return waited;
    wait_for_one(main, WaitedFor::Kind::kProcessEnd);
    ++created.ends_without_place;
  }
}

// WAIT_FOR_END: until `left` have ended, or all; those of the last group first, for others may serve on. The deferred one runs
// now.
void wait_for(long left) {
  Node main = calling_process();
  release_for_sleepers(main);
  if (created.deferred && left > 0) {
    const Job job = *created.deferred;
    created.deferred.reset();
    job.function(job.argument);
    --left;
  }
  if (std::ranges::any_of(created.places,
                          [](const Created::Place& p) { return p.has_process && !p.of_this_group; }))
    left -= wait_for_group(main, left);
  for (; left > 0 && created.running > 0; --left) {
    wait_for_one(main, WaitedFor::Kind::kProcessEnd);
    ++created.ends_without_place;
  }
  note_wait(main);
  if (created.running > 0) return;
  created.places = {};
  created.next = 1;
  created.ends_without_place = 0;
}
void wait_for_all() {
  wait_for(std::numeric_limits<long>::max());
}

// The next compute node in turn that has no process, for one. None: all have processes of this group.
std::optional<unsigned> take_node(Node& main) {
  for (;;) {
    bool may_come = false;
    for (unsigned others = main.count() - 1, i = 0; i < others; ++i) {
      const unsigned node = 1 + (created.next - 1 + i) % others;
      Created::Place& place = created.places[node];
      if (place.of_this_group) continue;
      may_come = true;
      if (place.has_process && !has_ended(main, node)) continue;
      if (place.has_process) wait_for_ended(main, place);
      place = {.has_process = true, .of_this_group = true};
      created.next = 1 + node % others;
      return node;
    }
    if (!may_come) return std::nullopt;
    wait_for_one(main, WaitedFor::Kind::kFreeNode);
    ++created.ends_without_place;
  }
}

void serve(Node& node) {
  const unsigned id = node.id();
  if (id == 0) return;  // of main()
  for (;;) {
    joined_host("CREATE").sync(node.local(), {.op = SyncOp::kSemaphoreWait,
                                              .id = job_semaphore(id),
                                              .waits_for = {.kind = WaitedFor::Kind::kProcessToRun}});
    const auto function = std::bit_cast<void (*)(void*)>(node.load(job_word(id)));
    if (function == nullptr) return;
    function(std::bit_cast<void*>(node.load(job_word(id) + 1)));
    release_for_sleepers(node);
    node.store(job_word(id), 0);
    node.semaphore_post(kDoneSemaphore);
  }
}

// exit(), or the end of main(): leaves the machine. Processes that main() has not waited for come to their end before, as they
// would as processes of the system, unless the program has failed.
void leave(int status, void*) {
  const Host* const host = current_host();
  if (host == nullptr || is_forked_child() || host->shape().cluster != 0 || host->current_node() != 0) return;
  if (status != 0 && created.running > 0)
    return;  // the runtime tells that the program has ended before finish()
  wait_for_all();
  Node main = calling_process();
  for (unsigned node = 1; node < main.count(); ++node) post_job(main, node, {});
  joined_host("exit()").end_parallel();
  (void)finish(status);
}

[[noreturn]] void serve_cluster() {
  parallel(serve);
  (void)::fflush(nullptr);
  // Handlers of exit() are main()'s.
  ::_exit(finish(0));
}

void start() {
  if (is_started) return;
  early_heap();  // made before the clones, which have copies
  const unsigned cluster = start_clusters();
  early_heap().close();
  if (cluster != 0) forget_names();
  (void)thread_host::machine();  // sleep() needs what a simulation tells only before init()
  init();
  if (clusters() * nodes_per_cluster() > kMaxNodes)
    fail("a PARMACS program has at most {} processes, and this machine has {} compute nodes", +kMaxNodes,
         clusters() * nodes_per_cluster());
  early_heap().publish();
  is_started = true;
  if (cluster != 0) serve_cluster();
  joined_host("CREATE").begin_parallel(serve);
  (void)::on_exit(leave, nullptr);
  begin_objects();
}

void create(const Job& job) {
  start();
  Node main = calling_process();
  if (main.id() != 0) fail("CREATE was called by compute node {}: only main()'s process may", main.id());
  if (created.begins_group) {
    created.begins_group = false;
    for (Created::Place& place : created.places) place.of_this_group = false;
  }
  if (const std::optional<unsigned> node = take_node(main)) {
    ++created.running;
    return post_job(main, *node, job);
  }
  if (created.deferred)
    fail(
        "CREATE was called for more processes than there are: this machine has {} compute nodes, of which main() has one; "
        "start the program with as many processes as --clusters times --compute, or call WAIT_FOR_END before it creates more",
        main.count());
  created.deferred = job;
}

void call(void* function) {
  std::bit_cast<void (*)()>(function)();
}
Job without_argument(void (*function)()) {
  return {call, std::bit_cast<void*>(function)};
}

void create_all(const Job& job, long processes) {
  for (long i = 1; i < processes; ++i) create(job);
  check_none_deferred();
  job.function(job.argument);
  if (started()) note_wait(calling_process());
}

}  // namespace

bool started() {
  return is_started;
}

Node calling_process() {
  const int local = joined_host("a PARMACS macro").current_node();
  if (local < 0) fail("a PARMACS macro was used by a thread that no CREATE has made");
  return Node(static_cast<unsigned>(local));
}

void check_none_deferred() {
  if (created.deferred)
    fail(
        "main()'s process waits for others, but one of them has no compute node: CREATE was called {} times, and "
        "{} are free; start the program with as many processes as --clusters times --compute, or call WAIT_FOR_END before it "
        "creates more",
        calling_process().count(), calling_process().count() - 1);
}

void note_wait(const Node& node) {
  if (node.id() == 0) created.begins_group = true;
  release_for_sleepers(node);
}

void release_and_acquire(Node node) {
  if (clusters() > 1) (void)node.fetch_add(kReleaseWord, 0);
}

EarlyHeap& early_heap() {
  static EarlyHeap heap;
  return heap;
}

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_create(void (*function)(void)) {
  create(without_argument(function));
}

void braid_parmacs_create_with(void (*function)(void*), void* argument) {
  create({function, argument});
}

void braid_parmacs_create_all(void (*function)(void), long processes) {
  create_all(without_argument(function), processes);
}

void braid_parmacs_create_all_with(void (*function)(void*), void* argument, long processes) {
  create_all({function, argument}, processes);
}

void braid_parmacs_wait_for_end(long processes) {
  if (started()) wait_for(processes);
}

int braid_parmacs_self(void) {
  return started() ? static_cast<int>(calling_process().id()) : 0;
}

unsigned long braid_parmacs_clock(void) {
  return static_cast<unsigned long>(seconds() * 1e6);
}

}  // extern "C"
