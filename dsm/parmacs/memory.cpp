// G_MALLOC and G_FREE. Before the machine is started: memory of main() alone that becomes shared memory. Then each process
// takes large pieces of the shared heap and divides them, because a call of the heap costs a message to every cluster.
//
// A cluster knows its blocks by tables in private memory, so no call of G_FREE costs a message. A freed block serves any
// process of its cluster. The order of the program's own accesses is enough for that: whoever frees a block has
// synchronised with all who used it, copies of pages and the changes to them belong to clusters, and so a later write of
// this cluster follows all of theirs.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"

namespace braid::dsm::parmacs {

namespace {

constexpr std::size_t kPieceBytes = 256u << 10;
constexpr std::size_t kLargeBytes = 4096;  // a page: such blocks begin on a page

struct Piece {
  std::byte* next = nullptr;
  std::size_t left = 0;
};
// A compute node is a thread.
thread_local Piece piece;

std::byte* take(std::size_t bytes) {
  return static_cast<std::byte*>(calling_process().allocate_bytes(bytes, Placement::first_touch()));
}

// Sizes of blocks: small ones are multiples of 16, large ones of a page.
std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes < kLargeBytes ? 16 : kLargeBytes;
  return bytes == 0 ? unit : round_up(bytes, unit);
}

// The blocks that this cluster has allocated. Touches private memory only, so that its lock is held for moments.
class Blocks {
 public:
  // nullptr: none is free that fits.
  std::byte* reuse(std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    auto& free = free_[bytes >= kLargeBytes];
    const std::size_t size = rounded(bytes);
    const auto fit = free.lower_bound(size);
    if (fit == free.end() || fit->first > most(size)) return nullptr;
    std::byte* const block = fit->second.back();
    fit->second.pop_back();
    if (fit->second.empty()) free.erase(fit);
    blocks_[block].free = false;
    return block;
  }
  void add(std::byte* block, std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    blocks_[block] = {.bytes = rounded(bytes), .large = bytes >= kLargeBytes};
  }
  void free(std::byte* block) {
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;  // another cluster's
    Block& b = found->second;
    if (b.free)
      fail("G_FREE({:#x}): this block is free already; free it once only",
           reinterpret_cast<std::uintptr_t>(block));
    b.free = true;
    free_[b.large][b.bytes].push_back(block);
  }

 private:
  struct Block {
    std::size_t bytes = 0;
    bool large = false;
    bool free = false;
  };
  // Large blocks are not divided: a block serves requests of nearly its size.
  static std::size_t most(std::size_t size) { return size < kLargeBytes ? size : size + size / 4; }

  std::mutex mutex_;
  std::unordered_map<std::byte*, Block> blocks_;
  std::map<std::size_t, std::vector<std::byte*>> free_[2];  // by size; small ones, large ones
};

// Never destroyed: other threads may run when main() has ended.
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

std::byte* take_block(std::size_t bytes) {
  if (bytes >= kLargeBytes) return take(bytes);
  const std::size_t size = rounded(bytes);
  if (piece.left < size) piece = {take(kPieceBytes), kPieceBytes};
  std::byte* const block = piece.next;
  piece.next += size;
  piece.left -= size;
  return block;
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void* braid_parmacs_allocate(size_t bytes) {
  if (!started()) return early_heap().allocate(bytes);
  if (bytes > SIZE_MAX / 2) return take(bytes);  // ends the program with a message
  if (std::byte* const block = blocks().reuse(bytes)) return std::memset(block, 0, bytes);
  std::byte* const block = take_block(bytes);
  blocks().add(block, bytes);
  return block;
}

void braid_parmacs_free(void* memory) {
  if (started() && memory != nullptr) blocks().free(static_cast<std::byte*>(memory));
}

}  // extern "C"
