// Random programs without data races, and the oracle that knows what they must see.
//
// Every node of every cluster locks, reads, writes, unlocks, and meets the others at barriers. What a lock
// guards must be what was written last under it; what a node wrote before a barrier must be what all read
// after it. Bytes of different owners lie side by side in the same words, so every page is shared by many
// writers at once.
//
// Who drives a program decides when a node takes its next step, and what carries the messages between the
// engines: any order at all (engine_random_test.cpp), or the whole transport over a bad network
// (tests/sim/shared_memory.h).
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "dsm/engine/engine.h"

namespace braid::dsm {

// The clusters that a program runs on.
class ProgramMachine {
 public:
  virtual Engine& engine(std::uint16_t cluster) = 0;
  // Does the hardware allow the access? If not, the node faults.
  virtual bool may(std::uint16_t cluster, std::size_t address, Access wanted) const = 0;
  // An access that it allows.
  virtual std::uint8_t peek(std::uint16_t cluster, std::size_t address) = 0;
  virtual void poke(std::uint16_t cluster, std::size_t address, std::uint8_t value) = 0;

 protected:
  ~ProgramMachine() = default;
};

class RandomProgram {
 public:
  // Hears what every node does, a line each.
  using Tell = std::function<void(const std::string&)>;

  // `config` is what `machine` is made of. Nobody need listen.
  RandomProgram(Prng random, const EngineConfig& config, ProgramMachine& machine, Tell tell)
      : random_(random),
        tell_(std::move(tell)),
        config_(config),
        machine_(machine),
        placed_(config.clusters) {
    lay_out();
    for (std::uint16_t c = 0; c < config_.clusters; ++c)
      for (std::uint16_t n = 0; n < config_.compute_nodes; ++n) nodes_.push_back({.cluster = c, .node = n});
    barriers_to_go_ = 1 + static_cast<std::uint32_t>(random_.below(4));
    owned_bytes_[0].resize(nodes_.size() * kOwned);
    owned_bytes_[1].resize(nodes_.size() * kOwned);
    at_barrier_.resize(4);
  }

  static EngineConfig draw_config(Prng& random) {
    EngineConfig c;
    c.clusters = static_cast<std::uint16_t>(2 + random.below(3));
    c.compute_nodes = static_cast<std::uint16_t>(1 + random.below(3));
    c.pages = random.chance(0.5) ? 1 : 1 + static_cast<std::uint32_t>(random.below(4));
    if (random.chance(0.1)) c.pages = 16;  // runs of pages
    c.locks = 1 + static_cast<std::uint32_t>(random.below(4));
    c.barriers = 1 + static_cast<std::uint32_t>(random.below(3));
    c.flush_window = 1 + static_cast<std::uint32_t>(random.below(c.pages == 16 ? 16 : 4));
    c.local_handoffs = static_cast<std::uint32_t>(random.below(3));
    c.twins = random.chance(0.3) ? 1 + static_cast<std::uint32_t>(random.below(2)) : 8;
    return c;
  }

  std::size_t nodes() const { return nodes_.size(); }
  std::uint16_t cluster(std::size_t node) const { return nodes_[node].cluster; }
  // Lets a node do the next thing that it can do, if any.
  void step(std::size_t node) { step(nodes_[node]); }
  bool finished() const {
    for (const Node& n : nodes_)
      if (!n.ended) return false;
    return true;
  }
  // What a node saw that it must not see.
  const std::optional<std::string>& failure() const { return failure_; }
  // What those that have not ended are at, for a person.
  std::string unfinished() const {
    std::string text;
    for (const Node& n : nodes_) {
      if (n.ended) continue;
      text += fmt::format("\n  node {} of cluster {}, phase {}, {}", n.node, n.cluster, n.phase,
                          n.awaited      ? fmt::format("waits for lock {}", *n.awaited)
                          : n.in_barrier ? std::string("waits at its barrier")
                                         : std::string("works"));
      if (!n.todo.empty()) text += fmt::format(", wants to access {}", n.todo.back().address);
    }
    return text;
  }

 private:
  static constexpr std::size_t kGuarded = 4;  // bytes that a lock guards
  static constexpr std::size_t kOwned = 3;    // bytes that a node owns, in each of the two sets

