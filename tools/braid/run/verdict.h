// How a run ended: with which status, and, if it failed, why. When one process dies others die of it, and the
// kernel tells us of a death a moment after its peers have heard of it; so until the reason is announced a
// better one takes its place. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "tools/braid/run/timeline.h"

namespace braid::cli {

class Verdict {
 public:
  // Of several failures at about the same time the highest is the cause.
  enum class Cause : std::uint8_t {
    kNone,
    kCaptureIncomplete,  // the run itself is complete
    kApplicationGaveUp,  // its runtime ended it because it had lost its machine: rather a consequence
    kApplicationExited,
    kDaemonExited,
    kKilled,
    kRunCannotGoOn,  // it could not start, or stands still
  };

  // Each returns whether the run fails by this, and did not before.
  [[nodiscard]] bool fail(Cause cause, const std::string& text);
  // `name`: of the process, for people. `asked`: we asked it to end.
  [[nodiscard]] bool on_application_end(const std::string& name, int wait_status, bool asked);
  [[nodiscard]] bool on_daemon_end(const std::string& name, int wait_status, bool asked, Phase phase);

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
  // The command's.
  int status() const;

 private:
  void raise_status(int status);

  Cause cause_ = Cause::kNone;
  std::string reason_;
  bool announced_ = false;
  bool lost_daemon_ = false;
  int signal_ = 0;
  int status_ = 0;  // the largest of the applications'
};

}  // namespace braid::cli
