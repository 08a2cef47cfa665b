#include "tools/braid/simulate/simulate.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory_file.h"
#include "proxy/daemon/node_config.h"
#include "sim/idle_message.h"
#include "sim/process_shell.h"
#include "tools/braid/counted.h"
#include "tools/braid/simulate/cycles.h"
#include "tools/braid/simulate/kind_name.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

// One line of JSON per message: its times at each place, in cycles since the run began, and its predecessor.
std::string trace_line(const sim::MessageReport& m, const settings::CostModel& model) {
  const auto cycles = [&](Instant at) { return to_cycles(at - Instant(), model.cycles_per_second); };
  const sim::MessageTimes& t = m.times;
  Json j;
  j["message"] = m.number;
  j["from"] = m.from.value();
  j["to"] = m.to.value();
  j["node"] = m.compute_node;
  j["bytes"] = m.bytes;
  j["kinds"] = Json::array();
  for (std::size_t kind = 0; kind < dsm::kSentNames.size(); ++kind)
    if ((m.kinds >> kind & 1) != 0) j["kinds"].push_back(kind_name(kind));
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

// The same for an incident, when it begins; with `until_cycles` if it ends by itself.
std::string trace_line(const SimulationReport::Incident& incident, const SimulationReport& report) {
  Json j;
  j["incident"] = incident.index;
  j.update(incident_json(report, incident));
  return j.dump() + "\n";
}

// Tells of the first failure at once; the simulation goes on, and its end tells again.
void append(OutputFile& trace, const std::string& line) {
  if (trace.failed()) return;
  if (const Result<void> written = trace.append(line); !written)
    std::fprintf(stderr, "braid: --trace: %s; the simulation goes on\n", written.error().text.c_str());
}

// Of a run with data races: larger than a program's own 1.
constexpr int kRacesStatus = 66;

struct Outcome {
  Result<sim::MachineFigures> figures = sim::MachineFigures{};
  int status = 0;
  sim::RaceReport races;
};

// The file in which the programs look for data races; closed with this.
class RaceFile {
 public:
  RaceFile() = default;
  ~RaceFile() {
    if (report_ != nullptr) ::munmap(report_, sim::kRaceReportBytes);
    if (fd_ >= 0) ::close(fd_);
  }
  RaceFile(const RaceFile&) = delete;
  RaceFile& operator=(const RaceFile&) = delete;

  Result<void> make() {
    const Result<int> made = make_memory_file("braid-sim-races", sim::kRaceReportBytes, MemoryFile::kSparse);
    if (!made) return made.error();
    fd_ = *made;
    void* const memory = ::mmap(nullptr, sim::kRaceReportBytes, PROT_READ, MAP_SHARED, fd_, 0);
    if (memory == MAP_FAILED) return error("cannot map shared memory: {}", std::strerror(errno));
    report_ = static_cast<sim::RaceReport*>(memory);
    return {};
  }
  int fd() const { return fd_; }
  sim::RaceReport report() const { return report_ == nullptr ? sim::RaceReport() : *report_; }

 private:
  int fd_ = -1;
  sim::RaceReport* report_ = nullptr;
};

Result<Outcome> run_once(const SimulationOptions& options, const sim::MachineConfig& config,
                         const settings::CostModel& model, bool silent, OutputFile* trace) {
  RaceFile races;  // a silent run is followed by one that tells
  if (const Result<void> made = silent ? Result<void>() : races.make(); !made) return made.error();
  const Result<std::unique_ptr<sim::ShellFiles>> files =
      sim::ShellFiles::make(config.iccs.clusters, config.heap_pages, config.page_length);
  if (!files) return files.error();
  std::vector<std::unique_ptr<sim::ProcessShell>> processes;
  std::vector<sim::Shell*> shells;
  for (unsigned k = 0; k < config.iccs.clusters; ++k) {
    const sim::ProcessShell::Program program{.cluster = k,
                                             .path = options.application,
                                             .arguments = options.command,
                                             .reads_input = k == 0 && !silent,
                                             .silent = silent,
                                             .races_fd = races.fd()};
    Result<std::unique_ptr<sim::ProcessShell>> started =
        sim::ProcessShell::make(program, **files, Duration::s(options.config.simulation.watchdog_s));
    if (!started) return started.error();
    processes.push_back(std::move(started).value());
    shells.push_back(processes.back().get());
  }
  sim::SimulatedMachine::Trace tell;
  if (trace != nullptr) tell = [&](const sim::MessageReport& m) { append(*trace, trace_line(m, model)); };
  sim::SimulatedMachine machine(config, model, shells, std::move(tell));
  Outcome outcome;
  outcome.figures = machine.run();
  for (const auto& process : processes) {
    if (outcome.figures.ok()) {
      if (const Result<int> ended = process->end(); !ended) outcome.figures = ended.error();
    }
    outcome.status = std::max(outcome.status, process->status());
  }
  outcome.races = races.report();
  if (outcome.races.totals.races > 0) outcome.status = std::max(outcome.status, kRacesStatus);
  if (!outcome.figures.ok() && outcome.status == 0) outcome.status = 1;
  return outcome;
}

// Without contention every message takes as long as one of `message_bytes` on an idle system. If the settings
// do not state that length, a silent real run measures the mean; the outcome is that run's.
Result<Outcome> fix_delay(const SimulationOptions& options, const settings::CostModel& model,
                          sim::MachineConfig& config, SimulationReport& report) {
  Outcome outcome;
  report.message_bytes = options.config.simulation.message_bytes;
  if (report.message_bytes == 0) {
    sim::MachineConfig real = config;
    real.iccs.mode = sim::Mode::kReal;
    Result<Outcome> measured = run_once(options, real, model, true, nullptr);
    if (!measured || !measured->figures.ok()) return measured;
    outcome = std::move(measured).value();
    const sim::MessageFigures& m = outcome.figures->messages;
    report.message_bytes = static_cast<std::uint32_t>(m.count == 0 ? 0 : m.bytes / m.count);
  }
  const std::uint32_t most = convergence::max_run_bytes(config.iccs.window_bytes);
  if (report.message_bytes > most)
    return error(
        "simulation.message_bytes: {}: a message is at most {} bytes with windows of {} KiB; give fewer, or a larger window_kib",
        report.message_bytes, most, config.iccs.window_bytes >> 10);
  report.fixed_delay = sim::idle_latency(config.iccs, model, report.message_bytes);
  config.iccs.fixed_delay = report.fixed_delay;
  return outcome;
}

sim::Incident incident_of(const settings::IncidentConfig& c) {
  sim::Incident incident{
      .at = Duration::us(c.at_us), .cluster = ClusterId(static_cast<std::uint16_t>(c.cluster)), .what = {}};
  std::optional<Duration> lasts;
  if (c.for_us != 0) lasts = Duration::us(c.for_us);
  switch (c.kind) {
    case settings::IncidentKind::kProxyStops:
      incident.what = sim::ProxyStops{static_cast<unsigned>(c.proxy), lasts};
      break;
    case settings::IncidentKind::kNiFails:
      incident.what = sim::NiFails{static_cast<unsigned>(c.ni), lasts};
      break;
    case settings::IncidentKind::kActiveProxies:
      incident.what = sim::ActiveProxies{static_cast<unsigned>(c.active)};
      break;
  }
  return incident;
}

settings::TransportConfig transport_of(const SimulationOptions& options, const settings::CostModel& model) {
  settings::TransportConfig transport = model.protocol;
  for (const settings::Setting& setting : settings::kTransportSchema.settings) {
    const std::string key = fmt::format("transport.{}", setting.name);
    if (!options.given.contains(key)) continue;
    setting.set(&transport, setting.get(&options.config.transport));
  }
  if (transport.mtu_bytes == 0) transport.mtu_bytes = options.config.mtu_bytes();
  return transport;
}

}  // namespace

