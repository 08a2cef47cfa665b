#include "tools/braid/run/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "base/process_end.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

namespace {

using dsm::EndCause;

// The process's own record of its end, to be appended to the kernel's report.
std::string details_of(const RecordedEnd& end) {
  std::string text;
  if (end.is_unfinished && end.cause != EndCause::kSignal && end.cause != EndCause::kFailure &&
      end.cause != EndCause::kLostCluster)
    text += " before finish()";
  if (end.node) text += fmt::format(" in compute node {}", *end.node);
  if (end.address) text += fmt::format(" at address {:#x}", *end.address);
  if (!end.text.empty()) text += ": " + end.text;
  return text;
}

bool is_consequence(Verdict::Cause cause) {
  return cause <= Verdict::Cause::kApplicationGaveUp;
}

}  // namespace

bool Verdict::fail(Cause cause, const std::string& text) {
  return fail(cause, text, kLostDaemonStatus, Instant::never());
}

bool Verdict::fail(Cause cause, const std::string& text, int status, Instant time) {
  const bool is_first = !failed();
  const bool are_dated = time != Instant::never() && cause_time_ != Instant::never() &&
                         is_consequence(cause) == is_consequence(cause_);
  if (!announced_ && (are_dated ? time < cause_time_ : cause > cause_)) {
    cause_ = cause;
    cause_time_ = time;
    cause_status_ = status;
    reason_ = text;
  }
  return is_first;
}

bool Verdict::on_application_end(const std::string& name, int wait_status, bool asked,
                                 const RecordedEnd& end) {
  if (asked) return false;
  const int status = shell_status(wait_status);
  raise_status(status);
  if ((status == 0 && !end.is_unfinished) || signal_ != 0) return false;
  const bool gave_up =
      end.cause == EndCause::kLostCluster || (end.cause == EndCause::kNone && status == kLostDaemonStatus);
  const Cause cause = WIFSIGNALED(wait_status) ? Cause::kKilled
                      : gave_up                ? Cause::kApplicationGaveUp
                                               : Cause::kApplicationExited;
  return fail(cause, name + " " + describe_end(wait_status) + details_of(end),
              status == 0 ? kLostDaemonStatus : status,
              end.cause == EndCause::kNone ? Instant::never() : end.time);
}

bool Verdict::on_daemon_end(const std::string& name, int wait_status, bool asked, Phase phase,
                            const std::string& details) {
  const bool killed = WIFSIGNALED(wait_status);
  const bool ended_as_asked =
      killed ? WTERMSIG(wait_status) == SIGTERM || WTERMSIG(wait_status) == SIGKILL : wait_status == 0;
  if (asked && ended_as_asked) return false;
  if (asked && !killed && WEXITSTATUS(wait_status) == kCannotCreateStatus)
    return fail(
        Cause::kFileIncomplete,
        "a capture or the key log is incomplete: " + name + " could not write a file, see its messages above",
        kCannotCreateStatus, Instant::never());
  const char* const when = asked                       ? " when it was asked to end"
                           : phase == Phase::kStarting ? " before all clusters were connected"
                                                       : "";
  return fail(killed ? Cause::kKilled : Cause::kDaemonExited,
              name + " " + describe_end(wait_status) + when + (details.empty() ? "" : ": " + details));
}

void Verdict::on_interrupt(int signal, Phase phase) {
  signal_ = signal;
  if (phase != Phase::kRunning) raise_status(128 + signal);
}

void Verdict::on_interrupt_ignored() {
  raise_status(128 + signal_);
}

int Verdict::status() const {
  if (cause_ == Cause::kFileIncomplete && status_ != 0) return status_;  // the run itself was complete
  return failed() ? cause_status_ : status_;
}

void Verdict::raise_status(int status) {
  status_ = std::max(status_, status);
}

}  // namespace braid::cli
