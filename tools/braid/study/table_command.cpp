#include "tools/braid/study/table_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/find_program.h"

namespace braid::cli {

bool is_study_table(int argc, char** argv) {
  return argc > 2 && std::string_view(argv[1]) == "study" && std::string_view(argv[2]) == "table";
}

void print_study_table(char** argv) {
  const std::string script = own_folder() + "/braid-study-table";
  ::execv(script.c_str(), argv + 2);
  // The kernel says ENOENT of the interpreter, too.
  refuse(kLostDaemonStatus, fmt::format("study table: cannot run {}: {}{}", script, std::strerror(errno),
                                        errno == ENOENT && ::access(script.c_str(), X_OK) == 0
                                            ? "; it needs python3: apt-get install python3"
                                            : ""));
}

}  // namespace braid::cli
