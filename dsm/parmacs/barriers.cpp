// Barriers of as many processes as each call says, and the loops that end in one.
#include <vector>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"

namespace braid::dsm::parmacs {

namespace {

// Where all compute nodes come, the machine's own barrier serves; only so many programs' barriers have one.
constexpr unsigned kOwn = kBarriers;

// Where some come, a word counts them: the number of those that have come, and above it the number of the episode. The last
// one begins the next episode and wakes the others through one of two semaphores, in turn: one that waits in the episode
// before has left its semaphore when this one is used again.
//
//    63      32 31       0
//    | episode | come    |
std::int64_t come(Node& node, unsigned barrier) {
  return node.fetch_add(kBarrierWords + barrier, 1);
}

// `begin_next` runs before the others are woken.
template <class BeginNext>
void wait_for_some(Node& node, unsigned barrier, long processes, BeginNext&& begin_next) {
  const std::int64_t before = come(node, barrier);
  const std::int64_t episode = before >> 32;
  const unsigned semaphore = kBarrierSemaphores + 2 * barrier + static_cast<unsigned>(episode & 1);
  if ((before & 0xffff'ffff) + 1 < processes) return node.semaphore_wait(semaphore);
  begin_next();
  node.store(kBarrierWords + barrier, (episode + 1) << 32);
  if (processes > 1) node.semaphore_post(semaphore, static_cast<std::uint32_t>(processes - 1));
}

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
  if (node.id() == 0 && processes > 1) check_none_deferred();
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
  barrier->number = take_number(Object::kBarrier, "BARINIT");
}

void braid_parmacs_barrier_wait(const braid_parmacs_barrier* barrier, long processes) {
  const unsigned index = index_of(barrier->number, Object::kBarrier, "BARRIER");
  check_processes("BARRIER", processes);
  if (processes == 1) return;
  Node node = calling_process();
  if (static_cast<unsigned long>(processes) == node.count() && index < kOwn) return node.barrier(index);
  wait_for_some(node, index, processes, [] {});
}

void braid_parmacs_reset_figures(const braid_parmacs_barrier* barrier, long processes) {
  braid_parmacs_barrier_wait(barrier, processes);
  if (!started()) return;
  joined_host("RESET_FIGURES").reset_figures(calling_process().local());
  braid_parmacs_barrier_wait(barrier, processes);
}

void braid_parmacs_subscripts_init(braid_parmacs_subscripts* subscripts) {
  subscripts->number = take_number(Object::kCounter, "GSINIT");
  subscripts->barrier.number = take_number(Object::kBarrier, "GSINIT");
}

long braid_parmacs_next_subscript(const braid_parmacs_subscripts* subscripts, long last, long processes) {
  const unsigned word = index_of(subscripts->number, Object::kCounter, "GETSUB");
  const unsigned barrier = index_of(subscripts->barrier.number, Object::kBarrier, "GETSUB");
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
  wait_for_some(node, barrier, processes, [&] { node.store(word, 0); });
  return -1;
}

}  // extern "C"
