// Numbers of objects, and those objects that the machine has: pauses (flags) and semaphores.
//
// Before the machine is started main() is alone: locks do nothing, and what it does with pauses and semaphores is noted
// and carried out at the start.
#include <array>
#include <vector>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"

namespace braid::dsm::parmacs {

namespace {

struct Kind {
  const char* name;
  unsigned limit;
};
constexpr std::array<Kind, static_cast<unsigned>(Object::kNumber)> kKinds = {{
    {"lock", kMaxLocks},
    {"barrier", kMaxBarriers},
    {"pause", kFlags},
    {"semaphore", kBarrierSemaphores},
    {"condition variable", kOwnConditions},
    {"loop of GETSUB", kBarrierWords},
}};

// Taken before the machine was started. Every cluster has a copy of what main() had taken.
std::array<unsigned, static_cast<unsigned>(Object::kNumber)> taken_early{};
std::vector<bool> early_pauses;
std::vector<unsigned> early_semaphores;

const Kind& kind_of(Object object) {
  return kKinds[static_cast<unsigned>(object)];
}

}  // namespace

unsigned take_number(Object object, const char* name) {
  unsigned& early = taken_early[static_cast<unsigned>(object)];
  const unsigned before =
      started() ? early + static_cast<unsigned>(calling_process().fetch_add(number_word(object), 1))
                : early++;
  if (before >= kind_of(object).limit)
    fail("{}: the program uses more than {} objects of this kind ({}); initialising one again takes another",
         name, +kind_of(object).limit, kind_of(object).name);
  return before + 1;
}

unsigned index_of(unsigned number, Object object, const char* name) {
  if (number == 0 || number > kind_of(object).limit)
    fail("{} was used on a {} that was not initialised", name, kind_of(object).name);
  return number - 1;
}

void begin_objects() {
  Node main = calling_process();
  for (unsigned i = 0; i < early_pauses.size(); ++i) {
    if (early_pauses[i]) main.flag_set(i);
  }
  for (unsigned i = 0; i < early_semaphores.size(); ++i) {
    if (early_semaphores[i] > 0) main.semaphore_post(i, early_semaphores[i]);
  }
}

namespace {

[[noreturn]] void fail_alone(const char* name) {
  fail("{} waits for ever: no process was created yet that could end the wait", name);
}

unsigned& early_value(unsigned semaphore) {
  if (early_semaphores.size() <= semaphore) early_semaphores.resize(semaphore + 1);
  return early_semaphores[semaphore];
}

void set_early_pause(unsigned pause, bool to) {
  if (early_pauses.size() <= pause) early_pauses.resize(pause + 1);
  early_pauses[pause] = to;
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_pause_init(braid_parmacs_pause* pause) {
  pause->number = take_number(Object::kPause, "PAUSEINIT");
}
void braid_parmacs_pause_inits(braid_parmacs_pause* pauses, long count) {
  for (long i = 0; i < count; ++i) braid_parmacs_pause_init(&pauses[i]);
}
void braid_parmacs_pause_set(const braid_parmacs_pause* pause) {
  const unsigned index = index_of(pause->number, Object::kPause, "SETPAUSE");
  if (!started()) return set_early_pause(index, true);
  calling_process().flag_set(index);
}
void braid_parmacs_pause_clear(const braid_parmacs_pause* pause) {
  const unsigned index = index_of(pause->number, Object::kPause, "CLEARPAUSE");
  if (!started()) return set_early_pause(index, false);
  calling_process().flag_clear(index);
}
void braid_parmacs_pause_wait(const braid_parmacs_pause* pause) {
  const unsigned index = index_of(pause->number, Object::kPause, "WAITPAUSE");
  if (started()) return calling_process().flag_wait(index);
  if (index >= early_pauses.size() || !early_pauses[index]) fail_alone("WAITPAUSE");
}

void braid_parmacs_semaphore_init(braid_parmacs_semaphore* semaphore, long value) {
  semaphore->number = take_number(Object::kSemaphore, "SEMAINIT");
  if (value < 0) fail("SEMAINIT was called with {}: a semaphore begins at 0 or above", value);
  const unsigned index = semaphore->number - 1;
  if (!started())
    early_value(index) = static_cast<unsigned>(value);
  else if (value > 0)
    calling_process().semaphore_post(index, static_cast<std::uint32_t>(value));
}
void braid_parmacs_semaphore_post(const braid_parmacs_semaphore* semaphore) {
  const unsigned index = index_of(semaphore->number, Object::kSemaphore, "SEMAPOST");
  if (started())
    calling_process().semaphore_post(index);
  else
    ++early_value(index);
}
void braid_parmacs_semaphore_wait(const braid_parmacs_semaphore* semaphore) {
  const unsigned index = index_of(semaphore->number, Object::kSemaphore, "SEMAWAIT");
  if (started()) return calling_process().semaphore_wait(index);
  if (early_value(index) == 0) fail_alone("SEMAWAIT");
  --early_value(index);
}

}  // extern "C"
