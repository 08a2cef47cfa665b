#include "tools/braid/run/tree/first_words.h"

#include <fmt/core.h>

#include "tools/braid/run/liveness.h"

namespace braid::cli {
namespace {

// More than this of what was skipped before the greeting is not shown.
constexpr std::size_t kMostSkipped = 4096;

}  // namespace

bool take_greeting(MessageReader& reader, std::string_view greeting, const std::string& host,
                   OutputRelay& output) {
  std::string skipped;
  if (!reader.skip_to(greeting, skipped)) return false;
  if (!skipped.empty()) output.print_error(fmt::format("[{}] {}", host, skipped.substr(0, kMostSkipped)));
  return true;
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
