#include "tools/braid/run/supervisor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/input_relay.h"
#include "tools/braid/run/local_host.h"
#include "tools/braid/run/place_here.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/run/port_claims.h"
#include "tools/braid/run/remote_host.h"
#include "tools/braid/run/timeline.h"
#include "tools/braid/run/tree/host_tree.h"
#include "tools/braid/run/verdict.h"
#include "tools/braid/run/watchdog.h"
#include "tools/braid/secret/make_secret.h"

namespace braid::cli {
namespace {

using Cause = Verdict::Cause;

// At SIGQUIT programs print what their compute nodes wait for, and continue.
bool asks_to_end(int signal) {
  return signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGQUIT;
}

// A process of the run and what is known of it.
struct Member {
  RunProcess process;
  const Host* host = nullptr;  // null: this one
  RunHost* runs_on;
  pid_t pid = 0;              // 0: its host has not told yet
  bool alive = true;          // from when it is asked for
  bool asked_to_end = false;  // by us, not by the user
  int wait_status = 0;        // when it has ended

  std::string name() const {
    return fmt::format("{} of cluster {} ({}pid {})",
                       process.role == Role::kDaemon ? "braidd" : "application", process.cluster,
                       host == nullptr ? "" : "host " + host->name + ", ", pid);
  }
};

// The loop of a run. It passes events to Timeline, Verdict and Watchdog, which decide, and carries out their
// decisions.
class Supervisor {
 public:
  Supervisor(RunOptions& options, ChildProcesses children)
      : options_(options),
        config_(options.config),
        children_(std::move(children)),
        input_(options.input, config_.clusters),
        timeline_(monotonic_now(), Duration::ms(config_.start_timeout_ms)),
        watchdog_(watchdog_of(options)) {
    make_hosts();
    if (options.debugger) debugger_.emplace(*options.debugger);
    if (debugger_ && debugger_->reads_standard_input())
      input_ = InputRelay(InputReaders::kNone, config_.clusters);
  }

  RunReport run() {
    if (Result<void> done = start_daemons(); !done) fail(Cause::kRunCannotContinue, done.error().text);
    options_.secret.reset();
    while (!finished()) turn();
    return report();
  }

 private:
  static Watchdog watchdog_of(const RunOptions& options) {
    if (options.debugger) return {Duration(), Duration()};
    return {Duration::s(options.config.watchdog_hint_s), Duration::s(options.config.watchdog_s)};
  }

  // --- starting

  // With a block of ports for each cluster of a host.
  std::string name_run() {
    unsigned blocks = config_.wire == settings::Wire::kUdp ? 1 : 0;
    for (const Host& host : options_.hosts) blocks = std::max(blocks, host.clusters);
    return ports_.claim_run(blocks);
  }

  void make_hosts() {
    const std::string run = name_run();
    host_of_.resize(config_.clusters);
    if (options_.hosts.empty()) {
      std::vector<proxy::NodeConfig> plans = plan_nodes(config_, run, usable_cores());
      const std::vector<PlacedCluster> placed = place(plans);
      auto host = std::make_unique<LocalHost>(children_, options_, run, std::move(plans));
      host->place(placed);
      hosts_.push_back(std::move(host));
      std::fill(host_of_.begin(), host_of_.end(), Place{hosts_.back().get(), nullptr});
      return;
    }
    const std::vector<proxy::NodeConfig> plans = plan_nodes_of_hosts(config_, run, options_.hosts);
    std::optional<std::vector<PlacedCluster>> placed;
    if (are_this_machine(options_.hosts)) placed = place(plans);
    tree_.emplace(children_, *options_.launcher, options_.hosts, options_.agent);
    for (const Host& host : options_.hosts) {
      hosts_.push_back(std::make_unique<RemoteHost>(
          children_, options_, host, tree_->take_command(hosts_.size()), run,
          std::span(plans).subspan(host.first_cluster, host.clusters), placed ? &*placed : nullptr));
      std::fill_n(host_of_.begin() + host.first_cluster, host.clusters, Place{hosts_.back().get(), &host});
    }
  }

