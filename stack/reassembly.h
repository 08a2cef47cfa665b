// Puts fragments of IPv4 packets together again (RFC 791, 815): in any order, with duplicates, in bounded
// memory.
//
// Overlapping fragments discard the whole packet (RFC 5722): an honest sender makes none, and every rule for what
// to keep has been attacked. The same bytes once more are a duplicate and do no harm. An identification
// of 16 bits comes round in a second at the speed of a LAN (RFC 4963), so an incomplete packet is given up
// long before the minute that RFC 1122 speaks of.
//
//      header room                payload
//   |..........|header|  f0  |  f1  |    -    |  f3  |- - - - - - - - - - - -|
//                     0                              end                  65515
//
// Pure: time comes in. All memory is taken at construction, and touched only where fragments come to lie.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "stack/wire/addresses.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

struct ReassemblyConfig {
  // Incomplete at one time; the first fragment of one more takes the place of the oldest. Each is 64 KiB of
  // address space.
  std::uint32_t packets = 32;
  Duration timeout = 1_s;
  // Given up as well when so many packets were begun after it: far below the 65536 after which its
  // identification means another.
  std::uint64_t begun_later = 4096;
};

struct ReassemblyStats {
  std::uint64_t fragments = 0;  // that came
  std::uint64_t completed = 0;  // packets
  std::uint64_t duplicates = 0;
  std::uint64_t overlaps = 0;         // packets given up because fragments overlap or contradict each other
  std::uint64_t after_giving_up = 0;  // fragments of such a packet
  std::uint64_t evicted = 0;          // packets dropped because the table was full
  std::uint64_t timeouts = 0;         // packets given up because they were not complete in time
  bool operator==(const ReassemblyStats&) const = default;
};

// The result of a fragment.
enum class FragmentFate : std::uint8_t {
  kKept,      // more is missing
  kComplete,  // the packet is whole
  kDuplicate,
  kOverlap,  // its packet is given up
  kGivenUp,  // its packet was given up before
};

class Reassembly {
 public:
  explicit Reassembly(const ReassemblyConfig& config);

  // parse_ipv4() said kFragment. When kComplete, `whole` is the packet, and points into memory that is left
  // alone until the next call.
  [[nodiscard]] FragmentFate add(Instant now, const Ipv4Packet& fragment, Ipv4Packet& whole);

  // When expire() is due if nothing arrives.
  Instant next_deadline() const {
    return by_age_.empty() ? Instant::never() : slots_[by_age_.front()].began + config_.timeout;
  }
  // Gives up the oldest if its time is over; false when there is none. `first` is its beginning if that was
  // there (its payload is empty otherwise): the sender is told about it (RFC 1122, 3.3.2). It points into
  // memory that is left alone until the next call.
  bool expire(Instant now, Ipv4Packet& first);

  std::size_t incomplete() const { return by_age_.size(); }
  const ReassemblyStats& stats() const { return stats_; }
  void check() const;

 private:
  static constexpr std::size_t kUnitBytes = 8;
  static constexpr std::size_t kUnits = 8192;
  static constexpr std::size_t kHeaderRoom = 64;
  static constexpr std::size_t kSlotBytes = kHeaderRoom + kUnits * kUnitBytes;

  struct Key {
    Ipv4Address source;
    Ipv4Address destination;
    std::uint16_t identification = 0;
    IpProtocol protocol{};
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    Instant began;
    std::uint64_t ordinal = 0;  // of all packets begun
    std::uint32_t end = 0;      // of the furthest fragment
    std::uint32_t have_units = 0;
    std::uint32_t header_bytes = 0;  // of the first fragment; 0: not there
    bool knows_end = false;          // the last fragment is there: `end` is the packet's
    bool given_up = false;           // kept to know its other fragments by
    std::uint8_t type_of_service = 0;
    std::uint8_t time_to_live = 0;
    std::array<std::uint64_t, kUnits / 64> units{};  // a bit for each that is there
  };
  enum class Units : std::uint8_t { kNone, kSome, kAll };

  std::byte* payload_of(const Slot& slot) const;
  Slot* find(const Key& key);
  Slot& begin(Instant now, const Key& key);
  bool is_stale(const Slot& slot, Instant now) const;
  void remove(const Slot& slot);
  FragmentFate give_up(Slot& slot);
  static Units look(const Slot& slot, std::size_t from, std::size_t to);
  static void mark(Slot& slot, std::size_t from, std::size_t to);
  Ipv4Packet packet_in(const Slot& slot) const;

  ReassemblyConfig config_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> by_age_;  // slots in use, oldest first
  std::vector<std::uint32_t> free_;
  std::uint64_t begun_ = 0;
  ReassemblyStats stats_;
};

}  // namespace braid::stack
