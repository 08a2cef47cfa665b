#include "engine_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "base/check.h"
#include "dsm/engine/state_sink.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kMaxNodes = 8, kMaxPages = 4, kMaxOnWire = 96;

std::string g_wrong;

// --- Each distinct message is stored once, outside the state: a wire is a list of numbers.

struct Letter {
  std::uint16_t from, to;
  std::vector<std::byte> bytes;
  // Calls each(message) for all that are in it.
  template <class Each>
  void for_each(Each&& each) const {
    for (ByteView rest = bytes; !rest.empty();) {
      const Message message = parse(PageLength(), rest).value();
      each(message);
      rest = message.rest;
    }
  }
};

class Letters {
 public:
  std::uint32_t number(std::uint16_t from, std::uint16_t to, ByteView bytes) {
    const std::string key = std::string(1, static_cast<char>(from * 64 + to)) +
                            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto [at, added] = numbers_.try_emplace(key, static_cast<std::uint32_t>(letters_.size()));
    if (added) letters_.push_back({from, to, {bytes.begin(), bytes.end()}});
    return at->second;
  }
  const Letter& operator[](std::uint32_t number) const { return letters_[number]; }

 private:
  std::deque<Letter> letters_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

Letters& letters() {
  static Letters all;
  return all;
}

// --- The digest.

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ a;
}

class Digest final : public StateSink {
 public:
  void value(std::uint64_t v) override { hash_ = mixed(hash_ + 0x632be59bd9b4e019u, v); }
  // Relative to the first version of that page that is described.
  void version(PageId page, std::uint32_t version) override {
    Base& base = bases_[page.value()];
    if (!base.known) base = {true, version};
    value(version - base.version);
  }
  // Likewise, for each pair of clusters.
  void place(ClusterId from, ClusterId to, std::uint32_t number) override {
    Base& base = places_[from.value()][to.value()];
    if (!base.known) base = {true, number};
    value(number - base.version);
  }
  // Nearly all bytes of a page are zero.
  void bytes(ByteView bytes) override {
    static constexpr std::array<std::byte, 1024> kZeros{};
    for (std::size_t i = 0; i < bytes.size(); i += kZeros.size()) {
      const ByteView part = bytes.subspan(i, std::min(kZeros.size(), bytes.size() - i));
      if (std::memcmp(part.data(), kZeros.data(), part.size()) != 0) nonzero_words(i, part);
    }
    value(bytes.size());
  }
  std::uint64_t hash() const { return hash_; }

 private:
  struct Base {
    bool known = false;
    std::uint32_t version = 0;
  };
  void nonzero_words(std::size_t first, ByteView bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += 64) {
      std::array<std::uint64_t, 8> words{};
      std::memcpy(words.data(), &bytes[i], std::min<std::size_t>(64, bytes.size() - i));
      std::uint64_t any = 0;
      for (const std::uint64_t w : words) any |= w;
      if (any == 0) continue;
      for (std::size_t k = 0; k < 8; ++k)
        if (words[k] != 0) values(first + i + k, words[k]);
    }
  }
  std::uint64_t hash_ = 0;
  std::array<Base, kMaxPages> bases_{};
  std::array<std::array<Base, kMaxNodes>, kMaxNodes> places_{};
};

// --- Pages.

class FlatMemory final : public PageMemory {
 public:
  explicit FlatMemory(std::uint32_t pages) : bytes_(pages * kPageBytes), access_(pages) {}
  void protect(PageId first, std::uint32_t count, Access access) override {
    for (std::uint32_t i = 0; i < count; ++i) access_[first.value() + i] = access;
  }
  std::byte* page(PageId page) override { return &bytes_[page.value() * kPageBytes]; }
  Access access(std::uint32_t page) const { return access_[page]; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Access> access_;
};

// --- Programs.

enum class Operation : std::uint8_t { kNone, kRead, kWrite, kLock, kUnlock, kBarrier, kRetry, kTry };

using Counts = std::array<std::array<std::uint8_t, kMaxNodes>, kMaxPages>;  // of writes: by page, by writer

void raise(Counts& to, const Counts& from) {
  for (std::size_t p = 0; p < kMaxPages; ++p)
    for (std::size_t w = 0; w < kMaxNodes; ++w) to[p][w] = std::max(to[p][w], from[p][w]);
}

struct ProgramNode {
  Operation in_progress = Operation::kNone;
  std::uint8_t page = 0;  // kRead, kWrite
  std::uint8_t phase = 0;
  std::uint8_t left = 0;  // operations of this phase
  bool holds = false;
  Counts knows{};  // what happened before the node's next operation
};

// A page's bytes.
constexpr std::size_t kGuarded = 0;
constexpr std::size_t own(std::size_t node) {
  return 1 + node;
}

std::uint8_t packed(Operation operation, std::uint32_t page = 0) {
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(operation) | page << 4);
}

}  // namespace

