// The child processes of a command. Each is the head of a process group. When it ends, or the command
// ends (also by kill -9), the whole group is killed. Used by one thread, the only one of the process.
//
//   while (children.any_alive()) {
//     children.wait(deadline);                               // output is relayed meanwhile
//     for (int signal : children.take_signals()) ...
//     for (const EndedChild& ended : children.take_ended()) ...
//     children.output().write_some();
//   }
#pragma once

#include <poll.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tools/braid/process/keeper.h"
#include "tools/braid/process/output_relay.h"
#include "tools/braid/process/process.h"
#include "tools/braid/process/signals.h"

namespace braid::cli {

// In the order of starting, from 0.
enum class ChildId : std::size_t {};

struct EndedChild {
  ChildId child;
  int wait_status;  // of waitpid(2)
  bool timed_out;   // it was killed at its deadline
};

class ChildProcesses {
 public:
  struct Options {
    std::vector<int> signals;  // returned by take_signals(); they have no other effect
    int out_fd = 1;            // where output is relayed to
    int err_fd = 2;
  };
  // Takes over the signals of the process (signals.h) and starts the keeper.
  static Result<ChildProcesses> create(const Options& options);
  ChildProcesses(ChildProcesses&&) = default;
  ChildProcesses& operator=(ChildProcesses&&) = delete;
  ~ChildProcesses() { stop_all(); }

  // Its output lines get `prefix`, unless `options` redirect
  // them. It is killed with its group at `deadline`.
  Result<ChildId> start(const ProcessOptions& options, const std::string& prefix = "",
                        Instant deadline = Instant::never());

  // Returns when there may be something to do: a signal, an end, output, one of `also` (a
  // negative descriptor is ignored), or `until`. Kills children whose deadline has passed.
  void wait(Instant until, std::span<pollfd> also = {});
  std::vector<int> take_signals() { return signals_.take(); }
  // The children that have ended since the last call, in the order of
  // starting. Their groups are gone, and their output has been read.
  std::vector<EndedChild> take_ended();
  OutputRelay& output() { return output_; }

  bool is_alive(ChildId child) const { return at(child).alive; }
  bool any_alive() const;
  pid_t pid(ChildId child) const { return at(child).pid; }
  // A signal (SIGSTOP, SIGTSTP) has stopped it; a debugger that holds it is not meant.
  bool is_stopped(ChildId child) const;
  // It has a handler for this signal.
  bool handles(ChildId child, int signal) const;
  // Sends a signal to a child that is alive; does nothing if it has ended.
  void send(ChildId child, int signal) const;
  void send_to_group(ChildId child, int signal) const;
  // Kills all groups and waits for their heads, which take_ended() does not return any more.
  void stop_all();

 private:
  struct Child {
    pid_t pid = -1;
    std::size_t source = kNoSource;  // of its output
    Instant deadline = Instant::never();
    bool alive = true;
    bool timed_out = false;
  };
  static constexpr std::size_t kNoSource = ~std::size_t{0};

  ChildProcesses(Keeper keeper, Signals signals, const Options& options)
      : keeper_(std::move(keeper)), signals_(std::move(signals)), output_(options.out_fd, options.err_fd) {}
  const Child& at(ChildId child) const { return children_[static_cast<std::size_t>(child)]; }
  Instant next_deadline() const;
  void kill_late();
  int reap(Child& child);

  Keeper keeper_;
  Signals signals_;
  OutputRelay output_;
  std::vector<Child> children_;  // by ChildId
};

}  // namespace braid::cli
