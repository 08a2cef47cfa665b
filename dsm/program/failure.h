// Ends a process that cannot continue: one line on standard error, then status 70
// (EX_SOFTWARE). From any thread, also inside a fault. It runs no destructors, flushes
// nothing and takes no lock, because the code that was interrupted may hold any.
#pragma once

#include <fmt/core.h>

#include <cstddef>

#include "base/result.h"

namespace braid::dsm {

inline constexpr int kFailureStatus = 70;

// Of several threads that end the process, or report its crash, the first one does: true for it, and false when the same
// thread asks again. Others wait here for the end.
bool claim_end();

// Writes "braid: <text>\n" and ends the process. With several threads only the first text is written.
[[noreturn]] void fail_with_text(const char* text, std::size_t length);
[[noreturn]] inline void fail_with_text(const Error& error) {
  fail_with_text(error.text.data(), error.text.size());
}

// Ends the process because another cluster has gone, which is a consequence: where the end is recorded (end_record.h), the
// text is left there, for the one who knows the cause to print after it; else it is printed.
[[noreturn]] void fail_for_lost_cluster(const char* text, std::size_t length);

// Writes the text to the `room` bytes at `text` and returns its length; a
// longer text is cut. Allocates nothing if the arguments are integers and C
// strings. (Not a template, so that fmt's formatting is compiled once only.)
std::size_t format_within(char* text, std::size_t room, fmt::string_view format, fmt::format_args arguments);

// Formats on the stack; a longer text is cut. Arguments must be
// integers and C strings, so that formatting allocates nothing.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, const Args&... args) {
  char text[512];
  fail_with_text(text, format_within(text, sizeof text, format, fmt::make_format_args(args...)));
}

}  // namespace braid::dsm
