// The states of a sub-connection's end, and what leads from one to another.
//
//   kHandshake ── peer known ──► kEstablished ── peer gone ──► kHandshake
//   any state ── fenced ──► kFenced            kHandshake, kEstablished ── ended ──► kClosed
//   kFenced, kClosed ── reopened ──► kHandshake
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace braid::stack {

enum class SubConnectionState : std::uint8_t { kHandshake, kEstablished, kFenced, kClosed };

enum class SubConnectionEvent : std::uint8_t {
  kPeerKnown,  // the peer named our epoch
  kPeerGone,   // it was lost, it closed, or it starts a new connection
  kFenced,     // the driver closed this end at once
  kEnded,      // the orderly end is over, or no peer has to be told
  kReopened,
};

struct SubConnectionTransition {
  SubConnectionState from;
  SubConnectionEvent event;
  SubConnectionState to;
};

inline constexpr auto kSubConnectionTransitions = [] {
  using S = SubConnectionState;
  using E = SubConnectionEvent;
  return std::to_array<SubConnectionTransition>({
      {S::kHandshake, E::kPeerKnown, S::kEstablished},
      {S::kHandshake, E::kFenced, S::kFenced},
      {S::kHandshake, E::kEnded, S::kClosed},
      {S::kEstablished, E::kPeerGone, S::kHandshake},
      {S::kEstablished, E::kFenced, S::kFenced},
      {S::kEstablished, E::kEnded, S::kClosed},
      {S::kFenced, E::kFenced, S::kFenced},
      {S::kFenced, E::kReopened, S::kHandshake},
      {S::kClosed, E::kFenced, S::kFenced},
      {S::kClosed, E::kReopened, S::kHandshake},
  });
}();

// nullopt: the event cannot happen in that state.
constexpr std::optional<SubConnectionState> next_state(SubConnectionState from, SubConnectionEvent event) {
  for (const SubConnectionTransition& t : kSubConnectionTransitions)
    if (t.from == from && t.event == event) return t.to;
  return std::nullopt;
}

namespace detail {
constexpr bool each_pair_is_listed_once() {
  for (std::size_t i = 0; i < kSubConnectionTransitions.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kSubConnectionTransitions[i].from == kSubConnectionTransitions[j].from &&
          kSubConnectionTransitions[i].event == kSubConnectionTransitions[j].event)
        return false;
  return true;
}
constexpr bool every_state_is_reachable() {
  std::array<bool, 4> reached{};
  reached[static_cast<std::size_t>(SubConnectionState::kHandshake)] = true;
  for (std::size_t round = 0; round < reached.size(); ++round)
    for (const SubConnectionTransition& t : kSubConnectionTransitions)
      if (reached[static_cast<std::size_t>(t.from)]) reached[static_cast<std::size_t>(t.to)] = true;
  for (const bool r : reached)
    if (!r) return false;
  return true;
}
}  // namespace detail
static_assert(detail::each_pair_is_listed_once());
static_assert(detail::every_state_is_reachable());

}  // namespace braid::stack
