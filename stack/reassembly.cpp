#include "stack/reassembly.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace braid::stack {
namespace {

constexpr std::uint64_t bits(std::size_t from, std::size_t to) {  // of one word; from < to <= 64
  const std::uint64_t below_to = to == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return below_to & ~((std::uint64_t{1} << from) - 1);
}

// Calls f(word, mask) for the bits [from, to).
template <class F>
void for_each_word(std::size_t from, std::size_t to, F&& f) {
  while (from < to) {
    const std::size_t word = from / 64;
    const std::size_t end = std::min(to, (word + 1) * 64);
    f(word, bits(from % 64, end - word * 64));
    from = end;
  }
}

}  // namespace

Reassembly::Reassembly(const ReassemblyConfig& config)
    : config_(config),
      memory_(std::make_unique_for_overwrite<std::byte[]>(config.packets * kSlotBytes)),
      slots_(config.packets) {
  CHECK_GT(config.packets, 0u);
  CHECK_GT(config.timeout.ns(), 0);
  by_age_.reserve(config.packets);
  for (std::uint32_t i = config.packets; i > 0; --i) free_.push_back(i - 1);
}

std::byte* Reassembly::payload_of(const Slot& slot) const {
  return memory_.get() + static_cast<std::size_t>(&slot - slots_.data()) * kSlotBytes + kHeaderRoom;
}

// IP-2
FragmentFate Reassembly::add(Instant now, const Ipv4Packet& f, Ipv4Packet& whole) {
  ++stats_.fragments;
  const Key key{f.source, f.destination, f.identification, f.protocol};
  Slot* found = find(key);
  if (found != nullptr && is_stale(*found, now)) {
    stats_.timeouts += found->given_up ? 0 : 1;
    remove(*found);
    found = nullptr;
  }
  Slot& slot = found != nullptr ? *found : begin(now, key);
  if (slot.given_up) {
    ++stats_.after_giving_up;
    return FragmentFate::kGivenUp;
  }
  const std::uint32_t offset = f.fragment_offset_bytes;
  const auto end = static_cast<std::uint32_t>(offset + f.payload.size());
  const bool last = !f.more_fragments;
  if (slot.knows_end ? end > slot.end || (last && end != slot.end) : last && end < slot.end)
    return give_up(slot);

  const std::size_t from = offset / kUnitBytes;
  const std::size_t to = (end + kUnitBytes - 1) / kUnitBytes;
  const Units there = look(slot, from, to);
  std::byte* const target = payload_of(slot) + offset;
  if (there != Units::kNone) {
    const bool same = there == Units::kAll && (!last || slot.knows_end) &&
                      std::memcmp(target, f.payload.data(), f.payload.size()) == 0;
    if (!same) return give_up(slot);
    ++stats_.duplicates;
    return FragmentFate::kDuplicate;
  }
  if (!f.payload.empty()) std::memcpy(target, f.payload.data(), f.payload.size());
  mark(slot, from, to);
  slot.end = std::max(slot.end, end);
  slot.knows_end = slot.knows_end || last;
  if (offset == 0) {
    slot.header_bytes = static_cast<std::uint32_t>(f.header.size());
    slot.type_of_service = f.type_of_service;
    slot.time_to_live = f.time_to_live;
    std::memcpy(payload_of(slot) - f.header.size(), f.header.data(), f.header.size());
  }
  if (!slot.knows_end || slot.have_units * kUnitBytes < slot.end) return FragmentFate::kKept;
  whole = packet_in(slot);
  ++stats_.completed;
  remove(slot);  // its memory is the last that will be taken again
  return FragmentFate::kComplete;
}

bool Reassembly::expire(Instant now, Ipv4Packet& first) {
  if (by_age_.empty() || now < next_deadline()) return false;
  const Slot& slot = slots_[by_age_.front()];
  first = packet_in(slot);
  if (slot.header_bytes == 0 || slot.given_up) first.payload = {};
  stats_.timeouts += slot.given_up ? 0 : 1;
  remove(slot);
  return true;
}

Reassembly::Slot* Reassembly::find(const Key& key) {
  // Newest first: fragments of one packet mostly follow each other.
  for (auto i = by_age_.rbegin(); i != by_age_.rend(); ++i)
    if (slots_[*i].key == key) return &slots_[*i];
  return nullptr;
}

Reassembly::Slot& Reassembly::begin(Instant now, const Key& key) {
  if (free_.empty()) {
    Slot& oldest = slots_[by_age_.front()];
    stats_.evicted += oldest.given_up ? 0 : 1;
    remove(oldest);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  by_age_.push_back(index);
  Slot& slot = slots_[index];
  slot = Slot{};
  slot.key = key;
  slot.began = now;
  slot.ordinal = begun_++;
  return slot;
}

bool Reassembly::is_stale(const Slot& slot, Instant now) const {
  return now - slot.began >= config_.timeout || begun_ - slot.ordinal > config_.begun_later;
}

void Reassembly::remove(const Slot& slot) {
  const auto index = static_cast<std::uint32_t>(&slot - slots_.data());
  by_age_.erase(std::find(by_age_.begin(), by_age_.end(), index));
  free_.insert(free_.begin(), index);
}

FragmentFate Reassembly::give_up(Slot& slot) {
  slot.given_up = true;
  ++stats_.overlaps;
  return FragmentFate::kOverlap;
}

Reassembly::Units Reassembly::look(const Slot& slot, std::size_t from, std::size_t to) {
  bool any = false;
  bool all = true;
  for_each_word(from, to, [&](std::size_t word, std::uint64_t mask) {
    const std::uint64_t there = slot.units[word] & mask;
    any = any || there != 0;
    all = all && there == mask;
  });
  return !any ? Units::kNone : all ? Units::kAll : Units::kSome;
}

void Reassembly::mark(Slot& slot, std::size_t from, std::size_t to) {
  for_each_word(from, to, [&](std::size_t word, std::uint64_t mask) { slot.units[word] |= mask; });
  slot.have_units += static_cast<std::uint32_t>(to - from);
}

Ipv4Packet Reassembly::packet_in(const Slot& slot) const {
  Ipv4Packet p;
  p.source = slot.key.source;
  p.destination = slot.key.destination;
  p.protocol = slot.key.protocol;
  p.identification = slot.key.identification;
  p.type_of_service = slot.type_of_service;
  p.time_to_live = slot.time_to_live;
  p.header = ByteView(payload_of(slot) - slot.header_bytes, slot.header_bytes);
  p.payload = ByteView(payload_of(slot), slot.end);
  return p;
}

void Reassembly::check() const {
  CHECK_EQ(by_age_.size() + free_.size(), slots_.size());
  for (std::size_t i = 0; i < by_age_.size(); ++i) {
    const Slot& slot = slots_[by_age_[i]];
    std::uint32_t units = 0;
    for (const std::uint64_t word : slot.units) units += static_cast<std::uint32_t>(std::popcount(word));
    CHECK_EQ(units, slot.have_units);
    CHECK_LE(slot.end, kUnits * kUnitBytes);
    if (i > 0) CHECK_LT(slots_[by_age_[i - 1]].ordinal, slot.ordinal);
  }
}

}  // namespace braid::stack
