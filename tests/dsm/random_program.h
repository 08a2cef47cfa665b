// Random programs without data races, and the oracle that knows the values that they must read.
//
// Every node of every cluster takes guards, reads, writes, releases the guards, and synchronises with the others. A
// guard is a lock, a semaphore of one, or a word that is won by compare-and-exchange; nodes synchronise at a barrier,
// in a monitor made of a lock and a condition variable, or by a counter and a flag. Under a guard a node must read the
// bytes that were written last under it; after a synchronisation all must read what a node wrote before it. Bytes of
// different owners lie side by side in the same words, so every page is shared by many writers at once. If the clusters
// allocate pages collectively at the beginning, nodes allocate more of them while the others work.
//
// The driver of a program decides when a node takes its next step, and how messages are carried between the
// engines: in any order (engine_random_test.cpp), or the whole transport over a bad network
// (tests/sim/shared_memory.h).
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
  // Receives one line per action of a node.
  using Tell = std::function<void(const std::string&)>;

  // `config` is the configuration of `machine`. `tell` may be empty.
  RandomProgram(Prng random, const EngineConfig& config, ProgramMachine& machine, Tell tell)
      : random_(random),
        log_(std::move(tell)),
        config_(config),
        guards_{config.locks - 1, config.semaphores, config.words - kMaxPhases - 1},
        machine_(machine),
        placed_(config.clusters) {
    for (std::uint16_t c = 0; c < config_.clusters; ++c)
      for (std::uint16_t n = 0; n < config_.compute_nodes; ++n) nodes_.push_back({.cluster = c, .node = n});
    draw_regions();
    lay_out();
    phases_ = 1 + static_cast<std::uint32_t>(random_.below(4));
    came_.resize(kMaxPhases);
    brought_.resize(kMaxPhases);
    for (SyncPoint& point : sync_points_) point = static_cast<SyncPoint>(random_.below(3));
  }

  static EngineConfig draw_config(Prng& random) {
    EngineConfig c;
    c.clusters = static_cast<std::uint16_t>(2 + random.below(3));
    c.compute_nodes = static_cast<std::uint16_t>(1 + random.below(3));
    c.pages = random.chance(0.5) ? 1 : 1 + static_cast<std::uint32_t>(random.below(4));
    if (random.chance(0.1)) c.pages = 16;                                                // runs of pages
    if (random.chance(0.3)) c.pages += 1 + static_cast<std::uint32_t>(random.below(6));  // to allocate
    c.locks = 1 + static_cast<std::uint32_t>(random.below(4));
    c.barriers = 1 + static_cast<std::uint32_t>(random.below(3));
    c.flush_window = 1 + static_cast<std::uint32_t>(random.below(c.pages >= 16 ? 16 : 4));
    c.local_handoffs = static_cast<std::uint32_t>(random.below(3));
    c.lease_uses = static_cast<std::uint32_t>(random.below(8));
    c.lease_rounds = static_cast<std::uint8_t>(random.below(4));
    if (c.lease_uses % 2 == 1) c.lease_time = Duration::us(1);
    c.twins = random.chance(0.3) ? 1 + static_cast<std::uint32_t>(random.below(2)) : 8;
    c.fetch_ahead = static_cast<std::uint32_t>(random.below(4));
    c.scan_ahead = static_cast<std::uint32_t>(random.below(5));
    c.migrate_after = static_cast<std::uint32_t>(random.below(3));
    ++c.locks;  // for the monitors
    c.semaphores = static_cast<std::uint32_t>(random.below(3));
    // Guards, the counters of the synchronisations, and the tickets.
    c.words = static_cast<std::uint32_t>(random.below(3)) + kMaxPhases + 1;
    c.flags = kMaxPhases;
    c.conditions = kMaxPhases;
    c.barrier_fan_out = 1 + static_cast<std::uint32_t>(random.below(4));
    c.protocol = random.chance(0.5) ? Protocol::kLazy : Protocol::kEager;
    c.release_at_unlock = random.chance(0.25);
    c.run_pages = 1 + static_cast<std::uint32_t>(random.below(4));
    c.lock_words = 4;  // so that locks take turns
    c.addresses = c.pages * addresses_per_page(c.page_length);
    return c;
  }

  std::size_t nodes() const { return nodes_.size(); }
  std::uint16_t cluster(std::size_t node) const { return nodes_[node].cluster; }
  // Makes the next step of a node, if there is one.
  void step(std::size_t node) { step(nodes_[node]); }
  bool finished() const {
    for (const Node& n : nodes_)
      if (!n.ended) return false;
    return true;
  }
  // A forbidden value that a node read; empty if there was none.
  const std::optional<std::string>& failure() const { return failure_; }
  // Text for the user: the state of each node that has not ended.
  std::string unfinished() const {
    std::string text;
    for (const Node& n : nodes_) {
      if (n.ended) continue;
      text += fmt::format("\n  node {} of cluster {}, phase {}, {}", n.node, n.cluster, n.phase,
                          n.awaited           ? fmt::format("waits for guard {}", *n.awaited)
                          : n.sync_stage != 0 ? fmt::format("synchronises, stage {}", n.sync_stage)
                                              : std::string("works"));
      if (n.allocates != 0) text += fmt::format(", allocates {} page(s)", n.allocates);
      if (!n.todo.empty()) text += fmt::format(", wants to access {}", n.todo.back().byte->address);
    }
    return text;
  }

 private:
  static constexpr std::size_t kGuarded = 4;  // bytes that a guard guards
  static constexpr std::uint32_t kMaxPhases = 4;

  // How a node gets exclusive use of bytes.
  enum class Guard { kLock, kSemaphore, kWord };
  enum class SyncPoint { kBarrier, kMonitor, kFlag };
  static constexpr std::size_t kOwned = 3;  // bytes that a node owns, in each of the two sets, and of each
                                            // allocation of its own

  // The oracle's state of a byte.
  struct Byte {
    std::size_t address = 0;
    std::uint8_t value = 0;  // written last
  };
  struct Region {
    std::uint32_t count = 0;
    Homes homes;
  };
  struct PendingAccess {
    Byte* byte = nullptr;
    bool write = false;
  };
  struct Node {
    std::uint16_t cluster = 0;
    std::uint16_t node = 0;
    std::uint32_t phase = 0;               // synchronisations passed
    std::uint32_t ops_left = 4;            // until the next synchronisation
    std::vector<PendingAccess> todo = {};  // accesses before anything else
    std::vector<std::uint32_t> held = {};
    std::optional<std::uint32_t> awaited = {};  // a guard
    int sync_stage = 0;                         // how far this node is into one; 0: not in one
    bool takes_ticket = false;
    std::uint32_t allocates = 0;  // pages that it waits for
    bool ended = false;
  };

  // Draws the memory of the collective allocation: pages [0, laid_out_), or none, in which case no page has
  // a placement.
  void draw_regions() {
    laid_out_ = config_.pages;
    if (random_.chance(0.5)) return;
    laid_out_ = 1 + static_cast<std::uint32_t>(random_.below(config_.pages));
    to_allocate_ = config_.pages - laid_out_;
    for (std::uint32_t page = 0; page < laid_out_; page += regions_.back().count) {
      const std::uint32_t most = random_.chance(0.7) ? 1 : laid_out_ - page;
      regions_.push_back({1 + static_cast<std::uint32_t>(random_.below(most)), draw_homes()});
    }
  }
  Homes draw_homes() {
    return {static_cast<Homes::Kind>(random_.below(4)),
            ClusterId(static_cast<std::uint16_t>(random_.below(config_.clusters)))};
  }

  // The bytes of every owner: scattered over the page, and crowded in a few words.
  void lay_out() {
    guarded_.resize(std::size_t{guards_[0]} + guards_[1] + guards_[2]);
    for (auto& guard : guarded_)
      for (Byte*& byte : guard) byte = place(0, laid_out_);
    for (std::uint32_t s = 0; s < config_.semaphores; ++s) to_post_.push_back(s);
    for (auto& set : owned_) {
      set.resize(nodes_.size());
      for (auto& own : set)
        for (std::size_t i = 0; i < kOwned; ++i) own.push_back(place(0, laid_out_));
    }
  }
  std::uint32_t page_of(const Byte& byte) const {
    return static_cast<std::uint32_t>(config_.page_length.pages_in(byte.address));
  }
  Byte* place(std::uint32_t first, std::uint32_t pages) {
    const PageLength length = config_.page_length;
    for (;;) {
      const std::size_t word =
          random_.chance(0.8) ? random_.below(8) * 8 : random_.below(length.bytes() / 8) * 8;
      const std::size_t address = length.bytes_of(first + random_.below(pages)) + word + random_.below(8);
      if (addresses_.insert(address).second) return &bytes_.emplace_back(Byte{.address = address});
    }
  }
  std::size_t number(const Node& n) const { return n.cluster * std::size_t{config_.compute_nodes} + n.node; }

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
    if (n.allocates != 0) return got_pages(n);
    if (!n.todo.empty()) return access(n);
    if (n.sync_stage != 0) return synchronise(n);
    if (n.phase == phases_ && n.ops_left == 0) {
      n.ended = true;
      return;
    }
    if (!n.held.empty() && (n.ops_left == 0 || random_.chance(0.4))) return give_back(n);
    if (n.ops_left == 0) return synchronise(n);
    --n.ops_left;
    choose(n);
  }

  void choose(Node& n) {
    const std::uint32_t set = n.phase % 2;
    const auto one_of = [&](const std::vector<Byte*>& bytes) { return bytes[random_.below(bytes.size())]; };
    const std::vector<Byte*>& own = owned_[set][number(n)];
    const std::uint32_t lowest = n.held.empty() ? 0 : n.held.back() + 1;  // nested only upwards: no deadlock
    switch (random_.below(9)) {
      case 0:
        n.todo.push_back({one_of(own), true});
        break;
      case 1:
        n.todo.push_back({one_of(own), false});
        break;
      case 2:  // of any node, in the set that no node writes now
        n.todo.push_back({one_of(owned_[1 - set][random_.below(nodes_.size())]), false});
        break;
      case 3:
        n.takes_ticket = true;
        if (call(n, SyncOp::kWordAdd, config_.words - 1, 1, 0, random_.chance(0.5))) got_ticket(n);
        break;
      case 4:
        read_on(n);
        break;
      case 5:
        allocate(n);
        break;
      default:
        if (lowest >= guarded_.size()) break;
        take(n, lowest + static_cast<std::uint32_t>(random_.below(guarded_.size() - lowest)));
    }
  }

  bool call(Node& n, SyncOp op, std::uint32_t id, std::uint64_t first = 0, std::uint64_t second = 0,
            bool releases = false) {
    if (log_) log_event(n, fmt::format("operation {} on {}", static_cast<int>(op), id));
    return machine_.engine(n.cluster).sync(
        n.node, {.op = op, .id = id, .first = first, .second = second, .releases = releases});
  }

  void got_ticket(Node& n) {
    n.takes_ticket = false;
    const std::uint64_t ticket = machine_.engine(n.cluster).result(n.node);
    if (!tickets_.insert(ticket).second) fail(fmt::format("ticket {} was given twice", ticket));
    if (ticket > 10'000) fail(fmt::format("ticket {} was never there", ticket));
  }

  // Page after page, of the set that no node writes now.
  void read_on(Node& n) {
    std::map<std::uint32_t, Byte*, std::greater<>> one_of_each;
    for (const auto& bytes : owned_[1 - n.phase % 2])
      for (Byte* byte : bytes) one_of_each.emplace(page_of(*byte), byte);
    for (const auto& [page, byte] : one_of_each) n.todo.push_back({byte, false});
  }

  void place_homes(std::uint16_t cluster) {
    placed_[cluster] = true;
    std::uint32_t page = 0;
    for (const Region& region : regions_) {
      if (machine_.engine(cluster).allocate_together(region.count, region.homes) != PageId(page))
        fail(fmt::format("cluster {} did not get page {} as all do", cluster, page));
      page += region.count;
    }
  }

  // After the collective allocation is known everywhere.
  void allocate(Node& n) {
    if (to_allocate_ == 0 || !std::ranges::all_of(placed_, [](bool placed) { return placed; })) return;
    n.allocates = 1 + static_cast<std::uint32_t>(random_.below(std::min(to_allocate_, 3u)));
    to_allocate_ -= n.allocates;
    const Homes homes = draw_homes();
    if (log_) log_event(n, fmt::format("allocates {}, homes {}", n.allocates, static_cast<int>(homes.kind)));
    if (machine_.engine(n.cluster).allocate(n.node, n.allocates, homes)) got_pages(n);
  }
  // Their bytes are zero, and belong to this node until the next synchronisation.
  void got_pages(Node& n) {
    const std::uint64_t first = machine_.engine(n.cluster).result(n.node);
    if (log_) log_event(n, fmt::format("has pages from {} on", first));
    if (first < laid_out_ || first + n.allocates > config_.pages)
      return fail(fmt::format("{} page(s) were allocated at {}", n.allocates, first));
    const auto page = static_cast<std::uint32_t>(first);
    for (std::uint32_t i = 0; i < n.allocates; ++i)
      if (!allocated_.insert(page + i).second) fail(fmt::format("page {} was given twice", page + i));
    for (std::size_t i = 0; i < kOwned; ++i)
      owned_[n.phase % 2][number(n)].push_back(place(page, n.allocates));
    n.allocates = 0;
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

  // Every other one is at an address.
  LockId lock_of(std::uint32_t id) const {
    return LockId(
        id % 2 == 0 ? id : config_.locks + id % config_.pages * addresses_per_page(config_.page_length) + id);
  }

  bool take_lock(const Node& n, LockId lock) {
    Engine& engine = machine_.engine(n.cluster);
    return engine.take_open_lock(n.node, lock) || engine.lock(n.node, lock);
  }
  void free_lock(const Node& n, LockId lock) {
    Engine& engine = machine_.engine(n.cluster);
    if (!engine.free_open_lock(n.node, lock)) (void)engine.unlock(n.node, lock);
  }

  void take(Node& n, std::uint32_t index) {
    if (log_) log_event(n, fmt::format("takes guard {}", index));
    n.awaited = index;
    const auto [kind, id] = guard(index);
    const bool now = kind == Guard::kLock        ? take_lock(n, lock_of(id))
                     : kind == Guard::kSemaphore ? call(n, SyncOp::kSemaphoreWait, id)
                                                 : call(n, SyncOp::kWordCompareExchange, id, 0, 1);
    if (now) got_guard(n);
  }
  void got_guard(Node& n) {
    const std::uint32_t index = *n.awaited;
    if (guard(index).first == Guard::kWord && machine_.engine(n.cluster).result(n.node) != 0) {
      (void)call(n, SyncOp::kWordCompareExchange, guard(index).second, 0, 1);  // taken: try again
      return;
    }
    if (log_) log_event(n, fmt::format("has guard {}", index));
    n.awaited.reset();
    if (!holders_.insert(index).second) fail(fmt::format("guard {} has two holders", index));
    n.held.push_back(index);
    for (std::uint64_t k = 1 + random_.below(5); k > 0; --k) {
      Byte* const byte = guarded_[index][random_.below(kGuarded)];
      n.todo.push_back({byte, random_.chance(0.5)});
    }
  }
  void give_back(Node& n) {
    const std::uint32_t index = n.held.back();
    if (log_) log_event(n, fmt::format("gives back guard {}", index));
    n.held.pop_back();
    holders_.erase(index);
    const auto [kind, id] = guard(index);
    switch (kind) {
      case Guard::kLock:
        return free_lock(n, lock_of(id));
      case Guard::kSemaphore:
        return (void)call(n, SyncOp::kSemaphorePost, id, 1, 0, true);
      case Guard::kWord:
        return (void)call(n, SyncOp::kWordStore, id, 0, 0, true);
    }
  }

  // A step into, or through, the synchronisation that ends the node's phase.
  void synchronise(Node& n) {
    if (log_) log_event(n, fmt::format("synchronises, phase {}, stage {}", n.phase, n.sync_stage));
    Engine& engine = machine_.engine(n.cluster);
    const std::uint32_t phase = n.phase;
    const LockId monitor(config_.locks - 1);
    if (n.sync_stage++ == 0) ++came_[phase];
    switch (sync_points_[phase]) {
      case SyncPoint::kBarrier:
        if (n.sync_stage == 1) {
          const std::uint64_t value = random_.below(1000);
          brought_[phase] += value;
          (void)engine.barrier(n.node, BarrierId(phase % config_.barriers), Reduction::kSumInt64, value);
          return;
        }
        if (engine.result(n.node) != brought_[phase] || engine.reduction(n.node) != Reduction::kSumInt64)
          fail(fmt::format("a sum is {}, of what was brought it is {}", engine.result(n.node),
                           brought_[phase]));
        return synchronised(n);
      case SyncPoint::kMonitor:
        if (n.sync_stage == 1) return (void)take_lock(n, monitor);
        if (n.sync_stage == 2) {
          if (++in_monitor_[phase] == nodes_.size()) {
            n.sync_stage = 3;
            return (void)call(n, SyncOp::kConditionBroadcast, phase);
          }
          return (void)engine.sync(n.node, {.op = SyncOp::kConditionWait, .id = phase, .lock = monitor});
        }
        free_lock(n, monitor);
        return synchronised(n);
      case SyncPoint::kFlag:
        if (n.sync_stage == 1) return (void)call(n, SyncOp::kWordAdd, guards_[2] + phase, 1, 0, true);
        if (n.sync_stage == 2) {
          const bool last = engine.result(n.node) + 1 == nodes_.size();
          return (void)call(n, last ? SyncOp::kFlagSet : SyncOp::kFlagWait, phase);
        }
        return synchronised(n);
    }
  }

  void synchronised(Node& n) {
    if (log_) log_event(n, "synchronised");
    if (came_[n.phase] != nodes_.size()) fail("a node passed a synchronisation before all had arrived");
    n.sync_stage = 0;
    ++n.phase;
    n.ops_left = static_cast<std::uint32_t>(random_.below(16));
    if (n.phase < phases_) return;
    n.ops_left = 0;  // the last phase: every node reads all of the set that was written before it
    const std::uint32_t set = 1 - n.phase % 2;
    for (const auto& bytes : owned_[set])
      for (Byte* byte : bytes) n.todo.push_back({byte, false});
    for (const auto& bytes : guarded_)
      for (Byte* byte : bytes) n.todo.push_back({byte, false});
  }

  // Any pages, allocated or not: a hint changes no result.
  void prefetch(Node& n) {
    const auto first = static_cast<std::uint32_t>(random_.below(config_.pages));
    const auto count = static_cast<std::uint32_t>(1 + random_.below(config_.pages - first));
    if (log_) log_event(n, fmt::format("asks for {} page(s) from {} on", count, first));
    machine_.engine(n.cluster).prefetch(PageId(first), count);
  }

  void access(Node& n) {
    const auto [byte, write] = n.todo.back();
    const Access wanted = write ? Access::kWrite : Access::kRead;
    if (!machine_.may(n.cluster, byte->address, wanted)) {
      if (random_.chance(0.1)) prefetch(n);
      if (log_) log_event(n, fmt::format("faults at {} to {}", byte->address, write ? "write" : "read"));
      (void)machine_.engine(n.cluster).fault(n.node, PageId(page_of(*byte)), wanted);
      return;  // and tries again when it is its turn, perhaps too late
    }
    n.todo.pop_back();
    if (write) {
      byte->value = static_cast<std::uint8_t>(byte->value + 1 + random_.below(255));
      if (log_) log_event(n, fmt::format("writes {} = {}", byte->address, byte->value));
      machine_.poke(n.cluster, byte->address, byte->value);
      return;
    }
    const std::uint8_t seen = machine_.peek(n.cluster, byte->address);
    if (log_) log_event(n, fmt::format("reads {} = {}", byte->address, seen));
    if (seen != byte->value)
      fail(fmt::format("node {} of cluster {} reads {} at {} (page {}), written was {}", n.node, n.cluster,
                       seen, byte->address, page_of(*byte), byte->value));
  }

  void fail(const std::string& what) {
    if (!failure_) failure_ = what;
  }
  void log_event(const Node& n, const std::string& what) {
    log_(fmt::format("cluster {} node {}: {}", n.cluster, n.node, what));
  }

  Prng random_;
  const Tell log_;
  const EngineConfig config_;
  const std::array<std::uint32_t, 3>
      guards_;  // by kind: how many; the words behind them count and give tickets
  std::array<SyncPoint, kMaxPhases> sync_points_{};
  std::vector<std::uint32_t> to_post_;  // semaphores that were not posted initially yet
  ProgramMachine& machine_;
  std::vector<bool> placed_;           // clusters that have said where the pages' homes are
  std::vector<Region> regions_;        // that clusters take together
  std::uint32_t laid_out_ = 0;         // pages whose bytes have owners from the beginning
  std::uint32_t to_allocate_ = 0;      // pages that are not requested yet
  std::set<std::uint32_t> allocated_;  // pages that nodes have been given
  std::vector<Node> nodes_;
  std::uint32_t phases_ = 0;

  std::deque<Byte> bytes_;  // all that have an owner, where they stay
  std::set<std::size_t> addresses_;
  std::vector<std::array<Byte*, kGuarded>> guarded_;  // by guard
  std::vector<std::vector<Byte*>> owned_[2];          // by node
  std::set<std::uint32_t> holders_;                   // guards that a node has
  std::set<std::uint64_t> tickets_;
  std::vector<std::size_t> came_;       // by phase: nodes that came
  std::vector<std::uint64_t> brought_;  // by phase: the sum of what they brought
  std::array<std::size_t, kMaxPhases> in_monitor_{};
  std::optional<std::string> failure_;
};

}  // namespace braid::dsm
