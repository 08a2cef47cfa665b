#include "sim/shell/shell.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>

#include "base/check.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"

namespace braid::sim {

using dsm::fail;
using dsm::kPageBytes;
using dsm::LockId;

namespace {

// Changes with what programs of different clusters must agree on.
constexpr std::uint64_t kShellVersion = 1;

constexpr const char* kCure = "this program was built for simulation: run it with `braid sim`";

// Whoever waits for a turn looks so often whether the engine is still there.
constexpr timespec kLookForEngine = {.tv_sec = 1, .tv_nsec = 0};

// For the handlers of faults and of spent budgets, which know no object.
ShellHost* the_shell = nullptr;

double seconds_at_end = 0;

// The thread that the compute nodes are fibres of. Initial-exec: reading it inside a fault allocates nothing.
thread_local volatile bool is_the_programs_thread __attribute__((tls_model("initial-exec"))) = false;

// A descriptor that the environment names, of at least this many bytes.
Result<int> read_descriptor(const ShellHost::Lookup& lookup, const char* name, std::size_t least_bytes) {
  const char* const text = lookup(name);
  if (text == nullptr) return error("{} is not set: {}", name, kCure);
  int fd = -1;
  const char* const end = text + std::strlen(text);
  const std::from_chars_result parsed = std::from_chars(text, end, fd);
  struct stat status = {};
  if (parsed.ec != std::errc() || parsed.ptr != end || ::fstat(fd, &status) != 0)
    return error("{} is '{}', which is no open descriptor: {}", name, text, kCure);
  if (static_cast<std::size_t>(status.st_size) < least_bytes)
    return error("{} is '{}', of {} bytes where {} are needed: program and simulator are of different builds",
                 name, text, status.st_size, least_bytes);
  return fd;
}

Result<Control*> map_control(const ShellHost::Lookup& lookup) {
  const Result<int> fd = read_descriptor(lookup, variable::kControlFd, sizeof(Control));
  if (!fd) return fd.error();
  void* const memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kControlFd, *fd, std::strerror(errno));
  ::close(*fd);
  auto* const control = static_cast<Control*>(memory);
  if (control->version != kControlVersion || control->compute == 0 ||
      control->compute > kMaxNodesPerCluster) {
    ::munmap(memory, sizeof(Control));
    return error("program and simulator are of different builds: build both again");
  }
  return control;
}

Result<void> map_heap(const ShellHost::Lookup& lookup, std::size_t bytes) {
  const Result<int> fd = read_descriptor(lookup, variable::kHeapFd, bytes);
  if (!fd) return fd.error();
  void* const wanted = dsm::application_address(PageId(0));
  void* const view = ::mmap(wanted, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, *fd, 0);
  if (view != wanted) {
    const int error_number = errno;
    if (view != MAP_FAILED) ::munmap(view, bytes);
    return error("cannot map the shared heap of {} MiB at {:#x}: {}", bytes >> 20, dsm::kHeapAddress,
                 std::strerror(error_number));
  }
  ::close(*fd);
  return {};
}

Request of_kind(Request::Kind kind) {
  Request request;
  request.kind = kind;
  return request;
}

Request step_request(Request::Step step, const dsm::CollectiveCall& facts) {
  Request request = of_kind(Request::Kind::kStep);
  request.step = step;
  request.facts = facts;
  return request;
}

std::optional<PageId> first_page(const NodeControl& answer) {
  if (answer.result == dsm::kNoPages) return {};
  return PageId(static_cast<std::uint32_t>(answer.result));
}

}  // namespace

struct ShellHost::Runner {
  ShellHost* host = nullptr;
  unsigned local = 0;
  std::unique_ptr<Fibre> fibre;
  std::bitset<dsm::kLocks> locks;
};

// --- Beginning and end

