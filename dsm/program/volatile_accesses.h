// The rules for volatile accesses (docs/decisions/0043): which lock an address has, and when a read passes it. The compiler plug-in
// (dsm/pthreads/compiler_plugin.cpp) inserts calls that follow them, in pthread programs (dsm/pthreads/atomics.cpp) and in PARMACS
// programs (dsm/parmacs/volatiles.cpp).
#pragma once

#include <array>
#include <cstdint>

namespace braid::dsm {

// An address, spread over 28 bits.
inline unsigned mixed(const volatile void* object) {
  return static_cast<unsigned>((reinterpret_cast<std::uintptr_t>(object) * 0x9e37'79b9'7f4a'7c15u) >> 36);
}

// Which of `guards` locks an object's accesses take. Both halves of a pair of words that are read together have one.
inline unsigned volatile_guard_of(const volatile void* object, unsigned guards) {
  const auto line = reinterpret_cast<std::uintptr_t>(object) / 16 * 16;
  return mixed(reinterpret_cast<const void*>(line)) % guards;  // NOLINT
}

// The value that a thread last read from each volatile variable, for some of them: one that needs the place of another replaces it.
// For one thread. A handler of a signal may come between any two steps.
class SeenValues {
 public:
  // Behind a read: whether the reader passes the lock of the object. It does if this is something else than what was seen there last,
  // so that it sees what the writer wrote before; and now and then, so that it comes to see something new.
  bool passes_lock(const volatile void* object, std::uint64_t value) {
    const bool is_new = note(object, value);
    return looks() || is_new;
  }
  void forget(const volatile void* object) { place_of(object).object = nullptr; }

 private:
  struct Place {
    const volatile void* volatile object;
    volatile std::uint64_t value;
  };
  static constexpr unsigned kPlaces = 32;
  static constexpr unsigned kFewestReads = 32;  // and up to 63 more

  // Whether this is something else than what was seen there last.
  bool note(const volatile void* object, std::uint64_t value) {
    Place& place = place_of(object);
    if (place.object == object && place.value == value) return false;
    place.object = nullptr;
    place.value = value;
    place.object = object;
    return true;
  }
  // Whether it is time to look for something new: about each 64th call, in no rhythm that a loop of the program could share.
  bool looks() {
    if (reads_left_-- > 0) return false;
    rhythm_ = rhythm_ * 1'664'525 + 1'013'904'223;
    reads_left_ = kFewestReads + (rhythm_ >> 26);
    return true;
  }
  Place& place_of(const volatile void* object) { return places_[mixed(object) % kPlaces]; }

  std::array<Place, kPlaces> places_{};
  unsigned reads_left_ = kFewestReads;
  std::uint32_t rhythm_ = 0;
};

// Calls write(pointer, value) with the integers of so many bytes: 1, 2, 4 or 8.
template <class Write>
void write_volatile(volatile void* object, unsigned bytes, std::uint64_t value, Write&& write) {
  switch (bytes) {
    case 1:
      return write(static_cast<volatile std::uint8_t*>(object), static_cast<std::uint8_t>(value));
    case 2:
      return write(static_cast<volatile std::uint16_t*>(object), static_cast<std::uint16_t>(value));
    case 4:
      return write(static_cast<volatile std::uint32_t*>(object), static_cast<std::uint32_t>(value));
    default:
      return write(static_cast<volatile std::uint64_t*>(object), value);
  }
}

}  // namespace braid::dsm
