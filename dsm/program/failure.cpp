#include "dsm/program/failure.h"

#include <fmt/core.h>
#include <sys/syscall.h>
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

void print(const char* text, std::size_t length) {
  char head[] = "braid: ";
  char end[] = "\n";
  const iovec parts[] = {{head, sizeof head - 1}, {const_cast<char*>(text), length}, {end, 1}};  // NOLINT
  // One call, so that lines of several processes are not mixed on one terminal.
  const bool is_printed = ::writev(STDERR_FILENO, parts, 3) > 0;
  // `braid run` prints the record's text if this process has closed its standard error.
  (void)record_end(EndCause::kFailure,
                   {.text = is_printed ? std::string_view() : std::string_view(text, length)});
}

}  // namespace

bool claim_end() {
  static std::atomic<pid_t> owner{0};
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t current = 0;
  if (owner.compare_exchange_strong(current, self)) return true;
  while (current != self) ::pause();
  return false;
}

void fail_with_text(const char* text, std::size_t length) {
  (void)claim_end();
  print(text, length);
  ::_exit(kFailureStatus);
}

void fail_for_lost_cluster(const char* text, std::size_t length) {
  (void)claim_end();
  if (!record_end(EndCause::kLostCluster, {.text = {text, length}})) print(text, length);
  ::_exit(kFailureStatus);
}

}  // namespace braid::dsm
