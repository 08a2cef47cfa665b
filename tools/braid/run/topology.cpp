#include "tools/braid/run/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/processors.h"
#include "tools/braid/process/cgroup.h"

namespace braid::cli {
namespace {

using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

// The number of what a processor has of this kind; where there is none, all processors share one.
unsigned number_above(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t processor) {
  const hwloc_obj_t above = hwloc_get_ancestor_obj_by_type(topology, type, processor);
  return above == nullptr ? 0 : above->logical_index;
}

unsigned core_of(hwloc_topology_t topology, hwloc_obj_t processor) {
  const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, processor);
  return core == nullptr ? processor->os_index : static_cast<unsigned>(hwloc_bitmap_first(core->cpuset));
}

// Of the last level that there is; without caches a package counts as one.
unsigned cache_of(hwloc_topology_t topology, hwloc_obj_t processor) {
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    if (hwloc_get_nbobjs_by_type(topology, level) > 0) return number_above(topology, level, processor);
  }
  return number_above(topology, HWLOC_OBJ_PACKAGE, processor);
}

std::set<unsigned> processors_near(hwloc_topology_t topology, const std::string& interface) {
  std::set<unsigned> all;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology, device)) != nullptr;) {
    if (device->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || device->name == nullptr ||
        interface != device->name)
      continue;
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    // A device of the whole host, as of a virtual machine, is near nothing.
    if (place == nullptr || place->type == HWLOC_OBJ_MACHINE) continue;
    for (int p = -1; (p = hwloc_bitmap_next(place->cpuset, p)) >= 0;) all.insert(static_cast<unsigned>(p));
  }
  return all;
}

}  // namespace

Result<HostProcessors> read_topology(std::span<const unsigned> usable,
                                     const std::set<std::string>& interfaces, const TopologySource& source) {
  constexpr const char* kFailed =
      "hwloc cannot tell what processors there are: {} (--bind none does not ask it)";
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return error(kFailed, "memory is short");
  const Topology topology(made, &hwloc_topology_destroy);
  if (!source.synthetic.empty() && hwloc_topology_set_synthetic(made, source.synthetic.c_str()) != 0)
    return error(kFailed, source.synthetic);
  if (!source.xml.empty() && hwloc_topology_set_xml(made, source.xml.c_str()) != 0)
    return error(kFailed, source.xml);
  // Processors outside a cpuset, too: a core's number is the same for all who look.
  // Linux itself names the network interfaces. Plug-ins that other packages bring (Open MPI's does) would ask graphics drivers
  // and displays, and take longer; one that is not installed is refused, which is as well.
  for (const char* const plug_in : {"pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"})
    (void)hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plug_in);
  (void)hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (!interfaces.empty()) (void)hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0) return error(kFailed, "it finds none");

  HostProcessors host;
  for (hwloc_obj_t p = nullptr; (p = hwloc_get_next_obj_by_type(made, HWLOC_OBJ_PU, p)) != nullptr;) {
    if (!usable.empty() && std::find(usable.begin(), usable.end(), p->os_index) == usable.end()) continue;
    host.usable.push_back({.number = p->os_index,
                           .core = core_of(made, p),
                           .cache = cache_of(made, p),
                           .numa = static_cast<unsigned>(std::max(0, hwloc_bitmap_first(p->nodeset))),
                           .package = number_above(made, HWLOC_OBJ_PACKAGE, p)});
  }
  for (const std::string& interface : interfaces) host.near[interface] = processors_near(made, interface);
  return host;
}

Result<HostProcessors> own_processors(const std::set<std::string>& interfaces) {
  Result<HostProcessors> host = read_topology(processors_of_this_thread(), interfaces);
  if (host) host->quota = own_cpu_quota();
  return host;
}

}  // namespace braid::cli
