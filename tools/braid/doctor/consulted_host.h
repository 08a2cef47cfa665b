// The doctor's end of the conversation with one host (host_side.h): a child process that a launcher gave the command for.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/process.h"

namespace braid::cli {

class ConsultedHost {
 public:
  // `command`: the words that start its braid-node. What it writes to standard error goes to ours.
  static Result<ConsultedHost> start(const std::vector<std::string>& command,
                                     std::vector<int> inherited = {});
  ConsultedHost(ConsultedHost&&) = default;
  ~ConsultedHost();

  void say(const nlohmann::json& message);
  // Nothing more is said.
  void close() { to_.close(); }
  // Its next word. Blocks until then. An error: its process has ended, or there was none by the deadline.
  Result<nlohmann::json> next(Instant deadline);

 private:
  ConsultedHost(std::string name, Process process, Descriptor to)
      : name_(std::move(name)), process_(std::move(process)), to_(std::move(to)) {}
  void forward_errors();

  const std::string name_;  // of the command
  Process process_;
  Descriptor to_;
  std::string said_;
};

}  // namespace braid::cli
