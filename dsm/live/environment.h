// The environment variables by which `braid run` configures a program: their names, and their values, checked
// once. The runtime reads them here; `braid run` writes them by the same names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/time.h"
#include "convergence/dispatch.h"
#include "dsm/engine/types.h"
#include "dsm/program/page_length.h"
#include "settings/run.h"

namespace braid::dsm {

namespace variable {
inline constexpr const char* kService = "BRAID_SERVICE";        // socket address of this node's braidd
inline constexpr const char* kCluster = "BRAID_CLUSTER";        // 0 .. clusters-1
inline constexpr const char* kClusters = "BRAID_CLUSTERS";      // of the machine
inline constexpr const char* kCompute = "BRAID_COMPUTE";        // compute nodes per cluster
inline constexpr const char* kHeapMib = "BRAID_HEAP_MIB";       // of shared memory
inline constexpr const char* kPageBytes = kPageBytesVariable;   // of a page of shared memory
inline constexpr const char* kProtocol = "BRAID_PROTOCOL";      // eager | lazy
inline constexpr const char* kDispatch = "BRAID_DISPATCH";      // fixed | round-robin | least-loaded
inline constexpr const char* kWindowKib = "BRAID_WINDOW_KIB";   // of each connection
inline constexpr const char* kProtection = "BRAID_PROTECTION";  // auto | mprotect | userfaultfd
inline constexpr const char* kReportFd = "BRAID_REPORT_FD";     // where finish() writes one JSON object
inline constexpr const char* kPulseFd = "BRAID_PULSE_FD";  // memory of one Pulse (pulse.h), for a watchdog
inline constexpr const char* kRun = "BRAID_RUN";           // a name that no other run has, for dsm/once
// Clusters of this host where others have some, for dsm/once: "2,3".
inline constexpr const char* kHostClusters = "BRAID_HOST_CLUSTERS";
inline constexpr const char* kDebugger = "BRAID_DEBUGGER";  // "@" and a socket's name: a debugger will attach
inline constexpr const char* kProcessors = "BRAID_PROCESSORS";  // of the compute nodes, in their order: "2,3"
inline constexpr const char* kConnectTimeoutMs = "BRAID_CONNECT_TIMEOUT_MS";
}  // namespace variable

using braid::kMaxClusters;
using braid::kMaxComputeNodes;

struct Environment {
  // Empty: the program runs alone, on one cluster, without a service.
  std::string service;
  std::uint16_t cluster = 0;
  std::uint16_t clusters = 1;
  std::uint16_t compute = 1;
  // How many of them are to compute at the same time; 0: all. A program with threads of its own has a compute node for
  // each that may live, most of which wait.
  std::uint16_t computing = 0;
  std::uint32_t heap_mib = 256;
  Protocol protocol = Protocol::kEager;
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
  // A page and its header must fit a quarter of it (convergence/position.h).
  std::uint32_t window_kib = settings::kLiveWindowKib;
  // How accesses to the heap are forbidden (dsm/live/memory.h). kAuto: userfaultfd where the kernel supports it,
  // else mprotect.
  using Protect = settings::Protect;
  Protect protect = Protect::kAuto;
  // Of compute nodes 0, 1, ...; those behind the last, and all if it is empty, run where the kernel lets them.
  std::vector<unsigned> processors;
  int report_fd = -1;  // -1: no report
  int pulse_fd = -1;   // -1: no watchdog
  // Long enough for the other clusters' processes to start on a loaded machine.
  Duration connect_timeout = Duration::s(10);

  // The value of a variable, or nullptr: std::getenv, or a test's table.
  using Lookup = std::function<const char*(const char* name)>;
  // An error names the variable, its value and the allowed values.
  static Result<Environment> read(const Lookup& lookup);
  static Result<Environment> read();
};

}  // namespace braid::dsm
