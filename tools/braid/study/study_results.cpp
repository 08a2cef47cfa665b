#include "tools/braid/study/study_results.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "base/fnv.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "settings/views/json.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/simulate/simulate.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Names must only be different; the file's contents show whether it is the right one.
std::string hash_of(const std::string& bytes) {
  Fnv1a hash;
  hash.add(std::as_bytes(std::span(bytes)));
  return fmt::format("{:016x}", hash.value());
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  if (file.peek() == std::ifstream::traits_type::eof())  // nothing to copy, which '<<' takes for a failure
    return file.bad() ? std::nullopt : std::optional<std::string>("");
  std::stringstream text;
  if (!(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

std::string quoted_in_csv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

struct Column {
  const char* name;
  const char* pointer;  // into the report
};
constexpr Column kFigures[] = {
    {"parallel_cycles", "/parallel_cycles"},
    {"whole_cycles", "/whole_cycles"},
    {"messages", "/messages/count"},
    {"message_bytes", "/messages/mean_bytes"},
    {"messages_per_million_cycles", "/messages/per_million_cycles"},
    {"messages_per_million_cycles_and_cluster", "/messages/per_million_cycles_and_cluster"},
    {"message_cycles", "/messages/mean_cycles"},
    {"wait_to_send_cycles", "/messages/mean_wait_to_send"},
    {"send_cycles", "/messages/mean_send"},
    {"network_cycles", "/messages/mean_network"},
    {"wait_for_link_cycles", "/messages/mean_wait_for_link"},
    {"wait_to_receive_cycles", "/messages/mean_wait_to_receive"},
    {"receive_cycles", "/messages/mean_receive"},
    {"retransmissions", "/messages/retransmissions"},
    {"frames_lost", "/messages/frames_lost"},
    {"queue", "/mean_queue"},
    {"queue_of_messages", "/mean_queue_of_messages"},
    {"utilisation", "/mean_utilisation"},
    {"share_computing", "/shares/computing"},
    {"share_faults", "/shares/faults"},
    {"share_locks", "/shares/locks"},
    {"share_barriers", "/shares/barriers"},
    {"share_syncs", "/shares/syncs"},
    {"share_handling", "/shares/handling"},
    {"share_held_up", "/shares/held_up"},
    {"share_communicating", "/shares/communicating"},
    {"fixed_delay_cycles", "/fixed_delay_cycles"},
    {"fixed_delay_bytes", "/message_bytes"},
    {"events", "/events"},
    {"hand_overs", "/hand_overs"},
    {"trace_hash", "/trace_hash"},
    {"deterministic", "/deterministic"},
};
// The maximum over the proxies.
constexpr Column kLargest[] = {{"most_queued", "most_queued"}, {"largest_utilisation", "utilisation"}};

Json largest(const OrderedJson& report, const char* key) {
  Json most;
  if (!report.contains("proxies") || !report["proxies"].is_array()) return most;
  for (const OrderedJson& proxy : report["proxies"]) {
    if (proxy.contains(key) && (most.is_null() || most < proxy[key])) most = proxy[key];
  }
  return most;
}

// null if it has none.
const OrderedJson& part_of(const OrderedJson& json, const char* key) {
  static const OrderedJson kNone;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? kNone : *found;
}

constexpr char kSeed[] = "faults.seed";

Json settings_of(const settings::RunConfig& config, bool simulated) {
  Json json;
  for (const settings::Listed& listed : settings::all_settings(settings::kRunSchema)) {
    if (settings::shapes(listed.key, simulated))
      json[listed.key] = settings::json_of(settings::kRunSchema, &config, listed.key);
  }
  return json;
}

std::vector<std::string> settings_columns(const std::vector<std::string>& varied) {
  std::vector<std::string> keys = {"clusters", "compute", "proxies", "simulation.mode"};
  for (const std::string& key : varied) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

}  // namespace

// --- Origins

StudyPrograms::StudyPrograms(std::string engine, std::string models)
    : engine_(std::move(engine)), models_(std::move(models)) {}

Result<std::string> StudyPrograms::contents_hash(const std::string& path) {
  std::string& hash = hashes_[path];
  if (hash.empty()) {
    const std::optional<std::string> bytes = contents(path);
    if (!bytes) return error("{}: cannot be read ({})", path, std::strerror(errno));
    hash = hash_of(*bytes);
  }
  return hash;
}

Json settings_of(const StudyPoint& point) {
  const settings::RunConfig& config = point.settings.unchecked();
  Json json = settings_of(config, /*simulated=*/true);
  if (!config.simulation.incidents.empty())
    json["simulation.incidents"] = settings::json_of(settings::kRunSchema, &config, "simulation.incidents");
  return json;
}

Json live_settings_of(const StudyPoint& point) {
  const settings::RunConfig& config = point.settings.unchecked();
  Json json = settings_of(config, /*simulated=*/false);
  if (!config.faults.any()) json.erase(kSeed);
  if (!config.dpdk.interfaces.empty())
    json["dpdk.interfaces"] = settings::json_of(settings::kRunSchema, &config, "dpdk.interfaces");
  return json;
}

Result<Json> StudyPrograms::origin(const StudyPoint& point) {
  SimulationOptions options;
  options.take(point.settings);
  const Result<std::string> application = find_application(point.application, simulated_applications(), "");
  if (!application) return application.error();
  const Result<std::string> model = find_model(options.config.simulation.model, models_);
  if (!model) return model.error();
  Json origin;
  for (const auto& [key, path] :
       {std::pair{"engine", engine_}, {"program", *application}, {"model", *model}}) {
    const Result<std::string> hash = contents_hash(path);
    if (!hash) return hash.error();
    origin[key] = *hash;
  }
  const std::vector<std::string> command = point.command();
  origin["arguments"] = std::vector<std::string>(command.begin() + 1, command.end());
  origin["settings"] = settings_of(point);
  // Settings that were not given are the model's.
  origin["given"] = Json::array();
  for (const std::string& key : options.given)
    if (key.starts_with("transport.")) origin["given"].push_back(key);
  return origin;
}

Result<Json> StudyPrograms::live_origin(const StudyPoint& point, const LiveHost& host,
                                        const std::string& folder) {
  const Result<std::string> program = find_live_build(point.application, point.live, folder);
  if (!program) return program.error();
  const Result<std::string> daemon = find_daemon(folder);
  if (!daemon) return daemon.error();
  Json origin;
  for (const auto& [key, path] : {std::pair{"engine", engine_}, {"program", *program}, {"daemon", *daemon}}) {
    const Result<std::string> hash = contents_hash(path);
    if (!hash) return hash.error();
    origin[key] = *hash;
  }
  origin["host"] = {{"name", host.name}, {"processors", host.processors}};
  const std::vector<std::string> command = point.command();
  origin["arguments"] = std::vector<std::string>(command.begin() + 1, command.end());
  origin["settings"] = live_settings_of(point);
  return origin;
}

Result<const settings::CostModel*> StudyPrograms::model(const std::string& path) {
  auto found = cost_models_.find(path);
  if (found == cost_models_.end()) {
    Result<settings::CostModel> loaded = settings::CostModel::load(path);
    if (!loaded) return loaded.error();
    found = cost_models_.emplace(path, std::move(*loaded)).first;
  }
  return &found->second;
}

Result<void> StudyPrograms::check(const StudyPoint& point) {
  const Result<const settings::CostModel*> costs =
      model(model_path(point.settings.unchecked().simulation.model, models_));
  if (!costs) return costs.error();
  return check_simulated(point.settings, **costs);
}

std::string name_of(const Json& origin) {
  return hash_of(origin.dump());
}

std::optional<Json> real_twin(const Json& origin) {
  const Json& settings = origin["settings"];
  if (settings.value("simulation.mode", "") != "no-contention" || settings["simulation.message_bytes"] != 0)
    return std::nullopt;
  Json twin = origin;
  twin["settings"]["simulation.mode"] = "real";
  return twin;
}

// --- Files

std::optional<PointResult> load_result(const std::string& path, const Json& origin) {
  const std::optional<std::string> text = contents(path);
  if (!text) return std::nullopt;
  const OrderedJson json = OrderedJson::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("origin") || Json(json["origin"]) != origin) return std::nullopt;
  if (!json.contains("report") || !json["report"].is_object() || !json.contains("seconds") ||
      !json["seconds"].is_number())
    return std::nullopt;
  return PointResult{json["seconds"].get<double>(), json["report"]};
}

Result<void> store_result(const std::string& path, const Json& origin, const PointResult& result) {
  OrderedJson json;
  json["origin"] = origin;
  json["seconds"] = result.seconds;
  json["report"] = result.report;
  return write_file(path, json.dump(1) + "\n");
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const std::string draft = path + ".draft";
  const auto written = [&]() -> Result<void> {
    Result<OutputFile> file = OutputFile::create(draft, 0644);
    if (!file) return file.error();
    if (const Result<void> done = file->append(text); !done) return done;
    return file->close();
  }();
  if (written && ::rename(draft.c_str(), path.c_str()) == 0) return {};
  const int problem = errno;
  ::unlink(draft.c_str());
  if (!written) return written;
  return error("{} cannot be written: {}", path, cause_and_cure(problem));
}

OrderedJson given_settings(const StudyPoint& point) {
  OrderedJson given = OrderedJson::object();
  for (const auto& [key, place] : point.settings.given()) {
    if (key.find('[') == std::string::npos) given[key] = point.value_of(key);  // a list holds its entries
  }
  return given;
}

std::string settings_yaml(const StudyPoint& point, std::uint32_t message_bytes) {
  const OrderedJson all = given_settings(point);
  OrderedJson given = OrderedJson::object();
  for (const auto& [key, value] : all.items())
    if (settings::shapes(key, true)) given[key] = value;
  if (message_bytes != 0) given["simulation.message_bytes"] = message_bytes;
  return settings_yaml(given);
}

std::string live_settings_yaml(const StudyPoint& point) {
  const OrderedJson given = given_settings(point);
  OrderedJson live = OrderedJson::object();
  for (const auto& [key, value] : given.items()) {
    const bool is_idle = key == kSeed && !point.settings.unchecked().faults.any();
    if (settings::shapes(key, false) && !is_idle) live[key] = value;
  }
  return settings_yaml(live);
}

std::string settings_yaml(const OrderedJson& given) {
  std::map<std::string, std::string> top;
  std::map<std::string, std::string> sections;
  for (const auto& [key, value] : given.items()) {
    // Strings are quoted where a string is expected, but not where they stand for a number ("auto").
    const settings::Setting* const setting = settings::find_setting(settings::kRunSchema, key);
    const bool quoted = setting == nullptr || setting->kind == settings::Kind::kText ||
                        setting->kind == settings::Kind::kWord || !value.is_string();
    const std::string text = quoted ? value.dump() : value.get<std::string>();
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos)
      top[key] = fmt::format("{}: {}\n", key, text);
    else
      sections[key.substr(0, dot)] += fmt::format("  {}: {}\n", key.substr(dot + 1), text);
  }
  std::string yaml;
  for (const auto& [key, line] : top) yaml += line;
  for (const auto& [section, lines] : sections) yaml += section + ":\n" + lines;
  return yaml;
}

std::string in_csv(const Json& value) {
  if (value.is_null()) return "";
  return quoted_in_csv(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : ",") + cells[i];
  return line + "\n";
}

std::vector<std::string> point_columns(const std::vector<std::string>& varied) {
  std::vector<std::string> columns = {"application", "arguments"};
  for (const std::string& key : settings_columns(varied)) columns.push_back(in_csv(key));
  return columns;
}

std::vector<std::string> point_cells(const std::vector<std::string>& varied, const StudyPoint& point) {
  std::vector<std::string> cells = {in_csv(point.application), in_csv(joined(point.arguments, " "))};
  for (const std::string& key : settings_columns(varied)) cells.push_back(in_csv(point.value_of(key)));
  return cells;
}

std::string points_csv(const std::vector<std::string>& varied, const std::vector<Row>& rows) {
  std::vector<std::string> cells = point_columns(varied);
  for (const Column& column : kFigures) cells.emplace_back(column.name);
  for (const Column& column : kLargest) cells.emplace_back(column.name);
  cells.emplace_back("point");
  std::string csv = csv_line(cells);
  for (const Row& row : rows) {
    cells = point_cells(varied, *row.point);
    for (const Column& column : kFigures) {
      const OrderedJson::json_pointer pointer(column.pointer);
      cells.push_back(row.result.report.contains(pointer) ? in_csv(Json(row.result.report[pointer])) : "");
    }
    for (const Column& column : kLargest) cells.push_back(in_csv(largest(row.result.report, column.pointer)));
    cells.push_back(row.name);
    csv += csv_line(cells);
  }
  return csv;
}

std::string queues_csv(const std::vector<Row>& rows) {
  std::string csv = "point,cluster,proxy,from_cycles,to_cycles,mean,most\n";
  std::set<std::string> seen;
  for (const Row& row : rows) {
    if (!seen.insert(row.name).second) continue;
    const OrderedJson& report = row.result.report;
    const OrderedJson &end = part_of(report, "parallel_cycles"), &proxies = part_of(report, "proxies");
    if (!end.is_number() || !proxies.is_array()) continue;
    for (const OrderedJson& proxy : proxies) {
      const OrderedJson& queue = part_of(proxy, "queue_over_time");
      const OrderedJson& width = part_of(queue, "interval_cycles");
      const OrderedJson &mean = part_of(queue, "mean"), &most = part_of(queue, "most");
      if (!width.is_number() || !mean.is_array() || !most.is_array() || mean.size() != most.size()) continue;
      for (std::size_t i = 0; i < mean.size(); ++i) {
        const double from = width.get<double>() * static_cast<double>(i);
        csv += fmt::format("{},{},{},{},{},{},{}\n", row.name, part_of(proxy, "cluster").dump(),
                           part_of(proxy, "proxy").dump(), from,
                           std::min(from + width.get<double>(), end.get<double>()), mean[i].dump(),
                           most[i].dump());
      }
    }
  }
  return csv;
}

}  // namespace braid::cli
