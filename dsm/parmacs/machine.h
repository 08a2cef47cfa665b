// Shared by the parts of the PARMACS runtime: the machine, and the numbers of its objects.
//
//   processes.cpp   CREATE, WAIT_FOR_END; starts the machine, and leaves it
//   objects.cpp     numbers; pauses, semaphores
//   locks.cpp       locks, conditions
//   barriers.cpp    BARRIER, GETSUB
//   memory.cpp      G_MALLOC
#pragma once

#include <cstdint>

#include "dsm/api.h"
#include "dsm/once/early_heap.h"

namespace braid::dsm::parmacs {

// Whether the machine was started, by the first CREATE. Until then main() is alone.
bool started();
// The calling process. Ends the program with a message if the thread is no compute node.
Node calling_process();
// main() would wait for a process that only WAIT_FOR_END lets run: ends the program with a message.
void check_none_deferred();

EarlyHeap& early_heap();

// --- Numbers of objects, from 1

enum class Object : std::uint8_t { kLock, kBarrier, kPause, kSemaphore, kCondition, kCounter, kNumber };

// The next number of a kind; `name`: of the macro. Ends the program with a message when there are no more.
unsigned take_number(Object object, const char* name);
// The index of an object that was initialised, from 0. Ends the program with a message if it was not.
unsigned index_of(unsigned number, Object object, const char* name);

// Carries out what main() has done with pauses and semaphores before the machine was started; cluster 0's initial thread.
void begin_objects();

// --- Who uses which of the machine's semaphores and words: programs' objects from 0, the runtime's from the top.

//    semaphores | programs' ... | 2 for each barrier | 1 for each node | done |
//    words      | counters ...  | 1 for each barrier | 2 for each node | bytes of locks | 1 for each kind of object |
//    locks      | programs' ... | those that guard the bytes of more locks |
//    conditions | programs' ... | 1 for each of these                      |

inline constexpr unsigned kMaxBarriers = 512;
inline constexpr unsigned kDoneSemaphore = kSemaphores - 1;
inline unsigned job_semaphore(unsigned node) {
  return kSemaphores - 2 - node;
}
inline unsigned number_word(Object object) {
  return kWords - 1 - static_cast<unsigned>(object);
}
inline constexpr unsigned kLockBytesWord = kWords - static_cast<unsigned>(Object::kNumber) - 1;
inline unsigned job_word(unsigned node) {  // and the next one
  return kLockBytesWord - 2 - 2 * node;
}
inline constexpr unsigned kMaxNodes = 512;
inline constexpr unsigned kBarrierSemaphores = kSemaphores - 1 - kMaxNodes - 2 * kMaxBarriers;
inline constexpr unsigned kBarrierWords = kLockBytesWord - 2 * kMaxNodes - kMaxBarriers;
// Neighbours' bytes have different guards.
inline constexpr unsigned kLockStripes = 256;
inline constexpr unsigned kOwnLocks = kLocks - kLockStripes;
inline constexpr unsigned kOwnConditions = kConditions - kLockStripes;
inline constexpr unsigned kMaxLocks = 1u << 20;

}  // namespace braid::dsm::parmacs
