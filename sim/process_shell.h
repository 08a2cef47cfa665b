// A cluster's program as a process of its own, which has the compute nodes as fibres (sim/shell), and the
// baton that goes between it and the engine.
//
// Whoever waits sleeps in the kernel, and both are pinned to one processor: on one the hand-over takes a
// microsecond, on two it takes tens, because the other one has gone to sleep meanwhile.
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

// This process, and those that it starts from now on, run on the processor that it runs on now. Returns its
// number; -1: the system does not allow that, and everything is only slower.
int stay_on_one_processor();

class ProcessShell final : public Shell {
 public:
  struct Program {
    unsigned cluster = 0;
    std::string path;
    std::vector<std::string> arguments;  // the name first; the environment is ours
    bool reads_input = false;            // it reads our standard input; else nothing
    bool silent = false;                 // what it writes to standard output goes nowhere
  };
  // The process is there, and its program starts when it gets its first turn. A turn in which for so long it
  // has waited for a lock of the program's own, or has computed without being charged, ends with an error
  // (StuckTurn); zero: never.
  static Result<std::unique_ptr<ProcessShell>> make(const Program& program, std::uint32_t heap_pages,
                                                    Duration watchdog);
  // Kills the process if it still runs.
  ~ProcessShell() override;
  ProcessShell(const ProcessShell&) = delete;
  ProcessShell& operator=(const ProcessShell&) = delete;

  Control& control() override { return *control_; }
  std::byte* heap() override { return heap_; }
  Result<void> run() override;

  // After the machine's run: gives the program its last turn and waits for its end. Its exit status, 128 + n
  // if signal n killed it; an error if it waits for a lock of its own, as in run().
  Result<int> end();
  // Of a process that has ended.
  int status() const { return status_; }

 private:
  ProcessShell(Program program, std::uint32_t heap_pages, Duration watchdog);
  Result<void> start();
  void give_turn();
  bool has_ended();
  // Of the turn that `stuck` is about, or will be.
  StuckTurn::Way look(std::optional<StuckTurn>& stuck, bool counted) const;
  std::string describe_stuck(StuckTurn::Way way) const;

  const Program program_;
  const std::uint32_t heap_pages_;
  const Duration watchdog_;
  int control_fd_ = -1;
  int heap_fd_ = -1;
  Control* control_ = nullptr;
  std::byte* heap_ = nullptr;
  pid_t pid_ = -1;
  int status_ = 0;
  std::string end_;         // how it ended, for a person
  bool has_asked_ = false;  // for anything: its first is init()
};

}  // namespace braid::sim
