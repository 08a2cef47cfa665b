// Measures contended locks: how long programs take whose compute nodes meet at few locks. A program as users' are;
// bench/lock_table runs it on several shapes of machine and prints their table:
//
//     braid run --clusters 3 --compute 1 --proxies 1 lock_bench
//
// Every case divides the same sections among all compute nodes, which begin at a barrier; its figure is the time from the
// first node's begin to the last node's end, for each section. "overlap" is the part of that time in which all nodes
// were at work: a case in which one node ends before another begins measures no contention. The last cases run for a
// fixed time and count the acquisitions of each node in every 100 ms: the share of the node with the fewest, in the worst
// and in the median window, 1 being an equal share.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/prng.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/two_processes.h"
#include "dsm/api.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT

constexpr unsigned kLock = 1;  // of the cases with one lock; its manager is cluster 1, where there is one
constexpr unsigned kManyLocks = 64;  // from this lock on, as many: one for each cell of the tree, too
constexpr std::size_t kPageWords = 512;
constexpr Duration kWindow = 100_ms;
constexpr std::size_t kMaxWindows = 64;
constexpr std::size_t kMaxNodes = 64;

// Keeps the processor busy without memory that is shared.
void work(Duration length) {
  const Instant until = monotonic_now() + length;
  while (monotonic_now() < until) continue;
}

// A tree of points under 64 locked cells: the upper levels are an array, and below each cell is a binary tree.
struct TreeNode {
  std::uint32_t key;
  std::uint32_t child[2];
};

struct Shared {
  std::uint64_t* counters;  // one page: the first counts sections of one lock, the others of 64 locks
  std::uint64_t* queue;     // one page: the next item
  std::uint32_t* cells;     // one page: roots of the trees below the cells
  TreeNode* tree;
  std::uint64_t* pixels;   // one page: counters of tiles
  std::uint64_t* windows;  // acquisitions, by node and window
};

struct Case {
  const char* name;
  std::size_t divisor;                          // of the sections: cases with longer sections run fewer
  std::function<void(Node&, std::size_t)> run;  // this node's share
  std::function<bool(std::size_t)> verify;      // are the results of so many sections right? at one node
};

struct Figures {
  std::vector<double> us;  // by round
  std::vector<double> overlap;
};

// A case that runs for a fixed time: sections of one lock, with that much private work between them.
struct TimedCase {
  const char* name;
  Duration between;
};
constexpr std::array kTimedCases = {TimedCase{"one lock, timed", Duration{}},
                                    TimedCase{"the same, 10 us between", 10_us}};

// By round.
struct Fairness {
  std::vector<double> worst_share;  // of the node with the fewest acquisitions, over its share of all, in ...
  std::vector<double> median_share;  // ... the worst and in the median window
  std::vector<double> longest_wait_ms;
  std::vector<double> us;
};

class Bench {
 public:
  explicit Bench(std::size_t sections)
      : sections_(sections),
        s_{.counters = allocate<std::uint64_t>(kPageWords, Placement::on(0)),
           .queue = allocate<std::uint64_t>(kPageWords, Placement::on(0)),
           .cells = allocate<std::uint32_t>(2 * kPageWords, Placement::on(0)),
           .tree = allocate<TreeNode>(sections + 1, Placement::cyclic()),
           .pixels = allocate<std::uint64_t>(kPageWords, Placement::on(0)),
           .windows = allocate<std::uint64_t>(kMaxNodes * kMaxWindows, Placement::on(0))} {}

  std::vector<Case> cases() {
    return {
        {"one lock", 1, [this](Node& n, std::size_t k) { one_lock(n, k, {}); },
         [this](std::size_t all) { return s_.counters[0] == all; }},
        {"one lock, 10 us between", 1, [this](Node& n, std::size_t k) { one_lock(n, k, 10_us); },
         [this](std::size_t all) { return s_.counters[0] == all; }},
        {"64 locks at random", 1, [this](Node& n, std::size_t k) { many_locks(n, k, true); },
         [this](std::size_t all) { return sum(s_.counters, kManyLocks) == all; }},
        // What the tokens cost without a page.
        {"64 locks at random, no data", 1, [this](Node& n, std::size_t k) { many_locks(n, k, false); },
         [this](std::size_t) { return sum(s_.counters, kManyLocks) == 0; }},
        {"work queue, items of 5 us", 1, [this](Node& n, std::size_t) { work_queue(n); },
         [this](std::size_t all) { return sum(s_.queue + 1, kMaxNodes) == all; }},
        {"tree under 64 cell locks", 1, [this](Node& n, std::size_t k) { tree(n, k); },
         [this](std::size_t all) { return size_of_tree() == all; }},
        {"pixels, a counter per ray", 1, [this](Node& n, std::size_t k) { pixels(n, k); },
         [this](std::size_t all) { return s_.counters[0] == all && sum(s_.pixels, kPageWords) == all; }},
    };
  }

