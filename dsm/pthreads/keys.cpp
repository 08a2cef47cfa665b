// Thread-specific keys. Keys and destructors are shared; values belong to threads, and so stay private.
#include <errno.h>
#include <limits.h>

#include <array>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// A key's number is not used again, so the values of a deleted one are never another's.
constinit thread_local std::array<const void*, kMaxKeys> values __attribute__((tls_model("initial-exec"))){};

}  // namespace

void run_key_destructors() {
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
    bool any = false;
    for (std::uint32_t key = 0; key < kMaxKeys; ++key) {
      const void* const value = values[key];
      if (value == nullptr) continue;
      values[key] = nullptr;
      const Key k = on_private([=] {
        const Guard guard(kNumbersLock);
        return &shared().keys[key];
      })[0];
      if (!k.used || k.destructor == nullptr) continue;
      k.destructor(const_cast<void*>(value));
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
    if (all.key_count == kMaxKeys) return kMaxKeys;
    all.keys[all.key_count] = {true, destructor};
    return unsigned{all.key_count++};
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
  return key < kMaxKeys ? const_cast<void*>(values[key]) : nullptr;
}

int WRAPPED(pthread_setspecific)(pthread_key_t key, const void* value) {
  if (key >= kMaxKeys) return EINVAL;
  values[key] = value;
  return 0;
}

}  // extern "C"
