#include "tools/braid/run/remote_host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "settings/views/json.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

// More than this of what was skipped before the greeting is not shown.
constexpr std::size_t kMostSkipped = 4096;

[[noreturn]] void refuse_message(const char* what) {
  throw Message::other_error::create(500, what, nullptr);
}

}  // namespace

void name_process(Message& message, const RunProcess& process) {
  message["role"] = process.role == Role::kDaemon ? "daemon" : "application";
  message["cluster"] = process.cluster;
}

RunProcess named_process(const Message& message) {
  return {message.at("role").get<std::string>() == "daemon" ? Role::kDaemon : Role::kApplication,
          message.at("cluster").get<unsigned>()};
}

Message message_of(const RecordedEnd& end, Instant now) {
  Message m = {{"cause", static_cast<unsigned>(end.cause)},
               {"is_unfinished", end.is_unfinished},
               {"age_ns", end.cause == dsm::EndCause::kNone ? 0 : (now - end.time).ns()},
               {"text", end.text}};
  if (end.node) m["node"] = *end.node;
  if (end.address) m["address"] = *end.address;
  return m;
}

RecordedEnd end_from(const Message& message, Instant now) {
  RecordedEnd end;
  const auto cause = dsm::EndCause{message.at("cause").get<std::uint32_t>()};
  if (cause > dsm::EndCause::kSignal) return end;
  end.cause = cause;
  end.is_unfinished = message.at("is_unfinished").get<bool>();
  end.time = now - Duration::ns(message.at("age_ns").get<std::int64_t>());
  end.text = message.at("text").get<std::string>();
  if (message.contains("node")) end.node = message["node"].get<int>();
  if (message.contains("address")) end.address = message["address"].get<std::uint64_t>();
  return end;
}

Result<Message> begin_message(const RunOptions& options, const std::string& run,
                              std::span<const proxy::NodeConfig> plans,
                              const std::vector<PlacedCluster>* placed) {
  Message message = {{"do", "begin"},
                     {"version", kVersion},
                     {"run", run},
                     {"configuration", settings::json_of(options.config).dump()},
                     {"plans", Message::array()},
                     {"application", options.application},
                     {"command", options.command},
                     {"exported", options.exported},
                     {"folder", options.folder},
                     {"is_quiet", options.is_quiet}};
  if (placed != nullptr) message["placed"] = *placed;
  for (const proxy::NodeConfig& plan : plans) message["plans"].push_back(proxy::to_json(plan));
  if (options.secret) {
    const stack::KeyView secret = options.secret->bytes();
    const Result<std::optional<std::string>> credential = options.launcher->credential(secret);
    if (!credential) return credential.error();
    if (*credential)
      message["credential"] = **credential;
    else
      message["secret"] = bytes_value({reinterpret_cast<const char*>(secret.data()), secret.size()});
  }
  if (!options.sends_program) return message;
  std::ifstream file(options.application, std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || program.size() >= kMaxMessageBytes)
    return error("--send: {} cannot be read, or is longer than {} MiB", options.application,
                 kMaxMessageBytes >> 20);
  message["program"] = bytes_value(program);
  return message;
}

RemoteHost::RemoteHost(ChildProcesses& children, const RunOptions& options, const Host& host,
                       std::vector<std::string> command, const std::string& run,
                       std::span<const proxy::NodeConfig> plans, const std::vector<PlacedCluster>* placed)
    : children_(children),
      host_(host),
      command_(std::move(command)),
      inherited_(options.launcher->inherited(host)),
      begin_(begin_message(options, run, plans, placed)) {
  for (unsigned k = host.first_cluster; k < host.first_cluster + host.clusters; ++k) clusters_[k];
}

Result<void> RemoteHost::start_daemons() {
  if (!begin_) return begin_.error();
  const char* const path = std::getenv("PATH");
  const Result<std::string> program = find_in_path(command_.front(), path == nullptr ? "" : path);
  if (!program) return error("host {}: {}", host_.name, program.error().text);
  Result<Pipe> to = make_pipe(), from = make_pipe();
  if (!to) return to.error();
  if (!from) return from.error();
  ProcessOptions options;
  options.path = *program;
  options.arguments = command_;
  options.environment = merge_environment(environ, {});
  options.stdin_fd = to->read.get();
  options.stdout_fd = from->write.get();
  options.inherited = inherited_;
  // What it starts on this host has a container of its own.
  options.contained = false;
  const Result<ChildId> child = children_.start(options, fmt::format("[{}] ", host_.name));
  if (!child) return error("host {}: {}", host_.name, child.error().text);
  agent_ = *child;
  for (const auto& [number, cluster] : clusters_) living_.insert({Role::kDaemon, number});
  from_ = std::move(from->read);
  to_ = std::move(to->write);
  ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  out_.emplace(to_.get());
  out_->pending() += encode(*begin_);
  beat_at_ = monotonic_now();
  liveness_.start(beat_at_, kConnect - Liveness::kLost);
  return {};
}

