#include "proxy/udp/udp_queue.h"

#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace braid::proxy {
namespace {

sockaddr_in kernel_address(const UdpEnd& end) {
  return {.sin_family = AF_INET,
          .sin_port = swapped(end.port),
          .sin_addr = {swapped(end.address.value())},
          .sin_zero = {}};
}

int open_socket() {
  return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool set(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

int get(int socket, int level, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, level, option, &value, &bytes) == 0 ? value : 0;
}

// Beyond the system's limit only a process with CAP_NET_ADMIN gets what it asks for.
void size_buffer(int socket, int option, int forced_option, std::uint32_t bytes) {
  if (!set(socket, SOL_SOCKET, forced_option, static_cast<int>(bytes)))
    (void)set(socket, SOL_SOCKET, option, static_cast<int>(bytes));
}

std::string cure_of(int why, const UdpEnd& own) {
  switch (why) {
    case EADDRNOTAVAIL:
      return fmt::format("this host has no address {}; see 'ip address'", own.address.to_string());
    case EADDRINUSE:
      return fmt::format("another process has UDP port {}; set another udp_port", own.port);
    default:
      return std::strerror(why);
  }
}

}  // namespace

Result<std::uint32_t> path_mtu(stack::Ipv4Address own, stack::Ipv4Address peer) {
  const int socket = open_socket();
  if (socket < 0) return error("a UDP socket could not be opened: {}", std::strerror(errno));
  const sockaddr_in from = kernel_address({own, 0});
  const sockaddr_in to = kernel_address({peer, 9});  // nothing is sent there
  int why = 0;
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0 ||
      ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    why = errno;
  const int bytes = get(socket, IPPROTO_IP, IP_MTU);
  ::close(socket);
  if (why != 0)
    return error("no way from {} to {}: {}", own.to_string(), peer.to_string(), cure_of(why, {own, 0}));
  // The MTU of the loopback interface is one more than an IP packet can be long.
  return std::min<std::uint32_t>(static_cast<std::uint32_t>(bytes), 65535);
}

Result<std::unique_ptr<UdpQueue>> UdpQueue::open(const UdpQueueOptions& options,
                                                 std::shared_ptr<SocketWaker> waker) {
  const int socket = open_socket();
  if (socket < 0) return error("a UDP socket could not be opened: {}", std::strerror(errno));
  const sockaddr_in own = kernel_address(options.own);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    const int why = errno;
    ::close(socket);
    return error("UDP {}:{}: {}", options.own.address.to_string(), options.own.port,
                 cure_of(why, options.own));
  }
  std::unique_ptr<UdpQueue> queue(new UdpQueue(options, socket, std::move(waker)));
  if (queue->waker_ == nullptr) return queue;
  Result<WakeWord*> word = queue->waker_->add(socket);
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
  CHECK(set(socket, IPPROTO_IP, IP_RECVERR, 1));
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