Result<std::unique_ptr<ShellHost>> ShellHost::start(const Lookup& lookup, const std::string& program) {
  CHECK(the_shell == nullptr);
  const Result<Control*> control = map_control(lookup);
  if (!control) return control.error();
  const dsm::Shape shape = {.clusters = (*control)->clusters,
                            .cluster = (*control)->cluster,
                            .compute = (*control)->compute,
                            .heap_pages = (*control)->heap_pages};
  const Result<void> heap = map_heap(lookup, std::size_t{shape.heap_pages} * kPageBytes);
  if (!heap) {
    ::munmap(*control, sizeof(Control));
    return heap.error();
  }
  std::unique_ptr<ShellHost> host(new ShellHost(shape, *control));
  const Result<void> installed = dsm::install_fault_handler(host.get(), dsm::HandlerStack::kInterrupted);
  if (!installed) return installed.error();
  set_spent_handler([] { the_shell->on_spent(); });
  host->await_turn();
  host->control_->counted = charges_are_counted();
  host->hand_in(step_request(Request::Step::kInit, dsm::hello_facts(kShellVersion, shape, program)));
  host->enter();
  return host;
}

ShellHost::ShellHost(const dsm::Shape& shape, Control* control)
    : Host(shape), control_(control), engine_(::getppid()), meter_(control->cycles_per_second) {
  the_shell = this;
  is_the_programs_thread = true;
  for (unsigned local = 0; local < shape.compute; ++local) {
    runners_.push_back(std::make_unique<Runner>());
    runners_.back()->host = this;
    runners_.back()->local = local;
  }
  runners_[0]->fibre = Fibre::of_thread();
}

ShellHost::~ShellHost() {
  seconds_at_end = seconds();
  leave();
  set_spent_handler(nullptr);
  dsm::remove_fault_handler();
  is_the_programs_thread = false;
  the_shell = nullptr;
  ::munmap(dsm::application_address(PageId(0)), std::size_t{shape().heap_pages} * kPageBytes);
  ::munmap(control_, sizeof(Control));
}

void ShellHost::finish() {
  dsm::CollectiveCall facts;
  facts.kind = dsm::CallKind::kFinish;
  ask(step_request(Request::Step::kFinish, facts));
}

// --- Between the program and the shell

void ShellHost::leave() {
  control_->nodes[current_].clock += meter_.stop();
  inside_ = true;
}

// The node runs until its clock comes to the window's end, or to where another is a quantum behind.
void ShellHost::enter() {
  std::int64_t end = control_->until;
  for (unsigned local = 0; local < shape().compute; ++local) {
    const NodeControl& other = control_->nodes[local];
    if (local == current_ || !other.runnable) continue;
    // Of equal clocks the lower number's comes first.
    end = std::min(end, other.clock + control_->quantum - (local < current_ ? 1 : 0));
  }
  inside_ = false;
  control_->running.store(current_, std::memory_order_relaxed);
  // A budget is spent when it is negative.
  meter_.start(end - control_->nodes[current_].clock - 1);
}

void ShellHost::on_spent() {
  if (inside_) return;
  leave();
  run_next();
  enter();
}

const NodeControl& ShellHost::ask(const Request& request) {
  const unsigned local = current_;
  leave();
  hand_in(request);
  enter();
  return control_->nodes[local];
}

void ShellHost::hand_in(const Request& request) {
  NodeControl& node = control_->nodes[current_];
  node.request = request;
  node.runnable = false;
  give_baton(current_);
  run_next();
}

bool ShellHost::on_fault(std::uintptr_t address, bool write) {
  if (!dsm::in_heap(address, shape().heap_pages)) return false;
  if (!is_the_programs_thread) {
    say_touched_by_foreign_thread();
    return false;
  }
  if (inside_) {
    say_touched_inside();
    return false;
  }
  Request request = of_kind(Request::Kind::kFault);
  request.page = dsm::page_of(address).value();
  request.write = write;
  if (request.page >= control_->allocated_pages) {
    say_touched_behind_all();
    return false;
  }
  ask(request);
  return true;
}

