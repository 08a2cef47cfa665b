// A process beside the command that waits for the command's end, however it comes (kill -9 too), and then
// kills every process group that was announced and not withdrawn. The kernel's death signal reaches only
// direct children; their own children are reached here.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class Keeper {
 public:
  // It knows so many groups at a time; those beyond have the kernel's death signal alone.
  static constexpr std::size_t kMaxGroups = 2048;

  static Result<Keeper> start();
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();  // waits for the keeper's end; it kills what is still announced

  void announce(pid_t group);
  void withdraw(pid_t group);

 private:
  Keeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void tell(pid_t message);

  pid_t pid_;
  Descriptor pipe_;
};

}  // namespace braid::cli
