#include "tools/braid/run/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/clock.h"
#include "base/process_end.h"
#include "dsm/live/pulse.h"
#include "proxy/channel/node_counters.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/keeper.h"
#include "tools/braid/process/line_prefixer.h"
#include "tools/braid/process/process.h"
#include "tools/braid/process/sink.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

// Who died first is told after so long: the kernel tells us of a process's death a moment after its peers
// hear of it, so what looks first may be a consequence.
constexpr Duration kSettle = 200_ms;
// The watchdog looks so often; a moment in which somebody computes between two looks still is seen as
// progress.
constexpr Duration kWatch = 200_ms;
// After a death the others may end by themselves and say what they saw; then they are asked to, then made to.
constexpr Duration kEndByThemselves = 1_s;
constexpr Duration kAfterAsking = 1_s;
// A user's signal gives the application this long to put its things in order.
constexpr Duration kAfterSignal = 3_s;
// Daemons have little to put in order.
constexpr Duration kDaemonsEnd = 2_s;
// Output of processes that left their group (and our reach) is not waited for longer than this.
constexpr Duration kLateOutput = 500_ms;
// More than any application's report.
constexpr std::size_t kMaxReportBytes = 16u << 20;

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
// At SIGQUIT programs say what their compute nodes wait for, and go on.
bool asks_to_end(int signal) {
  return signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGQUIT;
}

Result<Descriptor> memory_file(const char* name, std::size_t bytes) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return error("cannot make shared memory for {}: {}", name, std::strerror(errno));
  return file;
}