// --- Which node runs

std::uint32_t ShellHost::earliest() const {
  std::uint32_t first = Control::kNobody;
  std::int64_t earliest = control_->until;
  for (unsigned local = 0; local < shape().compute; ++local) {
    const NodeControl& node = control_->nodes[local];
    if (!node.runnable || node.clock >= earliest) continue;
    earliest = node.clock;
    first = local;
  }
  return first;
}

void ShellHost::run_next() {
  std::uint32_t next = earliest();
  for (; next == Control::kNobody; next = earliest()) give_baton(Control::kNobody);
  switch_to(next);
}

void ShellHost::switch_to(unsigned local) {
  if (local == current_) return;
  Fibre& left = *runners_[current_]->fibre;
  // Nodes that the engine lets run have been made: it learnt of them with the first step that all take.
  CHECK(runners_[local]->fibre != nullptr);
  current_ = local;
  left.resume(*runners_[local]->fibre);
}

// Not when a node first runs, which may be inside a fault.
void ShellHost::make_fibres() {
  for (unsigned local = 1; local < shape().compute; ++local) {
    Runner& runner = *runners_[local];
    if (runner.fibre != nullptr) continue;
    Result<std::unique_ptr<Fibre>> fibre = Fibre::make(
        [](void* argument) {
          const auto* const self = static_cast<const Runner*>(argument);
          self->host->node_loop(self->local);
        },
        &runner);
    if (!fibre) dsm::fail_with_text(fibre.error().text.data(), fibre.error().text.size());
    runner.fibre = std::move(fibre).value();
  }
}

void ShellHost::node_loop(unsigned local) {
  enter();
  for (;;) {
    (*job_)(local);
    ask(of_kind(Request::Kind::kIdle));
  }
}

void ShellHost::run_on_all(Request::Step step, const dsm::CollectiveCall& facts,
                           const std::function<void(unsigned)>& job) {
  make_fibres();
  job_ = &job;
  in_parallel_ = true;  // others may run before node 0 does again
  ask(step_request(step, facts));
  job(0);
  ask(of_kind(Request::Kind::kIdle));
  in_parallel_ = false;
  job_ = nullptr;
}

// --- The baton

