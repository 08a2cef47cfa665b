// The report of a simulated run, as text for people and as JSON for programs.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "base/json.h"
#include "settings/views/json.h"
#include "tools/braid/simulate/cycles.h"
#include "tools/braid/simulate/kind_name.h"
#include "tools/braid/simulate/simulate.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

// Never 0: rates are divided by these.
double parallel_cycles(const SimulationReport& r) {
  return std::max(1.0, static_cast<double>(r.figures.parallel.ns()) * r.cycles_per_second / 1e9);
}
double parallel_seconds(const SimulationReport& r) {
  return std::max(1e-12, r.figures.parallel.s());
}

// A proxy's queue in parallel(), in intervals of which the last may be shorter; as columns, because there are
// many.
Json over_time(const sim::QueueHistory& queue, double cycles_per_second) {
  Json mean = Json::array(), most = Json::array();
  for (std::size_t i = 0; i < queue.size(); ++i) {
    mean.push_back(queue[i].mean);
    most.push_back(queue[i].most);
  }
  return Json{{"interval_cycles", queue.width().s() * cycles_per_second}, {"mean", mean}, {"most", most}};
}

// One character per interval, for all proxies together; empty: nothing was measured. All have measured the
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

// In cycles of a compute node, for all proxies together.
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
    json.push_back(
        Json{{"cluster", n / r.config.nis},
             {"ni", n % r.config.nis},
             {"frames", link.frames},
             {"bytes", link.bytes},
             {"utilisation", link.busy.s() / seconds},
             // Little's law: the sum of its frames' waiting and sending times, divided by the time.
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

Json messages_of(const SimulationReport& r) {
  const sim::MessageFigures& m = r.figures.messages;
  const double count = std::max<double>(1, static_cast<double>(m.count));
  const double per_million = static_cast<double>(m.count) * 1e6 / parallel_cycles(r);
  const auto mean = [&](Duration d) {
    return static_cast<double>(d.ns()) * r.cycles_per_second / 1e9 / count;
  };
  return Json{{"count", m.count},
              {"mean_bytes", static_cast<double>(m.bytes) / count},
              {"per_million_cycles", per_million},
              {"per_million_cycles_and_cluster", per_million / static_cast<double>(r.config.clusters)},
              {"mean_cycles", mean(m.whole)},
              {"mean_wait_to_send", mean(m.wait_to_send)},
              {"mean_send", mean(m.send)},
              {"mean_network", mean(m.network)},
              {"mean_wait_for_link", mean(m.wait_for_link)},
              {"mean_wait_to_receive", mean(m.wait_to_receive)},
              {"mean_receive", mean(m.receive)},
              {"retransmissions", r.figures.retransmissions},
              {"spurious_retransmissions", r.figures.spurious_retransmissions},
              {"frames_lost", r.figures.frames_lost}};
}

Json proxies_of(const SimulationReport& r) {
  Json json = Json::array();
  for (std::size_t p = 0; p < r.figures.proxies.size(); ++p) {
    const sim::ProxyFigures& figures = r.figures.proxies[p];
    json.push_back(Json{{"cluster", p / r.config.proxies},
                        {"proxy", p % r.config.proxies},
                        {"utilisation", figures.busy.s() / parallel_seconds(r)},
                        {"mean_queue", figures.queue.mean()},
                        {"mean_queue_of_messages", figures.stay.s() / parallel_seconds(r)},
                        {"most_queued", figures.queue.most()},
                        {"messages", figures.messages},
                        {"records", figures.records},
                        {"frames_received", figures.frames_received},
                        {"frames_sent", figures.frames_sent},
                        {"timers", figures.timers},
                        {"queue_over_time", over_time(figures.queue, r.cycles_per_second)}});
  }
  return json;
}

// The mean of a figure over the entries that have it; 0 if there is none.
double mean_of(const Json& entries, const char* figure) {
  double sum = 0;
  for (const Json& entry : entries) sum += entry[figure].get<double>();
  return sum / std::max<double>(1, static_cast<double>(entries.size()));
}

Json nodes_of(const SimulationReport& r) {
  const auto cycles = [&](Duration d) { return to_cycles(d, r.cycles_per_second); };
  Json json = Json::array();
  for (std::size_t n = 0; n < r.figures.nodes.size(); ++n) {
    const sim::NodeFigures& figures = r.figures.nodes[n];
    const dsm::NodeCounts& counts = r.figures.node_counts[n];
    const double per_million = static_cast<double>(figures.messages) * 1e6 / parallel_cycles(r);
    json.push_back(Json{{"node", n},
                        {"computing", cycles(figures.computing)},
                        {"faults", cycles(figures.faults)},
                        {"locks", cycles(figures.locks)},
                        {"barriers", cycles(figures.barriers)},
                        {"syncs", cycles(figures.syncs)},
                        {"handling", cycles(figures.handling)},
                        {"held_up", cycles(figures.held_up)},
                        {"messages", figures.messages},
                        {"messages_per_million_cycles", per_million},
                        {"read_faults", counts.read_faults},
                        {"write_faults", counts.write_faults},
                        {"fetches", counts.fetches},
                        {"lock_calls", counts.lock_calls},
                        {"remote_locks", counts.remote_locks},
                        {"barrier_calls", counts.barriers},
                        {"sync_calls", counts.sync_calls}});
  }
  return json;
}

// What one page or lock cost all compute nodes.
struct Waited {
  std::uint64_t ns = 0, count = 0;
  Duration longest{};
  std::vector<std::pair<std::uint64_t, std::size_t>> nodes;  // nanoseconds, number
};

// `costs`: of one compute node, its pages or its locks.
template <class Costs>
Json waits_of(const SimulationReport& r, const char* key, Costs&& costs) {
  constexpr std::size_t kShown = 16, kShownNodes = 8;
  std::map<std::uint64_t, Waited> sums;
  for (std::size_t n = 0; n < r.figures.waits.size(); ++n) {
    for (const auto& entry : costs(r.figures.waits[n])) {
      Waited& sum = sums[entry.key.value()];
      sum.ns += entry.least();
      sum.count += entry.value.count;
      sum.longest = std::max(sum.longest, entry.value.longest);
      sum.nodes.emplace_back(entry.least(), n);
    }
  }
  std::vector<std::pair<std::uint64_t, Waited>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  sorted.resize(std::min(sorted.size(), kShown));
  const auto cycles = [&](std::uint64_t ns) {
    return to_cycles(Duration::ns(static_cast<std::int64_t>(ns)), r.cycles_per_second);
  };
  Json json = Json::array();
  for (auto& [id, sum] : sorted) {
    std::stable_sort(sum.nodes.begin(), sum.nodes.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    Json nodes = Json::array();
    for (const auto& [ns, node] : std::span(sum.nodes).first(std::min(sum.nodes.size(), kShownNodes)))
      nodes.push_back(Json{{"node", node}, {"cycles", cycles(ns)}});
    json.push_back(Json{{key, id},
                        {"cycles", cycles(sum.ns)},
                        {"waits", sum.count},
                        {"longest", to_cycles(sum.longest, r.cycles_per_second)},
                        {"waiting_nodes", sum.nodes.size()},
                        {"nodes", std::move(nodes)}});
  }
  return json;
}

// The page protocol's messages by kind; a kind that was not sent has no entry.
Json phases_of(const sim::PhaseHistory& sent) {
  Json kinds = Json::object();
  for (std::size_t kind = 0; kind < dsm::kSentNames.size(); ++kind) {
    Json counts = Json::array();
    std::uint64_t all = 0;
    for (const sim::PhaseHistory::Counts& entry : sent.entries()) {
      counts.push_back(entry[kind]);
      all += entry[kind];
    }
    if (all > 0) kinds[std::string(kind_name(kind))] = std::move(counts);
  }
  return Json{{"barriers_each", sent.phases_each()}, {"sent", std::move(kinds)}};
}

// Settings that the user gave: with these a run is the same. A list holds its entries.
Json given_of(const SimulationReport& r) {
  Json given = Json::object();
  for (const std::string& key : r.given) {
    if (key.find('[') == std::string::npos)
      given[key] = settings::json_of(settings::kRunSchema, &r.config, key);
  }
  return given;
}

Json incidents_of(const SimulationReport& r) {
  Json json = Json::array();
  for (const SimulationReport::Incident& incident : r.incidents) json.push_back(incident_json(r, incident));
  return json;
}

// "proxy 1 of cluster 0 stopped", and for how long if that is configured.
std::string incident_text(const SimulationReport& r, const SimulationReport::Incident& incident) {
  const settings::IncidentConfig& c = r.config.simulation.incidents[incident.index];
  const std::string for_so_long = c.for_us == 0 ? " for good" : fmt::format(" for {} us", c.for_us);
  switch (c.kind) {
    case settings::IncidentKind::kProxyStops:
      return fmt::format("proxy {} of cluster {} stopped{}", c.proxy, c.cluster, for_so_long);
    case settings::IncidentKind::kNiFails:
      return fmt::format("NI {} of cluster {} failed{}", c.ni, c.cluster, for_so_long);
    case settings::IncidentKind::kActiveProxies:
      return fmt::format("cluster {} had {} active proxies", c.cluster, c.active);
  }
  return "";
}

// Shares of the time of all compute nodes in parallel().
Json shares_of(const Json& nodes, double parallel_cycles) {
  Json shares;
  const double time = parallel_cycles * std::max<double>(1, static_cast<double>(nodes.size()));
  for (const char* const key : {"computing", "faults", "locks", "barriers", "syncs", "handling", "held_up"}) {
    double sum = 0;
    for (const Json& node : nodes) sum += node[key].get<double>();
    shares[key] = sum / time;
  }
  // All time but the nodes' own work.
  shares["communicating"] = 1 - (shares["computing"].get<double>() - shares["held_up"].get<double>());
  return shares;
}

Json step_of(const sim::RaceStep& step) {
  if (step.what[0] == 0) return nullptr;
  return Json{{"what", step.what.data()}, {"where", step.where.data()}};
}

Json side_of(const sim::RaceSide& side) {
  return Json{{"kind", side.kind.data()},   {"cluster", side.cluster},        {"node", side.node},
              {"where", side.where.data()}, {"before", step_of(side.before)}, {"after", step_of(side.after)}};
}

Json races_of(const sim::RaceReport& report) {
  Json races = Json::array();
  for (const sim::Race& race : std::span(report.races).first(report.totals.shown))
    races.push_back(
        Json{{"accesses", {side_of(race.later), side_of(race.earlier)}}, {"memory", race.memory.data()}});
  return Json{{"checked_accesses", report.totals.checks},
              {"count", report.totals.races},
              {"incomplete", report.totals.is_incomplete},
              {"races", std::move(races)}};
}

}  // namespace

nlohmann::ordered_json incident_json(const SimulationReport& r, const SimulationReport::Incident& incident) {
  const settings::IncidentConfig& c = r.config.simulation.incidents[incident.index];
  Json j;
  j["kind"] =
      settings::json_of(settings::kRunSchema, &r.config, "simulation.incidents")[incident.index]["kind"];
  j["cluster"] = c.cluster;
  if (c.proxy >= 0) j["proxy"] = c.proxy;
  if (c.ni >= 0) j["ni"] = c.ni;
  if (c.active >= 0) j["active"] = c.active;
  j["began"] = to_cycles(incident.began - Instant(), r.cycles_per_second);
  if (c.for_us > 0)
    j["ended"] = to_cycles(incident.began + Duration::us(c.for_us) - Instant(), r.cycles_per_second);
  return j;
}

nlohmann::ordered_json render_json(const SimulationReport& r) {
  const sim::MachineFigures& f = r.figures;
  Json j;
  j["braid"] = kVersion;
  j["command"] = r.command;
  j["config"] = settings::json_of(r.config);
  j["given"] = given_of(r);
  j["model"] = r.model;
  j["cycles_per_second"] = r.cycles_per_second;
  j["cycles_per_unit"] = r.unit;
  j["status"] = r.status;
  if (r.races.totals.checks > 0) j["data_races"] = races_of(r.races);
  if (!r.failure.empty()) {
    j["failure"] = r.failure;
    return j;
  }
  j["deterministic"] = f.counted;
  j["trace_hash"] = fmt::format("{:016x}", f.trace_hash);
  j["real_seconds"] = r.real_seconds;
  j["events"] = f.events;
  j["hand_overs"] = f.hand_overs;
  j["whole_cycles"] = to_cycles(f.whole, r.cycles_per_second);
  j["parallel_cycles"] = to_cycles(f.parallel, r.cycles_per_second);
  if (r.message_bytes > 0) {
    j["message_bytes"] = r.message_bytes;
    j["fixed_delay_cycles"] = to_cycles(r.fixed_delay, r.cycles_per_second);
  }
  j["incidents"] = incidents_of(r);
  j["messages"] = messages_of(r);
  const Json proxies = proxies_of(r), nodes = nodes_of(r);
  j["mean_queue"] = mean_of(proxies, "mean_queue");
  j["mean_queue_of_messages"] = mean_of(proxies, "mean_queue_of_messages");
  j["mean_utilisation"] = mean_of(proxies, "utilisation");
  j["proxies"] = proxies;
  j["stages"] = stages_of(f.proxies);
  j["links"] = links_of(r);
  j["clusters"] = clusters_of(r);
  j["shares"] = shares_of(nodes, parallel_cycles(r));
  j["nodes"] = nodes;
  j["phases"] = phases_of(f.sent);
  j["waits"]["pages"] = waits_of(r, "page", [](const sim::WaitCosts& costs) { return costs.pages(); });
  j["waits"]["locks"] = waits_of(r, "lock", [](const sim::WaitCosts& costs) { return costs.locks(); });
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
    text += fmt::format("  proxies: utilisation {:.3f}, queue {:.3f}, of messages {:.3f}\n",
                        number(j["mean_utilisation"]), number(j["mean_queue"]),
                        number(j["mean_queue_of_messages"]));
    text += sparkline(r.figures.proxies);
  }
  const auto share = [&](const char* key) { return 100 * number(j["shares"][key]); };
  text += fmt::format(
      "  compute nodes: {:.1f} % computing ({:.1f} of these held up by messages), {:.1f} % waiting for pages, "
      "{:.1f} % for locks, {:.1f} % at barriers, {:.1f} % for other calls\n",
      share("computing"), share("held_up"), share("faults"), share("locks"), share("barriers"),
      share("syncs"));
  for (const SimulationReport::Incident& incident : r.incidents)
    text += fmt::format("  incident: {}, {} cycles after the run began\n", incident_text(r, incident),
                        to_cycles(incident.began - Instant(), r.cycles_per_second));
  if (const std::size_t late = r.config.simulation.incidents.size() - r.incidents.size(); late > 0)
    text += fmt::format("  {} incident(s) did not begin: the run ended before\n", late);
  text += fmt::format("  {} events in {:.2f} s; trace {}\n", j["events"].dump(), r.real_seconds,
                      j["trace_hash"].get<std::string>());
  if (!r.figures.counted)
    text +=
        "  compute time comes from this processor's clock, because the program was built without the compiler plug-in: "
        "runs differ, and computing takes the time that it takes here, not on the model's machine\n";
  else if (r.unit_is_mean)
    text += fmt::format(
        "  compute time is priced with the mean of other programs' units: model {} has no unit for this one "
        "(docs/OPERATIONS.md, Calibrate)\n",
        r.model);
  return text;
}

}  // namespace braid::cli
