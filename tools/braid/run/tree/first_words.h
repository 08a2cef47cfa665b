// What everybody who waits for the words of a host does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/time.h"
#include "tools/braid/process/output_relay.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/messages.h"

namespace braid::cli {

// From the start of its command on, for the first word.
inline constexpr Duration kHostConnects = 60_s;
// The same for Liveness::start().
inline constexpr Duration kPatience = kHostConnects - Liveness::kLost;

// What a host says before its greeting: words of a login shell, or of the command that should have started its braid-node.
// They are shown as the host's, each line as soon as it is complete.
class FirstWords {
 public:
  // `greeting` begins with a newline, so that it is found behind a line that has none.
  FirstWords(std::string_view greeting, std::string host);

  // Whether the greeting has come: what `reader` has after it are messages.
  bool take(MessageReader& reader, OutputRelay& output);
  bool are_over() const { return are_over_; }
  // It does not come: what has come of a line is shown.
  void end(OutputRelay& output);

 private:
  void show(std::string_view words, OutputRelay& output);

  const std::string_view greeting_;
  const std::string host_;
  std::string line_;  // unfinished
  std::size_t taken_bytes_ = 0;
  bool is_text_ = true;  // what comes is shown
  bool are_over_ = false;
};

// Of one that is taken for lost: after its greeting, and before.
std::string text_of_silence();
std::string text_of_no_answer();

}  // namespace braid::cli
