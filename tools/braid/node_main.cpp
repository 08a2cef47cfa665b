// braid-node: what `braid run --hosts` and `braid doctor` start on each host.
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "base/guarded.h"
#include "base/process_start.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/doctor/host_side.h"
#include "tools/braid/number_in.h"
#include "tools/braid/run/host_agent.h"
#include "tools/braid/run/ranks/pmix_job.h"
#include "tools/braid/run/ranks/tls_relay.h"
#include "tools/braid/run/show_plan.h"
#include "tools/braid/run/tree/host_relay.h"
#include "tools/braid/run/tree/relay_agent.h"
#include "tools/braid/version.h"

namespace {

int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("braid-node {}\n", braid::cli::kVersion);
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--doctor") return braid::cli::serve_doctor();
  if (argc == 2 && std::string_view(argv[1]) == "--plan") return braid::cli::serve_plan();
  if (argc == 2 && argv[1] == std::string_view(braid::cli::kRelayOption))
    return braid::cli::serve_hosts_behind();
  if (argc == 3 && std::string_view(argv[1]) == "--relay") {
    const std::optional<int> order = braid::cli::number_in<int>(argv[2]);
    if (!order) braid::cli::refuse(braid::cli::kUsageStatus, "braid-node --relay: a descriptor is wanted");
    return braid::cli::serve_relay(*order);
  }
  if (braid::cli::started_processes().value_or(1) > 1)
    braid::cli::refuse(
        braid::cli::kUsageStatus,
        fmt::format(
            "braid-node is not for users, and {} of it were started. Type 'srun --mpi=pmix braid run PROGRAM' or 'mpirun braid "
            "run PROGRAM', whose processes find each other, or 'braid run --launcher slurm PROGRAM' inside the allocation, which starts "
            "a braid-node on each of its hosts",
            *braid::cli::started_processes()));
  if (argc > 1)
    braid::cli::refuse(braid::cli::kUsageStatus,
                       "braid-node is not for users; 'braid run' and 'braid doctor' start it on each host");
  return braid::cli::serve_host();
}

}  // namespace

int main(int argc, char** argv) {
  braid::prepare_process();
  return braid::guarded("braid-node", braid::cli::kLostDaemonStatus, [&] { return run(argc, argv); });
}
