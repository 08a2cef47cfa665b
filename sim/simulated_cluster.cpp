#include "sim/simulated_cluster.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "dsm/engine/messages.h"
#include "dsm/program/host.h"

namespace braid::sim {

namespace {

dsm::EngineConfig engine_config(const MachineConfig& machine, ClusterId id) {
  dsm::EngineConfig engine = dsm::engine_config({.clusters = machine.iccs.clusters,
                                                 .cluster = id.value(),
                                                 .compute = machine.compute,
                                                 .heap_pages = machine.heap_pages,
                                                 .protocol = machine.protocol,
                                                 .page_length = machine.page_length});
  machine.engine.apply_to(engine);
  CHECK(engine.page_length == machine.page_length);
  return engine;
}

}  // namespace

SimulatedCluster::SimulatedCluster(MachineShared& shared, Owner& owner, ClusterId id, Shell& shell,
                                   Prng& seeds)
    : shared_(shared),
      owner_(owner),
      id_(id),
      turns_(shell, shared.config.compute, shared.config.page_length,
             [this](PageId first, std::uint32_t count, dsm::Access access) {
               make_granted_accesses(first, count, access);
             }),
      engine_(engine_config(shared.config, id), turns_),
      node_counts_before_(shared.config.compute),
      wait_costs_(shared.config.compute) {
  const settings::CostModel& model = shared.model;
  for (unsigned n = 0; n < shared.config.compute; ++n) nodes_.emplace_back(seeds.next());
  const double least = std::min(model.fault, model.call) / model.unit;
  Control& c = turns_.control();
  c.cluster = id.value();
  c.clusters = shared.config.iccs.clusters;
  c.compute = shared.config.compute;
  c.heap_pages = shared.config.heap_pages;
  c.page_bytes = static_cast<std::uint32_t>(shared.config.page_length.bytes());
  c.cycles_per_second = shared.rate.cycles_per_second();
  c.check_units = std::llround(model.check / model.unit);
  c.quantum = shared.config.strict ? 1 : std::max<std::int64_t>(1, static_cast<std::int64_t>(least));
}

// ---------------------------------------------------------------- the nodes' turns

void SimulatedCluster::run(std::int64_t until) {
  after_turn(turns_.run(until, allocated_pages()));
}

bool SimulatedCluster::prepare(std::int64_t until) {
  if (is_prepared_) return false;
  const std::optional<std::int64_t> end = turns_.prepare(until, allocated_pages());
  if (!end) return false;
  is_prepared_ = true;
  shared_.clocks.set(id_.value(), *end);
  return true;
}

void SimulatedCluster::begin(const std::vector<SimulatedCluster*>& relay) {
  for (std::size_t i = 0; i + 1 < relay.size(); ++i) relay[i]->turns_.pass_on_to(relay[i + 1]->id_.value());
  if (const Result<void> ran = turns_.begin(); !ran) shared_.fail(ran.error());
}

bool SimulatedCluster::end() {
  is_prepared_ = false;
  const Result<std::uint32_t> asking = turns_.end();
  after_turn(asking);
  return asking.ok() && *asking == Control::kNobody;
}

void SimulatedCluster::cancel() {
  is_prepared_ = false;
  tell_clock();
}

void SimulatedCluster::after_turn(const Result<std::uint32_t>& asking) {
  if (!asking) return shared_.fail(asking.error());
  if (*asking != Control::kNobody) ask(*asking);
  tell_clock();
}

// A page that was opened for an access stays open until the access is made. Otherwise
// nodes in false sharing could take a page from each other for ever, always after it is
// opened and before the access. So a node that has not reached its access makes it now:
// its clock is the same as it would be later, and the node then waits for its turn.
void SimulatedCluster::make_granted_accesses(PageId first, std::uint32_t count, dsm::Access access) {
  // No node exists yet when the engine is made and closes all pages.
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    if (!is_granted(n) || !shared_.failure.ok()) continue;
    const Request& r = request(n);
    const bool inside = r.page >= first.value() && r.page - first.value() < count;
    if (!inside || (!r.write && access == dsm::Access::kRead)) continue;
    after_turn(turns_.run_alone(n, control(n).clock + 1, allocated_pages()));
  }
}

