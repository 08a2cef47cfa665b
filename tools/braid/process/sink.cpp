#include "tools/braid/process/sink.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/output_file.h"
#include "tools/braid/process/forget.h"

namespace braid::cli {

void Sink::write_some() {
  if (gone_ || pending_.empty()) return;
  const HeldWriteSignals held(true);
  while (!gone_ && waiting() > 0) {
    // The descriptor may be shared with other processes, so it stays in
    // blocking mode; a pipe that polls writable takes PIPE_BUF at once.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    const std::size_t part = std::min<std::size_t>(waiting(), PIPE_BUF);
    const ssize_t n = ::write(fd_, pending_.data() + written_, part);
    if (n > 0) {
      ::explicit_bzero(pending_.data() + written_, static_cast<std::size_t>(n));
      written_ += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      gone_ = errno != EAGAIN;
      if (gone_) problem_ = errno;
      break;
    }
  }
  if (gone_) written_ = pending_.size();
  if (written_ >= pending_.size() - written_) forget_front(pending_, std::exchange(written_, 0));
}

bool Sink::take_failure() {
  if (!gone_ || told_) return false;
  told_ = true;
  return true;
}

}  // namespace braid::cli
