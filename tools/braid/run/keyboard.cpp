#include "tools/braid/run/keyboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "tools/braid/process/pipe.h"

namespace braid::cli {

int Keyboard::open() {
  if (::isatty(0) != 1) return 0;
  // Opened anew, so that not to wait is our own affair: what was there to be read is gone when control-C
  // comes before we read it.
  terminal_ = Descriptor(::open("/proc/self/fd/0", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!terminal_) return -1;
  Result<Pipe> pipe = make_pipe();
  if (!pipe) return -1;
  theirs_ = std::move(pipe->read);
  ours_ = std::move(pipe->write);
  ::fcntl(ours_.get(), F_SETFL, O_NONBLOCK);
  return theirs_.get();
}

// In the background the terminal is not ours to read.
pollfd Keyboard::to_read() const {
  const bool wants = ours_ && typed_.empty() && ::tcgetpgrp(0) == ::getpgrp();
  return {wants ? terminal_.get() : -1, POLLIN, 0};
}

void Keyboard::read_some() {
  char bytes[4096];
  const ssize_t n = ::read(terminal_.get(), bytes, sizeof bytes);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return ours_.close();
  typed_.assign(bytes, static_cast<std::size_t>(n));
  write_some();
}

void Keyboard::write_some() {
  const ssize_t n = ::write(ours_.get(), typed_.data(), typed_.size());
  if (n > 0) typed_.erase(0, static_cast<std::size_t>(n));
  if (n < 0 && errno != EAGAIN) {
    typed_.clear();
    ours_.close();
  }
}

}  // namespace braid::cli
