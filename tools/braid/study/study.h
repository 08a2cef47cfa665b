// A study: many simulated runs that differ in some settings. This reads the file that
// describes one and makes the list of its runs; study_command.h carries them out.
//
//   applications:
//     - {application: water, arguments: [--molecules, 343]}
//     - {application: tsp, vary: [{arguments.seed: [1, 2, 3]}]}
//   base:                            # settings of all points, as in a configuration file
//     simulation: {model: alewife-1997}
//   vary:                            # axes; every combination of one value from each is a point
//     - clusters: [8, 4]             # keys of one axis vary together: 8 x 2 and 4 x 4
//       compute: [2, 4]
//     - proxies: [1, 2, 4]
//   where:                           # only points for which all of this holds (condition.h)
//     - proxies <= compute
//   limit_s: 600                     # the longest time of a point; 0: no limit
//   engine: live                     # points are also run on this host (live_points.h); sim: they are not
//   repetitions: 5                   # of each live run
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "settings/reader.h"
#include "settings/run.h"

namespace braid::cli {

struct StudyPoint {
  std::string application;  // as in the file
  std::string live;         // the build for live runs; empty: find_live_build()
  std::vector<std::string> arguments;
  // The varied ones: option without its dashes, value. They follow `arguments`.
  std::map<std::string, std::string> varied_arguments;
  // Relations between them are checked with the model: StudyPrograms::check().
  braid::settings::Collector<braid::settings::RunConfig> settings;

  // Of a live run: the build is not the application's file, but `live`. 0: it is no live run.
  unsigned repetition = 0;

  // The application and all of its arguments.
  std::vector<std::string> command() const;
  // The value of a setting, an argument ("arguments.seed") or the application ("application"); or null.
  nlohmann::json value_of(const std::string& key) const;
};

struct Study {
  std::string file;                 // its name, without folders
  std::string text;                 // what is in it
  std::vector<std::string> varied;  // keys of all axes, in the order of the file
  std::vector<StudyPoint> points;   // in the order of the file, the last axis the fastest
  std::optional<double> limit_s;    // of each point's real time
  bool live = false;                // points are also run on this host,
  unsigned repetitions = 3;         // so many times
};

// A limit against mistakes.
inline constexpr std::size_t kMaxStudyPoints = 100'000;

// Of a live run.
inline constexpr unsigned kMaxRepetitions = 1000;

// For a point's time: some three years.
inline constexpr double kMaxLimitS = 100'000'000;

Result<Study> load_study(const std::string& path);
Result<Study> parse_study(const std::string& yaml, const std::string& name);

// "water, clusters 4, compute 4, proxies 2"; of a live run: ", live, repetition 2" after it.
std::string describe(const StudyPoint& point, const std::vector<std::string>& varied);

}  // namespace braid::cli
