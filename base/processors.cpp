#include "base/processors.h"

#include <sched.h>

#include <cerrno>
#include <charconv>
#include <set>

namespace braid {
namespace {

// Reads the number of a processor, which ends at `at` then. False: there is none.
bool take_number(const char*& at, const char* end, unsigned& number) {
  const std::from_chars_result read = std::from_chars(at, end, number);
  at = read.ptr;
  return read.ec == std::errc() && number < kMaxProcessors;
}

}  // namespace

std::optional<std::vector<unsigned>> parse_processors(std::string_view text) {
  std::vector<unsigned> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    unsigned number = 0;
    if (!take_number(at, end, number)) return {};
    all.push_back(number);
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

std::optional<std::vector<unsigned>> parse_processor_set(std::string_view text) {
  std::set<unsigned> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    unsigned first = 0;
    if (!take_number(at, end, first)) return {};
    unsigned last = first;
    if (at != end && *at == '-' && (++at, !take_number(at, end, last) || last < first)) return {};
    for (unsigned number = first; number <= last; ++number) all.insert(number);
    if (at == end) return std::vector(all.begin(), all.end());
    if (*at++ != ',') return {};
  }
}

std::string text_of_processor_set(std::span<const unsigned> ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    const unsigned first = ascending[i];
    unsigned last = first;
    while (++i < ascending.size() && ascending[i] == last + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
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
