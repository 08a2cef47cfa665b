#include "tools/braid/run/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/json.h"
#include "settings/run_words.h"
#include "settings/views/json.h"
#include "settings/words.h"
#include "tools/braid/counted.h"
#include "tools/braid/run/costs.h"
#include "tools/braid/run/written_globals.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

// Columns as wide as their widest cell, to the right but for the last, which is free text.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }

  std::string render() const {
    std::vector<std::size_t> widths(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line +=
            i + 1 == row.size() ? fmt::format("  {}", row[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  const double value = static_cast<double>(bytes);
  if (value < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

std::string time_text(double ns) {
  if (ns < 1e6) return fmt::format("{:.0f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::uint64_t value_of(const CounterValues& counters, const std::string& name) {
  for (const auto& [key, value] : counters) {
    if (key == name) return value;
  }
  return 0;
}

// Ordinary in every run: shown in columns, or only in the JSON.
const std::set<std::string>& ordinary_counters() {
  static const std::set<std::string> names = {"messages_sent",
                                              "message_bytes_sent",
                                              "messages_received",
                                              "message_bytes_received",
                                              "packets_sent",
                                              "packets_received",
                                              "handshakes_aes_gcm",
                                              "handshakes_chacha20",
                                              "handshakes_plain",
                                              "frame_bytes_sent",
                                              "frame_bytes_received",
                                              "retransmissions",
                                              "acknowledgements_sent",
                                              "misdirected",
                                              "turns",
                                              "idle_turns",
                                              "sleeps",
                                              "woken_by_clients",
                                              "woken_by_links",
                                              "woken_by_node",
                                              "naps"};
  return names;
}

// Every counter that is not ordinary and not zero: what explains a delay.
std::string others(const CounterValues& counters) {
  std::string text;
  for (const auto& [name, value] : counters) {
    // Of protocols, what was refused or came back.
    if (name.find('.') != std::string::npos && !name.ends_with(".refused") && !name.ends_with(".returned"))
      continue;
    if (value == 0 || ordinary_counters().contains(name)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

// The application's own words, or null: it may have died before it said anything, or be no program of this
// project.
Json parsed_report(const ClusterReport& cluster) {
  return Json::parse(cluster.application_report, nullptr, /*allow_exceptions=*/false);
}

std::vector<Json> parsed_reports(const RunReport& report) {
  std::vector<Json> parsed;
  for (const ClusterReport& cluster : report.clusters) parsed.push_back(parsed_report(cluster));
  return parsed;
}

// The time in parallel(), that of the cluster that was there longest; null: no cluster has told any.
Json parallel_ns(std::span<const Json> reports) {
  Json longest;
  for (const Json& json : reports) {
    const auto found = json.is_object() ? json.find("parallel_ns") : json.end();
    if (found == json.end() || !found->is_number()) continue;
    if (longest.is_null() || longest < *found) longest = *found;
  }
  return longest;
}

std::string proxies_table(const RunReport& report) {
  Table table({"cluster", "proxy", "messages", "bytes", "received", "bytes", "packets", "received", "resent",
               "misdirected", "others"});
  for (std::size_t k = 0; k < report.clusters.size(); ++k) {
    const auto& proxies = report.clusters[k].proxies;
    for (std::size_t p = 0; p < proxies.size(); ++p) {
      const CounterValues& c = proxies[p];
      const auto count = [&](const char* name) { return std::to_string(value_of(c, name)); };
      table.add({std::to_string(k), std::to_string(p), count("messages_sent"),
                 bytes_text(value_of(c, "message_bytes_sent")), count("messages_received"),
                 bytes_text(value_of(c, "message_bytes_received")), count("packets_sent"),
                 count("packets_received"), count("retransmissions"), count("misdirected"), others(c)});
    }
  }
  return table.empty() ? "" : table.render();
}

std::string nodes_table(std::span<const Json> reports) {
  Table table({"cluster", "node", "read faults", "write faults", "fetches", "in faults", "locks", "remote",
               "in locks", "barriers", "in barriers", "words, flags ...", "in these"});
  for (std::size_t k = 0; k < reports.size(); ++k) {
    const Json& json = reports[k];
    if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_array()) continue;
    for (const Json& node : json["nodes"]) {
      if (!node.is_object()) continue;
      const auto count = [&](const char* name) { return std::to_string(count_in(node, name)); };
      const auto time = [&](const char* name) {
        return time_text(static_cast<double>(count_in(node, name)));
      };
      table.add({std::to_string(k), count("node"), count("read_faults"), count("write_faults"),
                 count("fetches"), time("faults_ns"), count("lock_calls"), count("remote_locks"),
                 time("locks_ns"), count("barriers"), time("barriers_ns"), count("sync_calls"),
                 time("syncs_ns")});
    }
  }
  return table.empty() ? "" : table.render();
}

// Totals of a cluster's compute nodes: diffs are made at a release, for all of them.
std::string pages_table(std::span<const Json> reports) {
  Table table({"cluster", "diffs sent", "bytes", "diffs applied", "pages sent", "invalidations sent",
               "received", "protection"});
  for (std::size_t k = 0; k < reports.size(); ++k) {
    const Json& json = reports[k];
    if (!json.is_object() || !json.contains("cluster_counts") || !json["cluster_counts"].is_object())
      continue;
    const Json& c = json["cluster_counts"];
    const auto count = [&](const char* name) { return std::to_string(count_in(c, name)); };
    const auto protection = json.find("protection");
    table.add({std::to_string(k), count("diffs_sent"), bytes_text(count_in(c, "diff_bytes_sent")),
               count("diffs_applied"), count("pages_sent"), count("invalidations_sent"),
               count("invalidations_received"),
               protection == json.end() || !protection->is_string() ? "" : protection->get<std::string>()});
  }
  return table.empty() ? "" : table.render();
}

constexpr std::size_t kPrinted = 5;

std::string memory_table(const RunCosts& costs) {
  Table table(
      {"costly memory: in faults", "read faults", "write faults", "pages", "used by", "allocated in"});
  for (const CostlyMemory& m : std::span(costs.memory).first(std::min(kPrinted, costs.memory.size()))) {
    table.add({time_text(static_cast<double>(m.faults_ns)), std::to_string(m.read_faults),
               std::to_string(m.write_faults), std::to_string(m.pages), to_string(m.sharing),
               m.place.empty() ? "?" : m.place});
  }
  return table.empty() ? "" : table.render();
}

std::string locks_table(const RunCosts& costs) {
  Table table({"costly lock", "waits", "waiting", "longest"});
  for (const CostlyLock& l : std::span(costs.locks).first(std::min(kPrinted, costs.locks.size()))) {
    table.add({l.name, std::to_string(l.waits), time_text(static_cast<double>(l.locks_ns)),
               time_text(static_cast<double>(l.longest_ns))});
  }
  return table.empty() ? "" : table.render();
}

// Of the wire: "sealed with AES-256-GCM" or "plain", or both where links differ.
std::string protection_text(const std::vector<std::string>& protections) {
  std::string sealed;
  bool any_plain = false;
  for (const std::string& one : protections) {
    if (one == "plain")
      any_plain = true;
    else
      sealed += (sealed.empty() ? ", packets sealed with " : " and ") + one;
  }
  if (!any_plain) return sealed;
  return sealed.empty() ? ", packets plain" : sealed + ", on links of shared memory plain";
}

std::string keylog_warning(const RunReport& report) {
  const bool is_of_hosts = std::any_of(report.clusters.begin(), report.clusters.end(),
                                       [](const ClusterReport& c) { return !c.host.empty(); });
  return fmt::format(
      "braid: the keys of this run are in {}{}: who has them can read all that its clusters sent each other\n",
      report.config.security.keylog, is_of_hosts ? ".cluster<k> on its hosts" : "");
}

// The program was run as often as there are clusters, and no process of it had to do with another: it gave no report, which
// shared memory does, and its proxies sent only what daemons tell each other.
bool used_nothing(const RunReport& report) {
  const auto alone = [](const ClusterReport& cluster) {
    return cluster.application != 0 && cluster.application_report.empty() && !cluster.proxies.empty() &&
           std::all_of(cluster.proxies.begin(), cluster.proxies.end(), [](const CounterValues& c) {
             return value_of(c, "messages_sent") == value_of(c, "control.sent");
           });
  };
  return report.status == 0 && report.failure.empty() && report.clusters.size() > 1 &&
         std::all_of(report.clusters.begin(), report.clusters.end(), alone);
}

// Clusters of one host of several are joined by shared memory, whatever joins hosts.
bool are_on_one_named_host(const std::vector<ClusterReport>& clusters) {
  return clusters.size() > 1 && !clusters.front().host.empty() &&
         std::all_of(clusters.begin(), clusters.end(),
                     [&](const ClusterReport& c) { return c.host == clusters.front().host; });
}

std::string wire_text(const RunReport& report) {
  const settings::RunConfig& c = report.config;
  if (are_on_one_named_host(report.clusters)) return std::string(settings::word_of(settings::Wire::kShm));
  return c.wire == settings::Wire::kDpdk ? fmt::format("dpdk ({})", settings::word_of(c.dpdk.kind))
                                         : std::string(settings::word_of(c.wire));
}

std::string machine(const RunReport& report) {
  const settings::RunConfig& c = report.config;
  // Hosts may differ from the run's setting, where they came so far as to say what their proxies did.
  std::vector<std::size_t> proxies;
  for (const ClusterReport& cluster : report.clusters)
    if (!cluster.proxies.empty()) proxies.push_back(cluster.proxies.size());
  if (proxies.empty()) proxies.push_back(c.proxies);
  const auto [least, most] = std::minmax_element(proxies.begin(), proxies.end());
  return fmt::format("{} of {} and {}, wire {}, dispatch {}", counted(c.clusters, "cluster"),
                     counted(c.compute, "compute node"), counted_between(*least, *most, "proxy", "proxies"),
                     wire_text(report), settings::word_of(c.dispatch));
}

}  // namespace

std::vector<std::string> protections_of(const std::vector<ClusterReport>& clusters) {
  std::set<std::string> all;
  for (const ClusterReport& cluster : clusters) {
    for (const CounterValues& proxy : cluster.proxies)
      for (const auto& [name, value] : proxy)
        if (const char* const protection = proxy::protection_of(name); protection != nullptr && value > 0)
          all.insert(protection);
  }
  return {all.begin(), all.end()};
}

void subtract_before_reset(std::vector<ClusterReport>& clusters) {
  for (ClusterReport& cluster : clusters) {
    const Json given = parsed_report(cluster);
    if (!given.is_object() || !given.contains("proxies_before")) continue;
    const Json& before = given["proxies_before"];
    for (std::size_t p = 0; p < cluster.proxies.size() && p < before.size(); ++p) {
      for (auto& [name, value] : cluster.proxies[p])
        if (!proxy::is_level(name)) value -= std::min(value, before[p].value(name, std::uint64_t{0}));
    }
  }
}

std::string render_text(const RunReport& report) {
  std::string text = fmt::format("braid: {}; {}{}\n", report.command.empty() ? "" : report.command.front(),
                                 machine(report), protection_text(report.protections));
  if (report.config.faults.any()) {
    const settings::FaultConfig& f = report.config.faults;
    text += fmt::format(
        "braid: faults: loss {}, duplicate {}, reorder {}, corrupt {}, flip past checksum every {}, drop "
        "all after {}, delay {} ms, seed {}\n",
        f.loss, f.duplicate, f.reorder, f.corrupt, f.flip_past_checksum_every, f.drop_all_after, f.delay_ms,
        f.seed);
  }
  if (!report.config.security.keylog.empty()) text += keylog_warning(report);
  const std::vector<Json> parsed = parsed_reports(report);
  const RunCosts costs = costs_of(parsed);
  for (const std::string& table : {proxies_table(report), nodes_table(parsed), pages_table(parsed),
                                   memory_table(costs), locks_table(costs)})
    text += table;
  if (const std::string help = advice(costs, parsed, report.run_time); !help.empty())
    text += fmt::format("braid: {}\n", help);
  for (const std::string& names : warnings(globals_of(parsed))) text += fmt::format("braid: {}\n", names);
  if (used_nothing(report))
    text +=
        "braid: the program ran once for each cluster and used nothing of Braid: build a pthread program by 'braid-cc --pthreads', one with "
        "PARMACS macros by 'braid parmacs', and see docs/PROGRAMS.md\n";
  text +=
      fmt::format("braid: ran {:.3f} s after {:.3f} s of starting; status {}{}\n", report.run_time.s(),
                  report.start_time.s(), report.status, report.failure.empty() ? "" : ": " + report.failure);
  return text;
}

Json render_json(const RunReport& report) {
  Json json;
  json["braid"] = kVersion;
  json["command"] = report.command;
  json["configuration"] = settings::json_of(report.config);
  json["seed"] = report.config.faults.seed;
  json["status"] = report.status;
  json["failure"] = report.failure.empty() ? Json() : Json(report.failure);
  json["security"] = report.protections;
  json["start_seconds"] = report.start_time.s();
  json["wall_seconds"] = report.run_time.s();
  const std::vector<Json> parsed = parsed_reports(report);
  json["parallel_ns"] = parallel_ns(parsed);
  json["clusters"] = Json::array();
  // A map keeps totals of whatever counters there are; their order is restored from the first proxy.
  std::map<std::string, std::uint64_t> sums;
  Json totals = Json::object();
  for (std::size_t k = 0; k < report.clusters.size(); ++k) {
    const ClusterReport& c = report.clusters[k];
    Json cluster;
    cluster["cluster"] = k;
    if (!c.host.empty()) cluster["host"] = c.host;
    cluster["braidd"] = {{"pid", c.daemon}, {"end", c.daemon_end}};
    cluster["application"] = {{"pid", c.application}, {"end", c.application_end}};
    const Json& given = parsed[k];
    cluster["application"]["report"] = given.is_discarded() ? Json() : given;
    // Not to be lost for being malformed.
    if (given.is_discarded() && !c.application_report.empty())
      cluster["application"]["report_text"] = c.application_report;
    cluster["proxies"] = Json::array();
    for (const CounterValues& counters : c.proxies) {
      Json proxy = Json::object();
      for (const auto& [name, value] : counters) {
        proxy[name] = value;
        totals[name] = sums[name] += value;
      }
      cluster["proxies"].push_back(std::move(proxy));
    }
    json["clusters"].push_back(std::move(cluster));
  }
  json["totals"] = std::move(totals);
  const RunCosts costs = costs_of(parsed);
  json["costs"] = json_of(costs);
  json["costs"]["advice"] = advice(costs, parsed, report.run_time);
  json["globals"] = json_of(globals_of(parsed));
  return json;
}

}  // namespace braid::cli
