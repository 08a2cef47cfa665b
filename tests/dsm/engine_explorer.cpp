// Visits every state that a small machine of production engines can reach (engine_world.h), for any
// actions of its programs and any order of messages, breadth first. So a failure is reported with a shortest
// sequence of events.
//
//   engine_explorer --clusters 2 --pages 2 --operations 2       one machine; see --help
//   engine_explorer --suite 1                                   half of the machines that the tests explore
//   engine_explorer_mutants --prove                             every mutant (base/mutant.h) is
//                                                               caught
//
// Besides the invariants of single states in engine_world.h it checks: from every state the end can be reached, so
// there is neither deadlock nor livelock; and states with the same digest behave alike (for every 64th state that
// is reached again, all successors are compared with those of the first time).
//
// A world is in one arena at a fixed address; a state is a copy of the arena. The engines are not changed for
// this.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/mutant.h"
#include "engine_world.h"

// --- the arena

namespace {

constexpr std::size_t kArenaBytes = 4 << 20;
alignas(64) std::byte g_arena[kArenaBytes];
std::size_t g_arena_used = 0;
bool g_arena_open = false;

bool in_arena(const void* memory) {
  return memory >= g_arena && memory < g_arena + kArenaBytes;
}

}  // namespace

// Every other form of new calls this; new[] only by its replacement where a sanitizer has one of its own. Not inlined, because g++ would report new and free as a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (g_arena_open) {
    std::byte* const memory = g_arena + g_arena_used;
    g_arena_used += (bytes + 15) / 16 * 16;
    if (g_arena_used > kArenaBytes) std::abort();
    return memory;
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (!in_arena(memory)) std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  if (!in_arena(memory)) std::free(memory);
}