  // Of all clusters, on this machine.
  std::vector<PlacedCluster> place(std::span<const proxy::NodeConfig> plans) {
    Placement placement = place_here(config_, plans, claims_, options_.hosts);
    const std::string memory = warn_of_memory(config_, plans.size());
    for (const std::string& warning : {placement.why_not, memory})
      if (!warning.empty() && !options_.is_quiet) children_.output().report(warning);
    return std::move(placement.clusters);
  }

  Result<void> start_daemons() {
    for (unsigned k = 0; k < config_.clusters; ++k) adopt({Role::kDaemon, k});
    for (const auto& host : hosts_) {
      if (Result<void> done = host->start_daemons(); !done) {
        take_events();
        forget_unstarted();
        return done;
      }
    }
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
      const Result<void> done = host_of_[k].runs_on->start_application(
          k, *input, is_debugged ? debugger_->address() : std::string());
      input_.started(k);
      if (!done) return fail(Cause::kRunCannotContinue, done.error().text);
      adopt({Role::kApplication, k});
    }
  }

  void adopt(const RunProcess& process) {
    const Place& place = host_of_[process.cluster];
    members_.push_back({.process = process, .host = place.host, .runs_on = place.runs_on});
  }

  // A start failed half-way: what was not told of does not run.
  void forget_unstarted() {
    for (Member& member : members_)
      if (member.pid == 0) member.alive = false;
  }

  // --- one turn of the loop

  void turn() {
    wait();
    for (const int signal : children_.take_signals()) take_signal(signal);
    const Instant begun = monotonic_now();
    turn_hosts(begun);
    for (const EndedChild& ended : children_.take_ended()) take_end(ended);
    take_events();
    note_ends();
    if (phase() == Phase::kStarting && late_clusters().empty() && !is_ending()) start_applications();
    look_at_progress();
    if (debugger_) {
      if (Result<void> done = debugger_->turn(children_); !done)
        fail(Cause::kRunCannotContinue, done.error().text);
    }
    const Instant now = monotonic_now();
    if (std::any_of(hosts_.begin(), hosts_.end(), [](const auto& h) { return h->is_sending_program(); }))
      timeline_.on_start_held_up(now);
    while (const auto action = timeline_.poll(now)) carry_out(*action);
    children_.output().write_some();
    if (children_.output().take_output_failure()) on_output_failure(children_.output().output_problem());
  }

  void turn_hosts(Instant now) {
    if (tree_) tree_->turn(now, children_.output().is_reading());
    for (const auto& host : hosts_) host->turn(now);
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
    Instant until = earlier(timeline_.next_deadline(), watchdog_.next_deadline());
    if (tree_) {
      tree_->watch(fds, children_.output().is_reading());
      until = earlier(until, tree_->next_deadline());
    }
    for (const auto& host : hosts_) {
      host->watch(fds);
      until = earlier(until, host->next_deadline());
    }
    children_.wait(until, fds);
    if (Result<void> done = input_.turn(); !done) fail(Cause::kRunCannotContinue, done.error().text);
  }

  void look_at_progress() {
    const Instant now = monotonic_now();
    if (now < watchdog_.next_deadline()) return;
    switch (watchdog_.look(
        now,
        {.all_wait = all_wait(), .others_compute_alone = others_compute_alone(), .progress = progress()})) {
      case Watchdog::Finding::kNothing:
        return;
      case Watchdog::Finding::kAloneHint:
        ask_for_waits();
        return children_.output().report(fmt::format(
            "for {} s some compute nodes have waited while all others computed without a call of the runtime; the "
            "applications print which, and where. A long computation is fine, and the run continues. But a loop that polls a "
            "plain variable may never end, for nothing brings it what another cluster writes: wait by a lock, condition, flag, "
            "barrier or PAUSE, or make the variable volatile (pthread and PARMACS programs); --check-races finds such loops "
            "(all programs but those with --pthreads)",
            config_.watchdog_hint_s));
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
             return m.process.role == Role::kDaemon || !m.alive || m.runs_on->waits(m.process.cluster);
           });
  }

