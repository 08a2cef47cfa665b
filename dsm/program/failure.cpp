#include "dsm/program/failure.h"

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace braid::dsm {

std::size_t format_within(char* text, std::size_t room, fmt::string_view format, fmt::format_args arguments) {
  return std::min(fmt::vformat_to_n(text, room, format, arguments).size, room);
}

void fail_with_text(const char* text, std::size_t length) {
  static std::atomic<bool> said{false};
  while (said.exchange(true)) ::pause();  // another thread is ending the process
  char head[] = "braid: ";
  char end[] = "\n";
  const iovec parts[] = {{head, sizeof head - 1}, {const_cast<char*>(text), length}, {end, 1}};  // NOLINT
  // One call, so that lines of several processes on one terminal stay whole.
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, parts, 3);
  ::_exit(kFailureStatus);
}

}  // namespace braid::dsm
