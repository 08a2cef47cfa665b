#include "dsm/program/failure.h"

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "dsm/program/end_record.h"

namespace braid::dsm {

std::size_t format_within(char* text, std::size_t room, fmt::string_view format, fmt::format_args arguments) {
  return std::min(fmt::vformat_to_n(text, room, format, arguments).size, room);
}

namespace {

// Of several threads the first one is heard.
void become_the_one_that_fails() {
  static std::atomic<bool> is_failing{false};
  while (is_failing.exchange(true)) ::pause();  // another thread is ending the process
}

void print(const char* text, std::size_t length) {
  char head[] = "braid: ";
  char end[] = "\n";
  const iovec parts[] = {{head, sizeof head - 1}, {const_cast<char*>(text), length}, {end, 1}};  // NOLINT
  // One call, so that lines of several processes on one terminal stay whole.
  const bool is_printed = ::writev(STDERR_FILENO, parts, 3) > 0;
  // Who has closed standard error is heard by this way.
  (void)record_end(EndCause::kFailure,
                   {.text = is_printed ? std::string_view() : std::string_view(text, length)});
}

}  // namespace

void fail_with_text(const char* text, std::size_t length) {
  become_the_one_that_fails();
  print(text, length);
  ::_exit(kFailureStatus);
}

void fail_for_lost_cluster(const char* text, std::size_t length) {
  become_the_one_that_fails();
  if (!record_end(EndCause::kLostCluster, {.text = {text, length}})) print(text, length);
  ::_exit(kFailureStatus);
}

}  // namespace braid::dsm
