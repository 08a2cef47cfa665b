// The memory of a fuzzer's world: everything that is allocated while the arena is in use lies in one range, so that a
// world is built once, kept, and restored byte for byte for every input. An input sees nothing of those before it.
//
// AddressSanitizer detects accesses beyond a block and after its release here too. BRAID_FUZZ_REBUILD=1 in the
// environment builds every world anew on the ordinary heap: reports then name where a block was allocated.
//
// One thread. A world that is restored is never destroyed: descriptors and mappings of its own must be made before keep()
// (add() restores mapped memory) or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "tests/fuzz/digest.h"

namespace braid::fuzz {

class Arena {
 public:
  static Arena& instance();

  // operator new takes from the arena while one of them lives, unless worlds are rebuilt.
  class Use {
   public:
    Use();
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const bool before_;
  };
  // operator new takes from the ordinary heap while one of them lives: for what outlasts a world.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const bool before_;
  };

  // Memory outside the arena that keep() and restore() cover too, as long as the program runs.
  void add(void* begin, std::size_t bytes);
  // Makes the present blocks and their contents the state that restore() goes back to.
  void keep();
  // Releases what was allocated since keep(), and undoes every change of the rest. Without keep(): empty.
  void restore();

  static bool rebuilds();
  std::size_t kept_bytes() const { return kept_end_; }
  std::size_t used_bytes() const { return end_; }

  // For operator new and operator delete.
  void* allocate(std::size_t bytes, std::size_t alignment);
  void release(void* block);
  bool owns(const void* block) const {
    return block >= static_cast<const void*>(begin_) && block < static_cast<const void*>(begin_ + kBytes);
  }
  bool in_use() const { return in_use_; }

 private:
  static constexpr std::size_t kBytes = std::size_t{4} << 30;  // of address space
  static constexpr std::size_t kResident = std::size_t{32}
                                           << 20;  // more is given back to the system by restore()
  static constexpr std::size_t kGranule = 16;
  // Blocks of one size that are released before the first of them is used again.
  static constexpr std::uint32_t kQuarantine = 64;
  static constexpr std::size_t kSizes = 256;  // multiples of kGranule that are used again
  static constexpr std::size_t kMaxRanges = 16;
  // So many zeros in a row are memory that a world took and has not used: the system restores it.
  static constexpr std::size_t kUntouched = std::size_t{64} << 10;

  struct Queue {  // of released blocks, oldest first
    std::uint32_t count;
    std::uint32_t first;  // in granules from the beginning; 0: none
    std::uint32_t last;
  };
  struct Range {
    std::byte* begin;
    std::byte* image;
    std::size_t bytes;
  };

  Arena();
  void find_untouched();
  void* take_released(std::size_t rounded);
  void put_back(std::byte* block, std::size_t rounded);

  std::byte* begin_;
  std::size_t end_ = 0;
  std::size_t poisoned_end_ = 0;
  std::size_t kept_end_ = 0;
  std::byte* image_ = nullptr;
  Queue queues_[kSizes] = {};
  std::uint32_t* released_ = nullptr;  // kept blocks that were released since, in granules
  std::size_t released_count_ = 0;
  Range ranges_[kMaxRanges] = {};
  Range untouched_[kMaxRanges] = {};  // in order
  std::size_t untouched_count_ = 0;
  std::size_t range_count_ = 0;
  bool in_use_ = false;
};

// Calls `run` with a world as it is after its construction. A fuzzer has one type of world.
template <class World, class Run>
void with_restored(Run&& run) {
  if (Arena::rebuilds()) {
    auto world = std::make_unique<World>();
    Digest::instance().begin();
    run(*world);
    return;
  }
  static World* const kept = [] {
    { World first; }  // what is made once in a program is made now
    const Arena::Use use;
    World* const world = new World;
    Arena::instance().keep();
    return world;
  }();
  Digest::instance().begin();
  {
    const Arena::Use use;
    run(*kept);
  }
  Arena::instance().restore();
}

// Calls `run` with the arena in use; what it allocates is gone afterwards.
template <class Run>
void with_arena(Run&& run) {
  Digest::instance().begin();
  {
    const Arena::Use use;
    run();
  }
  if (!Arena::rebuilds()) Arena::instance().restore();
}

}  // namespace braid::fuzz
