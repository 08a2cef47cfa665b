#include "tools/braid/simulate/simulate.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/clock.h"
#include "sim/idle_message.h"
#include "sim/process_shell.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_cycles(Duration d, double cycles_per_second) {
  return static_cast<std::int64_t>(static_cast<double>(d.ns()) * cycles_per_second / 1e9 + 0.5);
}

// One line of JSON for a message: when it was where, in cycles since the run began, and who was before it.
std::string trace_line(const sim::MessageReport& m, const sim::CostModel& model) {
  const auto cycles = [&](Instant at) { return to_cycles(at - Instant(), model.cycles_per_second); };
  const sim::MessageTimes& t = m.times;
  Json j;
  j["message"] = m.number;
  j["from"] = m.from.value();
  j["to"] = m.to.value();
  j["node"] = m.lane;
  j["bytes"] = m.bytes;
  j["proxy"] = m.proxy;
  j["peer_proxy"] = m.peer_proxy;
  j["ahead"] = m.ahead;
  j["behind_message"] = m.behind;
  j["peer_ahead"] = m.peer_ahead;
  j["handed"] = cycles(t.handed);
  j["served"] = cycles(t.served);
  j["left"] = cycles(t.left);
  j["on_link"] = cycles(t.on_link);
  j["arrived"] = cycles(t.arrived);
  j["taken"] = cycles(t.taken);
  j["delivered"] = cycles(t.delivered);
  return j.dump() + "\n";
}

// A proxy's queue in parallel(), in intervals of which the last may be shorter; as columns, for there are
// many.
Json over_time(const sim::QueueHistory& queue, double cycles_per_second) {
  Json mean = Json::array(), most = Json::array();
  for (std::size_t i = 0; i < queue.size(); ++i) {
    mean.push_back(queue[i].mean);
    most.push_back(queue[i].most);
  }
  return Json{{"interval_cycles", queue.width().s() * cycles_per_second}, {"mean", mean}, {"most", most}};
}

// A character for each interval, of all proxies together; empty: nothing was measured. All have measured the
// same time, so their intervals are the same.
std::string sparkline(const std::vector<sim::ProxyFigures>& proxies) {
  static constexpr std::string_view kLevels = " .:-=+*#%@";
  std::vector<double> means(proxies.empty() ? 0 : proxies.front().queue.size());
  for (const sim::ProxyFigures& p : proxies) {
    for (std::size_t i = 0; i < means.size(); ++i)
      means[i] += p.queue[i].mean / static_cast<double>(proxies.size());
  }
  const double largest = means.empty() ? 0 : *std::max_element(means.begin(), means.end());
  if (largest <= 0) return "";
  std::string line;
  for (const double mean : means)
    line += kLevels[static_cast<std::size_t>(mean / largest * static_cast<double>(kLevels.size() - 1) + 0.5)];
  return fmt::format("  queue over time, {} is {:.2f}: [{}]\n", kLevels.back(), largest, line);
}

// In cycles of a compute node, of all proxies together.
Json stages_of(const std::vector<sim::ProxyFigures>& proxies) {
  Json json = Json::object();
  for (std::size_t s = 0; s < sim::kStageNames.size(); ++s) {
    double sum = 0;
    for (const sim::ProxyFigures& p : proxies) sum += p.stages[s];
    json[sim::kStageNames[s]] = sum;
  }
  return json;
}

Json links_of(const SimulationReport& r) {
  Json json = Json::array();
  const double seconds = std::max(1e-12, r.figures.parallel.s());
  for (std::size_t n = 0; n < r.figures.links.size(); ++n) {
    const sim::LinkFigures& link = r.figures.links[n];
    const double frames = std::max<double>(1, static_cast<double>(link.frames));
    json.push_back(Json{{"cluster", n / r.config.nis},
                        {"ni", n % r.config.nis},
                        {"frames", link.frames},
                        {"bytes", link.bytes},
                        {"utilisation", link.busy.s() / seconds},
                        // Little's law: what its frames wait and are sent for together, by time.
                        {"mean_queue", (link.waited + link.busy).s() / seconds},
                        {"mean_wait", link.waited.s() * r.cycles_per_second / frames},
                        {"mean_service", link.busy.s() * r.cycles_per_second / frames}});
  }
  return json;
}

