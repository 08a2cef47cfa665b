// The command `braid`. Each folder beside this file implements and declares a part of it.
#include "base/guarded.h"
#include "base/process_start.h"
#include "settings/views/default_file.h"
#include "settings/views/reference.h"
#include "tools/braid/calibrate/calibrate_command.h"
#include "tools/braid/command_line/command_line.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/decrypt/decrypt_command.h"
#include "tools/braid/doctor/doctor_command.h"
#include "tools/braid/inspect/counters_command.h"
#include "tools/braid/inspect/proxies_command.h"
#include "tools/braid/parmacs/parmacs_command.h"
#include "tools/braid/report/report_command.h"
#include "tools/braid/run/run_command.h"
#include "tools/braid/secret/secret_command.h"
#include "tools/braid/simulate/sim_command.h"
#include "tools/braid/study/fit_command.h"
#include "tools/braid/study/plan_command.h"
#include "tools/braid/study/study_command.h"
#include "tools/braid/study/table_command.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

constexpr const char* kAbout =
    "braid makes a cluster of SMPs work as one machine. Proxies, threads that do nothing else, carry messages between the\n"
    "clusters, and programs share memory whose pages travel as messages.";

constexpr const char* kFooter =
    "Examples:\n"
    "  braid run jacobi                                 two clusters of two compute nodes on this machine\n"
    "  braid run --clusters 4 --compute 1 matmul        four clusters\n"
    "  braid run --wire dpdk jacobi --size 512          over DPDK; the words after 'jacobi' go to jacobi\n"
    "  braid sim --clusters 8 --compute 2 water         the same programs on a simulated machine\n"
    "  braid study configs/study-water.yaml -o water    many simulations that differ in some settings\n"
    "  braid report water -o water.html                 a page with charts of a study, or of a run\n"
    "  braid calibrate                                  the costs of this machine, as a model for 'braid sim'\n"
    "  braid counters --process $(pgrep -n jacobi)      the counters of that process's proxies\n"
    "  braid secret /etc/braid/secret                   the secret of nodes that are started by hand\n"
    "  braid decrypt sealed.pcapng --keylog keys -o plain.pcapng\n"
    "                                                   a capture of encrypted packets, for Wireshark\n"
    "  braid help run                                   the options of a run\n"
    "  braid help settings                              every setting of options and files\n"
    "  braid help defaults                              a configuration file with every setting at its default\n";

}  // namespace
}  // namespace braid::cli

namespace {

int run(int argc, char** argv) {
  using namespace braid;
  using namespace braid::cli;
  if (is_study_table(argc, argv)) print_study_table(argv);
  if (is_parmacs(argc, argv)) return build_with_macros(argv);
  const CommandLine line{
      .about = kAbout,
      .footer = kFooter,
      .version = kVersion,
      .commands = {run_command(), sim_command(), study_command(), fit_command(), plan_command(),
                   report_command(), counters_command(), proxies_command(), calibrate_command(),
                   doctor_command(), secret_command(), decrypt_command(), parmacs_command()},
      .topics = {{"settings", settings::reference_page}, {"defaults", settings::default_file}}};
  return run_command_line(line, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  braid::prepare_process();
  return braid::guarded("braid", braid::cli::kLostDaemonStatus, [&] { return run(argc, argv); });
}