[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  operator delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace braid::dsm {
namespace {

// A world in the arena. One at a time.
class ArenaWorld {
 public:
  explicit ArenaWorld(const WorldBounds& bounds) {
    std::memset(g_arena, 0, g_arena_used);
    g_arena_used = 0;
    g_arena_open = true;
    world_ = new EngineWorld(bounds);
    g_arena_open = false;
    divide_blocks();
  }
  EngineWorld& operator*() const { return *world_; }
  EngineWorld* operator->() const { return world_; }

  // Most of a world is zero: of every page the programs use a few bytes. A block that has been zero since the beginning
  // is zero in every copy, so it is not copied; it is compared with zero before the world is left.
  class Copy {
    friend class ArenaWorld;
    std::vector<std::byte> bytes_;
  };
  void save(Copy& copy) {
    find_used_blocks();
    copy.bytes_.resize(g_arena_used);
    for (const Run& run : used_) std::memcpy(&copy.bytes_[run.first], g_arena + run.first, run.bytes);
  }
  void restore(const Copy& copy) {
    find_used_blocks();
    for (const Run& run : used_) std::memcpy(g_arena + run.first, &copy.bytes_[run.first], run.bytes);
  }

 private:
  struct Run {
    std::size_t first, bytes;
  };
  static constexpr std::size_t kBlockBytes = 256, kMaxRunBytes = 4096;

  // Moves the blocks that are no longer zero to the used ones.
  void find_used_blocks() {
    static constexpr std::array<std::byte, kMaxRunBytes> kZeros{};
    for (const Run& run : zero_)
      if (std::memcmp(g_arena + run.first, kZeros.data(), run.bytes) != 0) return divide_blocks();
  }
  void divide_blocks() {
    is_used_.resize((g_arena_used + kBlockBytes - 1) / kBlockBytes);
    used_.clear();
    zero_.clear();
    for (std::size_t i = 0; i < is_used_.size(); ++i) {
      const Run block{i * kBlockBytes, std::min(kBlockBytes, g_arena_used - i * kBlockBytes)};
      const std::byte* const bytes = g_arena + block.first;
      is_used_[i] = is_used_[i] ||
                    std::any_of(bytes, bytes + block.bytes, [](std::byte b) { return b != std::byte{}; });
      std::vector<Run>& runs = is_used_[i] ? used_ : zero_;
      if (runs.empty() || runs.back().first + runs.back().bytes != block.first ||
          runs.back().bytes == kMaxRunBytes)
        runs.push_back(block);
      else
        runs.back().bytes += block.bytes;
    }
  }

  EngineWorld* world_;         // never destroyed: the next world takes the whole arena
  std::vector<bool> is_used_;  // by block
  std::vector<Run> used_, zero_;
};

// A failed CHECK is a finding like any other. The memory that it leaks is in the arena.
sigjmp_buf g_after_abort;
volatile std::sig_atomic_t g_exploring = 0;
void on_abort(int) {
  if (g_exploring != 0) siglongjmp(g_after_abort, 1);
}

// --- known states

class Seen {
 public:
  // Returns the number of the state, and whether it is new: then its number is `next`.
  std::pair<std::uint32_t, bool> find_or_add(std::uint64_t digest, std::uint32_t next) {
    if (used_ * 5 >= keys_.size() * 3) grow();
    const std::size_t at = place(digest);
    if (numbers_[at] != kFree) return {numbers_[at], false};
    keys_[at] = digest;
    numbers_[at] = next;
    ++used_;
    return {next, true};
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  std::size_t place(std::uint64_t digest) const {
    std::size_t at = digest & (keys_.size() - 1);
    while (numbers_[at] != kFree && keys_[at] != digest) at = (at + 1) & (keys_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<std::uint64_t> keys = std::move(keys_);
    const std::vector<std::uint32_t> numbers = std::move(numbers_);
    keys_.assign(keys.size() * 2, 0);
    numbers_.assign(keys.size() * 2, kFree);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (numbers[i] == kFree) continue;
      const std::size_t at = place(keys[i]);
      keys_[at] = keys[i];
      numbers_[at] = numbers[i];
    }
  }
  std::vector<std::uint64_t> keys_ = std::vector<std::uint64_t>(1 << 16);
  std::vector<std::uint32_t> numbers_ = std::vector<std::uint32_t>(1 << 16, kFree);
  std::size_t used_ = 0;
};

// --- the explorer

struct Limits {
  std::uint32_t depth = ~std::uint32_t{0};
  std::uint32_t states = 100'000'000;
};

struct Outcome {
  std::optional<std::string> failure;
  std::vector<std::string> trace;
  bool complete = false;
  std::uint32_t states = 0;
  std::uint64_t transitions = 0;
  std::uint32_t ends = 0;
  std::uint32_t depth = 0;
  std::uint32_t compared = 0;  // states met again whose followers were compared
};

class Explorer {
 public:
  Explorer(const WorldBounds& bounds, const Limits& limits) : limits_(limits), world_(bounds) {}

  Outcome run() {
    nodes_.push_back({});
    (void)seen_.find_or_add(world_->digest(), 0);
    copies_.emplace_back();
    world_.save(copies_[0]);
    path_.push_back(0);
    if (sigsetjmp(g_after_abort, 1) != 0)
      fail(doing_, "a CHECK failed (above)");
    else
      explore();
    g_exploring = 0;
    outcome_.states = static_cast<std::uint32_t>(nodes_.size());
    outcome_.depth = nodes_.back().depth;
    return std::move(outcome_);
  }

 private:
  static constexpr std::uint64_t kCompareEvery = 64;

  // Not inlined: it is left by a longjmp.
  [[gnu::noinline]] void explore() {
    g_exploring = 1;
    outcome_.complete = true;
    for (; expanded_ < nodes_.size() && !outcome_.failure; ++expanded_) {
      if (nodes_[expanded_].depth >= limits_.depth || nodes_.size() >= limits_.states) {
        outcome_.complete = false;
        break;
      }
      expand(expanded_);
    }
    if (outcome_.complete && !outcome_.failure) check_all_reach_an_end();
    if (!outcome_.failure) check_comparisons();
  }

  struct Node {
    std::uint32_t parent = 0;
    Action by{};
    std::uint32_t depth = 0;
    std::uint32_t followers = 0;       // sum of their digests
    std::uint32_t first_follower = 0;  // in followers_
  };
  struct Doing {
    std::uint32_t state;
    std::optional<Action> action;
  };
  struct Comparison {
    std::uint32_t state;
    std::uint32_t followers;
    Doing at;
  };

  // Puts the world into state i: back along the path to the last state that is also on the path to i, and forward
  // from there. The states of a level are in the order of their parents, so this takes one or two steps.
  void go_to(std::uint32_t i) {
    std::vector<std::uint32_t>& way = way_;
    way.clear();
    for (std::uint32_t n = i; n != 0; n = nodes_[n].parent) way.push_back(n);
    way.push_back(0);
    std::reverse(way.begin(), way.end());
    std::size_t shared = 0;
    while (shared < way.size() && shared < path_.size() && way[shared] == path_[shared]) ++shared;
    path_.assign(way.begin(), way.end());
    if (copies_.size() < way.size()) copies_.resize(way.size());
    world_.restore(copies_[shared - 1]);
    for (std::size_t k = shared; k < way.size(); ++k) {
      CHECK(world_->apply(nodes_[way[k]].by));
      world_.save(copies_[k]);
    }
  }

  void expand(std::uint32_t i) {
    go_to(i);
    const std::size_t depth = path_.size() - 1;
    world_->list(actions_);
    nodes_[i].first_follower = static_cast<std::uint32_t>(followers_.size());
    if (actions_.empty()) return end(i);
    std::uint32_t sum = 0;
    // A copy, because the comparison lists other actions.
    const std::vector<Action> actions = actions_;
    for (std::size_t k = 0; k < actions.size(); ++k) {
      if (k != 0) world_.restore(copies_[depth]);
      doing_ = {i, actions[k]};
      ++outcome_.transitions;
      if (!world_->apply(actions[k])) return fail(doing_, EngineWorld::wrong());
      const std::uint64_t digest = world_->digest();
      sum += static_cast<std::uint32_t>(digest >> 20) + 1;
      const auto [number, is_new] = seen_.find_or_add(digest, static_cast<std::uint32_t>(nodes_.size()));
      followers_.push_back(number);
      if (is_new)
        nodes_.push_back({.parent = i, .by = actions[k], .depth = nodes_[i].depth + 1});
      else if (outcome_.transitions % kCompareEvery == 0)
        note_comparison(number);
      if (outcome_.failure) return;
    }
    nodes_[i].followers = sum;
  }

  // The world is in a state that has the digest of `state` and was reached by another path.
  void note_comparison(std::uint32_t state) {
    const Doing at = doing_;
    ArenaWorld::Copy& here = compared_;
    world_.save(here);
    world_->list(actions_);
    std::uint32_t sum = 0;
    for (std::size_t k = 0; k < actions_.size(); ++k) {
      if (k != 0) world_.restore(here);
      if (!world_->apply(actions_[k])) return fail(at, "and then: " + EngineWorld::wrong());
      sum += static_cast<std::uint32_t>(world_->digest() >> 20) + 1;
    }
    comparisons_.push_back({state, sum, at});
  }

  void check_comparisons() {
    for (const Comparison& c : comparisons_) {
      if (c.state >= expanded_) continue;
      ++outcome_.compared;
      if (nodes_[c.state].followers != c.followers)
        return fail(c.at,
                    fmt::format("the state is told like number {}, but others follow it: describe() leaves "
                                "something out",
                                c.state));
    }
  }

  void end(std::uint32_t i) {
    ++outcome_.ends;
    doing_ = {i, std::nullopt};
    if (!world_->check_end()) return fail(doing_, EngineWorld::wrong());
    ends_.push_back(i);
  }

  // Backwards over the states: nearly every step goes to a state of a higher number, so few rounds are
  // enough.
  void check_all_reach_an_end() {
    std::vector<bool> reaches(nodes_.size());
    for (const std::uint32_t e : ends_) reaches[e] = true;
    for (bool more = true; more;) {
      more = false;
      for (std::uint32_t i = static_cast<std::uint32_t>(nodes_.size()); i-- > 0;) {
        if (reaches[i]) continue;
        const std::size_t last = i + 1 < nodes_.size() ? nodes_[i + 1].first_follower : followers_.size();
        for (std::size_t f = nodes_[i].first_follower; f < last && !reaches[i]; ++f)
          if (reaches[followers_[f]]) reaches[i] = more = true;
      }
    }
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      if (!reaches[i]) return fail({i, std::nullopt}, "from here the programs can never end");
  }

  // Prints the path. The failed CHECK may have left the world in any state.
  void fail(const Doing& at, const std::string& what) {
    if (outcome_.failure) return;
    outcome_.complete = false;
    outcome_.failure = what;
    std::vector<std::uint32_t> way;
    for (std::uint32_t n = at.state; n != 0; n = nodes_[n].parent) way.push_back(n);
    std::reverse(way.begin(), way.end());
    world_.restore(copies_[0]);
    for (const std::uint32_t n : way) {
      outcome_.trace.push_back(world_->describe(nodes_[n].by));
      (void)world_->apply(nodes_[n].by);
    }
    if (at.action) outcome_.trace.push_back(world_->describe(*at.action));
  }

  const Limits limits_;
  ArenaWorld world_;
  Outcome outcome_;
  Seen seen_;
  std::vector<Node> nodes_;     // in the order in which they were met: by depth
  std::uint32_t expanded_ = 0;  // the first so many
  std::vector<std::uint32_t> followers_;
  std::vector<std::uint32_t> ends_;
  std::vector<Comparison> comparisons_;
  // The states on the path to the one that is expanded.
  std::vector<std::uint32_t> path_, way_;
  std::vector<ArenaWorld::Copy> copies_;
  ArenaWorld::Copy compared_;
  std::vector<Action> actions_;
  Doing doing_{};
};

// Returns true if there was no failure.
bool report(const WorldBounds& bounds, const Limits& limits, const Outcome& o) {
  fmt::print("{}\n  {} states, {} transitions, {} ends, deepest {}, {} compared: ", bounds.text(), o.states,
             o.transitions, o.ends, o.depth, o.compared);
  if (o.failure) {
    fmt::print("WRONG: {}\n", *o.failure);
    for (std::size_t i = 0; i < o.trace.size(); ++i) fmt::print("    {:3} {}\n", i + 1, o.trace[i]);
  } else if (o.complete) {
    fmt::print("complete, all right\n");
  } else {
    fmt::print("all right to depth {}{}\n", o.depth - 1, limits.depth == ~0u ? " (too many states)" : "");
  }
  std::fflush(stdout);
  return !o.failure;
}

bool explore(const WorldBounds& bounds, const Limits& limits) {
  return report(bounds, limits, Explorer(bounds, limits).run());
}

// --- the suite

struct ExploredMachine {
  WorldBounds bounds;
  Limits limits = {};
};

// The machines that the tests explore, in two halves that take about equally long.
std::vector<ExploredMachine> suite(int half) {
  if (half == 1)
    return {
        {{.pages = 2, .operations = 3, .window = 1}},
        {{.pages = 2, .operations = 3}},
        {{.pages = 2, .operations = 2, .window = 1, .lock = 1, .flush_window = 1, .homes = {1, 1}}},
        {{.operations = 2, .phases = 2}},
        {{.nodes = 2, .operations = 1}},
        {{.nodes = 2, .operations = 2, .window = 1, .twins = 4}, {.depth = 18}},
        {{.clusters = 4, .operations = 2}, {.depth = 12}},
        {{.pages = 2, .operations = 2, .window = 1, .migrate_after = 1, .first_touch = 1}},
        {{.operations = 3, .migrate_after = 1, .first_touch = 1}},
        {{.operations = 2, .phases = 2, .window = 1, .migrate_after = 2}},
        {{.pages = 3, .operations = 2, .window = 1, .fetch_ahead = 1, .homes = {0, 0, 0}}},
        {{.pages = 4,
          .operations = 2,
          .phases = 2,
          .roles = true,
          .fetch_ahead = 2,
          .run_pages = 2,
          .homes = {0, 0, 0, 0}}},
        {{.pages = 2, .operations = 3, .migrate_after = 1, .pack = true, .homes = {0, 0}}},
        {{.operations = 3, .handoffs = 0, .lease_uses = 1}},
        {{.operations = 8, .handoffs = 0, .lease_uses = 1, .accesses = false, .fairness = true}},
        {{.operations = 4, .handoffs = 0, .lease_uses = 4, .lease_rounds = 2}},
        {{.operations = 10,
          .handoffs = 0,
          .lease_uses = 5,
          .lease_rounds = 2,
          .accesses = false,
          .fairness = true}},
        {{.operations = 8,
          .handoffs = 0,
          .lease_uses = 3,
          .lease_rounds = 2,
          .timed = true,
          .accesses = false,
          .fairness = true}},
        {{.operations = 3, .handoffs = 0, .lease_uses = 2, .timed = true}},
        {{.operations = 3, .handoffs = 0, .lease_uses = 1, .tries = true, .at_address = true}},
        {{.operations = 3, .flush_window = 1, .handoffs = 0, .release_at_unlock = true}},
        {{.pages = 2, .protocol = Protocol::kLazy, .operations = 2, .window = 1}},
        {{.protocol = Protocol::kLazy, .operations = 2, .phases = 2, .window = 1}},
        {{.protocol = Protocol::kLazy, .operations = 3, .migrate_after = 2, .pack = true}},
        {{.protocol = Protocol::kLazy, .operations = 2, .lease_uses = 1, .tries = true}},
    };
  return {
      {{.clusters = 3, .operations = 2, .window = 1, .migrate_after = 1}},
      {{.clusters = 3, .operations = 1, .migrate_after = 1, .first_touch = 1}},
      {{.clusters = 3, .operations = 2}, {.depth = 16}},
      {{.clusters = 3,
        .operations = 3,
        .window = 1,
        .lock = 1,
        .handoffs = 0,
        .lease_uses = 1,
        .accesses = false,
        .tries = true}},
      {{.nodes = 2, .operations = 3, .window = 1, .accesses = false, .tries = true, .at_address = true}},
      {{.clusters = 3, .operations = 1, .migrate_after = 1, .pack = true}},
      {{.nodes = 2, .operations = 1, .handoffs = 0, .release_at_unlock = true}},
      {{.clusters = 3, .protocol = Protocol::kLazy, .operations = 1, .migrate_after = 1, .pack = true}},
      {{.pages = 2,
        .protocol = Protocol::kLazy,
        .operations = 2,
        .window = 1,
        .migrate_after = 1,
        .first_touch = 1}},
      {{.clusters = 3,
        .operations = 4,
        .window = 1,
        .handoffs = 0,
        .lease_uses = 1,
        .accesses = false,
        .fairness = true}},
      {{.nodes = 2, .operations = 4, .window = 1, .lease_uses = 2, .accesses = false, .fairness = true}},
      {{.nodes = 2,
        .operations = 4,
        .window = 1,
        .lease_uses = 3,
        .lease_rounds = 2,
        .accesses = false,
        .fairness = true}},
      {{.clusters = 3,
        .operations = 3,
        .window = 1,
        .handoffs = 0,
        .lease_uses = 2,
        .timed = true,
        .accesses = false,
        .fairness = true}},
      {{.clusters = 4,
        .operations = 2,
        .window = 1,
        .handoffs = 0,
        .lease_uses = 1,
        .accesses = false,
        .fairness = true},
       {.depth = 24}},
  };
}

// Those of a half in which nodes use pages under the eager protocol, under the lazy one instead.
std::vector<ExploredMachine> lazy_suite(int half) {
  std::vector<ExploredMachine> machines = suite(half);
  std::erase_if(machines, [](const ExploredMachine& m) {
    return m.bounds.protocol == Protocol::kLazy || !m.bounds.accesses;
  });
  for (ExploredMachine& m : machines) m.bounds.protocol = Protocol::kLazy;
  return machines;
}

#ifdef BRAID_MUTANTS
struct NamedMutant {
  const char* name;
  Mutant mutant;
  Protocol protocol = Protocol::kEager;  // of the machines that must detect it
};
constexpr NamedMutant kMutants[] = {
    {"ask-during-own-flush", Mutant::kAskDuringOwnFlush},
    {"initiators-keep-copies", Mutant::kInitiatorsKeepCopies},
    {"join-running-round", Mutant::kJoinRunningRound},
    {"end-round-early", Mutant::kEndRoundEarly},
    {"install-stale-reply", Mutant::kInstallStaleReply},
    {"judge-run-by-first", Mutant::kJudgeRunByFirst},
    {"forget-changes", Mutant::kForgetChanges},
    {"token-leaves-early", Mutant::kTokenLeavesEarly},
    {"forget-early-recall", Mutant::kForgetEarlyRecall},
    {"token-starves", Mutant::kTokenStarves},
    {"endless-lease", Mutant::kEndlessLease},
    {"lose-grant", Mutant::kLoseGrant},
    {"token-stays-too", Mutant::kTokenStaysToo},
    {"word-stays-open", Mutant::kWordStaysOpen},
    {"try-waits", Mutant::kTryWaits},
    {"move-from-suspects", Mutant::kMoveFromSuspects},
    {"lose-notice", Mutant::kLoseNotice, Protocol::kLazy},
    {"acquire-early", Mutant::kAcquireEarly, Protocol::kLazy},
    {"collect-early", Mutant::kCollectEarly, Protocol::kLazy},
    {"believe-own-copy", Mutant::kBelieveOwnCopy, Protocol::kLazy},
};

// Every mutant must be detected by the values that the programs read, without the engines' own assertions. The
// suite shows that the machines pass without the mutants.
bool prove(const std::string& only) {
  const ExploredMachine machines[] = {
      {{.pages = 4,
        .operations = 2,
        .phases = 2,
        .window = 2,
        .roles = true,
        .fetch_ahead = 2,
        .run_pages = 2,
        .homes = {0, 0, 0, 0},
        .invariants = false}},
      {{.operations = 6,
        .handoffs = 0,
        .lease_uses = 1,
        .accesses = false,
        .fairness = true,
        .invariants = false}},
      {{.operations = 6,
        .handoffs = 0,
        .lease_uses = 2,
        .accesses = false,
        .fairness = true,
        .invariants = false}},
      {{.operations = 1, .accesses = false, .tries = true, .invariants = false}},
      {{.operations = 2, .migrate_after = 1, .invariants = false}},
      {{.clusters = 3, .operations = 1, .invariants = false}},
      {{.clusters = 3, .operations = 2, .window = 1, .migrate_after = 1, .invariants = false}},
      {{.protocol = Protocol::kLazy, .operations = 2, .invariants = false}},
      {{.clusters = 3, .protocol = Protocol::kLazy, .operations = 1, .invariants = false}},
  };
  bool all = true;
  for (const NamedMutant& p : kMutants) {
    if (!only.empty() && only != p.name) continue;
    active_mutant = p.mutant;
    bool caught = false;
    for (const ExploredMachine& m : machines) {
      if (m.bounds.protocol != p.protocol) continue;
      const Outcome o = Explorer(m.bounds, m.limits).run();
      if (!o.failure) continue;
      fmt::print("{}: caught after {} states. ", p.name, o.states);
      caught = !report(m.bounds, m.limits, o);
      break;
    }
    if (!caught) fmt::print("{}: NOT caught\n", p.name);
    all = all && caught;
  }
  return all;
}
#endif

}  // namespace
}  // namespace braid::dsm

int main(int argc, char** argv) {
  using namespace braid::dsm;
  WorldBounds bounds;
  Limits limits;
  CLI::App app("Explores every state that a small machine of page engines can reach");
  app.add_option("--clusters", bounds.clusters, "1 .. 8")->check(CLI::Range(1, 8));
  app.add_option("--nodes", bounds.nodes, "compute nodes of each, 1 .. 4")->check(CLI::Range(1, 4));
  app.add_flag_callback(
      "--lazy", [&] { bounds.protocol = Protocol::kLazy; }, "EngineConfig::protocol");
  app.add_option("--pages", bounds.pages, "1 .. 4")->check(CLI::Range(1, 4));
  app.add_option("--operations", bounds.operations, "of each node in each phase");
  app.add_option("--phases", bounds.phases, "each ends with a barrier");
  app.add_option("--window", bounds.window, "messages in flight from one cluster to another; 0: no bound");
  app.add_option("--lock", bounds.lock, "the lock that is used");
  app.add_option("--flush-window", bounds.flush_window, "EngineConfig::flush_window");
  app.add_option("--twins", bounds.twins, "EngineConfig::twins");
  app.add_option("--handoffs", bounds.handoffs, "EngineConfig::local_handoffs");
  app.add_option("--lease-uses", bounds.lease_uses, "EngineConfig::lease_uses");
  app.add_flag("--timed", bounds.timed, "EngineConfig::lease_time, which never ends");
  app.add_option("--lease-rounds", bounds.lease_rounds, "EngineConfig::lease_rounds")
      ->check(CLI::Range(1, 255));
  app.add_flag("!--no-accesses", bounds.accesses, "no node reads or writes a page");
  app.add_flag("--tries", bounds.tries, "node 0 locks, and may end while it has the lock; the others try");
  app.add_flag("--at-address", bounds.at_address, "the lock is one at an address");
  app.add_flag("--fairness", bounds.fairness, "check the order and the number of uses of the lock");
  app.add_option("--migrate-after", bounds.migrate_after, "EngineConfig::migrate_after");
  app.add_option("--fetch-ahead", bounds.fetch_ahead, "EngineConfig::fetch_ahead");
  app.add_option("--run-pages", bounds.run_pages, "EngineConfig::run_pages");
  app.add_flag("--roles", bounds.roles, "nodes of cluster 0 only write the last page, the others only read");
  app.add_flag("--pack", bounds.pack, "EngineConfig::pack");
  app.add_flag("--release-at-unlock", bounds.release_at_unlock, "EngineConfig::release_at_unlock");
  app.add_option("--first-touch", bounds.first_touch, "so many of the last pages are placed by first touch");
  app.add_option("--homes", bounds.homes, "of the first pages");
  app.add_option("--depth", limits.depth, "events from the beginning");
  app.add_option("--states", limits.states, "no more than so many");
  int half = 0;
  app.add_option(
         "--suite", half,
         "half 1 or 2 of the machines that the tests explore; with --lazy: its machines of pages, lazy")
      ->check(CLI::Range(1, 2));
#ifdef BRAID_MUTANTS
  bool proving = false;
  std::string name_of_mutant;
  app.add_flag("--prove", proving, "see that every mutant is caught");
  app.add_option("--mutant", name_of_mutant, "only this one");
#endif
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGABRT, on_abort);
#ifdef BRAID_MUTANTS
  if (proving) return prove(name_of_mutant) ? 0 : 1;
#endif
  if (half != 0) {
    bool all = true;
    const bool lazy = bounds.protocol == Protocol::kLazy;
    for (const ExploredMachine& m : lazy ? lazy_suite(half) : suite(half))
      all = explore(m.bounds, m.limits) && all;
    return all ? 0 : 1;
  }
  return explore(bounds, limits) ? 0 : 1;
}
