#include "sim/process_shell.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

namespace braid::sim {

namespace {

// A turn takes microseconds; after so long we look whether the process still lives.
constexpr timespec kLook{0, 50'000'000};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// Inherited by the program, so without FD_CLOEXEC there.
int memory_file(const char* name, std::size_t bytes) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

void* map(int fd, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
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

Result<std::unique_ptr<ProcessShell>> ProcessShell::start(unsigned cluster, const std::string& path,
                                                          const std::vector<std::string>& arguments,
                                                          std::uint32_t heap_pages, int stdin_fd,
                                                          bool silent) {
  std::unique_ptr<ProcessShell> shell(new ProcessShell(cluster, heap_pages));
  const std::size_t heap_bytes = std::size_t{heap_pages} * dsm::kPageBytes;
  const int control_fd = memory_file("braid-sim-control", sizeof(Control));
  const int heap_fd = memory_file("braid-sim-heap", heap_bytes);
  void* const control = control_fd < 0 ? nullptr : map(control_fd, sizeof(Control));
  void* const heap = heap_fd < 0 ? nullptr : map(heap_fd, heap_bytes);
  const auto close_files = [&] {
    ::close(control_fd);
    ::close(heap_fd);
  };
  if (control != nullptr) shell->control_ = new (control) Control;
  shell->heap_ = static_cast<std::byte*>(heap);
  if (control == nullptr || heap == nullptr) {
    const int problem = errno;
    close_files();
    return error("cluster {}: cannot make a shared heap of {} MiB: {}", cluster, heap_bytes >> 20,
                 std::strerror(problem));
  }
  std::vector<std::string> environment;
  for (char** v = ::environ; *v != nullptr; ++v) environment.emplace_back(*v);
  environment.push_back(fmt::format("{}={}", variable::kControlFd, control_fd));
  environment.push_back(fmt::format("{}={}", variable::kHeapFd, heap_fd));
  std::vector<char*> environment_pointers, argument_pointers;
  for (std::string& v : environment) environment_pointers.push_back(v.data());
  environment_pointers.push_back(nullptr);
  std::vector<std::string> words = arguments;
  for (std::string& w : words) argument_pointers.push_back(w.data());
  argument_pointers.push_back(nullptr);

  const pid_t engine = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // It must not outlive the engine, whatever becomes of that.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != engine) ::_exit(127);
    ::fcntl(control_fd, F_SETFD, 0);
    ::fcntl(heap_fd, F_SETFD, 0);
    const int input = stdin_fd >= 0 ? stdin_fd : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input != STDIN_FILENO) ::dup2(input, STDIN_FILENO);
    if (silent) ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::execve(path.c_str(), argument_pointers.data(), environment_pointers.data());
    static constexpr char kText[] = "braid: the program cannot be started\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    ::_exit(127);
  }
  const int problem = errno;
  close_files();
  if (pid < 0) return error("cluster {}: cannot start {}: {}", cluster, path, std::strerror(problem));
  shell->pid_ = pid;
  return shell;
}

ProcessShell::~ProcessShell() {
  if (pid_ > 0 && !has_ended()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (heap_ != nullptr) ::munmap(heap_, std::size_t{heap_pages_} * dsm::kPageBytes);
  if (control_ != nullptr) ::munmap(control_, sizeof(Control));
}

void ProcessShell::give_turn() {
  control_->turn.store(Control::kShell, std::memory_order_release);
  futex(control_->turn, FUTEX_WAKE, 1, nullptr);
}

bool ProcessShell::has_ended() {
  if (pid_ < 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  pid_ = -1;
  if (WIFEXITED(status)) {
    status_ = WEXITSTATUS(status);
    end_ = fmt::format("exited with status {}", status_);
  } else {
    status_ = 128 + WTERMSIG(status);
    end_ = fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::sigdescr_np(WTERMSIG(status)));
  }
  return true;
}

Result<void> ProcessShell::run() {
  give_turn();
  while (control_->turn.load(std::memory_order_acquire) != Control::kEngine) {
    if (futex(control_->turn, FUTEX_WAIT, Control::kShell, &kLook) != 0 && errno == ETIMEDOUT &&
        has_ended() && control_->turn.load(std::memory_order_acquire) != Control::kEngine)
      return error("the program of cluster {} {} in the middle of the run", cluster_, end_);
  }
  return {};
}

int ProcessShell::end() {
  give_turn();
  while (!has_ended()) {
    // It asks for nothing any more; whatever it waits for, it would wait for ever.
    timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return status_;
}

}  // namespace braid::sim
