// The keys with the greatest total weight of a stream too long to be kept, in memory of fixed size: the Space-Saving
// algorithm (Metwally, Agrawal, El Abbadi: "Efficient computation of frequent and top-k elements in data streams", ICDT
// 2005), in sets as a processor's cache has them, so that a call looks at `kWays` entries.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace braid {

// `Key` is an Id. One owner; allocates nothing but in heaviest(). A key that has more than one `kWays`-th of its set's whole
// weight is always among the entries.
template <class Key, class Value, std::size_t kSets, std::size_t kWays>
class HeavyHitters {
  static_assert(std::has_single_bit(kSets) && kWays > 0);

 public:
  struct Entry {
    Key key{};
    std::uint64_t weight = 0;     // at least the key's own; 0: the entry is free
    std::uint64_t inherited = 0;  // the most that it is too great: of keys that had the entry before
    Value value{};                // since the key has the entry

    std::uint64_t least() const { return weight - inherited; }  // of the key's own weight
  };

  // Adds to the key's weight. Returns its value, a new one if the key had no entry.
  Value& add(Key key, std::uint64_t weight) {
    auto& set = sets_[index(key)];
    auto entry =
        std::find_if(set.begin(), set.end(), [&](const Entry& e) { return e.weight > 0 && e.key == key; });
    if (entry == set.end()) {
      entry = std::min_element(set.begin(), set.end(),
                               [](const Entry& a, const Entry& b) { return a.weight < b.weight; });
      *entry = {.key = key, .weight = entry->weight, .inherited = entry->weight, .value = {}};
    }
    entry->weight += std::max<std::uint64_t>(weight, 1);
    return entry->value;
  }

  // At most `count` entries, the heaviest first.
  std::vector<Entry> heaviest(std::size_t count) const {
    std::vector<Entry> entries;
    for (const auto& set : sets_) {
      std::copy_if(set.begin(), set.end(), std::back_inserter(entries),
                   [](const Entry& e) { return e.weight > 0; });
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.key < b.key;
    });
    if (entries.size() > count) entries.resize(count);
    return entries;
  }

 private:
  // Neighbouring keys are in different sets.
  static std::size_t index(Key key) { return static_cast<std::size_t>(key.value()) & (kSets - 1); }

  std::array<std::array<Entry, kWays>, kSets> sets_{};
};

}  // namespace braid