void SimulationOptions::take(const settings::Collector<settings::RunConfig>& builder) {
  config = builder.unchecked();
  for (const auto& [key, place] : builder.given()) given.insert(key);
}

std::string model_path(const std::string& name, const std::string& folder) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) return name;
  return folder + "/" + name + ".yaml";
}

Result<std::string> find_model(const std::string& name, const std::string& folder) {
  const std::string path = model_path(name, folder);
  std::error_code problem;
  if (path != name && !std::filesystem::exists(path, problem)) {
    std::vector<std::string> there;
    for (std::filesystem::directory_iterator it(folder, problem), end; !problem && it != end;
         it.increment(problem))
      if (it->path().extension() == ".yaml") there.push_back(it->path().stem());
    std::sort(there.begin(), there.end());
    return error("there is no cost model '{}'; there are: {}. A file's path, such as ./mine.yaml, works too",
                 name, fmt::join(there, ", "));
  }
  return path;
}

Result<settings::CostModel> load_model(const std::string& name, const std::string& folder) {
  const Result<std::string> path = find_model(name, folder);
  if (!path) return path.error();
  return settings::CostModel::load(*path);
}

Result<void> check_simulated(const settings::Collector<settings::RunConfig>& builder,
                             const settings::CostModel& model) {
  SimulationOptions options;
  options.take(builder);
  settings::RunConfig whole = options.config;
  whole.transport = transport_of(options, model);
  // A length that no page has is refused as it was given.
  const std::uint32_t page_bytes = options.config.engine.page_bytes;
  if (page_bytes == settings::EngineSettings::kAuto || dsm::PageLength::valid(page_bytes))
    whole.engine = engine_settings(options.config, model);
  whole.wire = settings::RunConfig().wire;  // simulated links take what the model sends
  return settings::check(settings::kRunSchema, &whole, builder.given(), "model " + model.name);
}

