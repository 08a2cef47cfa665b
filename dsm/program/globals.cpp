#include "dsm/program/globals.h"

#include "dsm/engine/types.h"
#include "dsm/program/failure.h"

// Of the linker script; without it they have no address.
extern "C" {
[[gnu::weak]] extern std::byte braid_globals_begin[];
[[gnu::weak]] extern std::byte braid_globals_end[];
}

namespace braid::dsm {

constinit GlobalsWindow the_globals_window;

namespace {

constinit bool is_main_once = false;

// Before the program's own constructors, which may make calls that ask for the window.
[[gnu::constructor(101)]] void find_window() {
  const auto first = reinterpret_cast<std::uintptr_t>(&braid_globals_begin[0]);
  const auto end = reinterpret_cast<std::uintptr_t>(&braid_globals_end[0]);
  the_globals_window = {first, static_cast<std::uint32_t>((end - first) / kPageBytes)};
}

}  // namespace

void set_globals_window(const GlobalsWindow& other) {
  the_globals_window = other;
}

void note_main_runs_once() {
  is_main_once = true;
}

bool main_runs_once() {
  return is_main_once;
}

void fail_for_large_globals(std::size_t heap_bytes, const char* cure) {
  constexpr std::size_t kMebi = 1u << 20;
  const std::size_t bytes = std::size_t{globals_window().pages} * kPageBytes;
  fail(
      "the program's shared globals take {} MiB, and the shared heap of {} MiB has no room for more behind them: "
      "raise {} (`braid run --help` tells the option), or link without --shared-globals",
      (bytes + kMebi - 1) / kMebi, heap_bytes / kMebi, cure);
}

}  // namespace braid::dsm
