// The time on the wire: 32 bits of units of 64 ns. Fine enough for shared memory; it wraps after four minutes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace braid::stack {

inline constexpr int kTimestampShift = 6;
inline constexpr Duration kTimestampTick = Duration::ns(std::int64_t{1} << kTimestampShift);
// Two instants that are closer than this have timestamps that can be compared.
inline constexpr Duration kTimestampRange = Duration::ns(std::int64_t{1} << (31 + kTimestampShift));

// Never 0, which says "no timestamp".
inline std::uint32_t timestamp(Instant now) {
  const auto t = static_cast<std::uint32_t>(now.ns() >> kTimestampShift);
  return t == 0 ? 1 : t;
}
// How long ago `then` was taken, in whole ticks; right also when the timestamps have wrapped.
inline Duration since_timestamp(Instant now, std::uint32_t then) {
  const std::uint32_t ticks = timestamp(now) - then;
  return Duration::ns(std::int64_t{ticks} << kTimestampShift);
}
// The last instant that has the same timestamp as `t`.
inline Instant end_of_tick(Instant t) {
  return t + (kTimestampTick - Duration::ns(1) - Duration::ns(t.ns() % kTimestampTick.ns()));
}

// A time that an end held something back, as 16 bits of a header: in ticks, and at most kHeldForLong.
inline constexpr std::uint16_t kHeldForLong = 0xffff;
inline std::uint16_t held_ticks(Duration held) {
  return static_cast<std::uint16_t>(std::min<std::int64_t>(held.ns() >> kTimestampShift, kHeldForLong));
}
inline Duration held_duration(std::uint16_t ticks) {
  return Duration::ns(std::int64_t{ticks} << kTimestampShift);
}

}  // namespace braid::stack