std::string WorldBounds::text() const {
  std::string s =
      fmt::format("{} clusters x {} nodes, {} pages, {} operations", clusters, nodes, pages, operations);
  if (phases != 1) s += fmt::format(" in each of {} phases", phases);
  s += window == 0 ? ", any number of messages in flight" : fmt::format(", {} in flight", window);
  s += fmt::format(", lock {}, flush window {}, {} twins", lock, flush_window, twins);
  if (protocol == Protocol::kLazy) s += ", lazy";
  if (migrate_after != 0) s += fmt::format(", homes move after {}", migrate_after);
  if (fetch_ahead != 0) s += fmt::format(", {} fetched ahead", fetch_ahead);
  if (run_pages != 1) s += fmt::format(" in runs of {}", run_pages);
  if (lease_uses != 0) s += fmt::format(", leases of {} uses", lease_uses);
  if (timed) s += " for missed tokens";
  if (lease_rounds != 1) s += fmt::format(" and {} rounds", lease_rounds);
  if (!accesses) s += ", locks only";
  if (tries) s += ", tries";
  if (at_address) s += ", at an address";
  if (roles) s += ", cluster 0 writes the last page and the others read";
  if (pack) s += ", several in a message";
  if (release_at_unlock) s += ", a release at each unlock";
  if (first_touch != 0) s += fmt::format(", {} by first touch", first_touch);
  if (!homes.empty()) s += fmt::format(", homes {}", fmt::join(homes, " "));
  return s;
}

struct EngineWorld::Parts {
  explicit Parts(const WorldBounds& b) : bounds(b), programs(std::size_t{b.clusters} * b.nodes) {
    CHECK_LE(programs.size(), kMaxNodes);
    CHECK_LE(b.pages, kMaxPages);
    for (std::uint16_t c = 0; c < b.clusters; ++c) {
      const EngineConfig config{.cluster = ClusterId(c),
                                .clusters = b.clusters,
                                .compute_nodes = b.nodes,
                                .protocol = b.protocol,
                                .pages = b.pages,
                                .locks = b.at_address ? 1 : b.lock + 1,
                                .barriers = 1,
                                .flush_window = b.flush_window,
                                .local_handoffs = b.handoffs,
                                .lease_uses = b.lease_uses,
                                .lease_rounds = b.lease_rounds,
                                .lease_time = b.timed ? Duration::ns(1) : Duration(),
                                .twins = b.twins,
                                .migrate_after = b.migrate_after,
                                .fetch_ahead = b.fetch_ahead,
                                .scan_ahead = 0,  // no scan is long in so few pages
                                .run_pages = b.run_pages,
                                .pack = b.pack,
                                .release_at_unlock = b.release_at_unlock,
                                .lock_words = 4,
                                .addresses = b.at_address ? b.pages * addresses_per_page(PageLength()) : 0};
      memories.push_back(std::make_unique<FlatMemory>(b.pages));
      engines.push_back(std::make_unique<Engine>(config, *memories.back()));
      // Only pages that were placed move or are fetched ahead.
      for (std::uint32_t p = 0; (b.migrate_after != 0 || b.fetch_ahead != 0) && p < b.pages; ++p)
        engines.back()->set_home(PageId(p), 1, ClusterId(static_cast<std::uint16_t>(p % b.clusters)));
      for (std::uint32_t p = 0; p < b.homes.size(); ++p)
        engines.back()->set_home(PageId(p), 1, ClusterId(b.homes[p]));
      if (b.first_touch != 0) engines.back()->set_first_touch(PageId(b.pages - b.first_touch), b.first_touch);
    }
    for (ProgramNode& n : programs) n.left = static_cast<std::uint8_t>(b.operations);
    wire.reserve(kMaxOnWire);
  }

