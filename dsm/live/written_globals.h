// Which of its private globals a cluster has written since its process was cloned (dsm/once): where several clusters have written
// one, each has a value of its own, which is seldom what the program means. Costs nothing between the two calls.
//
// Contents are compared, so a write of the value that was there is not seen. Names come from the program's symbol table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace braid::dsm {

// Remembers the contents of the program's data segments, up to 64 MiB; pages that nobody has touched yet are known to be
// zeros. Nothing for a program whose globals are shared. The process's only thread, once.
void watch_globals();

struct WrittenGlobals {
  static constexpr std::size_t kMostNames = 256;

  bool are_watched = false;
  bool have_names = true;          // false: the program is stripped, and nothing else is known
  std::vector<std::string> names;  // "total", "solve(int)::calls", in the order of addresses
  std::size_t more = 0;            // that have no room in `names`
  std::size_t unwatched_bytes = 0;
};
// The first call that finds a change reads the symbol table, which takes milliseconds. Any thread; no signal handler.
WrittenGlobals written_globals();

}  // namespace braid::dsm