void SimulatedCluster::ask(unsigned n) {
  NodeControl& c = control(n);
  c.runnable = false;
  const Instant at = std::max(shared_.rate.to_instant(c.clock), shared_.events.now());
  const Duration late = nodes_[n].ask(c.request.kind, at, shared_.jitter);
  shared_.events.push(at + shared_.entry(c.request.kind) + late,
                      {EventKind::kRequest, static_cast<std::uint8_t>(n), id_.value(), 0});
}

void SimulatedCluster::count_wait(unsigned n, Request::Kind kind, Duration waited) {
  const Request& r = request(n);
  if (kind == Request::Kind::kFault)
    wait_costs_[n].on_page(PageId(r.page), waited);
  else if (kind == Request::Kind::kLock || kind == Request::Kind::kUnlock || kind == Request::Kind::kTryLock)
    wait_costs_[n].on_lock(dsm::LockId(r.id), waited);
  else if (kind == Request::Kind::kBarrier && n == 0 && shared_.parallel.is_running())
    ++phase_;
}

void SimulatedCluster::resume(unsigned n, Instant at) {
  const Request::Kind kind = nodes_[n].waits_for();
  const ComputeNode::Resumption resumed = nodes_[n].resume(at, shared_.parallel, shared_.rate);
  count_wait(n, kind, resumed.waited);
  NodeControl& c = control(n);
  c.result = engine_.result(static_cast<std::uint16_t>(n));
  c.reduction = engine_.reduction(static_cast<std::uint16_t>(n));
  c.clock = shared_.rate.to_cycles(resumed.at);
  c.runnable = true;
  tell_clock();
  if (resumed.has_left && shared_.parallel.leave(resumed.at)) owner_.parallel_ended();
}

// Nodes whose requests are complete continue.
void SimulatedCluster::resume_complete(Instant at) {
  bool all_complete = true;
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].state() != ComputeNode::State::kWaiting) continue;
    if (!engine_.done(static_cast<std::uint16_t>(n)))
      all_complete = false;
    else if (nodes_after_barrier_ == 0)
      resume(n, at);
  }
  if (nodes_after_barrier_ > 0 && all_complete) end_barrier(at);
}

// ---------------------------------------------------------------- requests of compute nodes

// The shell has checked it as well, but the engine must not depend on the shell.
std::optional<dsm::LockMisuse> SimulatedCluster::misuse_of(unsigned n, const Request& r) const {
  const auto has = [&](dsm::LockId lock) { return engine_.holds(static_cast<std::uint16_t>(n), lock); };
  const dsm::LockId lock(r.id);
  if (r.kind == Request::Kind::kLock) return dsm::LockMisuse::of_lock(lock, has(lock));
  if (r.kind == Request::Kind::kUnlock) return dsm::LockMisuse::of_unlock(lock, has(lock));
  if (r.kind == Request::Kind::kSync) return dsm::LockMisuse::of_sync(r.sync, has);
  return {};
}

// Of the page protocol's work for a request, in cycles, beside what charged() sees.
double SimulatedCluster::cost_of(Request::Kind kind) const {
  switch (kind) {
    case Request::Kind::kLock:
    case Request::Kind::kUnlock:
    case Request::Kind::kTryLock:
      return shared_.model.lock;
    case Request::Kind::kBarrier:
      return shared_.model.barrier;
    case Request::Kind::kSync:
    case Request::Kind::kAllocate:
    case Request::Kind::kPrefetch:
      return shared_.model.sync;
    case Request::Kind::kNone:
    case Request::Kind::kFault:
    case Request::Kind::kResetFigures:
    case Request::Kind::kCollective:
    case Request::Kind::kIdle:
    case Request::Kind::kRunOnCluster:
      return 0;
  }
  CHECK(false);
}

// The page protocol begins with the request. Returns true if it is complete.
bool SimulatedCluster::start(unsigned n, const Request& r) {
  const auto node = static_cast<std::uint16_t>(n);
  switch (r.kind) {
    case Request::Kind::kFault:
      return engine_.fault(node, PageId(r.page), r.write ? dsm::Access::kWrite : dsm::Access::kRead);
    case Request::Kind::kLock:
      return engine_.lock(node, dsm::LockId(r.id));
    case Request::Kind::kUnlock:
      return engine_.unlock(node, dsm::LockId(r.id));
    case Request::Kind::kTryLock:
      return engine_.try_lock(node, dsm::LockId(r.id));
    case Request::Kind::kBarrier:
      if (r.id == dsm::kOwnBarrier.value()) nodes_[n].leave_when_resumed();
      return engine_.barrier(node, dsm::BarrierId(r.id), r.reduction, r.value);
    case Request::Kind::kSync:
      return engine_.sync(node, r.sync);
    case Request::Kind::kAllocate:
      return engine_.allocate(node, r.pages, r.homes);
    case Request::Kind::kPrefetch:
      engine_.prefetch(PageId(r.page), r.pages);
      return true;
    case Request::Kind::kNone:
    case Request::Kind::kResetFigures:
    case Request::Kind::kCollective:
    case Request::Kind::kIdle:
    case Request::Kind::kRunOnCluster:
      break;
  }
  CHECK(false);
}