  Engine& engine(std::size_t node) const { return *engines[node / bounds.nodes]; }
  std::uint16_t local(std::size_t node) const { return static_cast<std::uint16_t>(node % bounds.nodes); }
  std::uint8_t& at(std::size_t cluster, std::uint32_t page, std::size_t byte) const {
    return reinterpret_cast<std::uint8_t&>(memories[cluster]->page(PageId(page))[byte]);
  }
  LockId lock() const {
    return LockId(bounds.at_address ? 1 + bounds.lock * addresses_per_page(PageLength()) : bounds.lock);
  }
  bool ended(const ProgramNode& n) const { return n.phase == bounds.phases; }
  std::size_t in_flight(std::uint16_t from, std::uint16_t to) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        wire, [&](std::uint32_t i) { return letters()[i].from == from && letters()[i].to == to; }));
  }

  void list_steps(std::size_t node, std::vector<Action>& actions) const;
  void step(std::size_t node, std::uint8_t what);
  void access(std::size_t node);
  void look(std::size_t node, bool guarded);
  void leave(std::uint16_t from, std::uint16_t to);
  void arrive(std::size_t index);
  void go_on();
  bool recall_in_flight(std::uint16_t to) const;
  void on_request_accepted(std::uint16_t cluster);
  void on_lock_acquired(std::uint16_t cluster);
  void count_probes(const Letter& letter);
  void fail(std::string what) const {
    if (g_wrong.empty()) g_wrong = std::move(what);
  }

  const WorldBounds bounds;
  std::vector<std::unique_ptr<FlatMemory>> memories;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<ProgramNode> programs;
  std::vector<std::uint32_t> wire;  // letters
  Counts written{};
  std::array<std::uint8_t, kMaxPages> guarded{};  // writes of the guarded byte
  Counts lock_knows{};
  // With WorldBounds::fairness.
  struct Fairness {
    std::uint16_t holder = kMaxNodes;        // the cluster whose node got the lock last
    std::uint8_t uses = 0;                   // of its stay, while it knew of its recall
    std::array<bool, kMaxNodes> accepted{};  // by cluster: its request is at the manager
    std::array<std::array<std::uint8_t, kMaxNodes>, kMaxNodes> stays{};  // of another cluster since then
    std::array<std::uint8_t, kMaxNodes> probes{};  // that the cluster has sent and not granted the lock since
  } fairness;
  std::array<Counts, 2> barrier_knows{};  // of every other phase: who is early is one barrier ahead
};

EngineWorld::EngineWorld(const WorldBounds& bounds) : parts_(std::make_unique<Parts>(bounds)) {}
EngineWorld::~EngineWorld() = default;

const std::string& EngineWorld::wrong() {
  return g_wrong;
}

void EngineWorld::list(std::vector<Action>& actions) const {
  const Parts& s = *parts_;
  actions.clear();
  for (std::size_t node = 0; node < s.programs.size(); ++node) s.list_steps(node, actions);
  for (std::uint16_t from = 0; from < s.bounds.clusters; ++from)
    for (std::uint16_t to = 0; to < s.bounds.clusters; ++to) {
      if (!s.engines[from]->has_output(ClusterId(to))) continue;
      if (s.bounds.window != 0 && s.in_flight(from, to) >= s.bounds.window) continue;
      actions.push_back(
          {Action::What::kLeave, static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to)});
    }
  for (std::size_t i = 0; i < s.wire.size(); ++i)
    if (std::find(s.wire.begin(), s.wire.begin() + static_cast<std::ptrdiff_t>(i), s.wire[i]) ==
        s.wire.begin() + static_cast<std::ptrdiff_t>(i))
      actions.push_back({Action::What::kArrive, static_cast<std::uint8_t>(i), 0});
}

