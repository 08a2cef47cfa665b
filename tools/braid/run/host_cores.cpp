#include "tools/braid/run/host_cores.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/processors.h"
#include "base/system_error.h"

namespace braid::cli {
namespace {

std::vector<unsigned> without(std::span<const unsigned> all, std::span<const unsigned> some) {
  std::vector<unsigned> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

std::vector<unsigned> online_processors() {
  std::ifstream file("/sys/devices/system/cpu/online");
  std::string line;
  std::getline(file, line);
  return parse_processor_set(line).value_or(std::vector<unsigned>());
}

Result<HostCores> cores_here(std::span<const unsigned> named) {
  return usable_cores_of(named, processors_of_this_thread(), online_processors());
}

std::string text_of_refused(std::span<const unsigned> named, const HostCores& cores) {
  if (cores.refused.empty()) return {};
  return fmt::format(
      "cores {}: the run may not use {} here (the affinity mask, a cgroup's cpuset or Slurm); it has {}",
      text_of_processor_set(named), text_of_processor_set(cores.refused),
      text_of_processor_set(cores.usable));
}

}  // namespace

Result<HostCores> usable_cores_of(std::span<const unsigned> named, std::span<const unsigned> mask,
                                  std::span<const unsigned> online) {
  if (const std::vector<unsigned> absent = without(named, online); !online.empty() && !absent.empty())
    return error("cores {}: the host has no core {}, it has {}; name processors as lscpu numbers them",
                 text_of_processor_set(named), text_of_processor_set(absent), text_of_processor_set(online));
  HostCores cores;
  cores.refused = without(named, mask);
  cores.usable = without(named, cores.refused);
  if (cores.usable.empty())
    return error(
        "cores {}: the run may use none of them here, but {}; the affinity mask, a cgroup's cpuset or Slurm says so: name "
        "some of these, or ask for others",
        text_of_processor_set(named), text_of_processor_set(mask));
  return cores;
}

Result<std::string> keep_to_cores(std::span<const unsigned> named) {
  if (named.empty()) return std::string();
  const Result<HostCores> cores = cores_here(named);
  if (!cores) return cores.error();
  if (const int problem = run_on_processors(cores->usable); problem != 0)
    return error("cores {}: {}", text_of_processor_set(named), cause_and_cure(problem));
  return text_of_refused(named, *cores);
}

Result<std::string> describe_cores(std::span<const unsigned> named) {
  if (named.empty()) return std::string();
  const Result<HostCores> cores = cores_here(named);
  if (!cores) return cores.error();
  const std::string refused = text_of_refused(named, *cores);
  return refused.empty() ? fmt::format("cores {} of the host file; its threads run on no others\n",
                                       text_of_processor_set(cores->usable))
                         : refused + "\n";
}

}  // namespace braid::cli
