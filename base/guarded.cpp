#include "base/guarded.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "base/system_error.h"

namespace braid {
namespace {

constexpr std::size_t kTextBytes = 512;
constexpr const char* kNoMemory =
    "out of memory: free memory, or raise the limit of this process's memory (ulimit -v)";

void describe(const std::system_error& e, char* text, std::size_t room) {
  if (e.code().category() != std::generic_category() && e.code().category() != std::system_category()) {
    std::snprintf(text, room, "%s", e.what());
    return;
  }
  std::snprintf(text, room, "%s; %s", e.what(), cause_and_cure(e.code().value()).c_str());
}

}  // namespace

void describe_exception(char* text, std::size_t room) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      std::snprintf(text, room, "%s", kNoMemory);
    } catch (const std::system_error& e) {
      describe(e, text, room);
    } catch (const std::exception& e) {
      std::snprintf(text, room, "an unexpected error: %s", e.what());
    }
  } catch (...) {
    std::snprintf(text, room, "%s", kNoMemory);  // also for the description
  }
}

void report_exception(const char* name) noexcept {
  char text[kTextBytes], line[kTextBytes + 64];
  describe_exception(text, sizeof text);
  const int n = std::snprintf(line, sizeof line, "%s: %s\n", name, text);
  const std::size_t length = n < 0 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(n), sizeof line - 1);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, length);
}

}  // namespace braid
