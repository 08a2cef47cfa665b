// The messages that are on their way through a simulated ICCS, each with what has happened to it so far. It
// watches: nothing that decides reads it.
//
// A client hands descriptors to a lane in order, and a proxy takes them in that order, so the log knows a
// message by its place in the lane until it is taken, and from then on by its position on the connection. A
// proxy that takes a lane over takes those once more that the one before it had not finished.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/seq.h"
#include "base/time.h"
#include "convergence/position.h"

namespace braid::sim {

// A message's way, each moment as it was; of several packets the last one's. In the modes without proxies
// only `handed` and `delivered` are of meaning.
struct MessageTimes {
  Instant handed;   // the compute node has put it into a proxy's queue
  Instant served;   // the proxy has taken it
  Instant left;     // it has left the proxy: link and network are before it
  Instant on_link;  // the link of its NI has begun to carry it
  Instant arrived;  // in the queue of the other proxy
  Instant taken;    // by it
  Instant delivered;
};

struct MessageReport {
  std::uint64_t number = 0;  // of the run, from 1, in the order in which they were sent
  ClusterId from, to;
  unsigned lane = 0;   // the compute node that sent it
  unsigned proxy = 0;  // its first
  unsigned peer_proxy = 0;
  std::uint32_t bytes = 0;
  std::uint32_t ahead = 0;       // in the first proxy's queue, with what was in service, when it came there
  std::uint32_t peer_ahead = 0;  // the same of the other proxy's
  std::uint64_t behind =
      0;  // the number of the message right before it in the first queue; 0: none, or a frame
  MessageTimes times;
};

class MessageLog {
 public:
  // An index that stays the entry's own until it is over.
  using Index = std::uint32_t;
  struct Entry {
    MessageReport report;
    Position position;       // once it was taken
    bool is_credit = false;  // returned by a client: a descriptor without a message
    bool is_taken = false;   // by a worker
    bool is_delivered = false;
    std::uint8_t lane = 0;         // of the client's endpoint
    std::uint8_t holds = 0;        // who still knows its index
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
  // Everything of it as it is by default, with so many holds.
  Index make(std::uint8_t holds) {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.push_back(static_cast<Index>(entries_.size() - 1));
    }
    const Index i = free_.back();
    free_.pop_back();
    Entry& entry = entries_[i];
    std::vector<std::byte> bytes = std::move(entry.bytes);  // its memory is used again
    entry = Entry{};
    entry.bytes = std::move(bytes);
    entry.holds = holds;
    return i;
  }
  void release(Index i) {
    CHECK_GT(entries_[i].holds, 0u);
    if (--entries_[i].holds == 0) free_.push_back(i);
  }
  std::size_t in_use() const { return entries_.size() - free_.size(); }

  // A descriptor was handed to a lane, and a worker takes the lane's descriptor `number`, which counts from 0.
  // nullopt: it was taken before, by the proxy that served the lane then.
  void hand(ClusterId cluster, unsigned lane, Index i) {
    entries_[i].lane = static_cast<std::uint8_t>(lane);
    lanes_of_[std::size_t{cluster.value()} * lanes_ + lane].handed.push_back(i);
  }
  std::optional<Index> take(ClusterId cluster, unsigned lane, std::uint32_t number) {
    Lane& l = lanes_of_[std::size_t{cluster.value()} * lanes_ + lane];
    if (number != l.next) {
      CHECK_LT(static_cast<std::int32_t>(number - l.next), 0);
      return std::nullopt;
    }
    CHECK(!l.handed.empty());
    const Index i = l.handed.front();
    l.handed.pop_front();
    ++l.next;
    entries_[i].is_taken = true;
    return i;
  }

  // The message that begins at this position of the connection from one cluster to another.
  void place(ClusterId from, ClusterId to, Position position, Index i) {
    std::vector<Index>& at = at_[from.value() * clusters_ + to.value()];
    if (at.empty()) at.assign(granules_, kNone);
    entries_[i].position = position;
    at[position.value() & (granules_ - 1)] = i;
  }
  // nullptr: it was delivered, over another proxy.
  Entry* find(ClusterId from, ClusterId to, Position position, Index* index) {
    const std::vector<Index>& at = at_[from.value() * clusters_ + to.value()];
    if (at.empty()) return nullptr;
    *index = at[position.value() & (granules_ - 1)];
    if (*index == kNone) return nullptr;
    Entry& entry = entries_[*index];
    const bool same = entry.holds > 0 && !entry.is_delivered && entry.position == position &&
                      entry.report.from == from && entry.report.to == to;
    return same ? &entry : nullptr;
  }

 private:
  static constexpr Index kNone = ~Index{0};
  struct Lane {
    std::deque<Index> handed;  // and not taken
    std::uint32_t next = 0;    // descriptor to be taken for the first time
  };

  const unsigned clusters_;
  const unsigned lanes_;
  const std::uint32_t granules_;
  std::deque<Entry> entries_;
  std::vector<Index> free_;
  std::vector<Lane> lanes_of_;          // by cluster and lane
  std::vector<std::vector<Index>> at_;  // by connection, where it was used; then by granule
};

}  // namespace braid::sim
