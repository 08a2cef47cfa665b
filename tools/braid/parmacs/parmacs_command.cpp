#include "tools/braid/parmacs/parmacs_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "tools/braid/find_program.h"

namespace braid::cli {
namespace {

constexpr const char* kName = "parmacs";

constexpr const char* kFooter =
    "Passes each FILE.C.in, FILE.c.in, FILE.C, FILE.U, FILE.H.in, FILE.h.in and FILE.H through m4 with the ANL macros, then compiles\n"
    "and links for 'braid run', or for 'braid sim' where a word is --simulated. All other words are the compiler's; 'braid parmacs\n"
    "--m4-file' prints the name of the macros' file, for the makefiles of a suite. See docs/PROGRAMS.md.\n"
    "\n"
    "Examples:\n"
    "  braid parmacs -O2 solve.C.in solve.H.in -o solve -lm\n"
    "  braid run --clusters 2 --compute 2 ./solve -p4\n"
    "  braid parmacs --simulated -O2 solve.C.in solve.H.in -o solve-simulated -lm\n"
    "  braid sim --clusters 16 --compute 1 ./solve-simulated -p16\n";

int run_script(char** words) {
  const std::string script = own_folder() + "/braid-parmacs";
  ::execv(script.c_str(), words);
  refuse(kLostDaemonStatus, fmt::format("parmacs: cannot run {}: {}", script, std::strerror(errno)));
}

}  // namespace

Subcommand parmacs_command() {
  return {.name = kName,
          .about = "Build programs that are written with the ANL macros (PARMACS)",
          .usage = "braid parmacs FILE.C.in... [FILE.H.in...] [-o PROGRAM] [ARGUMENT of the compiler]...",
          .footer = kFooter,
          .options = {},
          .takes_application = true,
          .run = [](const Given&) { return kUsageStatus; }};
}

bool is_parmacs(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == kName;
}

int build_with_macros(char** argv) {
  return run_script(argv + 1);
}

}  // namespace braid::cli
