// Runs the jobs of a study: a process for each, several at a time. Finished ones are stored at once, however the study ends.
// What a job's process is, its children say.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/study/jobs.h"
#include "tools/braid/study/progress.h"
#include "tools/braid/study/study_folder.h"

namespace braid::cli {

class JobRunner {
 public:
  // All of them must outlive this. `runs`: whose points the jobs are; `limit_s`: of each job, 0: none.
  JobRunner(const Study& runs, Jobs& jobs, const StudyFolder& folder, std::string engine, const char* noun,
            double limit_s);
  virtual ~JobRunner() = default;
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Until no job is left, or a signal interrupts it, which is returned (0: none did). Error: the folder cannot be written, a process
  // does not start, or another process runs the same job.
  Result<int> run(ChildProcesses& children);

  // The failed jobs, each with the end of its output and the command that repeats it, on standard error; "4 of 9 failed" or
  // interrupted by the signal.
  void tell_failures(int interrupted) const;
  // The command that repeats a job, for a shell.
  std::string repeat(const Job& job) const;

 private:
  // Its subcommand of the engine.
  virtual const char* subcommand() const = 0;
  // The settings of its point as a configuration file.
  virtual std::string settings_of(Jobs::Id id) const = 0;
  // The processor that it may use alone; -1: all of the process's.
  virtual int processor_of(const Job& job) const = 0;
  // Completes a report; returns why the run has failed all the same, or nothing.
  virtual std::string examine(nlohmann::ordered_json& report, const std::string& log) const = 0;

  Result<void> start_some(ChildProcesses& children);
  Result<ChildId> start(Jobs::Id id, ChildProcesses& children);
  std::vector<std::string> command_of(const Job& job, bool to_repeat) const;
  Result<void> take_ended(ChildProcesses& children);
  Result<void> finish(Jobs::Id id, const EndedChild& ended);
  void give_up_running();

  const Study& runs_;
  Jobs& jobs_;
  const StudyFolder& folder_;
  const std::string engine_;
  const double limit_s_;
  StudyProgress progress_;
  std::map<ChildId, Jobs::Id> running_;
};

}  // namespace braid::cli
