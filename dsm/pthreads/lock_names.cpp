// What the locks of the machine are for that this runtime uses itself (machine.h), for reports of what nodes waited for.
#include "dsm/program/object_ids.h"
#include "dsm/pthreads/machine.h"

namespace braid::dsm::pthreads {

namespace {

[[gnu::constructor]] void name_locks() {
  name_own_locks(
      {.first = kFirstGuard,
       .count = kGuards,
       .what = "mutexes, semaphores and read-write locks whose state is in memory",
       .cure = "use fewer of them at once; mutexes are locks of their own where the program calls neither "
               "pthread_mutex_trylock() nor pthread_mutex_timedlock()"});
  name_own_locks({.first = kFirstConditionGuard,
                  .count = kConditionGuards,
                  .what = "condition variables whose state is in memory",
                  .cure = "signal them less often, or wait without a time limit"});
  name_own_locks(
      {.first = kFirstAtomicGuard,
       .count = kAtomicGuards,
       .what = "atomic operations",
       .cure =
           "make fewer atomic operations on memory that several clusters use, such as one for many elements"});
  name_own_locks({.first = kThreadsLock,
                  .count = 1,
                  .what = "the table of threads",
                  .cure = "create and join threads less often"});
  name_own_locks({.first = kNumbersLock,
                  .count = 1,
                  .what = "the numbers of barriers and keys",
                  .cure = "initialise and destroy them less often"});
}

}  // namespace

}  // namespace braid::dsm::pthreads
