#include "dsm/live/runtime.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>

#include "base/check.h"
#include "base/clock.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"

namespace braid::dsm {

namespace {

// Changes with the layout of any message between runtimes or engines.
constexpr std::uint64_t kRuntimeVersion = 3;

// In the header before every message.
constexpr std::byte kEngineMessage{1};
constexpr std::byte kStepMessage{2};

// Messages handled in one hold of the combiner lock: a batch that amortises its cost, and some 20 us at most
// for a sibling that wants the lock.
constexpr int kBatch = 16;
// A poller that found nothing for this long sleeps and leaves serving to the server thread: far longer than a
// remote fault takes, so that those never pay for waking up; short enough not to burn a processor that others
// need.
constexpr Duration kPatience = 1_ms;
// Whoever yields to a thread that computes gets the processor back at a tick of the clock, milliseconds
// later, and misses what arrived meanwhile; whoever sleeps is woken into the middle of the other's slice. So
// a yield of this length, longer than any turn of a proxy, says that computing threads share the processor:
// it is time to sleep, ...
constexpr Duration kLongYield = 100_us;
// ... and for so many waits to come at once, before yielding is tried again.
constexpr int kCrowdedWaits = 32;
// Sleepers look at the world this often even if nobody calls: a peer's death rings no bell.
constexpr Duration kWatch = 100_ms;
// So often the server looks whether somebody polls still, where no bell wakes it when nobody does.
constexpr Duration kUnrung = 1_ms;
// How long finish() waits for the others' goodbye. All have finished by then; what can be missing is a lost
// process.
constexpr Duration kGoodbyePatience = 2_s;

// --- What a thread is to the runtime.

struct ThreadState {
  int local = -1;       // which compute node of the cluster; -1: none
  bool inside = false;  // the runtime's code is running: shared memory must not be touched
  bool counts = false;  // among those that compute, in the pulse
};
// Initial-exec: reading it inside a fault allocates nothing.
thread_local volatile ThreadState this_thread __attribute__((tls_model("initial-exec")));

class Inside {
 public:
  Inside() { this_thread.inside = true; }
  ~Inside() { this_thread.inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// This thread computes, as far as a watchdog is concerned, between begin() and end().
class Busy {
 public:
  explicit Busy(Pulse& pulse) : pulse_(pulse) { begin(pulse_); }
  ~Busy() { end(pulse_); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  static void begin(Pulse& pulse) {
    this_thread.counts = true;
    pulse.busy.fetch_add(1, std::memory_order_relaxed);
  }
  static void end(Pulse& pulse) {
    this_thread.counts = false;
    pulse.busy.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  Pulse& pulse_;
};

// And not while it waits.
class Idle {
 public:
  explicit Idle(Pulse& pulse) : pulse_(pulse), counted_(this_thread.counts) {
    if (counted_) Busy::end(pulse_);
  }
  ~Idle() {
    pulse_.progress.fetch_add(1, std::memory_order_relaxed);
    if (counted_) Busy::begin(pulse_);
  }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

 private:
  Pulse& pulse_;
  const bool counted_;
};

Result<Pulse*> map_pulse(int fd) {
  void* const memory = ::mmap(nullptr, sizeof(Pulse), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kPulseFd, fd, std::strerror(errno));
  return static_cast<Pulse*>(memory);
}

Shape shape_of(const Environment& e) {
  return {.clusters = e.clusters,
          .cluster = e.cluster,
          .compute = e.compute,
          .heap_pages = e.heap_mib * static_cast<std::uint32_t>((1u << 20) / kPageBytes)};
}

void write_all(int fd, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // whoever wanted the report has gone: the program's result stands all the same
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

class Runtime::Hold {
 public:
  explicit Hold(Runtime& runtime) : runtime_(runtime) { runtime_.combiner_.lock(); }
  ~Hold() { runtime_.combiner_.unlock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Runtime& runtime_;
};

// --- Beginning and end

namespace {

Result<Memory> make_memory(const Environment& environment) {
  const std::uint32_t pages = shape_of(environment).heap_pages;
  if (environment.protect != Environment::Protect::kMprotect) {
    Result<Memory> memory = Memory::make(pages, Protection::kUserfaultfd);
    if (memory || environment.protect == Environment::Protect::kUserfaultfd) return memory;
  }
  return Memory::make(pages, Protection::kMprotect);
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::start(const Environment& environment,
                                                std::unique_ptr<Network> network,
                                                const std::string& program) {
  CHECK_EQ(network != nullptr, environment.clusters > 1);
  Result<Memory> memory = make_memory(environment);
  if (!memory) return memory.error();
  std::unique_ptr<Runtime> runtime(new Runtime(environment, std::move(network), std::move(memory).value()));
  if (environment.pulse_fd >= 0) {
    const Result<Pulse*> pulse = map_pulse(environment.pulse_fd);
    if (!pulse) return pulse.error();
    runtime->pulse_ = *pulse;
  }
  const Result<void> installed = install_fault_handler(runtime.get(), HandlerStack::kSignalStack);
  if (!installed) return installed.error();
  this_thread.local = 0;
  Busy::begin(*runtime->pulse_);
  runtime->pulse_->counts.store(1);
  runtime->inspector_ = std::make_unique<Inspector>([own = runtime.get()] { own->say_waits(); });
  if (runtime->network_ != nullptr) runtime->server_ = std::thread(&Runtime::server_thread, runtime.get());
  runtime->take_step(hello_facts(kRuntimeVersion, runtime->shape(), program),
                     monotonic_now() + environment.connect_timeout);
  for (unsigned local = 1; local < environment.compute; ++local)
    runtime->crew_.emplace_back(&Runtime::node_thread, runtime.get(), local);
  return runtime;
}

Runtime::Runtime(const Environment& environment, std::unique_ptr<Network> network, Memory memory)
    : Host(shape_of(environment)),
      environment_(environment),
      network_(std::move(network)),
      drives_proxies_(network_ != nullptr && network_->moves_only_in_poll()),
      memory_(std::move(memory)),
      engine_(engine_config(shape()), memory_),
      steps_(ClusterId(environment.cluster), environment.clusters),
      nodes_(std::make_unique<LocalNode[]>(environment.compute)) {
  // Looking again at once is worth it only where whoever we wait for runs at the same time: one processor for
  // each compute node, one for a proxy and one for the server. Elsewhere each look gives the processor away.
  const unsigned others = drives_proxies_ ? 0 : 2;
  const bool processors_suffice = std::thread::hardware_concurrency() >= environment_.compute + others;
  looks_before_yield_ = processors_suffice ? 200 : 0;
}

Runtime::~Runtime() {
  inspector_.reset();
  stop_threads();
  pulse_->counts.store(0);  // the program may go on for as long as it likes
  if (pulse_ != &own_pulse_) ::munmap(pulse_, sizeof *pulse_);
  remove_fault_handler();
  this_thread.local = -1;
}

void Runtime::stop_threads() {
  {
    const std::lock_guard<std::mutex> guard(crew_mutex_);
    dismissed_ = true;
  }
  crew_called_.notify_all();
  for (std::thread& thread : crew_) thread.join();
  crew_.clear();
  if (server_.joinable()) {
    stopping_.store(true);
    network_->wake();
    server_.join();
  }
}

void Runtime::finish() {
  {
    const Inside inside;
    const Hold hold(*this);
    finishing_ = true;
  }
  StepFacts facts;
  facts.step = Step::kFinish;
  take_step(facts);
  // Every cluster is here, so none needs a page of this one any more. But one may not know yet that we are;
  // the goodbyes tell that everybody knows, and so everybody may leave.
  facts.step = Step::kGoodbye;
  take_step(facts, monotonic_now() + kGoodbyePatience, AtDeadline::kGoOn);
  stop_threads();
  if (environment_.report_fd < 0) return;
  write_all(environment_.report_fd, report());
  ::close(environment_.report_fd);
}

std::string Runtime::report() const {
  std::vector<NodeReport> nodes;
  for (unsigned local = 0; local < environment_.compute; ++local) {
    nodes.push_back(
        {node_id(local), engine_.node_counts(static_cast<std::uint16_t>(local)), nodes_[local].times});
  }
  return report_json(environment_.cluster, to_string(memory_.protection()), nodes, engine_.counts(),
                     network_ ? network_->counts() : NetworkCounts{});
}

// --- Steps

bool Runtime::step_complete() const {
  if (steps_.disagreement()) return true;
  for (std::uint16_t k = 0; k < environment_.clusters; ++k) {
    const bool settled = k == environment_.cluster || steps_.reached(ClusterId(k)) || (gone_ >> k & 1) != 0;
    if (!settled) return false;
  }
  return true;
}

void Runtime::take_step(const StepFacts& facts, Instant deadline, AtDeadline then) {
  if (network_ == nullptr) return;
  const Inside inside;
  bool complete = false;
  {
    const Hold hold(*this);
    step_ = steps_.begin(facts);
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - environment_.clusters);
    steps_to_send_ = all & ~(std::uint64_t{1} << environment_.cluster) & ~gone_;
    nodes_[0].completion.begin();
    step_under_way_ = true;
    pump(0);
    tell_the_complete();
    complete = nodes_[0].completion.done();
  }
  if (!complete) wait(0, deadline);
  const Hold hold(*this);
  step_under_way_ = false;
  if (steps_.disagreement()) {
    const std::string text = steps_.explain();
    fail_with_text(text.data(), text.size());
  }
  if (step_complete() || then == AtDeadline::kGoOn) return;
  std::string missing;
  for (std::uint16_t k = 0; k < environment_.clusters; ++k) {
    if (k != environment_.cluster && !steps_.reached(ClusterId(k))) missing += fmt::format(" {}", k);
  }
  const std::string text =
      fmt::format("cluster {}: not heard within {} ms of cluster(s){}: {} gives slow ones more time",
                  environment_.cluster, environment_.connect_timeout.ns() / 1'000'000, missing,
                  variable::kConnectTimeoutMs);
  fail_with_text(text.data(), text.size());
}

// --- What it says when it is asked

std::string Runtime::explain(unsigned local) const {
  const auto node = static_cast<std::uint16_t>(local);
  std::string text = engine_.explain_wait(node);
  if (text.empty() && local == 0 && step_under_way_) {
    std::string missing;
    for (std::uint16_t k = 0; k < environment_.clusters; ++k) {
      if (k != environment_.cluster && !steps_.reached(ClusterId(k))) missing += fmt::format(" {}", k);
    }
    text = fmt::format("waits for cluster(s){} to call {} too", missing, text_of(step_.facts.step));
  }
  if (text.empty()) text = local == 0 || in_parallel_ ? "computes" : "waits for parallel()";
  const std::string locks = engine_.locks_of(node);
  if (!locks.empty()) text += "; it has lock(s) " + locks;
  return text;
}

void Runtime::say_waits() {
  std::string text;
  {
    const Hold hold(*this);
    for (unsigned local = 0; local < environment_.compute; ++local)
      text += fmt::format("braid: compute node {} {}\n", node_id(local), explain(local));
  }
  // One call, so that lines of several processes on one terminal stay whole.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// --- Memory

std::optional<PageId> Runtime::allocate_together(const Allocation& allocation) {
  std::optional<PageId> first;
  {
    const Inside inside;
    const Hold hold(*this);
    first = engine_.allocate_together(allocation.pages, allocation.homes);
    if (!first) return {};
  }
  // Together, so that nobody asks a cluster for a page before that one knows that it is the page's home.
  take_step(allocation_facts(allocation));
  return first;
}

std::optional<PageId> Runtime::allocate_alone(unsigned local, const Allocation& allocation) {
  const Inside inside;
  const auto node = static_cast<std::uint16_t>(local);
  if (!begin(local, [&] { return engine_.allocate(node, allocation.pages, allocation.homes); })) wait(local);
  const Hold hold(*this);
  const std::uint64_t first = engine_.result(node);
  if (first == kNoPages) return {};
  return PageId(static_cast<std::uint32_t>(first));
}

std::uint32_t Runtime::free_pages() {
  const Inside inside;
  const Hold hold(*this);
  return engine_.free_pages();
}

const char* Runtime::cure_for_want_of_heap() const {
  static const std::string text =
      fmt::format("raise {} (`braid run --help` tells the option)", variable::kHeapMib);
  return text.c_str();
}

// --- Compute nodes

void Runtime::parallel(const std::function<void(Node&)>& body) {
  StepFacts facts;
  facts.step = Step::kParallel;
  take_step(facts);
  // What initial threads wrote before is seen by every compute node.
  all_nodes_barrier();
  run_on_all([&](unsigned local) { run_node(local, body); });
}

void Runtime::run_on_cluster(const std::function<void(unsigned)>& body) {
  run_on_all([&](unsigned local) { run_part(local, body); });
}

void Runtime::run_on_all(const std::function<void(unsigned)>& job) {
  in_parallel_ = true;
  {
    const std::lock_guard<std::mutex> guard(crew_mutex_);
    job_ = &job;
    ++round_;
    running_ = environment_.compute - 1u;
  }
  crew_called_.notify_all();
  job(0);
  {
    std::unique_lock<std::mutex> guard(crew_mutex_);
    crew_done_.wait(guard, [this] { return running_ == 0; });
  }
  in_parallel_ = false;
}

void Runtime::node_thread(unsigned local) {
  const SignalStack stack;
  this_thread.local = static_cast<int>(local);
  for (std::uint64_t seen = 0;;) {
    const std::function<void(unsigned)>* job = nullptr;
    {
      std::unique_lock<std::mutex> guard(crew_mutex_);
      crew_called_.wait(guard, [&] { return dismissed_ || round_ != seen; });
      if (dismissed_) return;
      seen = round_;
      job = job_;
    }
    {
      const Busy busy(*pulse_);
      (*job)(local);
    }
    const std::lock_guard<std::mutex> guard(crew_mutex_);
    if (--running_ == 0) crew_done_.notify_one();
  }
}

int Runtime::current_node() const {
  return this_thread.local;
}

void Runtime::adopt(unsigned local) const {
  if (this_thread.local >= 0) {
    fail("a thread that is compute node {} of its cluster already cannot be adopted as compute node {}",
         +this_thread.local, local);
  }
  if (local == 0 || local >= environment_.compute) {
    fail(
        "a thread cannot be adopted as compute node {} of its cluster: there are {}, and 0 is the initial "
        "thread; {} has more",
        local, environment_.compute, variable::kCompute);
  }
  this_thread.local = static_cast<int>(local);
}
void Runtime::leave() {
  this_thread.local = -1;
}

void Runtime::barrier_of_clusters() {
  all_nodes_barrier();
}

void Runtime::all_nodes_barrier() {
  const Inside inside;
  std::uint64_t under_way = 0;
  for (unsigned local = 0; local < environment_.compute; ++local) {
    if (!begin(local, [&] { return engine_.barrier(static_cast<std::uint16_t>(local), kOwnBarrier); }))
      under_way |= std::uint64_t{1} << local;
  }
  for (; under_way != 0; under_way &= under_way - 1) wait(static_cast<unsigned>(std::countr_zero(under_way)));
}

template <class Operation>
bool Runtime::begin(unsigned local, Operation&& operation) {
  const Hold hold(*this);
  nodes_[local].completion.begin();
  const bool complete = operation();
  if (!complete) waiting_ |= std::uint64_t{1} << local;
  // The operation may have completed siblings' ones: the last node at a barrier, for one.
  pump(local);
  tell_the_complete();
  return complete;
}

bool Runtime::on_fault(std::uintptr_t address, bool write) {
  if (!in_heap(address, memory_.pages())) return false;
  if (this_thread.local < 0) {
    say_touched_by_stranger();
    return false;
  }
  if (this_thread.inside) {
    say_touched_inside();
    return false;
  }
  const Inside inside;
  const Instant began = monotonic_now();
  const auto local = static_cast<unsigned>(this_thread.local);
  const PageId page = page_of(address);
  bool allocated = true;
  const bool complete = begin(local, [&] {
    if (!engine_.done(static_cast<std::uint16_t>(local))) {
      fail(
          "compute node {}: two threads touched shared memory for it at the same time; each adopted thread "
          "needs a compute node of its own, and works only outside parallel()",
          node_id(local));
    }
    allocated = page.value() < memory_.pages() - engine_.free_pages();
    return !allocated ||
           engine_.fault(static_cast<std::uint16_t>(local), page, write ? Access::kWrite : Access::kRead);
  });
  if (!allocated) {
    say_touched_behind_all();
    return false;
  }
  FaultStamps& stamps = nodes_[local].stamps;
  const bool tracing = tracing_.load(std::memory_order_relaxed);
  if (tracing) {
    stamps.entered = began;
    stamps.requested = monotonic_now();
    if (complete) stamps.answered = stamps.installed = stamps.requested;
  }
  if (!complete) {
    memory_.warm(page);  // while the request is on its way: new memory takes 2.5 us
    wait(local);
  }
  nodes_[local].times.faults_ns += (monotonic_now() - began).ns();
  return true;
}

FaultStamps Runtime::latest_fault() const {
  CHECK_GE(+this_thread.local, 0);
  return nodes_[this_thread.local].stamps;
}

void Runtime::lock(unsigned local, LockId lock) {
  const Inside inside;
  const auto node = static_cast<std::uint16_t>(local);
  const bool complete = begin(local, [&] {
    fail_for_misuse(local, LockMisuse::of_lock(lock, engine_.holds(node, lock)));
    return engine_.lock(node, lock);
  });
  if (complete) return;
  // The clock is read only for a call that waits: one that need not must cost about a mutex.
  const Instant began = monotonic_now();
  wait(local);
  nodes_[local].times.locks_ns += (monotonic_now() - began).ns();
}

void Runtime::unlock(unsigned local, LockId lock) {
  const Inside inside;
  const Hold hold(*this);
  const auto node = static_cast<std::uint16_t>(local);
  fail_for_misuse(local, LockMisuse::of_unlock(lock, engine_.holds(node, lock)));
  engine_.unlock(node, lock);
  pump(local);
  tell_the_complete();
}

Reduced Runtime::barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) {
  const Inside inside;
  const Instant began = monotonic_now();
  const auto node = static_cast<std::uint16_t>(local);
  if (!begin(local, [&] { return engine_.barrier(node, barrier, reduction, value); })) wait(local);
  nodes_[local].times.barriers_ns += (monotonic_now() - began).ns();
  // Nobody writes a node's result while it waits for nothing.
  return {engine_.result(node), engine_.reduction(node)};
}

std::uint64_t Runtime::sync(unsigned local, const SyncCall& call) {
  const Inside inside;
  const Instant began = monotonic_now();
  const auto node = static_cast<std::uint16_t>(local);
  const bool complete = begin(local, [&] {
    fail_for_misuse(local, LockMisuse::of_sync(call, [&](LockId lock) { return engine_.holds(node, lock); }));
    return engine_.sync(node, call);
  });
  if (!complete) wait(local);
  nodes_[local].times.syncs_ns += (monotonic_now() - began).ns();
  return engine_.result(node);
}

// --- Serving

bool Runtime::operation_complete(unsigned local) const {
  if (local == 0 && step_under_way_) return step_complete();
  return engine_.done(static_cast<std::uint16_t>(local));
}

void Runtime::tell_the_complete() {
  std::uint64_t waiting = waiting_ | (step_under_way_ ? 1u : 0u);
  while (waiting != 0) {
    const auto local = static_cast<unsigned>(std::countr_zero(waiting));
    waiting &= waiting - 1;
    if (!operation_complete(local)) continue;
    waiting_ &= ~(std::uint64_t{1} << local);
    if (tracing_.load(std::memory_order_relaxed)) {
      nodes_[local].stamps.answered = message_taken_;
      nodes_[local].stamps.installed = monotonic_now();
    }
    nodes_[local].completion.tell();
  }
}

// PG-27
void Runtime::fail_for_refusal(const Refusal& refusal) const {
  fail(
      "cluster {}: cluster {} sent {} ({}, number {}, {} bytes), which is refused: {}. "
      "A message was damaged, lost or doubled on its way, so the program cannot go on",
      environment_.cluster, refusal.from.value(), refusal.what, refusal.id, refusal.number, refusal.bytes,
      refusal.why);
}

void Runtime::on_message(ClusterId from, ByteView message) {
  if (tracing_.load(std::memory_order_relaxed)) message_taken_ = monotonic_now();
  const ByteView body =
      message.size() < kMessageHeaderBytes ? ByteView() : message.subspan(kMessageHeaderBytes);
  if (!body.empty() && message[0] == kEngineMessage) {
    engine_.on_message(from, body);
    if (engine_.refusal()) fail_for_refusal(*engine_.refusal());
  } else if (body.empty() || message[0] != kStepMessage || !steps_.on_message(from, body)) {
    fail_for_refusal({.from = from,
                      .what = "bytes that are no message of a runtime",
                      .bytes = message.size(),
                      .why = "they have another form, or tell of a step that cannot be next"});
  }
  // At once: whoever asked waits for the reply, not for the rest of this batch.
  if (engine_.output_clusters() != 0) pump(server_lane_);
}

// Sends what there is for one cluster; false if something had to stay for want of room.
bool Runtime::pump_to(ClusterId to, unsigned lane) {
  const std::uint64_t bit = std::uint64_t{1} << to.value();
  if ((steps_to_send_ & bit) != 0) {
    const MutableBytes room = network_->reserve(to, kMessageHeaderBytes + sizeof step_, lane);
    if (room.empty()) return false;
    std::memset(room.data(), 0, kMessageHeaderBytes);
    room[0] = kStepMessage;
    store(room.data() + kMessageHeaderBytes, step_);
    network_->commit(to, kMessageHeaderBytes + sizeof step_);
    steps_to_send_ &= ~bit;
  }
  while (engine_.has_output(to)) {
    const MutableBytes room = network_->reserve(to, kMessageHeaderBytes + kMaxMessageBytes, lane);
    if (room.empty()) return false;
    const std::size_t bytes = engine_.poll_transmit(to, room.subspan(kMessageHeaderBytes));
    if (bytes == 0) break;
    std::memset(room.data(), 0, kMessageHeaderBytes);
    room[0] = kEngineMessage;
    network_->commit(to, static_cast<std::uint32_t>(kMessageHeaderBytes + bytes));
  }
  return true;
}

void Runtime::pump(unsigned lane) {
  if (network_ == nullptr) return;
  std::uint64_t clusters = engine_.output_clusters() | steps_to_send_;
  if (clusters == 0) {
    // Read before it is written: most calls come here, and the line is shared.
    if (output_pending_.load(std::memory_order_relaxed))
      output_pending_.store(false, std::memory_order_relaxed);
    return;
  }
  bool all_sent = true;
  for (; clusters != 0; clusters &= clusters - 1) {
    const ClusterId to(static_cast<std::uint16_t>(std::countr_zero(clusters)));
    // What is meant for a cluster that has finished and left, nobody waits for.
    if ((gone_ >> to.value() & 1) == 0 && !pump_to(to, lane)) all_sent = false;
  }
  network_->flush();
  output_pending_.store(!all_sent, std::memory_order_seq_cst);
}

bool Runtime::serve(unsigned lane) {
  server_lane_ = lane;
  const int handled = network_->poll(*this, kBatch);
  if (handled > 0 || output_pending_.load(std::memory_order_relaxed)) pump(lane);
  // Often enough to end within a moment of a peer, rarely enough to cost nothing.
  constexpr std::uint32_t kServesPerCheck = 64;
  if (handled == 0 && ++serves_ % kServesPerCheck == 0) check_links();
  if (handled > 0) tell_the_complete();
  return handled > 0;
}

void Runtime::check_links() {
  for (std::uint16_t k = 0; k < environment_.clusters; ++k) {
    if (k == environment_.cluster || (gone_ >> k & 1) != 0) continue;
    if (const char* const trouble = network_->trouble(ClusterId(k))) judge_link(ClusterId(k), trouble);
  }
}

void Runtime::judge_link(ClusterId peer, const char* trouble) {
  // What it sent before has arrived, and may be its farewell.
  while (network_->poll(*this, kBatch) > 0) continue;
  if (step_under_way_ && steps_.disagreement()) {
    tell_the_complete();  // it left for that reason; the initial thread explains it
    return;
  }
  if (!finishing_ || !steps_.has_taken(peer, Step::kFinish))
    fail("cluster {}: lost cluster {}: {}", environment_.cluster, peer.value(), trouble);
  gone_ |= std::uint64_t{1} << peer.value();
  tell_the_complete();
}

// --- Waiting

bool Runtime::work_is_there() const {
  return network_->has_arrivals() || output_pending_.load(std::memory_order_seq_cst);
}

void Runtime::enter_polling() {
  if (network_ != nullptr && pollers_.fetch_add(1, std::memory_order_seq_cst) == 0) network_->disarm();
}

// No wake-up is lost:
//
// 1. The bell is armed whenever nobody polls. The thread that takes pollers_ from 1 to 0 arms it. A disarm()
//    belongs to a step from 0 to 1, and its thread makes it before it leaves; so the next step from 1 to 0
//    comes after it in the order of pollers_, and its arm() after that disarm().
// 2. What arrives after arm() rings, and the server wakes: Network::wait() returns for a ring since its last
//    return, also if another thread armed the bell.
// 3. What arrived before arm() and was not taken is seen by the look after it, and so is output that waits
//    for room: the thread that leaves wakes the server.
// 4. The server, before it sleeps, makes the same two moves in the same order if nobody polls. If somebody
//    polls, it disarms the bell, which may have rung (else it could not sleep), and looks again whether
//    somebody polls: whoever does now will arm the bell after this disarm().
// 5. Another poller that enters between the leaver's two moves serves what the look would have found, or
//    finds it when it leaves itself.
void Runtime::leave_polling() {
  if (network_ == nullptr || pollers_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  network_->arm();
  if (work_is_there()) network_->wake();
}

void Runtime::wait(unsigned local, Instant deadline) {
  LocalNode& node = nodes_[local];
  Completion& completion = node.completion;
  const Idle idle(*pulse_);
  enter_polling();
  const bool crowded = node.crowded_waits > 0 && !drives_proxies_;
  if (crowded) --node.crowded_waits;
  Instant now = monotonic_now();
  Instant idle_since = Instant::never();
  for (int looks = 0; !completion.done(); ++looks) {
    // Poll now and then even if nothing seems to be there: only polls look at the links. Where proxies work
    // in the poll, that is the look.
    constexpr int kLooksPerPoll = 8;
    const bool worth_it =
        network_ != nullptr && (drives_proxies_ || work_is_there() || looks % kLooksPerPoll == 0);
    if (worth_it && combiner_.try_lock()) {
      const bool served = serve(local);
      combiner_.unlock();
      if (served) {
        looks = 0;
        idle_since = Instant::never();
        continue;
      }
    }
    constexpr int kLooksBeforePark = 32;
    if (looks < (crowded ? kLooksBeforePark : looks_before_yield_)) {
      if (!drives_proxies_) _mm_pause();  // a turn of the proxies is pause enough
      continue;
    }
    if (idle_since == Instant::never()) idle_since = now = monotonic_now();
    bool sleeps = crowded;
    if (!crowded) {
      const Instant before = now;
      ::sched_yield();
      now = monotonic_now();
      if (now - before > kLongYield) node.crowded_waits = kCrowdedWaits;
      sleeps = now - before > kLongYield || now - idle_since >= kPatience;
    }
    if (now >= deadline) break;
    if (!sleeps || drives_proxies_) continue;  // nothing would wake it
    leave_polling();
    completion.park(std::min(kWatch, deadline == Instant::never() ? kWatch : deadline - now));
    enter_polling();
    idle_since = Instant::never();
  }
  leave_polling();
}

void Runtime::server_thread() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  Instant last_check = monotonic_now();
  int idle = 0;
  while (!stopping_.load()) {
    const bool nobody_polls = pollers_.load(std::memory_order_seq_cst) == 0;
    if (nobody_polls && (drives_proxies_ || work_is_there())) {
      if (combiner_.try_lock()) {
        if (serve(0)) idle = 0;
        combiner_.unlock();
      }
      // Output without room: its receiver must run first.
      constexpr int kYields = 64;
      if (++idle < kYields) {
        ::sched_yield();
      } else {
        ::usleep(50);
      }
    } else {
      if (nobody_polls) {
        network_->arm();
        if (stopping_.load()) break;
        if (pollers_.load(std::memory_order_seq_cst) == 0 && work_is_there()) continue;
      } else {
        network_->disarm();
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (pollers_.load(std::memory_order_seq_cst) == 0) continue;
      }
      network_->wait(drives_proxies_ ? kUnrung : kWatch);
      idle = 0;
    }
    const Instant now = monotonic_now();
    if (now - last_check < kWatch) continue;
    last_check = now;
    combiner_.lock();
    check_links();
    combiner_.unlock();
  }
}

}  // namespace braid::dsm
