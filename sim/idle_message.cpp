#include "sim/idle_message.h"

#include <vector>

#include "base/check.h"

namespace braid::sim {

namespace {

// Longer than an acknowledgement is delayed, and shorter than a keep-alive interval.
constexpr Duration kRest = 50_ms;

class Receiver final : public Iccs::Sink {
 public:
  Handled on_message(Instant now, ClusterId, ClusterId, ByteView) override { return {now, 0}; }
  void on_room(Instant, ClusterId) override {}
  void on_delivered(const MessageReport& told) override {
    report = told;
    delivered = true;
  }
  void on_lost(Instant, ClusterId, ClusterId, const char*) override { CHECK(false); }
  MessageReport report;
  bool delivered = false;
};

}  // namespace

MessageReport idle_message(const IccsConfig& config, const settings::CostModel& model, std::uint32_t bytes) {
  IccsConfig two = config;
  two.clusters = 2;
  two.mode = Mode::kReal;
  two.faults = {};
  two.incidents = {};
  Events events(two.clusters);
  Receiver receiver;
  Iccs iccs(two, model, events, receiver);
  CHECK(iccs.establish().ok());  // no frame is lost
  const Instant at = events.now() + kRest;
  const std::vector<std::byte> message(bytes, std::byte{0x5a});
  CHECK(iccs.send(at, ClusterId(0), 0, ClusterId(1), message));
  while (!receiver.delivered) iccs.on_event(events.pop());
  return receiver.report;
}

}  // namespace braid::sim
