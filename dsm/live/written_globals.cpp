#include "dsm/live/written_globals.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "dsm/program/globals.h"
#include "dsm/program/page_length.h"
#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

constexpr std::size_t kMostSaved = 64u << 20;

struct Range {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
};

// Pages of the program file's writable segments, but for those that are read only after relocation.
struct Segments {
  std::vector<Range> data;    // with contents in the file
  std::vector<Range> zeroed;  // without
};

std::uintptr_t page_down(std::uintptr_t address) {
  return address & ~std::uintptr_t{kHostPageBytes - 1};
}
std::uintptr_t page_up(std::uintptr_t address) {
  return page_down(address + kHostPageBytes - 1);
}

int add_segments(dl_phdr_info* object, std::size_t, void* to) {
  Segments& segments = *static_cast<Segments*>(to);
  Range relro;
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_GNU_RELRO) continue;
    relro.first = object->dlpi_addr + header.p_vaddr;
    relro.end = page_down(relro.first + header.p_memsz);
  }
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    std::uintptr_t first = page_down(begin);
    const std::uintptr_t file_end = page_up(begin + header.p_filesz);
    const std::uintptr_t end = page_up(begin + header.p_memsz);
    if (relro.first >= begin && relro.first < end) first = std::max(first, relro.end);
    if (first < file_end) segments.data.push_back({first, file_end});
    if (std::max(first, file_end) < end) segments.zeroed.push_back({std::max(first, file_end), end});
  }
  return 1;  // the program itself comes first
}

