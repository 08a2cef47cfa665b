#include "proxy/daemon/datagram_outbox.h"

#include <algorithm>

namespace braid::proxy {

Outgoing* DatagramOutbox::put(const Datagram& datagram) {
  if (slots_ == nullptr) {
    slots_ = std::make_unique<std::array<Slot, kMaxInFlight>>();
    clear();
  }
  const auto its = std::count_if(slots_->begin(), slots_->end(),
                                 [&](const Slot& slot) { return slot.used && slot.to == datagram.peer; });
  if (free_.empty() || static_cast<std::size_t>(its) >= kMaxPerCluster) return nullptr;
  Slot& out = *free_.back();
  free_.pop_back();
  out.used = true;
  out.datagram = datagram;
  const bool returned = datagram.returned != DatagramReturn::kNone;
  out.record = {};
  out.record.kind = returned ? stack::RecordKind::kReturned : stack::RecordKind::kDatagram;
  out.record.protocol = datagram.protocol;
  out.record.source = datagram.source;
  out.record.destination = datagram.destination;
  out.record.skip = static_cast<std::uint16_t>(datagram.returned);
  out.record.message_bytes = datagram.bytes;
  out.data = out.datagram.data.data();
  out.bytes = datagram.bytes;
  out.to = datagram.peer;
  return &out;
}

Datagram DatagramOutbox::finish(Outgoing& message) {
  Slot& slot = static_cast<Slot&>(message);
  slot.used = false;
  free_.push_back(&slot);
  return slot.datagram;
}

void DatagramOutbox::clear() {
  free_.clear();
  if (slots_ == nullptr) return;
  for (Slot& slot : *slots_) {
    slot.loan = {};
    slot.used = false;
    free_.push_back(&slot);
  }
}

}  // namespace braid::proxy
