// A process beside the command that waits for the command's end, however it comes (kill -9 too), and then ends what
// the command has started. The kernel's death signal reaches only direct children; their own children are reached here.
//
// Where it is permitted the keeper is process 1 of a process-number namespace, its container: the kernel kills everything
// in it when the keeper ends, by whatever, and no process can leave it. Root may make one; another user makes it inside a
// user namespace of its own, in which it stays who it is, but set-user-ID programs give it nothing. Elsewhere the keeper
// kills every process group that was announced and not withdrawn.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/process.h"

namespace braid::cli {

class Keeper {
 public:
  // The most groups at a time; the others have only the kernel's death signal.
  static constexpr std::size_t kMaxGroups = 2048;

  static Result<Keeper> start();
  // Its pidfd is -1 where there is none. Valid as long as the keeper.
  Container container() const { return {pidfd_.get(), namespaces_}; }
  Keeper(Keeper&&) = default;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();  // waits for the keeper's end; it kills the groups that are still announced

  // For processes outside the container.
  void announce(pid_t group);
  void withdraw(pid_t group);

 private:
  Keeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  static Result<Keeper> start_in(int namespaces);
  void tell(pid_t message);

  pid_t pid_;
  Descriptor pipe_;
  Descriptor pidfd_;
  int namespaces_ = 0;  // CLONE_NEWPID, CLONE_NEWUSER; 0: there is no container
};

}  // namespace braid::cli
