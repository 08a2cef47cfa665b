// Asks other programs: short ones, which answer and end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace braid::cli {

// Of this process; empty: it is not set.
std::string variable(const char* name);
// This process's environment, for ProcessOptions.
std::vector<std::string> own_environment();

// What the program `name` of PATH prints when it reads `input`, which is short (a pipe takes it). Blocks until it has ended. The error
// has its words, its status and what it complains of.
Result<std::string> ask(const std::string& name, std::vector<std::string> words, std::string_view input = {});

}  // namespace braid::cli
