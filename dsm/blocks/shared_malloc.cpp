// shared_malloc(), shared_free() and so on (dsm/api.h). A cluster divides pieces of the shared heap by private tables, so a
// call sends a message only when it takes a new piece. Blocks of another cluster are collected and handed over in batches,
// through a mailbox in shared memory, under the runtime's own lock: so whatever was done with a block before it
// was freed is visible where it is used again. In its own cluster the order of the program is enough: whoever frees a block
// has synchronised with all who used it, copies of pages and the changes to them belong to clusters, and a later write of the
// cluster follows all of theirs.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsm/api.h"
#include "dsm/blocks/blocks.h"
#include "dsm/blocks/early_blocks.h"
#include "dsm/blocks/shared_malloc.h"
#include "dsm/braid_dsm.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

// Freed blocks on the way to their cluster. Changed with the runtime's own lock only.
struct Mailbox {
  static constexpr std::size_t kPages = 16;
  static constexpr std::size_t kRoom = kPages * Blocks::kPage / 8 - 1;
  std::uint64_t count;
  std::uintptr_t blocks[kRoom];
};
static_assert(sizeof(Mailbox) == Mailbox::kPages * Blocks::kPage);

// At the beginning of pages with blocks.
struct Header {
  std::uint64_t mark;  // by which a page with blocks is known
  std::uint64_t bytes;
  std::uint64_t owner;
  Mailbox* mailbox;  // the owner's
};
static_assert(sizeof(Header) <= Blocks::kHeaderBytes);

std::uint64_t mark_at(std::uintptr_t header) {
  return 0x6272'6169'645f'6d65 ^ (std::uint64_t{header} << 13);
}

// A new piece of the heap has so many pages of the tables (blocks.h), or as many as are free. Pages of the machine may be
// longer; a piece has whole ones.
constexpr std::size_t kPiecePages = 256;
// A batch is handed over when it has so many blocks, or so many bytes.
constexpr std::size_t kBatchBlocks = 64;
constexpr std::size_t kBatchBytes = 256u << 10;

struct Batch {
  Mailbox* mailbox = nullptr;
  std::vector<std::uintptr_t> blocks;
  std::size_t bytes = 0;
  std::size_t enough = kBatchBlocks;
};

// This cluster's blocks, and those of others that it frees. The lock is never held while shared memory is touched or the
// machine is called: another compute node of the cluster could then wait for both, and in simulation they are one thread.
struct State {
  std::mutex mutex;
  Blocks blocks;
  Mailbox* mailbox = nullptr;                        // this cluster's
  std::unordered_map<std::uint64_t, Batch> batches;  // by owner
};

// Never destroyed: compute nodes may run when main() has ended.
State*& the_state() {
  static State* all = new State;
  return all;
}
State& state() {
  return *the_state();
}

// Where memory comes from before the machine has started (early_blocks.h); nullptr: it has, or the program has no such time.
void* (*take_early)(std::size_t bytes) = nullptr;

// The compute node that calls. Early it is none, and there is no host.
struct Caller {
  Host* host = nullptr;
  unsigned local = 0;

  unsigned cluster() const { return host == nullptr ? 0 : host->shape().cluster; }
};

// The cluster's tables while it lives. Which block a node gets depends on what others did before.
class Tables {
 public:
  explicit Tables(const Caller& caller) {
    if (caller.host != nullptr) caller.host->keep_order();
    state().mutex.lock();
  }
  ~Tables() { state().mutex.unlock(); }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
};

Caller caller_of(const char* call) {
  if (take_early != nullptr) return {};
  const unsigned local = calling_node(call, ": there, memory is allocated by allocate()");
  return {&joined_host(call), local};
}

// Has the runtime's own lock while it lives.
class OwnLock {
 public:
  explicit OwnLock(const Caller& caller) : caller_(caller) {
    if (caller.host != nullptr) caller.host->lock(caller.local, kOwnLock);
  }
  ~OwnLock() {
    if (caller_.host != nullptr) caller_.host->unlock(caller_.local, kOwnLock);
  }
  OwnLock(const OwnLock&) = delete;
  OwnLock& operator=(const OwnLock&) = delete;

 private:
  const Caller& caller_;
};

// `place`: where the program has freed it, if that is known.
[[noreturn]] void fail_for_second_free(const char* call, std::uintptr_t block,
                                       const std::string& place = {}) {
  fail("{}{}: the block {:#x} is free already; free it once only", call, place.c_str(), block);
}

// Takes back what other clusters have freed. False: nothing.
bool collect(const Caller& caller, const char* call) {
  State& all = state();
  Mailbox* mailbox = nullptr;
  {
    const Tables tables(caller);
    mailbox = all.mailbox;
  }
  if (mailbox == nullptr) return false;
  std::vector<std::uintptr_t> freed;
  {
    const OwnLock lock(caller);
    freed.assign(mailbox->blocks, mailbox->blocks + std::min<std::uint64_t>(mailbox->count, Mailbox::kRoom));
    if (!freed.empty()) mailbox->count = 0;
  }
  const Tables tables(caller);
  for (const std::uintptr_t block : freed)
    if (all.blocks.give(block) != Blocks::Given::kYes) fail_for_second_free(call, block);
  return !freed.empty();
}

