#include "tools/braid/study/jobs.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace braid::cli {

using Json = nlohmann::json;

Jobs::Jobs(const Study& study, const std::vector<Json>& origins, std::size_t slots, const Kept& kept) {
  std::map<std::string, Id> by_name;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const auto [known, is_new] = by_name.emplace(name_of(origins[i]), jobs_.size());
    of_point_.push_back(known->second);
    if (!is_new) continue;
    Job& job = jobs_.emplace_back();
    job.point = &study.points[i];
    job.origin = &origins[i];
    job.name = known->first;
    job.result = kept(job.name, origins[i]);
    if (job.result) job.state = Job::State::kDone;
  }
  for (Job& job : jobs_) {
    const std::optional<Json> twin = real_twin(*job.origin);
    const auto found = twin ? by_name.find(name_of(*twin)) : by_name.end();
    if (found != by_name.end()) job.waits_for = found->second;
  }
  const std::size_t missing = count(Job::State::kMissing);
  slots_ = std::clamp<std::size_t>(slots, 1, std::max<std::size_t>(1, missing));
  taken_.resize(slots_, false);
}

void Jobs::let_others_run(std::size_t at_a_time) {
  CHECK(count(Job::State::kRunning) == 0);
  slots_ = std::max<std::size_t>(1, at_a_time);
  taken_.assign(std::max<std::size_t>(1, jobs_.size()), false);
  run_by_others_ = true;
}

std::optional<Jobs::Id> Jobs::start_next(Instant now) {
  const auto slot = std::find(taken_.begin(), taken_.end(), false);
  if (slot == taken_.end()) return std::nullopt;
  const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) {
    return j.state == Job::State::kMissing && (!j.waits_for || jobs_[*j.waits_for].is_over());
  });
  if (job == jobs_.end()) return std::nullopt;
  *slot = true;
  job->slot = static_cast<std::size_t>(slot - taken_.begin());
  job->begun = now;
  job->state = Job::State::kRunning;
  return static_cast<Id>(job - jobs_.begin());
}

void Jobs::end(Id id, Job::State state) {
  Job& job = jobs_[id];
  CHECK(job.state == Job::State::kRunning);
  taken_[job.slot] = false;
  job.state = state;
}

void Jobs::finish(Id id, PointResult result) {
  end(id, Job::State::kDone);
  jobs_[id].result = std::move(result);
}

void Jobs::fail(Id id, const std::string& why) {
  end(id, Job::State::kFailed);
  jobs_[id].failure = why;
}

void Jobs::give_up(Id id) {
  end(id, Job::State::kMissing);
}

std::size_t Jobs::count(Job::State state) const {
  return static_cast<std::size_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.state == state; }));
}

std::uint32_t Jobs::message_bytes(Id id) const {
  const std::optional<Id> twin = jobs_[id].waits_for;
  if (!twin || !jobs_[*twin].result) return 0;
  const nlohmann::ordered_json& report = jobs_[*twin].result->report;
  const nlohmann::ordered_json::json_pointer mean("/messages/mean_bytes");
  if (!report.contains(mean) || !report[mean].is_number()) return 0;
  return static_cast<std::uint32_t>(report[mean].get<double>());
}

std::optional<double> Jobs::seconds_left(Instant now) const {
  std::map<std::string, std::pair<double, int>> took;  // by program; "": any
  for (const Job& job : jobs_) {
    const std::optional<double> seconds = job.result ? job.result->seconds : job.expected;
    if (!seconds) continue;
    for (const std::string& key : {job.point->application, std::string()}) {
      took[key].first += *seconds;
      ++took[key].second;
    }
  }
  if (took.empty()) return std::nullopt;
  double work = 0, longest = 0;
  for (const Job& job : jobs_) {
    if (job.is_over()) continue;
    const auto own = took.find(job.point->application);
    const auto& [sum, number] = own == took.end() ? took[""] : own->second;
    const double all = job.expected.value_or(sum / number);
    const bool is_begun = job.state == Job::State::kRunning && !run_by_others_;
    const double rest = is_begun ? std::max(0.0, all - (now - job.begun).s()) : all;
    work += rest;
    longest = std::max(longest, rest);
  }
  return std::max(longest, work / static_cast<double>(slots()));
}

}  // namespace braid::cli
