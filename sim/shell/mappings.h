// The two memory regions that a shell shares with the engine: the Control, and the cluster's heap at the
// address that it has in every program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "sim/shell/control.h"

namespace braid::sim {

class Mappings {
 public:
  // The value of an environment variable, or nullptr: std::getenv, or a test's table.
  using Lookup = std::function<const char*(const char* name)>;
  // Maps the two descriptors that the environment names, and closes them. The heap is inaccessible until the
  // engine opens its pages. An error names the cure.
  static Result<Mappings> map(const Lookup& lookup);
  ~Mappings();
  Mappings(Mappings&& other) noexcept;
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  Control& control() const { return *control_; }
  // Applies the changes of protection that the engine has written to the Control. Ends the process with a
  // message if the system refuses one.
  void protect() const;

 private:
  Mappings(Control* control, std::size_t heap_bytes) : control_(control), heap_bytes_(heap_bytes) {}

  Control* control_;  // nullptr: moved from
  std::size_t heap_bytes_;
};

}  // namespace braid::sim
