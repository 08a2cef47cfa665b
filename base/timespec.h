// Lengths of time as calls of POSIX state them.
#pragma once

#include <ctime>

#include "base/time.h"

namespace braid {

// `time`: not negative.
constexpr timespec to_timespec(Duration time) {
  return {time.ns() / Duration::s(1).ns(), time.ns() % Duration::s(1).ns()};
}

constexpr Duration to_duration(const timespec& time) {
  return Duration::s(time.tv_sec) + Duration::ns(time.tv_nsec);
}

// Does nanosleep() take it?
constexpr bool is_valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < Duration::s(1).ns();
}

}  // namespace braid
