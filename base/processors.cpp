#include "base/processors.h"

#include <sched.h>

#include <cerrno>
#include <charconv>

namespace braid {

std::optional<std::vector<unsigned>> parse_processors(std::string_view text) {
  std::vector<unsigned> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    unsigned number = 0;
    const std::from_chars_result read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || number >= kMaxProcessors) return {};
    all.push_back(number);
    at = read.ptr;
    if (at == end) break;
    if (*at++ != ',' || at == end) return {};
  }
  return all;
}

std::string text_of_processors(std::span<const unsigned> processors) {
  std::string text;
  for (const unsigned number : processors) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

std::vector<unsigned> processors_of_this_thread() {
  cpu_set_t set;
  std::vector<unsigned> all;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (unsigned i = 0; i < kMaxProcessors; ++i) {
    if (CPU_ISSET(i, &set)) all.push_back(i);
  }
  return all;
}

int run_on_processors(std::span<const unsigned> processors) {
  static_assert(kMaxProcessors == CPU_SETSIZE);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned number : processors) {
    if (number < kMaxProcessors) CPU_SET(number, &set);
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

}  // namespace braid
