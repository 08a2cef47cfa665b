// The parent of a run's program processes (main_once.h). It makes system calls only.
#pragma once

#include <sys/types.h>

namespace braid::dsm::once {

struct WardenPlan {
  int stand_in = -1;  // the socket of cluster 0's stand-in
  int program = -1;   // the socket of cluster 0's program
  pid_t first = 0;    // that program, a child of the caller
  int listener = -1;  // where the other stand-ins come to
  unsigned clusters = 0;
  int timeout_ms = 0;  // for the stand-ins to come
};

// Makes the socket at which the stand-ins of `run` meet the warden; the error of errno, negative, if it cannot.
int listen_for_stand_ins(const char* run);

// Returns never: ends when all programs have ended and every stand-in knows. The caller is a subreaper with one thread.
[[noreturn]] void watch(const WardenPlan& plan);

}  // namespace braid::dsm::once