  struct PendingAccess {
    std::size_t address = 0;
    std::uint8_t* expected = nullptr;
    bool write = false;
  };
  struct Node {
    std::uint16_t cluster = 0;
    std::uint16_t node = 0;
    std::uint32_t phase = 0;               // barriers passed
    std::uint32_t ops_left = 4;            // until the next barrier
    std::vector<PendingAccess> todo = {};  // accesses before anything else
    std::vector<std::uint32_t> held = {};
    std::optional<std::uint32_t> awaited = {};  // a lock
    bool in_barrier = false;
    bool ended = false;
  };

  // Every owner's bytes: scattered, a few words of each page crowded.
  void lay_out() {
    std::set<std::size_t> taken;
    const auto place = [&] {
      for (;;) {
        const std::size_t word =
            random_.chance(0.8) ? random_.below(8) * 8 : random_.below(kPageBytes / 8) * 8;
        const std::size_t address = random_.below(config_.pages) * kPageBytes + word + random_.below(8);
        if (taken.insert(address).second) return address;
      }
    };
    guarded_.resize(config_.locks);
    guarded_bytes_.resize(config_.locks);
    for (auto& lock : guarded_)
      for (auto& address : lock) address = place();
    owned_[0].resize(std::size_t{config_.clusters} * config_.compute_nodes * kOwned);
    owned_[1].resize(owned_[0].size());
    for (auto& set : owned_)
      for (auto& address : set) address = place();
    own_homes_ = random_.chance(0.5);
    for (std::uint32_t p = 0; p < config_.pages; ++p)
      homes_.push_back(static_cast<std::uint16_t>(random_.below(config_.clusters)));
  }

  void step(Node& n) {
    Engine& engine = machine_.engine(n.cluster);
    if (n.ended || !engine.done(n.node)) return;
    if (!placed_[n.cluster]) return place_homes(n.cluster);
    if (n.awaited) return got_lock(n);
    if (n.in_barrier) return passed_barrier(n);
    if (!n.todo.empty()) return access(n);
    if (n.phase == barriers_to_go_ && n.ops_left == 0) {
      n.ended = true;
      return;
    }
    if (!n.held.empty() && (n.ops_left == 0 || random_.chance(0.4))) return unlock(n);
    if (n.ops_left == 0) return arrive(n);
    --n.ops_left;
    choose(n);
  }

  void choose(Node& n) {
    const std::uint32_t set = n.phase % 2;
    const std::size_t self = n.cluster * std::size_t{config_.compute_nodes} + n.node;
    const std::size_t own = self * kOwned + random_.below(kOwned);
    const std::uint32_t lowest = n.held.empty() ? 0 : n.held.back() + 1;  // nested only upwards: no deadlock
    switch (random_.below(6)) {
      case 0:
        n.todo.push_back({owned_[set][own], &owned_bytes_[set][own], true});
        break;
      case 1:
        n.todo.push_back({owned_[set][own], &owned_bytes_[set][own], false});
        break;
      case 2: {  // anybody's, of the set that nobody writes now
        const std::size_t any = random_.below(owned_[0].size());
        n.todo.push_back({owned_[1 - set][any], &owned_bytes_[1 - set][any], false});
        break;
      }
      default:
        if (lowest >= config_.locks) break;
        lock(n, lowest + static_cast<std::uint32_t>(random_.below(config_.locks - lowest)));
    }
  }

  void place_homes(std::uint16_t cluster) {
    placed_[cluster] = true;
    if (!own_homes_) return;
    for (std::uint32_t p = 0; p < config_.pages; ++p)
      machine_.engine(cluster).set_home(PageId(p), 1, ClusterId(homes_[p]));
  }

