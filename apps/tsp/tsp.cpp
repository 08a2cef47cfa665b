// The travelling salesman by branch and bound. Beginnings of tours wait in a central queue in shared memory,
// the one that can become shortest first. A compute node takes a beginning and tries all ends of it by itself, cutting what
// cannot be shorter than the best tour that the node knows of. There are two queues:
//
//   word   A sorted list of all beginnings, which is only read. One atomic word has the number of those that were
//          taken and the best length known, so that one call takes a beginning and learns the length.
//   lock   A heap, guarded by a lock together with the best tour. Who takes a short beginning puts its continuations back.
//          So clusters wait for each other's lock and fetch the heap's pages one after the other.
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "dsm/api.h"

namespace {

using braid::dsm::Node;

constexpr unsigned kMaxCities = 18;  // the proof takes memory and time for every subset of them
constexpr unsigned kQueueLock = 0;
constexpr unsigned kQueueWord = 0;

// A tour begins at city 0.
struct Path {
  std::array<std::uint8_t, kMaxCities> cities;
  std::uint32_t count;    // cities that it has
  std::uint32_t visited;  // the same, a bit each
  int length;
  int bound;  // no tour that begins so is shorter
};

class Map {
 public:
  // `distances`: cities x cities; `nearest`: cities.
  Map(unsigned cities, int* distances, int* nearest)
      : cities_(cities), distances_(distances), nearest_(nearest) {}

  // Cities lie in a square of a thousand by a thousand, at places that the seed tells.
  void draw(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<std::array<double, 2>> places(cities_);
    for (auto& place : places)
      for (double& x : place) x = static_cast<double>(random() % 1000);
    for (unsigned a = 0; a < cities_; ++a) {
      nearest_[a] = INT_MAX;
      for (unsigned b = 0; b < cities_; ++b) {
        const double apart = std::hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]);
        distances_[a * cities_ + b] = static_cast<int>(std::lround(apart));
        if (a != b) nearest_[a] = std::min(nearest_[a], distances_[a * cities_ + b]);
      }
    }
  }

  unsigned cities() const { return cities_; }
  int distance(unsigned a, unsigned b) const { return distances_[a * cities_ + b]; }

  Path start() const {
    Path path{};
    path.count = 1;
    path.visited = 1;
    for (unsigned city = 0; city < cities_; ++city) path.bound += nearest_[city];
    return path;
  }
  // `path` and one city more. The rest of a tour leaves its last city and each that it has not visited once: each of
  // these ways is at least as long as that to the nearest city.
  Path extended(const Path& path, unsigned city) const {
    Path longer = path;
    const unsigned last = path.cities[path.count - 1];
    longer.cities[longer.count++] = static_cast<std::uint8_t>(city);
    longer.visited |= 1u << city;
    longer.length += distance(last, city);
    longer.bound += distance(last, city) - nearest_[last];
    return longer;
  }
  int tour_length(const Path& path) const {
    return path.length + distance(path.cities[path.count - 1], path.cities[0]);
  }

 private:
  unsigned cities_;
  int* distances_;
  int* nearest_;
};

// In shared memory; with a queue under a lock guarded by kQueueLock while compute nodes run.
struct Search {
  Path best;
  int best_length;
  std::uint32_t waiting;  // in the heap, or in the list from the start
  std::uint64_t taken;    // beginnings that were searched by one node
};

// Beginnings of `depth` cities at most, so many as there can ever be at once.
std::size_t queue_capacity(unsigned cities, unsigned depth) {
  std::size_t paths = 1;
  for (unsigned k = 1; k < depth; ++k) paths *= cities - k;
  return paths;
}

// First the path that can become the shortest tour. Of equals any.
bool later(const Path& a, const Path& b) {
  return a.bound > b.bound;
}

// With the lock. The next beginning of `depth` cities, if there is one that can still become the best tour.
bool take(const Map& map, unsigned depth, Search& search, Path* queue, Path* taken) {
  while (search.waiting > 0) {
    std::pop_heap(queue, queue + search.waiting, later);
    const Path path = queue[--search.waiting];
    if (path.bound >= search.best_length) {
      search.waiting = 0;  // and so are all others
      return false;
    }
    if (path.count == depth) {
      ++search.taken;
      *taken = path;
      return true;
    }
    for (unsigned city = 1; city < map.cities(); ++city) {
      if ((path.visited >> city & 1) != 0) continue;
      queue[search.waiting++] = map.extended(path, city);
      std::push_heap(queue, queue + search.waiting, later);
    }
  }
  return false;
}

