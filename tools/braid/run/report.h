// The report of a run, as text for people and as JSON for programs. Pure: from numbers to text.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "proxy/channel/node_counters.h"
#include "settings/run.h"

namespace braid::cli {

// Of one proxy.
using proxy::CounterValues;

struct ClusterReport {
  std::string host;  // its name; empty: this one
  pid_t daemon = 0;  // process ids; 0: never started
  pid_t application = 0;
  std::string daemon_end;  // "exited with status 0"; empty: never started
  std::string application_end;
  std::vector<CounterValues> proxies;
  // JSON as the application gave it; empty: it gave none.
  std::string application_report;
};

struct RunReport {
  std::vector<std::string> command;
  settings::RunConfig config;
  int status = 0;
  std::string failure;  // why the run ended early; empty: it did not
  Duration start_time;  // until all daemons were connected
  Duration run_time;    // of the applications
  std::vector<ClusterReport> clusters;
  // How the packets of its sub-connections were protected (proxy::protection_of()); empty: there were none.
  std::vector<std::string> protections;
};

// Of all proxies; before subtract_before_reset(), which begins their counters anew.
std::vector<std::string> protections_of(const std::vector<ClusterReport>& clusters);

// Where a program has called reset_figures(), its proxies' counters tell what came after it: what its report says that they were
// before is subtracted.
void subtract_before_reset(std::vector<ClusterReport>& clusters);

std::string render_text(const RunReport& report);
nlohmann::ordered_json render_json(const RunReport& report);

}  // namespace braid::cli
