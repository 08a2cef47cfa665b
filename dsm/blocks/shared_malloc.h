// shared_malloc() (dsm/api.h) for calls that are built on it.
#pragma once

#include <cstddef>

namespace braid::dsm {

// As shared_calloc() for one element, but blocks of `aligned_from` bytes and more, at least 2 KiB, begin on a page. `call`:
// the program's, for messages.
void* allocate_zeroed(std::size_t bytes, std::size_t aligned_from, const char* call);
// As shared_free().
void free_allocated(void* memory, const char* call);

}  // namespace braid::dsm
