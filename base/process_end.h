// How a process ended, from the status of waitpid(2).
#pragma once

#include <fmt/core.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <string>

namespace braid {

// For messages: "exited with status 3", "was killed by signal 11 (Segmentation fault), core dumped".
inline std::string describe_end(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  const char* const name = ::sigdescr_np(WTERMSIG(wait_status));
  return fmt::format("was killed by signal {} ({}){}", WTERMSIG(wait_status), name == nullptr ? "?" : name,
                     WCOREDUMP(wait_status) ? ", core dumped" : "");
}

// As in a shell: 128 + n if signal n killed the process.
inline int shell_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace braid