void EngineWorld::Parts::list_steps(std::size_t node, std::vector<Action>& actions) const {
  const ProgramNode& n = programs[node];
  if (ended(n) || !engine(node).done(local(node))) return;
  const auto may = [&](Operation operation, std::uint32_t page = 0) {
    actions.push_back({Action::What::kStep, static_cast<std::uint8_t>(node), packed(operation, page)});
  };
  if (n.in_progress != Operation::kNone) return may(Operation::kRetry);
  if (n.left == 0 && n.holds) may(Operation::kUnlock);
  if (n.left == 0 && (!n.holds || (bounds.tries && node == 0))) may(Operation::kBarrier);
  if (n.left == 0) return;
  if (bounds.roles && node < bounds.nodes) return may(Operation::kWrite, bounds.pages - 1);
  for (std::uint32_t page = 0; page < bounds.pages && bounds.accesses; ++page) {
    may(Operation::kRead, page);
    if (!bounds.roles) may(Operation::kWrite, page);
  }
  if (n.holds)
    may(Operation::kUnlock);
  else if (bounds.tries && node != 0)
    may(Operation::kTry);
  else if (!bounds.roles)
    may(Operation::kLock);
}

bool EngineWorld::apply(Action action) {
  Parts& s = *parts_;
  g_wrong.clear();
  switch (action.what) {
    case Action::What::kStep:
      s.step(action.a, action.b);
      break;
    case Action::What::kLeave:
      s.leave(action.a, action.b);
      break;
    case Action::What::kArrive:
      s.arrive(action.a);
      break;
  }
  s.go_on();
  if (s.bounds.invariants)
    for (const auto& engine : s.engines) engine->check();
  return g_wrong.empty();
}

void EngineWorld::Parts::step(std::size_t node, std::uint8_t what) {
  ProgramNode& n = programs[node];
  Engine& e = engine(node);
  const auto operation = static_cast<Operation>(what & 15);
  if (operation == Operation::kRetry) return access(node);
  if (n.left > 0) --n.left;
  switch (operation) {
    case Operation::kRead:
    case Operation::kWrite:
      n.in_progress = operation;
      n.page = what >> 4;
      access(node);
      break;
    case Operation::kLock:
      n.in_progress = operation;
      if (e.take_open_lock(local(node), lock())) break;
      if (!e.lock(local(node), lock()) && bounds.lock % bounds.clusters == node / bounds.nodes)
        on_request_accepted(static_cast<std::uint16_t>(node / bounds.nodes));
      break;
    case Operation::kTry:
      n.in_progress = operation;
      (void)e.try_lock(local(node), lock());
      break;
    case Operation::kUnlock:
      n.holds = false;
      lock_knows = n.knows;
      n.in_progress = operation;
      if (!e.free_open_lock(local(node), lock())) (void)e.unlock(local(node), lock());
      break;
    case Operation::kBarrier:
      n.in_progress = operation;
      raise(barrier_knows[n.phase % 2], n.knows);
      (void)e.barrier(local(node), BarrierId(0));
      break;
    case Operation::kNone:
    case Operation::kRetry:
      CHECK(false);
  }
}

// The hardware allows the access, or the node faults and tries again later.
void EngineWorld::Parts::access(std::size_t node) {
  ProgramNode& n = programs[node];
  const std::size_t cluster = node / bounds.nodes;
  const bool write = n.in_progress == Operation::kWrite;
  const Access wanted = write ? Access::kWrite : Access::kRead;
  if (memories[cluster]->access(n.page) < wanted) {
    (void)engine(node).fault(local(node), PageId(n.page), wanted);
    return;
  }
  look(node, n.holds);
  n.in_progress = Operation::kNone;
  if (!write) return;
  n.knows[n.page][node] = at(cluster, n.page, own(node)) = ++written[n.page][node];
  if (n.holds) at(cluster, n.page, kGuarded) = ++guarded[n.page];
}

void EngineWorld::Parts::look(std::size_t node, bool also_guarded) {
  const ProgramNode& n = programs[node];
  const std::size_t cluster = node / bounds.nodes;
  for (std::size_t w = 0; w < programs.size(); ++w) {
    const unsigned seen = at(cluster, n.page, own(w));
    const unsigned least = n.knows[n.page][w], most = written[n.page][w];
    if (seen < least || seen > most)
      fail(fmt::format("node {} reads {} in node {}'s byte of page {}: wrong, {} to {} is right", node, seen,
                       w, n.page, least, most));
  }
  const unsigned seen = at(cluster, n.page, kGuarded);
  if (also_guarded && seen != guarded[n.page])
    fail(fmt::format("node {} reads {} in the guarded byte of page {}, which is {}", node, seen, n.page,
                     guarded[n.page]));
}

