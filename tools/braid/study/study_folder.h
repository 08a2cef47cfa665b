// The folder of a study's results.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

// Can a command put a folder of results there? Asked before any work.
Result<void> check_results_folder(const std::string& name);

// Locked while this object lives.
class StudyFolder {
 public:
  // Makes it if it is missing. Error: it cannot be written, or another study is writing there.
  static Result<StudyFolder> open(const std::string& name);

  // The folder that a command has opened and locked, for the tasks that it has had started.
  static StudyFolder of_task(const std::string& name) { return {name, Descriptor()}; }

  std::string file(const char* name) const { return name_ + "/" + name; }
  // The file of a point: "….yaml".
  std::string file_of(const std::string& point, const char* ending) const;

 private:
  StudyFolder(std::string name, Descriptor lock) : name_(std::move(name)), lock_(std::move(lock)) {}

  std::string name_;
  Descriptor lock_;
};

// The last lines of a file, each after `before`; nothing where there is none.
std::string last_lines(const std::string& path, const char* before);

// How long runs took in former studies of a folder, whatever has changed since: programs, engine or model.
class FormerRuns {
 public:
  // `points`: the folder of the points' files. Empty: nothing is known.
  explicit FormerRuns(const std::string& points);

  std::optional<double> seconds(const std::vector<std::string>& command,
                                const nlohmann::json& settings) const;

 private:
  std::map<std::string, double> seconds_;
};

}  // namespace braid::cli
