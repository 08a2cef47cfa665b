#include "tests/sim/datagram_ledger.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

using proxy::DatagramReturn;

DatagramLedger::Number DatagramLedger::offer(const Entry& entry) {
  CHECK_GE(entry.bytes, kMinBytes);
  CHECK_LE(entry.bytes, proxy::Datagram::kMaxBytes);
  entries_.push_back(entry);
  ++open_;
  return size() - 1;
}

void DatagramLedger::withdraw(Number number) {
  CHECK(!entries_[number].settled());
  // As if it had come back at once.
  entries_[number].returned = DatagramReturn::kNoRoom;
  --open_;
}

std::vector<std::byte> DatagramLedger::content(Number number) const {
  std::vector<std::byte> bytes(entries_[number].bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix(number, i) >> 56);
  store(bytes.data(), number);
  return bytes;
}

std::string DatagramLedger::describe(Number number) const {
  const Entry& e = entries_[number];
  return fmt::format("{} {} of protocol {}, {} bytes from c{} port {} to c{} port {}",
                     e.is_answer ? "answer" : "datagram", number, e.protocol.value(), e.bytes, e.from.value(),
                     e.source.value(), e.to.value(), e.destination.value());
}

std::string DatagramLedger::arrive(ClusterId at, const proxy::Datagram& d, Number* number, bool failed_over) {
  const bool is_return = d.returned != DatagramReturn::kNone;
  if (d.bytes < kMinBytes) return fmt::format("a datagram of {} bytes was never sent", d.bytes);
  *number = load<Number>(d.data.data());
  if (*number >= size()) return fmt::format("datagram {} was never sent", *number);
  Entry& e = entries_[*number];
  const auto wrong = [&](const std::string& what) { return describe(*number) + ": " + what; };
  if (e.protocol != d.protocol) return wrong(fmt::format("it was handed to protocol {}", d.protocol.value()));
  if (e.source != d.source || e.destination != d.destination)
    return wrong(fmt::format("its ports are {} and {} now", d.source.value(), d.destination.value()));
  if (at != (is_return ? e.from : e.to) || d.peer != (is_return ? e.to : e.from))
    return wrong(fmt::format("it {} c{} from c{}", is_return ? "came back to" : "arrived at", at.value(),
                             d.peer.value()));
  const std::vector<std::byte> wanted = content(*number);
  if (!std::equal(wanted.begin(), wanted.end(), d.content().begin(), d.content().end()))
    return wrong(fmt::format("its {} bytes were changed", d.bytes));
  const bool was_settled = e.settled();
  const std::string problem = is_return ? come_back(e, d.returned, failed_over) : deliver(e);
  if (!problem.empty()) return wrong(problem);
  if (!was_settled) --open_;
  return {};
}

// PS-4
std::string DatagramLedger::deliver(Entry& e) {
  if (e.delivered) return "it was delivered twice";
  if (e.returned != DatagramReturn::kNone && e.returned != DatagramReturn::kMaybeDelivered)
    return "it was delivered after it had come back undelivered";
  e.delivered = true;
  return {};
}

// PS-5
std::string DatagramLedger::come_back(Entry& e, DatagramReturn reason, bool failed_over) {
  if (e.returned != DatagramReturn::kNone) return failed_over ? "" : "it came back twice";
  if (e.delivered && reason != DatagramReturn::kMaybeDelivered)
    return "it came back undelivered after it had been delivered";
  e.returned = reason;
  return {};
}

}  // namespace braid::sim
