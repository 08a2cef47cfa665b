// The end of a process that cannot continue: one line on standard error, then status 70 (EX_SOFTWARE), from any
// thread and from inside a fault. It runs no destructors, flushes nothing and takes no lock, because the code
// that was interrupted may hold any.
#pragma once

#include <fmt/core.h>

#include <cstddef>

namespace braid::dsm {

inline constexpr int kFailureStatus = 70;

// Writes "braid: <text>\n" and ends the process. Of several threads the first one is heard.
[[noreturn]] void fail_with_text(const char* text, std::size_t length);

// Writes the text into `room` bytes at `text` and returns its length; a longer text is cut. It allocates nothing where
// the arguments are integers and C strings. (No template: fmt's formatting is compiled once, not wherever a process may
// fail.)
std::size_t format_within(char* text, std::size_t room, fmt::string_view format, fmt::format_args arguments);

// Formats on the stack; a longer text is cut. Arguments are integers and C strings, whose formatting
// allocates nothing.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, const Args&... args) {
  char text[512];
  fail_with_text(text, format_within(text, sizeof text, format, fmt::make_format_args(args...)));
}

}  // namespace braid::dsm
