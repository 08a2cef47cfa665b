#include "dsm/program/end_record.h"

#include <unistd.h>

#include <algorithm>

#include "base/clock.h"

namespace braid::dsm {

namespace {

std::atomic<EndRecord*> the_record{nullptr};
std::atomic<pid_t> the_owner{0};
std::atomic<bool> is_recorded{false};

EndRecord* own_record() {
  EndRecord* const record = the_record.load();
  return record != nullptr && the_owner.load() == ::getpid() ? record : nullptr;
}

}  // namespace

void set_end_record(EndRecord* record) {
  the_owner.store(::getpid());
  is_recorded.store(false);
  the_record.store(record);
}

void record_joined() {
  if (EndRecord* const record = own_record()) record->joined.store(1);
}

void record_finished() {
  if (EndRecord* const record = own_record()) record->finished.store(1);
}

bool record_end(EndCause cause, const EndFacts& facts) {
  EndRecord* const record = own_record();
  if (record == nullptr) return false;
  if (is_recorded.exchange(true)) return true;
  record->node = facts.node;
  record->time_ns = monotonic_now().ns();
  record->signal = facts.signal;
  record->has_address = facts.has_address ? 1 : 0;
  record->address = facts.address;
  const std::size_t length = std::min(facts.text.size(), EndRecord::kTextBytes - 1);
  std::copy_n(facts.text.data(), length, record->text);
  record->cause.store(static_cast<std::uint32_t>(cause));
  return true;
}

}  // namespace braid::dsm
