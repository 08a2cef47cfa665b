// Divides the output of a process into whole lines with a prefix.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace braid::cli {

class LinePrefixer {
 public:
  // A longer line is divided; each part but the first begins with the prefix and "... ".
  static constexpr std::size_t kMaxLineBytes = 8192;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Takes bytes as they arrive and appends the complete lines to `out`.
  void feed(std::string_view bytes, std::string& out);
  // The output has ended: an unfinished line is complete.
  void finish(std::string& out);

 private:
  void emit(std::string& out);

  const std::string prefix_;
  std::string line_;  // unfinished, shorter than kMaxLineBytes
  bool continued_ = false;
};

}  // namespace braid::cli
