#include "tools/braid/study/live_runner.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "tools/braid/process/process.h"
#include "tools/braid/study/study_runner.h"

namespace braid::cli {
namespace {

constexpr char kRuns[] = "live.csv", kMedians[] = "live_medians.csv", kSummary[] = "live.json";

}  // namespace

LiveHost this_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  return {name.data(), usable_cores()};
}

LiveRunner::LiveRunner(const Study& study, const LivePlan& plan, const std::string& engine,
                       const StudyFolder& folder, double limit_s)
    : JobRunner(plan.runs, jobs_, folder, engine, kLiveRun, limit_s),
      study_(study),
      plan_(plan),
      folder_(folder),
      jobs_(plan.runs, plan.origins, 1, [&](const std::string& name, const nlohmann::json& origin) {
        return load_result(folder.file_of(name, ".json"), origin);
      }) {
  const FormerRuns former(folder.file("points"));
  jobs_.expect(
      [&](const StudyPoint& point) { return former.seconds(point.command(), live_settings_of(point)); });
}

// Programs compare their result with a sequential run, and say so (docs/CONTRIBUTING.md).
std::string LiveRunner::examine(nlohmann::ordered_json& report, const std::string& log) const {
  bool right = false, wrong = false;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    right = right || line.find("verified") != std::string::npos;
    wrong = wrong || line.find("WRONG") != std::string::npos;
  }
  if (wrong) return "computed a wrong result";
  report["verified"] = right ? nlohmann::ordered_json(true) : nlohmann::ordered_json();
  return "";
}

Result<void> LiveRunner::write_results(
    const std::function<const PointResult*(std::size_t)>& simulated) const {
  const LiveResults results{study_, plan_, jobs_, simulated};
  const std::pair<const char*, std::string> files[] = {{kRuns, live_csv(results)},
                                                       {kMedians, live_medians_csv(results)},
                                                       {kSummary, live_json(results).dump(1) + "\n"}};
  for (const auto& [name, text] : files)
    if (const Result<void> written = write_file(folder_.file(name), text); !written) return written;
  return {};
}

int LiveRunner::conclude(int interrupted) const {
  tell_failures(interrupted);
  std::fputs(describe_refusals(study_, plan_).c_str(), stderr);
  if (interrupted != 0) return 128 + interrupted;
  std::fprintf(stderr, "braid study: %zu live runs in %s\n", jobs_.count(Job::State::kDone),
               folder_.file(kRuns).c_str());
  bool refused = false;
  for (const LivePoint& point : plan_.points) refused = refused || !point.refused.empty();
  return refused || jobs_.count(Job::State::kFailed) > 0 ? kFailedPointsStatus : 0;
}

void remove_live_results(const StudyFolder& folder) {
  std::error_code ignored;
  for (const char* const name : {kRuns, kMedians, kSummary})
    std::filesystem::remove(folder.file(name), ignored);
}

}  // namespace braid::cli
