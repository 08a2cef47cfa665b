// The blocks of shared memory that one cluster has allocated, and the pages that it has for more: how shared_malloc()
// (dsm/api.h) divides memory. The tables are private, and nothing here touches shared memory: addresses are numbers. A caller
// with several threads calls it under a lock.
//
// Small blocks, of one of a few sizes, share a page with others of their size. A large one has whole pages. The first
// bytes of each such run of pages are for the caller's header, from which another cluster learns whose block it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace braid::dsm {

class Blocks {
 public:
  // Of these tables: pages of the machine have one or more of these.
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kHeaderBytes = 64;
  // Larger blocks have whole pages: they begin behind the header, and from kAlignedBytes on at the next page.
  static constexpr std::size_t kLargestSmall = 2016;
  static constexpr std::size_t kAlignedBytes = 32u << 10;

  // The address of the header of a block at `block`.
  static std::uintptr_t header_of(std::uintptr_t block) {
    return block % kPage == 0 ? block - kPage : block - block % kPage;
  }
  // The pages that a block of so many bytes may need at most. `aligned_from`: as of take().
  static std::size_t pages_for(std::size_t bytes, std::size_t aligned_from = kAlignedBytes);

  struct Taken {
    std::uintptr_t block = 0;
    std::size_t bytes = 0;  // that it has room for
    // Its header is still to be written. Others may take blocks of the same pages only after publish().
    bool fresh = false;
    // Its pages have had no other blocks since add_pages(). Of a small one: false.
    bool untouched = false;
  };
  // Blocks from `aligned_from` bytes on, of those that have whole pages, begin on a page. nullopt: there are not enough
  // pages; add_pages().
  std::optional<Taken> take(std::size_t bytes, std::size_t aligned_from = kAlignedBytes);
  // The header of a fresh block is written.
  void publish(std::uintptr_t block);
  // Pages that nobody has written.
  void add_pages(std::uintptr_t first, std::size_t count) { untouched_.add(first, count); }

  enum class Given : std::uint8_t { kYes, kFreeAlready, kUnknown };
  Given give(std::uintptr_t block);
  // The room of a block that is in use; nullopt: it is none of these.
  std::optional<std::size_t> bytes_of(std::uintptr_t block) const;

 private:
  static constexpr std::array<std::uint16_t, 21> kSizes = {
      16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 576, 672, 800, 1008, 1344, 2016};
  static constexpr std::size_t kMostInPage = (kPage - kHeaderBytes) / 16;

  // Blocks of one size.
  struct SmallPage {
    std::uint8_t size = 0;  // index in kSizes
    bool published = false;
    std::uint16_t used = 0;
    std::array<std::uint64_t, (kMostInPage + 63) / 64> in_use{};  // a bit for each block

    std::size_t bytes() const { return kSizes[size]; }
    unsigned room() const { return static_cast<unsigned>((kPage - kHeaderBytes) / bytes()); }
    unsigned take_first_free();
    bool is_in_use(unsigned index) const { return in_use[index / 64] >> (index % 64) & 1; }
  };

  static unsigned size_index(std::size_t bytes);
  // The number of the block in its page; nullopt: no block begins there.
  static std::optional<unsigned> index_of(std::uintptr_t block, const SmallPage& page);
  // Free pages: runs that do not touch each other.
  class Runs {
   public:
    // The pages' address; 0: no run has so many.
    std::uintptr_t take(std::size_t count);
    void add(std::uintptr_t first, std::size_t count);
    // Moves all runs to `others`.
    void move_to(Runs& others);

   private:
    void erase(std::map<std::uintptr_t, std::size_t>::iterator run);

    std::map<std::uintptr_t, std::size_t> by_address_;
    std::set<std::pair<std::size_t, std::uintptr_t>> by_length_;
  };

  struct Pages {
    std::uintptr_t first = 0;  // 0: there are not enough
    bool untouched = false;
  };
  Pages take_pages(std::size_t count);

  std::unordered_map<std::uintptr_t, SmallPage> small_;  // by address of the page
  // Published pages with room, by size; the one at the lowest address is used first, so that others become empty.
  std::array<std::set<std::uintptr_t>, kSizes.size()> with_room_;
  std::unordered_map<std::uintptr_t, std::size_t> large_;  // blocks in use, and the number of their pages
  Runs used_;                                              // have had blocks; taken first
  Runs untouched_;                                         // have had none
};

}  // namespace braid::dsm
