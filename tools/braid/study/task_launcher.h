// What starts the tasks of a study (task_file.h) elsewhere: engines that exist. Each is a file of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/run/hosts.h"

namespace braid::cli {

// The folder of tasks in that of a study.
struct TaskFolder {
  std::string path;   // absolute, as tasks see it
  std::string braid;  // the command
  std::string home;   // its working folder

  std::string file(const std::string& name) const { return path + "/" + name; }
  // A line of sh that runs the task with this name. Both are as the shell reads them: "$NUMBER" is a variable.
  std::string shell_line(const std::string& task) const;
};

// A task that has ended.
struct TaskEnd {
  std::size_t task = 0;
  std::string host;     // where it ran; empty: nowhere, or that is not known
  std::string problem;  // what its launcher says of its end, "was cancelled"; empty: nothing
  std::string said{};   // lines of its launcher's output, for people
};

class TaskLauncher {
 public:
  virtual ~TaskLauncher() = default;
  virtual const char* name() const = 0;
  // How many tasks it takes. Blocks while it looks at what is there. Error: it cannot start tasks here; with the cure.
  virtual Result<std::size_t> most_tasks() = 0;
  // About how many of so many run at a time.
  virtual std::size_t at_a_time(std::size_t tasks) const = 0;
  // Starts the tasks 0, 1, ..., whose files are in the folder, which must outlive this. Blocks meanwhile. Error: none was started.
  virtual Result<void> start(const TaskFolder& folder, std::size_t tasks, ChildProcesses& children) = 0;
  // Those that have ended since the last call. `soon`: none should be left.
  virtual std::vector<TaskEnd> take_ended(ChildProcesses& children, bool soon) = 0;
  // Ends all, and returns when they have ended, or after a minute, or at another signal.
  virtual void cancel(ChildProcesses& children) = 0;
};

// The tasks of a job array. `jobs`: at most so many at a time, 0: as many as Slurm likes; `options`: of sbatch.
std::unique_ptr<TaskLauncher> slurm_tasks(unsigned jobs, std::vector<std::string> options);
// By GNU parallel. `hosts`: as many at a time on each as it has slots; none, or one of the loopback network: on this host. `jobs`: on
// each host instead, 0: as many as there are slots, or processors here. `ssh`: the command, and options of it.
std::unique_ptr<TaskLauncher> parallel_tasks(unsigned jobs, std::vector<Host> hosts,
                                             std::vector<std::string> ssh);

// Cancels the job array of an earlier command that was killed while it ran, if there is one. Blocks until it has ended. `tasks`: the
// folder. Error: that cannot be told.
Result<void> end_former_tasks(const std::string& tasks);

}  // namespace braid::cli
