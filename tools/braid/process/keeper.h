// A process beside the command that waits for the command's end, by whatever cause (also
// kill -9), and then kills every process group that was announced and not withdrawn. The
// kernel's death signal reaches only direct children; this reaches their children too.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class Keeper {
 public:
  // The most groups at a time; the others have only the kernel's death signal.
  static constexpr std::size_t kMaxGroups = 2048;

  static Result<Keeper> start();
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();  // waits for the keeper's end; it kills the groups that are still announced

  void announce(pid_t group);
  void withdraw(pid_t group);

 private:
  Keeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void tell(pid_t message);

  pid_t pid_;
  Descriptor pipe_;
};

}  // namespace braid::cli
