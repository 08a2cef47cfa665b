// The parent of a run's program processes (main_once.h). It makes system calls only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

namespace braid::dsm::once {

struct WardenPlan {
  int stand_in = -1;  // the socket of cluster 0's stand-in; -1: another host has cluster 0
  int program =
      -1;  // the socket of the program that is cloned: cluster 0's, or the one that becomes its image
  pid_t first = 0;                     // that program, a child of the caller
  pid_t courier = -1;                  // another child, that brings it to other hosts; -1: there are none
  int listener = -1;                   // where the other stand-ins come to
  std::span<const unsigned> clusters;  // of this host
  int timeout_ms = 0;                  // for the stand-ins to come
};

// Makes the socket at which the stand-ins of `run` meet the warden of the host whose lowest cluster is `first`; the error of errno,
// negative, if it cannot.
int listen_for_stand_ins(const char* run, std::uint32_t first);

// Returns never: ends when all programs have ended and every stand-in knows. The caller is a subreaper with one thread.
[[noreturn]] void watch(const WardenPlan& plan);

}  // namespace braid::dsm::once
