// Random programs without data races, and the oracle that knows what they must see.
//
// Every node of every cluster takes guards, reads, writes, gives them back, and meets the others. A guard is
// a lock, a semaphore of one, or a word that is won by compare-and-exchange; nodes meet at a barrier, in a
// monitor made of a lock and a condition variable, or by a counter and a flag. What a guard guards must be
// what was written last under it; what a node wrote before a meeting must be what all read after it. Bytes of
// different owners lie side by side in the same words, so every page is shared by many writers at once.
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
        guards_{config.locks - 1, config.semaphores, config.words - kMostPhases - 1},
        machine_(machine),
        placed_(config.clusters) {
    lay_out();
    for (std::uint16_t c = 0; c < config_.clusters; ++c)
      for (std::uint16_t n = 0; n < config_.compute_nodes; ++n) nodes_.push_back({.cluster = c, .node = n});
    meetings_to_go_ = 1 + static_cast<std::uint32_t>(random_.below(4));
    owned_bytes_[0].resize(nodes_.size() * kOwned);
    owned_bytes_[1].resize(nodes_.size() * kOwned);
    came_.resize(kMostPhases);
    brought_.resize(kMostPhases);
    for (Meeting& meeting : meetings_) meeting = static_cast<Meeting>(random_.below(3));
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
    c.fetch_ahead = static_cast<std::uint32_t>(random.below(4));
    c.migrate_after = static_cast<std::uint32_t>(random.below(3));
    c.pack = random.chance(0.5);
    ++c.locks;  // for the monitors
    c.semaphores = static_cast<std::uint32_t>(random.below(3));
    // Guards, the counters of the meetings, and the tickets.
    c.words = static_cast<std::uint32_t>(random.below(3)) + kMostPhases + 1;
    c.flags = kMostPhases;
    c.conditions = kMostPhases;
    c.barrier_fan_out = 1 + static_cast<std::uint32_t>(random.below(4));
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
                          n.awaited        ? fmt::format("waits for guard {}", *n.awaited)
                          : n.meeting != 0 ? fmt::format("meets, stage {}", n.meeting)
                                           : std::string("works"));
      if (!n.todo.empty()) text += fmt::format(", wants to access {}", n.todo.back().address);
    }
    return text;
  }

 private:
  static constexpr std::size_t kGuarded = 4;  // bytes that a guard guards
  static constexpr std::uint32_t kMostPhases = 4;

  // What gives a node the exclusive use of bytes.
  enum class Guard { kLock, kSemaphore, kWord };
  enum class Meeting { kBarrier, kMonitor, kFlag };
  static constexpr std::size_t kOwned = 3;  // bytes that a node owns, in each of the two sets

  struct PendingAccess {
    std::size_t address = 0;
    std::uint8_t* expected = nullptr;
    bool write = false;
  };
  struct Node {
    std::uint16_t cluster = 0;
    std::uint16_t node = 0;
    std::uint32_t phase = 0;               // meetings passed
    std::uint32_t ops_left = 4;            // until the next meeting
    std::vector<PendingAccess> todo = {};  // accesses before anything else
    std::vector<std::uint32_t> held = {};
    std::optional<std::uint32_t> awaited = {};  // a guard
    int meeting = 0;                            // how far this node is into one; 0: not in one
    bool takes_ticket = false;
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
    guarded_.resize(std::size_t{guards_[0]} + guards_[1] + guards_[2]);
    guarded_bytes_.resize(guarded_.size());
    for (auto& guard : guarded_)
      for (auto& address : guard) address = place();
    for (std::uint32_t s = 0; s < config_.semaphores; ++s) to_post_.push_back(s);
    owned_[0].resize(std::size_t{config_.clusters} * config_.compute_nodes * kOwned);
    owned_[1].resize(owned_[0].size());
    for (auto& set : owned_)
      for (auto& address : set) address = place();
    own_homes_ = random_.chance(0.5);
    for (std::uint32_t p = 0; p < config_.pages; ++p)
      homes_.push_back(static_cast<std::uint16_t>(random_.below(config_.clusters + 1u)));
  }

  void step(Node& n) {
    Engine& engine = machine_.engine(n.cluster);
    if (n.ended || !engine.done(n.node)) return;
    if (!placed_[n.cluster]) return place_homes(n.cluster);
    if (!to_post_.empty()) {
      (void)call(n, SyncOp::kSemaphorePost, to_post_.back(), 1);
      return to_post_.pop_back();
    }
    if (n.awaited) return got_guard(n);
    if (n.takes_ticket) return got_ticket(n);
    if (!n.todo.empty()) return access(n);
    if (n.meeting != 0) return meet(n);
    if (n.phase == meetings_to_go_ && n.ops_left == 0) {
      n.ended = true;
      return;
    }
    if (!n.held.empty() && (n.ops_left == 0 || random_.chance(0.4))) return give_back(n);
    if (n.ops_left == 0) return meet(n);
    --n.ops_left;
    choose(n);
  }

  void choose(Node& n) {
    const std::uint32_t set = n.phase % 2;
    const std::size_t self = n.cluster * std::size_t{config_.compute_nodes} + n.node;
    const std::size_t own = self * kOwned + random_.below(kOwned);
    const std::uint32_t lowest = n.held.empty() ? 0 : n.held.back() + 1;  // nested only upwards: no deadlock
    switch (random_.below(7)) {
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
      case 3:
        n.takes_ticket = true;
        if (call(n, SyncOp::kWordAdd, config_.words - 1, 1, 0, random_.chance(0.5))) got_ticket(n);
        break;
      default:
        if (lowest >= guarded_.size()) break;
        take(n, lowest + static_cast<std::uint32_t>(random_.below(guarded_.size() - lowest)));
    }
  }

  bool call(Node& n, SyncOp op, std::uint32_t id, std::uint64_t first = 0, std::uint64_t second = 0,
            bool releases = false) {
    if (tell_) say(n, fmt::format("operation {} on {}", static_cast<int>(op), id));
    return machine_.engine(n.cluster).sync(
        n.node, {.op = op, .id = id, .first = first, .second = second, .releases = releases});
  }

  void got_ticket(Node& n) {
    n.takes_ticket = false;
    const std::uint64_t ticket = machine_.engine(n.cluster).result(n.node);
    if (!tickets_.insert(ticket).second) fail(fmt::format("ticket {} was given twice", ticket));
    if (ticket > 10'000) fail(fmt::format("ticket {} was never there", ticket));
  }

  void place_homes(std::uint16_t cluster) {
    placed_[cluster] = true;
    if (!own_homes_) return;
    for (std::uint32_t p = 0; p < config_.pages; ++p) {
      if (homes_[p] == config_.clusters)
        machine_.engine(cluster).set_first_touch(PageId(p), 1);
      else
        machine_.engine(cluster).set_home(PageId(p), 1, ClusterId(homes_[p]));
    }
  }

  // Which guard that is, and its number among those of its kind.
  std::pair<Guard, std::uint32_t> guard(std::uint32_t index) const {
    for (const Guard kind : {Guard::kLock, Guard::kSemaphore}) {
      const std::uint32_t count = guards_[static_cast<std::size_t>(kind)];
      if (index < count) return {kind, index};
      index -= count;
    }
    return {Guard::kWord, index};
  }

  void take(Node& n, std::uint32_t index) {
    if (tell_) say(n, fmt::format("takes guard {}", index));
    n.awaited = index;
    const auto [kind, id] = guard(index);
    const bool now = kind == Guard::kLock        ? machine_.engine(n.cluster).lock(n.node, LockId(id))
                     : kind == Guard::kSemaphore ? call(n, SyncOp::kSemaphoreWait, id)
                                                 : call(n, SyncOp::kWordCompareExchange, id, 0, 1);
    if (now) got_guard(n);
  }
  void got_guard(Node& n) {
    const std::uint32_t index = *n.awaited;
    if (guard(index).first == Guard::kWord && machine_.engine(n.cluster).result(n.node) != 0) {
      (void)call(n, SyncOp::kWordCompareExchange, guard(index).second, 0, 1);  // somebody has it: again
      return;
    }
    if (tell_) say(n, fmt::format("has guard {}", index));
    n.awaited.reset();
    if (!holders_.insert(index).second) fail(fmt::format("guard {} has two holders", index));
    n.held.push_back(index);
    for (std::uint64_t k = 1 + random_.below(5); k > 0; --k) {
      const std::size_t i = random_.below(kGuarded);
      n.todo.push_back({guarded_[index][i], &guarded_bytes_[index][i], random_.chance(0.5)});
    }
  }
  void give_back(Node& n) {
    const std::uint32_t index = n.held.back();
    if (tell_) say(n, fmt::format("gives back guard {}", index));
    n.held.pop_back();
    holders_.erase(index);
    const auto [kind, id] = guard(index);
    switch (kind) {
      case Guard::kLock:
        return machine_.engine(n.cluster).unlock(n.node, LockId(id));
      case Guard::kSemaphore:
        return (void)call(n, SyncOp::kSemaphorePost, id, 1, 0, true);
      case Guard::kWord:
        return (void)call(n, SyncOp::kWordStore, id, 0, 0, true);
    }
  }

  // A step into, or through, the meeting that ends the node's phase.
  void meet(Node& n) {
    if (tell_) say(n, fmt::format("meeting, phase {}, stage {}", n.phase, n.meeting));
    Engine& engine = machine_.engine(n.cluster);
    const std::uint32_t phase = n.phase;
    const LockId monitor(config_.locks - 1);
    if (n.meeting++ == 0) ++came_[phase];
    switch (meetings_[phase]) {
      case Meeting::kBarrier:
        if (n.meeting == 1) {
          const std::uint64_t value = random_.below(1000);
          brought_[phase] += value;
          (void)engine.barrier(n.node, BarrierId(phase % config_.barriers), Reduction::kSumInt64, value);
          return;
        }
        if (engine.result(n.node) != brought_[phase] || engine.reduction(n.node) != Reduction::kSumInt64)
          fail(fmt::format("a sum is {}, of what was brought it is {}", engine.result(n.node),
                           brought_[phase]));
        return met(n);
      case Meeting::kMonitor:
        if (n.meeting == 1) return (void)engine.lock(n.node, monitor);
        if (n.meeting == 2) {
          if (++in_monitor_[phase] == nodes_.size()) {
            n.meeting = 3;
            return (void)call(n, SyncOp::kConditionBroadcast, phase);
          }
          return (void)engine.sync(n.node, {.op = SyncOp::kConditionWait, .id = phase, .lock = monitor});
        }
        engine.unlock(n.node, monitor);
        return met(n);
      case Meeting::kFlag:
        if (n.meeting == 1) return (void)call(n, SyncOp::kWordAdd, guards_[2] + phase, 1, 0, true);
        if (n.meeting == 2) {
          const bool last = engine.result(n.node) + 1 == nodes_.size();
          return (void)call(n, last ? SyncOp::kFlagSet : SyncOp::kFlagWait, phase);
        }
        return met(n);
    }
  }

  void met(Node& n) {
    if (tell_) say(n, "past the meeting");
    if (came_[n.phase] != nodes_.size()) fail("a meeting let somebody through before all had come");
    n.meeting = 0;
    ++n.phase;
    n.ops_left = static_cast<std::uint32_t>(random_.below(16));
    if (n.phase < meetings_to_go_) return;
    n.ops_left = 0;  // the last: everybody reads everything of the set that was written before it
    const std::uint32_t set = 1 - n.phase % 2;
    for (std::size_t i = 0; i < owned_[set].size(); ++i)
      n.todo.push_back({owned_[set][i], &owned_bytes_[set][i], false});
    for (std::size_t index = 0; index < guarded_.size(); ++index)
      for (std::size_t i = 0; i < kGuarded; ++i)
        n.todo.push_back({guarded_[index][i], &guarded_bytes_[index][i], false});
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
  const std::array<std::uint32_t, 3>
      guards_;  // by kind: how many; the words behind them count and give tickets
  std::array<Meeting, kMostPhases> meetings_{};
  std::vector<std::uint32_t> to_post_;  // semaphores that nobody has given their one yet
  ProgramMachine& machine_;
  std::vector<bool> placed_;  // clusters that have said where the pages' homes are
  bool own_homes_ = false;
  std::vector<std::uint16_t> homes_;  // config_.clusters: who touches it first
  std::vector<Node> nodes_;
  std::uint32_t meetings_to_go_ = 0;

  std::vector<std::array<std::size_t, kGuarded>> guarded_;  // addresses
  std::vector<std::size_t> owned_[2];
  std::vector<std::array<std::uint8_t, kGuarded>> guarded_bytes_;  // the oracle: what was written last
  std::vector<std::uint8_t> owned_bytes_[2];
  std::set<std::uint32_t> holders_;  // guards that somebody has
  std::set<std::uint64_t> tickets_;
  std::vector<std::size_t> came_;       // by phase: nodes that came
  std::vector<std::uint64_t> brought_;  // by phase: the sum of what they brought
  std::array<std::size_t, kMostPhases> in_monitor_{};
  std::optional<std::string> failure_;
};

}  // namespace braid::dsm
