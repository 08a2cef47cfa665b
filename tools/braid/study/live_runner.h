// Carries out the live runs of a study on this host: a process of `braid run` for each, one at a time, with all processors.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/braid/study/job_runner.h"
#include "tools/braid/study/live_points.h"

namespace braid::cli {

// Its name and the processors that this process can use.
LiveHost this_host();

class LiveRunner : public JobRunner {
 public:
  // All must outlive this. `engine` is the file that runs them; `limit_s`: of each run, 0: none.
  LiveRunner(const Study& study, const LivePlan& plan, const std::string& engine, const StudyFolder& folder,
             double limit_s);

  // Writes live.csv, live_medians.csv and live.json of what has finished. `simulated`: LiveResults::simulated.
  Result<void> write_results(const std::function<const PointResult*(std::size_t)>& simulated) const;
  // Tells on standard error how it ended; returns the command's status. `interrupted`: of run().
  int conclude(int interrupted) const;

 private:
  const char* subcommand() const override { return "run"; }
  std::string settings_of(Jobs::Id id) const override { return live_settings_yaml(*jobs_[id].point); }
  int processor_of(const Job&) const override { return -1; }
  std::string examine(nlohmann::ordered_json& report, const std::string& log) const override;

  const Study& study_;
  const LivePlan& plan_;
  const StudyFolder& folder_;
  Jobs jobs_;
};

// What an earlier study with live runs wrote into the folder about all of them.
void remove_live_results(const StudyFolder& folder);

}  // namespace braid::cli
