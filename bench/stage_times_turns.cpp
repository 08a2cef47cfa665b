#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/pausable_service.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "bench/two_nodes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"

namespace braid::bench {
namespace {

// Short and long messages fit one frame.
constexpr std::uint32_t kMtuBytes = 9000;

}  // namespace

class TwoNodes {
 public:
  // Before anything else.
  Result<void> connect_both(std::uint32_t ack_delay_us);

  proxy::Worker& proxy(int side) { return nodes_[side]->worker(0); }
  std::uint64_t bytes_sent(int side) { return nodes_[side]->counters(0).frame_bytes_sent.get(); }
  proxy::Endpoint& endpoint(int side) { return clients_[side]->endpoint(0); }
  proxy::Connection& connection() { return *connection_; }
  // Both clients' services.
  void pause(bool paused) {
    for (PausableService* service : services_) service->pause(paused);
  }

 private:
  std::shared_ptr<proxy::Node> nodes_[2];
  PausableService* services_[2] = {};  // owned by the clients
  std::unique_ptr<proxy::Client> clients_[2];
  proxy::Connection* connection_ = nullptr;
};

Result<void> TwoNodes::connect_both(std::uint32_t ack_delay_us) {
  const Result<int> wire = proxy::create_shm_wire({});
  if (!wire) return wire.error();
  for (const int side : {0, 1}) {
    const auto cluster = static_cast<std::uint16_t>(side);
    proxy::NodeConfig config = one_of_two_nodes(cluster, kMtuBytes);
    config.transport.ack_delay_us = ack_delay_us;
    config.links.push_back(end_of_wire(cluster, *wire));
    Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(config, monotonic_now());
    if (!node) return node.error();
    nodes_[side] = std::move(node).value();
  }
  for (const int side : {0, 1}) {
    auto service =
        std::make_unique<PausableService>(proxy::in_process_service(nodes_[side], {nodes_[1 - side]}));
    services_[side] = service.get();
    auto client = proxy::Client::attach(std::move(service), {});
    if (!client) return client.error();
    clients_[side] = std::move(client).value();
  }
  constexpr PortId kPort(7);
  if (const Result<void> listening = endpoint(1).listen(kPort, {}); !listening) return listening.error();
  const Result<proxy::Connection*> connected = endpoint(0).connect(ClusterId(1), kPort, {}, 10_s);
  if (!connected) return connected.error();
  connection_ = *connected;
  const Result<proxy::Connection*> accepted = endpoint(1).accept(10_s);
  if (!accepted) return accepted.error();
  return {};
}

Result<std::shared_ptr<TwoNodes>> make_two_nodes(std::uint32_t ack_delay_us) {
  auto two = std::make_shared<TwoNodes>();
  if (const Result<void> done = two->connect_both(ack_delay_us); !done) return done.error();
  return two;
}

namespace {

class TurnSamples {
 public:
  explicit TurnSamples(TwoNodes& two) : two_(two) {}

  // One more. Nothing is kept of a sample in which a proxy had something else to do, as a timer of its own.
  void take(std::uint32_t bytes, int messages) {
    two_.pause(true);
    take_undisturbed(bytes, messages);
    two_.pause(false);
    drain();
  }

  bool any() const { return !send_.empty() && !idle_.empty(); }
  Turns medians(double clock) const {
    return {.hand_over = median(hand_over_) - clock,
            .send = median(send_) - clock,
            .receive = median(receive_) - clock,
            .poll = median(poll_),
            .acknowledge = median(acknowledge_) - clock,
            .acknowledged = median(acknowledged_) - clock,
            .idle = median(idle_) - clock,
            .frame_bytes = median(frame_bytes_),
            .ack_bytes = median(ack_bytes_)};
  }

 private:
  void take_undisturbed(std::uint32_t bytes, int messages) {
    proxy::Endpoint& from = two_.endpoint(0);
    proxy::Endpoint& to = two_.endpoint(1);
    proxy::Worker& sender = two_.proxy(0);
    proxy::Worker& receiver = two_.proxy(1);
    const auto ignore = [](proxy::Connection&, ByteView) {};
    const std::uint64_t sent_before = two_.bytes_sent(0);
    const std::uint64_t acked_before = two_.bytes_sent(1);
    const Instant begin = monotonic_now();
    for (int m = 0; m < messages; ++m) {
      if (two_.connection().reserve(bytes).empty()) return;
      two_.connection().commit(bytes);
    }
    from.flush();
    const Instant handed = monotonic_now();
    (void)sender.do_work(handed);
    const Instant sent = monotonic_now();
    (void)receiver.do_work(sent);
    const Instant received = monotonic_now();
    const int got = to.poll(ignore);
    const Instant polled = monotonic_now();
    (void)to.poll(ignore);
    const Instant polled_again = monotonic_now();
    // However late it is, the acknowledgement is delayed for a turn at the time at which the message arrived.
    const int idle_work = receiver.do_work(sent);
    const Instant idled = monotonic_now();
    if (got != messages || idle_work != 0 || two_.bytes_sent(1) != acked_before) return;
    idle_.push_back(ns_between(polled_again, idled));
    Instant turn, after;
    do {
      turn = monotonic_now();
      if (receiver.do_work(turn) == 0) idle_.push_back(ns_between(turn, monotonic_now()));
      after = monotonic_now();
    } while (two_.bytes_sent(1) == acked_before && turn - received < 10_ms);
    if (two_.bytes_sent(1) == acked_before) return;
    const Instant acknowledging = monotonic_now();
    (void)sender.do_work(acknowledging);
    const Instant acknowledged = monotonic_now();
    hand_over_.push_back(ns_between(begin, handed));
    send_.push_back(ns_between(handed, sent));
    receive_.push_back(ns_between(sent, received));
    poll_.push_back(ns_between(received, polled) - ns_between(polled, polled_again));
    acknowledge_.push_back(ns_between(turn, after));
    acknowledged_.push_back(ns_between(acknowledging, acknowledged));
    frame_bytes_.push_back(static_cast<double>(two_.bytes_sent(0) - sent_before));
    ack_bytes_.push_back(static_cast<double>(two_.bytes_sent(1) - acked_before));
  }
  // Until nothing of this sample is in flight any more.
  void drain() {
    const auto ignore = [](proxy::Connection&, ByteView) {};
    for (int i = 0; i < 4; ++i) {
      (void)two_.endpoint(0).poll(ignore);
      (void)two_.endpoint(1).poll(ignore);
    }
  }

  TwoNodes& two_;
  std::vector<double> hand_over_, send_, receive_, poll_, acknowledge_, acknowledged_, idle_, frame_bytes_,
      ack_bytes_;
};

}  // namespace

Result<Turns> time_turns(TwoNodes& two, std::uint32_t bytes, int messages, unsigned samples, double clock) {
  // Everything that is used in turn has been used before: the first lap makes the system map it.
  TurnSamples first_laps(two);
  for (int lap = 0; lap < 600; ++lap) first_laps.take(kLong, 1);
  TurnSamples turns(two);
  for (unsigned s = 0; s < 20 * samples; ++s) turns.take(bytes, messages);
  if (!turns.any())
    return error("no message of {} bytes went from one proxy to the other undisturbed: is this machine busy?",
                 bytes);
  return turns.medians(clock);
}

}  // namespace braid::bench
