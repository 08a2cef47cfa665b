#include "tools/braid/run/supervisor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/input_relay.h"
#include "tools/braid/run/launcher.h"
#include "tools/braid/run/timeline.h"
#include "tools/braid/run/verdict.h"
#include "tools/braid/run/watchdog.h"

namespace braid::cli {
namespace {

using Cause = Verdict::Cause;

// At SIGQUIT programs print what their compute nodes wait for, and continue.
bool asks_to_end(int signal) {
  return signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGQUIT;
}

enum class Role : std::uint8_t { kDaemon, kApplication };

// A process of the run and what is known of it.
struct Member {
  Role role;
  unsigned cluster;
  ChildId child;
  pid_t pid;
  bool alive = true;
  bool asked_to_end = false;  // by us, not by the user
  int wait_status = 0;        // when it has ended

  std::string name() const {
    return fmt::format("{} of cluster {} (pid {})", role == Role::kDaemon ? "braidd" : "application", cluster,
                       pid);
  }
};

// The loop of a run. It passes events to Timeline, Verdict and Watchdog, which decide, and carries out their
// decisions.
class Supervisor {
 public:
  Supervisor(const RunOptions& options, ChildProcesses children)
      : options_(options),
        config_(options.config),
        children_(std::move(children)),
        launcher_(options),
        input_(options.input, config_.clusters),
        timeline_(monotonic_now(), Duration::ms(config_.start_timeout_ms)),
        watchdog_(watchdog_of(options)) {
    if (options.debugger) debugger_.emplace(*options.debugger);
    if (debugger_ && debugger_->reads_standard_input())
      input_ = InputRelay(InputReaders::kNone, config_.clusters);
  }

  RunReport run() {
    if (Result<void> done = start_daemons(); !done) fail(Cause::kRunCannotContinue, done.error().text);
    while (!finished()) turn();
    return report();
  }

 private:
  static Watchdog watchdog_of(const RunOptions& options) {
    if (options.debugger) return {Duration(), Duration()};
    return {Duration::s(options.config.watchdog_hint_s), Duration::s(options.config.watchdog_s)};
  }

  // --- starting

  Result<void> start_daemons() {
    if (Result<void> done = launcher_.make_wires(); !done) return done;
    for (unsigned k = 0; k < config_.clusters; ++k) {
      const Result<ChildId> child = launcher_.start_daemon(children_, k);
      if (!child) return error("cluster {}: {}", k, child.error().text);
      adopt(Role::kDaemon, k, *child);
    }
    launcher_.daemons_started();
    return {};
  }

  void start_applications() {
    const Instant now = monotonic_now();
    timeline_.on_applications_start(now);
    watchdog_.start(now);
    if (debugger_) {
      if (Result<void> done = debugger_->listen(); !done)
        return fail(Cause::kRunCannotContinue, done.error().text);
    }
    for (unsigned k = 0; k < config_.clusters; ++k) {
      const bool is_debugged = debugger_ && debugger_->cluster() == k;
      const Result<int> input = input_.open(k);
      if (!input)
        return fail(Cause::kRunCannotContinue, fmt::format("cluster {}: {}", k, input.error().text));
      const Result<ChildId> child = launcher_.start_application(
          children_, k, *input, is_debugged ? debugger_->address() : std::string());
      input_.started(k);
      if (!child)
        return fail(Cause::kRunCannotContinue, fmt::format("cluster {}: {}", k, child.error().text));
      adopt(Role::kApplication, k, *child);
    }
  }

  void adopt(Role role, unsigned cluster, ChildId child) {
    members_.push_back({.role = role, .cluster = cluster, .child = child, .pid = children_.pid(child)});
  }

  // --- one turn of the loop

  void turn() {
    wait();
    for (const int signal : children_.take_signals()) take_signal(signal);
    for (const EndedChild& ended : children_.take_ended()) take_end(ended);
    note_ends();
    if (phase() == Phase::kStarting && launcher_.take_ready() && !is_ending()) start_applications();
    look_at_progress();
    if (debugger_) {
      if (Result<void> done = debugger_->turn(children_); !done)
        fail(Cause::kRunCannotContinue, done.error().text);
    }
    const Instant now = monotonic_now();
    while (const auto action = timeline_.poll(now)) carry_out(*action);
    children_.output().write_some();
    if (children_.output().take_output_failure()) on_output_failure(children_.output().output_problem());
  }

  // A reader that closes our output ends the run like a signal. Any other error is the cause of a failure.
  void on_output_failure(int problem) {
    if (problem != EPIPE)
      fail(Cause::kRunCannotContinue,
           fmt::format("standard output cannot be written: {}", cause_and_cure(problem)));
    else if (verdict_.interrupted() == 0)
      take_signal(SIGPIPE);
  }

  void wait() {
    std::vector<pollfd> fds;
    input_.watch(fds);
    if (debugger_) fds.push_back(debugger_->to_watch());
    if (phase() == Phase::kStarting) launcher_.watch_ready(fds);
    children_.wait(earlier(timeline_.next_deadline(), watchdog_.next_deadline()), fds);
    if (Result<void> done = input_.turn(); !done) fail(Cause::kRunCannotContinue, done.error().text);
  }

