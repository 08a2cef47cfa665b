#include "dsm/live/runtime.h"

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/output_file.h"
#include "base/short_turns.h"
#include "base/system_error.h"
#include "dsm/live/allocation_sites.h"
#include "dsm/live/debugger.h"
#include "dsm/live/runtime_message.h"
#include "dsm/live/this_thread.h"
#include "dsm/program/build_id.h"
#include "dsm/program/crash_report.h"
#include "dsm/program/end_record.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/program_signals.h"

namespace braid::dsm {

namespace {

// How long finish() waits for the last call of the others. All
// have finished by then, so only a lost process can be missing.
constexpr Duration kLeaveTimeout = 2_s;
// Of the program's threads on a processor that others want too: five of a proxy's, because they compute.
constexpr Duration kTurn = 500_us;

constexpr std::string_view kComputes = "computes";

Shape shape_of(const Environment& e) {
  return {.clusters = e.clusters,
          .cluster = e.cluster,
          .compute = e.compute,
          .heap_pages = static_cast<std::uint32_t>(page_length().pages_in(std::size_t{e.heap_mib} << 20)),
          .protocol = e.protocol,
          .page_length = page_length()};
}

Result<Memory> make_memory(const Environment& environment) {
  const std::uint32_t pages = shape_of(environment).heap_pages;
  if (environment.protect != Environment::Protect::kMprotect) {
    Result<Memory> memory = Memory::make(pages, Protection::kUserfaultfd);
    if (memory || environment.protect == Environment::Protect::kUserfaultfd) return memory;
  }
  return Memory::make(pages, Protection::kMprotect);
}

// exit() before finish(), on whichever thread.
void on_exit_of_process(int, void*) {
  const Host* const host = current_host();
  if (host == nullptr || is_forked_child()) return;
  const int local = host->current_node();
  (void)record_end(EndCause::kExit,
                   {.node = local < 0 ? -1 : static_cast<int>(host->node_id(static_cast<unsigned>(local)))});
}
void record_exits() {
  static const int registered = ::on_exit(on_exit_of_process, nullptr);
  CHECK_EQ(registered, 0);
}

}  // namespace

// --- Beginning and end

Result<std::unique_ptr<Runtime>> Runtime::start(const Environment& environment,
                                                std::unique_ptr<Network> network,
                                                const std::string& program) {
  CHECK_EQ(network != nullptr, environment.clusters > 1);
  if (globals_window().pages > 0 && !main_runs_once())
    return error(
        "the program was linked with --shared-globals, but main() runs in every cluster, and each would change the same "
        "globals: call start_clusters() (in C: braid_start_clusters()) before init(), or let CREATE of the ANL macros do it");
  if (globals_window().pages >= shape_of(environment).heap_pages)
    fail_for_large_globals(std::size_t{environment.heap_mib} << 20, variable::kHeapMib);
  // It has been waited for before main(): an archive's member comes with its first reference.
  wait_for_debugger();
  Result<Memory> memory = make_memory(environment);
  if (!memory) return memory.error();
  std::unique_ptr<Runtime> runtime(new Runtime(environment, std::move(network), std::move(memory).value()));
  if (environment.pulse_fd >= 0) {
    const Result<void> mapped = runtime->pulse_.map(environment.pulse_fd);
    if (!mapped) return mapped.error();
    set_end_record(runtime->pulse_.end_record());
    record_exits();
  }
  const Result<void> installed = install_fault_handler(runtime.get(), HandlerStack::kSignalStack);
  if (!installed) return installed.error();
  this_thread.local = 0;
  runtime->pulse_.begin_work();
  runtime->pulse_.publish();
  runtime->inspector_.emplace([own = runtime.get()] { own->write_waits(); });
  if (runtime->network_ != nullptr) {
    take_short_turns(kTurn);
    runtime->combiner_.descriptors().add(runtime->memory_.descriptor(),
                                         "which forbids accesses to shared memory");
    runtime->combiner_.descriptors().add(runtime->network_->descriptor(), "its connection to braidd");
    runtime->server_.emplace(
        *runtime->network_, runtime->combiner_, runtime->pollers_,
        [own = runtime.get()](Instant now) { own->activity_.look(now, own->parallel_time_.is_running()); });
    runtime->call_together(join_call(kRuntimeVersion, runtime->shape(), program, build_id()),
                           monotonic_now() + environment.connect_timeout);
  }
  runtime->crew_.emplace(environment.compute, runtime->pulse_);
  if (const Result<void> shared = runtime->share_globals(); !shared) return shared.error();
  report_crash_signals();
  record_joined();
  return runtime;
}

Runtime::Runtime(const Environment& environment, std::unique_ptr<Network> network, Memory memory)
    : Host(shape_of(environment)),
      environment_(environment),
      processors_(environment.processors),
      network_(std::move(network)),
      memory_(std::move(memory)),
      combiner_(shape(), memory_, network_.get()),
      pollers_(network_.get(), combiner_),
      waits_(environment.compute, network_.get(), combiner_, pollers_, pulse_, environment.computing),
      activity_(environment.compute, combiner_, pulse_),
      times_(std::make_unique<Times[]>(environment.compute)) {}

Runtime::~Runtime() {
  inspector_.reset();
  stop_threads();
  remove_fault_handler();
  this_thread.local = -1;
}

void Runtime::stop_threads() {
  crew_.reset();
  server_.reset();
}

void Runtime::finish() {
  combiner_.check_descriptors();
  end_parallel_time();
  // Inside parallel() the process ends with its threads, which need not be at any barrier.
  if (!in_parallel_) collect_globals();
  {
    const Inside inside;
    const std::lock_guard hold(combiner_);
    combiner_.call().allow_leaving();
  }
  CollectiveCall call;
  call.kind = CallKind::kFinish;
  call_together(call);
  // Every cluster has called finish(), so none needs a page of this one any
  // more. The second call shows each that all know this, so all may leave.
  call.kind = CallKind::kLeave;
  call_together(call, monotonic_now() + kLeaveTimeout, AtDeadline::kGoOn);
  stop_threads();
  record_finished();
  if (environment_.report_fd < 0) return;
  // Where nobody takes it the result of the program is the same.
  (void)write_all(environment_.report_fd, report());
  ::close(environment_.report_fd);
}

bool Runtime::is_spare(unsigned local) {
  NodeCounts counts = combiner_.engine().node_counts(static_cast<std::uint16_t>(local));
  counts.barriers = 0;  // it was at those of all nodes, with which parallel() begins and ends
  return environment_.computing != 0 && local >= environment_.computing && counts.did_nothing();
}

// After stop_threads(): no other thread takes the combiner lock any more.
std::string Runtime::report() {
  std::vector<NodeReport> nodes;
  for (unsigned local = 0; local < environment_.compute; ++local) {
    if (is_spare(local)) continue;
    const NodeCounts& all = combiner_.engine().node_counts(static_cast<std::uint16_t>(local));
    nodes.push_back(
        {node_id(local), difference(all, times_[local].counts_before), times_[local], &times_[local].costs});
  }
  return report_json(environment_.cluster, to_string(memory_.protection()), parallel_time_.total(), nodes,
                     combiner_.engine().counts(), network_ ? network_->counts() : NetworkCounts{}, before_,
                     written_globals());
}

void Runtime::call_together(const CollectiveCall& call, Instant deadline, AtDeadline then) {
  if (network_ == nullptr) return;
  const Inside inside;
  const auto local = static_cast<unsigned>(this_thread.local);
  if (!combiner_.start_call(local, call)) waits_.wait(local, deadline);
  const std::lock_guard hold(combiner_);
  CurrentCall& current = combiner_.call();
  current.end();
  if (current.disagreement()) {
    const std::string text = current.explain();
    fail_with_text(text.data(), text.size());
  }
  if (current.complete() || then == AtDeadline::kGoOn) return;
  const std::string text =
      fmt::format("cluster {}: cluster(s){} did not join within {} ms: a larger {} gives slow ones more time",
                  environment_.cluster, current.missing(), environment_.connect_timeout.ns() / 1'000'000,
                  variable::kConnectTimeoutMs);
  fail_with_text(text.data(), text.size());
}

// --- Reports

// With the combiner lock held.
std::string Runtime::explain_wait(unsigned local) {
  const auto node = static_cast<std::uint16_t>(local);
  const CurrentCall& call = combiner_.call();
  std::string text = combiner_.engine().explain_wait(node);
  if (text.empty() && combiner_.calls_together(local))
    text = fmt::format("waits for cluster(s){} to call {} too", call.missing(), text_of(call.kind()));
  if (text.empty()) text = local == 0 || in_parallel_ ? kComputes : "waits for parallel()";
  const std::string locks = combiner_.engine().locks_of(node);
  if (!locks.empty()) text += "; it has lock(s) " + locks;
  return text;
}

// " without a call of the runtime for 31 s, in search at search.c:12", or nothing.
std::string Runtime::explain_computing(unsigned local) {
  const Duration alone = activity_.computing_alone(local);
  if (alone == Duration()) return {};
  const std::string place = place_of_thread(pulse_.thread_of(local));
  return fmt::format(" without a call of the runtime for {:.0f} s{}{}", alone.s(),
                     place.empty() ? "" : ", now in ", place);
}

void Runtime::write_waits() {
  std::vector<std::pair<unsigned, std::string>> waits;
  {
    const std::lock_guard hold(combiner_);
    for (unsigned local = 0; local < environment_.compute; ++local) {
      if (is_spare(local)) continue;
      std::string wait = explain_wait(local);
      const bool has_nothing_to_run = in_parallel_ && wait == kComputes && pulse_.thread_of(local) == 0;
      if (!has_nothing_to_run) waits.emplace_back(local, std::move(wait));
    }
  }
  std::string text;
  for (auto& [local, wait] : waits) {
    // Not with the combiner lock: it asks the node's thread.
    if (wait.starts_with(kComputes)) wait.insert(kComputes.size(), explain_computing(local));
    text += fmt::format("braid: compute node {} {}\n", node_id(local), wait);
  }
  // One call, so that lines of several processes on one terminal stay whole.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// --- Memory

std::optional<PageId> Runtime::allocate_together(const Allocation& allocation) {
  std::optional<PageId> first;
  {
    const Inside inside;
    const std::lock_guard hold(combiner_);
    first = combiner_.engine().allocate_together(allocation.pages, allocation.homes);
    if (!first) return {};
  }
  note_allocation(application_address(*first), allocation.bytes);
  // As a collective call, so that no cluster requests a page from a home that does not know it yet.
  call_together(allocation_call(allocation));
  return first;
}

std::optional<PageId> Runtime::allocate_alone(unsigned local, const Allocation& allocation) {
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  PageId first;
  {
    const Inside inside;
    if (!combiner_.start(local, [&] { return engine.allocate(node, allocation.pages, allocation.homes); }))
      waits_.wait(local);
    const std::lock_guard hold(combiner_);
    const std::uint64_t result = engine.result(node);
    if (result == kNoPages) return {};
    first = PageId(static_cast<std::uint32_t>(result));
  }
  // Not inside: it looks at the program's stack, which may be in shared memory.
  note_allocation(application_address(first), allocation.bytes);
  return first;
}

// The first allocation of every cluster, so that the globals have the heap's first pages.
Result<void> Runtime::share_globals() {
  const GlobalsWindow& globals = globals_window();
  if (globals.pages == 0) return {};
  {
    const std::lock_guard hold(combiner_);
    combiner_.engine().place_objects(first_place_of_globals(shape().heap_pages), globals.address);
  }
  Allocation allocation;
  allocation.bytes = page_length().bytes_of(globals.pages);
  allocation.placement = Placement::first_touch();
  allocation.pages = globals.pages;
  allocation.homes = {.kind = Homes::Kind::kFirstTouch};
  const std::optional<PageId> first = allocate_together(allocation);
  CHECK(first == PageId(0));
  fill(*first, {reinterpret_cast<const std::byte*>(globals.address), allocation.bytes});  // NOLINT
  if (const Result<void> opened = memory_.open_globals(); !opened) return opened.error();
  // No cluster may ask a home for a page that it has not filled yet.
  barrier_of_clusters();
  return {};
}

// main() goes on in cluster 0 when there is no machine any more: it reads what the others have written by now.
void Runtime::collect_globals() {
  const std::uint32_t pages = globals_window().pages;
  if (pages == 0 || environment_.clusters == 1) return;
  barrier_of_clusters();
  if (environment_.cluster != 0) return;
  for (std::uint32_t p = 0; p < pages; ++p) {
    bool is_here = true;
    {
      const Inside inside;
      const std::lock_guard hold(combiner_);
      is_here = combiner_.engine().access(PageId(p)) != Access::kNone;
    }
    if (!is_here) (void)*static_cast<volatile char*>(application_address(PageId(p)));
  }
}

std::uint32_t Runtime::free_pages() {
  const Inside inside;
  const std::lock_guard hold(combiner_);
  return combiner_.engine().free_pages();
}

const char* Runtime::cure_for_full_heap() const {
  static const std::string text =
      fmt::format("raise {} (`braid run --help` tells the option)", variable::kHeapMib);
  return text.c_str();
}

// --- Compute nodes

void Runtime::enter_parallel() {
  if (const int replaced = fault_signals_replaced(); replaced != 0) {
    fail(
        "the handler of {} was replaced by other means than sigaction() and signal(), so shared memory cannot work: "
        "install it by one of those, which let both handlers be",
        replaced == SIGSEGV ? "SIGSEGV" : "SIGBUS");
  }
  combiner_.check_descriptors();
  CollectiveCall call;
  call.kind = CallKind::kParallel;
  call_together(call);
  // Every compute node sees what the initial threads wrote before.
  barrier_of_clusters();
  begin_parallel_time();
}

void Runtime::begin_parallel_time() {
  const std::lock_guard hold(combiner_);
  parallel_time_.enter(monotonic_now(), 1);
}

// Does nothing outside parallel(), and when it was called before.
void Runtime::end_parallel_time() {
  const std::lock_guard hold(combiner_);
  if (parallel_time_.is_running()) parallel_time_.end(monotonic_now());
}

void Runtime::parallel(const std::function<void(Node&)>& body) {
  enter_parallel();
  run_on_all([&](unsigned local) { run_node(local, body); });
  end_parallel_time();
}

void Runtime::begin_parallel(std::function<void(Node&)> body) {
  enter_parallel();
  in_parallel_ = true;
  processors_.bind(0);
  if (!body) return;
  open_job_ = [this, run = std::move(body)](unsigned local) {
    processors_.bind(local);
    run_node(local, run);
  };
  crew_->start(open_job_);
}

// A thread that start_node() has made. Its object is the value of a key, so it is destroyed when the thread ends, after all
// thread-local variables. It is none of these because exit() destroys them, too, and the thread that calls it does not end.
struct Runtime::StartedNode {
  Runtime& runtime;
  unsigned local;
  NodeThread thread;
  SignalStack stack;

  StartedNode(Runtime& of, unsigned node, const NodeThread& what) : runtime(of), local(node), thread(what) {
    this_thread.local = static_cast<int>(local);
    runtime.processors_.bind(local);
    if (!thread.only_serves) runtime.pulse_.begin_work();
  }
  ~StartedNode() {
    thread.ended(thread.argument);
    if (!thread.only_serves) runtime.pulse_.end_work();
    this_thread.local = -1;
  }
  StartedNode(const StartedNode&) = delete;
  StartedNode& operator=(const StartedNode&) = delete;
};

namespace {
struct Start {
  Runtime* runtime;
  unsigned local;
  Host::NodeThread thread;
};
}  // namespace

void* Runtime::run_started_node(void* started) {
  const std::unique_ptr<Start> start(static_cast<Start*>(started));
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    const int problem = ::pthread_key_create(&made, [](void* own) { delete static_cast<StartedNode*>(own); });
    if (problem != 0) fail("cannot make a key for the data of threads: {}", cause_and_cure(problem).c_str());
    return made;
  }();
  auto node = std::make_unique<StartedNode>(*start->runtime, start->local, start->thread);
  if (const int problem = ::pthread_setspecific(key, node.get()); problem != 0)
    fail("cannot keep the data of a thread: {}", cause_and_cure(problem).c_str());
  const NodeThread thread = node.release()->thread;
  thread.body(thread.argument);
  return nullptr;
}

bool Runtime::start_node(unsigned local, const NodeThread& thread) {
  auto start = std::make_unique<Start>(Start{this, local, thread});
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t made{};
  const int error_number = ::pthread_create(&made, &attributes, &Runtime::run_started_node, start.get());
  ::pthread_attr_destroy(&attributes);
  if (error_number != 0) return errno = error_number, false;
  (void)start.release();
  return true;
}

void Runtime::end_parallel() {
  processors_.release();
  if (!open_job_) {
    end_parallel_time();
    in_parallel_ = false;
    return;
  }
  (void)barrier(0, kOwnBarrier, Reduction::kNone, 0);
  crew_->wait();
  end_parallel_time();
  in_parallel_ = false;
  open_job_ = nullptr;
}

void Runtime::fill(PageId first, std::span<const std::byte> contents) {
  std::byte* const pages = memory_.page(first);
  for (std::size_t at = 0; at < contents.size(); at += kHostPageBytes) {
    const std::span part = contents.subspan(at, std::min(kHostPageBytes, contents.size() - at));
    // Memory that was never written stays without pages.
    if (std::any_of(part.begin(), part.end(), [](std::byte b) { return b != std::byte{}; }))
      std::memcpy(pages + at, part.data(), part.size());
  }
}

void Runtime::run_on_cluster(const std::function<void(unsigned)>& body) {
  run_on_all([&](unsigned local) { run_part(local, body); });
}

void Runtime::run_on_all(const std::function<void(unsigned)>& job) {
  in_parallel_ = true;
  crew_->run([&](unsigned local) {
    processors_.bind(local);
    job(local);
  });
  processors_.release();
  in_parallel_ = false;
}

// The initial thread takes every compute node of its cluster to the barrier.
void Runtime::barrier_of_clusters() {
  const Inside inside;
  std::bitset<kMaxComputeNodes> in_progress;
  for (unsigned local = 0; local < environment_.compute; ++local) {
    const auto node = static_cast<std::uint16_t>(local);
    if (!combiner_.start(local, [&] { return combiner_.engine().barrier(node, kOwnBarrier); }))
      in_progress.set(local);
  }
  for (unsigned local = 0; local < environment_.compute; ++local)
    if (in_progress[local]) waits_.wait(local);
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

void Runtime::abandon_in_child() {
  processors_.release();
  if (inspector_) inspector_->abandon_in_child();
}

void Runtime::on_unmapped(std::uintptr_t address) {
  // A child has no view. Here it lives as long as the handler, unless the program unmaps it.
  if (in_heap(address, memory_.pages()) && ::getpid() != owner_) fail_access_in_child();
}

bool Runtime::on_fault(std::uintptr_t address, bool write) {
  if (!in_heap(address, memory_.pages())) return false;
  if (this_thread.local < 0) {
    {
      const std::lock_guard hold(combiner_);
      if (memory_.reveal(page_of(address), write)) return true;  // which its cluster may use
    }
    report_foreign_access();
    return false;
  }
  check_stack(static_cast<unsigned>(this_thread.local), address);
  if (this_thread.inside) {
    report_access_inside_runtime();
    return false;
  }
  const Inside inside;
  const Instant began = monotonic_now();
  const auto local = static_cast<unsigned>(this_thread.local);
  const auto node = static_cast<std::uint16_t>(local);
  const PageId page = page_of(address);
  Engine& engine = combiner_.engine();
  const Access wanted = write ? Access::kWrite : Access::kRead;
  bool allocated = true;
  bool was_open = false;
  const bool complete = combiner_.start(local, [&] {
    if (!engine.done(node)) {
      fail(
          "compute node {}: two threads accessed shared memory for it at the same time; each adopted thread "
          "needs a compute node of its own, and works only outside parallel()",
          node_id(local));
    }
    allocated = page.value() < memory_.pages() - engine.free_pages();
    if (allocated && memory_.reveal(page, write)) return true;
    was_open = allocated && engine.access(page) >= wanted;
    return !allocated || engine.fault(node, page, wanted);
  });
  if (!allocated) {
    report_access_behind_heap();
    return false;
  }
  if (times_[local].repetitions.on_fault(address, was_open)) fail_for_endless_faults(local, address);
  if (combiner_.tracing()) {
    FaultStamps& stamps = combiner_.stamps(local);
    stamps.entered = began;
    stamps.requested = monotonic_now();
    if (complete) stamps.answered = stamps.installed = stamps.requested;
  }
  if (!complete) {
    memory_.warm(page);  // while the request is in flight: new memory takes 2.5 us
    waits_.wait(local);
  }
  const Duration took = monotonic_now() - began;
  times_[local].faults_ns += took.ns();
  times_[local].costs.on_fault(page, static_cast<std::uint16_t>(page_length().offset_in_page(address)), write,
                               took);
  return true;
}

void Runtime::fail_for_endless_faults(unsigned local, std::uintptr_t address) const {
  fail(
      "compute node {}: address {:#x} of shared memory stays forbidden although the runtime has permitted the access: the "
      "program must not change the heap's protections or mappings (mprotect(), mmap())",
      node_id(local), address);
}

FaultStamps Runtime::latest_fault() {
  CHECK_GE(+this_thread.local, 0);
  return combiner_.stamps(static_cast<unsigned>(this_thread.local));
}

void Runtime::prefetch(unsigned local, PageId first, std::uint32_t count) {
  const Inside inside;
  combiner_.perform(local, [&] { combiner_.engine().prefetch(first, count); });
}

void Runtime::lock(unsigned local, LockId lock) {
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  if (engine.take_open_lock(node, lock)) return;
  const Inside inside;
  const bool complete = combiner_.start(local, [&] {
    fail_for_misuse(local, LockMisuse::of_lock(lock, engine.holds(node, lock)));
    return engine.lock(node, lock);
  });
  if (complete) return;
  // The clock is read only for a call that waits: a call without a wait must cost about as much as a mutex.
  const Instant began = monotonic_now();
  waits_.wait(local);
  const Duration waited = monotonic_now() - began;
  times_[local].locks_ns += waited.ns();
  times_[local].costs.on_lock(lock, waited);
}

void Runtime::unlock(unsigned local, LockId lock) {
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  if (engine.free_open_lock(node, lock)) return;
  const Inside inside;
  combiner_.perform(local, [&] {
    fail_for_misuse(local, LockMisuse::of_unlock(lock, engine.holds(node, lock)));
    engine.unlock(node, lock);
  });
}

bool Runtime::try_lock(unsigned local, LockId lock) {
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  if (engine.take_open_lock(node, lock)) return true;
  const Inside inside;
  if (!combiner_.start(local, [&] { return engine.try_lock(node, lock); })) {
    const Instant began = monotonic_now();
    waits_.wait(local);
    times_[local].locks_ns += (monotonic_now() - began).ns();
  }
  return engine.result(node) != 0;
}

Reduced Runtime::barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) {
  const Inside inside;
  const Instant began = monotonic_now();
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  if (!combiner_.start(local, [&] { return engine.barrier(node, barrier, reduction, value); }))
    waits_.wait(local);
  times_[local].barriers_ns += (monotonic_now() - began).ns();
  // A node's result is not written while it waits for nothing.
  return {engine.result(node), engine.reduction(node)};
}

std::uint64_t Runtime::sync(unsigned local, const SyncCall& call) {
  const Inside inside;
  const Instant began = monotonic_now();
  const auto node = static_cast<std::uint16_t>(local);
  Engine& engine = combiner_.engine();
  const bool complete = combiner_.start(local, [&] {
    fail_for_misuse(local, LockMisuse::of_sync(call, [&](LockId lock) { return engine.holds(node, lock); }));
    return engine.sync(node, call);
  });
  if (!complete) waits_.wait(local);
  times_[local].syncs_ns += (monotonic_now() - began).ns();
  return engine.result(node);
}

void Runtime::reset_figures(unsigned local) {
  const Inside inside;
  std::vector<CounterValues> proxies;
  if (network_) proxies = network_->proxy_counters();
  const std::lock_guard hold(combiner_);
  Times& times = times_[local];
  static_cast<NodeTimes&>(times) = {};
  times.costs = {};
  times.counts_before = combiner_.engine().node_counts(static_cast<std::uint16_t>(local));
  // Each node does this for its cluster, and the last one is right.
  before_.cluster = combiner_.engine().counts();
  if (parallel_time_.is_running()) parallel_time_.restart(monotonic_now());
  if (!network_) return;
  before_.endpoint = network_->counts();
  before_.proxies = std::move(proxies);
}

}  // namespace braid::dsm
