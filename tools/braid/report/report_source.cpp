#include "tools/braid/report/report_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "settings/document.h"
#include "settings/text.h"
#include "tools/braid/number_in.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> contents(const std::string& path) {
  std::ifstream file(settings::opened_path(path), std::ios::binary);
  std::stringstream text;
  if (file && file.peek() == std::ifstream::traits_type::eof() && !file.bad())
    return error("{}: is empty; let the command that made it write it again", path);
  if (!file || !(text << file.rdbuf())) return error("{}: cannot be read ({})", path, std::strerror(errno));
  return text.str();
}

Result<Json> parsed(const std::string& path) {
  const Result<std::string> text = contents(path);
  if (!text) return text.error();
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) return error("{}: is no JSON, or cut short", path);
  return json;
}

// --- What the page's script relies on

enum class Type { kNumber, kObject, kArray };
using Members = std::vector<std::pair<const char*, Type>>;

bool is(const Json& value, Type type) {
  switch (type) {
    case Type::kNumber:
      return value.is_number();
    case Type::kObject:
      return value.is_object();
    case Type::kArray:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_object(); });
  }
  return false;
}

// The first member that is missing or of another type; empty: none.
std::string missing_in(const Json& json, const Members& members) {
  if (!json.is_object()) return "an object";
  for (const auto& [pointer, type] : members) {
    const Json::json_pointer at(pointer);
    if (!json.contains(at) || !is(json[at], type)) return fmt::format("'{}'", pointer + 1);
  }
  return "";
}

const Members kOfSimulation = {{"/cycles_per_second", Type::kNumber},
                               {"/parallel_cycles", Type::kNumber},
                               {"/whole_cycles", Type::kNumber},
                               {"/messages", Type::kObject},
                               {"/messages/count", Type::kNumber},
                               {"/messages/mean_bytes", Type::kNumber},
                               {"/messages/mean_cycles", Type::kNumber},
                               {"/messages/mean_network", Type::kNumber},
                               {"/messages/mean_wait_for_link", Type::kNumber},
                               {"/mean_queue", Type::kNumber},
                               {"/mean_utilisation", Type::kNumber},
                               {"/proxies", Type::kArray},
                               {"/links", Type::kArray},
                               {"/nodes", Type::kArray},
                               {"/stages", Type::kObject},
                               {"/shares", Type::kObject}};

// The lists of numbers in a figure over time, and of nodes in a wait, are as long as they are: only their types matter.
bool has_lists(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.contains(at)) return true;
  return json[at].is_object() && std::all_of(json[at].begin(), json[at].end(), [](const Json& list) {
           return list.is_array() &&
                  std::all_of(list.begin(), list.end(), [](const Json& v) { return v.is_number(); });
         });
}

bool has_waits(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.contains(at)) return true;
  return is(json[at], Type::kArray) && std::all_of(json[at].begin(), json[at].end(), [](const Json& wait) {
           return missing_in(wait, {{"/cycles", Type::kNumber}, {"/nodes", Type::kArray}}).empty();
         });
}

bool has_queues(const Json& json) {
  return std::all_of(json["proxies"].begin(), json["proxies"].end(), [](const Json& proxy) {
    const auto queue = proxy.find("queue_over_time");
    if (queue == proxy.end()) return true;
    return missing_in(*queue, {{"/interval_cycles", Type::kNumber}}).empty() &&
           has_lists(Json{{"mean", queue->value("mean", Json())}, {"most", queue->value("most", Json())}},
                     "");
  });
}

Result<void> check_simulation(const Json& json, const std::string& where) {
  if (json.contains("failure")) return {};  // it has nothing else
  std::string missing = missing_in(json, kOfSimulation);
  if (missing.empty() && !has_queues(json)) missing = "'queue_over_time'";
  if (missing.empty() && !has_lists(json, "/phases/sent")) missing = "'phases'";
  if (missing.empty() && (!has_waits(json, "/waits/pages") || !has_waits(json, "/waits/locks")))
    missing = "'waits'";
  if (missing.empty()) return {};
  return error("{}: has no {} as this version of braid writes it; run it again", where, missing);
}