Result<settings::TransportConfig> transport_config(const SimulationOptions& options,
                                                   const settings::CostModel& model) {
  const settings::TransportConfig transport = transport_of(options, model);
  if (const Result<void> holds =
          settings::check(settings::kTransportSchema, &transport, {}, "transport with model " + model.name);
      !holds)
    return holds.error();
  return transport;
}

settings::CostModel priced(const settings::RunConfig& config, settings::CostModel model) {
  config.cycles.apply_to(model);
  return model;
}

settings::EngineSettings engine_settings(const settings::RunConfig& config,
                                         const settings::CostModel& model) {
  dsm::EngineConfig engine = dsm::EngineConfig::of(config.protocol);
  model.engine.apply_to(engine);
  config.engine.apply_to(engine);
  return settings::EngineSettings::of(engine);
}

// With all sub-connections and connections from the start, measured on water, one proxy each: 0.21 GiB for 64 clusters, 0.41 for
// 128, 1.17 for 256; four proxies, 64 clusters: 0.57. That is about 1.5 MiB for each proxy, 8 KiB for each ordered pair of
// clusters, and as much for each sub-connection between the two. Where they are made at first use: 0.87 for 256, 6.3 for 1024.
Result<void> fits_in_memory(const settings::RunConfig& c, const settings::TransportConfig& transport,
                            std::uint64_t memory_bytes) {
  const std::uint64_t pairs = std::uint64_t{c.clusters} * (c.clusters - 1);
  const std::uint64_t between_two = std::uint64_t{c.proxies} * (transport.all_pairs ? c.proxies : 1);
  const std::uint64_t kib = settings::connects_at_first_use(transport, c.clusters) ? 3 : 8;
  const std::uint64_t bytes =
      (pairs * kib * (1 + between_two) << 10) + (std::uint64_t{c.clusters} * c.proxies * 3 << 19);
  if (pairs == 0 || bytes <= memory_bytes) return {};
  return error(
      "{} clusters with {} each need about {} GiB to be simulated; this machine has {}. Take fewer "
      "clusters (--clusters) or proxies (--proxies)",
      c.clusters, counted(c.proxies, "proxy", "proxies"), (bytes >> 30) + 1, memory_bytes >> 30);
}

