#include "tools/braid/run/timeline.h"

namespace braid::cli {
namespace {

// Whether it is due; then it is not any more.
bool take(Instant& deadline, Instant now) {
  if (now < deadline) return false;
  deadline = Instant::never();
  return true;
}

}  // namespace

Timeline::Timeline(Instant now, Duration start_timeout)
    : begun_(now), start_timeout_(start_timeout), start_deadline_(now + start_timeout) {}

void Timeline::on_start_held_up(Instant now) {
  if (start_deadline_ != Instant::never()) start_deadline_ = now + start_timeout_;
}

void Timeline::on_applications_start(Instant now) {
  phase_ = Phase::kRunning;
  start_deadline_ = Instant::never();
  applications_begun_ = now;
}

void Timeline::on_applications_end(Instant now) {
  phase_ = Phase::kClosing;
  applications_ended_ = now;
  start_deadline_ = ask_at_ = Instant::never();
  kill_at_ = now + kDaemonsEnd;
}

void Timeline::on_failure(Instant now) {
  cut_short_ = phase_ != Phase::kClosing;
  announce_at_ = now + kSettle;
  if (phase_ == Phase::kClosing) return;  // everyone has been asked to end already
  ask_at_ = phase_ == Phase::kRunning ? now + kEndByThemselves : now;
}

void Timeline::on_interrupt(Instant now) {
  kill_at_ = earlier(kill_at_, now + kAfterSignal);
}

void Timeline::on_all_ended(Instant now) {
  if (announce_at_ != Instant::never()) announce_at_ = earlier(announce_at_, now);
  if (close_output_at_ == Instant::never() && !output_is_closed_) close_output_at_ = now + kLateOutput;
}

void Timeline::on_output_closed() {
  output_is_closed_ = true;
  close_output_at_ = Instant::never();
}

std::optional<Timeline::Action> Timeline::poll(Instant now) {
  if (take(start_deadline_, now)) return Action::kStartTimedOut;
  if (now >= close_output_at_) {
    close_output_at_ = now + kLateOutput;
    return Action::kCloseOutput;
  }
  if (take(announce_at_, now)) return Action::kAnnounce;
  if (take(ask_at_, now)) {
    kill_at_ = now + kAfterAsking;
    return Action::kAskAll;
  }
  if (take(kill_at_, now)) return Action::kKillAll;
  return std::nullopt;
}

Instant Timeline::next_deadline() const {
  return earlier(earlier(start_deadline_, close_output_at_),
                 earlier(earlier(announce_at_, ask_at_), kill_at_));
}

}  // namespace braid::cli
