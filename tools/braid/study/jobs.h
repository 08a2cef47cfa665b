// The runs that a study needs, each in one state at a time. Pure:
// it decides which run may start, and is told each run's result.
//
//   kMissing ---start_next---> kRunning ---finish---> kDone
//       ^                        |  |
//       +-------give_up---------+  +------fail-----> kFailed
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "tools/braid/study/study.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {

// A run of the engine.
struct Job {
  enum class State : std::uint8_t { kMissing, kRunning, kDone, kFailed };

  const StudyPoint* point = nullptr;       // the first point of this run
  const nlohmann::json* origin = nullptr;  // everything that determines its result
  std::string name;                        // of its files
  std::optional<std::size_t> waits_for;    // the job that provides its messages' length
  State state = State::kMissing;
  std::optional<PointResult> result;  // in kDone
  std::string failure;                // in kFailed
  std::size_t slot = 0;               // in kRunning: unique
  Instant begun;                      // in kRunning and after
  std::optional<double> expected;     // seconds that a former run of the same point took

  bool is_over() const { return state == State::kDone || state == State::kFailed; }
};

class Jobs {
 public:
  using Id = std::size_t;
  // The stored result of a run of an earlier study.
  using Kept =
      std::function<std::optional<PointResult>(const std::string& name, const nlohmann::json& origin)>;

  // `origins` are those of the study's points; both must outlive this. Points
  // with the same origin share a job. At most `slots` jobs run at a time.
  Jobs(const Study& study, const std::vector<nlohmann::json>& origins, std::size_t slots, const Kept& kept);

  // The next job that may start, in a slot of its own, in the order of the points.
  // nullopt: all slots are taken, or no job is left, or all that are left wait for others.
  std::optional<Id> start_next(Instant now);
  void finish(Id id, PointResult result);
  void fail(Id id, const std::string& why);
  // The job was ended early.
  void give_up(Id id);

  const Job& operator[](Id id) const { return jobs_[id]; }
  const Job& of_point(std::size_t point) const { return jobs_[of_point_[point]]; }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }
  std::size_t size() const { return jobs_.size(); }
  std::size_t slots() const { return slots_; }
  std::size_t count(Job::State state) const;

  // Other processes run the jobs (task_runner.h): all that need not wait start at once. `at_a_time`: about how many really run.
  void let_others_run(std::size_t at_a_time);
  // What `of(point)` knows of former runs improves the estimate.
  void expect(const std::function<std::optional<double>(const StudyPoint&)>& of) {
    for (Job& job : jobs_) job.expected = of(*job.point);
  }
  // The mean length of the messages of the job that this one waits for; 0: unknown.
  std::uint32_t message_bytes(Id id) const;
  // The estimated real time until all have finished: from a former run of the same point, or else from runs of
  // the same program, or else of any; nullopt: nothing is known of some.
  std::optional<double> seconds_left(Instant now) const;

 private:
  void end(Id id, Job::State state);

  std::vector<Job> jobs_;
  std::vector<Id> of_point_;
  std::vector<bool> taken_;  // by slot
  std::size_t slots_ = 0;
  bool run_by_others_ = false;
};

}  // namespace braid::cli
