// The process that `braid run` has started for a cluster whose program runs in another process (main_once.h).
#pragma once

#include <cstdint>

namespace braid::dsm::once {

// Where the warden of a run listens: an abstract socket address that begins with a zero. Returns its length.
unsigned rendezvous(const char* run, char (&address)[108]);

// Hands this process's place over: waits for the warden at most `timeout_ms`, then for the end of the cluster's
// program, and ends as it does. SIGQUIT is passed on to the program, if that handles it.
[[noreturn]] void stand_in(const char* run, std::uint32_t cluster, int timeout_ms);
// The same for cluster 0, whose place its program has inherited.
[[noreturn]] void stand_in_at(int socket);

}  // namespace braid::dsm::once
