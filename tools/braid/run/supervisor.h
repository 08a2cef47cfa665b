// Starts the daemons and application processes of a run, brings their output home, forwards signals, notices
// who dies, and leaves nothing behind, however it ends.
//
// Everything that the processes share (wires, counters, configurations, control sockets) is memory or sockets
// without a name in the file system, inherited as descriptors, so there is nothing to clean up and two runs
// cannot meet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "settings/run.h"
#include "stack/secure/secret.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/debugger.h"
#include "tools/braid/run/hosts.h"
#include "tools/braid/run/input_relay.h"
#include "tools/braid/run/labels.h"
#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/run/report.h"

namespace braid::cli {

struct RunOptions {
  settings::RunConfig config;
  std::string daemon;                // path of braidd
  std::string application;           // path
  std::vector<std::string> command;  // its argv, the name as the user gave it first
  // With one, nothing ends because of time that passes without progress: the process may be stopped.
  std::optional<DebuggerOptions> debugger{};
  // If the debugger reads standard input, none of them does.
  InputReaders input = InputReaders::kFirst;
  Labels labels = Labels::kAll;
  // Variables for the application beside those that it inherits on its host.
  Environment exported{};
  // Empty: all clusters are on this host. The launcher starts `agent`, the path of a braid-node, on each; with `sent_program`, the
  // application's file, it gets what is in it: there is no such file on that host.
  std::vector<Host> hosts{};
  std::shared_ptr<const HostLauncher> launcher{};
  std::string agent{};
  std::shared_ptr<const Descriptor> sent_program{};
  std::string folder{};    // in which hosts run the application
  bool is_quiet = false;   // says nothing of threads that have no core
  bool is_sealed = false;  // the run makes a secret
  // Of this run's nodes, until they have it; null: no link is sealed. Never printed, and in no file, environment or argument.
  std::shared_ptr<const stack::Secret> secret{};
};

// Runs to the end. Blocks; takes over the signals of the process, whose only thread calls. The error is of
// what could not be set up; a run that was started and failed is a report with a failure in it.
Result<RunReport> supervise(RunOptions options);

}  // namespace braid::cli
