#include "dsm/program/host.h"

#include <unistd.h>

#include <exception>

#include "dsm/program/failure.h"

namespace braid::dsm {

EngineConfig engine_config(const Shape& shape) {
  EngineConfig c;
  c.cluster = ClusterId(shape.cluster);
  c.clusters = shape.clusters;
  c.compute_nodes = shape.compute;
  c.pages = shape.heap_pages;
  c.locks = kLocks;
  c.barriers = kBarriers + 1;
  c.words = kWords;
  c.flags = kFlags;
  c.semaphores = kSemaphores;
  c.conditions = kConditions;
  return c;
}

void Host::run_node(unsigned local, const std::function<void(Node&)>& body) {
  Node node(local);
  try {
    body(node);
  } catch (const std::exception& e) {
    fail("compute node {}: an exception left the function given to parallel(): {}", node_id(local), e.what());
  } catch (...) {
    fail("compute node {}: an exception left the function given to parallel()", node_id(local));
  }
  (void)barrier(local, kOwnBarrier, Reduction::kNone, 0);
}

void Host::fail_for_recursion(unsigned local, LockId lock) const {
  fail("compute node {} locks lock {}, which it has already: locks are not recursive", node_id(local),
       lock.value());
}

void Host::fail_for_want_of_lock(unsigned local, LockId lock) const {
  fail("compute node {} unlocks lock {}, which it does not have", node_id(local), lock.value());
}

void Host::fail_for_want_of_condition_lock(unsigned local, const SyncCall& call) const {
  fail("compute node {} waits for condition {} with lock {}, which it does not have", node_id(local), call.id,
       call.lock.value());
}

void Host::say_touched_behind_all() {
  constexpr char kText[] =
      "braid: the shared heap was touched behind all that is allocated: a pointer is wrong\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace braid::dsm
