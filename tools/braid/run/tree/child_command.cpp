#include "tools/braid/run/tree/child_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/process_end.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {

ChildCommand::ChildCommand(ChildProcesses& children, std::vector<std::string> words, std::string prefix,
                           std::vector<int> inherited)
    : children_(children),
      words_(std::move(words)),
      prefix_(std::move(prefix)),
      inherited_(std::move(inherited)) {}

Result<void> ChildCommand::start() {
  const char* const path = std::getenv("PATH");
  const Result<std::string> program = find_in_path(words_.front(), path == nullptr ? "" : path);
  if (!program) return program.error();
  Result<Pipe> to = make_pipe(), from = make_pipe();
  if (!to) return to.error();
  if (!from) return from.error();
  ProcessOptions options;
  options.path = *program;
  options.arguments = words_;
  options.environment = merge_environment(environ, {});
  options.stdin_fd = to->read.get();
  options.stdout_fd = from->write.get();
  options.inherited = inherited_;
  // What a braid-node starts on this host has a container of its own.
  options.contained = false;
  const Result<ChildId> child = children_.start(options, prefix_);
  if (!child) return child.error();
  child_ = *child;
  from_ = std::move(from->read);
  to_ = std::move(to->write);
  ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  out_.emplace(to_.get());
  return {};
}

void ChildCommand::send(std::string_view bytes) {
  if (out_) out_->pending() += bytes;
}

void ChildCommand::close_input() {
  is_closing_input_ = true;
  write_some();
}

void ChildCommand::kill() {
  out_.reset();
  to_.close();
  if (child_) children_.send_to_group(*child_, SIGKILL);
}

void ChildCommand::watch(std::vector<pollfd>& fds, bool is_read) const {
  if (is_read && from_) fds.push_back({from_.get(), POLLIN, 0});
  if (out_ && out_->wants_to_write()) fds.push_back({out_->fd(), POLLOUT, 0});
}

void ChildCommand::write_some() {
  if (!out_) return;
  out_->write_some();
  if (!is_closing_input_ || out_->wants_to_write()) return;
  out_.reset();
  to_.close();
}

std::string ChildCommand::take_output() {
  char bytes[65536];
  while (from_) {
    const ssize_t n = ::read(from_.get(), bytes, sizeof bytes);
    if (n > 0) return {bytes, static_cast<std::size_t>(n)};
    if (n < 0 && errno == EINTR) continue;
    // At the end of the file it is about to end.
    if (n == 0 || errno != EAGAIN || end_) from_.close();
    break;
  }
  return {};
}

bool ChildCommand::take_end(const EndedChild& ended) {
  if (!child_ || ended.child != *child_) return false;
  end_ = fmt::format("{} {}", words_.front(), describe_end(ended.wait_status));
  out_.reset();
  to_.close();
  return true;
}

}  // namespace braid::cli