void EngineWorld::Parts::leave(std::uint16_t from, std::uint16_t to) {
  std::array<std::byte, max_message_bytes(PageLength())> room;
  const std::size_t length = engines[from]->poll_transmit(ClusterId(to), room);
  CHECK_GT(length, 0u);
  CHECK_LT(wire.size(), kMaxOnWire);
  wire.push_back(letters().number(from, to, ByteView(room).first(length)));
  count_probes(letters()[wire.back()]);
}

void EngineWorld::Parts::arrive(std::size_t index) {
  const Letter& letter = letters()[wire[index]];
  wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(index));
  Engine& e = *engines[letter.to];
  e.on_message(ClusterId(letter.from), letter.bytes);
  letter.for_each([&](const Message& message) {
    if (message.header.kind == Kind::kLockRequest) on_request_accepted(letter.from);
  });
  if (e.counts().bad_messages != 0)
    fail(fmt::format("cluster {} refuses a message of cluster {}", letter.to, letter.from));
}

// Locks that were acquired or freed and barriers that were passed, which cause no event in the engine.
void EngineWorld::Parts::go_on() {
  for (std::size_t node = 0; node < programs.size(); ++node) {
    ProgramNode& n = programs[node];
    if (!engine(node).done(local(node))) continue;
    if (n.in_progress == Operation::kTry && engine(node).result(local(node)) == 0) {
      n.in_progress = Operation::kNone;
    } else if (n.in_progress == Operation::kLock || n.in_progress == Operation::kTry) {
      if (std::ranges::any_of(programs, [](const ProgramNode& other) { return other.holds; }))
        fail(fmt::format("node {} gets a lock that another one holds", node));
      n.in_progress = Operation::kNone;
      n.holds = true;
      on_lock_acquired(static_cast<std::uint16_t>(node / bounds.nodes));
      raise(n.knows, lock_knows);
    } else if (n.in_progress == Operation::kUnlock) {
      n.in_progress = Operation::kNone;
      for (ProgramNode& other : programs)
        if (bounds.release_at_unlock && bounds.protocol != Protocol::kLazy) raise(other.knows, n.knows);
    } else if (n.in_progress == Operation::kBarrier) {
      for (const ProgramNode& other : programs)
        if (other.phase < n.phase || (other.phase == n.phase && other.in_progress != Operation::kBarrier))
          fail(fmt::format("node {} passes the barrier before all have come", node));
      n.in_progress = Operation::kNone;
      raise(n.knows, barrier_knows[n.phase % 2]);
      ++n.phase;
      n.left = ended(n) ? 0 : static_cast<std::uint8_t>(bounds.operations);
    }
  }
}

// --- Fairness

bool EngineWorld::Parts::recall_in_flight(std::uint16_t to) const {
  const auto manager = static_cast<std::uint16_t>(bounds.lock % bounds.clusters);
  if (manager == to) return false;
  if (engines[manager]->has_output(ClusterId(to))) return true;  // it may be a recall
  return std::ranges::any_of(wire, [&](std::uint32_t i) {
    bool recall = false;
    letters()[i].for_each(
        [&](const Message& message) { recall = recall || message.header.kind == Kind::kLockRecall; });
    return recall && letters()[i].to == to;
  });
}

void EngineWorld::Parts::on_request_accepted(std::uint16_t cluster) {
  // A node that waits behind a sibling makes no request.
  if (!bounds.fairness || fairness.accepted[cluster] || fairness.holder == cluster) return;
  fairness.accepted[cluster] = true;
  fairness.stays[cluster] = {};
}

void EngineWorld::Parts::on_lock_acquired(std::uint16_t cluster) {
  if (!bounds.fairness) return;
  Fairness& f = fairness;
  const bool new_stay = f.holder != cluster;
  if (new_stay) {
    f.holder = cluster;
    f.uses = 0;
    f.accepted[cluster] = false;
    f.stays[cluster] = {};
  }
  bool others = false;
  for (std::uint16_t z = 0; z < bounds.clusters; ++z) {
    if (z == cluster || !f.accepted[z]) continue;
    others = true;
    if (new_stay && ++f.stays[z][cluster] > 1)
      fail(fmt::format("cluster {} gets the lock twice while cluster {} waits", cluster, z));
  }
  if (!others || recall_in_flight(cluster)) return;
  if (++f.uses > 1 + std::max(bounds.handoffs, bounds.lease_uses))
    fail(fmt::format("cluster {} uses the lock {} times while another one waits", cluster, f.uses));
}

