// Shared by the parts of the PARMACS runtime: the machine, and the names of its objects.
//
//   processes.cpp   CREATE, WAIT_FOR_END; starts the machine, and leaves it
//   objects.cpp     names, numbers; pauses, semaphores
//   locks.cpp       locks, conditions
//   barriers.cpp    BARRIER, GETSUB
//   memory.cpp      G_MALLOC
//   volatiles.cpp   volatile variables
//   sleeps.cpp      sleep(), sched_yield() and so on
#pragma once

#include <cstdint>

#include "dsm/api.h"
#include "dsm/once/early_heap.h"
#include "dsm/parmacs/parmacs.h"

namespace braid::dsm::parmacs {

// Whether the machine was started, by the first CREATE. Until then main() is alone.
bool started();
// The calling process. Ends the program with a message if the thread is no compute node.
Node calling_process();
// main() would wait for a process that only WAIT_FOR_END lets run: ends the program with a message.
void check_none_deferred();
// Called before `node` waits for others. If it is main()'s, processes that it creates afterwards may have the compute nodes of
// earlier ones that have ended. And in a program that sleeps or yields the node releases what it has written (sleeps.cpp).
void note_wait(const Node& node);
// On several clusters: what others have written until they did so, too, is seen from now on.
void release_and_acquire(Node node);

EarlyHeap& early_heap();

// --- Objects

// Gives the object a name, an address of shared memory: its own, or, where it is private, one that no other object has. An object
// that was initialised at its place keeps its name.
void name_object(braid_parmacs_object& object);
inline bool was_initialised_here(const braid_parmacs_object& object) {
  return object.place == &object;
}
// Ends the program with a message if it has no name. `macro`, `kind`: for that.
const void* name_of(const braid_parmacs_object& object, const char* macro, const char* kind);
// A clone: the names that cluster 0 has prepared are not its own.
void forget_names();

// What the machine has a certain number of.
enum class Numbered : std::uint8_t { kBarrier, kCounter, kKinds };
// The next number of a kind, from 1; 0: `limit` were taken.
unsigned take_number(Numbered kind, unsigned limit);

// Carries out what main() has done with pauses and semaphores before the machine was started; cluster 0's initial thread.
void begin_objects();

// --- Who uses which of the machine's locks, semaphores and words.

//    locks      | those of volatile variables |
//    semaphores | 1 for each node | done |
//    words      | counters | 2 for each node | 1 for each kind of number | that of sleeps |

inline constexpr unsigned kVolatileLocks = 64;
inline constexpr unsigned kFirstVolatileLock = kLocks - kVolatileLocks;
inline constexpr unsigned kMaxNodes = 512;
inline constexpr unsigned kDoneSemaphore = kSemaphores - 1;
inline unsigned job_semaphore(unsigned node) {
  return kSemaphores - 2 - node;
}
inline constexpr unsigned kReleaseWord = kWords - 1;  // always 0
inline unsigned number_word(Numbered kind) {
  return kReleaseWord - 1 - static_cast<unsigned>(kind);
}
inline unsigned job_word(unsigned node) {  // and the next one; 0: no job, or it has ended
  return kReleaseWord - static_cast<unsigned>(Numbered::kKinds) - 2 - 2 * node;
}
inline constexpr unsigned kCounters = kReleaseWord - static_cast<unsigned>(Numbered::kKinds) - 2 * kMaxNodes;

}  // namespace braid::dsm::parmacs
