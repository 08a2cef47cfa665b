// Barriers of as many processes as each call says, and the loops that end in one.
#include <vector>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"

namespace braid::dsm::parmacs {

namespace {

void check_processes(const char* name, long processes) {
  if (processes < 1) fail("{} was called for {} processes", name, processes);
  if (!started() && processes > 1)
    fail("{} waits for ever: it is for {} processes, and none was created yet", name, processes);
  if (!started()) return;
  const Node node = calling_process();
  if (static_cast<unsigned long>(processes) > node.count())
    fail(
        "{} was called for {} processes, and this machine has {} compute nodes: start the program with as many processes "
        "as --clusters times --compute",
        name, processes, node.count());
  if (processes == 1) return;
  if (node.id() == 0) check_none_deferred();
  note_wait(node);
}

void wait_for_some(Node& node, const braid_parmacs_barrier& barrier, long processes) {
  node.barrier_at(name_of(barrier.object, "BARRIER", "barrier"), static_cast<unsigned>(processes));
}

// Of GETSUB, by word, while main() is alone.
long& early_next(unsigned word) {
  static std::vector<long> all;
  if (all.size() <= word) all.resize(word + 1);
  return all[word];
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_barrier_init(braid_parmacs_barrier* barrier) {
  if (was_initialised_here(barrier->object)) return;
  name_object(barrier->object);
  barrier->object.place = &barrier->object;
  barrier->number = take_number(Numbered::kBarrier, kBarriers);
}

void braid_parmacs_barrier_init_for(braid_parmacs_barrier* barrier, long processes) {
  braid_parmacs_barrier_init(barrier);
  barrier->processes = processes;
}

void braid_parmacs_barrier_wait(const braid_parmacs_barrier* barrier, long processes) {
  if (barrier->object.place == nullptr) fail("BARRIER was used on a barrier that was not initialised");
  check_processes("BARRIER", processes);
  if (processes == 1) return;
  Node node = calling_process();
  // Where all come, the machine's own barrier needs fewer messages.
  if (static_cast<unsigned long>(processes) == node.count() && barrier->number != 0)
    return node.barrier(barrier->number - 1);
  wait_for_some(node, *barrier, processes);
}

void braid_parmacs_barrier_wait_for_all(const braid_parmacs_barrier* barrier) {
  if (barrier->object.place != nullptr && barrier->processes < 1)
    fail(
        "BARRIER(b) does not say of how many processes, and its BARINIT did not either: write BARRIER(b, n)");
  braid_parmacs_barrier_wait(barrier, barrier->processes);
}

void braid_parmacs_reset_figures(const braid_parmacs_barrier* barrier, long processes) {
  braid_parmacs_barrier_wait(barrier, processes);
  if (!started()) return;
  joined_host("RESET_FIGURES").reset_figures(calling_process().local());
  braid_parmacs_barrier_wait(barrier, processes);
}

void braid_parmacs_subscripts_init(braid_parmacs_subscripts* subscripts) {
  if (!was_initialised_here(subscripts->barrier.object)) {
    subscripts->number = take_number(Numbered::kCounter, kCounters);
    if (subscripts->number == 0) fail("GSINIT: the program has more than {} loops of GETSUB", +kCounters);
    braid_parmacs_barrier_init(&subscripts->barrier);
  }
  const unsigned word = subscripts->number - 1;
  if (started())
    calling_process().store(word, 0);
  else
    early_next(word) = 0;
}

long braid_parmacs_next_subscript(const braid_parmacs_subscripts* subscripts, long last, long processes) {
  if (subscripts->number == 0) fail("GETSUB was used on a loop that was not initialised");
  const unsigned word = subscripts->number - 1;
  check_processes("GETSUB", processes);
  if (!started()) {
    long& next = early_next(word);
    if (next <= last) return next++;
    next = 0;
    return -1;
  }
  Node node = calling_process();
  const std::int64_t next = node.fetch_add(word, 1);
  if (next <= last) return static_cast<long>(next);
  // The last one that comes: none of the others asks again before the barrier.
  if (next == last + processes) node.store(word, 0);
  if (processes > 1) wait_for_some(node, subscripts->barrier, processes);
  return -1;
}

}  // extern "C"
