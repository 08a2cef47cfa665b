// The words of the enumerations that several structs of settings use. Where a value has several words, the
// first is written.
#pragma once

#include "convergence/dispatch.h"
#include "convergence/peer_choice.h"
#include "proxy/nic/steering.h"
#include "settings/setting.h"
#include "stack/fragmentation.h"
#include "stack/window/congestion.h"

namespace braid::settings {

template <>
struct Words<convergence::Dispatch> {
  using E = convergence::Dispatch;
  static constexpr Word<E> kAll[] = {{"fixed", E::kFixed},
                                     {"rr", E::kRoundRobin},
                                     {"round-robin", E::kRoundRobin},
                                     {"least-loaded", E::kLeastLoaded}};
};
template <>
struct Words<convergence::PeerChoice> {
  using E = convergence::PeerChoice;
  static constexpr Word<E> kAll[] = {{"aligned", E::kAligned}, {"round-robin", E::kRoundRobin}};
};
template <>
struct Words<stack::CongestionControl> {
  using E = stack::CongestionControl;
  static constexpr Word<E> kAll[] = {{"none", E::kNone}, {"delay", E::kDelay}};
};
template <>
struct Words<stack::Fragmentation> {
  using E = stack::Fragmentation;
  static constexpr Word<E> kAll[] = {{"transport", E::kTransport}, {"ip", E::kIp}};
};
template <>
struct Words<proxy::Steering> {
  using E = proxy::Steering;
  static constexpr Word<E> kAll[] = {{to_string(E::kAuto), E::kAuto},
                                     {to_string(E::kFlow), E::kFlow},
                                     {to_string(E::kRss), E::kRss},
                                     {to_string(E::kHandoff), E::kHandoff}};
};

}  // namespace braid::settings
