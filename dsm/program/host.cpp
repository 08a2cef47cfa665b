#include "dsm/program/host.h"

#include <unistd.h>

#include <exception>

#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/thread_host.h"

namespace braid::dsm {

namespace {

template <std::size_t kLength>
void write_error(const char (&text)[kLength]) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, kLength - 1);
}

template <class Function>
void call_guarded(const char* giver, unsigned node_id, Function&& function) {
  try {
    function();
  } catch (const std::exception& e) {
    fail("compute node {}: an exception left the function given to {}: {}", node_id, giver, e.what());
  } catch (...) {
    fail("compute node {}: an exception left the function given to {}", node_id, giver);
  }
  if (is_forked_child()) {
    fail(
        "a child of fork() returned from the function given to {}: only its parent is a compute node; end the "
        "child inside the function, with _exit() or a call of exec()",
        giver);
  }
}

}  // namespace

EngineConfig engine_config(const Shape& shape) {
  EngineConfig c = EngineConfig::of(shape.protocol);
  c.cluster = ClusterId(shape.cluster);
  c.clusters = shape.clusters;
  c.compute_nodes = shape.compute;
  c.page_length = shape.page_length;
  c.pages = shape.heap_pages;
  c.locks = kNumberedLocks;
  c.barriers = kBarriers + 1;
  c.words = kWords;
  c.flags = kFlags;
  c.semaphores = kSemaphores;
  c.conditions = kConditions;
  c.addresses = addresses_of(shape.heap_pages, shape.page_length);
  c.heap_address = kHeapAddress;
  return c;
}

bool Host::start_node(unsigned, const NodeThread&) {
  fail("a program whose threads become compute nodes needs a live run");
}
void Host::begin_again(std::uintptr_t, std::size_t) {}

void Host::run_node(unsigned local, const std::function<void(Node&)>& body) {
  Node node(local);
  call_guarded("parallel()", node_id(local), [&] { body(node); });
  (void)barrier(local, kOwnBarrier, Reduction::kNone, 0);
}

void Host::run_part(unsigned local, const std::function<void(unsigned)>& body) {
  call_guarded("run_on_cluster()", node_id(local), [&] { body(local); });
}

void Host::fail_for_misuse(unsigned local, const std::optional<LockMisuse>& misuse) const {
  if (misuse) fail("{}", misuse->text(node_id(local)).c_str());
}

void Host::check_stack(unsigned local, std::uintptr_t address) const {
  if (address - stack_guard.low >= stack_guard.bytes) return;
  fail(
      "compute node {}: the stack of a thread is full: pthread_attr_setstacksize() gives a thread a larger one; main() has "
      "8 MiB",
      node_id(local));
}

void Host::report_foreign_access() {
  write_error(
      "braid: a thread that is not a compute node accessed shared memory: only the initial thread, the\n"
      "braid: functions given to parallel() and adopted threads (dsm/threads.h) may\n");
}

void Host::report_access_inside_runtime() {
  write_error(
      "braid: shared memory was accessed by code that interrupted the runtime: signal handlers must\n"
      "braid: not access it\n");
}

void Host::fail_access_in_child() {
  fail(
      "a child of fork() accessed shared memory, which only the process that called init() has: copy what the child "
      "needs to private memory before fork()");
}

void Host::report_access_behind_heap() {
  write_error("braid: an access behind the last allocation of the shared heap: a pointer is wrong\n");
}

}  // namespace braid::dsm
