#include "sim/shell/shell.h"

#include <unistd.h>

#include <exception>

#include "base/check.h"
#include "dsm/program/build_id.h"
#include "dsm/program/failure.h"
#include "dsm/program/globals.h"
#include "dsm/program/heap.h"
#include "dsm/program/object_ids.h"
#include "sim/charge/access_rights.h"
#include "sim/shell/before_init.h"
#include "sim/shell/node_order.h"
#include "sim/shell/own_threads.h"

namespace braid::sim {

using dsm::fail;
using dsm::LockId;

namespace {

// Changes when the arguments that all clusters must agree on change.
constexpr std::uint64_t kShellVersion = 1;

// For the handler of spent budgets, which has no argument.
ShellHost* the_shell = nullptr;

double seconds_at_end = 0;

}  // namespace

constinit BeforeInit before_init;
constinit bool has_own_threads = false;

namespace {

// True on the thread of the compute nodes. Initial-exec: a read inside a fault allocates nothing.
thread_local volatile bool is_the_programs_thread __attribute__((tls_model("initial-exec"))) = false;

Request of_kind(Request::Kind kind) {
  Request request;
  request.kind = kind;
  return request;
}

Request of_fault(PageId page, bool write) {
  Request request = of_kind(Request::Kind::kFault);
  request.page = page.value();
  request.write = write;
  return request;
}

Request of_call(const dsm::CollectiveCall& call) {
  Request request = of_kind(Request::Kind::kCollective);
  request.call = call;
  return request;
}

Request of_call(dsm::CallKind kind) {
  dsm::CollectiveCall call;
  call.kind = kind;
  return of_call(call);
}

std::optional<PageId> first_page(const NodeControl& answer) {
  if (answer.result == dsm::kNoPages) return {};
  return PageId(static_cast<std::uint32_t>(answer.result));
}

}  // namespace

// ---------------------------------------------------------------- start and end

Result<std::unique_ptr<ShellHost>> ShellHost::start(const Mappings::Lookup& lookup,
                                                    const std::string& program) {
  CHECK(the_shell == nullptr);
  if (dsm::globals_window().pages > 0 && !dsm::main_runs_once())
    return error(
        "the program was linked with --shared-globals, but main() runs in every cluster, and each would change the same "
        "globals: call start_clusters() (in C: braid_start_clusters()) before init(), or let CREATE of the ANL macros do it");
  Result<Mappings> mappings = Mappings::map(lookup);
  if (!mappings) return mappings.error();
  const Control& control = mappings->control();
  const dsm::Shape shape = {.clusters = control.clusters,
                            .cluster = control.cluster,
                            .compute = control.compute,
                            .heap_pages = control.heap_pages,
                            .page_length = dsm::page_length()};
  const std::int64_t before = before_init.end == nullptr ? 0 : before_init.end();
  std::unique_ptr<ShellHost> host(new ShellHost(shape, std::move(mappings).value()));
  // The kernel does not wait for a page of a stack that is in shared memory.
  const Result<void> installed = dsm::install_fault_handler(
      host.get(), has_own_threads ? dsm::HandlerStack::kSignalStack : dsm::HandlerStack::kInterrupted);
  if (!installed) return installed.error();
  if (has_own_threads) host->fibres_.separate();
  set_spent_handler([] { the_shell->on_spent(); });
  set_access_handler([](std::uintptr_t address, bool write) { the_shell->on_closed(address, write); });
  host->baton_.await();
  host->control_.counted = charges_are_counted();
  braid_check_units = host->control_.check_units;
  host->control_.nodes[0].clock += before;
  host->control_.first_place_of_globals = dsm::first_place_of_globals(shape.heap_pages);
  host->control_.globals_address = dsm::globals_window().address;
  host->submit(of_call(dsm::join_call(kShellVersion, shape, program, dsm::build_id())));
  host->start_clock();
  host->share_globals();
  return host;
}

ShellHost::ShellHost(const dsm::Shape& shape, Mappings mappings)
    : Host(shape),
      mappings_(std::move(mappings)),
      control_(mappings_.control()),
      baton_(control_, ::getppid()),
      meter_(control_.cycles_per_second),
      fibres_(shape.compute, [this](unsigned local) { node_loop(local); }),
      locks_(shape.compute) {
  the_shell = this;
  is_the_programs_thread = true;
}

ShellHost::~ShellHost() {
  seconds_at_end = seconds();
  stop_clock();
  set_spent_handler(nullptr);
  set_access_handler(nullptr);
  dsm::remove_fault_handler();
  is_the_programs_thread = false;
  the_shell = nullptr;
}

void ShellHost::share_globals() {
  const std::uint32_t pages = dsm::globals_window().pages;
  if (pages == 0) return;
  const std::optional<PageId> first =
      allocate_together({.bytes = dsm::page_length().bytes_of(pages),
                         .placement = dsm::Placement::first_touch(),
                         .pages = pages,
                         .homes = {.kind = dsm::Homes::Kind::kFirstTouch, .cluster = {}}});
  CHECK(first == PageId(0));
}

void ShellHost::collect_globals() {
  const std::uint32_t pages = dsm::globals_window().pages;
  if (pages == 0 || shape().clusters == 1) return;
  barrier_of_clusters();
  if (shape().cluster != 0) return;
  for (std::uint32_t p = 0; p < pages; ++p)
    (void)*static_cast<volatile char*>(dsm::application_address(PageId(p)));
}

void ShellHost::finish() {
  collect_globals();
  ask(of_call(dsm::CallKind::kFinish));
}

// ---------------------------------------------------------------- between the program and the shell

void ShellHost::stop_clock() {
  control_.nodes[fibres_.current()].clock += meter_.stop();
  in_shell_ = true;
}

void ShellHost::start_clock() {
  const unsigned node = fibres_.current();
  in_shell_ = false;
  control_.running.store(node, std::memory_order_relaxed);
  // A budget is spent when it is negative.
  meter_.start(end_of_run(control_, node) - control_.nodes[node].clock - 1);
}

void ShellHost::on_spent() {
  if (in_shell_) return;
  stop_clock();
  run_next();
  start_clock();
}

const NodeControl& ShellHost::ask(const Request& request) {
  const unsigned local = fibres_.current();
  stop_clock();
  submit(request);
  start_clock();
  return control_.nodes[local];
}

void ShellHost::submit(const Request& request) {
  const unsigned local = fibres_.current();
  control_.nodes[local].request = request;
  control_.nodes[local].runnable = false;
  give_baton(local);
  run_next();
}

void ShellHost::on_unmapped(std::uintptr_t address) {
  // A child of a program with access checks goes to the alias.
  const bool is_alias = braid_has_access_checks && dsm::in_heap(address + charge::kOpen, shape().heap_pages);
  if (is_alias || dsm::in_heap(address, shape().heap_pages)) fail_access_in_child();
}

bool ShellHost::on_fault(std::uintptr_t address, bool write) {
  if (!dsm::in_heap(address, shape().heap_pages)) return false;
  check_stack(fibres_.current(), address);
  if (!is_the_programs_thread) {
    report_foreign_access();
    return false;
  }
  if (in_shell_) {
    report_access_inside_runtime();
    return false;
  }
  const PageId page = dsm::page_of(address);
  if (page.value() >= control_.allocated_pages) {
    report_access_behind_heap();
    return false;
  }
  if (!is_shorter_than_hosts()) {
    ask(of_fault(page, write));
    return true;
  }
  // Code without checks: it goes on when all pages of the host's are open at the same moment. Another cluster takes one away only at a
  // release of its own, so there is progress.
  while (const std::optional<PageId> closed = mappings_.closed_part(page, write))
    ask(of_fault(*closed, write));
  return true;
}

void ShellHost::on_closed(std::uintptr_t address, bool write) {
  const PageId page = dsm::page_of(address);
  if (is_the_programs_thread && !in_shell_ && page.value() < control_.allocated_pages) {
    ask(of_fault(page, write));
    return;
  }
  // The fault reports what is wrong.
  mappings_.close_for_good(address);
  auto* const place = reinterpret_cast<volatile char*>(address);  // NOLINT
  if (write) *place = 0;
  (void)*place;
}

// ---------------------------------------------------------------- which node runs

void ShellHost::run_next() {
  std::uint32_t next = next_node(control_);
  for (; next == Control::kNobody; next = next_node(control_)) give_baton(Control::kNobody);
  // The engine makes other nodes than 0 runnable only after run_on_all(), which has made their fibres.
  fibres_.switch_to(next);
}

void ShellHost::give_baton(std::uint32_t asking) {
  baton_.give(asking);
  mappings_.protect();
}

void ShellHost::node_loop(unsigned local) {
  is_the_programs_thread = true;  // where each node has variables of its own
  start_clock();
  for (;;) {
    (*job_)(local);
    ask(of_kind(Request::Kind::kIdle));
  }
}

void ShellHost::begin_on_all(const Request& request, const std::function<void(unsigned)>& job) {
  if (const Result<void> made = fibres_.make_all(); !made) dsm::fail_with_text(made.error());
  job_ = &job;
  in_parallel_ = true;  // other nodes may run before ask() returns
  ask(request);
}

void ShellHost::end_on_all() {
  ask(of_kind(Request::Kind::kIdle));
  in_parallel_ = false;
  job_ = nullptr;
}

void ShellHost::run_on_all(const Request& request, const std::function<void(unsigned)>& job) {
  begin_on_all(request, job);
  job(0);
  end_on_all();
}

// ---------------------------------------------------------------- calls of the program

int ShellHost::current_node() const {
  return is_the_programs_thread ? static_cast<int>(fibres_.current()) : -1;
}

void ShellHost::check_caller(unsigned local) const {
  if (!is_the_programs_thread)
    fail(
        "compute node {} was called on a thread of the program's own: in simulation the nodes of a cluster "
        "share one thread",
        node_id(local));
  if (local != fibres_.current())
    fail("compute node {} was called by compute node {}: each node calls for itself", node_id(local),
         node_id(fibres_.current()));
}

std::optional<PageId> ShellHost::allocate_together(const dsm::Allocation& allocation) {
  Request request = of_call(dsm::allocation_call(allocation));
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

void ShellHost::prefetch(unsigned local, PageId first, std::uint32_t count) {
  check_caller(local);
  Request request = of_kind(Request::Kind::kPrefetch);
  request.page = first.value();
  request.pages = count;
  ask(request);
}

std::uint32_t ShellHost::free_pages() {
  return shape().heap_pages - control_.allocated_pages;
}

const char* ShellHost::cure_for_full_heap() const {
  return "raise --heap-mib of `braid sim`";
}

void ShellHost::parallel(const std::function<void(dsm::Node&)>& body) {
  run_on_all(of_call(dsm::CallKind::kParallel), [&](unsigned local) { run_node(local, body); });
}

void ShellHost::begin_parallel(std::function<void(dsm::Node&)> body) {
  open_job_ = [this, run = std::move(body)](unsigned local) { run_node(local, run); };
  begin_on_all(of_call(dsm::CallKind::kParallel), open_job_);
}

void ShellHost::end_parallel() {
  (void)barrier(0, dsm::kOwnBarrier, dsm::Reduction::kNone, 0);
  end_on_all();
  open_job_ = nullptr;
}

void ShellHost::fill(PageId first, std::span<const std::byte> contents) {
  stop_clock();
  mappings_.fill(first, contents);
  start_clock();
}

void ShellHost::run_on_cluster(const std::function<void(unsigned)>& body) {
  run_on_all(of_kind(Request::Kind::kRunOnCluster), [&](unsigned local) { run_part(local, body); });
}

void ShellHost::barrier_of_clusters() {
  ask(of_call(dsm::CallKind::kBarrier));
}

void ShellHost::lock(unsigned local, LockId lock) {
  check_caller(local);
  fail_for_misuse(local, dsm::LockMisuse::of_lock(lock, locks_[local].contains(lock)));
  Request request = of_kind(Request::Kind::kLock);
  request.id = lock.value();
  ask(request);
  locks_[local].insert(lock);
}

bool ShellHost::try_lock(unsigned local, LockId lock) {
  check_caller(local);
  Request request = of_kind(Request::Kind::kTryLock);
  request.id = lock.value();
  if (ask(request).result == 0) return false;
  locks_[local].insert(lock);
  return true;
}

void ShellHost::unlock(unsigned local, LockId lock) {
  check_caller(local);
  fail_for_misuse(local, dsm::LockMisuse::of_unlock(lock, locks_[local].contains(lock)));
  locks_[local].erase(lock);
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
  fail_for_misuse(local,
                  dsm::LockMisuse::of_sync(call, [&](LockId lock) { return locks_[local].contains(lock); }));
  Request request = of_kind(Request::Kind::kSync);
  request.sync = call;
  return ask(request).result;
}

void ShellHost::reset_figures(unsigned local) {
  check_caller(local);
  ask(of_kind(Request::Kind::kResetFigures));
}

ShellHost* ShellHost::current() {
  return the_shell;
}

// In strict order the running node is always the first.
void ShellHost::keep_order() {
  if (!is_the_programs_thread) return;
  stop_clock();
  for (const unsigned local = fibres_.current(); !is_first(control_, local);) run_next();
  start_clock();
}

void ShellHost::pass(std::int64_t units) {
  stop_clock();
  control_.nodes[fibres_.current()].clock += units;
  run_next();
  start_clock();
}

std::int64_t ShellHost::clock() {
  stop_clock();
  const std::int64_t now = control_.nodes[fibres_.current()].clock;
  start_clock();
  return now;
}

void ShellHost::renew_variables() const {
  fibres_.renew_variables();
  is_the_programs_thread = true;
}

void ShellHost::leave() {
  ask(of_call(dsm::CallKind::kLeave));
}

double ShellHost::seconds() {
  if (!is_the_programs_thread)
    fail("seconds() was called on a thread of the program's own, which has no virtual time");
  return static_cast<double>(clock()) / static_cast<double>(control_.cycles_per_second);
}

double seconds_of_run() {
  if (the_shell != nullptr) return the_shell->seconds();
  return before_init.seconds != nullptr ? before_init.seconds() : seconds_at_end;
}

}  // namespace braid::sim
