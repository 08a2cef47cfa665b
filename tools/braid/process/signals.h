// The command's signals as a readable descriptor.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class Signals {
 public:
  // From now on `numbers` and SIGCHLD are blocked and come here; a number that is ignored, because the command's
  // parent ignores it (nohup), stays ignored. SIGPIPE is ignored: a write tells that the reader has gone. SIGCHLD has its default
  // disposition even if the parent ignores it, or waitpid() would find no child. All of this is of the whole
  // process, whose only thread calls, for the rest of its life.
  static Result<Signals> take_over(std::span<const int> numbers);

  int fd() const { return fd_.get(); }  // readable when there is a signal
  // The numbers received since the last call, without SIGCHLD.
  std::vector<int> take();

 private:
  explicit Signals(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

}  // namespace braid::cli