void SimulatedCluster::on_request(unsigned n) {
  const Request& r = request(n);
  const unsigned number = id_.value() * shared_.config.compute + n;
  if (r.kind == Request::Kind::kNone)
    return shared_.fail(error("the request of compute node {} has no kind", number));
  if (r.kind == Request::Kind::kIdle) return go_idle(n);
  if (r.kind == Request::Kind::kCollective) {
    nodes_[n].await_call();
    return owner_.on_collective_call(*this, n, r);
  }
  if (r.kind == Request::Kind::kRunOnCluster) {
    nodes_[n].await_call();
    for (unsigned i = 0; i < nodes_.size(); ++i) resume(i, shared_.events.now());
    return;
  }
  if (r.kind == Request::Kind::kResetFigures) {
    owner_.reset_figures();
    nodes_[n].await_call();
    return resume(n, shared_.events.now());
  }
  const std::optional<dsm::LockMisuse> misuse = misuse_of(n, r);
  if (misuse) return shared_.fail(Error{misuse->text(number)});
  const bool makes_twin = r.kind == Request::Kind::kFault && r.write && engine_.home(PageId(r.page)) != id_;
  nodes_[n].wait(makes_twin ? shared_.model.time(shared_.model.twin * shared_.model_pages()) : Duration());
  Work work{.node = n, .at = shared_.events.now()};
  bool complete = false;
  charged(work, [&] { complete = start(n, r); });
  if (const double cycles = cost_of(r.kind); cycles > 0) work.at = work.at + shared_.model.time(cycles);
  send_output(work);
  // If this node's call is complete, it returns when the messages that it caused
  // have been handed over. Likewise for another node's call that it completed.
  if (complete) resume(n, work.at);
  resume_complete(work.at);
}

// The node has finished its part of parallel(). The initial node continues when all nodes have.
void SimulatedCluster::go_idle(unsigned n) {
  nodes_[n].step_outside();
  if (std::all_of(nodes_.begin(), nodes_.end(),
                  [](const ComputeNode& node) { return node.state() == ComputeNode::State::kOutside; }))
    resume(0, shared_.events.now());
}

// ---------------------------------------------------------------- collective calls

void SimulatedCluster::join(Instant at) {
  const Control& c = turns_.control();
  engine_.place_objects(c.first_place_of_globals, c.globals_address);
  resume_initial(at);
}

void SimulatedCluster::allocate(const Request& r) {
  const std::optional<PageId> first = engine_.allocate_together(r.pages, r.homes);
  allocation_ = first ? first->value() : dsm::kNoPages;
}

void SimulatedCluster::return_allocation(Instant at) {
  resume(0, at);
  control(0).result = allocation_;
}

void SimulatedCluster::begin_barrier(Instant now, unsigned nodes) {
  nodes_after_barrier_ = nodes;
  for (ComputeNode& node : nodes_) node.wait_at_barrier(now);
  Work work{.node = 0, .at = now + shared_.model.time(shared_.model.barrier)};
  charged(work, [&] {
    for (unsigned n = 0; n < nodes_.size(); ++n)
      (void)engine_.barrier(static_cast<std::uint16_t>(n), dsm::kOwnBarrier);
  });
  send_output(work);
  resume_complete(work.at);
}

void SimulatedCluster::end_barrier(Instant at) {
  const unsigned go_on = std::exchange(nodes_after_barrier_, 0);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    if (n < go_on)
      resume(n, at);
    else
      nodes_[n].step_outside();
  }
}

void SimulatedCluster::finish(Instant now, unsigned node) {
  // The last turn is no longer part of the run, and of this node alone.
  for (unsigned n = 0; n < nodes_.size(); ++n) turns_.control().nodes[n].runnable = false;
  resume(node, now);
  turns_.control().until = ClockRate::kNever;
  turns_.control().protection_runs = 0;
}

