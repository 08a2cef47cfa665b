// CREATE and WAIT_FOR_END. The thread of main() is compute node 0 and goes on inside a parallel() of the machine; every other
// compute node waits for a job, runs it and waits for the next, until main()'s process exits.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>

#include "dsm/once/main_once.h"
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"

namespace braid::dsm::parmacs {

namespace {

// A function of the program, in either form. Addresses are the same in all clusters.
struct Job {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

// Used by main()'s thread only.
struct Created {
  unsigned next = 1;            // compute node of the next job
  unsigned running = 0;         // jobs that were not waited for, on other nodes
  std::optional<Job> deferred;  // one more job than there are other nodes: runs in WAIT_FOR_END
};
Created created;
bool is_started = false;

void post_job(Node& main, unsigned node, const Job& job) {
  main.store(job_word(node), std::bit_cast<std::int64_t>(job.function), MemoryOrder::kRelaxed);
  main.store(job_word(node) + 1, std::bit_cast<std::int64_t>(job.argument), MemoryOrder::kRelaxed);
  main.semaphore_post(job_semaphore(node));
}

// WAIT_FOR_END: until `left` have ended, or all. The deferred one runs now.
void wait_for(long left) {
  Node main = calling_process();
  if (created.deferred && left > 0) {
    const Job job = *created.deferred;
    created.deferred.reset();
    job.function(job.argument);
    --left;
  }
  for (; left > 0 && created.running > 0; --left, --created.running) main.semaphore_wait(kDoneSemaphore);
  if (created.running == 0) created.next = 1;
}
void wait_for_all() {
  wait_for(std::numeric_limits<long>::max());
}

void serve(Node& node) {
  const unsigned id = node.id();
  if (id == 0) return;  // of main()
  for (;;) {
    node.semaphore_wait(job_semaphore(id));
    const auto function = std::bit_cast<void (*)(void*)>(node.load(job_word(id)));
    if (function == nullptr) return;
    function(std::bit_cast<void*>(node.load(job_word(id) + 1)));
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
  if (created.next < main.count()) {
    ++created.running;
    return post_job(main, created.next++, job);
  }
  if (created.deferred)
    fail(
        "CREATE was called for more processes than there are: this machine has {} compute nodes, of which main() has one; "
        "start the program with as many processes as --clusters times --compute",
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
        "{} are free; start the program with as many processes as --clusters times --compute",
        calling_process().count(), calling_process().count() - 1);
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
