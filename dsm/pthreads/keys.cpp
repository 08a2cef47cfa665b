// Thread-specific keys. Keys and destructors are shared; values belong to threads, and so stay private.
#include <errno.h>
#include <limits.h>

#include <algorithm>
#include <array>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// A deleted key's number is used again, but its values are never another's.
struct Value {
  const void* value;
  std::uint32_t generation;
};
constinit thread_local std::array<Value, kMaxKeys> values __attribute__((tls_model("initial-exec"))){};

bool is_of(const Key& key, const Value& value) {
  return key.used && key.generation == value.generation;
}

// With kNumbersLock. kMaxKeys: all are used.
unsigned take_key(Shared& all) {
  const auto end = all.keys.begin() + all.key_count;
  const auto found = std::find_if(all.keys.begin(), end, [](const Key& key) { return !key.used; });
  const auto number = static_cast<unsigned>(found - all.keys.begin());
  if (found == end && number < kMaxKeys) ++all.key_count;
  return number;
}

}  // namespace

void run_key_destructors() {
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
    bool any = false;
    for (std::uint32_t key = 0; key < kMaxKeys; ++key) {
      const Value value = values[key];
      if (value.value == nullptr) continue;
      values[key] = {};
      const Key k = on_private([=] {
        const Guard guard(kNumbersLock);
        return &shared().keys[key];
      })[0];
      if (!is_of(k, value) || k.destructor == nullptr) continue;
      k.destructor(const_cast<void*>(value.value));
      any = true;
    }
    if (!any) return;
  }
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(pthread_key_create)(pthread_key_t* key, void (*destructor)(void*)) {
  const auto number = on_private([=] {
    const Guard guard(kNumbersLock);
    Shared& all = shared();
    const unsigned taken = take_key(all);
    if (taken < kMaxKeys) all.keys[taken] = {true, all.keys[taken].generation + 1, destructor};
    return taken;
  });
  if (number == kMaxKeys) return EAGAIN;
  *key = number;
  return 0;
}

int WRAPPED(pthread_key_delete)(pthread_key_t key) {
  return on_private([=] {
    const Guard guard(kNumbersLock);
    if (key >= kMaxKeys || !shared().keys[key].used) return EINVAL;
    shared().keys[key].used = false;
    return 0;
  });
}

void* WRAPPED(pthread_getspecific)(pthread_key_t key) {
  if (key >= kMaxKeys || values[key].value == nullptr) return nullptr;
  return is_of(shared().keys[key], values[key]) ? const_cast<void*>(values[key].value) : nullptr;
}

int WRAPPED(pthread_setspecific)(pthread_key_t key, const void* value) {
  if (key >= kMaxKeys || !shared().keys[key].used) return EINVAL;
  values[key] = {value, shared().keys[key].generation};
  return 0;
}

}  // extern "C"
