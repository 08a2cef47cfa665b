// Finds the programs of a run: applications that users name, and the daemon that belongs to the command.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

// The folder of this executable.
std::string own_folder();
// In that folder: the applications built for simulation, and the cost models.
std::string simulated_applications();
std::string models_folder();
// The parts of the page of `braid report`.
std::string report_parts();

// `name` with a slash is a path; otherwise an executable in the command's folder, or else in
// `path` (PATH). The error says where it looked, and which applications are in the folder.
Result<std::string> find_application(const std::string& name, const std::string& folder,
                                     const std::string& path);

// The build with access checks of an application that is built for simulation, if one is in the folder checked/ beside it; or else the
// application.
std::string checked_build(const std::string& application);

// The build for live runs of an application that is built for simulation: `live`, if it is given, or the program of the same name in
// `folder`; for a path, in the folder above if its own is sim/.
Result<std::string> find_live_build(const std::string& application, const std::string& live,
                                    const std::string& folder);

// The executable `name` in the folders of `path` (PATH); a name with a slash is a path itself.
Result<std::string> find_in_path(const std::string& name, const std::string& path);

// Sorted executables in `folder` that can be run as applications. If `folder` has applications for simulation
// (sim/), only those that are there too. The project's own commands, tests and benches are excluded.
std::vector<std::string> applications_in(const std::string& folder);

// braidd in the command's folder; the environment variable BRAID_BRAIDD overrides it, for tests.
Result<std::string> find_daemon(const std::string& folder);

// The file of this executable.
Result<std::string> own_program();

// The command itself, which runs a study's points; the environment
// variable BRAID_STUDY_ENGINE overrides it, for tests.
Result<std::string> find_study_engine();

}  // namespace braid::cli
