// The messages in flight in a simulated ICCS, each with its
// times so far. It only records: no decision depends on it.
//
// A client hands descriptors to a lane in order, and a proxy takes them in that order. So a message is
// identified by its place in the lane until it is taken, and by its position on the connection afterwards.
// A proxy that takes over a lane takes the unfinished descriptors of the former proxy once more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/seq.h"
#include "base/time.h"
#include "convergence/position.h"

namespace braid::sim {

// When a message reached each stage; for a message of several packets, when its
// last packet did. Without proxies only `handed` and `delivered` are valid.
struct MessageTimes {
  Instant handed;   // the compute node has put it into a proxy's queue
  Instant served;   // the proxy has taken it
  Instant left;     // it has left the proxy, for the link
  Instant on_link;  // the NI's link has begun to send it
  Instant arrived;  // it is in the other proxy's queue
  Instant taken;    // the other proxy has taken it
  Instant delivered;
};

struct MessageReport {
  std::uint64_t number = 0;  // in the order of sending, from 1
  ClusterId from, to;
  unsigned compute_node = 0;  // the sender, in its cluster
  unsigned proxy = 0;         // the first that carried it
  unsigned peer_proxy = 0;
  std::uint32_t bytes = 0;
  std::uint32_t kinds = 0;  // of the page protocol's messages in it, a bit for each place in dsm::kSentNames
  std::uint32_t ahead = 0;  // messages in the first proxy's queue when it came, with the one in service
  std::uint32_t peer_ahead = 0;  // the same for the other proxy
  std::uint64_t behind =
      0;  // the number of the message right before it in the first queue; 0: none, or a frame
  MessageTimes times;
};

class MessageLog {
 public:
  // An index identifies its entry until the entry is released.
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  struct Entry {
    MessageReport report;
    Position position;       // valid once it is taken
    bool is_credit = false;  // a client returned credit: a descriptor without a message
    bool is_taken = false;   // by a worker
    bool is_delivered = false;
    std::uint8_t lane = 0;         // of the client's endpoint
    std::uint8_t holds = 0;        // the number of users of the index
    std::uint8_t train = 0;        // of the first message of a train: how many it has; else 0
    Index next = kNone;            // the message behind it in its train
    std::vector<std::byte> bytes;  // in the modes without proxies
  };

  // `lanes` of each cluster's client; windows of `granules` each, a power of two.
  MessageLog(unsigned clusters, unsigned lanes, std::uint32_t granules)
      : clusters_(clusters),
        lanes_(lanes),
        granules_(granules),
        lanes_of_(std::size_t{clusters} * lanes),
        at_(std::size_t{clusters} * clusters) {}

  Entry& operator[](Index i) { return entries_[i]; }
  // Returns a new entry with default values and one hold.
  Index make() {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.push_back(static_cast<Index>(entries_.size() - 1));
    }
    const Index i = free_.back();
    free_.pop_back();
    Entry& entry = entries_[i];
    std::vector<std::byte> bytes = std::move(entry.bytes);  // reuses its memory
    entry = Entry{};
    entry.bytes = std::move(bytes);
    entry.holds = 1;
    return i;
  }
  void release(Index i) {
    CHECK_GT(entries_[i].holds, 0u);
    if (--entries_[i].holds == 0) free_.push_back(i);
  }
  std::size_t in_use() const { return entries_.size() - free_.size(); }

  // hand(): a descriptor was handed to a lane, of the message `i`, or of the train that begins with it; its ticket
  // holds the entry. take(): a worker takes the descriptor that is the lane's `at`th entry, counted from 0; nullopt:
  // another proxy that served the lane took it before.
  void hand(ClusterId cluster, unsigned lane, Index i) {
    ++entries_[i].holds;
    entries_[i].lane = static_cast<std::uint8_t>(lane);
    lanes_of_[std::size_t{cluster.value()} * lanes_ + lane].handed.push_back(i);
  }
  std::optional<Index> take(ClusterId cluster, unsigned lane, std::uint32_t at) {
    Lane& l = lanes_of_[std::size_t{cluster.value()} * lanes_ + lane];
    if (at != l.next) {
      CHECK_LT(static_cast<std::int32_t>(at - l.next), 0);
      return std::nullopt;
    }
    CHECK(!l.handed.empty());
    const Index i = l.handed.front();
    l.handed.pop_front();
    l.next += entries_[i].train != 0 ? 2 : 1;  // a train's lengths are behind its descriptor
    entries_[i].is_taken = true;
    return i;
  }

  // Records that the message begins at this position of the connection from one cluster to another.
  void place(ClusterId from, ClusterId to, Position position, Index i) {
    std::vector<Index>& at = at_[from.value() * clusters_ + to.value()];
    if (at.empty()) at.assign(std::min(granules_, kFewGranules), kNone);
    entries_[i].position = position;
    while (at.size() < granules_ && has_another(at, slot_of(at, position), i)) make_room(at);
    at[slot_of(at, position)] = i;
  }
  // Returns nullptr if the message was already delivered, over another proxy.
  Entry* find(ClusterId from, ClusterId to, Position position, Index* index) {
    const std::vector<Index>& at = at_[from.value() * clusters_ + to.value()];
    if (at.empty()) return nullptr;
    *index = at[slot_of(at, position)];
    if (*index == kNone) return nullptr;
    Entry& entry = entries_[*index];
    const bool same = is_under_way(entry) && entry.position == position && entry.report.from == from &&
                      entry.report.to == to;
    return same ? &entry : nullptr;
  }

 private:
  struct Lane {
    std::deque<Index> handed;  // and not taken: the first message of each descriptor
    std::uint32_t next = 0;    // the ring's entry of the next descriptor that is taken for the first time
  };

  static constexpr std::uint32_t kFewGranules = 8;

  static bool is_under_way(const Entry& entry) { return entry.holds > 0 && !entry.is_delivered; }
  static std::size_t slot_of(const std::vector<Index>& at, Position position) {
    return position.value() & (at.size() - 1);
  }
  // The slot is in use, and not by i. An entry that has been used again since is elsewhere.
  bool has_another(const std::vector<Index>& at, std::size_t slot, Index i) const {
    const Index there = at[slot];
    return there != kNone && there != i && is_under_way(entries_[there]) &&
           slot_of(at, entries_[there].position) == slot;
  }
  void make_room(std::vector<Index>& at) const {
    std::vector<Index> wider(2 * at.size(), kNone);
    for (std::size_t slot = 0; slot < at.size(); ++slot)
      if (has_another(at, slot, kNone)) wider[slot_of(wider, entries_[at[slot]].position)] = at[slot];
    at = std::move(wider);
  }

  const unsigned clusters_;
  const unsigned lanes_;
  const std::uint32_t granules_;
  std::deque<Entry> entries_;
  std::vector<Index> free_;
  std::vector<Lane> lanes_of_;  // by cluster and lane
  // By connection, where it was used; then by granule, as far as the messages under way need to be told apart.
  std::vector<std::vector<Index>> at_;
};

}  // namespace braid::sim
