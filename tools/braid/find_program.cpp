#include "tools/braid/find_program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "settings/text.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSimulatedFolder = "sim";
constexpr const char* kCheckedFolder = "checked";

bool is_executable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Lists the applications of the folder, the most similar name first.
std::string proposal(const std::string& name, const std::string& folder) {
  const std::vector<std::string> known = applications_in(folder);
  if (known.empty()) return fmt::format("there are no applications in {}", folder);
  std::string list;
  for (const std::string& application : known) list += (list.empty() ? "" : ", ") + application;
  const auto near = settings::nearest(name, known);
  return fmt::format("{}there are: {}", near ? "did you mean '" + *near + "'? " : "", list);
}

}  // namespace

std::string own_folder() {
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  return problem ? "." : self.parent_path().string();
}

std::string simulated_applications() {
  return own_folder() + "/" + kSimulatedFolder;
}
std::string models_folder() {
  return own_folder() + "/models";
}

std::string report_parts() {
  return own_folder() + "/report";
}

std::vector<std::string> applications_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  // An application is built for simulation too; tests and tools in the folder are not.
  const fs::path simulated = fs::path(folder) / kSimulatedFolder;
  const bool has_simulated = fs::is_directory(simulated, problem) && !fs::is_empty(simulated, problem);
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const std::string name = it->path().filename().string();
    const bool of_the_project = name == "braid" || name == "braidd" || name.starts_with("braid-") ||
                                name.ends_with("_test") || name.ends_with("_bench") ||
                                name.find("_fake_") != std::string::npos ||
                                name.find('.') != std::string::npos;
    if (has_simulated && !is_executable(simulated / name)) continue;
    if (!of_the_project && is_executable(it->path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

std::optional<std::string> search(const std::string& name, const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    // Shells take an empty entry for the working folder; this command does not.
    if (end > begin) {
      if (const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
          is_executable(candidate))
        return candidate.string();
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace

Result<std::string> find_in_path(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return name;
    return error("{} is not there, or is not executable", name);
  }
  if (std::optional<std::string> found = search(name, path)) return *found;
  return error("{} is in no folder of PATH ({}); install it", name, path);
}

Result<std::string> find_application(const std::string& name, const std::string& folder,
                                     const std::string& path) {
  if (name.empty()) return error("the application's name is empty");
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return name;
    std::error_code problem;
    if (fs::is_directory(name, problem)) return error("{} is a folder, not an application", name);
    return error("{}: {}", name,
                 fs::exists(name, problem) ? "is not executable; chmod +x it" : "there is no such file");
  }
  if (const fs::path beside = fs::path(folder) / name; is_executable(beside)) return beside.string();
  if (std::optional<std::string> found = search(name, path)) return *found;
  const std::string where =
      path.empty() ? "is not in " + folder : fmt::format("is neither in {} nor in PATH ({})", folder, path);
  return error("application '{}' {}; {}. A path such as ./{} works too", name, where, proposal(name, folder),
               name);
}

std::string checked_build(const std::string& application) {
  const fs::path path = application;
  const fs::path checked = path.parent_path() / kCheckedFolder / path.filename();
  return is_executable(checked) ? checked.string() : application;
}

Result<std::string> find_live_build(const std::string& application, const std::string& live,
                                    const std::string& folder) {
  if (!live.empty()) return find_application(live, folder, "");
  if (application.find('/') == std::string::npos) return find_application(application, folder, "");
  const fs::path path = application, own = path.parent_path();
  if (const fs::path above = own.parent_path() / path.filename();
      own.filename() == kSimulatedFolder && is_executable(above))
    return above.string();
  return error(
      "{} is the build for simulation, and no live one is beside it; name that with 'live' in the study's entry",
      application);
}

Result<std::string> find_study_engine() {
  if (const char* const named = std::getenv("BRAID_STUDY_ENGINE")) {
    if (is_executable(named)) return std::string(named);
    return error("BRAID_STUDY_ENGINE is '{}', which cannot be executed; unset it", named);
  }
  return own_program();
}

Result<std::string> own_program() {
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  if (problem) return error("/proc/self/exe: {}; mount /proc", problem.message());
  return self.string();
}

Result<std::string> find_daemon(const std::string& folder) {
  if (const char* const named = std::getenv("BRAID_BRAIDD")) {
    if (is_executable(named)) return std::string(named);
    return error("BRAID_BRAIDD is '{}', which cannot be executed; unset it, or name a braidd", named);
  }
  if (const fs::path beside = fs::path(folder) / "braidd"; is_executable(beside)) return beside.string();
  return error("there is no braidd in {}; build it (ninja braidd) or install both in one folder", folder);
}

}  // namespace braid::cli
