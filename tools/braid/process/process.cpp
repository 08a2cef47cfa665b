#include "tools/braid/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/processors.h"
#include "base/system_error.h"
#include "tools/braid/process/cgroup.h"
#include "tools/braid/process/forget.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {
namespace {

// The child's code until it executes the program. It runs in the
// parent's memory with a thread of its own: system calls only.
struct Child {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int input;
  int output;
  int errors;
  const int* inherited;
  std::size_t inherited_count;
  int network_namespace;
  int processor;
  int failure;       // a pipe that closes when the program starts; before that, what failed goes into it
  int failure_read;  // the command's end of it
  Container container;

  struct Failure {
    int number;
    // kStarted: no failure; the process that will be the program has this number.
    enum Step : int { kStarted, kContainer, kNamespace, kProcessor, kDescriptors, kExecute } step;
  };

  [[noreturn]] void fail(Failure::Step step) const {
    const Failure f{errno, step};
    [[maybe_unused]] const ssize_t written = ::write(failure, &f, sizeof f);
    ::_exit(127);
  }

  // Of a process that is to be the program. In the container it is a sibling of this one, which ends.
  [[noreturn]] void run() const {
    if (container.pidfd < 0) become_program();
    const pid_t number = ::getpid();
    if (::setns(container.pidfd, container.namespaces) != 0) fail(Failure::kContainer);
    const pid_t sibling = clone_sibling(number);
    if (sibling < 0) fail(Failure::kContainer);
    if (sibling == 0) become_program();
    const Failure started{sibling, Failure::kStarted};
    [[maybe_unused]] const ssize_t written = ::write(failure, &started, sizeof started);
    ::_exit(0);
  }

  // A child of the command, in the namespaces that were entered. If the system permits it, its number inside is
  // `number`, which is nobody's outside: what programs name after their numbers, such as files, does not collide with
  // what those of other runs do.
  static pid_t clone_sibling(pid_t number) {
    clone_args wanted{};
    wanted.flags = CLONE_PARENT;
    wanted.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    wanted.set_tid_size = 1;
    const long sibling = ::syscall(SYS_clone3, &wanted, sizeof wanted);
    if (sibling >= 0) return static_cast<pid_t>(sibling);
    return static_cast<pid_t>(
        ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  }

  // The command's end of the pipe closes with it.
  bool command_is_gone() const {
    ::close(failure_read);
    pollfd end{failure, 0, 0};
    return ::poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0;
  }

  [[noreturn]] void become_program() const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The command may have died before the line above: then nobody sends that signal any more.
    if (command_is_gone()) ::_exit(127);
    // The signals that the command changed for itself, and those that it sends: SIGTERM asks for the end,
    // SIGQUIT for a report. No program expects to find SIGCHLD ignored: waitpid() would not find its
    // children. Other signals that the command's own parent ignores (nohup) stay ignored.
    for (const int number : {SIGPIPE, SIGCHLD, SIGTERM, SIGQUIT}) ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (network_namespace >= 0 && ::setns(network_namespace, CLONE_NEWNET) != 0) fail(Failure::kNamespace);
    if (processor >= 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<unsigned>(processor), &one);
      if (::sched_setaffinity(0, sizeof one, &one) != 0) fail(Failure::kProcessor);
    }
    if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(errors, 2) < 0) fail(Failure::kDescriptors);
    if (::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) fail(Failure::kDescriptors);
    for (std::size_t i = 0; i < inherited_count; ++i) {
      if (::fcntl(inherited[i], F_SETFD, 0) != 0) fail(Failure::kDescriptors);
    }
    ::execve(path, arguments, environment);
    fail(Failure::kExecute);
  }
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Open while the child enters it; an invalid descriptor: the child stays in this namespace.
Result<Descriptor> open_namespace(const std::string& name) {
  if (name.empty()) return Descriptor();
  const std::string path = "/var/run/netns/" + name;
  Descriptor network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network)
    return error("network namespace {} ({}): {}; 'ip netns add {}' makes it", name, path,
                 std::strerror(errno), name);
  return network;
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Waits until the program is executed, and returns its process. If that has failed, reaps it and returns the reason.
// `pid` is the process that was forked.
Result<pid_t> await_start(pid_t pid, int failure, const ProcessOptions& options) {
  Child::Failure f{}, next{};
  bool failed = false;
  pid_t program = options.container.pidfd < 0 ? pid : -1;
  for (;;) {
    const ssize_t n = ::read(failure, &next, sizeof next);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof next) break;
    if (next.step == Child::Failure::kStarted) {
      program = next.number;
    } else {
      failed = true;
      f = next;
    }
  }
  if (program != pid) reap(pid);
  if (!failed && program > 0) return program;
  if (program > 0) reap(program);
  if (!failed) return error("cannot start {}: it died at once", options.path);
  const char* const cause = std::strerror(f.number);
  if (f.step == Child::Failure::kContainer)
    return error("cannot start {} in the container of the processes: {}", options.path, cause);
  if (f.step == Child::Failure::kNamespace)
    return error("cannot enter network namespace {}: {}; run as root", options.network_namespace, cause);
  if (f.step == Child::Failure::kProcessor)
    return error("cannot run on processor {}: {}", options.processor, cause);
  return error("cannot start {}: {}{}", options.path, cause,
               f.number == ENOEXEC ? "; a script must begin with #!" : "");
}

}  // namespace

