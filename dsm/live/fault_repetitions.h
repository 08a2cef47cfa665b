// Faults of one compute node at one address, one after the other, at a page that was open before the fault was handled:
// the access fails although the engine allows it. The program's own mprotect() or mmap() forbids it, for ever.
//
// Another node's operation can open a page between a fault and its handling, so a few such faults are ordinary. A fault
// that opens the page at once, as a write at its home does after every release, is not one of them.
//
// Pure; written by its compute node only.
#pragma once

#include <cstdint>

namespace braid::dsm {

class FaultRepetitions {
 public:
  // Far more than other nodes can cause.
  static constexpr unsigned kMax = 10'000;

  // A fault was handled; `was_open`: the engine allowed the access before. True: the access can never succeed.
  [[nodiscard]] bool on_fault(std::uintptr_t address, bool was_open) {
    repetitions_ = was_open && last_address_ == address ? repetitions_ + 1 : 0;
    last_address_ = address;
    return repetitions_ >= kMax;
  }

 private:
  std::uintptr_t last_address_ = 0;
  unsigned repetitions_ = 0;  // of it
};

}  // namespace braid::dsm
