// The numbers of locks and variables. The first ones of each kind are a program's own; the further ones stand for addresses
// of shared memory, one for every four bytes, so any address can be the name of a lock, a condition and so on:
//
//     0 ... numbered - 1 | numbered + (address - beginning of the heap) / 4
//
// Where part of the heap has addresses of its own, that part's are counted behind the others (ObjectAddresses). Nothing of
// the object is at the address.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

inline bool is_object(const EngineConfig& config, std::uint32_t id, std::uint32_t numbered) {
  return id < numbered || id - numbered < config.addresses;
}

// The cluster that manages it. Objects whose addresses are in one page have the same one.
inline ClusterId keeper_of(const EngineConfig& config, std::uint32_t id, std::uint32_t numbered) {
  return keeper(config, id < numbered ? id : (id - numbered) / addresses_per_page(config.page_length));
}

// The addresses of objects, for texts.
struct ObjectAddresses {
  std::uint64_t heap = 0;  // EngineConfig::heap_address
  // The objects from this one on, counted without the numbered ones, are at other addresses.
  std::uint32_t first_apart = ~std::uint32_t{0};
  std::uint64_t apart = 0;

  // Of the object with this place behind the numbered ones.
  std::uint64_t operator[](std::uint32_t place) const {
    return place < first_apart ? heap + std::uint64_t{place} * kAddressBytes
                               : apart + std::uint64_t{place - first_apart} * kAddressBytes;
  }
};

// For a user: "lock 5", "the lock at 0x7e9000000010". Allocates.
inline std::string name_of_object(const ObjectAddresses& addresses, const char* kind, std::uint32_t id,
                                  std::uint32_t numbered) {
  if (id < numbered) return fmt::format("{} {}", kind, id);
  return fmt::format("the {} at {:#x}", kind, addresses[id - numbered]);
}

}  // namespace braid::dsm
