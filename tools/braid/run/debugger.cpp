#include "tools/braid/run/debugger.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tools/braid/find_program.h"
#include "tools/braid/number_in.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

using Commands = DebuggerOptions::Commands;

// For gdb, before commands of the user's. The runtime handles page faults by SIGSEGV or SIGBUS and prints waits at SIGQUIT;
// a crash comes to report_crash(). Python comes last: a gdb without it has all but the last lines.
constexpr const char* kScript = R"(handle SIGSEGV SIGBUS SIGQUIT nostop noprint pass
set breakpoint pending on
tbreak braid::dsm::report_crash
set breakpoint pending auto
set $cluster = {}
set $node = {}
echo The process of cluster {} waits at its beginning. Breakpoint 1 is a crash. Set others, then: continue\n
python
import gdb
def node_of(thread):
    if thread is None or thread.ptid[0] == thread.ptid[1]:
        return -1 if thread is None else 0
    name = thread.name or ""
    return int(name[5:]) if name.startswith("node ") and name[5:].isdigit() else -1
class SelectNode(gdb.Command):
    """Selects the thread of a compute node of this cluster: node [N]; without N that of --gdb."""
    def __init__(self):
        super().__init__("node", gdb.COMMAND_STACK)
    def invoke(self, argument, from_tty):
        wanted = int(gdb.parse_and_eval(argument or "$node"))
        for thread in gdb.selected_inferior().threads():
            if node_of(thread) == wanted:
                return gdb.execute("thread %d" % thread.num)
        raise gdb.GdbError("There is no thread of compute node %d now." % wanted)
class NodeOfThread(gdb.Function):
    """The compute node of the selected thread in its cluster, or -1: break f if $_node() == 1."""
    def __init__(self):
        super().__init__("_node")
    def invoke(self):
        return node_of(gdb.selected_thread())
SelectNode()
NodeOfThread()
end
)";

Result<void> plan_input(const std::string& file, DebuggerOptions* plan) {
  if (!file.empty()) {
    plan->commands = Commands::kFile;
    plan->file = file;
    if (::access(file.c_str(), R_OK) != 0)
      return error("--gdb-command: {} cannot be read: {}", file, std::strerror(errno));
    return {};
  }
  if (::isatty(0) == 1) {
    plan->commands = Commands::kTerminal;
    plan->terminal = ::isatty(1) == 1 ? 1 : ::isatty(2) == 1 ? 2 : -1;
    if (plan->terminal < 0)
      return error(
          "--gdb: neither standard output nor standard error is a terminal, so gdb has none to write to; take one of "
          "them away, or name a file of commands (--gdb-command)");
    if (::tcgetpgrp(0) != ::getpgrp())
      return error(
          "--gdb: this command runs in the background, so gdb cannot have the terminal; start it in the foreground, or "
          "name a file of commands (--gdb-command)");
    return {};
  }
  struct stat status {};
  if (::fstat(0, &status) != 0 || S_ISCHR(status.st_mode))
    return error(
        "--gdb: standard input is no terminal, pipe or file, so gdb gets no commands; start it from a terminal, or name "
        "a file of commands (--gdb-command)");
  plan->commands = Commands::kStandardInput;
  return {};
}

