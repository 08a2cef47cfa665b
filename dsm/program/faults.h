// Page faults of compute nodes as calls: the handler of SIGSEGV and SIGBUS (whichever memory.h's way of
// forbidding an access raises), which tells accesses to shared memory from crashes.
//
// An access to the shared heap by a compute node becomes FaultSink::on_fault() in the faulting thread.
// Everything else is the program's own crash: it goes to the handler that the program has installed, before or
// since, with the original fault, or kills the process as it would have without us (program_signals.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace braid::dsm {

class FaultSink {
 public:
  // Resolves the fault and returns true: the access is tried again. False: not ours, a crash. Must not
  // allocate, nor take a lock that interrupted code can hold.
  virtual bool on_fault(std::uintptr_t address, bool write) = 0;
  // An access to an address without a mapping. A child of fork() has none of the heap, and must end here when the
  // address lies there. Returns for all other addresses: a crash.
  virtual void on_unmapped(std::uintptr_t address) { (void)address; }

 protected:
  ~FaultSink() = default;
};

// Where the handler runs. kSignalStack: on its thread's (SignalStack below), so that a stack that has
// overflowed is a fault like any other. kInterrupted: on the stack of whatever was interrupted, so that a
// handler may give the thread to other fibres and go on later; an overflow of a stack is then the end.
enum class HandlerStack : std::uint8_t { kSignalStack, kInterrupted };

// One sink at a time. `sink` lives until remove_fault_handler(), which leaves the program the handlers that it has
// installed.
Result<void> install_fault_handler(FaultSink* sink, HandlerStack stack);
void remove_fault_handler();

// The stack on which its thread handles signals; a stack of its own for each, because a handler stays on it
// while it waits for a page. Made and destroyed on the thread that it is for; the stack that the program wanted
// last, before or since, comes back. SIGSEGV and SIGBUS are unblocked on the thread.
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