// --- Commands

// Those that a list holds are given with it.
std::string settings_text(const Json& given) {
  Json whole = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (key.find('[') == std::string::npos) whole[key] = value;
  }
  return settings_yaml(whole);
}

std::string words_of(const Json& command) {
  std::string line;
  for (const Json& word : command)
    if (word.is_string()) line += " " + for_shell(word.get<std::string>());
  return line;
}

// `braid sim` or `braid run` with these settings on standard input.
std::string command_of(const char* subcommand, const Json& settings, const Json& command) {
  return fmt::format("braid {} --config /dev/stdin{} <<'END'\n{}END", subcommand, words_of(command),
                     settings_text(settings));
}

std::string program_of(const Json& command) {
  std::string program;
  for (const Json& word : command) {
    if (!word.is_string()) continue;
    const std::string text = word.get<std::string>();
    program += program.empty() ? std::filesystem::path(text).filename().string() : " " + text;
  }
  return program;
}

const Json& member(const Json& json, const char* key) {
  static const Json kNone;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? kNone : *found;
}

std::string text_in(const Json& json, const char* key) {
  const Json& value = member(json, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The settings of a study's point or of a run, and what `braid study` adds: a length that another run has measured.
Json given_of(const Json& report, const Json& settings) {
  Json given = settings.is_object() ? settings : member(report, "given");
  if (!given.is_object()) given = Json::object();
  const Json& bytes = member(report, "message_bytes");
  if (bytes.is_number() && text_in(given, "simulation.mode") == "no-contention")
    given["simulation.message_bytes"] = bytes;
  return given;
}

// A simulated run's report for the page. What depends on the machine that simulated it is left out.
Json shown_simulation(Json report, const Json& settings, const std::string& title) {
  report.erase("real_seconds");
  const Json given = given_of(report, settings);
  report["given"] = given;
  report["title"] = title;
  report["repeat"] = command_of("sim", given, member(report, "command"));
  return report;
}

std::string machine_text(const Json& report) {
  const Json& config =
      member(report, "config").is_object() ? member(report, "config") : member(report, "configuration");
  std::string text = program_of(member(report, "command"));
  for (const char* const key : {"clusters", "compute", "proxies"})
    if (member(config, key).is_number()) text += fmt::format(", {} {}", key, member(config, key).dump());
  return text;
}

// --- Studies

// "water, clusters 4, proxies 2"
std::string title_of(const Json& point, const Json& varied) {
  std::string title = std::filesystem::path(text_in(point, "application")).filename().string();
  for (const Json& key : varied) {
    if (!key.is_string()) continue;
    const std::string name = key.get<std::string>();
    const Json* value = &member(member(point, "settings"), name.c_str());
    const std::string argument = name.starts_with("arguments.") ? name.substr(sizeof "arguments." - 1) : "";
    if (!argument.empty()) value = &member(member(point, "varied_arguments"), argument.c_str());
    if (value->is_null()) continue;
    title += fmt::format(", {} {}", name, value->is_string() ? value->get<std::string>() : value->dump());
  }
  return title;
}

Result<void> take_points(ReportSource& source, const Json& study, const std::string& path) {
  const Json& points = member(study, "points");
  if (!points.is_array()) return error("{}: has no 'points': it is no study of braid's", path);
  std::map<std::string, bool> seen;
  for (const Json& point : points) {
    const std::string name = text_in(point, "point");
    if (name.empty() || name.find_first_not_of("0123456789abcdef") != std::string::npos)
      return error("{}: a point has no name", path);
    if (std::exchange(seen[name], true)) continue;  // points can share a run
    const Json& report = member(point, "report");
    if (const Result<void> good = check_simulation(report, path + ": point " + name); !good)
      return good.error();
    source.points.emplace_back(
        name, shown_simulation(report, member(point, "settings"), title_of(point, member(study, "varied"))));
  }
  return {};
}

Json failed_of(const Json& study) {
  Json failed = Json::array();
  for (const Json& point : member(study, "failed")) {
    if (point.is_object())
      failed.push_back(
          Json{{"what", title_of(point, member(study, "varied"))}, {"why", text_in(point, "failure")}});
  }
  return failed;
}

const Members kOfLiveRuns = {{"/processors", Type::kNumber}, {"/repetitions", Type::kNumber},
                             {"/missing", Type::kNumber},    {"/failed", Type::kArray},
                             {"/refused", Type::kArray},     {"/only_simulated", Type::kArray}};

// What `braid study` wrote about live runs; null: the study has none.
Result<Json> live_runs(const std::string& folder) {
  const std::string path = folder + "/live.json";
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) return Json();
  Result<Json> live = parsed(path);
  if (!live) return live.error();
  std::string missing = missing_in(*live, kOfLiveRuns);
  for (const auto& [key, name] : {std::pair{"csv", "/live.csv"}, {"medians_csv", "/live_medians.csv"}}) {
    const Result<std::string> csv = contents(folder + name);
    if (!csv) return csv.error();
    const std::string columns = csv->substr(0, csv->find('\n'));
    for (const char* const column : {"application,arguments,", ",oversubscribed,", ",parallel_ns,"})
      if (missing.empty() && columns.find(column) == std::string::npos)
        missing = fmt::format("column '{}' in {}", column, name + 1);
    (*live)[key] = *csv;
  }
  if (missing.empty()) return live;
  return error("{}: has no {} as this version of braid writes it; run the study again", path, missing);
}

// Its file of mean value analysis; empty: no point has any. Studies of earlier versions have no file.
Result<std::string> mean_values(const std::string& folder) {
  const std::string path = folder + "/mva.csv";
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) return std::string();
  const Result<std::string> csv = contents(path);
  if (!csv) return csv.error();
  const std::size_t end = csv->find('\n');
  for (const char* const column :
       {"application,arguments,", ",message_cycles,mva_message_cycles,utilisation,mva_utilisation,"})
    if (csv->substr(0, end).find(column) == std::string::npos)
      return error("{}: has no columns '{}' as this version of braid writes them; run the study again", path,
                   column);
  return end + 1 < csv->size() ? *csv : std::string();
}

