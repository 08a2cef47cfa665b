#include "tools/braid/run/host_agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/memfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "settings/views/json.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/forget.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/host_cores.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/local_host.h"
#include "tools/braid/run/messages.h"
#include "tools/braid/run/place_here.h"
#include "tools/braid/run/remote_host.h"
#include "tools/braid/run/tree/first_words.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

// The processes' output is waited for so long after their end: one that left its group may hold a pipe.
constexpr Duration kLateOutput = 500_ms;

// One of the processes' two streams, on its way from their relay into messages.
struct Stream {
  int number;  // as in messages.h
  Descriptor read;
};

// Input of an application, from the messages to its pipe.
struct Input {
  Descriptor to;
  std::string waiting;
  bool has_ended = false;
};

class Agent {
 public:
  Agent(ChildProcesses children, Pipe out, Pipe err)
      : children_(std::move(children)),
        relay_ends_{std::move(out.write), std::move(err.write)},
        streams_{Stream{1, std::move(out.read)}, Stream{2, std::move(err.read)}},
        to_run_(1) {}

  int serve() {
    to_run_.pending() += kAgentGreeting;
    liveness_.start(monotonic_now());
    while (!finished()) {
      wait();
      turn();
    }
    children_.stop_all();
    return status_;
  }

 private:
  void wait() {
    std::vector<pollfd> fds;
    if (from_run_) fds.push_back({from_run_.get(), POLLIN, 0});
    if (to_run_.wants_to_write()) fds.push_back({to_run_.fd(), POLLOUT, 0});
    for (const Stream& stream : streams_)
      if (to_run_.has_room()) fds.push_back({stream.read.get(), POLLIN, 0});
    for (const auto& [cluster, input] : inputs_)
      if (!input.waiting.empty()) fds.push_back({input.to.get(), POLLOUT, 0});
    if (host_) host_->watch(fds);
    children_.wait(beat_at_, fds);
  }

  void turn() {
    const Instant now = monotonic_now();
    for (const int signal : children_.take_signals()) end_by("a signal asked for the end", 128 + signal);
    read_some(now);
    if (host_) host_->turn(now);
    for (const EndedChild& ended : children_.take_ended()) {
      if (host_) (void)host_->take_end(ended);
    }
    if (host_) tell_events(now);
    children_.output().write_some();
    for (Stream& stream : streams_) forward(stream);
    for (auto& [cluster, input] : inputs_) write_input(cluster, input);
    if (now >= beat_at_) {
      tell_state();
      beat_at_ = now + Liveness::kBeat;
    }
    to_run_.write_some();
    if (to_run_.take_failure()) end_by("the run does not take its messages any more", kLostDaemonStatus);
    look_for_life(now);
    if (is_closing_ && !children_.any_alive() && children_.output().is_open() && now >= close_output_at_)
      children_.output().close_sources();
  }

  void look_for_life(Instant now) {
    if (liveness_.is_lost(now) && !is_closing_)
      end_by(fmt::format("the run: {}", text_of_silence()), kLostDaemonStatus);
  }

  // The run is lost: nobody is told.
  void end_by(const std::string& why, int status) {
    if (is_over_) return;
    is_over_ = true;
    status_ = status;
    fmt::print(stderr, "braid-node: {}; everything that it started here ends\n", why);
  }

  bool finished() {
    if (is_over_) return true;
    return is_closing_ && !children_.any_alive() && !children_.output().is_open() &&
           children_.output().is_written() && streams_are_empty() && !to_run_.wants_to_write();
  }
  bool streams_are_empty() const {
    return std::all_of(std::begin(streams_), std::end(streams_), [](const Stream& stream) {
      int bytes = 0;
      return ::ioctl(stream.read.get(), FIONREAD, &bytes) != 0 || bytes == 0;
    });
  }

  // --- from the run

  void read_some(Instant now) {
    char bytes[65536];
    while (from_run_) {
      pollfd ready{from_run_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) return;
      const ssize_t n = ::read(from_run_.get(), bytes, sizeof bytes);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
      if (n <= 0) {
        (void)from_run_.release();  // 0: it stays open, or another file would get its number
        if (!is_closing_)
          end_by(
              has_heard_
                  ? "the run has ended, or its connection"
                  : "its standard input ended before a word came: 'braid run' and 'braid doctor' start braid-node and speak to it "
                    "there. If one of them did, a start-up file of the login shell, or what started it, has taken their words",
              has_heard_ ? kLostDaemonStatus : kUsageStatus);
        return;
      }
      liveness_.on_word(now);
      has_heard_ = true;
      reader_.feed({bytes, static_cast<std::size_t>(n)});
      forget(bytes);
      try {
        while (const std::optional<Message> message = reader_.next()) take(*message);
      } catch (const Message::exception& problem) {
        return end_by(fmt::format("what came is no message of braid run: {}", problem.what()), kUsageStatus);
      }
    }
  }

