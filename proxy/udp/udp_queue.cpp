#include "proxy/udp/udp_queue.h"

#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace braid::proxy {
namespace {

bool set(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

}  // namespace

Result<std::unique_ptr<UdpQueue>> UdpQueue::open(const UdpQueueOptions& options,
                                                 std::shared_ptr<SocketWaker> waker) {
  const Result<int> socket = bind_udp_socket(options.own);
  if (!socket) return socket.error();
  std::unique_ptr<UdpQueue> queue(new UdpQueue(options, *socket, std::move(waker)));
  if (queue->waker_ == nullptr) return queue;
  Result<WakeWord*> word = queue->waker_->add(*socket);
  if (!word) return word.error();
  queue->word_ = *word;
  return queue;
}

UdpQueue::UdpQueue(const UdpQueueOptions& options, int socket, std::shared_ptr<SocketWaker> waker)
    : max_frame_bytes_(options.max_frame_bytes),
      socket_(socket),
      waker_(std::move(waker)),
      frames_(options.own),
      receiver_(socket, frames_, options.max_frame_bytes),
      transmitter_(socket, options.max_frame_bytes, options.joins) {
  // DF on every datagram, and an error for one that is longer than the path takes.
  CHECK(set(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO));
  if (options.joins) (void)set(socket, IPPROTO_UDP, UDP_GRO, 1);  // Linux 5.0; else each comes alone
  size_socket_buffers(socket, options.buffer_bytes);
}

UdpQueue::~UdpQueue() {
  ::close(socket_);
}

void UdpQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames)
    transmitter_.commit(frames_.departure(ByteView(frame.data, frame.length)));
  if (transmitter_.flush()) receiver_.drain_errors();
}

std::uint64_t UdpQueue::receive_drops() const {
  return socket_drops(socket_);
}

void UdpQueue::announce_sleep() {
  word_->announce();
  waker_->arm(socket_, word_);
}

}  // namespace braid::proxy