// Line breaks in quotes are part of a cell.
std::size_t lines_of_table(const std::string& csv) {
  std::size_t lines = 0;
  bool quoted = false;
  for (const char c : csv) {
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) ++lines;
  }
  return lines;
}

// Is the table that of the study beside it, and whole?
Result<void> check_table(const std::string& csv, const Json& study, const std::string& path) {
  const Json& points = member(study, "points");
  const bool has_columns = csv.starts_with("application,arguments,") &&
                           csv.substr(0, csv.find('\n')).find(",parallel_cycles,") != std::string::npos;
  if (has_columns && csv.ends_with('\n') && lines_of_table(csv) == points.size() + 1) return {};
  return error("{}: is not the table of the points in study.json; let 'braid study' write it again", path);
}

Result<ReportSource> load_study_folder(const std::string& folder) {
  const std::string path = folder + "/study.json";
  const Result<Json> study = parsed(path);
  if (!study)
    return error("{}. A folder is that of a study: 'braid study file.yaml -o {}'", study.error().text,
                 folder);
  const Result<std::string> csv = contents(folder + "/points.csv");
  if (!csv) return csv.error();
  if (member(*study, "points").is_array())
    if (const Result<void> good = check_table(*csv, *study, folder + "/points.csv"); !good)
      return good.error();
  const Result<Json> live = live_runs(folder);
  if (!live) return live.error();
  const Result<std::string> mva = mean_values(folder);
  if (!mva) return mva.error();
  ReportSource source;
  if (const Result<void> taken = take_points(source, *study, path); !taken) return taken.error();
  std::string file = text_in(*study, "file");
  if (file == settings::kStandardInput) file.clear();
  source.label = std::filesystem::path(file).stem().string();
  const Json& missing = member(*study, "missing");
  source.about["kind"] = "study";
  source.about["command"] =
      file.empty() ? "braid study FILE -o FOLDER"
                   : fmt::format("braid study {} -o {}{}", for_shell(file), for_shell(source.label),
                                 member(*live, "oversubscribe") == true ? " --oversubscribe" : "");
  source.about["file"] = file;
  source.about["text"] = text_in(*study, "text");
  source.about["failed"] = failed_of(*study);
  source.about["missing"] = missing.is_number() ? missing : Json(0);
  source.about["csv"] = *csv;
  if (!live->is_null()) source.about["live"] = *live;
  if (!mva->empty()) source.about["mva"] = *mva;
  return source;
}

