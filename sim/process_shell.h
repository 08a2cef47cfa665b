// A cluster's program as a process of its own, which has the compute nodes as fibres (sim/shell), and the
// engine's side of the baton.
//
// The waiting side sleeps in the kernel, and both sides run on one processor: a hand-over then
// takes a microsecond. Between two processors it takes tens, because the idle one must wake up.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sim/shell_turns.h"
#include "sim/stuck_turn.h"

namespace braid::sim {

// Binds this process, and the processes that it starts afterwards, to the processor that it runs on. Returns
// the processor's number; -1: the system does not allow it, and the simulation is only slower.
int stay_on_one_processor();

class ProcessShell;

// The memory that the engine shares with the programs: two files with a part for each cluster (sim/shell/control.h).
// Cluster 0's program has them for the others, if it clones itself for them.
class ShellFiles {
 public:
  static Result<std::unique_ptr<ShellFiles>> make(unsigned clusters, std::uint32_t heap_pages,
                                                  dsm::PageLength length);
  // What pages begin with.
  const std::byte* contents() const { return contents_; }
  ~ShellFiles();
  ShellFiles(const ShellFiles&) = delete;
  ShellFiles& operator=(const ShellFiles&) = delete;

  // The shells of the programs that have these files, each from its making to its end; the first is cluster 0's.
  void add(ProcessShell& shell) { shells_.push_back(&shell); }
  void remove(const ProcessShell& shell) { std::erase(shells_, &shell); }
  const std::vector<ProcessShell*>& shells() const { return shells_; }

  int controls() const { return controls_; }
  int heaps() const { return heaps_; }
  dsm::PageLength page_length() const { return page_length_; }
  std::size_t heap_bytes() const { return page_length_.bytes_of(heap_pages_); }

 private:
  ShellFiles(std::uint32_t heap_pages, dsm::PageLength length)
      : heap_pages_(heap_pages), page_length_(length) {}

  const std::uint32_t heap_pages_;
  const dsm::PageLength page_length_;
  int controls_ = -1;
  int heaps_ = -1;
  std::byte* contents_ = nullptr;
  std::vector<ProcessShell*> shells_;
};

class ProcessShell final : public Shell {
 public:
  struct Program {
    unsigned cluster = 0;
    std::string path;
    std::vector<std::string> arguments;  // the program's name first; it inherits the environment
    bool reads_input = false;            // false: its standard input is empty
    bool silent = false;                 // standard output is discarded
    int races_fd = -1;                   // for its check for data races (sim/shell/race_totals.h); -1: none
  };
  // Starts the process; the program begins with its first turn, unless cluster 0's program has cloned itself for this
  // cluster until then: the clone takes the process's place. A turn ends with an error when the program has waited for
  // a lock of its own, or computed without charges, for `watchdog` (StuckTurn); zero: never. `files` outlive this.
  static Result<std::unique_ptr<ProcessShell>> make(const Program& program, ShellFiles& files,
                                                    Duration watchdog);
  // Kills the process if it still runs.
  ~ProcessShell() override;
  ProcessShell(const ProcessShell&) = delete;
  ProcessShell& operator=(const ProcessShell&) = delete;

  Control& control() override { return *control_; }
  std::byte* heap() override { return heap_; }
  const std::byte* contents() override { return files_.contents(); }
  Result<void> run() override;
  bool passes_on() const override { return has_asked_; }

  // After the machine's run: gives the program its last turn and waits for its end. Returns the exit status,
  // or 128 + n if signal n killed it; an error if the program waits for a lock of its own, as in run(). A program that
  // has had no turn has none now: 0.
  Result<int> end();
  // The exit status, as of end(), of a process that has ended.
  int status() const { return status_; }

 private:
  ProcessShell(Program program, ShellFiles& files, Duration watchdog);
  Result<void> start();
  // A clone is the cluster's process from now on.
  void take_clone();
  void kill_process();
  Error how_it_ended() const;
  const char* when_it_ended() const;
  void give_turn();
  bool has_turn() const { return control_->turn.load(std::memory_order_acquire) == Control::kShell; }
  // Of all, the shell that has the baton; nullptr: none, for it is being handed over.
  ProcessShell* holder() const;
  bool has_ended();
  // Checks the current turn; `stuck` has its state, and is made by the first check.
  StuckTurn::Cause check_turn(std::optional<StuckTurn>& stuck, bool counted) const;
  std::string describe_stuck(StuckTurn::Cause cause) const;

  const Program program_;
  ShellFiles& files_;
  const Duration watchdog_;
  Control* control_ = nullptr;
  std::byte* heap_ = nullptr;
  pid_t pid_ = -1;
  int status_ = 0;
  std::string end_;         // how it ended, as text
  bool has_begun_ = false;  // it has had a turn
  bool has_asked_ = false;  // it has made a request; the first is init()'s
};

}  // namespace braid::sim
