// A client's memory without a node: what the client library's parts need to be tested alone. The test plays
// the proxy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/check.h"
#include "proxy/channel/channel.h"
#include "proxy/client/connection.h"
#include "proxy/client/lane.h"
#include "proxy/client/service.h"

namespace braid::proxy::test {

// One endpoint, `proxies` proxies, eight descriptors and 64 KiB of data for each.
inline ChannelGeometry small_geometry(std::uint16_t proxies = 1, const TrainLimits& train = {}) {
  ChannelGeometry g;
  g.train = train;
  g.proxies = proxies;
  g.send_descriptors = 8;
  g.send_bytes = 64u << 10;
  g.arrivals = 1024;
  g.connections = 4;
  g.receive_bytes = 256u << 10;
  return g;
}

// Zeroed, as the daemon gives it.
class LaidOutMemory {
 public:
  explicit LaidOutMemory(const ChannelGeometry& g) : geometry_(g), bytes_(g.total_bytes()) {
    CHECK(g.problem().empty());
    begin_.reset(static_cast<std::byte*>(::operator new (bytes_, std::align_val_t{4096})));
    std::memset(begin_.get(), 0, bytes_);
  }
  std::byte* begin() { return begin_.get(); }
  const ChannelGeometry& geometry() const { return geometry_; }
  PortCell& cell(unsigned index) {
    return *reinterpret_cast<PortCell*>(begin_.get() + geometry_.cell(index));
  }
  SendConsumer send_consumer(unsigned proxy = 0) {
    return {begin_.get() + geometry_.send_ring(0, proxy), geometry_.send_descriptors};
  }
  ArrivalProducer arrival_producer(unsigned proxy = 0) {
    return {begin_.get() + geometry_.arrival_ring(0, proxy), geometry_.arrivals};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
  };
  ChannelGeometry geometry_;
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> begin_;
};

// Answers nothing; its time is what the test says, and each turn takes a millisecond of it.
class FakeService final : public Service {
 public:
  Result<control::Message> call(const control::Message&, Duration, int*) override {
    return error("no service");
  }
  bool next_event(unsigned, control::Message*) override { return false; }
  void wait_for_event(Duration) override {}
  int turn() override {
    time = time + Duration::ms(1);
    return 1;
  }
  bool alive() override { return lives; }
  Instant now() override { return time; }

  Instant time = Instant() + Duration::s(1);
  bool lives = true;
};

// The parts of an endpoint that its connections use.
struct ConnectionFixture {
  explicit ConnectionFixture(std::uint16_t proxies = 1, const TrainLimits& train = {})
      : memory(small_geometry(proxies, train)), lanes(memory.begin(), memory.geometry(), 0) {}

  ConnectionContext context() { return {lanes, service, counts, memory.begin(), memory.geometry()}; }
  // As the control plane announces connection `index` with windows of `window_bytes`.
  control::Opened opened(std::uint32_t index = 0, std::uint32_t window_bytes = 32u << 10) {
    memory.cell(index).state.store(PortState::kOpen);
    control::Opened o{};
    o.port = (7u << 16) | index;
    o.cell = index;
    o.window_offset = memory.geometry().receive_buffers() + std::uint64_t{index} * window_bytes;
    o.window_bytes = window_bytes;
    o.peer_window_bytes = window_bytes;
    o.peer_cluster = 1;
    o.ordered = 1;
    return o;
  }
  std::unique_ptr<Connection> connection(std::uint32_t index = 0) {
    return std::make_unique<Connection>(context(), opened(index), convergence::Dispatch::kRoundRobin);
  }

  LaidOutMemory memory;
  EndpointLanes lanes;
  FakeService service;
  EndpointCounts counts;
};

}  // namespace braid::proxy::test
