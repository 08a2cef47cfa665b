// What a report page shows: the folder of a study, or the report of a run, read and checked. The page's script reads
// what is here, so nothing that it needs may be missing or of another type.
//
// The same results give the same texts, wherever they lie: no clock time of a simulation and no path is kept.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace braid::cli {

struct ReportSource {
  enum class Kind { kStudy, kSimulation, kLive };

  Kind kind = Kind::kStudy;
  std::string place;  // the last part of its path
  std::string label;  // for people
  // What the overview shows: kind, command; of a study: file, text, csv, failed, missing, if it has live runs, live, and if it has points with mean value analysis, mva.
  nlohmann::ordered_json about;
  // Each point of a study by its name, or the run as "run": its report, with title and repeat, the command.
  std::vector<std::pair<std::string, nlohmann::ordered_json>> points;
  // By point: the messages of a trace.
  std::vector<std::pair<std::string, nlohmann::ordered_json>> traces;
};

// Error: it is neither, or cannot be read, or another version of this command wrote it.
Result<ReportSource> load_source(const std::string& path);

// A part of a run, in cycles since it began.
struct TraceWindow {
  std::int64_t from = 0;
  std::int64_t until = std::numeric_limits<std::int64_t>::max();
};
// "FROM:UNTIL", either of which may be empty.
Result<TraceWindow> parse_window(const std::string& text);

// Adds a trace of `braid sim --trace`. `file` is a path, for a study "POINT=PATH".
Result<void> add_trace(ReportSource& source, const std::string& file, const TraceWindow& window);

// Messages of a trace that a page can hold; the rest is counted.
inline constexpr std::size_t kMaxTracedMessages = 20'000;

// Sources that would have the same label get longer ones.
void tell_apart(std::vector<ReportSource>& sources);

}  // namespace braid::cli