Json clusters_of(const SimulationReport& r) {
  const sim::MachineFigures& f = r.figures;
  const double cycles = std::max(1.0, f.parallel.s() * r.cycles_per_second);
  Json json = Json::array();
  for (std::size_t k = 0; k < f.received.size(); ++k) {
    std::uint64_t sent = 0;
    for (std::size_t n = 0; n < r.config.compute; ++n) sent += f.nodes[k * r.config.compute + n].messages;
    Json counts = Json::object();
    dsm::for_each_count(f.cluster_counts[k],
                        [&](const char* name, std::uint64_t value) { counts[name] = value; });
    json.push_back(Json{{"cluster", k},
                        {"sent", sent},
                        {"received", f.received[k]},
                        {"sent_per_million_cycles", static_cast<double>(sent) * 1e6 / cycles},
                        {"received_per_million_cycles", static_cast<double>(f.received[k]) * 1e6 / cycles},
                        {"cluster_counts", counts}});
  }
  return json;
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& path)
      : file_(path.empty() ? nullptr : std::fopen(path.c_str(), "we")) {}
  ~TraceFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  bool open() const { return file_ != nullptr; }
  void write(const std::string& line) { std::fputs(line.c_str(), file_); }

 private:
  std::FILE* file_;
};

struct Outcome {
  Result<sim::MachineFigures> figures = sim::MachineFigures{};
  int status = 0;
};

Result<Outcome> run_once(const SimulationOptions& options, const sim::MachineConfig& config,
                         const sim::CostModel& model, bool silent, TraceFile* trace) {
  std::vector<std::unique_ptr<sim::ProcessShell>> processes;
  std::vector<sim::Shell*> shells;
  for (unsigned k = 0; k < config.iccs.clusters; ++k) {
    const sim::ProcessShell::Program program{.cluster = k,
                                             .path = options.application,
                                             .arguments = options.command,
                                             .reads_input = k == 0 && !silent,
                                             .silent = silent};
    Result<std::unique_ptr<sim::ProcessShell>> started = sim::ProcessShell::make(
        program, config.heap_pages, Duration::s(options.config.simulation.watchdog_s));
    if (!started) return started.error();
    processes.push_back(std::move(started).value());
    shells.push_back(processes.back().get());
  }
  sim::Machine::Trace tell;
  if (trace != nullptr) tell = [&](const sim::MessageReport& m) { trace->write(trace_line(m, model)); };
  sim::Machine machine(config, model, shells, std::move(tell));
  Outcome outcome;
  outcome.figures = machine.run();
  for (const auto& process : processes) {
    if (outcome.figures.ok()) {
      if (const Result<int> ended = process->end(); !ended) outcome.figures = ended.error();
    }
    outcome.status = std::max(outcome.status, process->status());
  }
  if (!outcome.figures.ok() && outcome.status == 0) outcome.status = 1;
  return outcome;
}

}  // namespace

void SimulationOptions::take(const ConfigBuilder& builder) {
  config = *builder.finish();
  mtu_given = builder.is_given("transport.mtu_bytes");
  fragmentation_given = builder.is_given("transport.fragmentation");
  congestion_given = builder.is_given("transport.congestion");
  rto_given = builder.is_given("transport.min_rto_us") || builder.is_given("transport.max_rto_us");
}

std::string model_path(const std::string& name, const std::string& folder) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) return name;
  return folder + "/" + name + ".yaml";
}

Result<sim::CostModel> load_model(const std::string& name, const std::string& folder) {
  const std::string path = model_path(name, folder);
  std::error_code problem;
  if (path != name && !std::filesystem::exists(path, problem)) {
    std::vector<std::string> there;
    for (std::filesystem::directory_iterator it(folder, problem), end; !problem && it != end;
         it.increment(problem))
      if (it->path().extension() == ".yaml") there.push_back(it->path().stem());
    std::sort(there.begin(), there.end());
    return error(
        "--model: there is no cost model '{}'; there are: {}. A file's path, such as ./mine.yaml, works too",
        name, fmt::join(there, ", "));
  }
  return sim::CostModel::load(path);
}

