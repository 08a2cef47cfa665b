// Thread-local variables of the program, in shared memory: a thread may give the address of one to threads of other clusters. The compiler
// plug-in has GCC make calls for them, as for systems that have no thread-local memory; the C library's and other libraries' stay
// the system's.
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/stacks.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// GCC's description of a variable: struct __emutls_object of libgcc's emutls.c.
struct Variable {
  std::size_t bytes;
  std::size_t alignment;
  void* unused;
  const void* initial;  // nullptr: zeros
};

// The calling thread's variables that it has used, by the address of their description: a table of a power of two of places, at
// most half of them in use. Zeros at a thread's begin, in simulation too.
struct Known {
  const Variable* variable;
  void* memory;
};
struct Table {
  Known* places;
  std::size_t room;
  std::size_t used;
};
constinit thread_local Table table __attribute__((tls_model("initial-exec"))){};

std::size_t first_place(const Variable* variable, std::size_t room) {
  return (reinterpret_cast<std::uintptr_t>(variable) * 0x9e37'79b9'7f4a'7c15u >> 32) & (room - 1);
}

Known& place_of(const Variable* variable, const Table& in) {
  std::size_t at = first_place(variable, in.room);
  while (in.places[at].variable != nullptr && in.places[at].variable != variable)
    at = (at + 1) & (in.room - 1);
  return in.places[at];
}

void grow() {
  Table larger{nullptr, std::max<std::size_t>(16, 2 * table.room), table.used};
  larger.places = static_cast<Known*>(::calloc(larger.room, sizeof(Known)));
  if (larger.places == nullptr) ::abort();
  for (std::size_t i = 0; i < table.room; ++i)
    if (table.places[i].variable != nullptr) place_of(table.places[i].variable, larger) = table.places[i];
  ::free(table.places);
  table = larger;
}

// The description is read on the caller's stack: it is the program's, and so in shared memory.
[[gnu::noinline]] void* make(const Variable* variable) {
  const Variable read = *variable;
  const std::size_t bytes = std::max<std::size_t>(read.bytes, 1);
  void* const memory =
      read.alignment <= 16 ? WRAPPED(calloc)(1, bytes) : WRAPPED(aligned_alloc)(read.alignment, bytes);
  if (memory == nullptr) ::abort();
  if (read.initial != nullptr)
    ::memcpy(memory, read.initial, read.bytes);
  else if (read.alignment > 16)
    ::memset(memory, 0, read.bytes);
  on_private([=] {
    if (2 * (table.used + 1) > table.room) grow();
    place_of(variable, table) = {variable, memory};
    ++table.used;
  });
  return memory;
}

}  // namespace

void free_thread_variables() {
  for (std::size_t i = 0; i < table.room; ++i)
    if (table.places[i].variable != nullptr) WRAPPED(free)(table.places[i].memory);
  ::free(table.places);
  table = {};
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

// The calling thread's copy of a variable.
void* __emutls_get_address(Variable* variable) {  // NOLINT
  if (table.room != 0) {
    const Known& known = place_of(variable, table);
    if (known.variable != nullptr) return known.memory;
  }
  return make(variable);
}

}  // extern "C"