// More pages of the shared heap; ends the program with a message if there are not enough.
void take_piece(const Caller& caller, std::size_t bytes, std::size_t aligned_from) {
  State& all = state();
  bool first = false;
  {
    const Tables tables(caller);
    first = all.mailbox == nullptr;
  }
  const auto take = [&](std::size_t wanted) {
    return caller.host == nullptr ? take_early(wanted)
                                  : Node(caller.local).allocate_bytes(wanted, Placement::first_touch());
  };
  Mailbox* mailbox = nullptr;
  if (first) mailbox = static_cast<Mailbox*>(take(sizeof *mailbox));
  // Of a heap that is almost full other clusters need a part, too.
  const std::size_t fair = caller.host == nullptr
                               ? kPiecePages
                               : caller.host->shape().page_length.bytes_of(caller.host->free_pages()) /
                                     Blocks::kPage / (2 * std::size_t{caller.host->shape().clusters});
  const std::size_t pages = std::max(Blocks::pages_for(bytes, aligned_from), std::min(kPiecePages, fair));
  const auto piece = reinterpret_cast<std::uintptr_t>(take(pages * Blocks::kPage));
  const Tables tables(caller);
  if (all.mailbox == nullptr)
    all.mailbox = mailbox;
  else if (first)  // another compute node was quicker
    all.blocks.add_pages(reinterpret_cast<std::uintptr_t>(mailbox), Mailbox::kPages);
  all.blocks.add_pages(piece, pages);
}

struct Contents {
  bool zeroed = false;
  std::size_t aligned_from = Blocks::kAlignedBytes;  // as of Blocks::take()
};

void* allocate_block(const Caller& caller, std::size_t bytes, const char* call,
                     const Contents& contents = {}) {
  State& all = state();
  // A heap has less: allocate() says so, and how to raise it.
  if (caller.host == nullptr ? bytes > SIZE_MAX / 2 : bytes > caller.host->shape().heap_bytes())
    return caller.host == nullptr ? take_early(bytes) : Node(caller.local).allocate_bytes(bytes);
  for (bool collected = true;;) {
    std::optional<Blocks::Taken> taken;
    Mailbox* mailbox = nullptr;
    {
      const Tables tables(caller);
      taken = all.blocks.take(bytes, contents.aligned_from);
      mailbox = all.mailbox;
    }
    if (taken) {
      if (taken->fresh) {
        const std::uintptr_t at = Blocks::header_of(taken->block);
        *reinterpret_cast<Header*>(at) = {// NOLINT
                                          .mark = mark_at(at),
                                          .bytes = taken->bytes,
                                          .owner = caller.cluster(),
                                          .mailbox = mailbox};
        const Tables tables(caller);
        all.blocks.publish(taken->block);
      }
      if (caller.host != nullptr) caller.host->begin_again(taken->block, taken->bytes);
      void* const memory = reinterpret_cast<void*>(taken->block);  // NOLINT
      // Pages that nobody has touched are zeros, and go to the cluster that touches them first.
      if (contents.zeroed && !taken->untouched) std::memset(memory, 0, bytes);
      return memory;
    }
    collected = collected && collect(caller, call);
    if (!collected) take_piece(caller, bytes, contents.aligned_from);
  }
}

// The header of another cluster's block; nullptr if there is none.
const Header* find_header_of_foreign(const Caller& caller, std::uintptr_t block) {
  const std::uint32_t allocated =
      caller.host == nullptr ? 0 : caller.host->shape().heap_pages - caller.host->free_pages();
  const std::uintptr_t at = Blocks::header_of(block);
  if (!in_heap(block, allocated) || !in_heap(at, allocated) || block % 16 != 0) return nullptr;
  const auto* const header = reinterpret_cast<const Header*>(at);  // NOLINT
  return header->mark == mark_at(at) && header->owner != caller.cluster() ? header : nullptr;
}

// Ends the program with a message if there is none.
const Header& header_of_foreign(const Caller& caller, std::uintptr_t block, const char* call) {
  const Header* const header = find_header_of_foreign(caller, block);
  if (header == nullptr)
    fail("{}{}: {:#x} is no block that malloc() of shared memory has returned", call, place_of_call().c_str(),
         block);
  return *header;
}

// Hands over as much of the batch as there is room for; the rest stays.
void hand_over(const Caller& caller, Batch& batch) {
  const OwnLock lock(caller);
  Mailbox& mailbox = *batch.mailbox;
  const std::uint64_t had = mailbox.count;
  const std::size_t count = std::min<std::size_t>(batch.blocks.size(), Mailbox::kRoom - had);
  std::copy_n(batch.blocks.end() - static_cast<std::ptrdiff_t>(count), count, mailbox.blocks + had);
  if (count > 0) mailbox.count = had + count;
  batch.blocks.resize(batch.blocks.size() - count);
}