  void lock(Node& n, std::uint32_t lock) {
    if (tell_) say(n, fmt::format("lock {}", lock));
    n.awaited = lock;
    if (machine_.engine(n.cluster).lock(n.node, LockId(lock))) got_lock(n);
  }
  void got_lock(Node& n) {
    const std::uint32_t lock = *n.awaited;
    if (tell_) say(n, fmt::format("has lock {}", lock));
    n.awaited.reset();
    if (!holders_.insert(lock).second) fail(fmt::format("lock {} has two holders", lock));
    n.held.push_back(lock);
    for (std::uint64_t k = 1 + random_.below(5); k > 0; --k) {
      const std::size_t i = random_.below(kGuarded);
      n.todo.push_back({guarded_[lock][i], &guarded_bytes_[lock][i], random_.chance(0.5)});
    }
  }
  void unlock(Node& n) {
    const std::uint32_t lock = n.held.back();
    if (tell_) say(n, fmt::format("unlock {}", lock));
    n.held.pop_back();
    holders_.erase(lock);
    machine_.engine(n.cluster).unlock(n.node, LockId(lock));
  }

  void arrive(Node& n) {
    const BarrierId barrier(n.phase % config_.barriers);
    if (tell_) say(n, fmt::format("barrier {}, phase {}", barrier.value(), n.phase));
    n.in_barrier = true;
    ++at_barrier_[n.phase];
    if (machine_.engine(n.cluster).barrier(n.node, barrier)) passed_barrier(n);
  }
  void passed_barrier(Node& n) {
    if (tell_) say(n, "past the barrier");
    if (at_barrier_[n.phase] != nodes_.size()) fail("a barrier let somebody through before all had come");
    n.in_barrier = false;
    ++n.phase;
    n.ops_left = static_cast<std::uint32_t>(random_.below(16));
    if (n.phase < barriers_to_go_) return;
    n.ops_left = 0;  // the last: everybody reads everything of the set that was written before it
    const std::uint32_t set = 1 - n.phase % 2;
    for (std::size_t i = 0; i < owned_[set].size(); ++i)
      n.todo.push_back({owned_[set][i], &owned_bytes_[set][i], false});
    for (std::size_t lock = 0; lock < guarded_.size(); ++lock)
      for (std::size_t i = 0; i < kGuarded; ++i)
        n.todo.push_back({guarded_[lock][i], &guarded_bytes_[lock][i], false});
  }

  void access(Node& n) {
    const PendingAccess a = n.todo.back();
    const Access wanted = a.write ? Access::kWrite : Access::kRead;
    if (!machine_.may(n.cluster, a.address, wanted)) {
      if (tell_) say(n, fmt::format("faults at {} to {}", a.address, a.write ? "write" : "read"));
      (void)machine_.engine(n.cluster).fault(
          n.node, PageId(static_cast<std::uint32_t>(a.address / kPageBytes)), wanted);
      return;  // and tries again when it is its turn, perhaps too late
    }
    n.todo.pop_back();
    if (a.write) {
      *a.expected = static_cast<std::uint8_t>(*a.expected + 1 + random_.below(255));
      if (tell_) say(n, fmt::format("writes {} = {}", a.address, *a.expected));
      machine_.poke(n.cluster, a.address, *a.expected);
      return;
    }
    const std::uint8_t seen = machine_.peek(n.cluster, a.address);
    if (tell_) say(n, fmt::format("reads {} = {}", a.address, seen));
    if (seen != *a.expected)
      fail(fmt::format("node {} of cluster {} reads {} at {} (page {}), written was {}", n.node, n.cluster,
                       seen, a.address, a.address / kPageBytes, *a.expected));
  }

  void fail(const std::string& what) {
    if (!failure_) failure_ = what;
  }
  void say(const Node& n, const std::string& what) {
    tell_(fmt::format("cluster {} node {}: {}", n.cluster, n.node, what));
  }

  Prng random_;
  const Tell tell_;
  const EngineConfig config_;
  ProgramMachine& machine_;
  std::vector<bool> placed_;  // clusters that have said where the pages' homes are
  bool own_homes_ = false;
  std::vector<std::uint16_t> homes_;
  std::vector<Node> nodes_;
  std::uint32_t barriers_to_go_ = 0;

  std::vector<std::array<std::size_t, kGuarded>> guarded_;  // addresses
  std::vector<std::size_t> owned_[2];
  std::vector<std::array<std::uint8_t, kGuarded>> guarded_bytes_;  // the oracle: what was written last
  std::vector<std::uint8_t> owned_bytes_[2];
  std::set<std::uint32_t> holders_;      // locks that somebody has
  std::vector<std::size_t> at_barrier_;  // by phase: nodes that came
  std::optional<std::string> failure_;
};

}  // namespace braid::dsm
