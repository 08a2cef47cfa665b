#include "tools/braid/run/remote_host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "settings/views/json.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/version.h"

namespace braid::cli {
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

Result<Message> begin_message(const RunOptions& options, const std::string& run, const Host& host,
                              std::span<const proxy::NodeConfig> plans,
                              const std::vector<PlacedCluster>* placed) {
  Message message = {{"do", "begin"},
                     {"version", kVersion},
                     {"run", run},
                     {"host", host.name},
                     {"cores", host.cores},
                     {"configuration", settings::json_of(options.config).dump()},
                     {"plans", Message::array()},
                     {"application", options.application},
                     {"command", options.command},
                     {"exported", options.exported},
                     {"labels", word_of(options.labels)},
                     {"folder", options.folder},
                     {"is_quiet", options.is_quiet},
                     {"is_sent", options.sent_program != nullptr}};
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
  return message;
}

RemoteHost::RemoteHost(ChildProcesses& children, const RunOptions& options, const Host& host,
                       std::unique_ptr<HostCommand> command, const std::string& run,
                       std::span<const proxy::NodeConfig> plans, const std::vector<PlacedCluster>* placed)
    : children_(children),
      host_(host),
      command_(std::move(command)),
      begin_(begin_message(options, run, host, plans, placed)),
      program_(options.sent_program),
      labels_(options.labels),
      first_words_(kAgentGreeting, host.name) {
  for (unsigned k = host.first_cluster; k < host.first_cluster + host.clusters; ++k) clusters_[k];
}

Result<void> RemoteHost::start_daemons() {
  if (!begin_) return begin_.error();
  if (const Result<void> done = command_->start(); !done)
    return error("host {}: {}", host_.name, done.error().text);
  is_asked_for_ = true;
  liveness_.start(monotonic_now(), kPatience);
  for (const auto& [number, cluster] : clusters_) living_.insert({Role::kDaemon, number});
  beat_at_ = monotonic_now();
  send_program();
  return {};
}

// As much as there is room for, and what begins the run there after all of it.
void RemoteHost::send_program() {
  while (is_sending_program() && command_->has_room()) {
    char bytes[kProgramAtOnce];
    const ssize_t n = program_ ? ::pread(program_->get(), bytes, sizeof bytes, sent_) : 0;
    if (n < 0) {
      events_.push_back(
          HostFailed{fmt::format("host {}: --send: the program: {}", host_.name, cause_and_cure(errno))});
      return give_up_start();
    }
    if (n == 0) {
      command_->send(encode(*begin_));
      begin_ = Message();
      return;
    }
    sent_ += n;
    send({{"do", "program"}, {"bytes", bytes_value({bytes, static_cast<std::size_t>(n)})}});
  }
}

// Nothing has begun there, and nothing will.
void RemoteHost::give_up_start() {
  begin_ = Message();
  for (const RunProcess& process : std::exchange(living_, {}))
    events_.push_back(ProcessEnded{process, SIGTERM, {}});
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
  if (is_sending_program()) return give_up_start();
  if (number == SIGKILL && !has_answered() && !is_lost_) {  // perhaps nothing of it ever was there
    give_up_start();
    close();
    return command_->kill();
  }
  if (number == SIGKILL && kill_by_ == Instant::never()) kill_by_ = monotonic_now() + kClose;
  Message message = {{"do", "signal"}, {"number", number}, {"group", to == SignalTo::kGroup}};
  name_process(message, process);
  send(message);
}

void RemoteHost::ask_for_waits(unsigned cluster) {
  send({{"do", "ask_for_waits"}, {"cluster", cluster}});
}

void RemoteHost::close() {
  if (is_closing_ || is_lost_ || !is_asked_for_) return;
  is_closing_ = true;
  close_by_ = monotonic_now() + kClose;
  inputs_.clear();
  begin_ = Message();
  send({{"do", "close"}});
}

void RemoteHost::send(const Message& message) {
  if (!is_lost_ && is_asked_for_) command_->send(encode(message));
}

// While our own reader is slow, what comes stays in the pipe.
bool RemoteHost::is_reading() const {
  return children_.output().is_reading();
}

void RemoteHost::watch(std::vector<pollfd>& fds) const {
  command_->watch(fds, is_reading());
  for (const auto& [cluster, input] : inputs_) {
    if (input.source && input.on_the_way < kInputOnTheWay) fds.push_back({input.source.get(), POLLIN, 0});
  }
}

Instant RemoteHost::next_deadline() const {
  if (is_sending_program() && command_->has_room()) return Instant::from_ns(0);
  return is_lost_ || !is_asked_for_ ? Instant::never() : earlier(beat_at_, earlier(kill_by_, close_by_));
}

void RemoteHost::turn(Instant now) {
  if (!is_asked_for_) return;
  if (!is_lost_ && now >= beat_at_) {
    send({{"do", "beat"}});
    beat_at_ = now + Liveness::kBeat;
  }
  if (is_reading() || command_->end()) read_some(now);
  if (command_->end()) return take_agents_end(*command_->end());
  send_program();
  for (auto& [cluster, input] : inputs_) forward_input(cluster, input);
  command_->write_some();
  look_for_life(now);
  if (now >= kill_by_) {
    kill_by_ = Instant::never();
    if (!living_.empty()) lose("its processes did not end when they were killed");
  }
  if (now >= close_by_) {
    close_by_ = Instant::never();
    command_->kill();
  }
}

void RemoteHost::look_for_life(Instant now) {
  if (is_lost_) return;
  if (!command_->is_started()) return liveness_.start(now, kPatience);
  if (!is_reading()) liveness_.on_inattention(now);
  // What carries its words is looked after by itself, and then named.
  if (liveness_.is_lost(now) && !command_->is_held_up(now))
    lose(has_answered() ? text_of_silence() : text_of_no_answer());
}

void RemoteHost::lose(const std::string& why) {
  if (is_lost_) return;
  is_lost_ = true;
  if (!has_answered()) first_words_.end(children_.output());
  begin_ = Message();
  inputs_.clear();
  living_.clear();
  events_.push_back(HostFailed{fmt::format("host {} is lost: {}", host_.name, why), true});
  command_->kill();
}

bool RemoteHost::take_end(const EndedChild& ended) {
  if (!command_->take_end(ended)) return false;
  turn(monotonic_now());
  return true;
}

// What it said before its end counts, and was read.
void RemoteHost::take_agents_end(const std::string& end) {
  for (const int stream : {1, 2}) children_.output().print(stream, lines_[stream - 1].take_rest());
  if (is_closing_) {
    is_lost_ = true;  // as expected
    close_by_ = Instant::never();
    return;
  }
  lose(end + (has_answered()
                  ? ""
                  : " before its braid-node had answered; its messages, if there are any, are above"));
}

void RemoteHost::read_some(Instant now) {
  for (std::string bytes = command_->take_output(); !bytes.empty(); bytes = command_->take_output()) {
    if (is_lost_) continue;
    try {
      take_bytes(bytes);
      if (has_answered()) liveness_.on_word(now);
    } catch (const Message::exception& problem) {
      lose(fmt::format("what it said is no message of a braid-node: {}", problem.what()));
    }
  }
}

void RemoteHost::take_bytes(std::string_view bytes) {
  reader_.feed(bytes);
  if (!first_words_.take(reader_, children_.output())) return;
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
    if (is_sending_program()) give_up_start();
  } else if (is == "ready") {
    cluster_of(message).is_ready = true;
  } else if (is == "ended") {
    take_end(message);
  } else if (is == "state") {
    take_state(message.at("clusters"));
  } else if (is == "output") {
    take_output(message);
  } else if (is == "taken") {
    const auto input = inputs_.find(message.at("cluster").get<unsigned>());
    const auto bytes = message.at("bytes").get<std::size_t>();
    if (input != inputs_.end()) input->second.on_the_way -= std::min(bytes, input->second.on_the_way);
  }
}

void RemoteHost::take_output(const Message& message) {
  const int stream = message.at("stream").get<int>();
  if (stream != 1 && stream != 2) refuse_message("it names a stream that there is not");
  const std::string_view bytes = bytes_of(message.at("bytes"));
  if (has_labels(labels_, stream))
    children_.output().print(stream, lines_[stream - 1].take(bytes));
  else
    children_.output().print(stream, bytes);
}

void RemoteHost::take_state(const Message& clusters) {
  for (const Message& state : clusters) {
    Cluster& cluster = cluster_of(state);
    cluster.waits = state.at("waits").get<bool>();
    cluster.is_stopped[0] = state.at("daemon_is_stopped").get<bool>();
    cluster.is_stopped[1] = state.at("application_is_stopped").get<bool>();
    cluster.progress = state.at("progress").get<std::uint64_t>();
    cluster.nodes = dsm::NodesNow::of(state.at("nodes").get<std::uint64_t>());
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
  RecordedEnd end = end_from(message.at("end"), monotonic_now());
  if (process.role == Role::kApplication) inputs_.erase(process.cluster);
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
