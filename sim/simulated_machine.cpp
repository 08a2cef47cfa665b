#include "sim/simulated_machine.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/check.h"
#include "base/prng.h"

namespace braid::sim {

SimulatedMachine::SimulatedMachine(const MachineConfig& config, const settings::CostModel& model,
                                   const std::vector<Shell*>& shells, Trace trace)
    : shared_(config, model, *this),
      calls_(config.iccs.clusters),
      trace_(std::move(trace)),
      received_(config.iccs.clusters) {
  CHECK_EQ(shells.size(), config.iccs.clusters);
  Prng seeds(config.iccs.seed);
  SimulatedCluster::Owner& owner = *this;
  for (std::uint16_t k = 0; k < config.iccs.clusters; ++k)
    clusters_.push_back(std::make_unique<SimulatedCluster>(shared_, owner, ClusterId(k), *shells[k], seeds));
}

Result<MachineFigures> SimulatedMachine::run() {
  if (clusters_.size() > 1) {
    if (const Result<void> established = shared_.iccs.establish(); !established) return established.error();
  }
  began_ = shared_.events.now();
  begin_programs();
  while (shared_.failure.ok() && !finished_) {
    const std::int64_t earliest = shared_.clocks.earliest();
    if (earliest < shared_.rate.to_cycles(shared_.events.next_time())) {
      run_clusters();
    } else if (earliest == ClockRate::kNever && (shared_.events.empty() || is_stuck())) {
      return deadlock();
    } else {
      on_event(shared_.events.pop());
    }
  }
  if (!shared_.failure.ok()) return shared_.failure.error();
  return figures();
}

// Cluster 0's program begins alone. It may be one whose main() runs once, and end while it is alone; or clone itself for
// the other clusters, which then have no other programs.
void SimulatedMachine::begin_programs() {
  SimulatedCluster& first = *clusters_[0];
  first.resume_initial(began_);
  first.run(window_of(first));
  if (first.request(0).call.kind == dsm::CallKind::kLeave) return;
  for (std::size_t k = 1; k < clusters_.size(); ++k) clusters_[k]->resume_initial(began_);
}

// The earliest cluster runs, and after it those that would be next if no node asks: until then no event happens, and so
// their windows are known.
void SimulatedMachine::run_clusters() {
  const std::int64_t next_event = shared_.rate.to_cycles(shared_.events.next_time());
  relay_.clear();
  do {
    SimulatedCluster& next = *clusters_[*shared_.clocks.first()];
    if (!next.prepare(window_of(next))) break;
    relay_.push_back(&next);
  } while (shared_.clocks.earliest() < next_event);
  if (relay_.empty()) {
    SimulatedCluster& alone = *clusters_[*shared_.clocks.first()];
    return alone.run(window_of(alone));
  }
  relay_.front()->begin(relay_);
  bool has_run = shared_.failure.ok();
  for (SimulatedCluster* const c : relay_) {
    if (has_run)
      has_run = c->end();
    else
      c->cancel();
  }
}

// ---------------------------------------------------------------- how far a cluster runs

// The time before which no event that is still to come can affect the cluster.
std::int64_t SimulatedMachine::window_of(const SimulatedCluster& c) const {
  const MachineShared& s = shared_;
  const Duration to_send = s.model.time(s.model.hand_over) + s.iccs.least_latency();
  const Duration after_event = s.config.iccs.mode == Mode::kReal ? s.iccs.least_to_deliver() : to_send;
  const Duration entry = std::min(s.entry(Request::Kind::kFault), s.entry(Request::Kind::kLock));
  const Instant next = s.events.next_time();
  Instant until = std::min(s.events.next_inside(c.id().value()), next + after_event);
  if (const std::int64_t other = s.clocks.earliest_but(c.id().value()); other != ClockRate::kNever)
    until = std::min(until, s.rate.to_instant(other) + entry + to_send);
  if (!s.config.strict) return s.rate.to_cycles(until);
  return std::min(s.rate.to_cycles(std::min(until, next)), c.clock() + 1);
}

// ---------------------------------------------------------------- events

void SimulatedMachine::on_event(const Event& event) {
  if (event.kind != EventKind::kRequest) return shared_.iccs.on_event(event);
  SimulatedCluster& c = cluster(ClusterId(event.cluster));
  const Request& r = c.request(event.index);
  hash(shared_.events.now(), std::uint64_t{event.cluster} << 32 | event.index,
       static_cast<std::uint64_t>(r.kind) << 56 | std::uint64_t{r.page} << 24 | r.id |
           (r.write ? 1u << 23 : 0u));
  c.on_request(event.index);
}

Iccs::Sink::Handled SimulatedMachine::on_message(Instant now, ClusterId at, ClusterId from,
                                                 ByteView message) {
  hash(now, std::uint64_t{at.value()} << 32 | from.value(), message.size());
  return cluster(at).on_message(now, from, message);
}

void SimulatedMachine::on_room(Instant now, ClusterId at) {
  (void)cluster(at).on_room(now);
}

void SimulatedMachine::on_delivered(const MessageReport& report) {
  if (!shared_.parallel.is_running()) return;
  ++received_[report.to.value()];
  messages_.add(report, shared_.config.iccs.mode == Mode::kReal);
  if (trace_) trace_(report);
}

void SimulatedMachine::on_lost(Instant, ClusterId at, ClusterId peer, const char* why) {
  shared_.fail(error("cluster {} lost cluster {}: {}", at.value(), peer.value(), why));
}

void SimulatedMachine::parallel_ended() {
  const Instant end = shared_.parallel.last_left();
  for (const auto& c : clusters_) c->wait_for_last(end);
  shared_.iccs.stop_measuring(end);
}

void SimulatedMachine::reset_figures() {
  const Instant now = shared_.events.now();
  shared_.parallel.restart(now);
  shared_.iccs.restart_measuring();
  for (const auto& c : clusters_) c->reset_figures();
  received_.assign(received_.size(), 0);
  messages_ = {};
  transmissions_before_ = transmissions();
}

SimulatedMachine::Transmissions SimulatedMachine::transmissions() const {
  return {.retransmissions = shared_.iccs.retransmissions(),
          .spurious = shared_.iccs.spurious_retransmissions(),
          .frames_lost = shared_.iccs.frames_lost()};
}

// ---------------------------------------------------------------- collective calls

void SimulatedMachine::end_run(Instant now) {
  whole_ = now - began_;
  finished_ = true;
}

// A node has ended the program: main() in cluster 0, before there were others, or one of several while others have threads
// that it does not wait for.
void SimulatedMachine::leave(SimulatedCluster& first, unsigned node) {
  const Instant now = shared_.events.now();
  if (shared_.parallel.is_running()) {
    for (const auto& c : clusters_) c->leave_parallel(now);
    shared_.parallel.end(now);
    shared_.iccs.stop_measuring(now);
  }
  end_run(now);
  first.finish(now, node);
  for (const auto& c : clusters_)
    if (c.get() != &first) c->dismiss();
}

void SimulatedMachine::on_collective_call(SimulatedCluster& by, unsigned node, const Request& request) {
  if (request.call.kind == dsm::CallKind::kLeave) return leave(by, node);
  if (request.call.kind == dsm::CallKind::kAllocate) by.allocate(request);
  const Result<bool> all = calls_.join(by.id(), request.call);
  if (!all) return shared_.fail(all.error());
  if (*all) make_call(request.call.kind);
}

void SimulatedMachine::make_call(dsm::CallKind kind) {
  const Instant now = shared_.events.now();
  const unsigned nodes = shared_.config.compute;
  switch (kind) {
    case dsm::CallKind::kJoin:
      for (const auto& c : clusters_) c->join(now);
      return;
    case dsm::CallKind::kAllocate:
      for (const auto& c : clusters_) c->return_allocation(now);
      return;
    case dsm::CallKind::kParallel:
      shared_.parallel.enter(now, nodes * static_cast<unsigned>(clusters_.size()));
      shared_.iccs.start_measuring();
      for (const auto& c : clusters_) c->begin_barrier(now, nodes);
      return;
    case dsm::CallKind::kBarrier:
      for (const auto& c : clusters_) c->begin_barrier(now, 1);
      return;
    case dsm::CallKind::kFinish:
      end_run(now);
      for (const auto& c : clusters_) c->finish(now, 0);
      return;
    case dsm::CallKind::kNone:
    case dsm::CallKind::kLeave:
      break;
  }
  CHECK(false);
}

// ---------------------------------------------------------------- results

// No node runs, nothing in progress could change that, and only timers remain.
bool SimulatedMachine::is_stuck() const {
  if (shared_.iccs.in_flight() > 0) return false;
  return std::none_of(clusters_.begin(), clusters_.end(), [&](const auto& c) {
    return c->has_output() || shared_.events.next_inside(c->id().value()) != Instant::never();
  });
}

Error SimulatedMachine::deadlock() const {
  std::string text = "all compute nodes wait, and nothing is in progress:";
  for (const auto& c : clusters_) text += c->explain_waits();
  return Error{text};
}

void SimulatedMachine::hash(Instant at, std::uint64_t whose, std::uint64_t what) {
  for (const std::uint64_t part : {static_cast<std::uint64_t>(at.ns()), whose, what}) trace_hash_.add(part);
}

MachineFigures SimulatedMachine::figures() const {
  MachineFigures f;
  f.whole = whole_;
  f.parallel = shared_.parallel.total();
  for (const auto& c : clusters_) c->add_to(f);
  f.received = received_;
  f.messages = messages_;
  f.events = shared_.events.happened();
  const Transmissions all = transmissions();
  f.retransmissions = all.retransmissions - transmissions_before_.retransmissions;
  f.spurious_retransmissions = all.spurious - transmissions_before_.spurious;
  f.frames_lost = all.frames_lost - transmissions_before_.frames_lost;
  f.trace_hash = trace_hash_.value();
  return f;
}

}  // namespace braid::sim
