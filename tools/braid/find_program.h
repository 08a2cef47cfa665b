// Where the programs of a run are: applications that users name, and the daemon that comes with the command.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

// The folder of this executable.
std::string own_folder();
// Beside it: the applications built for simulation, and the models of what things cost.
std::string simulated_applications();
std::string models_folder();

// `name` with a slash in it is a path; otherwise an executable beside the command, or else in `path` (PATH).
// The error says where it looked, and which applications are beside the command.
Result<std::string> find_application(const std::string& name, const std::string& folder,
                                     const std::string& path);

// Executables in `folder` that can be run as applications, sorted. If `folder` has applications for simulation
// (sim/), only those that are there too. The project's own commands, tests and benches are never among them.
std::vector<std::string> applications_in(const std::string& folder);

// braidd beside the command; the environment variable BRAID_BRAIDD names another, for tests.
Result<std::string> find_daemon(const std::string& folder);

// The command itself, as what runs a study's points; the environment variable BRAID_STUDY_ENGINE names
// another, for tests.
Result<std::string> find_study_engine();

}  // namespace braid::cli