Result<sim::MachineConfig> machine_config(const SimulationOptions& options,
                                          const settings::CostModel& model) {
  const Result<settings::TransportConfig> told = transport_config(options, model);
  if (!told) return told.error();
  const settings::TransportConfig& transport = *told;
  const settings::RunConfig& c = options.config;
  const auto memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (const Result<void> fits = fits_in_memory(c, transport, memory_bytes); !fits) return fits.error();
  sim::MachineConfig m;
  sim::IccsConfig& i = m.iccs;
  i.clusters = static_cast<std::uint16_t>(c.clusters);
  i.proxies = static_cast<std::uint16_t>(c.proxies);
  i.nis = static_cast<std::uint16_t>(c.nis);
  i.mode = c.simulation.mode;
  i.dispatch = c.dispatch;
  i.transport = transport;
  i.faults.loss = c.faults.loss;
  i.faults.duplicate = c.faults.duplicate;
  i.faults.reorder = c.faults.reorder;
  i.faults.corrupt = c.faults.corrupt;
  i.seed = c.faults.seed;
  i.proxy_speed = c.simulation.proxy_speed;
  i.mutant = c.simulation.mutant;
  for (const settings::IncidentConfig& incident : c.simulation.incidents)
    i.incidents.push_back(incident_of(incident));
  m.compute = static_cast<std::uint16_t>(c.compute);
  m.protocol = c.protocol == dsm::Protocol::kMgs ? dsm::Protocol::kEager : c.protocol;
  m.engine = engine_settings(c, model);
  m.page_length = m.engine.page_length();
  const std::uint32_t window_kib = c.simulated_window_kib(m.page_length);
  i.window_bytes = window_kib * 1024;
  if (const std::string problem = settings::window_problem(window_kib, m.page_length); !problem.empty())
    return error("window_kib and the model's engine.page_bytes: {}", problem);
  m.heap_pages = static_cast<std::uint32_t>(m.page_length.pages_in(std::size_t{c.heap_mib} << 20));
  m.handlers = c.simulation.handlers;
  m.jitter = c.simulation.jitter;
  m.strict = c.simulation.strict;
  return m;
}

Result<SimulationReport> simulate(const SimulationOptions& options) {
  const Instant began = monotonic_now();
  Result<settings::CostModel> model = load_model(options.config.simulation.model, options.models);
  if (!model) return model.error();
  const std::string program = std::filesystem::path(options.application).filename();
  model->unit = model->unit_of(program);
  *model = priced(options.config, std::move(*model));
  sim::stay_on_one_processor();
  SimulationReport report;
  report.command = options.command;
  report.config = options.config;
  report.given = options.given;
  report.model = model->name;
  report.cycles_per_second = model->cycles_per_second;
  report.unit = model->unit;
  report.unit_is_mean = !model->units.empty() && !model->units.contains(program) &&
                        options.config.cycles.unit == settings::Costs::kAuto;
  const Result<sim::MachineConfig> machine = machine_config(options, *model);
  if (!machine) return machine.error();
  sim::MachineConfig config = *machine;
  if (config.iccs.clusters == 1) config.iccs.mode = sim::Mode::kNoDelay;  // there is no other cluster
  report.config.transport = config.iccs.transport;
  report.config.engine = config.engine;
  report.config.cycles = *model;
  report.config.simulation.mode = config.iccs.mode;
  if (config.iccs.mode == sim::Mode::kNoContention) {
    const Result<Outcome> measured = fix_delay(options, *model, config, report);
    if (!measured) return measured.error();
    if (!measured->figures.ok()) {
      report.failure = measured->figures.error().text;
      report.status = measured->status;
      return report;
    }
  }
  config.iccs.on_incident = [&](Instant now, std::size_t index) {
    report.incidents.push_back({index, now});
    if (options.trace != nullptr) append(*options.trace, trace_line(report.incidents.back(), report));
  };
  const Result<Outcome> outcome = run_once(options, config, *model, false, options.trace);
  if (!outcome) return outcome.error();
  report.status = outcome->status;
  report.races = outcome->races;
  if (outcome->figures.ok())
    report.figures = *outcome->figures;
  else
    report.failure = outcome->figures.error().text;
  report.real_seconds = (monotonic_now() - began).s();
  return report;
}

std::string render_races(const sim::RaceTotals& races) {
  if (races.checks == 0) return "";
  std::string line = fmt::format("braid: --check-races: {} data race{} in {} accesses to shared memory",
                                 races.races == 0 ? "no" : std::to_string(races.races),
                                 races.races == 1 ? "" : "s", races.checks);
  if (races.races > races.shown) line += fmt::format("; {} of them not shown", races.races - races.shown);
  if (races.is_incomplete) line += "; some were not remembered, for there are too many";
  return line + "\n";
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
  Result<settings::CostModel> model = load_model(options.config.simulation.model, options.models);
  if (!model) return model.error();
  *model = priced(options.config, std::move(*model));
  const Result<sim::MachineConfig> machine = machine_config(options, *model);
  if (!machine) return machine.error();
  const sim::IccsConfig& config = machine->iccs;
  const std::uint32_t most = convergence::max_run_bytes(config.window_bytes);
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

}  // namespace braid::cli
