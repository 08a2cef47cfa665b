// LOCK and condition variables: those of the machine that addresses name.
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"

namespace braid::dsm::parmacs {

namespace {

const void* name_of(const braid_parmacs_lock* lock, const char* macro) {
  return parmacs::name_of(lock->object, macro, "lock");
}
const void* name_of(const braid_parmacs_condition* condition, const char* macro) {
  return parmacs::name_of(condition->object, macro, "condition variable");
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_lock_init(braid_parmacs_lock* lock) {
  name_object(lock->object);
}
void braid_parmacs_lock_inits(braid_parmacs_lock* locks, long count) {
  for (long i = 0; i < count; ++i) name_object(locks[i].object);
}
void braid_parmacs_lock_acquire(const braid_parmacs_lock* lock) {
  const void* const name = name_of(lock, "LOCK");
  if (started()) calling_process().lock_at(name);
}
void braid_parmacs_lock_release(const braid_parmacs_lock* lock) {
  const void* const name = name_of(lock, "UNLOCK");
  if (started()) calling_process().unlock_at(name);
}

void braid_parmacs_condition_init(braid_parmacs_condition* condition) {
  name_object(condition->object);
}
void braid_parmacs_condition_wait(const braid_parmacs_condition* condition, const braid_parmacs_lock* lock) {
  const void* const name = name_of(condition, "CONDVARWAIT");
  const void* const name_of_lock = name_of(lock, "CONDVARWAIT");
  if (!started()) fail("CONDVARWAIT waits for ever: no process was created yet that could end the wait");
  Node node = calling_process();
  note_wait(node);
  node.condition_wait_at(name, name_of_lock);
}
void braid_parmacs_condition_signal(const braid_parmacs_condition* condition) {
  const void* const name = name_of(condition, "CONDVARSIGNAL");
  if (started()) calling_process().condition_signal_at(name);
}
void braid_parmacs_condition_broadcast(const braid_parmacs_condition* condition) {
  const void* const name = name_of(condition, "CONDVARBCAST");
  if (started()) calling_process().condition_broadcast_at(name);
}

}  // extern "C"
