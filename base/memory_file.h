// Files in memory, for memory that processes share.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace braid {

enum class MemoryFile {
  kSparse,     // memory is taken as it is used
  kAllocated,  // all of it now: later uses cannot fail
};

// Makes one of `bytes`, closed on exec; the descriptor is the caller's. `seals`: of fcntl(F_ADD_SEALS), 0: none. An error
// names what fails, with the cure; it begins with the name. RLIMIT_FSIZE holds for these files too: a limit that is too
// low is an error and no SIGXFSZ.
Result<int> make_memory_file(const char* name, std::uint64_t bytes, MemoryFile kind, int seals = 0);

}  // namespace braid
