// Page faults that are answered at once, for who times them.
#pragma once

#include "dsm/live/memory.h"
#include "dsm/program/faults.h"

namespace braid::bench {

// Opens what was touched, as a fault that the page's home answers at once does.
class FaultOpener final : public dsm::FaultSink {
 public:
  explicit FaultOpener(dsm::Memory& memory) : memory_(memory) {}
  bool on_fault(std::uintptr_t address, bool write) override {
    if (!dsm::in_heap(address, memory_.pages())) return false;
    memory_.protect(dsm::page_of(address), 1, write ? dsm::Access::kWrite : dsm::Access::kRead);
    return true;
  }

 private:
  dsm::Memory& memory_;
};

}  // namespace braid::bench
