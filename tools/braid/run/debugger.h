// `braid run --gdb`: gdb on the process of one cluster. The process waits before its main() and tells its number through a
// socket (dsm/live/debugger.h); then gdb is started, which attaches to it. Commands come from the terminal, which gdb has
// until it ends, from a file, or from standard input. Used by the supervisor's thread.
#pragma once

#include <poll.h>
#include <termios.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "settings/run.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/shared_files.h"

namespace braid::cli {

struct DebuggerOptions {
  enum class Commands : std::uint8_t { kTerminal, kStandardInput, kFile };

  unsigned cluster = 0;
  unsigned node = 0;  // of this cluster, from 0
  std::string gdb;    // path
  Commands commands = Commands::kTerminal;
  std::string file;   // Commands::kFile
  int terminal = -1;  // Commands::kTerminal: the descriptor that gdb writes to
};

// `place`: what --gdb was given, CLUSTER or CLUSTER.NODE; `file`: what --gdb-command was given, or empty. Looks at
// standard input and output. The error names the option and the cure.
Result<DebuggerOptions> plan_debugger(const std::string& place, const std::string& file,
                                      const settings::RunConfig& config, const std::string& path);

class Debugger {
 public:
  explicit Debugger(const DebuggerOptions& options) : options_(options) {}
  ~Debugger() { take_terminal_back(); }
  Debugger(Debugger&&) = delete;

  // Before the processes start.
  Result<void> listen();
  // The socket's name, to which the process of options.cluster connects.
  const std::string& address() const { return listener_->address; }

  // poll() waits for this.
  pollfd to_watch() const;
  // Starts gdb when the process has come, and continues a gdb that was stopped. The error: gdb cannot be started.
  Result<void> turn(ChildProcesses& children);
  void kill(const ChildProcesses& children) const;
  // Whether it was gdb that ended.
  bool on_end(ChildId child);

  unsigned cluster() const { return options_.cluster; }
  bool has_begun() const { return gdb_.has_value(); }
  // Somebody at the terminal looks at the process, and ends this when done.
  bool is_used_by_hand() const { return is_running_ && has_terminal(); }
  bool has_terminal() const { return options_.commands == DebuggerOptions::Commands::kTerminal; }
  bool reads_standard_input() const { return options_.commands != DebuggerOptions::Commands::kFile; }

 private:
  Result<void> start(ChildProcesses& children, pid_t process);
  void take_terminal_back();

  const DebuggerOptions options_;
  std::optional<Listener> listener_;
  Descriptor process_;  // from the process; closed when gdb has ended, so that nobody waits for it any more
  std::optional<ChildId> gdb_;
  bool is_running_ = false;
  std::optional<termios> terminal_;  // as it was
};

}  // namespace braid::cli
