#include "tools/braid/run/launcher.h"

#include <fmt/core.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/output_file.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "dsm/live/environment.h"
#include "proxy/nic/shm_wire.h"
#include "settings/limits.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

// More than any application's report.
constexpr std::size_t kMaxReportBytes = 16u << 20;

}  // namespace

void Launcher::place(std::span<const PlacedCluster> clusters) {
  for (const PlacedCluster& placed : clusters) {
    for (proxy::NodeConfig& plan : plans_)
      if (plan.cluster == placed.cluster) plan.processors = text_of_processors(placed.proxies);
    processors_[placed.cluster] = placed.nodes;
  }
}

Result<void> Launcher::make_wires() {
  std::vector<WireEnds> ends = shm_wires(plans_);
  if (ends.empty()) return {};
  const Result<proxy::ShmWireOptions> options = plan_wire(config_, ends.size());
  if (!options) return options.error();
  for (const WireEnds& wire : ends) {
    Result<int> memory = proxy::create_shm_wire(*options);
    if (!memory) return memory.error();
    wires_.emplace_back(*memory);
    wire.first->fd = *memory;
    wire.second->fd = *memory;
  }
  return {};
}

std::vector<unsigned> Launcher::clusters() const {
  std::vector<unsigned> all;
  for (const proxy::NodeConfig& plan : plans_) all.push_back(plan.cluster);
  return all;
}

std::size_t Launcher::index_of(unsigned cluster) const {
  const auto plan = std::find_if(plans_.begin(), plans_.end(),
                                 [&](const proxy::NodeConfig& p) { return p.cluster == cluster; });
  CHECK(plan != plans_.end());
  return static_cast<std::size_t>(plan - plans_.begin());
}

Result<ChildId> Launcher::start_daemon(ChildProcesses& children, unsigned cluster) {
  Result<Listener> listener = make_listener();
  if (!listener) return listener.error();
  auto counters = SharedObject<proxy::NodeCounters>::make("braid-counters");
  if (!counters) return counters.error();
  Result<Pipe> ready = make_pipe();
  if (!ready) return ready.error();

  proxy::NodeConfig& plan = plans_[index_of(cluster)];
  plan.listen_fd = listener->socket.get();
  plan.ready_fd = ready->write.get();
  plan.counters_fd = counters->fd();
  Descriptor secret;
  if (settings::needs_secret(plan)) {
    Result<Descriptor> made = make_secret_file();
    if (!made) return made.error();
    secret = std::move(*made);
    plan.security.secret_fd = secret.get();
  }
  if (Result<void> valid = plan.validate(); !valid) return valid.error();
  Result<Descriptor> text = make_memory_file_of("braid-node-config", proxy::to_json(plan));
  if (!text) return text.error();

  ProcessOptions options;
  options.path = options_.daemon;
  options.arguments = {"braidd", "--config-fd", std::to_string(text->get())};
  options.environment = merge_environment(environ, {});
  options.inherited = {text->get(), plan.listen_fd, plan.ready_fd, plan.counters_fd};
  if (secret) options.inherited.push_back(secret.get());
  for (const proxy::LinkConfig& link : plan.links) {
    if (link.fd >= 0) options.inherited.push_back(link.fd);
  }
  options.network_namespace = namespace_of(cluster);
  // It starts no processes, and may need rights that it would not have in a user namespace.
  options.contained = false;
  Result<ChildId> child = children.start(options, fmt::format("[braidd {}] ", cluster));
  // From here on only the daemon holds its socket: a client that connects after its death is refused instead
  // of left waiting.
  if (child)
    nodes_.push_back({.service = listener->address,
                      .counters = std::move(*counters),
                      .ready = std::move(ready->read),
                      .report = {},
                      .pulse = {}});
  return child;
}