sim::MachineConfig machine_config(const SimulationOptions& options, const sim::CostModel& model) {
  const RunConfig& c = options.config;
  // What the user said of the transport, else what the model does.
  const sim::CostModel::Protocol& p = model.protocol;
  proxy::TransportConfig transport = c.transport;
  transport.mtu_bytes = options.mtu_given ? c.mtu_bytes() : p.mtu_bytes;
  if (!options.fragmentation_given) transport.fragmentation = p.fragmentation;
  if (!options.congestion_given) transport.congestion = p.congestion;
  if (!options.rto_given) {
    transport.min_rto_us = p.min_rto_us;
    transport.max_rto_us = p.max_rto_us;
  }
  sim::MachineConfig m;
  sim::IccsConfig& i = m.iccs;
  i.clusters = static_cast<std::uint16_t>(c.clusters);
  i.proxies = static_cast<std::uint16_t>(c.proxies);
  i.nis = static_cast<std::uint16_t>(c.nis);
  i.mode = c.simulation.mode;
  i.dispatch = c.dispatch;
  i.peer = transport.peer;
  i.all_pairs = transport.all_pairs;
  i.window_bytes = c.window_kib * 1024;
  i.mtu_bytes = transport.mtu_bytes;
  i.fragmentation = transport.fragmentation;
  i.sub_connection = proxy::sub_connection_config(transport);
  i.sub_connection.ack_delay = Duration::us(p.ack_delay_us);
  i.sub_connection.ack_every = p.ack_every;
  i.faults.loss = c.faults.loss;
  i.faults.duplicate = c.faults.duplicate;
  i.faults.reorder = c.faults.reorder;
  i.faults.corrupt = c.faults.corrupt;
  i.seed = c.faults.seed;
  i.proxy_speed = c.simulation.proxy_speed;
  i.mistake = c.simulation.mistake;
  m.compute = static_cast<std::uint16_t>(c.compute);
  m.heap_pages = c.heap_mib * static_cast<std::uint32_t>((1u << 20) / dsm::kPageBytes);
  m.jitter = c.simulation.jitter;
  m.strict = c.simulation.strict;
  return m;
}

Result<SimulationReport> simulate(const SimulationOptions& options) {
  const Instant began = monotonic_now();
  Result<sim::CostModel> model = load_model(options.config.simulation.model, options.models);
  if (!model) return model.error();
  const std::string program = std::filesystem::path(options.application).filename();
  model->unit = model->unit_of(program);
  TraceFile trace(options.trace_file);
  if (!options.trace_file.empty() && !trace.open())
    return error("--trace: {} cannot be written: {}", options.trace_file, std::strerror(errno));
  sim::stay_on_one_processor();
  SimulationReport report;
  report.command = options.command;
  report.config = options.config;
  report.model = model->name;
  report.cycles_per_second = model->cycles_per_second;
  report.unit = model->unit;
  report.unit_is_mean = !model->units.empty() && !model->units.contains(program);
  sim::MachineConfig config = machine_config(options, *model);
  if (config.iccs.clusters == 1) config.iccs.mode = sim::Mode::kNoDelay;  // there is nobody to send to
  if (config.iccs.mode == sim::Mode::kNoContention) {
    report.message_bytes = options.config.simulation.message_bytes;
    if (report.message_bytes == 0) {
      sim::MachineConfig real = config;
      real.iccs.mode = sim::Mode::kReal;
      const Result<Outcome> measured = run_once(options, real, *model, true, nullptr);
      if (!measured) return measured.error();
      if (!measured->figures.ok()) {
        report.failure = measured->figures.error().text;
        report.status = measured->status;
        return report;
      }
      const sim::MessageFigures& m = measured->figures->messages;
      report.message_bytes = static_cast<std::uint32_t>(m.count == 0 ? 0 : m.bytes / m.count);
    }
    report.fixed_delay = sim::idle_latency(config.iccs, *model, report.message_bytes);
    config.iccs.fixed_delay = report.fixed_delay;
  }
  const Result<Outcome> outcome = run_once(options, config, *model, false, trace.open() ? &trace : nullptr);
  if (!outcome) return outcome.error();
  report.status = outcome->status;
  if (outcome->figures.ok())
    report.figures = *outcome->figures;
  else
    report.failure = outcome->figures.error().text;
  report.real_seconds = (monotonic_now() - began).s();
  return report;
}

