#include "tools/braid/run/tree/first_words.h"

#include <fmt/core.h>

#include <utility>

#include "tools/braid/run/liveness.h"

namespace braid::cli {
namespace {

// More than this of what comes before the greeting is not shown.
constexpr std::size_t kMostShown = 4096;

}  // namespace

FirstWords::FirstWords(std::string_view greeting, std::string host)
    : greeting_(greeting), host_(std::move(host)) {}

bool FirstWords::take(MessageReader& reader, OutputRelay& output) {
  if (are_over_) return true;
  std::string skipped;
  are_over_ = reader.skip_to(greeting_, skipped);
  show(skipped, output);
  // What the reader keeps may be the beginning of the greeting, a newline: the line before it is complete.
  if (are_over_ || !reader.is_empty()) end(output);
  return are_over_;
}

// A line with a zero byte is no text, and nothing after it is shown: a command that is no braid-node may say again what it was told, the
// run's secret among it, and each message that it is told begins with its length, which has such a byte.
void FirstWords::show(std::string_view words, OutputRelay& output) {
  for (const char c : words) {
    if (!is_text_) return;
    is_text_ = c != '\0' && ++taken_bytes_ <= kMostShown;
    if (c == '\0')
      line_.clear();
    else if (c == '\n' || !is_text_)
      end(output);
    else
      line_ += c;
  }
}

void FirstWords::end(OutputRelay& output) {
  if (!line_.empty()) output.print_error(fmt::format("[{}] {}", host_, line_));
  line_.clear();
}

std::string text_of_silence() {
  return fmt::format("it has said nothing for {:.0f} s", Liveness::kLost.s());
}

std::string text_of_no_answer() {
  return fmt::format(
      "its braid-node has not answered for {:.0f} s; its messages, if there are any, are above",
      kHostConnects.s());
}

}  // namespace braid::cli
