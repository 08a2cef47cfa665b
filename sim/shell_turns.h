// The turns of one cluster's shell: until when its compute nodes may
// run, and which changes of page protection it applies before they do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "dsm/engine/engine.h"
#include "sim/clock_rate.h"
#include "sim/shell/control.h"

namespace braid::sim {

// The process in which the compute nodes of one cluster run.
class Shell {
 public:
  virtual ~Shell() = default;
  // The memory that both sides share. Only the side that has the baton may access it.
  virtual Control& control() = 0;
  // The cluster's pages: always readable and writable here.
  virtual std::byte* heap() = 0;
  // What the pages below Control::filled_pages begin with.
  virtual const std::byte* contents() { return nullptr; }
  // Hands the baton over and returns when it is back, from this shell or from those that Control::next names, one
  // after the other. An error says how a program has ended.
  virtual Result<void> run() = 0;
  // It may be one of several that have the baton one after the other.
  virtual bool passes_on() const { return false; }
};

// The memory of the cluster's page engine. Changes of protection wait for the shell's next turn.
class ShellTurns final : public dsm::PageMemory {
 public:
  // Called before pages are left with no more than this access.
  using Closing = std::function<void(PageId first, std::uint32_t count, dsm::Access access)>;

  // The shell outlives this. `compute`: the number of its nodes; `length`: of its pages.
  ShellTurns(Shell& shell, unsigned compute, dsm::PageLength length, Closing closing);

  void protect(PageId first, std::uint32_t count, dsm::Access access) override;
  std::byte* page(PageId page) override {
    if (page.value() < control_.filled_pages) bring_run(page.value());
    return heap_ + length_.bytes_of(page.value());
  }

  Control& control() { return control_; }
  const Control& control() const { return control_; }
  // The earliest clock of the runnable nodes; ClockRate::kNever if there is none.
  std::int64_t clock() const {
    std::int64_t earliest = ClockRate::kNever;
    for (unsigned n = 0; n < compute_; ++n)
      if (control_.nodes[n].runnable) earliest = std::min(earliest, control_.nodes[n].clock);
    return earliest;
  }

  // The turn is prepared, and begins with run() of this shell or of one that comes before it. Returns the clock at which its
  // nodes stop; nothing: it needs a run() of its own.
  std::optional<std::int64_t> prepare(std::int64_t until, std::uint32_t allocated_pages);
  // Whose turn follows that which was prepared, unless a node asks; Control::kEngine: nobody's.
  void pass_on_to(std::uint16_t cluster) { control_.next = cluster; }
  Result<void> begin() { return shell_.run(); }
  // The prepared turn is over: as run().
  Result<std::uint32_t> end();

  // Nodes run, none beyond `until` or for longer than kLongestTurn. Returns the node that makes a
  // request, or Control::kNobody. An error: the program has ended, or its shell wrote invalid values.
  Result<std::uint32_t> run(std::int64_t until, std::uint32_t allocated_pages);
  // The same for node n alone.
  Result<std::uint32_t> run_alone(unsigned n, std::int64_t until, std::uint32_t allocated_pages);

  std::uint64_t protections() const { return protections_; }  // calls of protect()
  std::uint64_t hand_overs() const { return hand_overs_; }    // of the baton

  // Cycles, some ten milliseconds of computing. A charged program therefore always
  // returns in time, and one that does not is stuck (ProcessShell::make()).
  static constexpr std::int64_t kLongestTurn = 100'000'000;

 private:
  // As many of the changes that wait as a turn takes, from number `first` on. Returns the number of the next one.
  std::size_t write_protections(std::size_t first);
  // Until when the nodes run, but no longer than kLongestTurn; returned.
  std::int64_t limit(std::int64_t until, std::uint32_t allocated_pages);
  // What pages begin with is copied when a page is first used here, because most clusters use few of them.
  void bring(std::uint32_t first, std::uint32_t count);
  // The same for all pages that the engine may use through the address of the first.
  void bring_run(std::uint32_t first);

  Shell& shell_;
  Control& control_;
  std::byte* const heap_;
  const unsigned compute_;
  const dsm::PageLength length_;
  const Closing closing_;
  std::vector<ProtectionRun> pending_;
  // By page, as far as they begin with any contents: it has them; all of the run from it on have them.
  std::vector<bool> has_contents_, has_run_;
  std::uint64_t protections_ = 0;
  std::uint64_t hand_overs_ = 0;
};

}  // namespace braid::sim
