// A command of a host that is a child of this process.
#pragma once

#include <string>
#include <vector>

#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/sink.h"
#include "tools/braid/run/tree/host_command.h"

namespace braid::cli {

class ChildCommand final : public HostCommand {
 public:
  // `words`: the first is looked for in PATH. `prefix`: of the lines of its standard error. `inherited`: descriptors that it needs, the
  // caller's. `children` must live as long.
  ChildCommand(ChildProcesses& children, std::vector<std::string> words, std::string prefix,
               std::vector<int> inherited = {});

  Result<void> start() override;
  bool is_started() const override { return child_.has_value(); }
  void send(std::string_view bytes) override;
  bool has_room() const override { return !out_ || out_->has_room(); }
  void close_input() override;
  void kill() override;
  void watch(std::vector<pollfd>& fds, bool is_read) const override;
  void write_some() override;
  std::string take_output() override;
  bool take_end(const EndedChild& ended) override;
  const std::optional<std::string>& end() const override { return end_; }

 private:
  ChildProcesses& children_;
  const std::vector<std::string> words_;
  const std::string prefix_;
  const std::vector<int> inherited_;
  std::optional<ChildId> child_;
  Descriptor from_, to_;  // pipes
  std::optional<Sink> out_;
  bool is_closing_input_ = false;
  std::optional<std::string> end_;
};

}  // namespace braid::cli
