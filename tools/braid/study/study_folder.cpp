#include "tools/braid/study/study_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/system_error.h"

namespace braid::cli {

using OrderedJson = nlohmann::ordered_json;

namespace {

std::string key_of(const OrderedJson& command, const nlohmann::json& settings) {
  return command.dump() + settings.dump();
}

}  // namespace

Result<void> check_results_folder(const std::string& name) {
  if (name == "-")
    return error(
        "-: results are a folder of files, and standard output takes one; name a folder, e.g. 'results' (one of this "
        "name: './-')");
  std::error_code problem;
  const auto status = std::filesystem::status(name, problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status))
    return error("{}: is a file, and results are a folder; name another", name);
  return {};
}

Result<StudyFolder> StudyFolder::open(const std::string& name) {
  if (const Result<void> good = check_results_folder(name); !good) return good.error();
  std::error_code problem;
  std::filesystem::create_directories(name + "/points", problem);
  if (problem) return error("{}: cannot be made: {}", name + "/points", cause_and_cure(problem.value()));
  const std::string path = name + "/lock";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) return error("{}: cannot be written: {}", path, cause_and_cure(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return error("{}: another study is writing there; wait for its end, or name another folder", name);
  return StudyFolder(name, std::move(lock));
}

std::string StudyFolder::file_of(const std::string& point, const char* ending) const {
  return fmt::format("{}/points/{}{}", name_, point, ending);
}

std::string last_lines(const std::string& path, const char* before) {
  constexpr std::size_t kMaxLines = 5;
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    last.push_back(line);
    if (last.size() > kMaxLines) last.pop_front();
  }
  std::string text;
  for (const std::string& line : last) text += before + line + "\n";
  return text;
}

FormerRuns::FormerRuns(const std::string& points) {
  std::error_code problem;
  for (std::filesystem::directory_iterator it(points, problem), end; !problem && it != end;
       it.increment(problem)) {
    if (it->path().extension() != ".json" || !it->is_regular_file(problem)) continue;
    std::ifstream file(it->path());
    const OrderedJson json = OrderedJson::parse(file, nullptr, false);
    if (!json.is_object() || !json.contains("origin") || !json.contains("seconds") ||
        !json["seconds"].is_number())
      continue;
    const OrderedJson::json_pointer command("/report/command"), settings("/origin/settings");
    if (json.contains(command) && json.contains(settings))
      seconds_[key_of(json[command], nlohmann::json(json[settings]))] = json["seconds"].get<double>();
  }
}

std::optional<double> FormerRuns::seconds(const std::vector<std::string>& command,
                                          const nlohmann::json& settings) const {
  const auto found = seconds_.find(key_of(OrderedJson(command), settings));
  return found == seconds_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace braid::cli