// A probe goes to the cluster that gets the token next, so it leaves before that.
void EngineWorld::Parts::count_probes(const Letter& letter) {
  if (!bounds.fairness) return;
  std::uint8_t& probes = fairness.probes[letter.from];
  letter.for_each([&](const Message& message) {
    if (message.header.kind == Kind::kLockGrant) probes = 0;
    if (message.header.kind == Kind::kLockProbe && ++probes > bounds.lease_rounds)
      fail(fmt::format("cluster {} extends its lease {} times", letter.from, probes - 1));
  });
}

bool EngineWorld::check_end() {
  Parts& s = *parts_;
  g_wrong.clear();
  if (!s.wire.empty() || !std::ranges::all_of(s.programs, [&](const auto& n) { return s.ended(n); })) {
    s.fail("nothing can happen any more, and not all programs have ended");
    return false;
  }
  for (const auto& engine : s.engines)
    if (!s.bounds.tries && !engine->quiet())
      s.fail("nothing can happen any more, and an engine is not quiet");
  // Every cluster in turn reads every page; all messages arrive at once.
  const auto deliver_all = [&] {
    for (bool any = true; any;) {
      any = false;
      for (std::uint16_t from = 0; from < s.bounds.clusters; ++from)
        for (std::uint16_t to = 0; to < s.bounds.clusters; ++to)
          while (s.engines[from]->has_output(ClusterId(to))) {
            s.leave(from, to);
            s.arrive(s.wire.size() - 1);
            any = true;
          }
    }
  };
  for (std::size_t node = 0; node < s.programs.size(); node += s.bounds.nodes) {
    for (std::uint32_t page = 0; page < s.bounds.pages && g_wrong.empty(); ++page) {
      ProgramNode& n = s.programs[node];
      n.page = static_cast<std::uint8_t>(page);
      for (int tries = 0; s.memories[node / s.bounds.nodes]->access(page) < Access::kRead; ++tries) {
        if (tries > 4) {
          s.fail(fmt::format("cluster {} cannot read page {} at the end", node / s.bounds.nodes, page));
          break;
        }
        (void)s.engine(node).fault(0, PageId(page), Access::kRead);
        deliver_all();
      }
      s.look(node, std::ranges::none_of(s.programs, [](const auto& p) { return p.holds; }));
    }
  }
  return g_wrong.empty();
}

std::uint64_t EngineWorld::digest() const {
  const Parts& s = *parts_;
  Digest d;
  for (const auto& engine : s.engines) engine->describe(d);
  for (const auto& memory : s.memories)
    for (std::uint32_t page = 0; page < s.bounds.pages; ++page) d.values(memory->access(page));
  for (const ProgramNode& n : s.programs) {
    d.values(n.in_progress, n.page, n.phase, n.left, n.holds);
    for (std::uint32_t page = 0; page < s.bounds.pages; ++page)
      for (std::size_t w = 0; w < s.programs.size(); ++w) d.value(n.knows[page][w]);
  }
  for (std::uint32_t page = 0; page < s.bounds.pages; ++page) {
    d.value(s.guarded[page]);
    for (std::size_t w = 0; w < s.programs.size(); ++w)
      d.values(s.written[page][w], s.lock_knows[page][w], s.barrier_knows[0][page][w],
               s.barrier_knows[1][page][w]);
  }
  if (s.bounds.fairness) {
    d.values(s.fairness.holder, s.fairness.uses);
    for (std::size_t z = 0; z < s.bounds.clusters; ++z) {
      d.values(s.fairness.accepted[z], s.fairness.probes[z]);
      for (std::size_t c = 0; c < s.bounds.clusters; ++c) d.value(s.fairness.stays[z][c]);
    }
  }
  // The wire has no order.
  std::uint64_t wire = 0;
  for (const std::uint32_t number : s.wire) {
    const Letter& letter = letters()[number];
    Digest one = d;
    one.values(letter.from, letter.to);
    letter.for_each([&](const Message& message) {
      const Header& h = message.header;
      ByteView payload = message.payload;
      one.values(h.kind, h.format, h.id);
      const ClusterId from(letter.from), to(letter.to);
      if (h.kind == Kind::kWriteNotice) {
        one.place(from, to, load<std::uint32_t>(payload.data()));
        payload = payload.subspan(kNoticePlaceBytes);
      } else if (can_acquire_by(h) && has_place(h, payload)) {
        const ByteView place = payload.last(kPlaceBytes);
        one.place(from, to, load<std::uint32_t>(place.data()));
        one.value(load<std::uint32_t>(&place[4]));
        payload = payload.first(payload.size() - kPlaceBytes);
      }
      if (h.kind == Kind::kDiff && s.bounds.protocol == Protocol::kLazy) {
        one.version(PageId(h.id), h.number);
        one.bytes(payload);
      } else if (!has_version(h.kind)) {
        one.value(h.number);
        one.bytes(payload);
      } else {
        one.version(PageId(h.id), h.number);
        if (h.kind == Kind::kPageReply) {
          one.bytes(payload);
        } else {
          for (std::size_t i = 0; i < payload.size(); i += 4)
            one.version(PageId(h.id + 1 + static_cast<std::uint32_t>(i / 4)),
                        load<std::uint32_t>(&payload[i]));
        }
      }
    });
    wire += mixed(one.hash(), 1);
  }
  d.values(s.wire.size(), wire);
  return d.hash();
}

