#include "tools/braid/doctor/consulted_host.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/doctor/host_side.h"
#include "tools/braid/find_program.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {

Result<ConsultedHost> ConsultedHost::start(const std::vector<std::string>& command,
                                           std::vector<int> inherited) {
  const char* const path = std::getenv("PATH");
  const Result<std::string> program = find_in_path(command.front(), path == nullptr ? "" : path);
  if (!program) return program.error();
  // A socket, because a write to it raises no SIGPIPE when the other end has gone.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return error("a connection to {}: {}", command.front(), cause_and_cure(errno));
  Descriptor ours(ends[0]), theirs(ends[1]);
  ProcessOptions options;
  options.path = *program;
  options.arguments = command;
  options.environment = merge_environment(environ, {});
  options.stdin_fd = theirs.get();
  options.inherited = std::move(inherited);
  Result<Process> process = start_process(options);
  if (!process) return process.error();
  return ConsultedHost(command.front(), std::move(process).value(), std::move(ours));
}

ConsultedHost::~ConsultedHost() {
  if (process_.pid <= 0 || !process_.out) return;  // moved from
  forward_errors();
  (void)::kill(-process_.pid, SIGKILL);
  (void)::waitpid(process_.pid, nullptr, 0);
}

void ConsultedHost::say(const nlohmann::json& message) {
  const std::string line = message.dump() + "\n";
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t n = ::send(to_.get(), line.data() + written, line.size() - written, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // it has ended: next() tells
    written += static_cast<std::size_t>(n);
  }
}

void ConsultedHost::forward_errors() {
  char bytes[4096];
  for (ssize_t n = 0; process_.err && (n = ::read(process_.err.get(), bytes, sizeof bytes)) > 0;)
    (void)std::fwrite(bytes, 1, static_cast<std::size_t>(n), stderr);
}

Result<nlohmann::json> ConsultedHost::next(Instant deadline) {
  for (bool is_over = false;;) {
    for (std::size_t end = 0; (end = said_.find('\n')) != std::string::npos;) {
      const std::string line = said_.substr(0, end);
      said_.erase(0, end + 1);
      if (!line.starts_with(kDoctorMark)) continue;
      nlohmann::json message = nlohmann::json::parse(line.substr(kDoctorMark.size()), nullptr, false);
      if (message.is_discarded()) return error("what its braid-node says is no message");
      return message;
    }
    if (is_over) {
      forward_errors();
      int status = 0;
      // It has closed its output, so it ends, or is ended by the destructor.
      if (::waitpid(process_.pid, &status, WNOHANG) != process_.pid)
        return error("{} has closed its output", name_);
      process_.pid = -1;
      return error("{} {}; its messages, if there are any, are above", name_, describe_end(status));
    }
    // What has come before a deadline that has passed meanwhile, while another host was waited for, is read.
    const Duration left = std::max(Duration(), deadline - monotonic_now());
    pollfd fds[] = {{process_.out.get(), POLLIN, 0}, {process_.err.get(), POLLIN, 0}};
    (void)::poll(fds, 2, static_cast<int>(left.ns() / 1'000'000 + 1));
    forward_errors();
    if (fds[1].revents != 0 && (fds[1].revents & POLLIN) == 0) process_.err.close();
    char bytes[65536];
    const ssize_t n = ::read(process_.out.get(), bytes, sizeof bytes);
    if (n > 0) said_.append(bytes, static_cast<std::size_t>(n));
    if (n < 0 && left == Duration()) return error("its braid-node has not answered");
    is_over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    // Its status comes a moment after the end of its output.
    if (is_over) (void)::usleep(100'000);
  }
}

}  // namespace braid::cli
