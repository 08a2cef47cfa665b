// A command that serves a host (its braid-node): its standard input, its standard output and its end. It is a child of this process
// (child_command.h) or of a relay on another host (host_relay.h). Used by one thread; no call blocks longer than a process takes to start.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tools/braid/process/child_processes.h"

namespace braid::cli {

class HostCommand {
 public:
  virtual ~HostCommand() = default;
  // Once, and before all else.
  virtual Result<void> start() = 0;
  // It runs, so that something may come from it.
  virtual bool is_started() const = 0;
  // To its standard input. What it does not take at once is kept until write_some().
  virtual void send(std::string_view bytes) = 0;
  // Little is kept: a sender of much waits for this, after write_some().
  virtual bool has_room() const = 0;
  // After what was sent.
  virtual void close_input() = 0;
  virtual void kill() = 0;
  // Appends the descriptors that poll() must wait for; of its output only if it is read.
  virtual void watch(std::vector<pollfd>& fds, bool is_read) const = 0;
  virtual void write_some() = 0;
  // A part of its standard output; empty: nothing is there now.
  virtual std::string take_output() = 0;
  // Whether it was this child of ours.
  virtual bool take_end(const EndedChild& ended) = 0;
  // How it has ended: "ssh exited with status 255". What take_output() still has was written before.
  virtual const std::optional<std::string>& end() const = 0;
  // That nothing comes says nothing about it: what carries its output is silent, too.
  virtual bool is_held_up(Instant) const { return false; }
};

}  // namespace braid::cli
