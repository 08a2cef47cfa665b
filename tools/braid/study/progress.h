// The progress output of `braid study` on standard error: a line for
// each finished point, or, on a terminal (but TERM=dumb), one line that is rewritten, as much of it as has room.
#pragma once

#include <string>

#include "base/time.h"
#include "tools/braid/study/jobs.h"

namespace braid::cli {

// "3 of 8, 1 failed, about 2 min 5 s left"
std::string describe_progress(const Jobs& jobs, Instant now);

// "40 points; 12 are finished already; 28 left, 2 at a time, about 3 min 20 s". `noun`: "point".
std::string describe_beginning(const Study& study, const Jobs& jobs, const char* noun, Instant now);

class StudyProgress {
 public:
  // How often a terminal's line is rewritten.
  static constexpr Duration kRefresh = 1_s;

  // Both must outlive this. `noun`: of one job, "point".
  StudyProgress(const Study& study, const Jobs& jobs, const char* noun);

  // When show() should be called next.
  Instant next_deadline(Instant now) const { return is_terminal_ ? now + kRefresh : Instant::never(); }
  void tell_beginning(Instant now) const;
  void tell_end_of(const Job& job, Instant now) const;
  // Writes the line anew, on a terminal.
  void show(Instant now);
  // Before anything else is written, where show() follows.
  void clear_line();
  // The line stays, and what is written next stands below it.
  void end_line();
  // What stands beside "3 of 4": " live runs"; nothing for points.
  std::string suffix() const;

 private:
  const Study& study_;
  const Jobs& jobs_;
  const char* const noun_;
  const bool is_terminal_;
  bool line_is_open_ = false;
};

}  // namespace braid::cli
