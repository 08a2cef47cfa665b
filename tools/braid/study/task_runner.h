// Has the jobs of a study run by tasks elsewhere (task_launcher.h), and collects what they write into the study's folder, which all of
// them share. Results there are as if the jobs had run here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/progress.h"
#include "tools/braid/study/study_folder.h"
#include "tools/braid/study/task_launcher.h"

namespace braid::cli {

class TaskRunner {
 public:
  // All must outlive this. `limit_s`: of each job, 0: none.
  TaskRunner(const Study& study, Jobs& jobs, const StudyFolder& folder, TaskLauncher& launcher,
             double limit_s);

  // Until no job is left, or a signal interrupts it, which is returned (0: none did): then no task is left either. Error: the folder
  // cannot be written, or no task can be started.
  Result<int> run(ChildProcesses& children);

  // The tasks that failed as such, the first one first, on standard error.
  void tell_failures() const;

 private:
  struct Ended {
    TaskEnd end;
    Instant until;  // how long results are waited for
  };
  struct FailedTask {
    std::string what;    // "task 3 on node2 was cancelled; without a result: ..."
    std::string output;  // its last lines, or what the launcher says instead
  };

  Result<void> prepare();
  void start_jobs();
  // Reads what is in the folder.
  void collect();
  bool collect(Jobs::Id id);
  // False: a result has been told of that is not to be seen yet.
  bool settle(const Ended& ended);
  std::string log_of(std::size_t task) const;
  void lose(const TaskEnd& end, const std::string& what, const std::vector<Jobs::Id>& lost);
  void fail(Jobs::Id id, const std::string& why);
  void give_up_running();

  const Study& study_;
  Jobs& jobs_;
  const StudyFolder& folder_;
  TaskLauncher& launcher_;
  const double limit_s_;
  TaskFolder tasks_folder_;
  StudyProgress progress_;
  std::vector<std::vector<Jobs::Id>> tasks_;
  std::vector<Jobs::Id> running_;
  std::vector<Ended> ended_;  // and not settled
  std::vector<FailedTask> failed_;
};

}  // namespace braid::cli
