// DPDK's environment (EAL) of this process: started once, and never ended, because it cannot be started again.
#pragma once

#include <string>

#include "base/result.h"

namespace braid::proxy {

// Options of start_eal(); EthdevOptions explains each.
struct EalOptions {
  std::string file_prefix;
  unsigned memory_mib = 0;
};

// Once in a process's life. The calling thread's CPU affinity is left as it was.
Result<void> start_eal(const EalOptions& options);

// Runs `action(argument)` in the EAL's interrupt thread and waits for it. A memif takes itself down there when
// its peer goes; taking it down from another thread at the same time would free its regions twice.
void run_in_interrupt_thread(void (*action)(void*), void* argument);

}  // namespace braid::proxy
