#include "tools/braid/study/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace braid::cli {
namespace {

std::string describe_time(double seconds) {
  const long s = std::lround(std::max(0.0, seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

// One that can begin its last line anew.
bool is_terminal() {
  if (::isatty(STDERR_FILENO) != 1) return false;
  const char* const kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

// A line that reaches the last column may go on in the next row, which would stay there. 0: not known.
std::size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::string describe_progress(const Jobs& jobs, Instant now) {
  const std::size_t failed = jobs.count(Job::State::kFailed), over = jobs.count(Job::State::kDone) + failed;
  std::string text = fmt::format("{} of {}", over, jobs.size());
  if (failed > 0) text += fmt::format(", {} failed", failed);
  const std::optional<double> left = jobs.seconds_left(now);
  if (left && over < jobs.size()) text += fmt::format(", about {} left", describe_time(*left));
  return text;
}

std::string describe_beginning(const Study& study, const Jobs& jobs, const char* noun, Instant now) {
  const std::size_t found = jobs.count(Job::State::kDone);
  std::string text = fmt::format("{} {}{}", study.points.size(), noun, study.points.size() == 1 ? "" : "s");
  if (jobs.size() < study.points.size()) text += fmt::format(", {} of them different", jobs.size());
  if (found > 0) text += fmt::format("; {} {} finished already", found, found == 1 ? "is" : "are");
  if (found == jobs.size()) return text;
  text += fmt::format("; {} left, {} at a time", jobs.size() - found, jobs.slots());
  const std::optional<double> left = jobs.seconds_left(now);
  return text + (left ? fmt::format(", about {}", describe_time(*left)) : "");
}

StudyProgress::StudyProgress(const Study& study, const Jobs& jobs, const char* noun)
    : study_(study), jobs_(jobs), noun_(noun), is_terminal_(is_terminal()) {}

void StudyProgress::tell_beginning(Instant now) const {
  std::fprintf(stderr, "braid study: %s\n", describe_beginning(study_, jobs_, noun_, now).c_str());
}

void StudyProgress::tell_end_of(const Job& job, Instant now) const {
  if (is_terminal_) return;
  const std::string end =
      job.state == Job::State::kFailed ? job.failure : fmt::format("{:.1f} s", job.result->seconds);
  std::fprintf(stderr, "braid study: %s: %s (%s)\n", describe(*job.point, study_.varied).c_str(), end.c_str(),
               describe_progress(jobs_, now).c_str());
}

void StudyProgress::show(Instant now) {
  if (!is_terminal_) return;
  std::string line = fmt::format("braid study:{} {}", suffix(), describe_progress(jobs_, now));
  if (const std::size_t columns = columns_of_terminal(); columns > 0)
    line.resize(std::min(line.size(), columns - 1));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  line_is_open_ = true;
}

void StudyProgress::clear_line() {
  if (line_is_open_) std::fputs("\r\033[K", stderr);
  line_is_open_ = false;
}

std::string StudyProgress::suffix() const {
  return std::string_view(noun_) == "point" ? "" : fmt::format(" {}s", noun_);
}

void StudyProgress::end_line() {
  if (line_is_open_) std::fputc('\n', stderr);
  line_is_open_ = false;
}

}  // namespace braid::cli
