// A host through which others are reached: a `braid-node --relay-hosts` there (relay_agent.h) starts its own braid-node and the commands of
// the hosts behind it, and carries their input and output. A host behind it can be a relay, too: its messages are then bytes of this one.
//
// Both say maps of CBOR to each other (messages.h). To the relay ("do"):
//   start       command (a number), words, prefix (of its standard error's lines)
//   input       command, bytes; end_input: command; kill: command
//   beat        nothing
// From it ("is"):
//   started     command; failed: command, text
//   output      command, bytes (of its standard output)
//   ended       command, text; its output came before
//   errors      bytes: lines of standard errors, with their prefixes
//   beat        nothing
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/braid/process/whole_lines.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/messages.h"
#include "tools/braid/run/tree/first_words.h"
#include "tools/braid/run/tree/host_command.h"

namespace braid::cli {

// A relay writes this first.
inline constexpr std::string_view kRelayGreeting = "\nbraid-node relay 1\n";
inline constexpr const char* kRelayOption = "--relay-hosts";

class HostRelay {
 public:
  // `own`: the command that starts it on `host`. `children` must live as long.
  HostRelay(ChildProcesses& children, std::string host, std::unique_ptr<HostCommand> own);

  // A command that it is to run, for its own host or one behind it. This object must live as long.
  std::unique_ptr<HostCommand> command(const std::string& host, std::vector<std::string> words);

  void watch(std::vector<pollfd>& fds, bool is_read) const { own_->watch(fds, is_read); }
  Instant next_deadline() const;
  void turn(Instant now, bool is_read);
  bool take_end(const EndedChild& ended) { return own_->take_end(ended); }

 private:
  class Relayed;
  // A command of it.
  struct Branch {
    std::string host;
    std::vector<std::string> words;
    bool is_asked_for = false, is_started = false;
    std::string output;
    std::optional<std::string> end;
  };

  Result<void> start(std::size_t branch);
  void send(const Message& message) { own_->send(encode(message)); }
  void kill(std::size_t branch);
  bool is_held_up(Instant now) const;
  void read_some(Instant now);
  void take(const Message& message);
  Branch& branch_of(const Message& message);
  void look_for_life(Instant now);
  void close_unused(Instant now);
  void lose(const std::string& why);

  ChildProcesses& children_;
  const std::string host_;
  const std::unique_ptr<HostCommand> own_;
  std::vector<Branch> branches_;
  MessageReader reader_;
  FirstWords first_words_;
  WholeLines errors_;
  bool is_asked_for_ = false, is_closing_ = false, is_over_ = false;
  Liveness liveness_;
  Instant heard_ = Instant::from_ns(0);
  Instant beat_at_ = Instant::from_ns(0);
  Instant kill_by_ = Instant::never(), close_by_ = Instant::never();
};

}  // namespace braid::cli
