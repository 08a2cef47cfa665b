// The two memory regions that a shell shares with the engine: the Control, and the cluster's heap at the
// address that it has in every program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "dsm/program/page_length.h"
#include "sim/shell/control.h"

namespace braid::sim {

// The value of an environment variable, or nullptr: std::getenv, or a test's table.
using Lookup = std::function<const char*(const char* name)>;

// What is wrong with a program that is started without `braid sim`, as the end of a message.
inline constexpr const char* kNeedsSimulator =
    "this program was built for simulation: run it with `braid sim`";

// Maps the Control of cluster `cluster`, or of the one that the environment names, from the descriptor that the
// environment names, which stays open; and with it those of all others (control_of()). An error names the cure.
// unmap_control() ends it.
Result<Control*> map_control(const Lookup& lookup, std::optional<unsigned> cluster = {});
void unmap_control(Control* control);

// Whether a page of the kernel's has several of ours.
inline bool is_shorter_than_hosts() {
  return dsm::page_length().bytes() < dsm::kHostPageBytes;
}

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
  void protect();
  // Pages that are shorter than the host's: the host's page of `page` is open for an access when all of its pages are. Returns one
  // that is not, if there is one. Of longer pages, the page itself.
  std::optional<PageId> closed_part(PageId page, bool write) const;
  // An access to this address of the heap is the program's error: it faults, whatever else its host's page has.
  void close_for_good(std::uintptr_t address) const;
  // As Host::fill() (dsm/program/host.h), for pages that are placed by first touch: what they begin with. Ends the process
  // with a message if the system refuses.
  void fill(PageId first, std::span<const std::byte> contents) const;

 private:
  Result<void> map_globals() const;
  Result<void> make_globals_private() const;
  void protect_run(const ProtectionRun& run);
  // In programs with access checks: what the checks read.
  static void set_rights(const ProtectionRun& run);
  // Of pages that are shorter than the host's. The host's pages of these are as open as the least open of their pages.
  void protect_parts(std::uint32_t first, std::uint32_t count);
  void protect_host_pages(std::size_t first, std::size_t count, dsm::Access access) const;
  dsm::Access access_of_host_page(std::size_t host_page) const;

  Mappings(Control* control, int heap_fd, std::size_t heap_bytes)
      : control_(control), heap_fd_(heap_fd), heap_bytes_(heap_bytes) {
    if (is_shorter_than_hosts())
      host_pages_.resize(round_up(heap_bytes, dsm::kHostPageBytes) / dsm::kHostPageBytes);
  }

  Control* control_;  // nullptr: moved from
  int heap_fd_;
  std::size_t heap_bytes_;
  // Of pages that are shorter than the host's; otherwise empty.
  std::vector<dsm::Access> host_pages_;
  std::uint32_t allocated_ = 0;
};

}  // namespace braid::sim
