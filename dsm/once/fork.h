// Clones of the program's process, for any host (main_once.h).
#pragma once

#include <sys/types.h>

namespace braid::dsm::once {

// Ends the process with a message if start_clusters() must not be called, or not again.
void check_first_start();
// The same if the program has more than one thread: a clone has only the one that makes it, and threads hold locks.
void check_single_thread();

// Returns the number of a copy of this process, which is no child of it but of the nearest ancestor that adopts orphans,
// and 0 in the copy. It becomes a member of process group `group` (0: of its parent's). What stdio has buffered must be written before. Ends the
// process with a message if the system refuses.
pid_t fork_orphan(pid_t group = 0);

// Remembers what descriptors 0 to 2 are, before main().
void note_standard_descriptors();
// Whether descriptor `fd`, of 0 to 2, still is that.
bool is_original(int fd);

}  // namespace braid::dsm::once
