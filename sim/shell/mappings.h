// The two memory regions that a shell shares with the engine: the Control, and the cluster's heap at the
// address that it has in every program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "sim/shell/control.h"

namespace braid::sim {

// The value of an environment variable, or nullptr: std::getenv, or a test's table.
using Lookup = std::function<const char*(const char* name)>;

// What is wrong with a program that is started without `braid sim`, as the end of a message.
inline constexpr const char* kNeedsSimulator =
    "this program was built for simulation: run it with `braid sim`";

// Maps the Control of cluster `cluster`, or of the one that the environment names, from the descriptor that the
// environment names, which stays open. An error names the cure. unmap_control() ends it.
Result<Control*> map_control(const Lookup& lookup, std::optional<unsigned> cluster = {});
void unmap_control(Control* control);

class Mappings {
 public:
  using Lookup = sim::Lookup;
  // Maps this cluster's parts of the two files that the environment names, and closes the first. The heap is
  // inaccessible until the engine opens its pages. Its first pages take the place of the program's globals, with their
  // contents, where these are shared (dsm/program/globals.h). An error names the cure.
  static Result<Mappings> map(const Lookup& lookup);
  // The globals are private again, with the contents that the heap has.
  ~Mappings();
  Mappings(Mappings&& other) noexcept;
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  Control& control() const { return *control_; }
  // Applies the changes of protection that the engine has written to the Control. Ends the process with a
  // message if the system refuses one.
  void protect() const;
  // As Host::fill() (dsm/program/host.h), for pages that are placed by first touch: what they begin with. Ends the process
  // with a message if the system refuses.
  void fill(PageId first, std::span<const std::byte> contents) const;

 private:
  Result<void> map_globals() const;
  Result<void> make_globals_private() const;
  static void protect_run(const ProtectionRun& run);

  Mappings(Control* control, int heap_fd, std::size_t heap_bytes)
      : control_(control), heap_fd_(heap_fd), heap_bytes_(heap_bytes) {}

  Control* control_;  // nullptr: moved from
  int heap_fd_;
  std::size_t heap_bytes_;
};

}  // namespace braid::sim