// --- Runs

const Members kOfLive = {
    {"/clusters", Type::kArray}, {"/wall_seconds", Type::kNumber}, {"/configuration", Type::kObject}};

// "transport.mtu_bytes" and so on, as a file of settings would give them.
void flatten(const Json& json, const std::string& before, Json& flat) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      flatten(value, before + key + ".", flat);
    else if (!value.is_null() && !(value.is_string() && value.get<std::string>().empty()))
      flat[before + key] = value;
  }
}

Result<ReportSource> load_run(const std::string& path) {
  const Result<Json> read = parsed(path);
  if (!read) return read.error();
  Json json = *read;
  ReportSource source;
  source.label =
      path == settings::kStandardInput ? "standard input" : std::filesystem::path(path).stem().string();
  if (json.is_object() && json.contains("cycles_per_second")) {
    source.kind = ReportSource::Kind::kSimulation;
    if (const Result<void> good = check_simulation(json, path); !good) return good.error();
    json = shown_simulation(std::move(json), Json(), machine_text(json));
    source.about["kind"] = "simulation";
  } else if (missing_in(json, kOfLive).empty()) {
    source.kind = ReportSource::Kind::kLive;
    for (const Json& cluster : json["clusters"]) {
      if (!is(member(cluster, "proxies"), Type::kArray))
        return error("{}: a cluster has no 'proxies' as this version of braid writes them; run it again",
                     path);
    }
    Json flat = Json::object();
    flatten(json["configuration"], "", flat);
    json["title"] = machine_text(json);
    json["repeat"] = command_of("run", flat, member(json, "command"));
    source.about["kind"] = "live";
  } else {
    return error(
        "{}: is neither the folder of a study ('braid study -o') nor the report of a run ('--report' of 'braid "
        "sim' and 'braid run')",
        path);
  }
  source.about["command"] = json["repeat"];
  source.points.emplace_back("run", std::move(json));
  return source;
}

// --- Traces

constexpr const char* kTraced[] = {"message", "from",       "to",    "node",           "bytes",
                                   "proxy",   "peer_proxy", "ahead", "behind_message", "peer_ahead",
                                   "handed",  "served",     "left",  "on_link",        "arrived",
                                   "taken",   "delivered"};

// Nullopt: it is no message of a trace.
std::optional<Json> traced_row(const Json& line, bool has_proxies) {
  Json row = Json::array();
  for (const char* const key : kTraced) {
    if (!member(line, key).is_number()) return std::nullopt;
    row.push_back(line[key]);
  }
  const std::size_t handed = 10, delivered = 16;
  // Messages that bypass the proxies are on the link all the time.
  for (std::size_t i = handed + 1; i < delivered && !has_proxies; ++i)
    row[i] = i < handed + 4 ? row[handed] : row[delivered];
  Json kinds = Json::array();
  for (const Json& kind : member(line, "kinds"))
    if (kind.is_string()) kinds.push_back(kind);
  row.push_back(std::move(kinds));
  return row;
}