void SimulatedCluster::leave_parallel(Instant now) {
  for (ComputeNode& node : nodes_) node.leave_parallel(now, shared_.parallel);
}

void SimulatedCluster::wait_for_last(Instant end) {
  for (ComputeNode& node : nodes_) node.wait_for_last(end, shared_.parallel);
}

void SimulatedCluster::reset_figures() {
  for (ComputeNode& node : nodes_) node.reset_figures();
  for (WaitCosts& costs : wait_costs_) costs = {};
  for (unsigned n = 0; n < nodes_.size(); ++n)
    node_counts_before_[n] = engine_.node_counts(static_cast<std::uint16_t>(n));
  counts_before_ = engine_.counts();
  sent_ = {};
  phase_ = 0;
}

// ---------------------------------------------------------------- messages

// Carries out operation() and charges the page protocol's work in it, except sending.
template <class Operation>
void SimulatedCluster::charged(Work& work, Operation&& operation) {
  const settings::CostModel& model = shared_.model;
  const std::uint64_t protections = turns_.protections();
  const std::uint64_t applied = engine_.counts().diffs_applied;
  operation();
  double cycles = model.protect * static_cast<double>(turns_.protections() - protections);
  if (engine_.counts().diffs_applied != applied) cycles += model.diff_byte * static_cast<double>(work.bytes);
  if (cycles > 0) work.at = work.at + model.time(cycles);
}

// Hands over the page protocol's messages, in the time of the working node.
void SimulatedCluster::send_output(Work& work) {
  bool any = false;
  engine_.output_clusters().for_each([&](ClusterId to) {
    while (engine_.has_output(to) && send_one(work, to)) any = true;
  });
  if (any) shared_.iccs.flush(work.at, id_);
}

// Returns false if there is no room, or nothing to send.
bool SimulatedCluster::send_one(Work& work, ClusterId to) {
  const settings::CostModel& model = shared_.model;
  const auto wanted = static_cast<std::uint32_t>(dsm::kMessageHeaderBytes + engine_.room_wanted(to));
  const MutableBytes room =
      shared_.iccs.reserve(id_, work.node, to, std::min(wanted, shared_.iccs.max_message_bytes()));
  if (room.empty()) return false;
  const dsm::ClusterCounts before = engine_.counts();
  const std::uint64_t protections = turns_.protections();
  const std::size_t bytes = engine_.poll_transmit(to, room.subspan(dsm::kMessageHeaderBytes));
  if (bytes == 0) return false;
  const dsm::ClusterCounts& after = engine_.counts();
  double cycles =
      model.hand_over + model.hand_over_byte * static_cast<double>(dsm::kMessageHeaderBytes + bytes);
  cycles += model.protect * static_cast<double>(turns_.protections() - protections);
  cycles += model.page_byte *
            static_cast<double>(shared_.config.page_length.bytes_of(after.pages_sent - before.pages_sent));
  cycles += model.diff * shared_.model_pages() * static_cast<double>(after.diffs_sent - before.diffs_sent);
  cycles += model.diff_byte * static_cast<double>(after.diff_bytes_sent - before.diff_bytes_sent);
  work.at = work.at + model.time(cycles);
  if (shared_.parallel.is_running()) nodes_[work.node].count_message();
  const std::uint32_t kinds = count_sent(before);
  std::memset(room.data(), 0, dsm::kMessageHeaderBytes);
  shared_.iccs.commit(work.at, static_cast<std::uint32_t>(dsm::kMessageHeaderBytes + bytes), kinds);
  return true;
}

// What the engine has sent since `before`, by phase. Returns a bit for each kind.
std::uint32_t SimulatedCluster::count_sent(const dsm::ClusterCounts& before) {
  std::uint32_t kinds = 0;
  for (std::size_t kind = 0; kind < before.sent.size(); ++kind) {
    const std::uint64_t messages = engine_.counts().sent[kind] - before.sent[kind];
    if (messages == 0) continue;
    kinds |= std::uint32_t{1} << kind;
    if (shared_.parallel.is_running()) sent_.add(phase_, kind, messages);
  }
  return kinds;
}

// The node whose time handles a message: the first of the nodes that do
// not compute to be free, otherwise the next computing node in turn.
unsigned SimulatedCluster::handler() {
  const ComputeNode* best = nullptr;
  for (const ComputeNode& node : nodes_) {
    if (node.is_running()) continue;
    if (best == nullptr || node.busy_until() < best->busy_until()) best = &node;
  }
  if (best != nullptr) return static_cast<unsigned>(best - nodes_.data());
  return next_in_turn();
}

