#include "stack/message_queue.h"

namespace braid::stack {

void MessageQueue::fail_all(const PacketWindow& in_flight) {
  in_flight.for_each_unacknowledged([&](const PacketContent& content) { finish_parts(content, true); });
  while (unsent_ != nullptr) {  // the first may be partly sent: what was not sent of it fails as well
    OutMessage* const next = unsent_->next;
    finish(*unsent_, true);
    unsent_ = next;
  }
  unsent_offset_ = 0;
  last_ = nullptr;
}

OutMessage* MessageQueue::take_back(const PacketWindow& in_flight) {
  OutMessage* first = nullptr;
  OutMessage* last = nullptr;
  const auto take = [&](OutMessage& m) {
    if (&m == last) return;  // another part of it
    m.unacknowledged = 0;
    if (first == nullptr)
      first = &m;
    else
      last->next = &m;
    last = &m;
  };
  in_flight.for_each_unacknowledged([&](const PacketContent& content) {
    for_each_record(content, [&](OutMessage& m, std::uint32_t, std::uint32_t) { take(m); });
  });
  for (OutMessage* m = unsent_; m != nullptr;) {
    OutMessage* const next = m->next;
    take(*m);
    m = next;
  }
  if (last != nullptr) last->next = nullptr;
  unsent_ = nullptr;
  unsent_offset_ = 0;
  last_ = nullptr;
  return first;
}

void MessageQueue::push_again(OutMessage* first) {
  CHECK(unsent_ == nullptr);
  unsent_ = first;
  for (OutMessage* m = first; m != nullptr; m = m->next) {
    m->record.maybe_duplicate = true;
    m->unacknowledged = std::max(m->bytes, 1u);
    last_ = m;
  }
}

}  // namespace braid::stack
