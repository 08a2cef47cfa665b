#include "base/check.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace braid {

void check_failed(const char* file, int line, const char* condition) {
  check_failed(file, line, condition, "");
}

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%s\n", file, line, condition, values.empty() ? "" : ": ",
               values.c_str());
  std::fflush(stderr);
  std::abort();
}

namespace detail {
std::string printed_integer(long long value) {
  return fmt::format("{}", value);
}
std::string printed_integer(unsigned long long value) {
  return fmt::format("{}", value);
}
std::string printed_real(double value) {
  return fmt::format("{}", value);
}
std::string printed_pointer(const void* value) {
  return fmt::format("{}", value);
}
}  // namespace detail

}  // namespace braid