// Carries out operation(work) and what follows from it, in the time of one of the nodes.
template <class Operation>
Iccs::Sink::Handled SimulatedCluster::handle(Instant now, Operation&& operation) {
  const bool own = shared_.config.handlers == settings::Handlers::kOwn;
  // The own processor sends as each node in turn, for dispatch.
  const unsigned n = own ? next_in_turn() : handler();
  // The handler began at the delivery, unless the node was busy then.
  const Duration notice = shared_.model.time(shared_.model.handler);
  const Instant begins = std::max(now - notice, own ? own_busy_until_ : nodes_[n].busy_until());
  Work work{.node = n, .at = begins + notice};
  operation(work);
  send_output(work);
  if (own)
    own_busy_until_ = work.at;
  else
    took_time_of(n, work.at - begins, work.at);
  resume_complete(work.at);
  return {work.at, n};
}

// A compute node has handled a message; if it computes, it is late by that time.
void SimulatedCluster::took_time_of(unsigned n, Duration took, Instant until) {
  ComputeNode& node = nodes_[n];
  node.handled(took, until, shared_.parallel);
  if (!node.is_running()) return;
  const bool granted = is_granted(n);
  control(n).clock += static_cast<std::int64_t>(shared_.model.cycles(took) / shared_.model.unit + 0.5);
  if (granted) node.delay_grant(control(n).clock);
  tell_clock();
}

Iccs::Sink::Handled SimulatedCluster::on_message(Instant now, ClusterId from, ByteView message) {
  return handle(now, [&](Work& work) {
    const settings::CostModel& model = shared_.model;
    work.bytes = message.size() - dsm::kMessageHeaderBytes;
    const ByteView messages = message.subspan(dsm::kMessageHeaderBytes);
    const auto copied = static_cast<double>(dsm::bytes_of_pages(shared_.config.page_length, messages));
    if (copied > 0) work.at = work.at + model.time(model.page_byte * copied);
    engine_.set_time(now);
    charged(work, [&] { engine_.on_message(from, messages); });
    CHECK(!engine_.refusal());  // PG-27: no message is damaged here
  });
}

Iccs::Sink::Handled SimulatedCluster::on_room(Instant now) {
  return handle(now, [](Work&) {});
}

// ---------------------------------------------------------------- results

std::string SimulatedCluster::explain_waits() const {
  std::string text;
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    const auto node = static_cast<std::uint16_t>(n);
    if (nodes_[n].state() == ComputeNode::State::kOutside) continue;
    const std::string wait = nodes_[n].state() == ComputeNode::State::kInCall
                                 ? "waits for the other clusters' initial threads to make the same call"
                                 : engine_.explain_wait(node);
    text += fmt::format("\n  compute node {} {}", id_.value() * shared_.config.compute + n, wait);
    const std::string locks = engine_.locks_of(node);
    if (!locks.empty()) text += "; it has lock(s) " + locks;
  }
  return text;
}

void SimulatedCluster::add_to(MachineFigures& f) const {
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    NodeFigures node = nodes_[n].figures();
    // Where a run ends inside parallel(), a wait may end behind it.
    node.computing = std::max(
        Duration(), shared_.parallel.total() - node.faults - node.locks - node.barriers - node.syncs);
    f.nodes.push_back(node);
    f.node_counts.push_back(
        dsm::difference(engine_.node_counts(static_cast<std::uint16_t>(n)), node_counts_before_[n]));
  }
  for (const WaitCosts& costs : wait_costs_) f.waits.push_back(costs);
  f.sent.add(sent_);
  f.cluster_counts.push_back(dsm::difference(engine_.counts(), counts_before_));
  f.hand_overs += turns_.hand_overs();
  // A cluster without a turn has had no program.
  if (turns_.hand_overs() > 0) f.counted = f.counted && turns_.control().counted;
  const IccsConfig& iccs = shared_.config.iccs;
  if (iccs.mode != Mode::kReal) return;
  for (unsigned n = 0; n < iccs.nis; ++n) f.links.push_back(shared_.iccs.link_figures(id_, n));
  for (unsigned p = 0; p < iccs.proxies; ++p) f.proxies.push_back(shared_.iccs.figures(id_, p));
}

}  // namespace braid::sim
