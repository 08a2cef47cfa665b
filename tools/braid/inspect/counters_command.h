// `braid counters`: a node's counters while it runs, read from its memory without its help.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/braid/run/report.h"

namespace braid::cli {

// The control socket that an application process was told, from its environment.
Result<std::string> service_of_process(int pid);

// One list for each proxy of the node whose braidd listens at `service`.
Result<std::vector<CounterValues>> read_counters(const std::string& service);

// A line for each counter that is not zero everywhere (all of them: every one), a column for each proxy.
std::string render_counters(const std::vector<CounterValues>& proxies, bool all);

}  // namespace braid::cli
