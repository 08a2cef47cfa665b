#include "proxy/nic/memif_gate.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace braid::proxy {
namespace {

MemifGate g_gates[MemifGate::kMaxGates];

}  // namespace

std::atomic<unsigned> MemifGate::made_{0};
std::atomic<std::uint64_t> MemifGate::unmaps_{0};
bool MemifGate::kernel_fences_ = false;

MemifGate* MemifGate::make() {
  const unsigned next = made_.load(std::memory_order_relaxed);
  CHECK_LT(next, kMaxGates);
  made_.store(next + 1, std::memory_order_release);
  return &g_gates[next];
}

void MemifGate::choose_fences() {
  kernel_fences_ = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int MemifGate::unmap(void* memory, std::size_t bytes) {
  const unsigned made = made_.load();
  unmaps_.fetch_add(1);  // the fence, this thread's
  if (kernel_fences_) CHECK_EQ(::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), 0);
  for (unsigned i = 0; i < made; ++i) {
    // A burst lasts microseconds, unless its thread was descheduled in it.
    while (g_gates[i].inside_.load(std::memory_order_acquire)) ::usleep(20);
  }
  return ::munmap(memory, bytes);
}

}  // namespace braid::proxy

// The memif driver is linked with its munmap() renamed to this (proxy/nic/CMakeLists.txt).
extern "C" int braid_memif_unmap(void* memory, std::size_t bytes) {
  return braid::proxy::MemifGate::unmap(memory, bytes);
}
