// A client's memory for tests of what a proxy does with one channel: the client's ends of the two rings beside
// the proxy's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "proxy/channel/channel.h"
#include "proxy/daemon/outgoing.h"
#include "proxy/daemon/proxy_channel.h"

namespace braid::proxy::test {

inline constexpr std::uint32_t kSendDescriptors = 8;
inline constexpr std::uint32_t kSendBytes = 1024;
inline constexpr std::uint32_t kArrivals = 8;

// Of one endpoint, with a lane for each of two proxies.
class ChannelMemory {
 public:
  explicit ChannelMemory(const TrainLimits& train = {}) {
    geometry_.train = train;
    geometry_.proxies = 2;
    geometry_.send_descriptors = kSendDescriptors;
    geometry_.send_bytes = kSendBytes;
    geometry_.arrivals = kArrivals;
    geometry_.connections = 1;
    geometry_.receive_bytes = 4096;
    memory_.reset(new (std::align_val_t{4096}) std::byte[geometry_.total_bytes()]());
  }
  const ChannelGeometry& geometry() const { return geometry_; }
  std::byte* get() { return memory_.get(); }
  std::unique_ptr<Channel> channel(unsigned lane = 0, bool resumes = false, std::uint32_t client = 1) {
    return std::make_unique<Channel>(client, geometry_, get(), 0, lane, resumes);
  }
  // The client's ends of a lane that is new.
  SendProducer sender(unsigned lane = 0) {
    return {get() + geometry_.send_ring(0, lane), geometry_.send_descriptors};
  }
  ArrivalConsumer receiver(unsigned lane = 0) {
    return {get() + geometry_.arrival_ring(0, lane), geometry_.arrivals};
  }
  PortCell& cell() { return *reinterpret_cast<PortCell*>(get() + geometry_.cell(0)); }
  std::byte* window() { return get() + geometry_.receive_buffers(); }

 private:
  struct Free {
    void operator()(std::byte* at) const { ::operator delete[](at, std::align_val_t{4096}); }
  };
  ChannelGeometry geometry_;
  std::unique_ptr<std::byte[], Free> memory_;
};

// A message of `bytes` bytes as a client's library describes it.
inline SendDescriptor whole_message(std::uint16_t bytes, std::uint32_t position = 0) {
  SendDescriptor d{};
  d.source_port = 5;
  d.position = position;
  d.message = position;
  d.bytes = bytes;
  d.message_bytes = bytes;
  d.kind = static_cast<std::uint8_t>(stack::RecordKind::kMessage);
  return d;
}

// The client hands over `count` messages.
inline void hand_over(SendProducer& sender, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) sender.push(whole_message(64, sender.produced()));
  sender.publish();
}

}  // namespace braid::proxy::test
