#include "bench/transport/invoked_service.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench/round_trips.h"
#include "bench/two_nodes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"

namespace braid::bench {
namespace {

using proxy::NicQueue;

class InvokedService final : public System {
 public:
  InvokedService(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes)
      : near_(near), sink_(kLargeBytes) {
    Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(
        node_config(near, mtu_bytes), monotonic_now(), [&](LinkId, unsigned) { return std::move(queue); });
    if (!node) fmt::print(stderr, "transport_bench: {}\n", node.error().text);
    CHECK(node.ok());
    auto client = proxy::Client::attach(proxy::in_process_service(std::move(node).value()), {});
    CHECK(client.ok());
    client_ = std::move(client).value();
    if (!near) CHECK(client_->endpoint(0).listen(kPort, kConnection).ok());
  }

  double trip_us(int trips, Latencies* each) override {
    connect();
    const std::vector<std::byte> message(kSmallBytes);
    return round_trip_us(trips, each, [&] {
      while (connection_->try_send(message) != proxy::SendStatus::kSent) poll(Test::kSmall);
      while (poll(Test::kSmall) == 0) {
      }
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
    connect();
    const std::vector<std::byte> message(bytes);
    while (monotonic_now() < end) {
      for (int i = 0; i < 32 && connection_->try_send(message) == proxy::SendStatus::kSent; ++i) {
      }
      poll(Test::kSmall);
    }
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) poll(Test::kSmall);
  }
  void far(Test test, Turn turn) override {
    if (connection_ == nullptr) {
      Result<proxy::Connection*> accepted = client_->endpoint(0).accept(10_s);
      if (!accepted) fmt::print(stderr, "transport_bench: {}\n", accepted.error().text);
      CHECK(accepted.ok());
      connection_ = *accepted;
    }
    while (!turn.over()) {
      const int n = poll(test);
      if (n > 0 && test != Test::kTrip) turn.received(static_cast<std::uint64_t>(n));
    }
    drain(2_ms);
  }

 private:
  static constexpr PortId kPort{7};
  static constexpr proxy::ConnectionOptions kConnection{
      .ordered = true, .window_bytes = 256u << 10, .dispatch = {}};

  static proxy::NodeConfig node_config(bool near, std::uint32_t mtu_bytes) {
    proxy::NodeConfig c = one_of_two_nodes(near ? 0 : 1, mtu_bytes);
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;
    link.device = "of the bench";
    c.security.mode = settings::SecurityMode::kOff;
    c.links.push_back(link);
    use_addresses(c, invoked_service_end(near).address, invoked_service_end(!near).address);
    // Between its measurements it is not driven, so silence is no death.
    c.transport.path_death_ms = 60'000;
    c.transport.peer_death_ms = 120'000;
    return c;
  }
  void connect() {
    if (connection_ != nullptr) return;
    CHECK(near_);
    Result<proxy::Connection*> made = client_->endpoint(0).connect(ClusterId(1), kPort, kConnection, 10_s);
    if (!made) fmt::print(stderr, "transport_bench: {}\n", made.error().text);
    CHECK(made.ok());
    connection_ = *made;
  }
  int poll(Test test) {
    return client_->endpoint(0).poll([&](proxy::Connection& from, ByteView message) {
      if (test == Test::kTrip)
        CHECK(from.try_send(message) == proxy::SendStatus::kSent);
      else
        std::memcpy(sink_.data(), message.data(), message.size());
    });
  }

  const bool near_;
  std::vector<std::byte> sink_;
  std::unique_ptr<proxy::Client> client_;
  proxy::Connection* connection_ = nullptr;
};

}  // namespace

proxy::UdpEnd invoked_service_end(bool near) {
  return {stack::Ipv4Address(127, 98, 2, near ? 1 : 2), proxy::NodeConfig().udp_port};
}

std::unique_ptr<System> make_invoked_service(std::unique_ptr<NicQueue> queue, bool near,
                                             std::uint32_t mtu_bytes) {
  return std::make_unique<InvokedService>(std::move(queue), near, mtu_bytes);
}

}  // namespace braid::bench
