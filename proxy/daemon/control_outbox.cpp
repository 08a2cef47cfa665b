#include "proxy/daemon/control_outbox.h"

#include <vector>

namespace braid::proxy {

ControlOutbox::ControlOutbox() : slots_(kMaxInFlight) {
  clear();
}

Outgoing* ControlOutbox::poll() {
  if (queue_.empty() || free_.empty()) return nullptr;
  const SendControl next = queue_.front();
  queue_.pop_front();
  Slot& out = *free_.back();
  free_.pop_back();
  convergence::write_control(out.room, next.message);
  out.record = {};
  out.record.kind = stack::RecordKind::kDatagram;
  out.record.protocol = stack::kControl;
  out.record.message_bytes = convergence::kControlBytes;
  out.data = out.room.data();
  out.bytes = convergence::kControlBytes;
  out.to = next.to;
  return &out;
}

void ControlOutbox::drop(ClusterId to) {
  std::erase_if(queue_, [&](const SendControl& queued) { return queued.to == to; });
}

void ControlOutbox::clear() {
  queue_.clear();
  free_.clear();
  for (Slot& slot : slots_) {
    slot.loan = {};
    free_.push_back(&slot);
  }
}

}  // namespace braid::proxy
