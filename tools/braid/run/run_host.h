// A host of a run: this one, or another that a braid-node serves. It starts the processes of its clusters, carries out what
// the supervisor decides, and tells what happens. It decides nothing.
//
// Used by the supervisor's thread. No call blocks longer than a process takes to start.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "dsm/live/pulse.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/report.h"
#include "tools/braid/run/verdict.h"

namespace braid::cli {

enum class Role : std::uint8_t { kDaemon, kApplication };

struct RunProcess {
  Role role;
  unsigned cluster;
  friend bool operator==(const RunProcess&, const RunProcess&) = default;
  friend auto operator<=>(const RunProcess&, const RunProcess&) = default;
};

enum class SignalTo : std::uint8_t { kProcess, kGroup };

// What happened, in its order.
struct ProcessStarted {
  RunProcess process;
  pid_t pid;  // on its host
};
struct ProcessEnded {
  RunProcess process;
  int wait_status;  // of waitpid(2)
  RecordedEnd end;  // of a daemon only the text
};
// What was asked for could not be done, or the host is lost; then its processes count as ended.
struct HostFailed {
  std::string text;
  bool is_lost = false;
};
using HostEvent = std::variant<ProcessStarted, ProcessEnded, HostFailed>;

class RunHost {
 public:
  virtual ~RunHost() = default;

  // Of all its clusters. Once.
  virtual Result<void> start_daemons() = 0;
  // When all daemons of the run are ready. `input`: what it reads from, the caller's; -1: nothing. `debugger`: the address of
  // the Debugger that waits for it; empty: there is none.
  virtual Result<void> start_application(unsigned cluster, int input, const std::string& debugger) = 0;
  // Does nothing if the process has ended.
  virtual void signal(const RunProcess& process, int number, SignalTo to) = 0;
  // Has an application print what its compute nodes wait for, if its runtime can.
  virtual void ask_for_waits(unsigned cluster) = 0;
  // All processes of the run have ended.
  virtual void close() = 0;

  // Appends the descriptors that poll() must wait for.
  virtual void watch(std::vector<pollfd>& fds) const = 0;
  // When turn() must be called at the latest.
  virtual Instant next_deadline() const = 0;
  // Reads and writes what there is.
  virtual void turn(Instant now) = 0;
  // Whether it was one of its processes.
  virtual bool take_end(const EndedChild& ended) = 0;
  // What happened since the last call.
  virtual std::vector<HostEvent> take_events() = 0;

  // It can be asked for something: another host's braid-node has said its first word.
  virtual bool has_answered() const { return true; }
  // The program is on its way there, however long that takes.
  virtual bool is_sending_program() const { return false; }
  // Daemons that are not connected to all others.
  virtual std::vector<unsigned> late_clusters() const = 0;
  // No compute node of this cluster computes, because each waits or the process is stopped.
  virtual bool waits(unsigned cluster) const = 0;
  virtual bool is_stopped(const RunProcess& process) const = 0;
  // What the compute nodes of this cluster do.
  virtual dsm::NodesNow nodes(unsigned cluster) const = 0;
  // Grows when a compute node or a page makes progress.
  virtual std::uint64_t progress() const = 0;
  // Adds counters and application reports; `clusters` has an entry for each of the run.
  virtual void collect(std::vector<ClusterReport>& clusters) const = 0;
};

}  // namespace braid::cli
