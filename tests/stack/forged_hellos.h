// Frames with hellos of somebody who has another secret, from whatever address and of whatever epochs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "stack/secure/secret.h"
#include "stack/sub_connection.h"
#include "stack/wire/checksum.h"
#include "stack/wire/flow.h"
#include "tests/stack/wire_bytes.h"

namespace braid::stack {

class ForgedHellos {
 public:
  static constexpr std::size_t kFrameBytes = kFlowHeaderBytes + kPacketHeaderBytes + 20 + 16;

  // They say that they are of `from`, for `to` at that station and port.
  ForgedHellos(StackId from, StackId to, const MacAddress& mac, const Endpoint& at) : mac_(mac), at_(at) {
    SubConnectionConfig c;
    c.local = from;
    c.remote = to;
    c.security.secret = std::make_shared<const Secret>(KeyBytes{std::byte{0xf1}});
    Agenda agenda(1);
    const Instant now = Instant::from_ns(1'000'000'000);
    SubConnection sender(c, 0xb1, now, agenda.entry(0));
    hello_.resize(1472);
    std::uint64_t sum = 0;
    hello_.resize(sender.poll(now, hello_, &sum));
    CHECK_EQ(kFlowHeaderBytes + hello_.size(), kFrameBytes);
  }

  Bytes frame(Ipv4Address source, std::uint64_t sender_epoch, std::uint64_t receiver_epoch) {
    store(hello_.data() + 12, sender_epoch);
    store(hello_.data() + 20, receiver_epoch);
    const FlowHeader header(mac_, mac_,
                            {.source = source,
                             .destination = at_.address,
                             .source_port = at_.port,
                             .destination_port = at_.port});
    Bytes frame(kFrameBytes);
    header.write(frame.data(), hello_.size(), checksum_add(0, hello_));
    std::copy(hello_.begin(), hello_.end(), frame.begin() + kFlowHeaderBytes);
    return frame;
  }

 private:
  MacAddress mac_;
  Endpoint at_;
  Bytes hello_;
};

}  // namespace braid::stack
