// Calls of the C library that would change the mappings of the shared heap: its protections and contents are the runtime's
// (system_calls.h). For other memory they go on to the C library.
#include <sys/mman.h>

#include <cstdarg>
#include <cstdint>
#include <string>

#include "dsm/program/failure.h"
#include "dsm/program/shared_arguments.h"
#include "dsm/program/stack_trace.h"
#include "dsm/program/system_calls.h"

#define BRAID_EACH_REFUSED_CALL(X) \
  X(mprotect)                      \
  X(madvise)                       \
  X(mremap)

BRAID_EACH_REFUSED_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_REFUSED_CALL)
#pragma GCC diagnostic pop

[[noreturn]] void refuse(const char* call, const char* why) {
  fail("{}{} is not available for shared memory: {}", call, place_of_call().c_str(), why);
}

// Whether [memory, memory + bytes) has a byte of the heap, or of globals that are shared.
bool is_part_shared(const void* memory, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(memory);
  return bytes > 0 && any_shared(first, first + (bytes - 1));
}

}  // namespace

NamesOfCalls refused_calls() {
  return kNamesOfCalls;
}

int protect_shared(void* memory, std::size_t bytes, int protection) {
  return original().mprotect(memory, bytes, protection);
}
int advise_shared(void* memory, std::size_t bytes, int advice) {
  return original().madvise(memory, bytes, advice);
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

#pragma GCC visibility push(default)
extern "C" {

int mprotect(void* memory, std::size_t bytes, int protection) noexcept {
  if (is_part_shared(memory, bytes))
    refuse("mprotect()", "the protection of a page tells the runtime who may use it");
  return original().mprotect(memory, bytes, protection);
}
// Advice may be ignored; what gives memory back also changes its contents, in one cluster only.
int madvise(void* memory, std::size_t bytes, int advice) noexcept {
  const bool forgets = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
  if (!is_part_shared(memory, bytes)) return original().madvise(memory, bytes, advice);
  if (forgets)
    refuse("madvise() that gives memory back", "another cluster may have its contents; free() the memory");
  return 0;
}
void* mremap(void* memory, std::size_t bytes, std::size_t wanted, int flags, ...) noexcept {  // NOLINT
  std::va_list rest;
  va_start(rest, flags);
  void* const place = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  if (is_part_shared(memory, bytes) || is_part_shared(place, wanted))
    refuse("mremap()", "its addresses are the same in all clusters; allocate other memory and copy");
  return original().mremap(memory, bytes, wanted, flags, place);
}

}  // extern "C"
#pragma GCC visibility pop
