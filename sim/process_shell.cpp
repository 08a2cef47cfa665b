#include "sim/process_shell.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/memory_file.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "dsm/program/page_length.h"
#include "sim/shell/race_totals.h"

namespace braid::sim {

namespace {

// A turn takes microseconds; after this time the engine checks that the process is alive.
constexpr timespec kCheckPeriod{0, 50'000'000};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void* map(int fd, std::size_t offset, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                          static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : at;
}

// Whether `process` is a child of this process.
bool is_child(pid_t process) {
  siginfo_t info;
  return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

int stay_on_one_processor() {
  const int processor = ::sched_getcpu();
  if (processor < 0) return -1;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(processor), &one);
  return ::sched_setaffinity(0, sizeof one, &one) == 0 ? processor : -1;
}

Result<std::unique_ptr<ShellFiles>> ShellFiles::make(unsigned clusters, std::uint32_t heap_pages,
                                                     dsm::PageLength length) {
  std::unique_ptr<ShellFiles> files(new ShellFiles(heap_pages, length));
  // A child clears FD_CLOEXEC, so that its program inherits the files.
  Result<int> file = make_memory_file("braid-sim-control", control_offset(clusters), MemoryFile::kSparse);
  if (!file) return file.error();
  files->controls_ = *file;
  file =
      make_memory_file("braid-sim-heap", heap_offset(clusters + 1, files->heap_bytes()), MemoryFile::kSparse);
  if (!file) return error("{}; a smaller --heap-mib may fit", file.error().text);
  files->heaps_ = *file;
  files->contents_ = static_cast<std::byte*>(
      map(files->heaps_, heap_offset(clusters, files->heap_bytes()), files->heap_bytes()));
  if (files->contents_ == nullptr)
    return error("cannot map memory of {} MiB: {}", files->heap_bytes() >> 20, cause_and_cure(errno));
  return files;
}

ShellFiles::~ShellFiles() {
  if (contents_ != nullptr) ::munmap(contents_, heap_bytes());
  if (controls_ >= 0) ::close(controls_);
  if (heaps_ >= 0) ::close(heaps_);
}

ProcessShell::ProcessShell(Program program, ShellFiles& files, Duration watchdog)
    : program_(std::move(program)), files_(files), watchdog_(watchdog) {
  files_.add(*this);
}

Result<std::unique_ptr<ProcessShell>> ProcessShell::make(const Program& program, ShellFiles& files,
                                                         Duration watchdog) {
  std::unique_ptr<ProcessShell> shell(new ProcessShell(program, files, watchdog));
  void* const control = map(files.controls(), control_offset(program.cluster), sizeof(Control));
  if (control != nullptr) shell->control_ = new (control) Control;
  shell->heap_ = static_cast<std::byte*>(
      map(files.heaps(), heap_offset(program.cluster, files.heap_bytes()), files.heap_bytes()));
  if (control == nullptr || shell->heap_ == nullptr)
    return error("cluster {}: cannot map a shared heap of {} MiB: {}", program.cluster,
                 files.heap_bytes() >> 20, cause_and_cure(errno));
  // Clones of a program become children of this process.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (const Result<void> started = shell->start(); !started) return started.error();
  return shell;
}

// Forks now, while the engine is small and cheap to copy. The program
// begins with its first turn, when the machine has initialised the Control.
Result<void> ProcessShell::start() {
  std::vector<std::string> environment;
  const std::string page_bytes = fmt::format("{}=", dsm::kPageBytesVariable);
  for (char** v = ::environ; *v != nullptr; ++v)
    if (!std::string_view(*v).starts_with(page_bytes)) environment.emplace_back(*v);
  environment.push_back(page_bytes + std::to_string(files_.page_length().bytes()));
  // Else a function of a library is looked up at its first call, and the processor's registers are saved on the stack of that call in a
  // form that differs: with stacks in shared memory so do messages.
  environment.emplace_back("LD_BIND_NOW=1");
  environment.push_back(fmt::format("{}={}", variable::kControlFd, files_.controls()));
  environment.push_back(fmt::format("{}={}", variable::kHeapFd, files_.heaps()));
  environment.push_back(fmt::format("{}={}", variable::kCluster, program_.cluster));
  if (program_.races_fd >= 0)
    environment.push_back(fmt::format("{}={}", variable::kRacesFd, program_.races_fd));
  std::vector<char*> environment_pointers, argument_pointers;
  for (std::string& v : environment) environment_pointers.push_back(v.data());
  environment_pointers.push_back(nullptr);
  std::vector<std::string> arguments = program_.arguments;
  for (std::string& argument : arguments) argument_pointers.push_back(argument.data());
  argument_pointers.push_back(nullptr);

  const pid_t engine = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // The process must not outlive the engine.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != engine) ::_exit(127);
    ::fcntl(files_.controls(), F_SETFD, 0);
    ::fcntl(files_.heaps(), F_SETFD, 0);
    if (program_.races_fd >= 0) ::fcntl(program_.races_fd, F_SETFD, 0);
    const int null_device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!program_.reads_input) ::dup2(null_device, STDIN_FILENO);
    if (program_.silent) ::dup2(null_device, STDOUT_FILENO);
    // Addresses that the program writes to shared memory are the same in every run, and so is what messages carry of them. Where a
    // container refuses it, runs of such a program may differ.
    (void)::personality(ADDR_NO_RANDOMIZE);
    while (control_->turn.load(std::memory_order_acquire) != Control::kShell)
      futex(control_->turn, FUTEX_WAIT, Control::kOthers, nullptr);
    ::execve(program_.path.c_str(), argument_pointers.data(), environment_pointers.data());
    static constexpr char kText[] = "braid: the program cannot be started\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    ::_exit(127);
  }
  if (pid < 0)
    return error("cluster {}: cannot start {}: {}", program_.cluster, program_.path, cause_and_cure(errno));
  pid_ = pid;
  return {};
}

