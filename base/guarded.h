// The border between code that may run out of memory, threads or descriptors and code that must not be left by an
// exception: main(), a thread's function, a program's call of ours.
#pragma once

#include <cstddef>
#include <utility>

namespace braid {

// For the handler of an exception, inside catch (...): what happened, and the cure where there is a usual one, in at most
// `room` bytes with a zero at the end. Allocates nothing that it could not do without.
void describe_exception(char* text, std::size_t room) noexcept;
// The same as a line on standard error: "NAME: TEXT".
void report_exception(const char* name) noexcept;

// Returns what f() returns; `status` where an exception leaves it, which is reported.
template <class F>
int guarded(const char* name, int status, F&& f) noexcept {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    report_exception(name);
    return status;
  }
}

}  // namespace braid
