#include "stack/loss_recovery.h"

namespace braid::stack {

LossRecovery::Expired LossRecovery::on_timer(Instant now) {
  Expired expired;
  if (window_.loss_due() <= now && window_.on_loss_timer(now, rtt_.srtt())) {  // SW-4
    expired.loss = true;
    congestion_.on_loss(now);
  }
  const std::optional<Instant> oldest = window_.oldest_sent();
  if (!oldest) return expired;
  if (timeout_due(*oldest) <= now) {  // SW-5
    window_.on_timeout();
    rtt_.on_timeout();
    congestion_.on_timeout(now);
    expired.timeout = true;
  } else if (tail_probe_due() <= now) {  // SW-10
    tail_.expired = tail_.wanted = true;
    expired.tail_probe = true;
  }
  return expired;
}

void LossRecovery::learn(Instant echo_sent) {
  window_.on_echo(echo_sent);
  if (window_.verdicts().needed == needed_) return;
  needed_ = window_.verdicts().needed;
  rtt_.on_needed_retransmission();
}

bool LossRecovery::on_probe_answered() {
  tail_.left = Instant::never();
  return window_.on_probe_answered(tail_.transmissions) == 0;
}

Instant LossRecovery::timeout_due(Instant oldest) const {
  return std::max(oldest, tail_.timer_from) + rtt_.rto();
}

Instant LossRecovery::tail_probe_due() const {
  if (mutant(Mutant::kDropTailProbe)) return Instant::never();
  if (tail_.expired || window_.idle() || window_.lost_any() || rtt_.srtt() == Duration())
    return Instant::never();
  const Instant unanswered = data_sent_ + rtt_.probe_wait() + (tail_asked_ ? Duration() : ack_delay_);
  // While others are acknowledged one after the other its turn may not have come.
  return std::max(unanswered, progress_ + ack_delay_ * 5 / 4);
}

Instant LossRecovery::next_deadline() const {
  const std::optional<Instant> oldest = window_.oldest_sent();
  if (!oldest) return Instant::never();
  return earlier(timeout_due(*oldest), earlier(tail_probe_due(), window_.loss_due()));
}

}  // namespace braid::stack
