// Output of a process, brought home in whole lines with a prefix that says whose they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace braid::cli {

class LinePrefixer {
 public:
  // A longer line comes in parts; each but the first begins with the prefix and "... ".
  static constexpr std::size_t kMaxLineBytes = 8192;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Takes bytes as they come and appends the lines that are complete to `out`.
  void feed(std::string_view bytes, std::string& out);
  // There will be no more: an unfinished line is a line.
  void finish(std::string& out);

 private:
  void emit(std::string& out);

  const std::string prefix_;
  std::string line_;  // unfinished, shorter than kMaxLineBytes
  bool continued_ = false;
};

}  // namespace braid::cli
