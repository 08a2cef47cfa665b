#include "proxy/udp/udp_queue.h"

#include <utility>

namespace braid::proxy {

Result<std::unique_ptr<UdpQueue>> UdpQueue::open(const UdpQueueOptions& options,
                                                 std::shared_ptr<SocketWaker> waker) {
  Result<UdpBinding> binding = UdpBinding::open({options.own, options.buffer_bytes, options.joins});
  if (!binding) return binding.error();
  std::unique_ptr<UdpQueue> queue(new UdpQueue(options, std::move(*binding), std::move(waker)));
  if (queue->waker_ == nullptr) return queue;
  Result<WakeWord*> word = queue->waker_->add(queue->binding_.socket());
  if (!word) return word.error();
  queue->word_ = *word;
  queue->polls_until_busy_ = kPollsUntilBusy;
  return queue;
}

UdpQueue::UdpQueue(const UdpQueueOptions& options, UdpBinding binding, std::shared_ptr<SocketWaker> waker)
    : max_frame_bytes_(options.max_frame_bytes),
      binding_(std::move(binding)),
      waker_(std::move(waker)),
      frames_(options.own),
      receiver_(binding_.socket(), frames_, options.max_frame_bytes),
      transmitter_(binding_, options.max_frame_bytes, options.joins) {}

void UdpQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames)
    transmitter_.commit(frames_.departure(ByteView(frame.data, frame.length)));
  if (transmitter_.flush()) receiver_.drain_errors();
}

void UdpQueue::announce_sleep() {
  receiver_.drain_errors();  // one that is left would end each sleep at once
  word_->announce();
  waker_->arm(binding_.socket(), word_);
  polls_until_busy_ = kPollsUntilBusy;
}

}  // namespace braid::proxy
