// The runs that a study needs, each in one state at a time. Pure: it says which run may start, and is told
// what became of it.
//
//   kMissing ---start_next---> kRunning ---finish---> kDone
//       ^                        |  |
//       +-------give_up---------+  +------fail-----> kFailed
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "tools/braid/study/study.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {

// A run of the engine.
struct Job {
  enum class State : std::uint8_t { kMissing, kRunning, kDone, kFailed };

  const StudyPoint* point = nullptr;       // the first that this is the run of
  const nlohmann::json* origin = nullptr;  // what its result follows from
  std::string name;                        // of its files
  std::optional<std::size_t> waits_for;    // the job whose messages' length it needs
  State state = State::kMissing;
  std::optional<PointResult> result;  // in kDone
  std::string failure;                // in kFailed
  std::size_t slot = 0;               // in kRunning: no two have the same
  Instant begun;                      // in kRunning and after

  bool is_over() const { return state == State::kDone || state == State::kFailed; }
};

class Jobs {
 public:
  using Id = std::size_t;
  // What is kept of a run of an earlier study.
  using Kept =
      std::function<std::optional<PointResult>(const std::string& name, const nlohmann::json& origin)>;

  // `origins` are those of the study's points; both must live as long. Points with the same origin share a
  // job. At most `slots` run at a time.
  Jobs(const Study& study, const std::vector<nlohmann::json>& origins, std::size_t slots, const Kept& kept);

  // A job that may start now, in a slot of its own, in the order of the points; nothing: all slots are taken,
  // or no job is left, or all that are left wait for others.
  std::optional<Id> start_next(Instant now);
  void finish(Id id, PointResult result);
  void fail(Id id, const std::string& why);
  // It was ended before its time.
  void give_up(Id id);

  const Job& operator[](Id id) const { return jobs_[id]; }
  const Job& of_point(std::size_t point) const { return jobs_[of_point_[point]]; }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }
  std::size_t size() const { return jobs_.size(); }
  std::size_t slots() const { return taken_.size(); }
  std::size_t count(Job::State state) const;

  // The mean length of the messages of the job that this one waits for; 0: it is not known.
  std::uint32_t message_bytes(Id id) const;
  // Real time until all are over, from what runs of the same program took, or else of any; nothing: none is
  // over.
  std::optional<double> seconds_left(Instant now) const;

 private:
  void end(Id id, Job::State state);

  std::vector<Job> jobs_;
  std::vector<Id> of_point_;
  std::vector<bool> taken_;  // by slot
};

}  // namespace braid::cli
