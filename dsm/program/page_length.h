// The length of the pages of this process's shared memory: `braid run` and `braid sim` give it to programs in a variable.
#pragma once

#include "dsm/engine/types.h"

namespace braid::dsm {

inline constexpr const char* kPageBytesVariable = "BRAID_PAGE_BYTES";
// What the kernel maps and protects at once. A page has one or more of these.
inline constexpr std::size_t kHostPageBytes = 4096;

extern constinit PageLength the_page_length;  // written by globals.cpp only
// Known before the constructors of the program run. Any thread. Inline: it is asked for at every access by some hosts.
inline PageLength page_length() {
  return the_page_length;
}
// Instead of what the variable says; for tests. Before any heap is there.
void set_page_length(PageLength length);

}  // namespace braid::dsm