  void look_at_progress() {
    const Instant now = monotonic_now();
    if (now < watchdog_.next_deadline()) return;
    switch (watchdog_.look(now, all_wait(), launcher_.progress())) {
      case Watchdog::Finding::kNothing:
        return;
      case Watchdog::Finding::kHint:
        ask_for_waits();
        return children_.output().report(fmt::format(
            "for {} s every compute node has waited and nothing has moved; {}. The run continues; --watchdog ends a "
            "run without progress",
            config_.watchdog_hint_s, describe_stall()));
      case Watchdog::Finding::kEnd:
        ask_for_waits();
        return fail(
            Cause::kRunCannotContinue,
            fmt::format("the watchdog: for {} s every compute node has waited and nothing has moved; {}",
                        config_.watchdog_s, describe_stall()));
    }
  }

  // Those that are stopped neither compute nor let others.
  bool all_wait() const {
    return any_alive(Role::kApplication) &&
           std::all_of(members_.begin(), members_.end(), [&](const Member& m) {
             return m.role == Role::kDaemon || !m.alive || launcher_.waits(m.cluster) ||
                    children_.is_stopped(m.child);
           });
  }

  // Not to their groups: only the runtime in these processes handles the signal. A program can have given its
  // handler up.
  void ask_for_waits() {
    for (const Member& m : members_) {
      if (m.role == Role::kApplication && m.alive && !children_.is_stopped(m.child) &&
          children_.handles(m.child, SIGQUIT))
        children_.send(m.child, SIGQUIT);
    }
  }

  std::string describe_stall() const {
    std::string stopped;
    for (const Member& m : members_) {
      if (m.alive && children_.is_stopped(m.child))
        stopped += fmt::format("{} is stopped (kill -CONT {} continues it); ", m.name(), m.pid);
    }
    return stopped + "the applications print what each waits for";
  }

  void carry_out(Timeline::Action action) {
    switch (action) {
      case Timeline::Action::kStartTimedOut:
        return fail(Cause::kRunCannotContinue, late_daemons());
      case Timeline::Action::kCloseOutput:
        return close_output();
      case Timeline::Action::kAnnounce:
        return announce();
      case Timeline::Action::kAskAll:
        return ask_to_end();
      case Timeline::Action::kKillAll:
        if (verdict_.interrupted() != 0 && any_alive(Role::kApplication)) {
          verdict_.on_interrupt_ignored();
          children_.output().report("the application did not end in time; killing it");
        }
        return kill_all();
    }
  }

  void announce() {
    verdict_.announce();
    const char* const next = !timeline_.cut_short() ? ""
                             : holds_for_debugger()
                                 ? "; ending the run. The process in the debugger ends when you quit gdb"
                                 : "; ending the run";
    children_.output().report(verdict_.reason() + next);
    print_consequences();
  }

  // An application's report that it lost another one is printed after the cause. A run that the user ends has no cause.
  void take_consequence(unsigned cluster, const RecordedEnd& end) {
    if (end.cause != dsm::EndCause::kLostCluster) return;
    consequences_.push_back(fmt::format("[c{}] braid: {}", cluster, end.text));
    if (verdict_.announced()) print_consequences();
  }

  void print_consequences() {
    for (const std::string& line : std::exchange(consequences_, {})) children_.output().print_error(line);
  }

  // A process that left its group may still hold a pipe; the run does not wait for it. Output that waits for a
  // slow reader of ours is not late.
  void close_output() {
    if (!children_.output().is_reading()) return;
    children_.output().close_sources();
    timeline_.on_output_closed();
  }

  // --- what happens

  void take_end(const EndedChild& ended) {
    if (debugger_ && debugger_->on_end(ended.child)) return on_debugger_end(ended.wait_status);
    Member& member = *std::find_if(members_.begin(), members_.end(),
                                   [&](const Member& m) { return m.child == ended.child; });
    member.alive = false;
    member.wait_status = ended.wait_status;
    if (member.role == Role::kApplication) input_.close(member.cluster);
    const int status = ended.wait_status;
    const bool asked = member.asked_to_end;
    bool fails = false;
    if (member.role == Role::kApplication) {
      const RecordedEnd end = launcher_.end_of(member.cluster);
      take_consequence(member.cluster, end);
      fails = verdict_.on_application_end(member.name(), status, asked, end);
    } else {
      fails = verdict_.on_daemon_end(member.name(), status, asked, phase());
    }
    if (fails) on_failure();
  }

  void on_debugger_end(int wait_status) {
    if (!any_alive(Role::kApplication)) return;
    if (is_ending()) return kill_all();
    if (shell_status(wait_status) != 0)
      children_.output().report(
          fmt::format("gdb {}; the run continues without it", describe_end(wait_status)));
  }

