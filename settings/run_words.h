// The words of the enumerations that only a run uses.
#pragma once

#include "settings/run.h"

namespace braid::settings {

template <>
struct Words<Wire> {
  static constexpr Word<Wire> kAll[] = {{"shm", Wire::kShm},
                                        {"udp", Wire::kUdp},
                                        {"dpdk", Wire::kDpdk},
                                        {"af_xdp", Wire::kXdp},
                                        {"af_packet", Wire::kPacket}};
};
template <>
struct Words<Protect> {
  static constexpr Word<Protect> kAll[] = {
      {"auto", Protect::kAuto}, {"mprotect", Protect::kMprotect}, {"userfaultfd", Protect::kUserfaultfd}};
};
template <>
struct Words<dsm::Protocol> {
  static constexpr Word<dsm::Protocol> kAll[] = {
      {"eager", dsm::Protocol::kEager}, {"lazy", dsm::Protocol::kLazy}, {"mgs", dsm::Protocol::kMgs}};
};
template <>
struct Words<Bind> {
  static constexpr Word<Bind> kAll[] = {{"core", Bind::kCore}, {"none", Bind::kNone}};
};
template <>
struct Words<DpdkKind> {
  static constexpr Word<DpdkKind> kAll[] = {{"memif", DpdkKind::kMemif}, {"af_packet", DpdkKind::kAfPacket}};
};

}  // namespace braid::settings