Result<Descriptor> memory_file_of(const char* name, const std::string& text) {
  Result<Descriptor> file = memory_file(name, 0);
  if (!file) return file;
  if (::pwrite(file->get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return error("cannot write {}: {}", name, std::strerror(errno));
  return file;
}

std::string contents(int fd) {
  const off_t end = ::lseek(fd, 0, SEEK_END);
  std::string text(end > 0 ? std::min(static_cast<std::size_t>(end), kMaxReportBytes) : 0, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

struct Listener {
  Descriptor socket;
  std::string address;  // "@name"
};

// The kernel picks a name that nobody has in the abstract namespace (a bind of the family alone).
Result<Listener> make_listener() {
  Listener listener{Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), ""};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);
  if (!listener.socket || ::bind(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return error("cannot make a control socket: {}", std::strerror(errno));
  length = sizeof address;
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::listen(listener.socket.get(), 64) != 0)
    return error("cannot listen on a control socket: {}", std::strerror(errno));
  listener.address = "@" + std::string(address.sun_path + 1, length - sizeof(sa_family_t) - 1);
  return listener;
}

// A name that no other run on this host has, now or later.
std::string unique_run_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    random = static_cast<std::uint64_t>(monotonic_now().ns());
  return fmt::format("braid-{}-{:016x}", ::getpid(), random);
}

// What the watchdog sees of an application process.
class PulseMemory {
 public:
  static Result<PulseMemory> make() {
    Result<Descriptor> file = memory_file("braid-pulse", sizeof(dsm::Pulse));
    if (!file) return file.error();
    void* const memory =
        ::mmap(nullptr, sizeof(dsm::Pulse), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
    if (memory == MAP_FAILED) return error("cannot map a pulse: {}", std::strerror(errno));
    return PulseMemory(std::move(*file), new (memory) dsm::Pulse);
  }
  PulseMemory(PulseMemory&& other) noexcept
      : file_(std::move(other.file_)), pulse_(std::exchange(other.pulse_, nullptr)) {}
  PulseMemory& operator=(PulseMemory&&) = delete;
  ~PulseMemory() {
    if (pulse_ != nullptr) ::munmap(pulse_, sizeof *pulse_);
  }

  int fd() const { return file_.get(); }
  // Every compute node waits.
  bool all_wait() const { return pulse_->counts.load() != 0 && pulse_->busy.load() <= 0; }
  std::uint64_t progress() const { return pulse_->progress.load(); }

 private:
  PulseMemory(Descriptor file, dsm::Pulse* pulse) : file_(std::move(file)), pulse_(pulse) {}
  Descriptor file_;
  dsm::Pulse* pulse_;
};

class Counters {
 public:
  static Result<Counters> make() {
    Result<Descriptor> file = memory_file("braid-counters", sizeof(proxy::NodeCounters));
    if (!file) return file.error();
    void* const memory =
        ::mmap(nullptr, sizeof(proxy::NodeCounters), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
    if (memory == MAP_FAILED) return error("cannot map a node's counters: {}", std::strerror(errno));
    return Counters(std::move(*file), new (memory) proxy::NodeCounters);
  }
  Counters(Counters&& other) noexcept
      : file_(std::move(other.file_)), counters_(std::exchange(other.counters_, nullptr)) {}
  Counters& operator=(Counters&&) = delete;
  ~Counters() {
    if (counters_ != nullptr) ::munmap(counters_, sizeof(proxy::NodeCounters));
  }

  int fd() const { return file_.get(); }
  std::vector<CounterValues> values(unsigned proxies) const {
    std::vector<CounterValues> all(proxies);
    for (unsigned p = 0; p < proxies; ++p) {
      proxy::for_each_counter(counters_->proxy[p], [&](const char* name, const char*, std::uint64_t value) {
        all[p].emplace_back(name, value);
      });
    }
    return all;
  }

 private:
  Counters(Descriptor file, proxy::NodeCounters* counters) : file_(std::move(file)), counters_(counters) {}
  Descriptor file_;
  proxy::NodeCounters* counters_;
};

// The keyboard, handed on to cluster 0: its process group is not the terminal's, so it may not read from
// there itself. A pipe or file is simply inherited.
class Keyboard {
 public:
  // What cluster 0 shall read from.
  int open() {
    if (::isatty(0) != 1) return 0;
    // Opened anew, so that not to wait is our own affair: what was there to be read is gone when control-C
    // comes before we read it.
    terminal_ = Descriptor(::open("/proc/self/fd/0", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!terminal_) return -1;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
    theirs_ = Descriptor(ends[0]);
    ours_ = Descriptor(ends[1]);
    ::fcntl(ours_.get(), F_SETFL, O_NONBLOCK);
    return theirs_.get();
  }
  void started() { theirs_.close(); }
  void close() { ours_.close(); }
  bool wants_to_read() const { return ours_ && typed_.empty() && ::tcgetpgrp(0) == ::getpgrp(); }
  int terminal() const { return terminal_.get(); }
  int waits_to_write() const { return typed_.empty() ? -1 : ours_.get(); }

  void read_some() {
    char bytes[4096];
    const ssize_t n = ::read(terminal_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return ours_.close();
    typed_.assign(bytes, static_cast<std::size_t>(n));
    write_some();
  }
  void write_some() {
    const ssize_t n = ::write(ours_.get(), typed_.data(), typed_.size());
    if (n > 0) typed_.erase(0, static_cast<std::size_t>(n));
    if (n < 0 && errno != EAGAIN) {
      typed_.clear();
      ours_.close();
    }
  }

 private:
  Descriptor terminal_, theirs_, ours_;
  std::string typed_;
};

enum class Role { kDaemon, kApplication };

// A process of the run and what is known of it.
struct Member {
  Role role;
  unsigned cluster;
  Process process;
  LinePrefixer out;
  LinePrefixer err;
  bool alive = true;
  bool asked_to_end = false;  // by us, not by the user
  int wait_status = 0;

  std::string name() const {
    return fmt::format("{} of cluster {} (pid {})", role == Role::kDaemon ? "braidd" : "application", cluster,
                       process.pid);
  }
};

// Of one cluster.
struct Node {
  Listener listener;
  Counters counters;
  Descriptor ready;  // one byte comes when the daemon is connected
  bool is_ready = false;
  Descriptor report;  // the application's
};

// kStarting -> kRunning -> kClosing; a failure or a user's signal leads to kClosing from anywhere, through
// the deadlines.
enum class Phase {
  kStarting,  // daemons connect
  kRunning,   // applications run
  kClosing,   // they have ended: daemons end
};

class Supervisor {
 public:
  explicit Supervisor(const RunOptions& options) : options_(options), config_(options.config) {}

  Result<RunReport> run() {
    if (Result<void> done = set_up(); !done) return done.error();
    begun_ = monotonic_now();
    start_deadline_ = begun_ + Duration::ms(config_.start_timeout_ms);
    if (Result<void> done = start_daemons(); !done) fail(Rank::kStart, done.error().text);
    while (!finished()) turn();
    return report();
  }

 private:
  // Which of several deaths at about the same time is the cause: the higher.
  enum class Rank { kNone, kApplicationGaveUp, kApplicationExited, kDaemonExited, kKilled, kStart };

  // --- starting

  Result<void> set_up() {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : kForwarded) sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    // Descriptors 0 to 2 are somebody's, or nobody's, but never one that we open.
    for (int fd = 0; (fd = ::open("/dev/null", O_RDWR)) <= 2;) {
      if (fd < 0) return error("cannot open /dev/null: {}", std::strerror(errno));
    }
    Result<Keeper> keeper = Keeper::start();
    if (!keeper) return keeper.error();
    keeper_ = std::make_unique<Keeper>(std::move(*keeper));
    signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return error("cannot receive signals: {}", std::strerror(errno));
    // Every pair of clusters has a wire: 64 clusters need some 2,500 descriptors here.
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
      files.rlim_cur = files.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &files);
    }
    return {};
  }

  Result<void> start_daemons() {
    plans_ = plan_nodes(config_, unique_run_name(), usable_cores());
    if (config_.wire == Wire::kShm) {
      if (Result<void> done = make_wires(); !done) return done;
    }
    for (unsigned k = 0; k < config_.clusters; ++k) {
      if (Result<void> done = start_daemon(k); !done) return error("cluster {}: {}", k, done.error().text);
    }
    wires_.clear();
    return {};
  }

  Result<void> make_wires() {
    Result<proxy::ShmWireOptions> wire = plan_wire(config_);
    if (!wire) return wire.error();
    for (const Pair& pair : all_pairs(config_.clusters)) {
      for (unsigned n = 0; n < config_.nis; ++n) {
        Result<int> memory = proxy::create_shm_wire(*wire);
        if (!memory) return memory.error();
        wires_.emplace_back(*memory);
        // Peers come in ascending order, this cluster left out, and each has its NIs together.
        plans_[pair.first].links[(pair.second - 1) * config_.nis + n].fd = *memory;
        plans_[pair.second].links[pair.first * config_.nis + n].fd = *memory;
      }
    }
    return {};
  }

  Result<void> start_daemon(unsigned k) {
    Result<Listener> listener = make_listener();
    if (!listener) return listener.error();
    Result<Counters> counters = Counters::make();
    if (!counters) return counters.error();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return error("cannot make a pipe: {}", std::strerror(errno));
    Descriptor ready(ends[0]), tell(ends[1]);

    proxy::NodeConfig& plan = plans_[k];
    plan.listen_fd = listener->socket.get();
    plan.ready_fd = tell.get();
    plan.counters_fd = counters->fd();
    if (Result<void> valid = plan.validate(); !valid) return valid;
    Result<Descriptor> text = memory_file_of("braid-node-config", to_json(plan));
    if (!text) return text.error();

    ProcessOptions options;
    options.path = options_.daemon;
    options.arguments = {"braidd", "--config-fd", std::to_string(text->get())};
    options.environment = merge_environment(environ, {});
    options.inherited = {text->get(), plan.listen_fd, plan.ready_fd, plan.counters_fd};
    for (const proxy::LinkConfig& link : plan.links) {
      if (link.fd >= 0) options.inherited.push_back(link.fd);
    }
    options.network_namespace = namespace_of(k);
    Result<Process> process = start_process(options);
    if (!process) return process.error();
    adopt(Role::kDaemon, k, std::move(*process), fmt::format("[braidd {}] ", k));
    // Only the daemon holds its socket, so who connects after its death is refused instead of left waiting.
    listener->socket.close();
    nodes_.push_back(std::make_unique<Node>(
        Node{std::move(*listener), std::move(*counters), std::move(ready), false, Descriptor()}));
    return {};
  }

  std::string namespace_of(unsigned k) const {
    if (config_.wire != Wire::kDpdk || config_.dpdk.kind != DpdkKind::kAfPacket) return {};
    for (const InterfaceConfig& i : config_.dpdk.interfaces) {
      if (i.cluster == k) return i.netns;
    }
    return {};
  }

  void start_applications() {
    phase_ = Phase::kRunning;
    start_deadline_ = Instant::never();
    applications_begun_ = monotonic_now();
    if (config_.watchdog_s > 0) watch_at_ = stands_still_since_ = applications_begun_;
    for (unsigned k = 0; k < config_.clusters; ++k) {
      if (Result<void> done = start_application(k); !done)
        return fail(Rank::kStart, fmt::format("cluster {}: {}", k, done.error().text));
    }
  }

  Result<void> start_application(unsigned k) {
    Result<Descriptor> report = memory_file("braid-report", 0);
    if (!report) return report.error();
    nodes_[k]->report = std::move(*report);
    const int report_fd = nodes_[k]->report.get();
    ProcessOptions options;
    options.path = options_.application;
    options.arguments = options_.command;
    int pulse_fd = -1;
    if (config_.watchdog_s > 0) {
      Result<PulseMemory> pulse = PulseMemory::make();
      if (!pulse) return pulse.error();
      pulse_fd = pulse->fd();
      pulses_.push_back(std::make_unique<PulseMemory>(std::move(*pulse)));
      options.inherited.push_back(pulse_fd);
    }
    options.environment = merge_environment(
        environ, plan_environment(config_, k, nodes_[k]->listener.address, report_fd, pulse_fd));
    options.stdin_fd = k == 0 ? keyboard_.open() : -1;
    options.inherited.push_back(report_fd);
    Result<Process> process = start_process(options);
    if (k == 0) keyboard_.started();
    if (!process) return process.error();
    adopt(Role::kApplication, k, std::move(*process), fmt::format("[c{}] ", k));
    return {};
  }

  void adopt(Role role, unsigned cluster, Process process, const std::string& prefix) {
    keeper_->announce(process.pid);
    members_.push_back(std::make_unique<Member>(
        Member{role, cluster, std::move(process), LinePrefixer(prefix), LinePrefixer(prefix)}));
  }

  // --- one turn of the loop

  void turn() {
    wait_for_something();
    take_signals();
    for (const auto& member : members_) drain(*member);
    reap();
    take_ready();
    keep_deadlines();
    out_.write_some();
    err_.write_some();
    if (out_.reader_left()) end_because_nobody_reads();
  }

  void wait_for_something() {
    std::vector<pollfd> fds;
    const auto watch = [&](int fd, short events) {
      if (fd >= 0) fds.push_back({fd, events, 0});
    };
    watch(signals_.get(), POLLIN);
    for (const auto& member : members_) {
      if (out_.has_room()) watch(member->process.out.get(), POLLIN);
      if (err_.has_room()) watch(member->process.err.get(), POLLIN);
    }
    if (phase_ == Phase::kStarting) {
      for (const auto& node : nodes_) watch(node->ready.get(), POLLIN);
    }
    if (out_.wants_to_write()) watch(out_.fd(), POLLOUT);
    if (err_.wants_to_write()) watch(err_.fd(), POLLOUT);
    watch(keyboard_.waits_to_write(), POLLOUT);
    const std::size_t keyboard = fds.size();
    if (keyboard_.wants_to_read()) watch(keyboard_.terminal(), POLLIN);

    const Instant next = next_deadline();
    int timeout_ms = -1;
    if (next != Instant::never()) {
      const double ms = std::max(0.0, (next - monotonic_now()).ms());
      timeout_ms = static_cast<int>(std::min(ms, 1e6)) + 1;
    }
    ::poll(fds.data(), fds.size(), timeout_ms);
    if (keyboard_.waits_to_write() >= 0) keyboard_.write_some();
    if (keyboard < fds.size() && fds[keyboard].revents != 0) keyboard_.read_some();
  }

  Instant next_deadline() const {
    return earlier(earlier(start_deadline_, earlier(announce_at_, ask_at_)),
                   earlier(earlier(kill_at_, watch_at_), output_deadline_));
  }

  void take_ready() {
    if (phase_ != Phase::kStarting) return;
    bool all = nodes_.size() == config_.clusters;
    for (const auto& node : nodes_) {
      char byte;
      pollfd ready{node->ready.get(), POLLIN, 0};
      if (node->ready && ::poll(&ready, 1, 0) > 0) {
        node->is_ready = ::read(node->ready.get(), &byte, 1) == 1;
        // Without the byte its process is about to end, and reap() will tell.
        node->ready.close();
      }
      all = all && node->is_ready;
    }
    if (all && !failing() && interrupted_ == 0) start_applications();
  }

  // --- output

  void drain(Member& member) {
    drain(member.process.out, member.out, out_);
    drain(member.process.err, member.err, err_);
  }

  static void drain(Descriptor& from, LinePrefixer& lines, Sink& to) {
    char bytes[65536];
    while (from && to.has_room()) {
      const ssize_t n = ::read(from.get(), bytes, sizeof bytes);
      if (n > 0) {
        lines.feed({bytes, static_cast<std::size_t>(n)}, to.pending());
      } else if (n == 0 || errno != EAGAIN) {
        if (n < 0 && errno == EINTR) continue;
        lines.finish(to.pending());
        from.close();
      } else {
        return;
      }
    }
  }

  void say(const std::string& text) { err_.pending() += "braid: " + text + "\n"; }

  void end_because_nobody_reads() {
    if (interrupted_ == 0) take_signal(SIGPIPE);
  }

  // --- deaths

  void reap() {
    for (const auto& member : members_) {
      if (!member->alive) continue;
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(member->process.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0)
        continue;
      // While it is a zombie its number is nobody else's: now its children can be ended without a mistake.
      ::kill(-member->process.pid, SIGKILL);
      ::waitpid(member->process.pid, &member->wait_status, 0);
      keeper_->withdraw(member->process.pid);
      member->alive = false;
      drain(*member);
      judge(*member);
    }
    if (phase_ != Phase::kClosing && !any_alive(Role::kApplication) &&
        (phase_ == Phase::kRunning || failing() || interrupted_ != 0))
      close();
    if (!any_alive() && output_deadline_ == Instant::never() && !late_output_over_)
      output_deadline_ = monotonic_now() + kLateOutput;
  }

  bool any_alive(std::optional<Role> role = {}) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const auto& m) { return m->alive && (!role || m->role == *role); });
  }

  void judge(const Member& dead) {
    const int status = shell_status(dead.wait_status);
    const bool killed = WIFSIGNALED(dead.wait_status);
    if (dead.role == Role::kApplication) {
      if (dead.cluster == 0) keyboard_.close();
      if (dead.asked_to_end) return;
      status_ = std::max(status_, status);
      if (status == 0 || interrupted_ != 0) return;
      // 70 is how the library ends a process that lost its machine: rather a consequence.
      fail(killed                        ? Rank::kKilled
           : status == kLostDaemonStatus ? Rank::kApplicationGaveUp
                                         : Rank::kApplicationExited,
           dead.name() + " " + describe_end(dead.wait_status));
      return;
    }
    if (dead.asked_to_end && (status == 0 || (killed && (WTERMSIG(dead.wait_status) == SIGTERM ||
                                                         WTERMSIG(dead.wait_status) == SIGKILL))))
      return;
    lost_daemon_ = true;
    const char* const when = dead.asked_to_end            ? " when it was asked to end"
                             : phase_ == Phase::kStarting ? " before all clusters were connected"
                                                          : "";
    fail(killed ? Rank::kKilled : Rank::kDaemonExited,
         dead.name() + " " + describe_end(dead.wait_status) + when);
  }

  bool failing() const { return rank_ != Rank::kNone; }

  // The run cannot go on. The first to say so sets the clock; until it is announced, a better reason takes
  // its place.
  void fail(Rank rank, const std::string& text) {
    const bool first = !failing();
    if (rank > rank_ && !announced_) {
      rank_ = rank;
      failure_ = text;
    }
    if (!first) return;
    cut_short_ = phase_ != Phase::kClosing;
    const Instant now = monotonic_now();
    announce_at_ = now + kSettle;
    if (phase_ == Phase::kClosing) return;  // everyone has been asked to end already
    ask_at_ = phase_ == Phase::kRunning ? now + kEndByThemselves : now;
  }

  // Applications have ended, or will never be: daemons may.
  void close() {
    phase_ = Phase::kClosing;
    applications_ended_ = monotonic_now();
    start_deadline_ = ask_at_ = Instant::never();
    ask_to_end(Role::kDaemon);
    kill_at_ = monotonic_now() + kDaemonsEnd;
  }

  void ask_to_end(std::optional<Role> role = {}) {
    for (const auto& member : members_) {
      if (!member->alive || (role && member->role != *role)) continue;
      member->asked_to_end = true;
      ::kill(-member->process.pid, SIGTERM);
    }
  }

  void kill_all() {
    for (const auto& member : members_) {
      if (!member->alive) continue;
      member->asked_to_end = true;
      ::kill(-member->process.pid, SIGKILL);
    }
    kill_at_ = Instant::never();
  }

  void keep_deadlines() {
    const Instant now = monotonic_now();
    if (now >= start_deadline_) {
      start_deadline_ = Instant::never();
      fail(Rank::kStart, late_daemons());
    }
    if (now >= watch_at_) watch(now);
    if (now >= output_deadline_) end_output(now);
    if (!announced_ && failing() && (now >= announce_at_ || !any_alive())) announce();
    if (now >= ask_at_) {
      ask_at_ = Instant::never();
      ask_to_end();
      kill_at_ = now + kAfterAsking;
    }
    if (now >= kill_at_) {
      if (interrupted_ != 0 && any_alive(Role::kApplication)) {
        status_ = std::max(status_, 128 + interrupted_);
        say("the application did not end in time; killing it");
      }
      kill_all();
    }
  }

  // Sees whether anything has happened since it looked last.
  void watch(Instant now) {
    watch_at_ = now + kWatch;
    if (phase_ != Phase::kRunning || failing() || interrupted_ != 0) {
      watch_at_ = Instant::never();
      return;
    }
    std::uint64_t progress = 0;
    bool all_wait = true;
    for (const auto& pulse : pulses_) {
      all_wait = all_wait && pulse->all_wait();
      progress += pulse->progress();
    }
    if (!all_wait || progress != progress_) {
      progress_ = progress;
      stands_still_since_ = now;
    }
    if (now - stands_still_since_ < Duration::s(config_.watchdog_s)) return;
    watch_at_ = Instant::never();
    // The processes alone, whose runtime answers: their children know nothing of it.
    for (const auto& member : members_) {
      if (member->alive && member->role == Role::kApplication) ::kill(member->process.pid, SIGQUIT);
    }
    fail(Rank::kStart,
         fmt::format("the watchdog: for {} s every compute node has waited and nothing has happened; "
                     "what each waits for is said above",
                     config_.watchdog_s));
  }

  // Somebody who left his group still holds a pipe: he is not waited for. But output that only waits for our
  // own reader is not late.
  void end_output(Instant now) {
    output_deadline_ = now + kLateOutput;
    if (!out_.has_room() || !err_.has_room()) return;
    output_deadline_ = Instant::never();
    late_output_over_ = true;
    for (const auto& member : members_) {
      member->out.finish(out_.pending());
      member->err.finish(err_.pending());
      member->process.out.close();
      member->process.err.close();
    }
  }

  void announce() {
    announced_ = true;
    announce_at_ = Instant::never();
    say(failure_ + (cut_short_ ? "; ending the run" : ""));
  }

  std::string late_daemons() const {
    std::string late;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      if (!nodes_[k]->is_ready) late += fmt::format("{}{}", late.empty() ? "" : ", ", k);
    }
    return fmt::format(
        "after {:.1f} s the braidd of cluster {} is not connected to all others; see its messages above, or "
        "give it longer (--start-timeout, now {} ms)",
        (monotonic_now() - begun_).s(), late, config_.start_timeout_ms);
  }

  // --- signals

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) take_signal(static_cast<int>(info.ssi_signo));
    }
  }

  void take_signal(int signal) {
    if (asks_to_end(signal)) {
      abandoned_ = !any_alive() && phase_ == Phase::kClosing;
      if (interrupted_ != 0) {
        if (any_alive(Role::kApplication)) status_ = std::max(status_, 128 + interrupted_);
        return kill_all();
      }
      interrupted_ = signal;
      kill_at_ = earlier(kill_at_, monotonic_now() + kAfterSignal);
      if (phase_ == Phase::kStarting) {
        status_ = 128 + signal;
        ask_to_end();
      }
      if (phase_ == Phase::kClosing) status_ = std::max(status_, 128 + signal);
    }
    for (const auto& member : members_) {
      if (member->alive && member->role == Role::kApplication) ::kill(-member->process.pid, signal);
    }
  }

  // --- the end

  bool finished() const {
    if (any_alive() || (failing() && !announced_)) return false;
    if (phase_ == Phase::kStarting && !failing() && interrupted_ == 0) return false;
    if (abandoned_) return true;
    if (out_.wants_to_write() || err_.wants_to_write()) return false;
    return std::none_of(members_.begin(), members_.end(),
                        [](const auto& m) { return m->process.out || m->process.err; });
  }

  RunReport report() {
    RunReport report;
    report.command = options_.command;
    report.config = config_;
    report.failure = failure_;
    if (failing() && (lost_daemon_ || status_ == 0)) status_ = kLostDaemonStatus;
    report.status = status_;
    const Instant now = monotonic_now();
    const bool ran = applications_begun_ != Instant::never();
    report.start_time = (ran ? applications_begun_ : now) - begun_;
    if (ran)
      report.run_time =
          (applications_ended_ == Instant::never() ? now : applications_ended_) - applications_begun_;
    report.clusters.resize(config_.clusters);
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      report.clusters[k].proxies = nodes_[k]->counters.values(config_.proxies);
      if (nodes_[k]->report) report.clusters[k].application_report = contents(nodes_[k]->report.get());
    }
    for (const auto& member : members_) {
      ClusterReport& cluster = report.clusters[member->cluster];
      const bool daemon = member->role == Role::kDaemon;
      (daemon ? cluster.daemon : cluster.application) = member->process.pid;
      (daemon ? cluster.daemon_end : cluster.application_end) = describe_end(member->wait_status);
    }
    return report;
  }

  const RunOptions& options_;
  const RunConfig& config_;
  std::unique_ptr<Keeper> keeper_;
  Descriptor signals_;
  Sink out_{1};
  Sink err_{2};
  Keyboard keyboard_;
  std::vector<proxy::NodeConfig> plans_;
  std::vector<Descriptor> wires_;
  std::vector<std::unique_ptr<Node>> nodes_;      // by cluster
  std::vector<std::unique_ptr<Member>> members_;  // in the order of starting

  Phase phase_ = Phase::kStarting;
  Rank rank_ = Rank::kNone;
  std::string failure_;
  bool announced_ = false;
  bool cut_short_ = false;
  bool late_output_over_ = false;
  bool abandoned_ = false;  // the user gave up waiting for the reader of our output
  bool lost_daemon_ = false;
  int interrupted_ = 0;  // the user's signal
  int status_ = 0;
  Instant begun_;
  Instant applications_begun_ = Instant::never();
  Instant applications_ended_ = Instant::never();
  Instant start_deadline_ = Instant::never();
  Instant announce_at_ = Instant::never();
  Instant ask_at_ = Instant::never();
  Instant kill_at_ = Instant::never();
  Instant output_deadline_ = Instant::never();

  std::vector<std::unique_ptr<PulseMemory>> pulses_;  // by cluster, where there is a watchdog
  Instant watch_at_ = Instant::never();
  std::uint64_t progress_ = 0;
  Instant stands_still_since_;
};

}  // namespace

Result<RunReport> supervise(const RunOptions& options) {
  return Supervisor(options).run();
}

}  // namespace braid::cli
