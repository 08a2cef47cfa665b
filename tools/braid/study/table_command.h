// `braid study table`: prints the results of a study as tables. A script, tools/study_table, which lies beside the command.
#pragma once

namespace braid::cli {

// The words are "study table …": not a study's file of this name, which './table' names.
bool is_study_table(int argc, char** argv);
// Becomes the script. Returns only if it cannot: ends the command (refuse()).
[[noreturn]] void print_study_table(char** argv);

}  // namespace braid::cli
