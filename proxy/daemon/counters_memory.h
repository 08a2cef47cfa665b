// The counters of a node, in memory that others may read while it runs.
#pragma once

#include <memory>

#include "base/result.h"
#include "proxy/channel/node_counters.h"

namespace braid::proxy {

class CountersMemory {
 public:
  // In the memory of that descriptor (which has sizeof(NodeCounters) bytes at least), or, where it is negative,
  // in memory of its own.
  static Result<std::unique_ptr<CountersMemory>> map(int fd);
  ~CountersMemory();
  CountersMemory(const CountersMemory&) = delete;
  CountersMemory& operator=(const CountersMemory&) = delete;

  NodeCounters& operator*() { return *counters_; }
  // For clients: read only. -1: there is none.
  int read_only_fd() const { return read_only_fd_; }

 private:
  CountersMemory() = default;

  NodeCounters* counters_ = nullptr;
  int read_only_fd_ = -1;
};

}  // namespace braid::proxy
