#include "dsm/live/combiner.h"

#include "base/clock.h"
#include "dsm/live/runtime_message.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

// Messages handled in one hold of the combiner lock: a batch that amortises the
// lock's cost, and delays a sibling that waits for the lock by at most some 20 us.
constexpr int kBatch = 16;
// Links are checked once per this number of serves that found nothing:
// often enough to detect a death at once, rarely enough to cost nothing.
constexpr std::uint32_t kIdleServesPerCheck = 64;
// Locks that are open at once: 32 KiB. More of them in use take turns.
constexpr std::uint32_t kLockWords = 4096;
// How long a lock stays in a cluster that would ask for it again at once (docs/decisions/0050), and about as many empty
// sections as take so long.
constexpr Duration kLeaseTime = 2_ms;
constexpr std::uint32_t kLeaseUses = 16384;

EngineConfig with_lock_settings(EngineConfig config) {
  config.lock_words = kLockWords;
  config.lease_time = kLeaseTime;
  config.lease_uses = kLeaseUses;
  return config;
}

// PG-27
[[noreturn]] void fail_for_refusal(unsigned cluster, const Refusal& refusal) {
  fail(
      "cluster {}: cluster {} sent {} ({}, number {}, {} bytes), which is refused: {}. "
      "A message was damaged, lost or duplicated in flight, so the program cannot continue",
      cluster, refusal.from.value(), refusal.what, refusal.id, refusal.number, refusal.bytes, refusal.why);
}

}  // namespace

Combiner::Combiner(const Shape& shape, PageMemory& memory, Network* network)
    : shape_(shape),
      network_(network),
      engine_(with_lock_settings(engine_config(shape)), memory),
      call_(ClusterId(shape.cluster), shape.clusters),
      transmitter_(network, engine_, call_),
      nodes_(std::make_unique<Node[]>(shape.compute)) {}

bool Combiner::start_call(unsigned local, const CollectiveCall& call) {
  const std::lock_guard hold(*this);
  call_.begin(call);
  calling_node_ = local;
  nodes_[local].completion.begin();
  send_and_signal(local);
  return nodes_[local].completion.done();
}

bool Combiner::operation_complete(unsigned local) const {
  if (calls_together(local)) return call_.complete();
  return engine_.done(static_cast<std::uint16_t>(local));
}

void Combiner::signal_waiting() {
  if (call_.in_progress()) signal_if_complete(calling_node_);
  if (waiting_.none()) return;
  for (unsigned local = 0; local < shape_.compute; ++local)
    if (waiting_[local]) signal_if_complete(local);
}

void Combiner::signal_if_complete(unsigned local) {
  if (!operation_complete(local)) return;
  waiting_.reset(local);
  if (tracing()) {
    nodes_[local].stamps.answered = message_taken_;
    nodes_[local].stamps.installed = monotonic_now();
  }
  nodes_[local].completion.signal();
}

void Combiner::on_message(ClusterId from, ByteView message) {
  const Instant now = monotonic_now();
  engine_.set_time(now);
  if (tracing()) message_taken_ = now;
  const OpenedMessage opened = open_message(message);
  if (opened.payload == Payload::kEngine) {
    engine_.on_message(from, opened.body);
    if (engine_.refusal()) fail_for_refusal(shape_.cluster, *engine_.refusal());
  } else if (opened.payload != Payload::kCollectiveCall || !call_.on_message(from, opened.body)) {
    fail_for_refusal(shape_.cluster,
                     {.from = from,
                      .what = "bytes that are not a message of a runtime",
                      .bytes = message.size(),
                      .why = "they have another form, or announce a collective call that cannot be next"});
  }
  // Immediately: the sender waits for the reply, not for the rest of this batch.
  if (!engine_.output_clusters().empty()) transmitter_.send(compute_node_);
}

bool Combiner::serve(unsigned compute_node) {
  compute_node_ = compute_node;
  const int handled = network_->poll(*this, kBatch);
  if (handled > 0 || transmitter_.pending(std::memory_order_relaxed)) transmitter_.send(compute_node);
  if (handled == 0 && ++idle_serves_ % kIdleServesPerCheck == 0) check_links();
  if (handled > 0) signal_complete();
  return handled > 0;
}

void Combiner::check_links() {
  for (std::uint16_t k = 0; k < shape_.clusters; ++k) {
    if (k == shape_.cluster || call_.left(ClusterId(k))) continue;
    if (const char* const trouble = network_->trouble(ClusterId(k))) judge_link(ClusterId(k), trouble);
  }
}

void Combiner::check_descriptors() const {
  const char* const lost = descriptors_.lost();
  if (lost != nullptr) fail_for_closed_descriptor(lost);
}

void Combiner::fail_for_lost(ClusterId peer, const char* trouble) const {
  check_descriptors();  // the service drops a client that does not hold its connection
  char text[256];
  const unsigned lost = peer.value(), own = shape_.cluster;
  fail_for_lost_cluster(text, format_within(text, sizeof text, "cluster {}: lost cluster {}: {}",
                                            fmt::make_format_args(own, lost, trouble)));
}

void Combiner::judge_link(ClusterId peer, const char* trouble) {
  // Take what it sent before, which may include its finish().
  while (network_->poll(*this, kBatch) > 0) continue;
  if (call_.on_disconnected(peer) == CurrentCall::Loss::kLost) fail_for_lost(peer, trouble);
  // The call may have waited for it. If it left because the clusters disagree, the initial thread reports it.
  signal_complete();
}

}  // namespace braid::dsm
