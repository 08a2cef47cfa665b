#include "tests/sim/shell_machine.h"
#include "tests/dsm/page_bytes.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "dsm/program/collective_call.h"
#include "dsm/program/host.h"

namespace braid::sim {

using dsm::BarrierId;
using dsm::LockId;

namespace {

constexpr std::int64_t kTimeoutNs = 60'000'000'000;
constexpr timespec kCheckPeriod = {.tv_sec = 0, .tv_nsec = 20'000'000};

int make_memory(const char* name, std::size_t bytes) {
  const int fd = ::memfd_create(name, 0);  // inherited
  CHECK_GE(fd, 0);
  CHECK_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}

std::byte* map_memory(int fd, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

std::size_t heap_bytes_of(const ShellMachineConfig& config) {
  return std::size_t{config.heap_pages} * dsm::kPageBytes;
}

std::string read_all(int fd) {
  std::string text(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

struct ShellMachine::Cluster final : dsm::PageMemory {
  Cluster(const ShellMachineConfig& config, std::uint16_t number, std::byte* controls, std::byte* heaps)
      : index(number),
        stderr_fd(make_memory("stderr", 0)),
        control(new (controls + control_offset(number)) Control),
        heap(heaps + heap_offset(number, heap_bytes_of(config))),
        waiting(config.compute),
        idle(config.compute),
        engine(dsm::engine_config({.clusters = config.clusters,
                                   .cluster = number,
                                   .compute = config.compute,
                                   .heap_pages = config.heap_pages}),
               *this) {
    control->cluster = number;
    control->clusters = config.clusters;
    control->compute = config.compute;
    control->heap_pages = config.heap_pages;
    control->cycles_per_second = config.cycles_per_second;
    control->quantum = config.quantum;
  }
  ~Cluster() override { ::close(stderr_fd); }

  void protect(PageId first, std::uint32_t count, dsm::Access access) override {
    CHECK_LT(control->protection_runs, kMaxProtectionRuns);
    control->protections[control->protection_runs++] = {first.value(), count, access};
  }
  std::byte* page(PageId page) override { return heap + page.value() * dsm::kPageBytes; }

  const unsigned index;
  const int stderr_fd;
  Control* const control;
  std::byte* const heap;
  pid_t process = 0;  // 0: not started, or reaped
  bool finished = false;
  Ending ending;
  const Request* call = nullptr;  // the collective call that waits for other clusters
  std::vector<char> waiting;      // by node: it waits for the page engine
  std::vector<char> idle;
  dsm::Engine engine;
};

ShellMachine::File::File(const char* name, std::size_t its_bytes)
    : bytes(its_bytes), fd(make_memory(name, bytes)), memory(map_memory(fd, bytes)) {}

ShellMachine::File::~File() {
  ::munmap(memory, bytes);
  ::close(fd);
}

ShellMachine::ShellMachine(const ShellMachineConfig& config)
    : config_(config),
      controls_("controls", control_offset(config.clusters)),
      heaps_("heaps", heap_offset(config.clusters + 1u, heap_bytes_of(config))) {
  for (std::uint16_t k = 0; k < config.clusters; ++k)
    clusters_.push_back(std::make_unique<Cluster>(config, k, controls_.memory, heaps_.memory));
  // All on one processor, as in the simulator: otherwise each turn waits for an idle processor to wake up.
  ::sched_getaffinity(0, sizeof affinity_before_, &affinity_before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

ShellMachine::~ShellMachine() {
  for (const auto& cluster : clusters_) {
    if (cluster->process == 0) continue;
    ::kill(cluster->process, SIGKILL);
    ::waitpid(cluster->process, nullptr, 0);
  }
  ::sched_setaffinity(0, sizeof affinity_before_, &affinity_before_);
}

// --- Processes

void ShellMachine::start(const std::function<int()>& program) {
  for (const auto& cluster : clusters_) start_process(*cluster, program);
}

void ShellMachine::start(const std::vector<std::string>& command) {
  start([&] {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    std::perror(arguments[0]);
    return 127;
  });
}

void ShellMachine::start_process(Cluster& cluster, const std::function<int()>& program) {
  cluster.process = ::fork();
  CHECK_GE(cluster.process, 0);
  if (cluster.process != 0) return;
  ::dup2(cluster.stderr_fd, STDERR_FILENO);
  ::setenv(variable::kControlFd, std::to_string(controls_.fd).c_str(), 1);
  ::setenv(variable::kHeapFd, std::to_string(heaps_.fd).c_str(), 1);
  ::setenv(variable::kCluster, std::to_string(cluster.index).c_str(), 1);
  const int status = program();
  std::fflush(stdout);
  ::_exit(status);
}

bool ShellMachine::ended(Cluster& cluster) {
  if (cluster.process == 0) return true;
  if (monotonic_now().ns() > deadline_ns_) {
    error_ = "the test's time limit has passed";
    ::kill(cluster.process, SIGKILL);
  }
  int status = 0;
  if (::waitpid(cluster.process, &status, WNOHANG) != cluster.process) return false;
  cluster.process = 0;
  if (WIFEXITED(status)) cluster.ending.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) cluster.ending.signal = WTERMSIG(status);
  cluster.ending.text = read_all(cluster.stderr_fd);
  return true;
}

bool ShellMachine::turn(Cluster& cluster) {
  ++turns_;
  Control& control = *cluster.control;
  if (before_turn) before_turn(cluster.index, control);
  std::atomic<std::uint32_t>& engines_turn = clusters_[0]->control->engines_turn;
  engines_turn.store(0);
  control.turn.store(Control::kShell);
  ::syscall(SYS_futex, &control.turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  while (engines_turn.load() == 0) {
    if (ended(cluster)) return false;
    ::syscall(SYS_futex, &engines_turn, FUTEX_WAIT, 0, &kCheckPeriod, nullptr, 0);
  }
  return true;
}

void ShellMachine::end_all() {
  for (const auto& cluster : clusters_) {
    if (!cluster->finished) cluster->control->turn.store(Control::kLeave);
    ::syscall(SYS_futex, &cluster->control->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    while (!ended(*cluster)) ::usleep(1000);
  }
}

// --- The run

ShellMachine::Cluster* ShellMachine::next_cluster() {
  Cluster* next = nullptr;
  std::int64_t earliest = INT64_MAX;
  std::int64_t second = INT64_MAX;  // the earliest clock of the other clusters
  for (const auto& cluster : clusters_) {
    std::int64_t clock = INT64_MAX;
    for (unsigned n = 0; n < config_.compute; ++n) {
      if (cluster->control->nodes[n].runnable) clock = std::min(clock, cluster->control->nodes[n].clock);
    }
    if (clock < earliest) {
      second = earliest;
      earliest = clock;
      next = cluster.get();
    } else {
      second = std::min(second, clock);
    }
  }
  if (next != nullptr) next->control->until = (second == INT64_MAX ? earliest : second) + config_.window;
  return next;
}

std::vector<ShellMachine::Ending> ShellMachine::run() {
  deadline_ns_ = monotonic_now().ns() + kTimeoutNs;
  std::size_t finished = 0;
  // Each makes its first call.
  for (const auto& cluster : clusters_) {
    if (turn(*cluster)) {
      serve(*cluster, cluster->control->asking);
    } else {
      finished = clusters_.size();
    }
  }
  while (finished < clusters_.size() && error_.empty()) {
    Cluster* const cluster = next_cluster();
    if (cluster == nullptr) {
      error_ = "no compute node can run:";
      for (const auto& each : clusters_) {
        for (std::uint16_t n = 0; n < config_.compute; ++n) error_ += " " + each->engine.explain_wait(n);
      }
      break;
    }
    if (!turn(*cluster)) {
      if (!cluster->finished) break;
      ++finished;
      cluster->control->nodes[0].runnable = false;
    } else if (cluster->control->asking == Control::kNobody) {
      ++full_windows_;
    } else {
      serve(*cluster, cluster->control->asking);
    }
  }
  end_all();
  std::vector<Ending> endings;
  for (const auto& cluster : clusters_) endings.push_back(cluster->ending);
  return endings;
}

void ShellMachine::let_run(Cluster& cluster, unsigned node, std::int64_t clock) {
  NodeControl& control = cluster.control->nodes[node];
  // A fault costs nothing: otherwise other clusters could take the page before the access, every time.
  const bool fault = control.request.kind == Request::Kind::kFault;
  control.clock = std::max(control.clock, clock) + (fault ? 0 : config_.operation_cycles);
  control.runnable = true;
}

void ShellMachine::exchange_messages() {
  std::vector<std::byte> room(dsm::max_message_bytes(dsm::PageLength()));
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& from : clusters_) {
      for (const auto& to : clusters_) {
        const ClusterId target(static_cast<std::uint16_t>(to->index));
        while (from != to && from->engine.has_output(target)) {
          const std::size_t bytes = from->engine.poll_transmit(target, room);
          if (bytes == 0) break;
          to->engine.on_message(ClusterId(static_cast<std::uint16_t>(from->index)),
                                ByteView(room.data(), bytes));
          moved = true;
        }
      }
    }
  }
}

void ShellMachine::release_complete(std::int64_t now) {
  for (const auto& cluster : clusters_) {
    for (std::uint16_t n = 0; n < config_.compute; ++n) {
      if (cluster->waiting[n] == 0 || !cluster->engine.done(n)) continue;
      cluster->waiting[n] = 0;
      cluster->control->nodes[n].result = cluster->engine.result(n);
      cluster->control->nodes[n].reduction = cluster->engine.reduction(n);
      let_run(*cluster, n, now);
    }
    cluster->control->allocated_pages = config_.heap_pages - cluster->engine.free_pages();
  }
}

void ShellMachine::serve(Cluster& cluster, unsigned node) {
  NodeControl& control = cluster.control->nodes[node];
  const Request& request = control.request;
  recorded_.push_back({cluster.index, node, control.clock, request});
  const auto local = static_cast<std::uint16_t>(node);
  dsm::Engine& engine = cluster.engine;
  switch (request.kind) {
    case Request::Kind::kFault:
      (void)engine.fault(local, PageId(request.page),
                         request.write ? dsm::Access::kWrite : dsm::Access::kRead);
      break;
    case Request::Kind::kLock:
      (void)engine.lock(local, LockId(request.id));
      break;
    case Request::Kind::kUnlock:
      engine.unlock(local, LockId(request.id));
      break;
    case Request::Kind::kTryLock:
      (void)engine.try_lock(local, LockId(request.id));
      break;
    case Request::Kind::kBarrier:
      (void)engine.barrier(local, BarrierId(request.id), request.reduction, request.value);
      break;
    case Request::Kind::kSync:
      (void)engine.sync(local, request.sync);
      break;
    case Request::Kind::kAllocate:
      (void)engine.allocate(local, request.pages, request.homes);
      break;
    case Request::Kind::kPrefetch:
      engine.prefetch(PageId(request.page), request.pages);
      exchange_messages();
      let_run(cluster, node, control.clock);
      return;
    case Request::Kind::kResetFigures:  // this machine has none
      let_run(cluster, node, control.clock);
      return;
    case Request::Kind::kCollective:
      CHECK_EQ(node, 0u);
      cluster.call = &request;
      make_calls();
      return;
    case Request::Kind::kRunOnCluster:
      CHECK_EQ(node, 0u);
      run_on_cluster(cluster);
      return;
    case Request::Kind::kIdle: {
      cluster.idle[node] = 1;
      std::int64_t latest = 0;
      for (unsigned n = 0; n < config_.compute; ++n)
        latest = std::max(latest, cluster.control->nodes[n].clock);
      const bool all = std::count(cluster.idle.begin(), cluster.idle.end(), 1) == config_.compute;
      if (all) let_run(cluster, 0, latest);
      return;
    }
    case Request::Kind::kNone:
      CHECK(request.kind != Request::Kind::kNone);
  }
  cluster.waiting[node] = 1;
  exchange_messages();
  release_complete(control.clock);
}

void ShellMachine::run_on_cluster(Cluster& cluster) {
  std::fill(cluster.idle.begin(), cluster.idle.end(), 0);
  const std::int64_t now = cluster.control->nodes[0].clock;
  for (unsigned n = 0; n < config_.compute; ++n) {
    cluster.control->nodes[n].clock = now;
    let_run(cluster, n, now);
  }
}

void ShellMachine::make_calls() {
  for (const auto& cluster : clusters_) {
    if (cluster->call == nullptr) return;
  }
  const dsm::CollectiveCall first = clusters_[0]->call->call;
  for (const auto& cluster : clusters_) {
    if (cluster->call->call == first) continue;
    error_ = dsm::difference(0, first, cluster->index, cluster->call->call);
    return;
  }
  carry_out_call(first.kind);
  for (const auto& cluster : clusters_) cluster->call = nullptr;
}

void ShellMachine::carry_out_call(dsm::CallKind kind) {
  std::int64_t now = 0;
  for (const auto& cluster : clusters_) now = std::max(now, cluster->control->nodes[0].clock);
  for (const auto& cluster : clusters_) {
    NodeControl& initial = cluster->control->nodes[0];
    if (kind == dsm::CallKind::kAllocate) {
      const std::optional<PageId> page =
          cluster->engine.allocate_together(initial.request.pages, initial.request.homes);
      initial.result = page ? page->value() : dsm::kNoPages;
      cluster->control->allocated_pages = config_.heap_pages - cluster->engine.free_pages();
    }
    if (kind == dsm::CallKind::kParallel || kind == dsm::CallKind::kBarrier) {
      for (std::uint16_t n = 0; n < config_.compute; ++n) (void)cluster->engine.barrier(n, dsm::kOwnBarrier);
    }
    cluster->finished = kind == dsm::CallKind::kFinish;
  }
  exchange_messages();
  for (const auto& cluster : clusters_) {
    const unsigned nodes = kind == dsm::CallKind::kParallel ? config_.compute : 1;
    std::fill(cluster->idle.begin(), cluster->idle.end(), 0);
    for (std::uint16_t n = 0; n < nodes; ++n) {
      CHECK(cluster->engine.done(n));
      let_run(*cluster, n, now);
    }
  }
}

std::vector<ShellMachine::RecordedRequest> ShellMachine::recorded(Request::Kind kind) const {
  std::vector<RecordedRequest> all;
  std::copy_if(recorded_.begin(), recorded_.end(), std::back_inserter(all),
               [&](const RecordedRequest& each) { return each.request.kind == kind; });
  return all;
}

}  // namespace braid::sim