  // False: a result is wrong.
  bool run(Node& node, const Case& one, Figures& figures) {
    clear(node);
    const Range share = node.share(sections_ / one.divisor);
    node.barrier();
    const double begin = seconds();
    one.run(node, share.size());
    const double end = seconds();
    const double first = node.reduce(begin, Reduce::kMin), all_began = node.reduce(begin, Reduce::kMax);
    const double one_ended = node.reduce(end, Reduce::kMin), last = node.reduce(end, Reduce::kMax);
    bool right = true;
    if (node.id() == 0) {
      right = one.verify(sections_ / one.divisor);
      figures.us.push_back((last - first) * 1e6 / static_cast<double>(sections_ / one.divisor));
      figures.overlap.push_back(std::max(0.0, one_ended - all_began) / (last - first));
    }
    return node.reduce(right ? 1 : 0, Reduce::kMin) == 1;
  }

  void fairness(Node& node, Duration between, std::size_t windows, Fairness& figures) {
    clear(node);
    // The same moment in all clusters: they are processes of one host.
    const double begin = node.reduce(seconds(), Reduce::kMax);
    std::array<std::uint64_t, kMaxWindows> mine{};
    double longest = 0;
    for (double now = seconds(); now < begin + kWindow.us() * 1e-6 * static_cast<double>(windows);) {
      node.lock(kLock);
      const double got = seconds();
      s_.counters[0] = s_.counters[0] + 1;
      node.unlock(kLock);
      longest = std::max(longest, got - now);
      const auto window = static_cast<std::size_t>((got - begin) / (kWindow.us() * 1e-6));
      if (window < windows) ++mine[window];
      if (between.ns() != 0) work(between);
      now = seconds();
    }
    for (std::size_t w = 0; w < windows; ++w) s_.windows[node.id() * kMaxWindows + w] = mine[w];
    longest = node.reduce(longest, Reduce::kMax);
    if (node.id() != 0) return;
    std::vector<double> shares;
    std::uint64_t all = 0;
    for (std::size_t w = 0; w < windows; ++w) {
      std::uint64_t together = 0, fewest = ~std::uint64_t{0};
      for (unsigned n = 0; n < node.count(); ++n) {
        const std::uint64_t count = s_.windows[n * kMaxWindows + w];
        together += count;
        fewest = std::min(fewest, count);
      }
      all += together;
      if (together != 0)
        shares.push_back(static_cast<double>(fewest) * node.count() / static_cast<double>(together));
    }
    figures.worst_share.push_back(shares.empty() ? 0 : *std::ranges::min_element(shares));
    figures.median_share.push_back(shares.empty() ? 0 : bench::median(shares));
    figures.longest_wait_ms.push_back(longest * 1e3);
    figures.us.push_back(kWindow.us() * static_cast<double>(windows) /
                         static_cast<double>(std::max<std::uint64_t>(all, 1)));
  }

 private:
  static std::uint64_t sum(const std::uint64_t* words, std::size_t count) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count; ++i) all += words[i];
    return all;
  }

  void clear(Node& node) {
    node.barrier();
    if (node.id() == 0) {
      for (std::size_t i = 0; i < kPageWords; ++i) s_.counters[i] = s_.queue[i] = s_.pixels[i] = 0;
      for (unsigned i = 0; i < kManyLocks; ++i) s_.cells[i] = 0;
      s_.cells[kManyLocks] = 0;
    }
    node.barrier();
  }

  void one_lock(Node& node, std::size_t times, Duration between) {
    for (std::size_t i = 0; i < times; ++i) {
      node.lock(kLock);
      s_.counters[0] = s_.counters[0] + 1;
      node.unlock(kLock);
      if (between.ns() != 0) work(between);
    }
  }

  void many_locks(Node& node, std::size_t times, bool writes) {
    Prng random(node.id() + 1);
    for (std::size_t i = 0; i < times; ++i) {
      const auto k = static_cast<unsigned>(random.below(kManyLocks));
      node.lock(kManyLocks + k);
      if (writes) s_.counters[k] = s_.counters[k] + 1;
      node.unlock(kManyLocks + k);
    }
  }

  // Word 0 is the next item; the others count each node's.
  void work_queue(Node& node) {
    std::uint64_t taken = 0;
    for (;;) {
      node.lock(kLock);
      const std::uint64_t item = s_.queue[0];
      if (item < sections_) s_.queue[0] = item + 1;
      node.unlock(kLock);
      if (item >= sections_) break;
      ++taken;
      work(5_us);
    }
    node.lock(kLock);
    s_.queue[1 + node.id()] = taken;
    node.unlock(kLock);
  }

  // The lock of a cell guards its tree. Every node has tree nodes of its own.
  void tree(Node& node, std::size_t times) {
    Prng random(node.id() + 1);
    auto next = static_cast<std::uint32_t>(node.share(sections_).first() + 1);
    for (std::size_t i = 0; i < times; ++i, ++next) {
      const auto key = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
      const std::uint32_t cell = key % kManyLocks;
      node.lock(kManyLocks + cell);
      std::uint32_t* place = &s_.cells[cell];
      while (*place != 0) place = &s_.tree[*place].child[s_.tree[*place].key < key ? 1 : 0];
      s_.tree[next] = {.key = key, .child = {0, 0}};
      *place = next;
      node.unlock(kManyLocks + cell);
    }
  }

  std::size_t size_of_tree() const {
    std::size_t size = 0;
    std::vector<std::uint32_t> open(s_.cells, s_.cells + kManyLocks);
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      if (at == 0) continue;
      ++size;
      open.push_back(s_.tree[at].child[0]);
      open.push_back(s_.tree[at].child[1]);
    }
    return size;
  }

  // Each ray takes a number from one counter, computes 2 us, and counts at its tile of the picture, under that tile's lock.
  void pixels(Node& node, std::size_t times) {
    const auto first = static_cast<unsigned>(node.share(kManyLocks).first());
    const auto tiles = static_cast<unsigned>(std::max<std::size_t>(1, node.share(kManyLocks).size()));
    for (std::size_t i = 0; i < times; ++i) {
      node.lock(kLock);
      s_.counters[0] = s_.counters[0] + 1;
      node.unlock(kLock);
      work(2_us);
      const unsigned tile = first + static_cast<unsigned>(i % tiles);
      node.lock(kManyLocks + tile);
      s_.pixels[tile] = s_.pixels[tile] + 1;
      node.unlock(kManyLocks + tile);
    }
  }

  const std::size_t sections_;
  const Shared s_;
};

