// A veth pair between two network namespaces, for wires that need an interface: AF_XDP and AF_PACKET on the same one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/transport/bare_stack.h"
#include "bench/transport/rounds.h"

namespace braid::bench {

class VethPair {
 public:
  // Needs root; ends the program where it cannot be made.
  VethPair();
  // Removes it. In the process that made it.
  ~VethPair();
  VethPair(const VethPair&) = delete;
  VethPair& operator=(const VethPair&) = delete;

  // Adds stacks over this side's interface: over AF_XDP at the address that the kernel has there, over AF_PACKET at one that it
  // has not. `ports` keeps what the latter needs.
  void add_systems(bool near, std::vector<NamedSystem>& systems, std::shared_ptr<void>& ports) const;

 private:
  std::string space(bool near) const { return name_ + (near ? "-near" : "-far"); }
  const std::string name_;
};

}  // namespace braid::bench
