// Converts page faults of compute nodes to calls: the handler of SIGSEGV and SIGBUS (whichever the
// memory raises for a forbidden access), which distinguishes accesses to shared memory from crashes.
//
// An access to the shared heap by a compute node becomes FaultSink::on_fault() in the faulting thread. Any
// other fault is the program's own crash: it goes to the program's handler, installed before or after,
// with the original fault, or kills the process as it would have without the runtime (program_signals.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace braid::dsm {

class FaultSink {
 public:
  // True: the fault is resolved, and the access is repeated. False: a
  // crash. Must not allocate or take a lock that interrupted code can hold.
  virtual bool on_fault(std::uintptr_t address, bool write) = 0;
  // Called for an access to an address without a mapping. In a child of fork(), which has no mapping of the
  // heap, it must end the process if the address is in the heap. Returns for all other addresses: a crash.
  virtual void on_unmapped(std::uintptr_t address) { (void)address; }

 protected:
  ~FaultSink() = default;
};

// Where the handler runs. kSignalStack: on its thread's stack for signals (SignalStack below), so
// that a stack overflow is an ordinary fault. kInterrupted: on the interrupted code's stack, so that
// a handler can switch to other fibres and continue later; a stack overflow then ends the process.
enum class HandlerStack : std::uint8_t { kSignalStack, kInterrupted };

// At most one sink at a time; it lives until remove_fault_handler(),
// which reinstalls the program's own handlers.
Result<void> install_fault_handler(FaultSink* sink, HandlerStack stack);
void remove_fault_handler();

// The stack on which its thread handles signals; one per thread, because a handler stays on
// it while it waits for a page. Made and destroyed on its thread. The destructor installs
// the stack that the program set last. SIGSEGV and SIGBUS are unblocked on the thread.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  // A signal frame takes 12 KiB where the processor has AVX-512 and AMX; the runtime's own frames are small.
  // A fault inside the handler (a crash) needs a second frame.
  static constexpr std::size_t kBytes = 128u << 10;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace braid::dsm
