// How a run ended: with which status, and, if it failed, why. When one process dies others die of it, and the
// kernel tells us of a death a moment after its peers have heard of it; so until the reason is announced a
// better one takes its place: an earlier one where both are dated, else a higher one (Cause). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "dsm/program/end_record.h"
#include "tools/braid/run/timeline.h"

namespace braid::cli {

// An application's record of its own end (dsm/program/end_record.h).
struct RecordedEnd {
  dsm::EndCause cause = dsm::EndCause::kNone;
  // It was one of several clusters, and ends before finish(): the others lose it.
  bool is_unfinished = false;
  Instant time;                            // where there is a cause
  std::optional<int> node{};               // the compute node that caused it
  std::optional<std::uint64_t> address{};  // EndCause::kSignal
  std::string text{};                      // what the process did not print itself
};

class Verdict {
 public:
  // Of several failures at about the same time the highest is the cause.
  enum class Cause : std::uint8_t {
    kNone,
    kFileIncomplete,     // the run itself is complete
    kApplicationGaveUp,  // its runtime ended it because it had lost another cluster: a consequence
    kApplicationExited,
    kDaemonExited,
    kKilled,
    kRunCannotContinue,  // it could not start, or makes no progress
  };

  // Each returns whether the run fails by this, and did not before.
  [[nodiscard]] bool fail(Cause cause, const std::string& text);
  // `name`: of the process, for people. `asked`: we asked it to end.
  [[nodiscard]] bool on_application_end(const std::string& name, int wait_status, bool asked,
                                        const RecordedEnd& end = {});
  // `details`: what there is to say beside the status.
  [[nodiscard]] bool on_daemon_end(const std::string& name, int wait_status, bool asked, Phase phase,
                                   const std::string& details = "");

  // The user's signal asked the run to end; it decides the status where no application can.
  void on_interrupt(int signal, Phase phase);
  // Applications outlived the user's signal and are killed.
  void on_interrupt_ignored();

  // From now on the reason stays as it is.
  void announce() { announced_ = true; }

  bool failed() const { return cause_ != Cause::kNone; }
  bool announced() const { return announced_; }
  const std::string& reason() const { return reason_; }  // empty: it did not fail
  int interrupted() const { return signal_; }            // 0: it was not
  // The command's: of a run that failed that of the cause.
  int status() const;

 private:
  // Never: not dated.
  bool fail(Cause cause, const std::string& text, int status, Instant time);
  void raise_status(int status);

  Cause cause_ = Cause::kNone;
  Instant cause_time_ = Instant::never();
  int cause_status_ = 0;
  std::string reason_;
  bool announced_ = false;
  int signal_ = 0;
  int status_ = 0;  // the largest of the applications'
};

}  // namespace braid::cli
