// Text that comes in parts, as whole lines: parts of several sources that are written to one file tear no line.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace braid::cli {

class WholeLines {
 public:
  // The lines that `part` completes, with the last newline; empty: none.
  std::string take(std::string_view part) {
    const std::size_t end = part.rfind('\n');
    if (end == std::string_view::npos) {
      rest_ += part;
      return {};
    }
    std::string lines = std::exchange(rest_, std::string(part.substr(end + 1)));
    return lines.append(part.substr(0, end + 1));
  }
  // An unfinished line; nothing more comes.
  std::string take_rest() { return std::exchange(rest_, {}); }

 private:
  std::string rest_;
};

}  // namespace braid::cli
