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

// Which file a descriptor is of. Zeros: it is none.
struct FileIdentity {
  dev_t device = 0;
  ino_t file = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity(int fd);

// Remembers what descriptors 0 to 2 are, before main().
void note_standard_descriptors();
// Whether descriptor `fd`, of 0 to 2, still is that.
bool is_original(int fd);

// Clones share the descriptors of cluster 0's open streams, standard input too, and each goes on where another has stopped: so stdio
// may keep nothing back, neither what it has read ahead nor what it is to write. Before the process is cloned; what it has read ahead of a
// pipe stays its own, unless the pipe's writers have gone. Standard output and error are each cluster's, as they were.
void stop_reading_ahead();
// The same in the clone, which forgets what it has a copy of.
void forget_what_is_read();

}  // namespace braid::dsm::once