  void note_ends() {
    if (phase() != Phase::kClosing && !any_alive(Role::kApplication) &&
        (phase() == Phase::kRunning || is_ending())) {
      if (debugger_ && !debugger_->has_begun() && !is_ending())
        children_.output().report(fmt::format(
            "--gdb: the program ended before gdb could attach to cluster {}: only programs with shared memory "
            "(init() of dsm/api.h) wait for it",
            debugger_->cluster()));
      timeline_.on_applications_end(monotonic_now());
      watchdog_.stop();
      ask_to_end(Role::kDaemon);
    }
    if (!children_.any_alive()) timeline_.on_all_ended(monotonic_now());
  }

  void fail(Cause cause, const std::string& reason) {
    if (verdict_.fail(cause, reason)) on_failure();
  }

  void on_failure() {
    timeline_.on_failure(monotonic_now());
    watchdog_.stop();
  }

  void take_signal(int signal) {
    if (asks_to_end(signal)) {
      gave_up_reader_ = !children_.any_alive() && phase() == Phase::kClosing;
      if (verdict_.interrupted() != 0) {
        if (any_alive(Role::kApplication)) verdict_.on_interrupt_ignored();
        return kill_all();
      }
      verdict_.on_interrupt(signal, phase());
      timeline_.on_interrupt(monotonic_now());
      watchdog_.stop();
      if (phase() == Phase::kStarting) ask_to_end();
    }
    for (const Member& member : members_) {
      if (member.role == Role::kApplication) children_.send_to_group(member.child, signal);
    }
  }

  // --- what is known and done

  Phase phase() const { return timeline_.phase(); }
  // By a failure or by the user.
  bool is_ending() const { return verdict_.failed() || verdict_.interrupted() != 0; }

  bool any_alive(Role role) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const Member& m) { return m.alive && m.role == role; });
  }

  // After a failure the user may still look at the process; after a signal to this command nobody does.
  bool holds_for_debugger() const {
    return debugger_ && debugger_->is_used_by_hand() && verdict_.interrupted() == 0;
  }
  bool is_held(const Member& member) const {
    return holds_for_debugger() && member.role == Role::kApplication &&
           member.cluster == debugger_->cluster();
  }

  void ask_to_end(std::optional<Role> role = {}) {
    for (Member& member : members_) {
      if (!member.alive || is_held(member) || (role && member.role != *role)) continue;
      member.asked_to_end = true;
      children_.send_to_group(member.child, SIGTERM);
    }
  }

  void kill_all() {
    for (Member& member : members_) {
      if (!member.alive || is_held(member)) continue;
      member.asked_to_end = true;
      children_.send_to_group(member.child, SIGKILL);
    }
    if (debugger_ && is_ending() && !holds_for_debugger()) debugger_->kill(children_);
    timeline_.on_killed();
  }

  std::string late_daemons() const {
    return fmt::format(
        "after {:.1f} s the braidd of cluster {} is not connected to all others; its messages, if there are any, "
        "are above. To wait longer, set --start-timeout (now {} ms)",
        (monotonic_now() - timeline_.begun()).s(), launcher_.late_clusters(), config_.start_timeout_ms);
  }

  bool finished() {
    if (children_.any_alive() || (verdict_.failed() && !verdict_.announced())) return false;
    if (phase() == Phase::kStarting && !is_ending()) return false;
    if (gave_up_reader_) return true;
    return children_.output().is_written() && !children_.output().is_open();
  }

  RunReport report() const {
    RunReport report;
    report.command = options_.command;
    report.config = config_;
    report.failure = verdict_.reason();
    report.status = verdict_.status();
    const Instant now = monotonic_now();
    const Instant begun = timeline_.applications_begun();
    const bool ran = begun != Instant::never();
    report.start_time = (ran ? begun : now) - timeline_.begun();
    if (ran) report.run_time = earlier(timeline_.applications_ended(), now) - begun;
    report.clusters.resize(config_.clusters);
    launcher_.collect(report.clusters);
    for (const Member& member : members_) {
      ClusterReport& cluster = report.clusters[member.cluster];
      const bool daemon = member.role == Role::kDaemon;
      (daemon ? cluster.daemon : cluster.application) = member.pid;
      (daemon ? cluster.daemon_end : cluster.application_end) = describe_end(member.wait_status);
    }
    return report;
  }

  const RunOptions& options_;
  const settings::RunConfig& config_;
  ChildProcesses children_;
  Launcher launcher_;
  InputRelay input_;
  Timeline timeline_;
  Verdict verdict_;
  Watchdog watchdog_;
  std::optional<Debugger> debugger_;
  std::vector<Member> members_;            // in the order of starting
  std::vector<std::string> consequences_;  // lines that wait until the cause is announced
  bool gave_up_reader_ = false;            // the user has ended the wait for the reader of our output
};

}  // namespace

Result<RunReport> supervise(const RunOptions& options) {
  // A shell that runs this in the background ignores it. Here it ends nothing.
  ::signal(SIGQUIT, SIG_DFL);
  Result<ChildProcesses> children =
      ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}});
  if (!children) return children.error();
  return Supervisor(options, std::move(*children)).run();
}

}  // namespace braid::cli
