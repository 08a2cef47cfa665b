// Faults of one compute node at one address, one after the other, which needed nothing from the engine: the page is open,
// and yet the access fails. The program's own mprotect() or mmap() forbids it, for ever.
//
// Another node's operation can open a page between a fault and its handling, so a few such faults are ordinary.
//
// Pure; written by its compute node only.
#pragma once

#include <cstdint>

namespace braid::dsm {

class FaultRepetitions {
 public:
  // Far more than other nodes can cause.
  static constexpr unsigned kMax = 10'000;

  // A fault was handled; `complete`: nothing was needed from the engine. True: the access can never succeed.
  [[nodiscard]] bool on_fault(std::uintptr_t address, bool complete) {
    repetitions_ = complete && last_address_ == address ? repetitions_ + 1 : 0;
    last_address_ = address;
    return repetitions_ >= kMax;
  }

 private:
  std::uintptr_t last_address_ = 0;
  unsigned repetitions_ = 0;  // of it
};

}  // namespace braid::dsm