Result<std::string> idle_messages(const SimulationOptions& options, const std::string& range) {
  unsigned first = 0, last = 0, step = 1;
  int end = 0;
  if (std::sscanf(range.c_str(), "%u:%u:%u%n", &first, &last, &step, &end) != 3 ||
      static_cast<std::size_t>(end) != range.size()) {
    end = 0;
    if (std::sscanf(range.c_str(), "%u%n", &first, &end) != 1 ||
        static_cast<std::size_t>(end) != range.size())
      return error("--idle-message: '{}' is neither BYTES nor FIRST:LAST:STEP", range);
    last = first;
  }
  const Result<sim::CostModel> model = load_model(options.config.simulation.model, options.models);
  if (!model) return model.error();
  const sim::IccsConfig config = machine_config(options, *model).iccs;
  const std::uint32_t most = convergence::max_piece_bytes(config.window_bytes);
  if (step == 0 || first > last || last > most)
    return error("--idle-message: '{}': 0 to {} bytes, in steps of at least 1, are possible", range, most);
  std::string csv = "bytes,cycles,send,network,receive\n";
  for (unsigned bytes = first; bytes <= last; bytes += step) {
    const sim::MessageTimes t = sim::idle_message(config, *model, bytes).times;
    const auto cycles = [&](Duration d) { return model->cycles(d); };
    csv +=
        fmt::format("{},{:.0f},{:.0f},{:.0f},{:.0f}\n", bytes, cycles(t.delivered - t.handed),
                    cycles(t.left - t.handed), cycles(t.arrived - t.left), cycles(t.delivered - t.arrived));
  }
  return csv;
}

nlohmann::ordered_json render_json(const SimulationReport& r) {
  const sim::MachineFigures& f = r.figures;
  const double rate = r.cycles_per_second;
  const auto cycles = [&](Duration d) { return to_cycles(d, rate); };
  Json j;
  j["braid"] = kVersion;
  j["command"] = r.command;
  j["config"] = to_json(r.config);
  j["model"] = r.model;
  j["cycles_per_second"] = rate;
  j["cycles_per_unit"] = r.unit;
  j["status"] = r.status;
  if (!r.failure.empty()) {
    j["failure"] = r.failure;
    return j;
  }
  j["deterministic"] = f.counted;
  j["trace_hash"] = fmt::format("{:016x}", f.trace_hash);
  j["real_seconds"] = r.real_seconds;
  j["events"] = f.events;
  j["hand_overs"] = f.hand_overs;
  j["whole_cycles"] = cycles(f.whole);
  j["parallel_cycles"] = cycles(f.parallel);
  const double parallel = std::max(1.0, static_cast<double>(f.parallel.ns()) * rate / 1e9);
  if (r.message_bytes > 0) {
    j["message_bytes"] = r.message_bytes;
    j["fixed_delay_cycles"] = cycles(r.fixed_delay);
  }
  const sim::MessageFigures& m = f.messages;
  const double count = std::max<double>(1, static_cast<double>(m.count));
  const auto mean = [&](Duration d) { return static_cast<double>(d.ns()) * rate / 1e9 / count; };
  Json messages;
  messages["count"] = m.count;
  messages["mean_bytes"] = static_cast<double>(m.bytes) / count;
  messages["per_million_cycles"] = static_cast<double>(m.count) * 1e6 / parallel;
  messages["per_million_cycles_and_cluster"] =
      static_cast<double>(m.count) * 1e6 / parallel / static_cast<double>(r.config.clusters);
  messages["mean_cycles"] = mean(m.whole);
  messages["mean_wait_to_send"] = mean(m.wait_to_send);
  messages["mean_send"] = mean(m.send);
  messages["mean_network"] = mean(m.network);
  messages["mean_wait_for_link"] = mean(m.wait_for_link);
  messages["mean_wait_to_receive"] = mean(m.wait_to_receive);
  messages["mean_receive"] = mean(m.receive);
  messages["retransmissions"] = f.retransmissions;
  messages["frames_lost"] = f.frames_lost;
  j["messages"] = messages;
  const double seconds = std::max(1e-12, f.parallel.s());
  Json proxies = Json::array();
  double queue = 0, busy = 0;
  for (std::size_t p = 0; p < f.proxies.size(); ++p) {
    const sim::ProxyFigures& figures = f.proxies[p];
    queue += figures.queue.mean();
    busy += figures.busy.s() / seconds;
    proxies.push_back(Json{{"cluster", p / r.config.proxies},
                           {"proxy", p % r.config.proxies},
                           {"utilisation", figures.busy.s() / seconds},
                           {"mean_queue", figures.queue.mean()},
                           {"most_queued", figures.queue.most()},
                           {"messages", figures.messages},
                           {"frames_received", figures.frames_received},
                           {"frames_sent", figures.frames_sent},
                           {"timers", figures.timers},
                           {"queue_over_time", over_time(figures.queue, rate)}});
  }
  const double number = std::max<double>(1, static_cast<double>(f.proxies.size()));
  j["mean_queue"] = queue / number;
  j["mean_utilisation"] = busy / number;
  j["proxies"] = proxies;
  j["stages"] = stages_of(f.proxies);
  j["links"] = links_of(r);
  j["clusters"] = clusters_of(r);
  Json nodes = Json::array();
  for (std::size_t n = 0; n < f.nodes.size(); ++n) {
    const sim::NodeFigures& figures = f.nodes[n];
    const dsm::NodeCounts& counts = f.node_counts[n];
    nodes.push_back(
        Json{{"node", n},
             {"computing", cycles(figures.computing)},
             {"faults", cycles(figures.faults)},
             {"locks", cycles(figures.locks)},
             {"barriers", cycles(figures.barriers)},
             {"syncs", cycles(figures.syncs)},
             {"handling", cycles(figures.handling)},
             {"held_up", cycles(figures.held_up)},
             {"messages", figures.messages},
             {"messages_per_million_cycles", static_cast<double>(figures.messages) * 1e6 / parallel},
             {"read_faults", counts.read_faults},
             {"write_faults", counts.write_faults},
             {"fetches", counts.fetches},
             {"lock_calls", counts.lock_calls},
             {"remote_locks", counts.remote_locks},
             {"barrier_calls", counts.barriers},
             {"sync_calls", counts.sync_calls}});
  }
  // Of the time that all compute nodes have in parallel().
  Json shares;
  const double time = parallel * std::max<double>(1, static_cast<double>(nodes.size()));
  for (const char* const key : {"computing", "faults", "locks", "barriers", "syncs", "handling", "held_up"}) {
    double sum = 0;
    for (const Json& node : nodes) sum += node[key].get<double>();
    shares[key] = sum / time;
  }
  // Its own work against what it does or waits for because of others.
  shares["communicating"] = 1 - (shares["computing"].get<double>() - shares["held_up"].get<double>());
  j["shares"] = shares;
  j["nodes"] = nodes;
  return j;
}

