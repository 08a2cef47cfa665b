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

// Beyond the system's limit only a process with CAP_NET_ADMIN gets what it asks for.
void size_buffer(int socket, int option, int forced_option, std::uint32_t bytes) {
  if (!set(socket, SOL_SOCKET, forced_option, static_cast<int>(bytes)))
    (void)set(socket, SOL_SOCKET, option, static_cast<int>(bytes));
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
  size_buffer(socket, SO_RCVBUF, SO_RCVBUFFORCE, options.buffer_bytes);
  size_buffer(socket, SO_SNDBUF, SO_SNDBUFFORCE, options.buffer_bytes);
}

UdpQueue::~UdpQueue() {
  ::close(socket_);
}

void UdpQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames)
    transmitter_.commit(frames_.departure(ByteView(frame.data, frame.length)));
  if (transmitter_.flush()) receiver_.drain_errors();
}

void UdpQueue::announce_sleep() {
  word_->announce();
  waker_->arm(socket_, word_);
}

}  // namespace braid::proxy
