#include "tools/braid/process/line_prefixer.h"

#include <algorithm>

namespace braid::cli {

void LinePrefixer::emit(std::string& out) {
  out += prefix_;
  if (continued_) out += "... ";
  out += line_;
  out += '\n';
  line_.clear();
}

void LinePrefixer::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kMaxLineBytes - line_.size();
    const std::size_t taken = std::min({newline, room, bytes.size()});
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (!bytes.empty() && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      emit(out);
      continued_ = false;
    } else if (line_.size() == kMaxLineBytes && !bytes.empty()) {
      emit(out);
      continued_ = true;
    }
  }
}

void LinePrefixer::finish(std::string& out) {
  if (!line_.empty()) emit(out);
  continued_ = false;
}

}  // namespace braid::cli
