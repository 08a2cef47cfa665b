// One of the command's own outputs. What its reader does not take at once is kept here, so that a reader who
// dozes stops neither the supervision nor the signals; the sources stop being read when much is waiting.
#pragma once

#include <string>

namespace braid::cli {

class Sink {
 public:
  static constexpr std::size_t kMuchBytes = 1 << 20;

  explicit Sink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  // To append to. Nothing is kept for a reader who has gone.
  std::string& pending() { return pending_; }
  bool wants_to_write() const { return !pending_.empty() && !gone_; }
  bool has_room() const { return gone_ || pending_.size() < kMuchBytes; }
  // Writes what can be written now without waiting.
  void write_some();
  // The reader closed his end. Told once.
  bool reader_left();

 private:
  const int fd_;
  std::string pending_;
  bool gone_ = false;
  bool told_ = false;
};

}  // namespace braid::cli
