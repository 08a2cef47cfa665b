// G_MALLOC and G_FREE. Before the machine is started: memory of main() alone that becomes shared memory. Then blocks as of
// shared_malloc() (dsm/blocks), zeroed, and on pages from a page on.
#include <cstddef>

#include "dsm/blocks/blocks.h"
#include "dsm/blocks/shared_malloc.h"
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void* braid_parmacs_allocate(size_t bytes) {
  if (!started()) return early_heap().allocate(bytes);
  return allocate_zeroed(bytes, Blocks::kPage, "G_MALLOC");
}

void braid_parmacs_free(void* memory) {
  if (started() && !early_heap().has(memory)) free_allocated(memory, "G_FREE");
}

}  // extern "C"
