// When a run's processes are asked to end, and when they are made to. Pure: events come in with the time,
// actions that are due come out.
//
//   kStarting ---on_applications_start---> kRunning ---on_applications_end---> kClosing
//       |                                                                         ^
//       +----------------------------- on_applications_end ----------------------+
//
// A failure, or the user's signal, leads to kClosing by ending the applications, asked first and then killed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace braid::cli {

enum class Phase : std::uint8_t {
  kStarting,  // daemons connect
  kRunning,   // applications run
  kClosing,   // they have ended, or never will run: daemons end
};

class Timeline {
 public:
  // The kernel tells us of a process's death a moment after its peers hear of it: a failure's reason is
  // announced after so long.
  static constexpr Duration kSettle = 200_ms;
  // After a failure the others may end by themselves and say what they saw; then they are asked to, then made
  // to.
  static constexpr Duration kEndByThemselves = 1_s;
  static constexpr Duration kAfterAsking = 1_s;
  // A user's signal gives the application this long to put its things in order.
  static constexpr Duration kAfterSignal = 3_s;
  // Daemons have little to put in order.
  static constexpr Duration kDaemonsEnd = 2_s;
  // Output of processes that left their group (and our reach) is not waited for longer than this.
  static constexpr Duration kLateOutput = 500_ms;

  enum class Action : std::uint8_t {
    kStartTimedOut,  // daemons are not connected yet
    kCloseOutput,    // every process has ended: read no more, and then call on_output_closed()
    kAnnounce,       // say why the run fails
    kAskAll,         // to end
    kKillAll,
  };

  Timeline(Instant now, Duration start_timeout);

  // What the start takes does not count up to here.
  void on_start_held_up(Instant now);
  void on_applications_start(Instant now);
  // The caller asks the daemons to end.
  void on_applications_end(Instant now);
  // Once, for the first of them.
  void on_failure(Instant now);
  // The user's first.
  void on_interrupt(Instant now);
  void on_killed() { kill_at_ = Instant::never(); }
  // No process is left. May be called again.
  void on_all_ended(Instant now);
  void on_output_closed();

  // The action that is due now; call it until there is none. kCloseOutput is returned until it has been done.
  std::optional<Action> poll(Instant now);
  Instant next_deadline() const;

  Phase phase() const { return phase_; }
  // A failure came before the applications had ended.
  bool cut_short() const { return cut_short_; }
  Instant begun() const { return begun_; }
  Instant applications_begun() const { return applications_begun_; }  // never(): they were not started
  Instant applications_ended() const { return applications_ended_; }

 private:
  const Instant begun_;
  const Duration start_timeout_;
  Phase phase_ = Phase::kStarting;
  bool cut_short_ = false;
  bool output_is_closed_ = false;
  Instant applications_begun_ = Instant::never();
  Instant applications_ended_ = Instant::never();
  // Of actions, never() where none is due.
  Instant start_deadline_;
  Instant announce_at_ = Instant::never();
  Instant ask_at_ = Instant::never();
  Instant kill_at_ = Instant::never();
  Instant close_output_at_ = Instant::never();
};

}  // namespace braid::cli