double middle(const std::vector<double>& values) {
  return bench::median(values);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t sections = 100'000;
  std::size_t windows = 5;
  int rounds = 1;
  std::string only;
  bench::OutputOptions output;
  CLI::App app("Times of programs whose compute nodes meet at few locks; bench/lock_table compares machines.",
               "lock_bench");
  app.add_option("--sections", sections, "Sections of all compute nodes together, in each case")
      ->check(CLI::Range(100, 10'000'000))
      ->capture_default_str();
  app.add_option("--windows", windows, "Length of each timed case, in units of 100 ms; 0: without them")
      ->check(CLI::Range(std::size_t{0}, kMaxWindows))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "Times that all is measured")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--only", only, "Only cases whose name contains this");
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = bench::run_against(
          output, argc, argv, rounds, {"--clusters", "3", "--compute", "1", "--proxies", "1"}))
    return *status;

  init();
  if (std::size_t{clusters()} * nodes_per_cluster() > kMaxNodes) {
    fmt::print(stderr, "lock_bench: at most {} compute nodes\n", kMaxNodes);
    return finish(2);
  }
  Bench bench(sections);
  const std::vector<Case> cases = bench.cases();
  std::vector<Figures> figures(cases.size());
  std::array<Fairness, kTimedCases.size()> fairness;
  const char* wrong = nullptr;
  parallel([&](Node& node) {
    for (int r = 0; r < rounds; ++r) {
      for (std::size_t c = 0; c < cases.size(); ++c) {
        if (std::string(cases[c].name).find(only) == std::string::npos) continue;
        if (!bench.run(node, cases[c], figures[c]) && node.local() == 0) wrong = cases[c].name;
      }
      for (std::size_t c = 0; windows != 0 && c < kTimedCases.size(); ++c)
        bench.fairness(node, kTimedCases[c].between, windows, fairness[c]);
    }
  });
  if (wrong != nullptr) {
    fmt::print(stderr, "lock_bench: wrong result: {}\n", wrong);
    return finish(1);
  }
  if (cluster() != 0) return finish(0);

  nlohmann::json json;
  fmt::print("{:<28} {:>12} {:>8}\n", fmt::format("medians of {} rounds", rounds), "us/section", "overlap");
  for (std::size_t c = 0; c < cases.size(); ++c) {
    if (figures[c].us.empty()) continue;
    fmt::print("{:<28} {:>12.3f} {:>7.0f}%\n", cases[c].name, middle(figures[c].us),
               100 * middle(figures[c].overlap));
    json[cases[c].name] = {{"us", middle(figures[c].us)}, {"overlap", middle(figures[c].overlap)}};
  }
  for (std::size_t c = 0; windows != 0 && c < kTimedCases.size(); ++c) {
    const Fairness& f = fairness[c];
    fmt::print(
        "{:<28} {:>12.3f}           every 100 ms the least share {:.2f} (worst {:.2f}), longest wait {:.1f} ms\n",
        kTimedCases[c].name, middle(f.us), middle(f.median_share), middle(f.worst_share),
        middle(f.longest_wait_ms));
    json[kTimedCases[c].name] = {{"us", middle(f.us)},
                                 {"median share", middle(f.median_share)},
                                 {"worst share", middle(f.worst_share)},
                                 {"longest wait, ms", middle(f.longest_wait_ms)}};
  }
  return finish(bench::write_output("lock_bench", output, json, {}) ? 0 : 1);
}
