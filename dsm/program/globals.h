// The program's own globals as part of the shared heap (`braid-cc --shared-globals`).
//
// Such a program is linked so that the .data and .bss of its own files stand together, on pages of their own: the window
// (cmake/shared_globals.ld.in). They are private until the machine is joined. Then the first pages of the shared heap take
// their place, with their contents, at the addresses that the linker gave them; after finish() they are private again.
//
//     pages of the heap   0 ... window.pages - 1      window.pages ... heap's last
//     addresses           window.address ...          kHeapAddress ...              (dsm/program/heap.h)
//
// All clusters must have the window at one address, and private globals of the same value until it is shared: so main() must
// run once (dsm/once), which makes the clusters' processes clones of one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::dsm {

struct GlobalsWindow {
  std::uintptr_t address = 0;
  std::uint32_t pages = 0;  // 0: the program's globals are private
};

extern constinit GlobalsWindow the_globals_window;  // written by globals.cpp only
// Known before the constructors of the program run. Any thread. Inline: it is asked for at every access by some hosts.
inline const GlobalsWindow& globals_window() {
  return the_globals_window;
}
// Instead of what the linker has made; for tests. Before any heap is there.
void set_globals_window(const GlobalsWindow& window);

// Says that the processes of all clusters are clones of this one, or that there are no others.
void note_main_runs_once();
bool main_runs_once();

// Ends the process with a message: the globals need a larger heap. `cure`: what to raise.
[[noreturn]] void fail_for_large_globals(std::size_t heap_bytes, const char* cure);

}  // namespace braid::dsm
