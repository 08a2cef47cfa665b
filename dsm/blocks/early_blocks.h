// Blocks before the machine has started, for programs whose main() runs once: shared_malloc() and so on (dsm/api.h) divide
// memory that becomes shared memory at the same address. In cluster 0 they are blocks like any other then, and may be freed
// by every cluster.
#pragma once

#include <cstddef>
#include <optional>

namespace braid::dsm {

// Until end_early_blocks() the calls need no machine, and one thread may make them. `take` returns zeroed memory at the
// addresses of the shared heap, aligned to pages, or ends the program with a message.
void begin_early_blocks(void* (*take)(std::size_t bytes));
// The machine has started. In cluster 0 the blocks stay; the others forget them (`keep` is false), for theirs are copies of
// its tables.
void end_early_blocks(bool keep);

// The bytes that a block of this cluster or another has room for. Ends the program with a message, like shared_free(), if
// it is no block.
std::size_t shared_block_bytes(const void* memory);
// The same; nothing if no block begins there.
std::optional<std::size_t> find_shared_block_bytes(const void* memory);

}  // namespace braid::dsm
