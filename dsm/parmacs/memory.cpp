// G_MALLOC and G_FREE. Before the machine is started: memory of main() alone that becomes shared memory. Then blocks as of
// shared_malloc() (dsm/blocks), zeroed, and on pages from a page on. free() and realloc() of the program: by the address.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dsm/blocks/blocks.h"
#include "dsm/blocks/shared_malloc.h"
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"

namespace braid::dsm::parmacs {

namespace {

struct EarlyBlock {
  const void* begin;
  std::size_t bytes;
};

// From before the machine was started, by address. Every cluster has a copy. Never destroyed: handlers of exit() may ask.
std::vector<EarlyBlock>& early_blocks() {
  static auto* const all = new std::vector<EarlyBlock>;
  return *all;
}

const EarlyBlock& early_block_at(const void* memory, const char* call) {
  const std::vector<EarlyBlock>& all = early_blocks();
  const auto block = std::lower_bound(all.begin(), all.end(), memory,
                                      [](const EarlyBlock& b, const void* m) { return b.begin < m; });
  if (block == all.end() || block->begin != memory)
    fail("{}: {} is no block that G_MALLOC has returned", call, memory);
  return *block;
}

// Whether the address is of shared memory, other than globals.
bool is_shared(const void* memory) {
  if (!started()) return early_heap().has(memory);
  static const std::size_t heap_bytes = [] {
    const Host* const host = current_host();
    return host != nullptr ? host->shape().heap_bytes() : 0;
  }();
  return reinterpret_cast<std::uintptr_t>(memory) - kHeapAddress < heap_bytes;
}

void release(void* memory, const char* call) {
  if (started() && !early_heap().has(memory)) free_allocated(memory, call);
}

void* reallocate_early(void* memory, std::size_t bytes) {
  const EarlyBlock& block = early_block_at(memory, "realloc()");
  if (bytes == 0) return nullptr;
  if (bytes <= block.bytes) return memory;
  const std::size_t kept = block.bytes;
  return std::memcpy(braid_parmacs_allocate(bytes), memory, kept);
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void* braid_parmacs_allocate(size_t bytes) {
  if (started()) return allocate_zeroed(bytes, Blocks::kPage, "G_MALLOC");
  void* const memory = early_heap().allocate(std::max<std::size_t>(bytes, 1));  // one of its own
  early_blocks().push_back({.begin = memory, .bytes = bytes});
  return memory;
}

void braid_parmacs_free(void* memory) {
  release(memory, "G_FREE");
}

void braid_parmacs_free_any(void* memory) {
  if (!is_shared(memory)) return ::free(memory);
  // Children of fork() and handlers of exit() free what they have a pointer to; there is nothing left to give it back to.
  if (!started() || (current_host() != nullptr && !is_forked_child())) release(memory, "free()");
}

void* braid_parmacs_reallocate_any(void* memory, size_t bytes) {
  if (!is_shared(memory)) return ::realloc(memory, bytes);
  return early_heap().has(memory) ? reallocate_early(memory, bytes) : shared_realloc(memory, bytes);
}

}  // extern "C"
