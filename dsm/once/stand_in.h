// The process that `braid run` has started for a cluster whose program runs in another process (main_once.h).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>

namespace braid::dsm::once {

// The abstract address at which the warden listens on the host of a run that has `first`, the lowest of its clusters: several hosts of
// a run may be one machine. Returns its length.
socklen_t rendezvous(const char* run, std::uint32_t first, sockaddr_un* address);

// Hands this process's place over: waits for the warden at most `timeout_ms`, then for the end of the cluster's
// program, and ends as it does. SIGQUIT is passed on to the program, if that handles it. `first`: as above.
[[noreturn]] void stand_in(const char* run, std::uint32_t cluster, std::uint32_t first, int timeout_ms);
// The same for cluster 0, whose place its program has inherited.
[[noreturn]] void stand_in_at(int socket);

}  // namespace braid::dsm::once