  // While there are some that wait.
  bool others_compute_alone() const {
    dsm::NodesNow nodes;
    for (const Member& m : members_) {
      if (m.process.role == Role::kDaemon || !m.alive) continue;
      if (m.runs_on->is_stopped(m.process)) return false;
      nodes += m.runs_on->nodes(m.process.cluster);
    }
    return nodes.waiting > 0 && nodes.alone > 0 && nodes.other == 0;
  }

  std::uint64_t progress() const {
    std::uint64_t sum = 0;
    for (const auto& host : hosts_) sum += host->progress();
    return sum;
  }

  std::vector<unsigned> late_clusters() const {
    std::vector<unsigned> late;
    for (const auto& host : hosts_)
      for (const unsigned cluster : host->late_clusters()) late.push_back(cluster);
    return late;
  }

  void ask_for_waits() {
    for (const Member& m : members_) {
      if (m.process.role == Role::kApplication && m.alive) m.runs_on->ask_for_waits(m.process.cluster);
    }
  }

  std::string describe_stall() const {
    std::string stopped;
    for (const Member& m : members_) {
      if (m.alive && m.runs_on->is_stopped(m.process))
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
    if (tree_ && tree_->take_end(ended)) return turn_hosts(monotonic_now());
    for (const auto& host : hosts_)
      if (host->take_end(ended)) return;
  }

  void take_events() {
    for (const auto& host : hosts_) {
      for (const HostEvent& event : host->take_events()) {
        if (const auto* const started = std::get_if<ProcessStarted>(&event))
          member_of(started->process).pid = started->pid;
        else if (const auto* const ended = std::get_if<ProcessEnded>(&event))
          take_end(*ended);
        else
          take_failure(*host, std::get<HostFailed>(event));
      }
    }
  }

  void take_failure(const RunHost& host, const HostFailed& failure) {
    for (Member& member : members_) {
      if (member.runs_on == &host && (failure.is_lost || member.pid == 0)) member.alive = false;
    }
    fail(Cause::kRunCannotContinue, failure.text);
  }

  Member& member_of(const RunProcess& process) {
    return *std::find_if(members_.begin(), members_.end(),
                         [&](const Member& m) { return m.process == process; });
  }

  void take_end(const ProcessEnded& ended) {
    Member& member = member_of(ended.process);
    const unsigned cluster = member.process.cluster;
    member.alive = false;
    member.wait_status = ended.wait_status;
    if (member.process.role == Role::kApplication) input_.close(cluster);
    const int status = ended.wait_status;
    const bool asked = member.asked_to_end;
    bool fails = false;
    if (member.process.role == Role::kApplication) {
      take_consequence(cluster, ended.end);
      fails = verdict_.on_application_end(member.name(), status, asked, ended.end);
    } else {
      fails = verdict_.on_daemon_end(member.name(), status, asked, phase(), ended.end.text);
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
    if (!any_alive() && phase() == Phase::kClosing)
      for (const auto& host : hosts_) host->close();
    if (!any_alive() && !children_.any_alive()) timeline_.on_all_ended(monotonic_now());
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
      gave_up_reader_ = !any_alive() && !children_.any_alive() && phase() == Phase::kClosing;
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
      if (member.alive && member.process.role == Role::kApplication)
        member.runs_on->signal(member.process, signal, SignalTo::kGroup);
    }
  }

  // --- what is known and done

  Phase phase() const { return timeline_.phase(); }
  // By a failure or by the user.
  bool is_ending() const { return verdict_.failed() || verdict_.interrupted() != 0; }

  bool any_alive(Role role) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const Member& m) { return m.alive && m.process.role == role; });
  }
  bool any_alive() const { return any_alive(Role::kDaemon) || any_alive(Role::kApplication); }

  // After a failure the user may still look at the process; after a signal to this command nobody does.
  bool holds_for_debugger() const {
    return debugger_ && debugger_->is_used_by_hand() && verdict_.interrupted() == 0;
  }
  bool is_held(const Member& member) const {
    return holds_for_debugger() && member.process.role == Role::kApplication &&
           member.process.cluster == debugger_->cluster();
  }

  void ask_to_end(std::optional<Role> role = {}) {
    for (Member& member : members_) {
      if (!member.alive || is_held(member) || (role && member.process.role != *role)) continue;
      member.asked_to_end = true;
      member.runs_on->signal(member.process, SIGTERM, SignalTo::kGroup);
    }
  }

  void kill_all() {
    for (Member& member : members_) {
      if (!member.alive || is_held(member)) continue;
      member.asked_to_end = true;
      member.runs_on->signal(member.process, SIGKILL, SignalTo::kGroup);
    }
    if (debugger_ && is_ending() && !holds_for_debugger()) debugger_->kill(children_);
    timeline_.on_killed();
  }

  std::string late_daemons() const {
    std::vector<std::string> silent;
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (!hosts_[i]->has_answered()) silent.push_back(options_.hosts[i].name);
    if (!silent.empty())
      return fmt::format(
          "after {:.1f} s the braid-node of host {} has not answered; its messages, if there are any, are above. 'braid doctor' with "
          "the same hosts tries the connections. To wait longer, set --start-timeout (now {} ms)",
          (monotonic_now() - timeline_.begun()).s(), fmt::join(silent, ", "), config_.start_timeout_ms);
    return fmt::format(
        "after {:.1f} s the braidd of cluster {} is not connected to all others; its messages, if there are any, "
        "are above. To wait longer, set --start-timeout (now {} ms)",
        (monotonic_now() - timeline_.begun()).s(), fmt::join(late_clusters(), ", "),
        config_.start_timeout_ms);
  }

  bool finished() {
    if (any_alive() || children_.any_alive() || (verdict_.failed() && !verdict_.announced())) return false;
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
    for (const auto& host : hosts_) host->collect(report.clusters);
    report.protections = protections_of(report.clusters);
    subtract_before_reset(report.clusters);
    for (const Member& member : members_) {
      if (member.pid == 0) continue;
      ClusterReport& cluster = report.clusters[member.process.cluster];
      const bool daemon = member.process.role == Role::kDaemon;
      if (member.host != nullptr) cluster.host = member.host->name;
      (daemon ? cluster.daemon : cluster.application) = member.pid;
      (daemon ? cluster.daemon_end : cluster.application_end) = describe_end(member.wait_status);
    }
    return report;
  }

  RunOptions& options_;
  const settings::RunConfig& config_;
  ChildProcesses children_;
  CoreClaims claims_;
  PortClaims ports_;
  InputRelay input_;
  Timeline timeline_;
  Verdict verdict_;
  Watchdog watchdog_;
  std::optional<Debugger> debugger_;
  // The host of a cluster.
  struct Place {
    RunHost* runs_on;
    const Host* host;
  };
  std::optional<HostTree> tree_;  // before hosts_, which use it
  std::vector<std::unique_ptr<RunHost>> hosts_;
  std::vector<Place> host_of_;             // by cluster
  std::vector<Member> members_;            // in the order of starting
  std::vector<std::string> consequences_;  // lines that wait until the cause is announced
  bool gave_up_reader_ = false;            // the user has ended the wait for the reader of our output
};

}  // namespace

Result<RunReport> supervise(RunOptions options) {
  // A shell that runs this in the background ignores it. Here it ends nothing.
  ::signal(SIGQUIT, SIG_DFL);
  Result<ChildProcesses> children =
      ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}});
  if (!children) return children.error();
  // After the keeper, which has the memory of this process as it is before.
  if (options.is_sealed) {
    auto secret = make_secret();
    if (!secret) return secret.error();
    options.secret = std::move(*secret);
  }
  return Supervisor(options, std::move(*children)).run();
}

}  // namespace braid::cli
