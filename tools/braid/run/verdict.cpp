#include "tools/braid/run/verdict.h"

#include <algorithm>
#include <csignal>

#include "base/process_end.h"
#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {

bool Verdict::fail(Cause cause, const std::string& text) {
  const bool is_first = !failed();
  if (cause > cause_ && !announced_) {
    cause_ = cause;
    reason_ = text;
  }
  return is_first;
}

bool Verdict::on_application_end(const std::string& name, int wait_status, bool asked) {
  if (asked) return false;
  const int status = shell_status(wait_status);
  raise_status(status);
  if (status == 0 || signal_ != 0) return false;
  const Cause cause = WIFSIGNALED(wait_status)      ? Cause::kKilled
                      : status == kLostDaemonStatus ? Cause::kApplicationGaveUp
                                                    : Cause::kApplicationExited;
  return fail(cause, name + " " + describe_end(wait_status));
}

bool Verdict::on_daemon_end(const std::string& name, int wait_status, bool asked, Phase phase) {
  const bool killed = WIFSIGNALED(wait_status);
  const bool ended_as_asked =
      killed ? WTERMSIG(wait_status) == SIGTERM || WTERMSIG(wait_status) == SIGKILL : wait_status == 0;
  if (asked && ended_as_asked) return false;
  if (asked && !killed && WEXITSTATUS(wait_status) == kCannotCreateStatus)
    return fail(Cause::kCaptureIncomplete,
                "the capture lacks packets: " + name + " could not write a file, see its messages above");
  lost_daemon_ = true;
  const char* const when = asked                       ? " when it was asked to end"
                           : phase == Phase::kStarting ? " before all clusters were connected"
                                                       : "";
  return fail(killed ? Cause::kKilled : Cause::kDaemonExited, name + " " + describe_end(wait_status) + when);
}

void Verdict::on_interrupt(int signal, Phase phase) {
  signal_ = signal;
  if (phase != Phase::kRunning) raise_status(128 + signal);
}

void Verdict::on_interrupt_ignored() {
  raise_status(128 + signal_);
}

int Verdict::status() const {
  if (cause_ == Cause::kCaptureIncomplete && status_ == 0) return kCannotCreateStatus;
  return failed() && (lost_daemon_ || status_ == 0) ? kLostDaemonStatus : status_;
}

void Verdict::raise_status(int status) {
  status_ = std::max(status_, status);
}

}  // namespace braid::cli