std::string render_text(const SimulationReport& r) {
  if (!r.failure.empty()) return fmt::format("braid: {}\n", r.failure);
  const Json j = render_json(r);
  const auto number = [&](const Json& value) { return value.get<double>(); };
  const Json& m = j["messages"];
  std::string text = fmt::format(
      "braid: simulated {} cluster(s) x {} compute nodes, {} proxies each, model {}: {:.0f} "
      "cycles in parallel(), {:.0f} in all\n",
      r.config.clusters, r.config.compute, r.config.proxies, r.model, number(j["parallel_cycles"]),
      number(j["whole_cycles"]));
  if (number(m["count"]) > 0) {
    text += fmt::format(
        "  messages: {:.0f} of {:.0f} bytes, {:.1f} in a million cycles; each took {:.0f} cycles\n",
        number(m["count"]), number(m["mean_bytes"]), number(m["per_million_cycles"]),
        number(m["mean_cycles"]));
  }
  if (!j["proxies"].empty()) {
    text += fmt::format(
        "  of these: {:.0f} waiting to be sent, {:.0f} being sent, {:.0f} on the network ({:.0f} waiting "
        "there), {:.0f} waiting to be received, {:.0f} being received\n",
        number(m["mean_wait_to_send"]), number(m["mean_send"]), number(m["mean_network"]),
        number(m["mean_wait_for_link"]), number(m["mean_wait_to_receive"]), number(m["mean_receive"]));
    text += fmt::format("  proxies: utilisation {:.3f}, queue {:.3f}\n", number(j["mean_utilisation"]),
                        number(j["mean_queue"]));
    text += sparkline(r.figures.proxies);
  }
  const auto share = [&](const char* key) { return 100 * number(j["shares"][key]); };
  text += fmt::format(
      "  compute nodes: {:.1f} % computing ({:.1f} of these held up by messages), {:.1f} % waiting for "
      "pages, "
      "{:.1f} % for locks, {:.1f} % at barriers, {:.1f} % for other calls\n",
      share("computing"), share("held_up"), share("faults"), share("locks"), share("barriers"),
      share("syncs"));
  text += fmt::format("  {} events in {:.2f} s; trace {}\n", j["events"].dump(), r.real_seconds,
                      j["trace_hash"].get<std::string>());
  if (!r.figures.counted)
    text +=
        "  compute time comes from this processor's clock, for the program was built without the compiler "
        "plug-in: "
        "no run is like another, and computing takes what it takes here, not on the model's machine\n";
  else if (r.unit_is_mean)
    text += fmt::format(
        "  compute time is priced as that of other programs is on the mean: model {} has no unit of this one "
        "(docs/OPERATIONS.md, Calibrate)\n",
        r.model);
  return text;
}

}  // namespace braid::cli