void ShellHost::give_baton(std::uint32_t asking) {
  control_->asking = asking;
  control_->turn.store(Control::kEngine, std::memory_order_release);
  ::syscall(SYS_futex, &control_->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  await_turn();
  protect();
}

void ShellHost::await_turn() {
  for (;;) {
    const std::uint32_t turn = control_->turn.load(std::memory_order_acquire);
    if (turn == Control::kLeave) ::_exit(0);
    if (turn == Control::kShell) return;
    const long waited = ::syscall(SYS_futex, &control_->turn, FUTEX_WAIT, turn, &kLookForEngine, nullptr, 0);
    // An engine that died gives no turn, and nobody else would end this process.
    if (waited != 0 && errno == ETIMEDOUT && ::getppid() != engine_) ::_exit(dsm::kFailureStatus);
  }
}

void ShellHost::protect() {
  const std::uint32_t runs = control_->protection_runs;
  CHECK_LE(runs, kMaxProtectionRuns);
  for (std::uint32_t i = 0; i < runs;) {
    ProtectionRun run = control_->protections[i];
    // Calls are what costs, not pages.
    for (++i; i < runs; ++i) {
      const ProtectionRun& next = control_->protections[i];
      if (next.access != run.access || next.first != run.first + run.count) break;
      run.count += next.count;
    }
    const PageId first(run.first);
    if (::mprotect(dsm::application_address(first), std::size_t{run.count} * kPageBytes,
                   dsm::protection_bits(run.access)) != 0)
      dsm::mprotect_failed(errno, first, run.count, "");
  }
  control_->protection_runs = 0;
}

// --- What programs call

int ShellHost::current_node() const {
  return is_the_programs_thread ? static_cast<int>(current_) : -1;
}

void ShellHost::check_caller(unsigned local) const {
  if (!is_the_programs_thread)
    fail("compute node {} was called on a thread of the program's own: in simulation its nodes share one",
         node_id(local));
  if (local != current_)
    fail("compute node {} was called by compute node {}: each node calls for itself", node_id(local),
         node_id(current_));
}

std::optional<PageId> ShellHost::allocate_together(const dsm::Allocation& allocation) {
  Request request = step_request(Request::Step::kAllocate, dsm::allocation_facts(allocation));
  request.pages = allocation.pages;
  request.homes = allocation.homes;
  return first_page(ask(request));
}

std::optional<PageId> ShellHost::allocate_alone(unsigned local, const dsm::Allocation& allocation) {
  check_caller(local);
  Request request = of_kind(Request::Kind::kAllocate);
  request.pages = allocation.pages;
  request.homes = allocation.homes;
  return first_page(ask(request));
}

std::uint32_t ShellHost::free_pages() {
  return shape().heap_pages - control_->allocated_pages;
}

const char* ShellHost::cure_for_want_of_heap() const {
  return "raise --heap-mib of `braid sim`";
}

void ShellHost::parallel(const std::function<void(dsm::Node&)>& body) {
  dsm::CollectiveCall facts;
  facts.kind = dsm::CallKind::kParallel;
  run_on_all(Request::Step::kParallel, facts, [&](unsigned local) { run_node(local, body); });
}

void ShellHost::run_on_cluster(const std::function<void(unsigned)>& body) {
  run_on_all(Request::Step::kTeam, {}, [&](unsigned local) { run_part(local, body); });
}

void ShellHost::barrier_of_clusters() {
  dsm::CollectiveCall facts;
  facts.kind = dsm::CallKind::kBarrier;
  ask(step_request(Request::Step::kBarrier, facts));
}

void ShellHost::lock(unsigned local, LockId lock) {
  check_caller(local);
  Runner& runner = *runners_[local];
  fail_for_misuse(local, dsm::LockMisuse::of_lock(lock, runner.locks[lock.value()]));
  Request request = of_kind(Request::Kind::kLock);
  request.id = lock.value();
  ask(request);
  runner.locks.set(lock.value());
}

void ShellHost::unlock(unsigned local, LockId lock) {
  check_caller(local);
  Runner& runner = *runners_[local];
  fail_for_misuse(local, dsm::LockMisuse::of_unlock(lock, runner.locks[lock.value()]));
  runner.locks.reset(lock.value());
  Request request = of_kind(Request::Kind::kUnlock);
  request.id = lock.value();
  ask(request);
}

dsm::Reduced ShellHost::barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                                std::uint64_t value) {
  check_caller(local);
  Request request = of_kind(Request::Kind::kBarrier);
  request.id = barrier.value();
  request.reduction = reduction;
  request.value = value;
  const NodeControl& answer = ask(request);
  return {answer.result, answer.reduction};
}

std::uint64_t ShellHost::sync(unsigned local, const dsm::SyncCall& call) {
  check_caller(local);
  fail_for_misuse(local, dsm::LockMisuse::of_sync(
                             call, [&](LockId lock) { return runners_[local]->locks[lock.value()]; }));
  Request request = of_kind(Request::Kind::kSync);
  request.sync = call;
  return ask(request).result;
}

double ShellHost::seconds() {
  if (!is_the_programs_thread)
    fail("seconds() was called on a thread of the program's own: it has no part in virtual time");
  leave();
  const std::int64_t now = control_->nodes[current_].clock;
  enter();
  return static_cast<double>(now) / static_cast<double>(control_->cycles_per_second);
}

double seconds_of_run() {
  return the_shell != nullptr ? the_shell->seconds() : seconds_at_end;
}

}  // namespace braid::sim
