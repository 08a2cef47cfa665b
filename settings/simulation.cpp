#include "settings/simulation.h"

#include <fmt/core.h>

#include "convergence/position.h"
#include "settings/limits.h"

namespace braid::settings {

template <>
struct Words<Handlers> {
  static constexpr Word<Handlers> kAll[] = {{"compute", Handlers::kCompute}, {"own", Handlers::kOwn}};
};
template <>
struct Words<ModelMutant> {
  using E = ModelMutant;
  static constexpr Word<E> kAll[] = {{"none", E::kNone},
                                     {"last-in-first-out", E::kLastInFirstOut},
                                     {"forgets-checksums", E::kForgetsChecksums}};
};

template <>
struct Words<IncidentKind> {
  using E = IncidentKind;
  static constexpr Word<E> kAll[] = {
      {"proxy-stops", E::kProxyStops}, {"ni-fails", E::kNiFails}, {"active-proxies", E::kActiveProxies}};
};

namespace {

// --- incidents

using I = IncidentConfig;
constexpr Setting kIncident[] = {
    declare<&I::at_us>({.name = "at_us",
                        .unit = "us",
                        .help = "when it begins, in virtual time since the program began",
                        .most = kDayMs,
                        .required = true}),
    declare<&I::kind>(
        {.name = "kind",
         .help = "a proxy stops and executes nothing (proxy-stops), every frame to and from a network "
                 "interface is lost (ni-fails), or the cluster has another number of active proxies "
                 "(active-proxies)",
         .required = true}),
    declare<&I::cluster>({.name = "cluster", .help = "whose", .most = kMaxClusters - 1, .required = true}),
    declare<&I::proxy>(
        {.name = "proxy", .help = "proxy-stops: which; -1: none", .least = -1, .most = kMaxProxies - 1}),
    declare<&I::ni>({.name = "ni", .help = "ni-fails: which; -1: none", .least = -1, .most = kMaxNis - 1}),
    declare<&I::active>(
        {.name = "active", .help = "active-proxies: how many; -1: none", .least = -1, .most = kMaxProxies}),
    declare<&I::for_us>(
        {.name = "for_us",
         .unit = "us",
         .help = "how long the proxy, or the network interface, is out of service; 0: to the end of "
                 "the run",
         .most = kDayMs})};

// An incident names exactly the objects that its kind is about.
std::optional<Conflict> incident_has_its_object(const I& i) {
  struct Part {
    const char* key;
    int given;
    IncidentKind kind;
    const char* what;
  };
  const Part parts[] = {{"proxy", i.proxy, IncidentKind::kProxyStops, "which proxy stops"},
                        {"ni", i.ni, IncidentKind::kNiFails, "which network interface fails"},
                        {"active", i.active, IncidentKind::kActiveProxies, "how many proxies are active"}};
  for (const Part& part : parts) {
    if (part.kind == i.kind && part.given < 0)
      return Conflict{{part.key, "kind"},
                      fmt::format("{} needs '{}'; add it: {}", word_of(i.kind), part.key, part.what)};
    if (part.kind != i.kind && part.given >= 0)
      return Conflict{{part.key, "kind"},
                      fmt::format("{} has no '{}', which is for {}; remove it, or set kind to {}",
                                  word_of(i.kind), part.key, word_of(part.kind), word_of(part.kind))};
  }
  if (i.active == 0) return Conflict{{"active"}, "0 proxies serve nobody; set active to 1 or more"};
  if (i.kind == IncidentKind::kActiveProxies && i.for_us != 0)
    return Conflict{
        {"for_us", "kind"},
        "active-proxies holds until the next incident of that kind; remove for_us, and add an incident "
        "that sets the number again"};
  return std::nullopt;
}
constexpr Relation kIncidentRelations[] = {relation<I, incident_has_its_object>(
    "proxy-stops has proxy, ni-fails has ni, active-proxies has active (at least 1) and no for_us")};
constinit const Schema kIncidentSchema = {.settings = kIncident, .relations = kIncidentRelations};

// --- the simulation

using S = SimulationConfig;
constexpr Setting kSettings[] = {
    declare<&S::model>(
        {.name = "model",
         .option = "--model",
         .help = "the cost model of the simulation: a model's name (alewife-1997, modern) or a file",
         .reason = "the paper's machine",
         .allowed = "a model",
         .scope = Scope::kSimulated}),
    declare<&S::mode>(
        {.name = "mode",
         .option = "--mode",
         .help =
             "real; no-delay: messages bypass the proxies; no-contention: each takes as long as one of the "
             "program's mean length on an idle system",
         .scope = Scope::kSimulated}),
    declare<&S::proxy_speed>({.name = "proxy_speed",
                              .option = "--proxy-speed",
                              .help = "how fast a proxy is, in compute nodes",
                              .reason = "the paper's proxies are processors like the others",
                              .least_number = 0.25,
                              .max_number = 4,
                              .scope = Scope::kSimulated}),
    declare<&S::handlers>(
        {.name = "handlers",
         .option = "--handlers",
         .help =
             "what handles messages of the page protocol that arrive: compute nodes (compute), or in each "
             "cluster a processor of its own (own)",
         .reason = "the paper's machine interrupts compute nodes",
         .scope = Scope::kSimulated}),
    declare<&S::message_bytes>(
        {.name = "message_bytes",
         .option = "--message-bytes",
         .unit = "bytes",
         .help =
             "no-contention: the length of the message whose latency all have; 0: the mean length in a real run, "
             "which is made first",
         .most = convergence::kMaxRunBytes,
         .scope = Scope::kSimulated}),
    declare<&S::jitter>(
        {.name = "jitter",
         .option = "--jitter",
         .unit = "cycles",
         .help =
             "the greatest random delay of a compute node's request; the seed draws the delay of each request",
         .reason = "enough that runs with other seeds differ, and too little to change a figure",
         .most = 1'000'000,
         .scope = Scope::kSimulated}),
    declare<&S::strict>(
        {.name = "strict",
         .option = "--strict",
         .help = "process all events strictly in order: slow, with the same result, for a comparison",
         .scope = Scope::kSimulated}),
    declare<&S::watchdog_s>(
        {.name = "watchdog_s",
         .option = "--watchdog",
         .unit = "s",
         .help = "end the run when a compute node has waited for a lock of the program's own, or spun in a "
                 "library's code, for this time, s; 0: never",
         .reason = "a turn of a program takes milliseconds",
         .most = kDayMs / 1000,
         .scope = Scope::kSimulated}),
    declare<&S::mutant>({.name = "mutant",
                         .option = "--mutant",
                         .help = "a mutant of the model, to test that the figures show it",
                         .scope = Scope::kSimulated})};

constexpr List kLists[] = {
    list<&S::incidents>("incidents", "what happens to clusters while the program runs",
                        "{at_us: 2000, kind: proxy-stops, cluster: 1, proxy: 0, for_us: 5000}",
                        kIncidentSchema, Scope::kSimulated)};

}  // namespace

constinit const Schema kSimulationSchema = {.settings = kSettings, .lists = kLists};

}  // namespace braid::settings