// The daemon reads it and closes it.
Result<Descriptor> Launcher::make_secret_file() const {
  if (!options_.secret) return error("the run has given no secret, and a link is to be sealed");
  const auto bytes = options_.secret->bytes();
  Result<Descriptor> file = make_memory_file("braid-secret", 0);
  if (!file) return file;
  if (const int problem = write_all(file->get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      problem != 0)
    return error("the run's secret: {}", cause_and_cure(problem));
  return file;
}

std::string Launcher::namespace_of(unsigned cluster) const {
  if (config_.wire != settings::Wire::kDpdk || config_.dpdk.kind != settings::DpdkKind::kAfPacket) return {};
  for (const settings::InterfaceConfig& i : config_.dpdk.interfaces) {
    if (i.cluster == cluster) return i.netns;
  }
  return {};
}

Result<ChildId> Launcher::start_application(ChildProcesses& children, unsigned cluster, int input,
                                            const std::string& debugger) {
  Node& node = nodes_[index_of(cluster)];
  Result<Descriptor> report = make_memory_file("braid-report", 0);
  if (!report) return report.error();
  node.report = std::move(*report);
  ProcessOptions options;
  options.path = options_.application;
  options.arguments = options_.command;
  options.inherited = {node.report.get()};
  options.stdin_fd = input;
  auto pulse = SharedObject<dsm::Pulse>::make("braid-pulse");
  if (!pulse) return pulse.error();
  options.inherited.push_back(pulse->fd());
  settings::RunConfig config = config_;
  // The others wait in init() for one that its user has not let come so far.
  if (options_.debugger) config.start_timeout_ms = settings::kDayMs;
  Environment variables = plan_environment(config, cluster, node.service, node.report.get(), pulse->fd());
  variables.emplace_back(dsm::variable::kRun, run_name_);
  if (plans_.size() < config_.clusters)
    variables.emplace_back(dsm::variable::kHostClusters, text_of_processors(clusters()));
  if (const auto placed = processors_.find(cluster); placed != processors_.end())
    variables.emplace_back(dsm::variable::kProcessors, text_of_processors(placed->second));
  variables.insert(variables.end(), options_.exported.begin(), options_.exported.end());
  if (!debugger.empty()) variables.emplace_back(dsm::variable::kDebugger, debugger);
  // In a container thread numbers are others than those that gdb sees.
  options.contained = !options_.debugger;
  options.environment = merge_environment(environ, variables);
  if (const Result<void> done = leave_unlabelled(children.output(), options); !done) return done.error();
  node.pulse = std::make_unique<SharedObject<dsm::Pulse>>(std::move(*pulse));
  Result<ChildId> child = children.start(options, fmt::format("[c{}] ", cluster));
  const auto is_asked_for = [](const Node& of) { return of.pulse != nullptr; };
  if (std::all_of(nodes_.begin(), nodes_.end(), is_asked_for)) children.output().no_more_unlabelled();
  return child;
}

Result<void> Launcher::leave_unlabelled(OutputRelay& output, ProcessOptions& options) const {
  for (const int stream : {1, 2}) {
    if (has_labels(options_.labels, stream)) continue;
    const Result<int> end = output.unlabelled(stream);
    if (!end) return end.error();
    (stream == 1 ? options.stdout_fd : options.stderr_fd) = *end;
  }
  return {};
}

void Launcher::watch_ready(std::vector<pollfd>& fds) const {
  for (const Node& node : nodes_) fds.push_back({node.ready.get(), POLLIN, 0});
}

void Launcher::take_ready() {
  for (Node& node : nodes_) {
    char byte;
    pollfd ready{node.ready.get(), POLLIN, 0};
    if (!node.ready || ::poll(&ready, 1, 0) <= 0) continue;
    node.is_ready = ::read(node.ready.get(), &byte, 1) == 1;
    // Without the byte its process is about to end, and its end will tell why.
    node.ready.close();
  }
}

std::vector<unsigned> Launcher::late_clusters() const {
  std::vector<unsigned> late;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (i >= nodes_.size() || !nodes_[i].is_ready) late.push_back(plans_[i].cluster);
  }
  return late;
}

bool Launcher::waits(unsigned cluster) const {
  const Node* const node = find_node(cluster);
  return node != nullptr && node->pulse && (*node->pulse)->counts.load() != 0 &&
         (*node->pulse)->busy.load() <= 0;
}

dsm::NodesNow Launcher::nodes(unsigned cluster) const {
  const Node* const node = find_node(cluster);
  if (node == nullptr || !node->pulse || (*node->pulse)->counts.load() == 0) return {};
  return dsm::NodesNow::of((*node->pulse)->nodes.load());
}

std::uint64_t Launcher::progress() const {
  std::uint64_t sum = 0;
  for (const Node& node : nodes_) {
    if (node.pulse) sum += (*node.pulse)->progress.load();
  }
  return sum;
}

RecordedEnd Launcher::end_of(unsigned cluster) const {
  RecordedEnd end;
  const Node* const node = find_node(cluster);
  if (node == nullptr || !node->pulse) return end;
  const dsm::EndRecord& record = (*node->pulse)->end;
  // The process can write anything there.
  const auto cause = dsm::EndCause{record.cause.load()};
  if (cause > dsm::EndCause::kSignal) return end;
  end.cause = cause;
  end.is_unfinished = config_.clusters > 1 && record.joined.load() != 0 && record.finished.load() == 0;
  end.time = Instant::from_ns(record.time_ns);
  if (cause == dsm::EndCause::kNone) return end;
  if (record.node >= 0) end.node = record.node;
  if (record.has_address != 0) end.address = record.address;
  end.text.assign(record.text, ::strnlen(record.text, dsm::EndRecord::kTextBytes));
  return end;
}

void Launcher::collect(std::vector<ClusterReport>& clusters) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    ClusterReport& report = clusters[plans_[i].cluster];
    report.proxies.clear();
    for (unsigned p = 0; p < config_.proxies; ++p)
      report.proxies.push_back(proxy::values_of(*nodes_[i].counters, p));
    if (nodes_[i].report) report.application_report = contents(nodes_[i].report.get(), kMaxReportBytes);
  }
}

}  // namespace braid::cli