// Whether pages have memory, of this process: a page without was never touched, or its contents are the file's.
class Presence {
 public:
  Presence() : fd_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~Presence() {
    if (fd_ >= 0) ::close(fd_);
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // Calls visit(page) for those of the range that have memory; for all if the kernel does not tell.
  template <class Visit>
  void for_each(Range range, Visit&& visit) {
    std::array<std::uint64_t, 512> entries{};
    for (std::uintptr_t at = range.first; at < range.end;) {
      const std::size_t count = std::min(entries.size(), (range.end - at) / kHostPageBytes);
      const std::size_t bytes = count * sizeof entries[0];
      const bool known =
          fd_ >= 0 && ::pread(fd_, entries.data(), bytes, static_cast<off_t>(at / kHostPageBytes * 8)) ==
                          static_cast<ssize_t>(bytes);
      for (std::size_t i = 0; i < count; ++i, at += kHostPageBytes) {
        constexpr std::uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62;
        if (!known || (entries[i] & (kPresent | kSwapped)) != 0) visit(at);
      }
    }
  }

 private:
  const int fd_;
};

// The program's pages with all that lies between its variables, which AddressSanitizer permits to functions like these only.
// Volatile: no call of memcpy() or memcmp() is made of a loop, for it would check the calls.
#define BRAID_UNCHECKED [[gnu::no_sanitize("address"), gnu::noinline]]

BRAID_UNCHECKED void copy_page(std::uintptr_t page, std::byte* to) {
  const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(page);  // NOLINT
  for (std::size_t i = 0; i < kHostPageBytes / sizeof *words; ++i)
    reinterpret_cast<volatile std::uint64_t*>(to)[i] = words[i];
}

BRAID_UNCHECKED bool page_equals(std::uintptr_t page, const std::byte* other) {
  const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(page);  // NOLINT
  for (std::size_t i = 0; i < kHostPageBytes / sizeof *words; ++i)
    if (words[i] != reinterpret_cast<const volatile std::uint64_t*>(other)[i]) return false;
  return true;
}

BRAID_UNCHECKED std::byte byte_at(std::uintptr_t address) {
  return *reinterpret_cast<const volatile std::byte*>(address);  // NOLINT
}
#undef BRAID_UNCHECKED

// Whether a symbol may be one of the program's own variables, and not of the runtime or of a library.
bool is_of_program(std::string_view name) {
  if (name.empty() || name.find('@') != std::string_view::npos) return false;
  constexpr std::string_view kOthers[] = {
      "_ZN5braid", "_ZZN5braid", "_ZZNK5braid",   "braid_",          "_ZN3fmt",   "_ZZN3fmt",
      "_ZNSt",     "_ZSt",       "_ZZNSt",        "_ZZNKSt",         "_ZGV",      "__",
      "_DYNAMIC",  "_GLOBAL_",   "_ZN9__gnu_cxx", "_ZN10__cxxabiv1", "completed."};
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

class Watch {
 public:
  void begin() {
    ::dl_iterate_phdr(add_segments, &segments_);
    Presence presence;
    for (const Range& range : segments_.data) add_pages(range.first, range.end);
    for (const Range& range : segments_.zeroed)
      presence.for_each(range, [&](std::uintptr_t page) { add_pages(page, page + kHostPageBytes); });
    saved_.resize(pages_.size() * kHostPageBytes);
    for (std::size_t i = 0; i < pages_.size(); ++i) copy_page(pages_[i], saved_.data() + i * kHostPageBytes);
    active_ = true;
  }

  WrittenGlobals end() {
    WrittenGlobals result;
    result.are_watched = active_;
    result.unwatched_bytes = unwatched_.size() * kHostPageBytes;
    if (!active_) return result;
    const std::vector<std::byte> zeros(kHostPageBytes);
    std::uintptr_t known_until = 0;
    Presence presence;
    const auto compare = [&](std::uintptr_t page) {
      if (std::binary_search(unwatched_.begin(), unwatched_.end(), page)) return;
      const auto saved = std::lower_bound(pages_.begin(), pages_.end(), page);
      const bool was_there = saved != pages_.end() && *saved == page;
      const std::byte* const before =
          was_there ? saved_.data() + static_cast<std::size_t>(saved - pages_.begin()) * kHostPageBytes
                    : zeros.data();
      if (!page_equals(page, before)) add_names(page, before, &known_until, &result);
    };
    // Both are in the order of addresses.
    for (const Range& range : segments_.data) {
      for (std::uintptr_t page = range.first; page < range.end; page += kHostPageBytes) compare(page);
    }
    for (const Range& range : segments_.zeroed) presence.for_each(range, compare);
    // Of ours there is a symbol if there are any.
    result.have_names = !data_symbol(reinterpret_cast<std::uintptr_t>(&the_globals_window)).name.empty();
    return result;
  }

 private:
  void add_pages(std::uintptr_t first, std::uintptr_t end) {
    for (; first < end; first += kHostPageBytes)
      (pages_.size() < kMostSaved / kHostPageBytes ? pages_ : unwatched_).push_back(first);
  }

  static void add_names(std::uintptr_t page, const std::byte* before, std::uintptr_t* known_until,
                        WrittenGlobals* result) {
    for (std::size_t i = 0; i < kHostPageBytes; ++i) {
      const std::uintptr_t at = page + i;
      if (at < *known_until || before[i] == byte_at(at)) continue;
      const DataSymbol symbol = data_symbol(at);
      *known_until = symbol.name.empty() ? at + 1 : symbol.first + symbol.bytes;
      if (!is_of_program(symbol.linker_name)) continue;
      if (result->names.size() < WrittenGlobals::kMostNames) {
        result->names.push_back(symbol.name);
      } else {
        ++result->more;
      }
    }
  }

  bool active_ = false;
  Segments segments_;
  std::vector<std::uintptr_t> pages_;      // whose contents are saved, in order
  std::vector<std::uintptr_t> unwatched_;  // for which there is no room, in order
  std::vector<std::byte> saved_;
};

// Not destroyed: a run may end while threads go on.
Watch& watch() {
  static Watch& only = *new Watch;
  return only;
}

}  // namespace

void watch_globals() {
  if (globals_window().pages == 0) watch().begin();
}

WrittenGlobals written_globals() {
  return watch().end();
}

}  // namespace braid::dsm
