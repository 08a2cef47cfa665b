// One of the command's own outputs. Bytes that its reader does not take at once are kept here, so that a slow
// reader blocks neither the supervision nor the signals. When many bytes wait, the sources are not read.
#pragma once

#include <string>

namespace braid::cli {

class Sink {
 public:
  static constexpr std::size_t kMuchBytes = 1 << 20;

  explicit Sink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  // To append to. write_some() clears it when the output has failed.
  std::string& pending() { return pending_; }
  bool wants_to_write() const { return waiting() > 0 && !gone_; }
  bool has_room() const { return gone_ || waiting() < kMuchBytes; }
  // Writes what can be written now without blocking.
  void write_some();
  // The output cannot be written any more (closed by its reader, or failed). Returns true once.
  bool take_failure();
  // The errno of the failed write; EPIPE: the reader has closed it; 0: none has failed.
  int problem() const { return problem_; }

 private:
  std::size_t waiting() const { return pending_.size() - written_; }

  const int fd_;
  std::string pending_;
  // Of it, and overwritten there. They go when they are half of it: to move the rest for each part would take a time that grows
  // with its square.
  std::size_t written_ = 0;
  bool gone_ = false;
  int problem_ = 0;
  bool told_ = false;
};

}  // namespace braid::cli
