#include "dsm/program/globals.h"

#include <link.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>

#include "base/system_error.h"
#include "dsm/program/failure.h"
#include "dsm/program/page_length.h"

// Of the linker script; without it they have no address.
extern "C" {
[[gnu::weak]] extern std::byte braid_globals_begin[];
[[gnu::weak]] extern std::byte braid_globals_end[];
}

namespace braid::dsm {

constinit GlobalsWindow the_globals_window;
constinit PageLength the_page_length;

namespace {

constinit bool is_main_once = false;

// Invalid texts are refused by who reads the other variables.
void read_page_length() {
  const char* const text = std::getenv(kPageBytesVariable);
  const std::size_t bytes = text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
  if (PageLength::valid(bytes)) the_page_length = PageLength(bytes);
}

struct Bytes {
  std::uintptr_t first;
  std::uintptr_t end;
};

void fill_hole(Bytes hole) {
  constexpr std::uintptr_t kInPage = kHostPageBytes - 1;
  const std::uintptr_t first = (hole.first + kInPage) & ~kInPage;
  const std::uintptr_t end = hole.end & ~kInPage;
  if (end <= first) return;
  void* const at = reinterpret_cast<void*>(first);  // NOLINT
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  constexpr int kHow = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (::mmap(at, end - first, kAccess, kHow, -1, 0) == at) return;
  // A loader that has reserved it lets nobody touch it.
  if (::mprotect(at, end - first, kAccess) != 0)
    fail(
        "{} KiB between the program's shared globals, before a variable that is aligned to more than a page, cannot be mapped: {}",
        (end - first) / 1024, cause_and_cure(errno));
}

// The window is one piece, and where a variable is aligned to more than a page the loader leaves a hole in it.
void fill_holes(Bytes window) {
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const Bytes all = *static_cast<const Bytes*>(data);
        std::uintptr_t mapped = all.first;                    // up to there
        for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {  // in the order of their addresses
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const std::uintptr_t first = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || first + segment.p_memsz <= all.first || first >= all.end) continue;
          if (first > mapped) fill_hole({mapped, first});
          mapped = first + segment.p_memsz;
        }
        return 1;  // the first is the program
      },
      &window);
}

// Before the program's own constructors, which may make calls that ask for the window.
[[gnu::constructor(101)]] void find_window() {
  read_page_length();
  const auto first = reinterpret_cast<std::uintptr_t>(&braid_globals_begin[0]);
  const auto end = reinterpret_cast<std::uintptr_t>(&braid_globals_end[0]);
  fill_holes({first, end});
  the_globals_window = {first, static_cast<std::uint32_t>(page_length().pages_in(end - first))};
}

}  // namespace

void set_globals_window(const GlobalsWindow& other) {
  the_globals_window = other;
}

void set_page_length(PageLength length) {
  the_page_length = length;
}

void note_main_runs_once() {
  is_main_once = true;
}

bool main_runs_once() {
  return is_main_once;
}

void fail_for_large_globals(std::size_t heap_bytes, const char* cure) {
  constexpr std::size_t kMebi = 1u << 20;
  const std::size_t bytes = page_length().bytes_of(globals_window().pages);
  fail(
      "the program's shared globals take {} MiB, and the shared heap of {} MiB has no room for more behind them: "
      "raise {} (`--help` tells the option), or leave out --shared-globals or --pthreads, with which globals are shared",
      (bytes + kMebi - 1) / kMebi, heap_bytes / kMebi, cure);
}

}  // namespace braid::dsm