unsigned usable_cores() {
  const auto processors = static_cast<double>(processors_of_this_thread().size());
  return static_cast<unsigned>(std::max(1.0, std::min(processors, own_cpu_quota().value_or(processors))));
}

Result<Process> start_process(const ProcessOptions& options) {
  const auto target = [&](int own) { return own < 0 ? options.output_fd : own; };
  const int output = target(options.stdout_fd), errors = target(options.stderr_fd);
  Result<Pipe> out = output < 0 ? make_pipe() : Pipe{}, err = errors < 0 ? make_pipe() : Pipe{};
  Result<Pipe> failure = make_pipe();
  for (const Result<Pipe>* pipe : {&out, &err, &failure}) {
    if (!*pipe) return pipe->error();
  }
  Descriptor null(options.stdin_fd < 0 ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  const Result<Descriptor> network = open_namespace(options.network_namespace);
  if (!network) return network.error();
  const std::vector<char*> arguments = pointers(options.arguments);
  const std::vector<char*> environment = pointers(options.environment);
  const Child child{.path = options.path.c_str(),
                    .arguments = arguments.data(),
                    .environment = environment.data(),
                    .input = options.stdin_fd < 0 ? null.get() : options.stdin_fd,
                    .output = output < 0 ? out->write.get() : output,
                    .errors = errors < 0 ? err->write.get() : errors,
                    .inherited = options.inherited.data(),
                    .inherited_count = options.inherited.size(),
                    .network_namespace = network->get(),
                    .processor = options.processor,
                    .failure = failure->write.get(),
                    .failure_read = failure->read.get(),
                    .container = options.container};
  const pid_t pid = ::fork();
  if (pid < 0) return error("cannot start a process: {}", cause_and_cure(errno));
  if (pid == 0) child.run();

  failure->write.close();
  const Result<pid_t> started = await_start(pid, failure->read.get(), options);
  if (!started) return started.error();
  for (const int fd : {out->read.get(), err->read.get()}) {
    if (fd >= 0) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return Process{.pid = *started, .out = std::move(out->read), .err = std::move(err->read)};
}

namespace {

// Appends what arrived on `from`, and closes it at its end.
void read_some(Descriptor& from, std::string& text) {
  char bytes[4096];
  const ssize_t n = ::read(from.get(), bytes, sizeof bytes);
  if (n > 0)
    text.append(bytes, static_cast<std::size_t>(n));
  else if (n == 0 || (errno != EAGAIN && errno != EINTR))
    from.close();
  forget(bytes);
}

}  // namespace

Result<FinishedProcess> run_process(const ProcessOptions& options) {
  Result<Process> process = start_process(options);
  if (!process) return process.error();
  FinishedProcess finished;
  while (process->out || process->err) {
    pollfd ends[] = {{process->out.get(), POLLIN, 0}, {process->err.get(), POLLIN, 0}};
    (void)::poll(ends, 2, -1);
    if (ends[0].revents != 0) read_some(process->out, finished.out);
    if (ends[1].revents != 0) read_some(process->err, finished.err);
  }
  while (::waitpid(process->pid, &finished.wait_status, 0) < 0 && errno == EINTR) {
  }
  return finished;
}

}  // namespace braid::cli