// Where the caller is not in the terminal's foreground, the kernel would stop it for this.
void set_foreground(pid_t group) {
  sigset_t output, before;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  ::sigprocmask(SIG_BLOCK, &output, &before);
  (void)::tcsetpgrp(0, group);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Result<DebuggerOptions> plan_debugger(const std::string& place, const std::string& file,
                                      const settings::RunConfig& config, const std::string& path) {
  const std::size_t dot = place.find('.');
  const auto cluster = number_in<unsigned>(place.substr(0, dot));
  const auto node = dot == std::string::npos ? 0u : number_in<unsigned>(place.substr(dot + 1));
  if (!cluster || !node)
    return error("--gdb: '{}' is no CLUSTER.NODE, such as 1.0; both count from 0", place);
  if (*cluster >= config.clusters)
    return error("--gdb: there is no cluster {}: --clusters {} are numbered from 0", *cluster,
                 config.clusters);
  if (*node >= config.compute)
    return error("--gdb: cluster {} has no compute node {}: --compute {} are numbered from 0 in each cluster",
                 *cluster, *node, config.compute);
  DebuggerOptions plan;
  plan.cluster = *cluster;
  plan.node = *node;
  const Result<std::string> gdb = find_application("gdb", "", path);
  if (!gdb)
    return error(
        "--gdb: the debugger gdb is not in PATH; install it (Debian's package is gdb), or name its folder "
        "in PATH");
  plan.gdb = *gdb;
  if (Result<void> input = plan_input(file, &plan); !input) return input.error();
  return plan;
}

Result<void> Debugger::listen() {
  Result<Listener> listener = make_listener();
  if (!listener) return listener.error();
  listener_.emplace(std::move(*listener));
  return {};
}

pollfd Debugger::to_watch() const {
  return {listener_ && !gdb_ ? listener_->socket.get() : -1, POLLIN, 0};
}

Result<void> Debugger::turn(ChildProcesses& children) {
  // Control-Z in gdb, or gdb has asked for the terminal before it had it.
  if (is_used_by_hand() && children.is_stopped(*gdb_)) {
    set_foreground(children.pid(*gdb_));
    children.send(*gdb_, SIGCONT);
  }
  pollfd waiting = to_watch();
  if (waiting.fd < 0 || ::poll(&waiting, 1, 0) <= 0) return {};
  Descriptor process(::accept4(waiting.fd, nullptr, nullptr, SOCK_CLOEXEC));
  ucred from{};
  socklen_t bytes = sizeof from;
  // Any process of the network namespace can connect.
  if (!process || ::getsockopt(process.get(), SOL_SOCKET, SO_PEERCRED, &from, &bytes) != 0 ||
      from.uid != ::geteuid())
    return {};
  process_ = std::move(process);
  return start(children, from.pid);
}

Result<void> Debugger::start(ChildProcesses& children, pid_t process) {
  const Result<Descriptor> script = make_memory_file_of(
      "braid-gdb-script", fmt::format(kScript, options_.cluster, options_.node, options_.cluster));
  if (!script) return script.error();
  ProcessOptions options;
  options.path = options_.gdb;
  options.arguments = {"gdb", "-q", "-iex", "set pagination off"};
  if (options_.commands == Commands::kFile) options.arguments.emplace_back("-batch");
  for (const std::string& word : {std::string("-p"), std::to_string(process), std::string("-x"),
                                  fmt::format("/proc/self/fd/{}", script->get())})
    options.arguments.push_back(word);
  if (options_.commands == Commands::kFile) {
    options.arguments.emplace_back("-x");
    options.arguments.push_back(options_.file);
  } else {
    options.stdin_fd = 0;
  }
  options.environment = merge_environment(environ, {});
  options.inherited = {script->get()};
  options.contained = false;
  if (has_terminal()) {
    options.output_fd = options_.terminal;
    termios now{};
    if (::tcgetattr(0, &now) == 0) terminal_ = now;
  }
  const Result<ChildId> gdb = children.start(options, "[gdb] ");
  if (!gdb) return gdb.error();
  gdb_ = *gdb;
  is_running_ = true;
  if (has_terminal()) set_foreground(children.pid(*gdb));
  return {};
}

void Debugger::kill(const ChildProcesses& children) const {
  if (gdb_) children.send_to_group(*gdb_, SIGKILL);
}

bool Debugger::on_end(ChildId child) {
  if (gdb_ != child || !is_running_) return false;
  is_running_ = false;
  process_.close();
  take_terminal_back();
  return true;
}

void Debugger::take_terminal_back() {
  if (!terminal_) return;
  set_foreground(::getpgrp());
  (void)::tcsetattr(0, TCSADRAIN, &*terminal_);
  terminal_.reset();
}

}  // namespace braid::cli
