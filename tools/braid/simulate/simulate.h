// A simulated run: from settings to a machine in virtual time and the programs on it, and its result as
// text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "settings/cost_model.h"
#include "settings/reader.h"
#include "settings/run.h"
#include "sim/shell/race_totals.h"
#include "sim/simulated_machine.h"

namespace braid::cli {

struct SimulationOptions {
  // The settings, which check_simulated() must have found good, and which of them were given.
  void take(const settings::Collector<settings::RunConfig>& builder);

  settings::RunConfig config;
  // Keys of settings that the user gave; the others of the transport are the model's.
  std::set<std::string> given;
  std::string models;       // folder of the named models
  std::string application;  // built for simulation
  std::vector<std::string> command;
  OutputFile* trace = nullptr;  // gets a line of JSON for every message; null: none; the caller's
};

struct SimulationReport {
  std::vector<std::string> command;
  settings::RunConfig config;   // what was simulated: nothing is left to a model or a protocol
  std::set<std::string> given;  // SimulationOptions::given
  std::string model;
  double cycles_per_second = 0;
  double unit = 0;            // cycles per unit of the program's computing
  bool unit_is_mean = false;  // the model has no unit for this program: the mean of the others'
  int status = 0;             // the largest status of the programs
  std::string failure;        // why the run ended early; empty if it did not
  sim::MachineFigures figures;
  // Those that began before the run ended, in the order of time.
  struct Incident {
    std::size_t index = 0;  // in config.simulation.incidents
    Instant began;
  };
  std::vector<Incident> incidents;
  std::uint32_t message_bytes = 0;  // no-contention: the length of the message whose latency all had,
  Duration fixed_delay{};           // and that latency
  sim::RaceReport races;            // of a program that was built with --check-races
  double real_seconds = 0;          // duration of the simulation
};

// The file of a model: `name` is a file, or the name of a model in `folder`.
std::string model_path(const std::string& name, const std::string& folder);
// The same file; error: there is no such model.
Result<std::string> find_model(const std::string& name, const std::string& folder);
Result<settings::CostModel> load_model(const std::string& name, const std::string& folder);
// What must hold between settings, checked when all sources are known: what was not given is the model's, or else the
// protocol's. The error names the place of what was given.
Result<void> check_simulated(const settings::Collector<settings::RunConfig>& builder,
                             const settings::CostModel& model);
// The transport's settings: the user's if given, otherwise the model's.
Result<settings::TransportConfig> transport_config(const SimulationOptions& options,
                                                   const settings::CostModel& model);
// The costs and the engine's constants: the user's if given, otherwise the model's, otherwise the protocol's.
settings::CostModel priced(const settings::RunConfig& config, settings::CostModel model);
settings::EngineSettings engine_settings(const settings::RunConfig& config, const settings::CostModel& model);
// Error: the machine, with these settings of its transport, has more clusters and proxies than can be simulated in so much memory.
// An estimate, without the programs' own memory.
Result<void> fits_in_memory(const settings::RunConfig& config, const settings::TransportConfig& transport,
                            std::uint64_t memory_bytes);
// Error: the user's settings of the transport contradict the model's, or the machine does not fit in this host's memory.
Result<sim::MachineConfig> machine_config(const SimulationOptions& options, const settings::CostModel& model);

// Runs the programs. Error: the run could not start.
Result<SimulationReport> simulate(const SimulationOptions& options);

// The times of messages of first, first + step, .. last bytes on an idle system, as CSV in cycles; an error
// names what is wrong with `range`, "BYTES" or "FIRST:LAST:STEP".
Result<std::string> idle_messages(const SimulationOptions& options, const std::string& range);

// The incident, and its time in cycles since the run began.
nlohmann::ordered_json incident_json(const SimulationReport& report,
                                     const SimulationReport::Incident& incident);
// One line with the number of data races; empty if they were not looked for.
std::string render_races(const sim::RaceTotals& races);
std::string render_text(const SimulationReport& report);
nlohmann::ordered_json render_json(const SimulationReport& report);

}  // namespace braid::cli