// All tours that begin with `path`: the best of them, if it is shorter than `best_length`.
void search_ends(const Map& map, const Path& path, Path* best, int* best_length) {
  if (path.bound >= *best_length) return;
  if (path.count == map.cities()) {
    if (map.tour_length(path) >= *best_length) return;
    *best = path;
    *best_length = map.tour_length(path);
    return;
  }
  for (unsigned city = 1; city < map.cities(); ++city) {
    if ((path.visited >> city & 1) == 0) search_ends(map, map.extended(path, city), best, best_length);
  }
}

// The best tour that one compute node has found itself, and the best length that it knows.
struct Found {
  Path path;
  int length;  // of `path`; INT_MAX if there is none
  int known;
};

void work_under_lock(Node& node, const Map& map, unsigned depth, Search& search, Path* queue) {
  Path found{};
  int known = INT_MAX;  // the best length that this node knows
  for (;;) {
    Path path;
    {
      const braid::dsm::LockGuard guard(node, kQueueLock);
      if (known < search.best_length) {
        search.best = found;
        search.best_length = known;
      }
      known = search.best_length;
      if (!take(map, depth, search, queue, &path)) return;
    }
    search_ends(map, path, &found, &known);
  }
}

// The contents of kQueueWord: the best length in the high half, the number of beginnings taken in the low half.
struct QueueWord {
  int best_length;
  std::uint32_t taken;

  static QueueWord of(std::int64_t bits) {
    const auto word = static_cast<std::uint64_t>(bits);
    return {static_cast<int>(word >> 32), static_cast<std::uint32_t>(word)};
  }
  std::int64_t bits() const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(best_length) << 32 | taken);
  }
};

// Appends all beginnings of `depth` cities that start with `path` and can be shorter than the best.
void list_beginnings(const Map& map, const Path& path, unsigned depth, Search& search, Path* list) {
  if (path.bound >= search.best_length) return;
  if (path.count == depth) {
    list[search.waiting++] = path;
    return;
  }
  for (unsigned city = 1; city < map.cities(); ++city)
    if ((path.visited >> city & 1) == 0) list_beginnings(map, map.extended(path, city), depth, search, list);
}

// Before any node takes a beginning: the list and the word.
void fill_list(Node& node, const Map& map, unsigned depth, Search& search, Path* list) {
  search.waiting = 0;
  list_beginnings(map, map.start(), depth, search, list);
  std::stable_sort(list, list + search.waiting, [](const Path& a, const Path& b) { return later(b, a); });
  node.store(kQueueWord, QueueWord{search.best_length, 0}.bits());
}

// Tells the other nodes of a length, unless they know one as short. What is in the word guards no memory.
void publish(Node& node, int length) {
  std::int64_t bits = node.load(kQueueWord);
  for (;;) {
    const QueueWord word = QueueWord::of(bits);
    if (word.best_length <= length) return;
    const std::int64_t changed = QueueWord{length, word.taken}.bits();
    const std::int64_t before =
        node.compare_exchange(kQueueWord, bits, changed, braid::dsm::MemoryOrder::kRelaxed);
    if (before == bits) return;
    bits = before;
  }
}

// Of all nodes' tours the shortest becomes the best; of equals that of the first node. The beginnings that each searched are
// counted.
void agree(Node& node, const Found& found, std::uint64_t taken, Search& search) {
  const int shortest = node.reduce(found.length, braid::dsm::Reduce::kMin);
  const unsigned first =
      node.reduce(found.length == shortest ? node.id() : node.count(), braid::dsm::Reduce::kMin);
  const std::uint64_t all = node.reduce(taken);
  if (node.id() != first) return;
  search.best = found.path;
  search.best_length = shortest;
  search.taken = all;
}

void work_by_word(Node& node, const Map& map, unsigned depth, Search& search, Path* list) {
  if (node.id() == 0) fill_list(node, map, depth, search, list);
  node.barrier();
  Found found{{}, INT_MAX, INT_MAX};
  std::uint64_t taken = 0;
  for (;;) {
    const QueueWord word = QueueWord::of(node.fetch_add(kQueueWord, 1, braid::dsm::MemoryOrder::kRelaxed));
    found.known = std::min(found.known, word.best_length);
    // Later beginnings cannot become shorter tours either.
    if (word.taken >= search.waiting || list[word.taken].bound >= found.known) break;
    ++taken;
    const int known = found.known;
    search_ends(map, list[word.taken], &found.path, &found.known);
    if (found.known == known) continue;
    found.length = found.known;
    publish(node, found.length);
  }
  agree(node, found, taken, search);
}