void free_foreign(const Caller& caller, std::uintptr_t block, const char* call) {
  State& all = state();
  const Header header = header_of_foreign(caller, block, call);
  Batch full;
  {
    const Tables tables(caller);
    Batch& batch = all.batches[header.owner];
    batch.blocks.push_back(block);
    batch.bytes += header.bytes;
    if (batch.blocks.size() < batch.enough && batch.bytes < kBatchBytes) return;
    std::swap(full, batch);
  }
  full.mailbox = header.mailbox;
  hand_over(caller, full);
  const Tables tables(caller);
  Batch& batch = all.batches[header.owner];
  batch.blocks.insert(batch.blocks.end(), full.blocks.begin(), full.blocks.end());
  // A mailbox that is full is not tried again with every block.
  batch.enough = std::max(kBatchBlocks, 2 * batch.blocks.size());
}

void free_block(const Caller& caller, void* memory, const char* call) {
  State& all = state();
  const auto block = reinterpret_cast<std::uintptr_t>(memory);
  Blocks::Given given;
  {
    const Tables tables(caller);
    given = all.blocks.give(block);
  }
  if (given == Blocks::Given::kFreeAlready) fail_for_second_free(call, block, place_of_call());
  if (given == Blocks::Given::kUnknown) free_foreign(caller, block, call);
}

std::optional<std::size_t> own_room_of(const Caller& caller, std::uintptr_t block) {
  const Tables tables(caller);
  return state().blocks.bytes_of(block);
}

std::size_t room_of(const Caller& caller, std::uintptr_t block, const char* call) {
  const std::optional<std::size_t> room = own_room_of(caller, block);
  return room ? *room : header_of_foreign(caller, block, call).bytes;
}

}  // namespace

void begin_early_blocks(void* (*take)(std::size_t bytes)) {
  take_early = take;
}

void end_early_blocks(bool keep) {
  take_early = nullptr;
  if (!keep) the_state() = new State;
}

std::size_t shared_block_bytes(const void* memory) {
  constexpr auto kCall = "malloc_usable_size() of shared memory";
  return room_of(caller_of(kCall), reinterpret_cast<std::uintptr_t>(memory), kCall);
}

std::optional<std::size_t> find_shared_block_bytes(const void* memory) {
  const Caller caller = caller_of("munmap() of shared memory");
  const auto block = reinterpret_cast<std::uintptr_t>(memory);
  if (const std::optional<std::size_t> room = own_room_of(caller, block)) return room;
  const Header* const header = find_header_of_foreign(caller, block);
  return header == nullptr ? std::nullopt : std::optional<std::size_t>(header->bytes);
}

void* shared_malloc(std::size_t bytes) {
  constexpr auto kCall = "malloc() of shared memory";
  return allocate_block(caller_of(kCall), bytes, kCall);
}

void* shared_calloc(std::size_t count, std::size_t element_bytes) {
  constexpr auto kCall = "calloc() of shared memory";
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes))
    fail("{} was called for {} elements of {} bytes: that exceeds the address space", kCall, count,
         element_bytes);
  return allocate_block(caller_of(kCall), bytes, kCall, {.zeroed = true});
}

void* allocate_zeroed(std::size_t bytes, std::size_t aligned_from, const char* call) {
  return allocate_block(caller_of(call), bytes, call, {.zeroed = true, .aligned_from = aligned_from});
}

void free_allocated(void* memory, const char* call) {
  if (memory != nullptr) free_block(caller_of(call), memory, call);
}

void* shared_realloc(void* memory, std::size_t bytes) {
  constexpr auto kCall = "realloc() of shared memory";
  const Caller caller = caller_of(kCall);
  if (memory == nullptr) return allocate_block(caller, bytes, kCall);
  if (bytes == 0) {
    free_block(caller, memory, kCall);
    return nullptr;
  }
  const std::size_t room = room_of(caller, reinterpret_cast<std::uintptr_t>(memory), kCall);
  if (bytes <= room && bytes > room / 2) return memory;
  void* const moved = allocate_block(caller, bytes, kCall);
  std::memcpy(moved, memory, std::min(bytes, room));
  free_block(caller, memory, kCall);
  return moved;
}

void shared_free(void* memory) {
  constexpr auto kCall = "free() of shared memory";
  if (memory != nullptr) free_block(caller_of(kCall), memory, kCall);
}

}  // namespace braid::dsm

extern "C" {

void* braid_malloc(size_t bytes) {
  return braid::dsm::shared_malloc(bytes);
}
void* braid_calloc(size_t count, size_t element_bytes) {
  return braid::dsm::shared_calloc(count, element_bytes);
}
void* braid_realloc(void* memory, size_t bytes) {
  return braid::dsm::shared_realloc(memory, bytes);
}
void braid_free(void* memory) {
  braid::dsm::shared_free(memory);
}

}  // extern "C"
