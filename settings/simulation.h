// Settings of simulated runs only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "settings/setting.h"

namespace braid::settings {

enum class Mode : std::uint8_t {
  kReal,
  kNoDelay,       // messages bypass the ICCS: they are there as soon as they are sent (paper, section 4.2)
  kNoContention,  // each message takes as long as one on an idle system, whatever else is in flight
};

template <>
struct Words<Mode> {
  static constexpr Word<Mode> kAll[] = {
      {"real", Mode::kReal}, {"no-delay", Mode::kNoDelay}, {"no-contention", Mode::kNoContention}};
};

// Whose time the page protocol's work for an arrived message takes.
enum class Handlers : std::uint8_t {
  kCompute,  // a waiting compute node's, else a computing one's, which is delayed meanwhile
  kOwn,      // that of a processor of its own in each cluster, which does nothing else
};

// Mutants of the model, to see that its figures tell.
enum class ModelMutant : std::uint8_t {
  kNone,
  kLastInFirstOut,    // a proxy serves what came last
  kForgetsChecksums,  // a byte's checksum costs nothing
};

enum class IncidentKind : std::uint8_t { kProxyStops, kNiFails, kActiveProxies };

// An event that affects a cluster while its program runs.
struct IncidentConfig {
  std::uint32_t at_us = 0;  // of virtual time, after the connections are up
  IncidentKind kind = IncidentKind::kProxyStops;
  unsigned cluster = 0;
  // Of these the one that the kind is about; -1: not given.
  int proxy = -1;            // that stops
  int ni = -1;               // that fails
  int active = -1;           // proxies from then on
  std::uint32_t for_us = 0;  // until the proxy, or the NI, returns; 0: it does not
};

struct SimulationConfig {
  std::string model = "alewife-1997";  // the name of one beside this command, or a file's path
  Mode mode = Mode::kReal;
  double proxy_speed = 1;  // a proxy's, in compute nodes
  Handlers handlers = Handlers::kCompute;
  std::uint32_t message_bytes = 0;
  std::uint32_t jitter = 4;
  bool strict = false;
  std::uint32_t watchdog_s = 60;
  ModelMutant mutant = ModelMutant::kNone;
  std::vector<IncidentConfig> incidents;
};
extern const Schema kSimulationSchema;

}  // namespace braid::settings