// --- texts

namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kPageRequest:
      return "PageRequest";
    case Kind::kPageReply:
      return "PageReply";
    case Kind::kDiff:
      return "Diff";
    case Kind::kDiffDone:
      return "DiffDone";
    case Kind::kInvalidate:
      return "Invalidate";
    case Kind::kInvalidateAck:
      return "InvalidateAck";
    case Kind::kLockRequest:
      return "LockRequest";
    case Kind::kLockGrant:
      return "LockGrant";
    case Kind::kLockRecall:
      return "LockRecall";
    case Kind::kLockProbe:
      return "LockProbe";
    case Kind::kLockProbeReply:
      return "LockProbeReply";
    case Kind::kLockBusy:
      return "LockBusy";
    case Kind::kBarrierArrive:
      return "BarrierArrive";
    case Kind::kBarrierDepart:
      return "BarrierDepart";
    case Kind::kPageForward:
      return "PageForward";
    case Kind::kWriteNotice:
      return "WriteNotice";
    case Kind::kSyncCall:
    case Kind::kSyncResult:
    case Kind::kAllocate:
    case Kind::kAllocated:
    case Kind::kRegion:
    case Kind::kRegionKnown:
      break;  // no program of ours asks for these
  }
  return "?";
}

}  // namespace

std::string EngineWorld::describe(Action action) const {
  const Parts& s = *parts_;
  switch (action.what) {
    case Action::What::kLeave:
      return fmt::format("cluster {}'s next message for cluster {} leaves", action.a, action.b);
    case Action::What::kArrive: {
      const Letter& letter = letters()[s.wire[action.a]];
      std::string text;
      letter.for_each([&](const Message& message) {
        const Header& h = message.header;
        text += fmt::format("{}{} {} (format {}, number {}, {} bytes)", text.empty() ? "" : " and ",
                            name_of(h.kind), h.id, h.format, h.number, message.payload.size());
      });
      return fmt::format("{} from cluster {} arrives at cluster {}", text, letter.from, letter.to);
    }
    case Action::What::kStep:
      break;
  }
  const ProgramNode& n = s.programs[action.a];
  const auto operation = static_cast<Operation>(action.b & 15);
  const bool retry = operation == Operation::kRetry;
  const bool write = (retry ? n.in_progress : operation) == Operation::kWrite;
  const std::uint32_t page = retry ? n.page : action.b >> 4;
  const std::string who = fmt::format("node {} (cluster {})", action.a, action.a / s.bounds.nodes);
  switch (operation) {
    case Operation::kRead:
    case Operation::kWrite:
    case Operation::kRetry: {
      const bool may =
          s.memories[action.a / s.bounds.nodes]->access(page) >= (write ? Access::kWrite : Access::kRead);
      return fmt::format("{} {}{} page {}", who, may ? "" : "faults: ", write ? "writes" : "reads", page);
    }
    case Operation::kLock:
      return who + " locks";
    case Operation::kTry:
      return who + " tries the lock";
    case Operation::kUnlock:
      return who + " unlocks";
    case Operation::kBarrier:
      return who + " comes to the barrier";
    case Operation::kNone:
      break;
  }
  return who;
}

}  // namespace braid::dsm
