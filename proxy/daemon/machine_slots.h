// The slots of a node: which cluster of another machine has which of the node's spare cluster numbers, and how far
// the two have come.
//
//   free ──► calling ──► connecting ──► connected ──► draining ──► free
//    └────── a Call ─────────▲
//
// Pure. Owned by Machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proxy/daemon/introduction.h"

namespace braid::proxy {

struct MachineSlot {
  enum class State : std::uint8_t {
    kFree,
    kCalling,     // Calls are sent
    kConnecting,  // introduced; its sub-connections do their handshakes
    kConnected,
    kDraining,  // its sub-connections close
  };
  State state = State::kFree;
  bool called = false;  // this node called it: the caller closes
  std::uint64_t nonce = 0;
  Ipv4Addresses wanted;  // kCalling: the addresses to call
  std::uint16_t introduction_port = 0;
  std::size_t next_address = 0;
  Instant next_call;
  Introduction peer;  // from kConnecting on
  Instant since;      // kConnecting
  Instant until;      // kConnecting
  Instant unused_since;
  bool busy = false;     // kCalling: the peer answered kBusy
  std::string problems;  // why nothing arrives, or no sub-connection comes up, as far as known
  std::uint64_t freed = 0;

  // Its cluster's, as far as they are known.
  const Ipv4Addresses& addresses() const { return state == State::kCalling ? wanted : peer.addresses; }
  // Its sub-connections exist, and are not being closed.
  bool has_paths() const { return state == State::kConnecting || state == State::kConnected; }
};

class MachineSlots {
 public:
  // Their numbers are `first` and the following.
  MachineSlots(ClusterId first, std::uint16_t count) : first_(first), slots_(count) {}

  std::size_t size() const { return slots_.size(); }
  bool contains(ClusterId cluster) const {
    return cluster.value() >= first_.value() && cluster.value() < first_.value() + slots_.size();
  }
  // The slot of that number, which is one of a slot.
  MachineSlot& at(ClusterId slot);
  const MachineSlot& at(ClusterId slot) const;
  // The number of a slot of this table.
  ClusterId id(const MachineSlot& slot) const;

  // The slot that has been free for the longest time: packets to its last owner that are still in flight are
  // the oldest. nullptr: none is free.
  MachineSlot* find_free();
  // Keeps nothing of its last owner.
  void free(MachineSlot& slot);
  // The slot whose Call has that nonce and goes to that address, among others; else nullptr.
  MachineSlot* find_calling(std::uint64_t nonce, stack::Ipv4Address address);
  // The slot of a cluster that has one of the addresses; else nullptr.
  MachineSlot* find(const Ipv4Addresses& addresses);
  // Slots whose sub-connections exist, and are not being closed.
  std::vector<ClusterId> with_paths() const;

  std::vector<MachineSlot>::iterator begin() { return slots_.begin(); }
  std::vector<MachineSlot>::iterator end() { return slots_.end(); }

 private:
  ClusterId first_;
  std::vector<MachineSlot> slots_;
  std::uint64_t freed_ = 0;  // how often a slot was freed
};

}  // namespace braid::proxy
