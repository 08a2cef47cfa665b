#include "sim/simulated_machine.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/prng.h"
#include "dsm/program/host.h"
#include "dsm/program/step_facts.h"

namespace braid::sim {

namespace {

constexpr std::int64_t kNobodyRuns = std::numeric_limits<std::int64_t>::max();

// No window is longer, in cycles of the charges: some ten milliseconds of computing. So a program that is
// charged always comes back in time, and one that does not is stuck (ProcessShell::make()).
constexpr std::int64_t kLongestWindow = 100'000'000;

}  // namespace

// The protections of a cluster's pages, until its shell carries them out.
class SimulatedMachine::Memory final : public dsm::PageMemory {
 public:
  // Told that pages are about to be left with no more than this access.
  using Closing = std::function<void(PageId first, std::uint32_t count, dsm::Access access)>;
  Memory(std::byte* heap, Closing closing) : heap_(heap), closing_(std::move(closing)) {}
  void protect(PageId first, std::uint32_t count, dsm::Access access) override {
    ++calls;
    if (access != dsm::Access::kWrite) closing_(first, count, access);
    if (!pending.empty()) {
      ProtectionRun& last = pending.back();
      if (last.access == access && last.first + last.count == first.value()) {
        last.count += count;
        return;
      }
    }
    pending.push_back({first.value(), count, access});
  }
  std::byte* page(PageId page) override { return heap_ + std::size_t{page.value()} * dsm::kPageBytes; }

  std::vector<ProtectionRun> pending;
  std::uint64_t calls = 0;

 private:
  std::byte* heap_;
  const Closing closing_;
};

struct SimulatedMachine::Node {
  enum class State : std::uint8_t {
    kAbsent,   // outside parallel(), and not the initial one
    kRunning,  // its clock is its shell's
    kAsking,   // its request is an event
    kWaiting,  // for the page protocol
    kAtStep,   // for other clusters
  };
  State state = State::kAbsent;
  Request::Kind waits_for = Request::Kind::kNone;
  bool adds_twin = false;  // when the page is there
  bool leaves = false;     // it is at the barrier that ends parallel()
  // A page has been opened for an access of its, which it makes at this clock; kNobodyRuns: none has.
  std::int64_t granted_at = kNobodyRuns;
  Instant since;       // it has been waiting
  Instant left;        // parallel(), the last time
  Prng random{0};      // what the seed has for it
  Instant busy_until;  // with messages
  NodeFigures figures;
};

struct SimulatedMachine::Cluster {
  Cluster(const MachineConfig& config, unsigned number, Shell& its_shell, Memory::Closing closing)
      : id(static_cast<std::uint16_t>(number)),
        shell(its_shell),
        memory(its_shell.heap(), std::move(closing)),
        engine(dsm::engine_config({.clusters = config.iccs.clusters,
                                   .cluster = id.value(),
                                   .compute = config.compute,
                                   .heap_pages = config.heap_pages}),
               memory),
        nodes(config.compute) {}
  const ClusterId id;
  Shell& shell;
  Memory memory;
  dsm::Engine engine;
  std::vector<Node> nodes;
  unsigned next_held_up = 0;
  bool at_step = false;
  bool meets = false;  // its nodes are at a barrier that step has brought them to
  Request step;
  std::uint64_t step_result = 0;
  std::uint64_t received = 0;  // messages, while parallel() ran

