#include "tools/braid/run/tree/relay_agent.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <memory>

#include "base/clock.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/process/forget.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/process/sink.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/messages.h"
#include "tools/braid/run/tree/child_command.h"
#include "tools/braid/run/tree/first_words.h"
#include "tools/braid/run/tree/host_relay.h"

namespace braid::cli {
namespace {

class RelayAgent {
 public:
  RelayAgent(ChildProcesses children, Pipe errors)
      : children_(std::move(children)),
        errors_write_(std::move(errors.write)),
        errors_(std::move(errors.read)),
        to_run_(STDOUT_FILENO) {}

  int serve() {
    to_run_.pending() += kRelayGreeting;
    liveness_.start(monotonic_now());
    while (!is_over_) {
      wait();
      turn(monotonic_now());
    }
    children_.stop_all();
    return status_;
  }

 private:
  void wait() {
    std::vector<pollfd> fds{{STDIN_FILENO, POLLIN, 0}};
    if (to_run_.wants_to_write()) fds.push_back({to_run_.fd(), POLLOUT, 0});
    if (to_run_.has_room()) fds.push_back({errors_.get(), POLLIN, 0});
    for (const auto& [number, command] : commands_) command->watch(fds, to_run_.has_room());
    children_.wait(beat_at_, fds);
  }

  void turn(Instant now) {
    for (const int signal : children_.take_signals()) end_by("a signal asked for the end", 128 + signal);
    read_some(now);
    for (const auto& [number, command] : commands_) {
      command->write_some();
      while (to_run_.has_room() && tell_output(number, *command)) {
      }
    }
    for (const EndedChild& ended : children_.take_ended()) take_end(ended);
    tell_errors();
    if (now >= beat_at_) {
      tell({{"is", "beat"}});
      beat_at_ = now + Liveness::kBeat;
    }
    to_run_.write_some();
    if (to_run_.take_failure()) end_by("the run does not take what is said any more", kLostDaemonStatus);
    if (liveness_.is_lost(now)) end_by(fmt::format("the run: {}", text_of_silence()), kLostDaemonStatus);
  }

  // Nobody is told.
  void end_by(const std::string& why, int status) {
    if (is_over_) return;
    is_over_ = true;
    status_ = status;
    fmt::print(stderr, "braid-node: {}; the hosts behind this one are let go\n", why);
  }

  void read_some(Instant now) {
    char bytes[65536];
    while (!is_over_) {
      pollfd ready{STDIN_FILENO, POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) return;
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
      if (n <= 0) {
        if (commands_.empty()) is_over_ = true;
        return end_by("the run has ended, or its connection", kLostDaemonStatus);
      }
      liveness_.on_word(now);
      reader_.feed({bytes, static_cast<std::size_t>(n)});
      forget(bytes);
      try {
        while (const std::optional<Message> message = reader_.next()) take(*message);
      } catch (const Message::exception& problem) {
        end_by(fmt::format("what came is no message of braid run: {}", problem.what()), kUsageStatus);
      }
    }
  }

  void take(const Message& message) {
    const std::string what = message.at("do").get<std::string>();
    if (what == "beat") return;
    const auto number = message.at("command").get<unsigned>();
    if (what == "start") return start(number, message);
    const auto command = commands_.find(number);
    if (command == commands_.end()) return;  // it has ended meanwhile
    if (what == "input") {
      command->second->send(bytes_of(message.at("bytes")));
    } else if (what == "end_input") {
      command->second->close_input();
    } else if (what == "kill") {
      command->second->kill();
    }
  }

  void start(unsigned number, const Message& message) {
    auto command =
        std::make_unique<ChildCommand>(children_, message.at("words").get<std::vector<std::string>>(),
                                       message.at("prefix").get<std::string>());
    if (const Result<void> done = command->start(); !done)
      return tell({{"is", "failed"}, {"command", number}, {"text", done.error().text}});
    tell({{"is", "started"}, {"command", number}});
    commands_[number] = std::move(command);
  }

  bool tell_output(unsigned number, ChildCommand& command) {
    const std::string bytes = command.take_output();
    if (!bytes.empty()) tell({{"is", "output"}, {"command", number}, {"bytes", bytes_value(bytes)}});
    return !bytes.empty();
  }

  // What it wrote comes before its end.
  void take_end(const EndedChild& ended) {
    for (auto i = commands_.begin(); i != commands_.end(); ++i) {
      const auto& [number, command] = *i;
      if (!command->take_end(ended)) continue;
      while (tell_output(number, *command)) {
      }
      tell_errors();
      tell({{"is", "ended"}, {"command", number}, {"text", *command->end()}});
      commands_.erase(i);
      return;
    }
  }

  void tell_errors() {
    children_.output().write_some();
    while (to_run_.has_room()) {
      pollfd ready{errors_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) return;
      char bytes[kOutputAtOnce];
      const ssize_t n = ::read(errors_.get(), bytes, sizeof bytes);
      if (n <= 0) return;
      tell({{"is", "errors"}, {"bytes", bytes_value({bytes, static_cast<std::size_t>(n)})}});
      children_.output().write_some();
    }
  }

  void tell(const Message& message) { to_run_.pending() += encode(message); }

  ChildProcesses children_;
  const Descriptor errors_write_;  // what children_ writes to
  const Descriptor errors_;
  Sink to_run_;
  MessageReader reader_;
  std::map<unsigned, std::unique_ptr<ChildCommand>> commands_;  // that have not ended, by their numbers
  bool is_over_ = false;
  int status_ = 0;
  Liveness liveness_;
  Instant beat_at_ = Instant::from_ns(0);
};

}  // namespace

int serve_hosts_behind() {
  Result<Pipe> errors = make_pipe();
  if (!errors) refuse(kLostDaemonStatus, errors.error().text);
  // The commands' standard outputs are theirs; nothing else is written to this process's.
  Result<ChildProcesses> children = ChildProcesses::create(
      {.signals = {SIGINT, SIGTERM, SIGHUP}, .out_fd = errors->write.get(), .err_fd = errors->write.get()});
  if (!children) refuse(kLostDaemonStatus, children.error().text);
  return RelayAgent(std::move(*children), std::move(*errors)).serve();
}

}  // namespace braid::cli
