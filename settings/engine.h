// The constants of the page engine (dsm/engine/types.h: EngineConfig) as settings of simulations and of cost models; the
// length of a page also of live runs.
#pragma once

#include <cstdint>
#include <string>

#include "convergence/position.h"
#include "dsm/engine/types.h"
#include "settings/limits.h"
#include "settings/setting.h"

namespace braid::settings {

// true or false, or what else decides.
enum class Choice : std::uint8_t { kAuto, kYes, kNo };

// "auto" is what the cost model says, or else what the protocol has: EngineConfig::of().
struct EngineSettings {
  static constexpr std::uint32_t kAuto = 0xffff'ffff;
  std::uint32_t page_bytes = kAuto;
  std::uint32_t flush_window = kAuto;
  std::uint32_t local_handoffs = kAuto;
  std::uint32_t lease_uses = kAuto;
  std::uint32_t lease_rounds = kAuto;
  std::uint32_t lease_us = kAuto;
  std::uint32_t twins = kAuto;
  std::uint32_t migrate_after = kAuto;
  std::uint32_t fetch_ahead = kAuto;
  std::uint32_t scan_ahead = kAuto;
  std::uint32_t run_pages = kAuto;
  Choice pack = Choice::kAuto;
  Choice release_at_unlock = Choice::kAuto;
  std::uint32_t barrier_fan_out = kAuto;

  // Changes those constants of `engine` that are not auto.
  void apply_to(dsm::EngineConfig& engine) const;
  // All constants of `engine`; none is auto.
  static EngineSettings of(const dsm::EngineConfig& engine);
  // auto is the engine's own.
  dsm::PageLength page_length() const {
    return page_bytes == kAuto ? dsm::PageLength() : dsm::PageLength(page_bytes);
  }
};
// The least window_kib that carries a page with its byte mask in one piece.
constexpr std::uint32_t least_window_kib(dsm::PageLength length) {
  constexpr std::size_t kDriverBytes = 64;  // more than what drivers of engines put before a message
  std::uint32_t kib = kMinWindowKib;
  while (convergence::max_run_bytes(kib * 1024) < dsm::min_room_bytes(length) + kDriverBytes) kib *= 2;
  return kib;
}
// What is wrong with this window for pages of this length, and the cure; empty: nothing.
std::string window_problem(std::uint32_t window_kib, dsm::PageLength length);
extern const Schema kEngineSchema;

template <>
struct Words<Choice> {
  static constexpr Word<Choice> kAll[] = {{"auto", Choice::kAuto},
                                          {"yes", Choice::kYes},
                                          {"no", Choice::kNo},
                                          {"true", Choice::kYes},
                                          {"false", Choice::kNo}};
};

}  // namespace braid::settings
