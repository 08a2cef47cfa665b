// The shared heap of one cluster: one memfd mapped twice.
//
//   view          where it is mapped                        access                         used by
//   application   the same in every cluster (heap.h)        as the page protocol sets it      compute nodes
//   alias         anywhere                                  always readable and writable   the runtime alone
//
// A page is filled through the alias before any compute node may access it, so no node reads half a page.
//
// Two methods forbid accesses, behind one interface. mprotect() always works, and splits the view into a
// mapping for every run of equal protection, of which a process may have vm.max_map_count (65,530 unless
// raised: 256 MiB where neighbours always differ). userfaultfd keeps protections in the page table, has no
// such limit, and needs Linux 6.4. A forbidden access raises SIGSEGV with mprotect(), SIGBUS with userfaultfd.
//
// A child of fork() has neither view: its access is a SIGSEGV at an address without a mapping.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/zeroed_table.h"
#include "dsm/engine/types.h"
#include "dsm/program/heap.h"

namespace braid::dsm {

enum class Protection : std::uint8_t { kMprotect, kUserfaultfd };
const char* to_string(Protection protection);

class Memory final : public PageMemory {
 public:
  // The application view starts inaccessible, and without the pages of the program's globals (open_globals()); there must
  // be more pages than those. An error names what the kernel lacks.
  static Result<Memory> make(std::uint32_t pages, Protection protection);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory() override;

  // Replaces the program's globals by their pages of the heap, which have the same contents. Until then their
  // protections are noted only. The destructor makes them private memory again, with the contents that this cluster has.
  Result<void> open_globals();

  // Ends the process with a message when the kernel cannot keep so many different protections apart
  // (kMprotect): the program cannot continue, and a fault cannot be refused. Allocates
  // nothing.
  void protect(PageId first, std::uint32_t count, Access access) override;
  // Under userfaultfd pages without access stay hidden, and take no memory, until reveal().
  void protect_later(PageId first, std::uint32_t count, Access access) override;
  // Shows the page if this access to it is allowed and it is hidden; false: it is not. Where the page before it
  // is shown, the next ones are shown with it. Allocates nothing.
  bool reveal(PageId page, bool write);
  std::byte* page(PageId page) override { return alias_ + page_length().bytes_of(page.value()); }
  // Allocates the page's memory, if it has none, and prefetches it; changes no byte. Any thread, whatever others
  // do with the page.
  void warm(PageId page);

  std::uint32_t pages() const { return pages_; }
  // The descriptor that must stay open for accesses to be forbidden; -1: none is needed (kMprotect).
  int descriptor() const { return userfaultfd_; }
  Protection protection() const {
    return userfaultfd_ < 0 ? Protection::kMprotect : Protection::kUserfaultfd;
  }

 private:
  // The memory's file, which is mapped again for the globals.
  struct File {
    int fd = -1;
    dev_t device = 0;
    ino_t number = 0;
    // Whether the descriptor is still the file's: the program may have closed it.
    bool is_open() const;
  };

  // The access that compute nodes have to a page, and whether the view shows it. Hidden: the first access faults.
  enum class View : std::uint8_t { kNone, kRead, kWrite, kHiddenRead, kHiddenWrite };

  Memory(std::byte* alias, std::uint32_t pages) : alias_(alias), pages_(pages) {}
  Result<void> use_userfaultfd();
  Result<void> forbid(PageId first, std::uint32_t count) const;
  void keep_for_globals(int fd);
  void close_globals();
  static bool hidden(View view) { return view >= View::kHiddenRead; }
  static Access access_of(View view);
  template <class Next>
  void change(PageId first, std::uint32_t count, Access access, Next&& next);
  void note(PageId first, std::uint32_t count, Access access);
  void change_run(std::uint32_t first, std::uint32_t count, View from, View to);
  void forget(std::uint32_t first, std::uint32_t count);
  void show(std::uint32_t first, std::uint32_t count, View to);

  std::byte* alias_ = nullptr;
  std::uint32_t pages_ = 0;
  int userfaultfd_ = -1;
  File file_;                         // while there are globals
  std::uint32_t closed_globals_ = 0;  // pages that are not mapped yet
  ZeroedTable<View> views_;           // by page; kMprotect: of closed globals only
};

}  // namespace braid::dsm
