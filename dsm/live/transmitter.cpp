#include "dsm/live/transmitter.h"

#include <bit>

#include "dsm/live/runtime_message.h"

namespace braid::dsm {

void Transmitter::send_to(std::uint64_t clusters, unsigned lane) {
  bool all_sent = true;
  for (; clusters != 0; clusters &= clusters - 1) {
    const ClusterId to(static_cast<std::uint16_t>(std::countr_zero(clusters)));
    if (!call_.left(to) && !send_to(to, lane)) all_sent = false;
  }
  network_->flush();
  pending_.store(!all_sent, std::memory_order_seq_cst);
}

// False if something had to stay for want of room.
bool Transmitter::send_to(ClusterId to, unsigned lane) {
  if ((call_.unsent() >> to.value() & 1) != 0 && !send_call(to, lane)) return false;
  while (engine_.has_output(to)) {
    const MutableBytes room = network_->reserve(to, kMessageHeaderBytes + kMaxMessageBytes, lane);
    if (room.empty()) return false;
    const std::size_t bytes = engine_.poll_transmit(to, begin_message(room, Payload::kEngine));
    if (bytes == 0) break;
    network_->commit(to, static_cast<std::uint32_t>(kMessageHeaderBytes + bytes));
  }
  return true;
}

bool Transmitter::send_call(ClusterId to, unsigned lane) {
  constexpr std::uint32_t kBytes = kMessageHeaderBytes + sizeof(CallMessage);
  const MutableBytes room = network_->reserve(to, kBytes, lane);
  if (room.empty()) return false;
  store(begin_message(room, Payload::kCollectiveCall).data(), call_.message());
  network_->commit(to, kBytes);
  call_.sent(to);
  return true;
}

}  // namespace braid::dsm