  NodeControl& control(unsigned node) { return shell.control().nodes[node]; }
  // The page that the node asked for has been opened, and it has not run since.
  bool is_granted(unsigned node) {
    return control(node).runnable && control(node).clock == nodes[node].granted_at;
  }
};

// --- Time

std::int64_t SimulatedMachine::to_cycles(Instant at) const {
  if (at == Instant::never()) return kNobodyRuns;
  // Rounded up: a node whose clock is there has come at least so far.
  const auto scaled = static_cast<__int128>(at.ns()) * clock_rate_;
  return static_cast<std::int64_t>((scaled + 999'999'999) / 1'000'000'000);
}

Instant SimulatedMachine::to_instant(std::int64_t cycles) const {
  return Instant::from_ns(
      static_cast<std::int64_t>(static_cast<__int128>(cycles) * 1'000'000'000 / clock_rate_));
}

// From when a node asks for something until the page protocol has it.
Duration SimulatedMachine::entry(Request::Kind kind) const {
  return model_.time(kind == Request::Kind::kFault ? model_.fault : model_.call);
}

// --- Beginning and end

SimulatedMachine::SimulatedMachine(const MachineConfig& config, const settings::CostModel& model,
                                   std::vector<Shell*> shells, Trace trace)
    : config_(config),
      model_(model),
      clock_rate_(static_cast<std::int64_t>(model.cycles_per_second / model.unit)),
      jitter_(config.jitter == 0 ? Duration() : model.time(config.jitter)),
      events_(config.iccs.clusters),
      iccs_(config.iccs, model, events_, *this),
      trace_(std::move(trace)) {
  CHECK_EQ(shells.size(), config.iccs.clusters);
  CHECK_LE(config.compute, kMaxNodesPerCluster);
  Prng seeds(config.iccs.seed);
  for (unsigned k = 0; k < config.iccs.clusters; ++k) {
    clusters_.push_back(std::make_unique<Cluster>(
        config, k, *shells[k], [this, k](PageId first, std::uint32_t count, dsm::Access access) {
          // What an engine closes as it is made, nobody has been granted.
          if (k < clusters_.size()) make_granted_accesses(*clusters_[k], first, count, access);
        }));
    for (Node& node : clusters_.back()->nodes) node.random = Prng(seeds.next());
    Control& control = shells[k]->control();
    control.cluster = static_cast<std::uint16_t>(k);
    control.clusters = config.iccs.clusters;
    control.compute = config.compute;
    control.heap_pages = config.heap_pages;
    control.cycles_per_second = clock_rate_;
    control.quantum = config.strict
                          ? 1
                          : std::max<std::int64_t>(
                                1, static_cast<std::int64_t>(std::min(model.fault, model.call) / model.unit));
  }
}

SimulatedMachine::~SimulatedMachine() = default;

Result<MachineFigures> SimulatedMachine::run() {
  if (config_.iccs.clusters > 1) iccs_.establish();
  began_ = events_.now();
  for (const auto& c : clusters_) resume(*c, 0, began_);
  while (failure_.ok() && !finished_) {
    Cluster* const next = earliest();
    if (next != nullptr && clock_of(*next) < to_cycles(events_.next_time())) {
      const Result<void> ran = run_shell(*next, window_of(*next));
      if (!ran) return ran.error();
    } else if (next == nullptr && is_stuck()) {
      return deadlock();
    } else {
      const Event event = events_.pop();
      if (event.kind == EventKind::kRequest)
        on_request(cluster(ClusterId(event.cluster)), event.index);
      else
        iccs_.on_event(event);
    }
  }
  if (!failure_.ok()) return failure_.error();
  return figures();
}

// --- Who runs, and how far

// Of the cluster's nodes that may run the earliest one's; kNobodyRuns: none may.
std::int64_t SimulatedMachine::clock_of(const Cluster& c) const {
  std::int64_t earliest = kNobodyRuns;
  const Control& control = c.shell.control();
  for (unsigned n = 0; n < config_.compute; ++n)
    if (control.nodes[n].runnable) earliest = std::min(earliest, control.nodes[n].clock);
  return earliest;
}

SimulatedMachine::Cluster* SimulatedMachine::earliest() {
  Cluster* first = nullptr;
  std::int64_t clock = kNobodyRuns;
  for (const auto& c : clusters_) {
    const std::int64_t its = clock_of(*c);
    if (its >= clock) continue;
    clock = its;
    first = c.get();
  }
  return first;
}

// Until when nothing that is still to come can touch the cluster.
std::int64_t SimulatedMachine::window_of(const Cluster& c) const {
  const Duration to_send = model_.time(model_.hand_over) + iccs_.least_latency();
  const Duration after_event = config_.iccs.mode == Mode::kReal ? iccs_.least_to_deliver() : to_send;
  const Instant next = events_.next_time();
  Instant until = std::min(events_.next_inside(c.id.value()), next + after_event);
  for (const auto& other : clusters_) {
    if (other.get() == &c) continue;
    const std::int64_t clock = clock_of(*other);
    if (clock == kNobodyRuns) continue;
    until =
        std::min(until, to_instant(clock) +
                            std::min(entry(Request::Kind::kFault), entry(Request::Kind::kLock)) + to_send);
  }
  if (!config_.strict) return to_cycles(until);
  return std::min(to_cycles(std::min(until, next)), clock_of(c) + 1);
}

// A page that was opened for an access stays open until that has been made. Else nodes in false sharing could
// take a page from each other for ever, always between the moment at which it is opened and the one at which
// all of that is paid for and the access would be made. So who has not come that far makes it now; its clock
// is what it would have been, and the rest waits for its turn.
void SimulatedMachine::make_granted_accesses(Cluster& c, PageId first, std::uint32_t count,
                                             dsm::Access access) {
  for (unsigned n = 0; n < config_.compute; ++n) {
    if (!c.is_granted(n) || !failure_.ok()) continue;
    const Request& r = c.control(n).request;
    const bool inside = r.page >= first.value() && r.page - first.value() < count;
    if (!inside || (!r.write && access == dsm::Access::kRead)) continue;
    std::bitset<kMaxNodesPerCluster> others;
    for (unsigned other = 0; other < config_.compute; ++other) {
      others[other] = c.control(other).runnable && other != n;
      c.control(other).runnable = other == n;
    }
    const Result<void> ran = run_shell(c, c.control(n).clock + 1);
    for (unsigned other = 0; other < config_.compute; ++other)
      if (others[other]) c.control(other).runnable = true;
    if (!ran) fail(ran.error());
  }
}

// Its nodes run, none beyond `window`.
Result<void> SimulatedMachine::run_shell(Cluster& c, std::int64_t window) {
  Control& control = c.shell.control();
  control.until = std::min(window, clock_of(c) + kLongestWindow);
  control.allocated_pages = config_.heap_pages - c.engine.free_pages();
  std::vector<ProtectionRun>& pending = c.memory.pending;
  for (std::size_t done = 0;;) {
    const std::size_t count = std::min<std::size_t>(pending.size() - done, kMaxProtectionRuns);
    std::copy_n(pending.begin() + static_cast<std::ptrdiff_t>(done), count, control.protections);
    control.protection_runs = static_cast<std::uint32_t>(count);
    done += count;
    const std::int64_t until = control.until;
    // What does not fit goes beforehand, in a window in which nobody runs.
    if (done < pending.size()) control.until = std::numeric_limits<std::int64_t>::min();
    control.asking = Control::kNobody;
    ++figures_.hand_overs;
    const Result<void> ran = c.shell.run();
    if (!ran) return ran;
    control.until = until;
    if (done >= pending.size()) break;
  }
  pending.clear();
  if (control.asking == Control::kNobody) return {};
  if (control.asking >= config_.compute)
    return error("the shell of cluster {} names compute node {}: there are {}", c.id.value(), control.asking,
                 config_.compute);
  ask(c, control.asking);
  return {};
}

void SimulatedMachine::ask(Cluster& c, unsigned n) {
  Node& node = c.nodes[n];
  NodeControl& control = c.control(n);
  CHECK(node.state == Node::State::kRunning);
  control.runnable = false;
  node.state = Node::State::kAsking;
  node.waits_for = control.request.kind;
  node.since = std::max(to_instant(control.clock), events_.now());
  const auto late =
      static_cast<std::int64_t>(node.random.below(static_cast<std::uint64_t>(jitter_.ns()) + 1));
  events_.push(node.since + entry(control.request.kind) + Duration::ns(late),
               {EventKind::kRequest, static_cast<std::uint8_t>(n), c.id.value(), 0});
}

void SimulatedMachine::resume(Cluster& c, unsigned n, Instant at) {
  Node& node = c.nodes[n];
  NodeControl& control = c.control(n);
  if (node.adds_twin) at = at + model_.time(model_.twin);
  node.adds_twin = false;
  at = std::max(at, node.busy_until);
  if (in_parallel_ > 0) {
    NodeFigures& f = node.figures;
    Duration& waited = node.waits_for == Request::Kind::kFault     ? f.faults
                       : node.waits_for == Request::Kind::kBarrier ? f.barriers
                       : node.waits_for == Request::Kind::kLock || node.waits_for == Request::Kind::kUnlock
                           ? f.locks
                           : f.syncs;
    if (node.state != Node::State::kAbsent && node.state != Node::State::kAtStep)
      waited += at - std::max(node.since, parallel_began_);
  }
  control.result = c.engine.result(static_cast<std::uint16_t>(n));
  control.reduction = c.engine.reduction(static_cast<std::uint16_t>(n));
  control.clock = to_cycles(at);
  control.runnable = true;
  node.granted_at = node.waits_for == Request::Kind::kFault ? control.clock : kNobodyRuns;
  node.state = Node::State::kRunning;
  node.waits_for = Request::Kind::kNone;
  if (!node.leaves) return;
  node.leaves = false;
  node.left = at;
  last_left_ = std::max(last_left_, at);
  if (--in_parallel_ > 0) return;
  for (const auto& other : clusters_)
    for (Node& early : other->nodes) early.figures.barriers += last_left_ - early.left;
  iccs_.stop_measuring(last_left_);
  figures_.parallel += last_left_ - parallel_began_;
}

// --- What a compute node asks for

// Calls operation(), and charges what the page protocol did in it beside sending.
template <class Operation>
void SimulatedMachine::charged(Work& work, Operation&& operation) {
  Cluster& c = work.cluster;
  const std::uint64_t protects = c.memory.calls;
  const std::uint64_t applied = c.engine.counts().diffs_applied;
  operation();
  double cycles = model_.protect * static_cast<double>(c.memory.calls - protects);
  if (c.engine.counts().diffs_applied != applied)
    cycles += model_.diff_byte * static_cast<double>(work.bytes);
  if (cycles > 0) work.at = work.at + model_.time(cycles);
}

void SimulatedMachine::on_request(Cluster& c, unsigned n) {
  Node& node = c.nodes[n];
  const Request& r = c.control(n).request;
  const auto number = static_cast<std::uint16_t>(n);
  const Instant now = events_.now();
  hash(static_cast<std::uint64_t>(now.ns()), std::uint64_t{c.id.value()} << 32 | n,
       static_cast<std::uint64_t>(r.kind) << 56 | std::uint64_t{r.page} << 24 | r.id |
           (r.write ? 1u << 23 : 0u));
  Work work{c, n, now, 0};
  node.state = Node::State::kWaiting;
  bool complete = false;
  double cycles = 0;
  // A shell has looked, too; an engine must not depend on it.
  const auto has = [&](dsm::LockId lock) { return c.engine.holds(number, lock); };
  std::optional<dsm::LockMisuse> misuse;
  switch (r.kind) {
    case Request::Kind::kFault:
      node.adds_twin = r.write && c.engine.home(PageId(r.page)) != c.id;
      charged(work, [&] {
        complete = c.engine.fault(number, PageId(r.page), r.write ? dsm::Access::kWrite : dsm::Access::kRead);
      });
      break;
    case Request::Kind::kLock:
      misuse = dsm::LockMisuse::of_lock(dsm::LockId(r.id), has(dsm::LockId(r.id)));
      if (misuse) return fail(c, n, *misuse);
      cycles = model_.lock;
      charged(work, [&] { complete = c.engine.lock(number, dsm::LockId(r.id)); });
      break;
    case Request::Kind::kUnlock:
      misuse = dsm::LockMisuse::of_unlock(dsm::LockId(r.id), has(dsm::LockId(r.id)));
      if (misuse) return fail(c, n, *misuse);
      cycles = model_.lock;
      charged(work, [&] { c.engine.unlock(number, dsm::LockId(r.id)); });
      complete = true;
      break;
    case Request::Kind::kBarrier:
      cycles = model_.barrier;
      node.leaves = r.id == dsm::kOwnBarrier.value();
      charged(work, [&] { complete = c.engine.barrier(number, dsm::BarrierId(r.id), r.reduction, r.value); });
      break;
    case Request::Kind::kSync:
      misuse = dsm::LockMisuse::of_sync(r.sync, has);
      if (misuse) return fail(c, n, *misuse);
      cycles = model_.sync;
      charged(work, [&] { complete = c.engine.sync(number, r.sync); });
      break;
    case Request::Kind::kAllocate:
      cycles = model_.sync;
      charged(work, [&] { complete = c.engine.allocate(number, r.pages, r.homes); });
      break;
    case Request::Kind::kStep:
      return take_step(c, n);
    case Request::Kind::kIdle:
      node.state = Node::State::kAbsent;
      // The initial one goes on when all have done their parts.
      if (std::all_of(c.nodes.begin(), c.nodes.end(),
                      [](const Node& other) { return other.state == Node::State::kAbsent; }))
        resume(c, 0, now);
      return;
    case Request::Kind::kNone:
      return fail(c, n, "asks for nothing");
  }
  if (cycles > 0) work.at = work.at + model_.time(cycles);
  pump(work);
  // A call of this node's that is complete returns when what it caused has been handed over; one that
  // completed a sibling's does it then, too.
  if (complete) resume(c, n, work.at);
  complete_others(c, work.at);
}

void SimulatedMachine::complete_others(Cluster& c, Instant at) {
  bool all_done = true;
  for (unsigned n = 0; n < config_.compute; ++n) {
    if (c.nodes[n].state != Node::State::kWaiting) continue;
    if (!c.engine.done(static_cast<std::uint16_t>(n)))
      all_done = false;
    else if (!c.meets)
      resume(c, n, at);
  }
  if (c.meets && all_done) met(c, at);
}

// --- Steps that all clusters take together

void SimulatedMachine::take_step(Cluster& c, unsigned n) {
  const Request& r = c.control(n).request;
  c.nodes[n].state = Node::State::kAtStep;
  if (r.step == Request::Step::kTeam) {
    for (unsigned i = 0; i < config_.compute; ++i) resume(c, i, events_.now());
    return;
  }
  c.step = r;
  c.at_step = true;
  if (r.step == Request::Step::kAllocate) {
    const std::optional<PageId> first = c.engine.allocate_together(r.pages, r.homes);
    c.step_result = first ? first->value() : dsm::kNoPages;
  }
  if (std::any_of(clusters_.begin(), clusters_.end(), [](const auto& other) { return !other->at_step; }))
    return;
  for (const auto& other : clusters_) {
    const dsm::StepFacts& mine = clusters_[0]->step.facts;
    if (!(mine == other->step.facts))
      return fail(Error{dsm::difference(0, mine, other->id.value(), other->step.facts)});
  }
  for (const auto& other : clusters_) other->at_step = false;
  all_at_step();
}

void SimulatedMachine::all_at_step() {
  const Instant now = events_.now();
  const Request::Step step = clusters_[0]->step.step;
  for (const auto& c : clusters_) figures_.counted = figures_.counted && c->shell.control().counted;
  switch (step) {
    case Request::Step::kInit:
    case Request::Step::kAllocate:
      for (const auto& c : clusters_) {
        resume(*c, 0, now);
        c->control(0).result = c->step_result;
      }
      return;
    case Request::Step::kParallel:
      parallel_began_ = last_left_ = now;
      in_parallel_ = config_.compute * static_cast<unsigned>(clusters_.size());
      iccs_.start_measuring();
      [[fallthrough]];
    case Request::Step::kBarrier:
      for (const auto& c : clusters_) {
        c->meets = true;
        for (unsigned n = 0; n < config_.compute; ++n) {
          c->nodes[n].state = Node::State::kWaiting;
          c->nodes[n].waits_for = Request::Kind::kBarrier;
          c->nodes[n].since = now;
        }
      }
      for (const auto& c : clusters_) {
        Work work{*c, 0, now + model_.time(model_.barrier), 0};
        charged(work, [&] {
          for (unsigned n = 0; n < config_.compute; ++n)
            (void)c->engine.barrier(static_cast<std::uint16_t>(n), dsm::kOwnBarrier);
        });
        pump(work);
        complete_others(*c, work.at);
      }
      return;
    case Request::Step::kFinish:
      figures_.whole = now - began_;
      finished_ = true;
      // Their last turn is not of the run any more.
      for (const auto& c : clusters_) {
        resume(*c, 0, now);
        c->shell.control().until = kNobodyRuns;
        c->shell.control().protection_runs = 0;
      }
      return;
    case Request::Step::kTeam:
      break;
  }
  CHECK(false);
}

// The nodes of a cluster have met those of all others: before parallel(), or at the initial threads' barrier.
void SimulatedMachine::met(Cluster& c, Instant at) {
  c.meets = false;
  const bool parallel = c.step.step == Request::Step::kParallel;
  for (unsigned n = 0; n < config_.compute; ++n) {
    if (n == 0 || parallel)
      resume(c, n, at);
    else
      c.nodes[n].state = Node::State::kAbsent;
  }
}

// --- Messages

// Hands over what the page protocol has to send, at the expense of who is at work.
void SimulatedMachine::pump(Work& work) {
  Cluster& c = work.cluster;
  for (std::uint64_t left = c.engine.output_clusters(); left != 0; left &= left - 1) {
    const ClusterId to(static_cast<std::uint16_t>(std::countr_zero(left)));
    while (c.engine.has_output(to)) {
      const MutableBytes room = iccs_.reserve(
          c.id, work.lane, to, static_cast<std::uint32_t>(dsm::kMessageHeaderBytes + dsm::kMaxMessageBytes));
      if (room.empty()) break;
      const dsm::ClusterCounts before = c.engine.counts();
      const std::uint64_t protects = c.memory.calls;
      const std::size_t bytes = c.engine.poll_transmit(to, room.subspan(dsm::kMessageHeaderBytes));
      if (bytes == 0) break;
      const dsm::ClusterCounts& after = c.engine.counts();
      double cycles =
          model_.hand_over + model_.hand_over_byte * static_cast<double>(dsm::kMessageHeaderBytes + bytes);
      cycles += model_.protect * static_cast<double>(c.memory.calls - protects);
      cycles +=
          model_.page_byte * static_cast<double>(dsm::kPageBytes * (after.pages_sent - before.pages_sent));
      cycles += model_.diff * static_cast<double>(after.diffs_sent - before.diffs_sent);
      cycles += model_.diff_byte * static_cast<double>(after.diff_bytes_sent - before.diff_bytes_sent);
      work.at = work.at + model_.time(cycles);
      if (in_parallel_ > 0) ++c.nodes[work.lane].figures.messages;
      std::memset(room.data(), 0, dsm::kMessageHeaderBytes);
      iccs_.commit(work.at, static_cast<std::uint32_t>(dsm::kMessageHeaderBytes + bytes));
    }
  }
}

// Whose time a message takes: a node's that has nothing better to do, or the next one's of those that
// compute.
unsigned SimulatedMachine::handler(Cluster& c) {
  const Node* best = nullptr;
  for (const Node& node : c.nodes) {
    if (node.state == Node::State::kRunning) continue;
    if (best == nullptr || node.busy_until < best->busy_until) best = &node;
  }
  if (best != nullptr) return static_cast<unsigned>(best - c.nodes.data());
  return c.next_held_up++ % config_.compute;
}

Iccs::Sink::Handled SimulatedMachine::on_message(Instant now, ClusterId at, ClusterId from,
                                                 ByteView message) {
  Cluster& c = cluster(at);
  hash(static_cast<std::uint64_t>(now.ns()), std::uint64_t{at.value()} << 32 | from.value(), message.size());
  return work_of(c, now, [&](Work& work) {
    work.bytes = message.size() - dsm::kMessageHeaderBytes;
    if (work.bytes >= dsm::kPageBytes) work.at = work.at + model_.time(model_.page_byte * dsm::kPageBytes);
    charged(work, [&] { c.engine.on_message(from, message.subspan(dsm::kMessageHeaderBytes)); });
    CHECK(!c.engine.refusal());  // PG-27: nothing here damages a message
  });
}

void SimulatedMachine::on_lost(Instant, ClusterId at, ClusterId peer, const char* why) {
  fail(error("cluster {} lost cluster {}: {}", at.value(), peer.value(), why));
}

void SimulatedMachine::on_room(Instant now, ClusterId at, ClusterId) {
  (void)work_of(cluster(at), now, [](Work&) {});
}

// Does something to a cluster in the time of one of its nodes, and what follows from it.
template <class Do>
Iccs::Sink::Handled SimulatedMachine::work_of(Cluster& c, Instant now, Do&& act) {
  const unsigned n = handler(c);
  Node& node = c.nodes[n];
  // The handler has been at it since the delivery, unless the node was busy then.
  const Duration notice = model_.time(model_.handler);
  const Instant begins = std::max(now - notice, node.busy_until);
  Work work{c, n, begins + notice, 0};
  act(work);
  pump(work);
  const Duration took = work.at - begins;
  node.busy_until = work.at;
  if (in_parallel_ > 0) node.figures.handling += took;
  if (node.state == Node::State::kRunning) {
    const bool granted = c.is_granted(n);
    c.control(n).clock += static_cast<std::int64_t>(model_.cycles(took) / model_.unit + 0.5);
    if (granted) node.granted_at = c.control(n).clock;
    if (in_parallel_ > 0) node.figures.held_up += took;
  }
  complete_others(c, work.at);
  return {work.at, n};
}

void SimulatedMachine::on_delivered(const MessageReport& report) {
  if (in_parallel_ == 0) return;
  MessageFigures& m = figures_.messages;
  const MessageTimes& t = report.times;
  ++m.count;
  ++cluster(report.to).received;
  m.bytes += report.bytes;
  m.whole += t.delivered - t.handed;
  if (config_.iccs.mode == Mode::kReal) {
    m.wait_to_send += t.served - t.handed;
    m.send += t.left - t.served;
    m.network += t.arrived - t.left;
    m.wait_for_link += t.on_link - t.left;
    m.wait_to_receive += t.taken - t.arrived;
    m.receive += t.delivered - t.taken;
  }
  if (trace_) trace_(report);
}

// --- When it goes wrong

void SimulatedMachine::fail(Error why) {
  if (failure_.ok()) failure_ = std::move(why);
}

void SimulatedMachine::fail(const Cluster& c, unsigned node, const std::string& why) {
  fail(error("compute node {} {}", c.id.value() * config_.compute + node, why));
}

void SimulatedMachine::fail(const Cluster& c, unsigned node, const dsm::LockMisuse& misuse) {
  fail(Error{misuse.text(c.id.value() * config_.compute + node)});
}

// Nobody runs, nothing is in progress that could change that, and only timers go on.
bool SimulatedMachine::is_stuck() const {
  if (iccs_.in_flight() > 0) return false;
  for (const auto& c : clusters_) {
    if (events_.next_inside(c->id.value()) != Instant::never() || c->engine.output_clusters() != 0)
      return false;
  }
  return true;
}

Error SimulatedMachine::deadlock() const {
  std::string text = "all compute nodes wait, and nothing is in progress:";
  for (const auto& c : clusters_) {
    for (unsigned n = 0; n < config_.compute; ++n) {
      const Node& node = c->nodes[n];
      if (node.state == Node::State::kAbsent) continue;
      const std::string wait = node.state == Node::State::kAtStep
                                   ? "waits for the other clusters' initial threads to call what it called"
                                   : c->engine.explain_wait(static_cast<std::uint16_t>(n));
      text += fmt::format("\n  compute node {} {}", c->id.value() * config_.compute + n, wait);
      const std::string locks = c->engine.locks_of(static_cast<std::uint16_t>(n));
      if (!locks.empty()) text += "; it has lock(s) " + locks;
    }
  }
  return Error{text};
}

// --- Figures

void SimulatedMachine::hash(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (const std::uint64_t part : {a, b, c}) trace_hash_.add(part);
}

MachineFigures SimulatedMachine::figures() const {
  MachineFigures f = figures_;
  for (const auto& c : clusters_) {
    for (unsigned n = 0; n < config_.compute; ++n) {
      NodeFigures node = c->nodes[n].figures;
      node.computing = f.parallel - node.faults - node.locks - node.barriers - node.syncs;
      f.nodes.push_back(node);
      f.node_counts.push_back(c->engine.node_counts(static_cast<std::uint16_t>(n)));
    }
    f.received.push_back(c->received);
    f.cluster_counts.push_back(c->engine.counts());
    if (config_.iccs.mode != Mode::kReal) continue;
    for (unsigned n = 0; n < config_.iccs.nis; ++n) f.links.push_back(iccs_.link_figures(c->id, n));
    for (unsigned p = 0; p < config_.iccs.proxies; ++p) f.proxies.push_back(iccs_.figures(c->id, p));
  }
  f.events = events_.happened();
  f.retransmissions = iccs_.retransmissions();
  f.frames_lost = iccs_.frames_lost();
  f.trace_hash = trace_hash_.value();
  return f;
}

}  // namespace braid::sim
