#include "dsm/live/transmitter.h"

#include "dsm/live/runtime_message.h"

namespace braid::dsm {

void Transmitter::send_all(unsigned compute_node) {
  bool all_sent = true;
  ClusterBits::for_each_of_either(engine_.output_clusters(), call_.unsent(), [&](ClusterId to) {
    if (!call_.left(to) && !send_to(to, compute_node)) all_sent = false;
  });
  network_->flush();
  pending_.store(!all_sent, std::memory_order_seq_cst);
}

// False if something was not sent because there is no room.
bool Transmitter::send_to(ClusterId to, unsigned compute_node) {
  if (call_.unsent().contains(to) && !send_call(to, compute_node)) return false;
  while (engine_.has_output(to)) {
    const auto wanted = static_cast<std::uint32_t>(kMessageHeaderBytes + engine_.room_wanted(to));
    const MutableBytes room = network_->reserve(to, wanted, compute_node);
    if (room.empty()) return false;
    const std::size_t bytes = engine_.poll_transmit(to, begin_message(room, Payload::kEngine));
    if (bytes == 0) break;
    network_->commit(to, static_cast<std::uint32_t>(kMessageHeaderBytes + bytes));
  }
  return true;
}

bool Transmitter::send_call(ClusterId to, unsigned compute_node) {
  constexpr std::uint32_t kBytes = kMessageHeaderBytes + sizeof(CallMessage);
  const MutableBytes room = network_->reserve(to, kBytes, compute_node);
  if (room.empty()) return false;
  store(begin_message(room, Payload::kCollectiveCall).data(), call_.message());
  network_->commit(to, kBytes);
  call_.sent(to);
  return true;
}

}  // namespace braid::dsm