Result<void> RemoteHost::start_application(unsigned cluster, int input, const std::string&) {
  if (input >= 0) {
    Descriptor source(::fcntl(input, F_DUPFD_CLOEXEC, 3));
    if (!source) return error("host {}: standard input: {}", host_.name, cause_and_cure(errno));
    inputs_[cluster].source = std::move(source);
  }
  living_.insert({Role::kApplication, cluster});
  send({{"do", "start_application"}, {"cluster", cluster}, {"input", input >= 0}});
  return {};
}

void RemoteHost::signal(const RunProcess& process, int number, SignalTo to) {
  if (number == SIGKILL && kill_by_ == Instant::never()) kill_by_ = monotonic_now() + kClose;
  Message message = {{"do", "signal"}, {"number", number}, {"group", to == SignalTo::kGroup}};
  name_process(message, process);
  send(message);
}

void RemoteHost::ask_for_waits(unsigned cluster) {
  send({{"do", "ask_for_waits"}, {"cluster", cluster}});
}

void RemoteHost::close() {
  if (is_closing_ || is_lost_ || !agent_) return;
  is_closing_ = true;
  close_by_ = monotonic_now() + kClose;
  inputs_.clear();
  send({{"do", "close"}});
}

void RemoteHost::send(const Message& message) {
  if (is_lost_ || !out_) return;
  out_->pending() += encode(message);
}

// While our own reader is slow, what comes stays in the pipe.
bool RemoteHost::is_reading() const {
  return from_ && children_.output().is_reading();
}

void RemoteHost::watch(std::vector<pollfd>& fds) const {
  if (is_reading()) fds.push_back({from_.get(), POLLIN, 0});
  if (out_ && out_->wants_to_write()) fds.push_back({out_->fd(), POLLOUT, 0});
  for (const auto& [cluster, input] : inputs_) {
    if (input.source && input.on_the_way < kInputOnTheWay) fds.push_back({input.source.get(), POLLIN, 0});
  }
}

Instant RemoteHost::next_deadline() const {
  return is_lost_ || !agent_ ? Instant::never() : earlier(beat_at_, earlier(kill_by_, close_by_));
}

void RemoteHost::turn(Instant now) {
  if (!agent_) return;
  if (!is_lost_ && now >= beat_at_) {
    send({{"do", "beat"}});
    beat_at_ = now + Liveness::kBeat;
  }
  if (is_reading()) read_some(now);
  for (auto& [cluster, input] : inputs_) forward_input(cluster, input);
  if (out_) out_->write_some();
  look_for_life(now);
  if (now >= kill_by_) {
    kill_by_ = Instant::never();
    if (!living_.empty()) lose("its processes did not end when they were killed");
  }
  if (now >= close_by_) {
    close_by_ = Instant::never();
    children_.send_to_group(*agent_, SIGKILL);
  }
}

void RemoteHost::look_for_life(Instant now) {
  if (is_lost_) return;
  if (!is_reading()) liveness_.on_word(now);
  if (!liveness_.is_lost(now)) return;
  lose(is_greeted_
           ? fmt::format("it has said nothing for {:.0f} s", Liveness::kLost.s())
           : fmt::format(
                 "its braid-node has not answered for {:.0f} s; its messages, if there are any, are above",
                 kConnect.s()));
}

void RemoteHost::lose(const std::string& why) {
  if (is_lost_) return;
  is_lost_ = true;
  inputs_.clear();
  living_.clear();
  events_.push_back(HostFailed{fmt::format("host {} is lost: {}", host_.name, why), true});
  to_.close();
  out_.reset();
  children_.send_to_group(*agent_, SIGKILL);
}

bool RemoteHost::take_end(const EndedChild& ended) {
  if (!agent_ || ended.child != *agent_) return false;
  // What it said before its end counts.
  read_some(monotonic_now());
  from_.close();
  if (is_closing_) {
    is_lost_ = true;  // as expected
    close_by_ = Instant::never();
    return true;
  }
  lose(fmt::format(
      "{} {}{}", command_.front(), describe_end(ended.wait_status),
      is_greeted_ ? "" : " before its braid-node had answered; its messages, if there are any, are above"));
  return true;
}

