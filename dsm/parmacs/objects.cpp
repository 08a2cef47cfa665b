// Names and numbers of objects, pauses (flags) and semaphores.
//
// Before the machine is started main() is alone: locks do nothing, and what it does with pauses and semaphores is noted
// and carried out at the start.
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/object_ids.h"

namespace braid::dsm::parmacs {

namespace {

// The names of private objects come from blocks of shared memory that serve nothing else. Each cluster has its own. The next
// name in this one's; at a multiple of a block's bytes there is none left.
constexpr std::uintptr_t kNamesBytes = 4096;  // what G_MALLOC aligns such a block to
std::atomic<std::uintptr_t> next_name{0};

const void* take_name() {
  std::uintptr_t name = next_name.load();
  while (name % kNamesBytes != 0) {
    if (next_name.compare_exchange_weak(name, name + kAddressBytes))
      return reinterpret_cast<const void*>(name);  // NOLINT
  }
  // If another process of the cluster comes here at once, names of one of the two blocks stay unused.
  const void* const block = braid_parmacs_allocate(kNamesBytes);
  next_name = reinterpret_cast<std::uintptr_t>(block) + kAddressBytes;
  return block;
}

// Taken before the machine was started. Every cluster has a copy of what main() had taken.
std::array<unsigned, static_cast<unsigned>(Numbered::kKinds)> taken_early{};
std::set<const void*> early_pauses;  // that are set
std::map<const void*, std::uint32_t> early_semaphores;

}  // namespace

void name_object(braid_parmacs_object& object) {
  if (can_name_object(&object) || was_initialised_here(object)) return;
  object = {.name = take_name(), .place = &object};
}

const void* name_of(const braid_parmacs_object& object, const char* macro, const char* kind) {
  if (can_name_object(&object)) return &object;
  if (object.name == nullptr) fail("{} was used on a {} that was not initialised", macro, kind);
  return object.name;
}

void forget_names() {
  next_name = 0;
}

unsigned take_number(Numbered kind, unsigned limit) {
  unsigned& early = taken_early[static_cast<unsigned>(kind)];
  const unsigned before =
      started() ? early + static_cast<unsigned>(calling_process().fetch_add(number_word(kind), 1)) : early++;
  return before < limit ? before + 1 : 0;
}

void begin_objects() {
  Node main = calling_process();
  for (const void* const name : early_pauses) main.flag_set_at(name);
  for (const auto& [name, value] : early_semaphores) {
    if (value > 0) main.semaphore_set_at(name, value);
  }
}

namespace {

[[noreturn]] void fail_alone(const char* macro) {
  fail("{} waits for ever: no process was created yet that could end the wait", macro);
}

const void* name_of(const braid_parmacs_pause* pause, const char* macro) {
  return parmacs::name_of(pause->object, macro, "pause");
}
const void* name_of(const braid_parmacs_semaphore* semaphore, const char* macro) {
  return parmacs::name_of(semaphore->object, macro, "semaphore");
}

// --- Pauses in variables: under the lock, and with the condition, of the address that they lie at.

const void* name_of(const volatile void* variable, const char* macro) {
  const auto address = reinterpret_cast<std::uintptr_t>(variable) / kAddressBytes * kAddressBytes;
  const void* const name = reinterpret_cast<const void*>(address);  // NOLINT
  if (!can_name_object(name))
    fail("{} was used on a variable that is not in shared memory: allocate it by G_MALLOC", macro);
  return name;
}
void change_variable(volatile void* variable, char value, const char* macro) {
  const void* const name = name_of(variable, macro);
  volatile char& byte = *static_cast<volatile char*>(variable);
  if (!started()) {
    byte = value;
    return;
  }
  Node node = calling_process();
  const LockGuardAt guard(node, name);
  byte = value;
  if (value != 0) node.condition_broadcast_at(name);
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_pause_init(braid_parmacs_pause* pause) {
  name_object(pause->object);
  braid_parmacs_pause_clear(pause);
}
void braid_parmacs_pause_inits(braid_parmacs_pause* pauses, long count) {
  for (long i = 0; i < count; ++i) braid_parmacs_pause_init(&pauses[i]);
}
void braid_parmacs_pause_set(const braid_parmacs_pause* pause) {
  const void* const name = name_of(pause, "SETPAUSE");
  if (started())
    calling_process().flag_set_at(name);
  else
    early_pauses.insert(name);
}
void braid_parmacs_pause_clear(const braid_parmacs_pause* pause) {
  const void* const name = name_of(pause, "CLEARPAUSE");
  if (started())
    calling_process().flag_clear_at(name);
  else
    early_pauses.erase(name);
}
void braid_parmacs_pause_wait(const braid_parmacs_pause* pause) {
  const void* const name = name_of(pause, "WAITPAUSE");
  if (!started()) {
    if (!early_pauses.contains(name)) fail_alone("WAITPAUSE");
    return;
  }
  Node node = calling_process();
  note_wait(node);
  node.flag_wait_at(name);
}

void braid_parmacs_variable_init(volatile void* variable) {
  change_variable(variable, 0, "PAUSEINIT");
}
void braid_parmacs_variable_set(volatile void* variable) {
  change_variable(variable, 1, "SETPAUSE");
}
void braid_parmacs_variable_clear(volatile void* variable) {
  change_variable(variable, 0, "CLEARPAUSE");
}
void braid_parmacs_variable_wait(const volatile void* variable) {
  const void* const name = name_of(variable, "WAITPAUSE");
  const volatile char& byte = *static_cast<const volatile char*>(variable);
  if (!started()) {
    if (byte == 0) fail_alone("WAITPAUSE");
    return;
  }
  Node node = calling_process();
  note_wait(node);
  const LockGuardAt guard(node, name);
  while (byte == 0) node.condition_wait_at(name, name);
}

void braid_parmacs_semaphore_init(braid_parmacs_semaphore* semaphore, long value) {
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
    fail("SEMAINIT was called with {}: a semaphore begins at 0 to {}", value,
         std::numeric_limits<std::uint32_t>::max());
  name_object(semaphore->object);
  const void* const name = name_of(semaphore, "SEMAINIT");
  if (started())
    calling_process().semaphore_set_at(name, static_cast<std::uint32_t>(value));
  else
    early_semaphores[name] = static_cast<std::uint32_t>(value);
}
void braid_parmacs_semaphore_post(const braid_parmacs_semaphore* semaphore) {
  const void* const name = name_of(semaphore, "SEMAPOST");
  if (started())
    calling_process().semaphore_post_at(name);
  else
    ++early_semaphores[name];
}
void braid_parmacs_semaphore_wait(const braid_parmacs_semaphore* semaphore) {
  const void* const name = name_of(semaphore, "SEMAWAIT");
  if (started()) {
    Node node = calling_process();
    note_wait(node);
    return node.semaphore_wait_at(name);
  }
  std::uint32_t& value = early_semaphores[name];
  if (value == 0) fail_alone("SEMAWAIT");
  --value;
}

}  // extern "C"
