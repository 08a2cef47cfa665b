// The constants of the page engine (dsm/engine/types.h: EngineConfig) as settings of simulations and of cost models.
#pragma once

#include <cstdint>

#include "dsm/engine/types.h"
#include "settings/setting.h"

namespace braid::settings {

// true or false, or what else decides.
enum class Choice : std::uint8_t { kAuto, kYes, kNo };

// "auto" is what the cost model says, or else what the protocol has: EngineConfig::of().
struct EngineSettings {
  static constexpr std::uint32_t kAuto = 0xffff'ffff;
  std::uint32_t flush_window = kAuto;
  std::uint32_t local_handoffs = kAuto;
  std::uint32_t lease_uses = kAuto;
  std::uint32_t lease_rounds = kAuto;
  std::uint32_t twins = kAuto;
  std::uint32_t migrate_after = kAuto;
  std::uint32_t fetch_ahead = kAuto;
  std::uint32_t run_pages = kAuto;
  Choice pack = Choice::kAuto;
  Choice release_at_unlock = Choice::kAuto;
  std::uint32_t barrier_fan_out = kAuto;

  // Changes those constants of `engine` that are not auto.
  void apply_to(dsm::EngineConfig& engine) const;
  // All constants of `engine`; none is auto.
  static EngineSettings of(const dsm::EngineConfig& engine);
};
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