void RemoteHost::read_some(Instant now) {
  char bytes[65536];
  while (from_) {
    const ssize_t n = ::read(from_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return from_.close();  // it is about to end
    try {
      take_bytes({bytes, static_cast<std::size_t>(n)});
      if (is_greeted_) liveness_.on_word(now);
    } catch (const Message::exception& problem) {
      return lose(fmt::format("what it said is no message of a braid-node: {}", problem.what()));
    }
  }
}

void RemoteHost::take_bytes(std::string_view bytes) {
  reader_.feed(bytes);
  if (!is_greeted_) {
    std::string skipped;
    is_greeted_ = reader_.skip_to(kAgentGreeting, skipped);
    if (!is_greeted_) return;
    if (!skipped.empty())
      children_.output().print_error(fmt::format("[{}] {}", host_.name, skipped.substr(0, kMostSkipped)));
  }
  while (const std::optional<Message> message = reader_.next()) take(*message);
}

RunProcess RemoteHost::living_process(const Message& message) const {
  const RunProcess process = named_process(message);
  if (!living_.contains(process)) refuse_message("it names a process that was not asked for, or has ended");
  return process;
}

RemoteHost::Cluster& RemoteHost::cluster_of(const Message& message) {
  const auto cluster = clusters_.find(message.at("cluster").get<unsigned>());
  if (cluster == clusters_.end()) refuse_message("it names a cluster of another host");
  return cluster->second;
}

void RemoteHost::take(const Message& message) {
  const std::string is = message.at("is").get<std::string>();
  if (is == "started") {
    events_.push_back(ProcessStarted{living_process(message), message.at("pid").get<pid_t>()});
  } else if (is == "failed") {
    events_.push_back(
        HostFailed{fmt::format("host {}: {}", host_.name, message.at("text").get<std::string>())});
  } else if (is == "ready") {
    cluster_of(message).is_ready = true;
  } else if (is == "ended") {
    take_end(message);
  } else if (is == "state") {
    take_state(message.at("clusters"));
  } else if (is == "output") {
    children_.output().print(message.at("stream").get<int>(), bytes_of(message.at("bytes")));
  } else if (is == "taken") {
    const auto input = inputs_.find(message.at("cluster").get<unsigned>());
    const auto bytes = message.at("bytes").get<std::size_t>();
    if (input != inputs_.end()) input->second.on_the_way -= std::min(bytes, input->second.on_the_way);
  }
}

void RemoteHost::take_state(const Message& clusters) {
  for (const Message& state : clusters) {
    Cluster& cluster = cluster_of(state);
    cluster.waits = state.at("waits").get<bool>();
    cluster.is_stopped[0] = state.at("daemon_is_stopped").get<bool>();
    cluster.is_stopped[1] = state.at("application_is_stopped").get<bool>();
    cluster.progress = state.at("progress").get<std::uint64_t>();
  }
}

void RemoteHost::take_end(const Message& message) {
  const RunProcess process = living_process(message);
  Cluster& cluster = cluster_of(message);
  if (message.contains("proxies")) {
    cluster.report.proxies.clear();
    for (const Message& proxy : message["proxies"])
      cluster.report.proxies.push_back(proxy.get<CounterValues>());
    cluster.report.application_report = message.at("report").get<std::string>();
  }
  RecordedEnd end;
  if (process.role == Role::kApplication) {
    end = end_from(message.at("end"), monotonic_now());
    inputs_.erase(process.cluster);
  }
  living_.erase(process);
  events_.push_back(ProcessEnded{process, message.at("status").get<int>(), std::move(end)});
}

void RemoteHost::forward_input(unsigned cluster, Input& input) {
  while (input.source && input.on_the_way < kInputOnTheWay) {
    pollfd ready{input.source.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return;
    char bytes[16384];
    const ssize_t n = ::read(input.source.get(), bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
      send({{"do", "end_input"}, {"cluster", cluster}});
      return input.source.close();
    }
    input.on_the_way += static_cast<std::size_t>(n);
    send({{"do", "input"},
          {"cluster", cluster},
          {"bytes", bytes_value({bytes, static_cast<std::size_t>(n)})}});
  }
}

std::vector<unsigned> RemoteHost::late_clusters() const {
  std::vector<unsigned> late;
  for (const auto& [number, cluster] : clusters_)
    if (!cluster.is_ready) late.push_back(number);
  return late;
}

bool RemoteHost::waits(unsigned cluster) const {
  return clusters_.at(cluster).waits;
}

bool RemoteHost::is_stopped(const RunProcess& process) const {
  return clusters_.at(process.cluster).is_stopped[process.role == Role::kApplication];
}

std::uint64_t RemoteHost::progress() const {
  std::uint64_t sum = 0;
  for (const auto& [number, cluster] : clusters_) sum += cluster.progress;
  return sum;
}

void RemoteHost::collect(std::vector<ClusterReport>& clusters) const {
  for (const auto& [number, cluster] : clusters_) {
    clusters[number].proxies = cluster.report.proxies;
    clusters[number].application_report = cluster.report.application_report;
  }
}

}  // namespace braid::cli
