// The heap of a command through which a run's secret passes: what is freed is overwritten first. So no copy stays of a message
// that had the secret: in a string that grew, in a buffer of a pipe, in a value of CBOR. Linked into the commands themselves.
#include <malloc.h>
#include <string.h>

#include <cstddef>
#include <cstdlib>
#include <new>

// The other forms, of arrays and of known sizes, call these.
void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  ::explicit_bzero(memory, ::malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  ::operator delete(memory);
}
