#include "sim/races/call_places.h"

#include <unwind.h>

#include <algorithm>

namespace braid::sim {

// Compared from the inside: a frame is as before because the address of return to its function is.
bool CallPlaces::is_as_before(const Walk& walk, const std::uintptr_t* frame) {
  for (std::size_t call = 0; call < walk.depth; ++call) {
    if (frame[walk.slots[call]] != walk.returns[call]) return false;
  }
  return walk.depth > 0;
}

CallPlaces::Walk CallPlaces::walk_from(const std::uintptr_t* frame) {
  struct State {
    const std::uintptr_t* frame;
    Walk walk;
  } state{frame, {}};
  ::_Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        State& s = *static_cast<State*>(to);
        const std::uintptr_t address = ::_Unwind_GetIP(context);
        // Above it the caller's frame begins.
        const auto* const slot =
            reinterpret_cast<const std::uintptr_t*>(::_Unwind_GetCFA(context)) - 1;  // NOLINT
        if (slot <= s.frame) return _URC_NO_REASON;                                  // inside here()
        if (address == 0 || s.walk.depth == kCalls || *slot != address) return _URC_END_OF_STACK;
        s.walk.returns[s.walk.depth] = address;
        s.walk.slots[s.walk.depth++] = static_cast<std::size_t>(slot - s.frame);
        return _URC_NO_REASON;
      },
      &state);
  return state.walk;
}

__attribute__((noinline)) std::uint32_t CallPlaces::here(Find find, void* self) {
  const auto* const frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  const auto known = std::ranges::find_if(known_, [&](const Walk& w) { return is_as_before(w, frame); });
  if (known != known_.end()) {
    std::rotate(known_.begin(), known, known + 1);
    return known_.front().place;
  }
  Walk walk = walk_from(frame);
  std::array<std::uintptr_t, kCalls> calls = walk.returns;
  for (std::uintptr_t& call : calls) --call;
  walk.place = find(self, std::span(calls).first(walk.depth));
  std::rotate(known_.begin(), known_.end() - 1, known_.end());
  known_.front() = walk;
  return walk.place;
}

}  // namespace braid::sim