ProcessShell::~ProcessShell() {
  files_.remove(*this);
  if (control_ != nullptr) take_clone();
  kill_process();
  if (heap_ != nullptr) ::munmap(heap_, files_.heap_bytes());
  if (control_ != nullptr) ::munmap(control_, sizeof(Control));
}

void ProcessShell::kill_process() {
  if (pid_ < 0 || has_ended()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ProcessShell::take_clone() {
  const pid_t clone = control_->clone.load(std::memory_order_acquire);
  if (has_begun_ || clone <= 0 || clone == pid_ || !is_child(clone)) return;
  kill_process();
  pid_ = clone;
}

void ProcessShell::give_turn() {
  control_->turn.store(control_->is_over ? Control::kLeave : Control::kShell, std::memory_order_release);
  futex(control_->turn, FUTEX_WAKE, 1, nullptr);
}

bool ProcessShell::has_ended() {
  if (pid_ < 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  pid_ = -1;
  status_ = shell_status(status);
  end_ = describe_end(status);
  return true;
}

const char* ProcessShell::when_it_ended() const {
  if (has_asked_) return "in the middle of the run";
  if (control_->is_once && program_.cluster == 0)
    return "before it had started the other clusters (start_clusters(), or CREATE): until then main() runs in cluster 0 "
           "alone";
  if (control_->clone > 0) return "before its init()";
  return status_ == 0
             ? "before its init(), as one does that was not built for simulation: docs/PROGRAMS.md"
             : "before its init(): see what it said itself; one that was not built for simulation never calls it "
               "(docs/PROGRAMS.md)";
}

Result<void> ProcessShell::run() {
  take_clone();
  has_begun_ = true;
  std::atomic<std::uint32_t>& engines_turn = files_.shells().front()->control_->engines_turn;
  engines_turn.store(0, std::memory_order_relaxed);
  give_turn();
  const ProcessShell* watched = nullptr;
  std::optional<StuckTurn> stuck;
  while (engines_turn.load(std::memory_order_acquire) == 0) {
    if (futex(engines_turn, FUTEX_WAIT, 0, &kCheckPeriod) == 0 || errno != ETIMEDOUT) continue;
    ProcessShell* const now = holder();
    if (std::exchange(watched, now) != now) stuck.reset();
    if (now == nullptr) {
      for (ProcessShell* const shell : files_.shells())
        if (shell->has_begun_ && shell->has_ended()) return shell->how_it_ended();
      continue;
    }
    if (now->has_ended() && now->has_turn()) return now->how_it_ended();
    const StuckTurn::Cause cause = now->check_turn(stuck, now->control_->counted);
    if (cause != StuckTurn::Cause::kNone && now->has_turn()) return Error{now->describe_stuck(cause)};
  }
  has_asked_ = true;
  return {};
}

ProcessShell* ProcessShell::holder() const {
  for (ProcessShell* const shell : files_.shells())
    if (shell->has_turn()) return shell;
  return nullptr;
}

Error ProcessShell::how_it_ended() const {
  return error("the program of cluster {} {} {}", program_.cluster, end_, when_it_ended());
}

StuckTurn::Cause ProcessShell::check_turn(std::optional<StuckTurn>& stuck, bool counted) const {
  if (watchdog_ == Duration() || pid_ < 0) return StuckTurn::Cause::kNone;
  const Instant now = monotonic_now();
  if (!stuck) stuck.emplace(now, read_activity(pid_), watchdog_);
  return stuck->is_due(now) ? stuck->check(now, read_activity(pid_), counted) : StuckTurn::Cause::kNone;
}

std::string ProcessShell::describe_stuck(StuckTurn::Cause cause) const {
  const unsigned local = control_->running.load(std::memory_order_relaxed);
  const std::string who = fmt::format("cluster {}: compute node {}", program_.cluster,
                                      program_.cluster * control_->compute + local);
  constexpr const char* kThread = "In simulation the compute nodes of a cluster share one thread";
  constexpr const char* kLimit = "--watchdog (simulation.watchdog_s)";
  if (cause == StuckTurn::Cause::kBlocked)
    return fmt::format(
        "{} has waited for {} s for a lock of the program's own, such as a std::mutex or a condition variable. "
        "{}: while one waits in the kernel no other can run, not even the one that has the lock. "
        "Use locks, conditions, flags and barriers of dsm/api.h; if another thread of the program will end "
        "the wait, raise {}",
        who, watchdog_.ns() / 1'000'000'000, kThread, kLimit);
  return fmt::format(
      "{} has used {} s of the processor in code that is not charged: it spins in a library's code or in "
      "assembly (such as pthread_spin_lock), or calls code that was not compiled for simulation. {}: while "
      "one spins without being charged no other can run. Wait with locks, conditions, flags and barriers of "
      "dsm/api.h; if it only computes for a long time, raise {}; 0 switches this check off",
      who, watchdog_.ns() / 1'000'000'000, kThread, kLimit);
}

Result<int> ProcessShell::end() {
  if (!has_begun_) return 0;
  give_turn();
  std::optional<StuckTurn> stuck;
  while (!has_ended()) {
    // The program makes no more requests, and no window limits its computing.
    if (check_turn(stuck, /*counted=*/false) != StuckTurn::Cause::kNone)
      return Error{"after finish(), " + describe_stuck(StuckTurn::Cause::kBlocked)};
    timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return status_;
}

}  // namespace braid::sim
