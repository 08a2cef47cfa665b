// A cluster's program as a process of its own, which has the compute nodes as fibres (sim/shell), and the
// baton that goes between it and the engine.
//
// Whoever waits sleeps in the kernel, and both are pinned to one processor: on one the hand-over takes a
// microsecond, on two it takes tens, because the other one has gone to sleep meanwhile.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/machine.h"

namespace braid::sim {

// This process, and those that it starts from now on, run on the processor that it runs on now. Returns its
// number; -1: the system does not allow that, and everything is only slower.
int stay_on_one_processor();

class ProcessShell final : public Shell {
 public:
  // Starts `path` with `arguments` (the name first) and this process's environment; it writes to our standard
  // output
  // (`silent`: nowhere) and error, and reads `stdin_fd` (-1: nothing). It waits for its first turn in init().
  static Result<std::unique_ptr<ProcessShell>> start(unsigned cluster, const std::string& path,
                                                     const std::vector<std::string>& arguments,
                                                     std::uint32_t heap_pages, int stdin_fd, bool silent);
  // Kills the process if it still runs.
  ~ProcessShell() override;
  ProcessShell(const ProcessShell&) = delete;
  ProcessShell& operator=(const ProcessShell&) = delete;

  Control& control() override { return *control_; }
  std::byte* heap() override { return heap_; }
  Result<void> run() override;

  // After the machine's run: gives the program its last turn and waits for its end. Its exit status, 128 + n
  // if signal n killed it.
  int end();
  // Of a process that has ended.
  int status() const { return status_; }

 private:
  ProcessShell(unsigned cluster, std::uint32_t heap_pages) : cluster_(cluster), heap_pages_(heap_pages) {}
  void give_turn();
  bool has_ended();

  const unsigned cluster_;
  const std::uint32_t heap_pages_;
  Control* control_ = nullptr;
  std::byte* heap_ = nullptr;
  pid_t pid_ = -1;
  int status_ = 0;
  std::string end_;  // how it ended, for a person
};

}  // namespace braid::sim