  void take(const Message& message) {
    const std::string what = message.at("do").get<std::string>();
    if (what == "program") {
      if (const Result<void> done = take_program(bytes_of(message.at("bytes"))); !done)
        tell_failure(done.error().text);
    } else if (what == "begin") {
      if (const Result<void> done = begin(message); !done) tell_failure(done.error().text);
    } else if (what == "close") {
      is_closing_ = true;
      close_output_at_ = monotonic_now() + kLateOutput;
    } else if (host_ && what == "start_application") {
      const auto cluster = message.at("cluster").get<unsigned>();
      const Result<void> done = start_application(cluster, message.at("input").get<bool>());
      if (!done) tell_failure(done.error().text);
    } else if (host_ && what == "signal") {
      host_->signal(named_process(message), message.at("number").get<int>(),
                    message.at("group").get<bool>() ? SignalTo::kGroup : SignalTo::kProcess);
    } else if (host_ && what == "ask_for_waits") {
      host_->ask_for_waits(message.at("cluster").get<unsigned>());
    } else if (what == "input" || what == "end_input") {
      take_input(message, what == "end_input");
    }
  }

  Result<void> begin(const Message& message) {
    const std::string version = message.at("version").get<std::string>();
    if (version != kVersion)
      return error("its braid has version {}, this one {}: install the same version on every host", kVersion,
                   version);
    const std::string folder = message.at("folder").get<std::string>();
    if (::chdir(folder.c_str()) != 0)
      return error("the working folder {}: {}; start in one that every host has, or name one with --folder",
                   folder, cause_and_cure(errno));
    Result<settings::RunConfig> config = settings::from_json<settings::RunConfig>(
        message.at("configuration").get<std::string>(), "the configuration");
    if (!config) return config.error();
    options_.config = std::move(*config);
    options_.command = message.at("command").get<std::vector<std::string>>();
    options_.exported = message.at("exported").get<Environment>();
    const std::optional<Labels> labels = labels_named(message.at("labels").get<std::string>());
    if (!labels) refuse_message("it names labels that there are not");
    options_.labels = *labels;
    const std::string name = message.at("host").get<std::string>();
    const bool is_quiet = message.at("is_quiet").get<bool>();
    if (const Result<void> done = keep_to_cores(message, name, is_quiet); !done) return done.error();
    if (const Result<void> done = take_secret(message); !done) return done.error();
    if (const Result<void> done = find_programs(message); !done) return done.error();
    if (const Result<void> done = make_capture_folder(); !done) return done.error();
    std::vector<proxy::NodeConfig> plans;
    for (const Message& text : message.at("plans")) {
      const Result<proxy::NodeConfig> plan = read_plan(text.get<std::string>());
      if (!plan) return plan.error();
      clusters_.push_back(plan->cluster);
      plans.push_back(*plan);
    }
    if (!plans.empty()) options_.config.proxies = plans.front().proxies;  // hosts may differ
    settings::RunConfig own = options_.config;
    own.clusters = static_cast<unsigned>(plans.size());
    for (proxy::NodeConfig& plan : plans) plan.idle.spins = own.spins(usable_cores());
    std::vector<PlacedCluster> placed;
    if (message.contains("placed"))
      placed = message["placed"].get<std::vector<PlacedCluster>>();
    else
      placed = place_own(plans, name, is_quiet);
    host_ = std::make_unique<LocalHost>(children_, options_, message.at("run").get<std::string>(),
                                        std::move(plans));
    host_->place(placed);
    Result<void> done = host_->start_daemons();
    options_.secret.reset();  // the daemons have it
    return done;
  }

  Result<void> keep_to_cores(const Message& message, const std::string& name, bool is_quiet) {
    const Result<std::string> warning = cli::keep_to_cores(message.at("cores").get<std::vector<unsigned>>());
    if (!warning) return warning.error();
    if (!warning->empty() && !is_quiet) children_.output().report(fmt::format("host {}: {}", name, *warning));
    return {};
  }

