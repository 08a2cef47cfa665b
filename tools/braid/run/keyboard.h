// The terminal's input, handed on to cluster 0: its process group is not the terminal's, so it may not read
// from there itself. A pipe or file is simply inherited.
#pragma once

#include <poll.h>

#include <string>

#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class Keyboard {
 public:
  // The descriptor that cluster 0 reads: our own standard input, or a pipe that this object fills.
  int open();
  // Cluster 0 has it.
  void started() { theirs_.close(); }
  // Nobody reads it any more.
  void close() { ours_.close(); }

  // The descriptors that poll() must wait for; negative: none.
  pollfd to_read() const;
  pollfd to_write() const { return {typed_.empty() ? -1 : ours_.get(), POLLOUT, 0}; }
  void read_some();
  void write_some();

 private:
  Descriptor terminal_, theirs_, ours_;
  std::string typed_;  // and not yet taken
};

}  // namespace braid::cli
