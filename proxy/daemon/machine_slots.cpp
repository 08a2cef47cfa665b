#include "proxy/daemon/machine_slots.h"

#include <algorithm>

#include "base/check.h"

namespace braid::proxy {

using State = MachineSlot::State;

MachineSlot& MachineSlots::at(ClusterId slot) {
  CHECK(contains(slot));
  return slots_[slot.value() - first_.value()];
}

const MachineSlot& MachineSlots::at(ClusterId slot) const {
  CHECK(contains(slot));
  return slots_[slot.value() - first_.value()];
}

ClusterId MachineSlots::id(const MachineSlot& slot) const {
  return ClusterId(static_cast<std::uint16_t>(first_.value() + (&slot - slots_.data())));
}

MachineSlot* MachineSlots::find_free() {
  MachineSlot* best = nullptr;
  for (MachineSlot& s : slots_)
    if (s.state == State::kFree && (best == nullptr || s.freed < best->freed)) best = &s;
  return best;
}

void MachineSlots::free(MachineSlot& slot) {
  slot = MachineSlot{};
  slot.freed = ++freed_;
}

MachineSlot* MachineSlots::find_calling(std::uint64_t nonce, stack::Ipv4Address address) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const MachineSlot& s) {
    return s.state == State::kCalling && s.nonce == nonce && proxy::contains(s.wanted, address);
  });
  return found == slots_.end() ? nullptr : &*found;
}

MachineSlot* MachineSlots::find(const Ipv4Addresses& addresses) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const MachineSlot& s) {
    return s.state != State::kFree && intersect(s.addresses(), addresses);
  });
  return found == slots_.end() ? nullptr : &*found;
}

std::vector<ClusterId> MachineSlots::with_paths() const {
  std::vector<ClusterId> all;
  for (const MachineSlot& s : slots_)
    if (s.has_paths()) all.push_back(id(s));
  return all;
}

}  // namespace braid::proxy