  std::vector<PlacedCluster> place_own(std::span<const proxy::NodeConfig> plans, const std::string& name,
                                       bool is_quiet) {
    Placement placement = place_here(options_.config, plans, claims_);
    const std::string memory = warn_of_memory(options_.config, plans.size());
    for (const std::string& warning : {placement.why_not, memory})
      if (!warning.empty() && !is_quiet) children_.output().report(fmt::format("host {}: {}", name, warning));
    return std::move(placement.clusters);
  }

  Result<void> take_secret(const Message& message) {
    std::string secret;
    if (message.contains("credential")) {
      Result<std::string> opened = open_slurm_credential(message["credential"].get<std::string>());
      if (!opened) return opened.error();
      secret = std::move(*opened);
    } else if (message.contains("secret")) {
      secret = bytes_of(message["secret"]);
    } else {
      return {};
    }
    if (secret.size() != stack::Secret::kBytes)
      return error("the run's secret has {} bytes and not {}: install the same version on every host",
                   secret.size(), stack::Secret::kBytes);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(secret));
    options_.secret = std::make_shared<const stack::Secret>(bytes.first<stack::Secret::kBytes>());
    stack::wipe(bytes);
    return {};
  }

  // Its bounds and relations are checked when its descriptors are known (launcher.h).
  static Result<proxy::NodeConfig> read_plan(const std::string& text) {
    const Result<settings::Document> document = settings::parse_json(text, "the plan of a node");
    if (!document) return document.error();
    settings::Collector<proxy::NodeConfig> collector;
    if (const Result<void> done = collector.load(*document); !done) return done.error();
    return collector.unchecked();
  }

  Result<void> make_capture_folder() const {
    const std::string& folder = options_.config.capture.directory;
    std::error_code problem;
    if (!folder.empty()) std::filesystem::create_directories(folder, problem);
    if (problem)
      return error("--capture: {}: {}; name a folder that this user may make on every host", folder,
                   problem.message());
    return {};
  }

  Result<void> find_programs(const Message& message) {
    const Result<std::string> daemon = find_daemon(own_folder());
    if (!daemon) return daemon.error();
    options_.daemon = *daemon;
    options_.application = message.at("application").get<std::string>();
    if (message.at("is_sent").get<bool>()) {
      if (const Result<void> done = take_program({}); !done) return done;
      options_.application = fmt::format("/proc/{}/fd/{}", ::getpid(), program_.get());
      return {};
    }
    if (::access(options_.application.c_str(), X_OK) != 0)
      return error(
          "{}: {}; put the program there too (a shared file system), executable, or send it with --send",
          options_.application, std::strerror(errno));
    return {};
  }

  // Into a file without a name, which is gone with this process.
  Result<void> take_program(std::string_view bytes) {
    if (!program_) program_ = Descriptor(::memfd_create("braid-program", MFD_CLOEXEC));
    if (!program_) return error("memory for the program: {}", cause_and_cure(errno));
    while (!bytes.empty()) {
      const ssize_t n = ::write(program_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return error("memory for the program: {}", cause_and_cure(errno));
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
  }

  Result<void> start_application(unsigned cluster, bool has_input) {
    if (!has_input) return host_->start_application(cluster, -1, "");
    Result<Pipe> pipe = make_pipe();
    if (!pipe) return pipe.error();
    ::fcntl(pipe->write.get(), F_SETFL, O_NONBLOCK);
    inputs_[cluster].to = std::move(pipe->write);
    return host_->start_application(cluster, pipe->read.get(), "");
  }

  void take_input(const Message& message, bool is_end) {
    const auto input = inputs_.find(message.at("cluster").get<unsigned>());
    if (input == inputs_.end()) return;
    if (is_end)
      input->second.has_ended = true;
    else
      input->second.waiting += bytes_of(message.at("bytes"));
  }

  void write_input(unsigned cluster, Input& input) {
    if (!input.to) return;
    std::size_t taken = 0;
    while (taken < input.waiting.size()) {
      const ssize_t n = ::write(input.to.get(), input.waiting.data() + taken, input.waiting.size() - taken);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) {  // its reader has gone: what comes is not read by anybody
        taken = input.waiting.size();
        input.to.close();
      }
      if (n <= 0) break;
      taken += static_cast<std::size_t>(n);
    }
    input.waiting.erase(0, taken);
    if (taken > 0) tell({{"is", "taken"}, {"cluster", cluster}, {"bytes", taken}});
    if (input.has_ended && input.waiting.empty()) input.to.close();
  }

  // --- to the run

  void tell(const Message& message) { to_run_.pending() += encode(message); }
  void tell_failure(const std::string& text) { tell({{"is", "failed"}, {"text", text}}); }

  static Message named(const char* is, const RunProcess& process) {
    Message message = {{"is", is}};
    name_process(message, process);
    return message;
  }

  void tell_events(Instant now) {
    const std::vector<unsigned> late = host_->late_clusters();
    for (const unsigned cluster : clusters_) {
      if (std::find(late.begin(), late.end(), cluster) != late.end() || !told_ready_.insert(cluster).second)
        continue;
      tell({{"is", "ready"}, {"cluster", cluster}});
    }
    for (const HostEvent& event : host_->take_events()) {
      if (const auto* const started = std::get_if<ProcessStarted>(&event)) {
        Message message = named("started", started->process);
        message["pid"] = started->pid;
        tell(message);
      } else if (const auto* const ended = std::get_if<ProcessEnded>(&event)) {
        tell_end(*ended, now);
      }
    }
  }

  // The output of a process comes before its end.
  void tell_end(const ProcessEnded& ended, Instant now) {
    Message message = named("ended", ended.process);
    message["status"] = ended.wait_status;
    message["end"] = message_of(ended.end, now);
    std::vector<ClusterReport> all(options_.config.clusters);
    host_->collect(all);
    const ClusterReport& own = all[ended.process.cluster];
    message["proxies"] = own.proxies;
    message["report"] = own.application_report;
    tell(message);
  }

  void tell_state() {
    Message clusters = Message::array();
    if (host_) {
      const std::uint64_t progress = host_->progress();
      for (const unsigned cluster : clusters_) {
        clusters.push_back({{"cluster", cluster},
                            {"waits", host_->waits(cluster)},
                            {"daemon_is_stopped", host_->is_stopped({Role::kDaemon, cluster})},
                            {"application_is_stopped", host_->is_stopped({Role::kApplication, cluster})},
                            {"nodes", host_->nodes(cluster).packed()},
                            // Of the whole host, told once.
                            {"progress", cluster == clusters_.front() ? progress : 0}});
      }
    }
    tell({{"is", "state"}, {"clusters", clusters}});
  }

  void forward(Stream& stream) {
    while (to_run_.has_room()) {
      pollfd ready{stream.read.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0 || (ready.revents & POLLIN) == 0) return;
      char bytes[kOutputAtOnce];
      const ssize_t n = ::read(stream.read.get(), bytes, sizeof bytes);
      if (n <= 0) return;
      tell({{"is", "output"},
            {"stream", stream.number},
            {"bytes", bytes_value({bytes, static_cast<std::size_t>(n)})}});
    }
  }

  ChildProcesses children_;
  Descriptor relay_ends_[2];  // what children_ writes to
  Stream streams_[2];
  Descriptor from_run_{0};
  Sink to_run_;
  MessageReader reader_;
  RunOptions options_;
  CoreClaims claims_;
  Descriptor program_;
  std::vector<unsigned> clusters_;
  std::unique_ptr<LocalHost> host_;  // after children_ and options_, which it uses
  std::set<unsigned> told_ready_;
  std::map<unsigned, Input> inputs_;
  bool has_heard_ = false, is_closing_ = false, is_over_ = false;
  int status_ = 0;
  Liveness liveness_;
  Instant beat_at_ = Instant::from_ns(0);
  Instant close_output_at_ = Instant::never();
};

}  // namespace

int serve_host() {
  Result<Pipe> out = make_pipe(), err = make_pipe();
  for (const Result<Pipe>* pipe : {&out, &err})
    if (!*pipe) refuse(kLostDaemonStatus, pipe->error().text);
  Result<ChildProcesses> children = ChildProcesses::create(
      {.signals = {SIGINT, SIGTERM, SIGHUP}, .out_fd = out->write.get(), .err_fd = err->write.get()});
  if (!children) refuse(kLostDaemonStatus, children.error().text);
  return Agent(std::move(*children), std::move(*out), std::move(*err)).serve();
}

}  // namespace braid::cli