// The length of the shortest tour by dynamic programming (Held and Karp): of all ways to visit a subset of
// the cities that end in one of them, only the shortest matters.
int shortest_length(const Map& map) {
  const unsigned n = map.cities();
  const std::size_t subsets = std::size_t{1} << n;
  constexpr int kNoWay = INT_MAX / 2;
  std::vector<int> shortest(subsets * n, kNoWay);
  shortest[1 * n + 0] = 0;
  for (std::size_t subset = 1; subset < subsets; subset += 2) {
    for (unsigned last = 0; last < n; ++last) {
      const int length = shortest[subset * n + last];
      if (length == kNoWay) continue;
      for (unsigned next = 1; next < n; ++next) {
        if ((subset >> next & 1) != 0) continue;
        int& longer = shortest[(subset | std::size_t{1} << next) * n + next];
        longer = std::min(longer, length + map.distance(last, next));
      }
    }
  }
  int best = kNoWay;
  for (unsigned last = 1; last < n; ++last)
    best = std::min(best, shortest[(subsets - 1) * n + last] + map.distance(last, 0));
  return best;
}

// Whether the best tour found visits every city once, has the length that it says, and none is shorter.
bool right(const Map& map, const Search& search) {
  std::vector<unsigned> visited(search.best.cities.begin(), search.best.cities.begin() + map.cities());
  std::sort(visited.begin(), visited.end());
  std::vector<unsigned> all(map.cities());
  std::iota(all.begin(), all.end(), 0u);
  if (visited != all) {
    std::printf("WRONG: the tour does not visit every city once\n");
    return false;
  }
  int length = map.distance(search.best.cities[map.cities() - 1], search.best.cities[0]);
  for (unsigned k = 1; k < map.cities(); ++k)
    length += map.distance(search.best.cities[k - 1], search.best.cities[k]);
  const int shortest = shortest_length(map);
  if (length == search.best_length && length == shortest) return true;
  std::printf("WRONG: the tour is %d long and was said to be %d, should be %d\n", length, search.best_length,
              shortest);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned cities = 10;
  unsigned depth = 4;
  std::uint64_t seed = 1;
  std::string queue_kind = "word";
  bool optimal_bound = false;
  braid::apps::Arguments arguments(
      "The travelling salesman by branch and bound on a work queue in shared memory, verified by dynamic "
      "programming.",
      "tsp");
  arguments.number("--cities", cities, "Cities that the tour visits", 3u, kMaxCities);
  arguments.number("--depth", depth, "Cities of a beginning that one compute node takes; at most --cities", 1,
                   6);
  arguments.number("--seed", seed, "Of the cities' places");
  arguments.choice("--queue", queue_kind,
                   "What the nodes take beginnings from: a list by an atomic word, or a heap under a lock",
                   {"word", "lock"});
  arguments.flag(
      "--optimal-bound", optimal_bound,
      "Begin with the optimum's length as the bound: what is searched is the same then in every run");
  arguments.parse_or_exit(argc, argv);
  depth = std::min(depth, cities);

  braid::dsm::init();
  braid::apps::Verdict verdict;
  const auto on_zero = braid::dsm::Placement::on(0);
  const Map map(cities, braid::dsm::allocate<int>(std::size_t{cities} * cities, on_zero),
                braid::dsm::allocate<int>(cities, on_zero));
  Search* const search = braid::dsm::allocate<Search>(1, on_zero);
  Path* const queue = braid::dsm::allocate<Path>(queue_capacity(cities, depth), on_zero);
  if (braid::dsm::cluster() == 0) {
    map.draw(seed);
    // One more, for the tour is not known.
    search->best_length = optimal_bound ? shortest_length(map) + 1 : INT_MAX;
    queue[search->waiting++] = map.start();
  }
  double seconds = 0;
  unsigned nodes = 0;
  braid::dsm::parallel([&](Node& node) {
    node.barrier();
    const double start = braid::dsm::seconds();
    if (queue_kind == "word") {
      work_by_word(node, map, depth, *search, queue);
    } else {
      work_under_lock(node, map, depth, *search, queue);
    }
    node.barrier();
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - start;
      nodes = node.count();
    }
  });

  if (braid::dsm::cluster() == 0) {
    const bool verified = right(map, *search);
    verdict.give(verified);
    std::printf("tsp: %u cities, seed %llu, %u compute nodes, tour of %d, %llu parts: %.3f s, %s\n", cities,
                static_cast<unsigned long long>(seed), nodes, search->best_length,
                static_cast<unsigned long long>(search->taken), seconds, verified ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