Result<Json> read_trace(const std::string& path, const TraceWindow& window, bool has_proxies) {
  std::ifstream file(settings::opened_path(path));
  if (!file) return error("{}: cannot be read ({})", path, std::strerror(errno));
  Json messages = Json::array();
  std::size_t omitted = 0, number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    const Json line = Json::parse(text, nullptr, false);
    if (line.is_object() && line.contains("incident")) continue;
    std::optional<Json> row = traced_row(line, has_proxies);
    if (!row) return error("{}:{}: is no line of a trace ('braid sim --trace')", path, number);
    const bool inside = member(line, "handed").get<double>() < static_cast<double>(window.until) &&
                        member(line, "delivered").get<double>() >= static_cast<double>(window.from);
    if (!inside || messages.size() == kMaxTracedMessages)
      ++omitted;
    else
      messages.push_back(std::move(*row));
  }
  return Json{{"messages", std::move(messages)}, {"omitted", omitted}};
}

}  // namespace

Result<ReportSource> load_source(const std::string& path) {
  std::error_code problem;
  const bool is_folder = path != settings::kStandardInput && std::filesystem::is_directory(path, problem);
  Result<ReportSource> source = is_folder ? load_study_folder(path) : load_run(path);
  if (!source) return source;
  std::filesystem::path place = std::filesystem::path(path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "out/"
  source->place = place.filename().string();
  if (source->label.empty()) source->label = source->place;
  return source;
}

Result<TraceWindow> parse_window(const std::string& text) {
  TraceWindow window;
  const std::size_t colon = text.find(':');
  const auto read = [&](const std::string& part, std::int64_t& value) {
    const std::optional<std::int64_t> number = part.empty() ? value : number_in<std::int64_t>(part);
    value = number.value_or(-1);
    return number.has_value() && *number >= 0;
  };
  if (colon == std::string::npos || !read(text.substr(0, colon), window.from) ||
      !read(text.substr(colon + 1), window.until) || window.from >= window.until)
    return error("--window: '{}' is not FROM:UNTIL, two numbers of cycles of which the second is greater",
                 settings::shown(text));
  return window;
}

Result<void> add_trace(ReportSource& source, const std::string& file, const TraceWindow& window) {
  std::string point = "run", path = file;
  if (source.kind == ReportSource::Kind::kLive)
    return error("--trace: {} is a live run, and only 'braid sim' writes traces", source.label);
  if (source.kind == ReportSource::Kind::kStudy) {
    const std::size_t equals = file.find('=');
    if (equals == std::string::npos)
      return error(
          "--trace: which of the study's points is it of? POINT=FILE, and a point's page has its name");
    point = file.substr(0, equals);
    path = file.substr(equals + 1);
  }
  const auto found = std::find_if(source.points.begin(), source.points.end(),
                                  [&](const auto& other) { return other.first == point; });
  if (found == source.points.end())
    return error("--trace: {} has no point '{}'", source.label, settings::shown(point));
  const Json& proxies = member(found->second, "proxies");
  const Result<Json> trace = read_trace(path, window, proxies.is_array() && !proxies.empty());
  if (!trace) return error("--trace: {}", trace.error().text);
  source.traces.emplace_back(point, *trace);
  return {};
}

void tell_apart(std::vector<ReportSource>& sources) {
  const auto same = [&](const std::string& label) {
    return std::count_if(sources.begin(), sources.end(),
                         [&](const ReportSource& s) { return s.label == label; }) > 1;
  };
  std::vector<bool> ambiguous;
  for (const ReportSource& source : sources) ambiguous.push_back(same(source.label));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (ambiguous[i] && sources[i].place != sources[i].label)
      sources[i].label += fmt::format(" ({})", sources[i].place);
  }
  for (std::size_t i = 1; i < sources.size(); ++i) {
    if (same(sources[i].label)) sources[i].label += fmt::format(" #{}", i + 1);
  }
}

}  // namespace braid::cli
