#include "proxy/packet/packet_queue.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proxy/udp/udp_socket.h"

namespace braid::proxy {
namespace {

// Classic BPF: the offset of a load, and how far to go on if the comparison holds or not.
constexpr std::uint32_t kTagged = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
constexpr std::uint32_t kPacketType = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
constexpr std::uint32_t kVersionAt = 14, kFragmentAt = 20, kProtocolAt = 23, kToAt = 30, kPortAt = 36;
constexpr std::uint32_t kFragmentBits = 0x3fff;  // of "more fragments" and the offset
constexpr std::uint32_t kWhole = 0x40000;

// Whole UDP datagrams to that address and port, to this station, over IPv4 without options, untagged. The same as what an XDP program takes
// (proxy/xdp/xdp_program.h), but for one port. The socket is bound to frames of IPv4.
Result<void> take_only(int socket, stack::Ipv4Address own, std::uint16_t port) {
  std::array<sock_filter, 16> code{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPacketType),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 13),
                                   sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kTagged),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 11),
                                   sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kVersionAt),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 9),
                                   sock_filter BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kFragmentAt),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kFragmentBits, 7, 0),
                                   sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kProtocolAt),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
                                   sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kToAt),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own.value(), 0, 3),
                                   sock_filter BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kPortAt),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
                                   sock_filter BPF_STMT(BPF_RET | BPF_K, kWhole),
                                   sock_filter BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{code.size(), code.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
    return error("a filter of frames: {}", std::strerror(errno));
  return {};
}

const char* cure_of(int why) {
  switch (why) {
    case EPERM:
    case EACCES:
      return "AF_PACKET needs the capability CAP_NET_RAW: run as root, or take udp, which needs none";
    case EAFNOSUPPORT:
      return "this kernel has no sockets of AF_PACKET (CONFIG_PACKET); take udp";
    default:
      return std::strerror(why);
  }
}

}  // namespace

PacketQueue::Burst::Burst(std::uint32_t frame_bytes) : memory(std::size_t{frame_bytes} * kMaxBurst) {
  for (std::size_t i = 0; i < kMaxBurst; ++i) {
    vectors[i] = {frame(i), frame_bytes};
    messages[i] = {};
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
}

Result<std::unique_ptr<PacketQueue>> PacketQueue::open(const PacketQueueOptions& options,
                                                       std::shared_ptr<KernelPaths> paths,
                                                       std::shared_ptr<SocketWaker> waker) {
  // Without a protocol it gets nothing before it has its filter.
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return error("{}: {}", options.interface, cure_of(errno));
  std::unique_ptr<PacketQueue> queue(new PacketQueue(options, socket, std::move(paths), std::move(waker)));
  if (const Result<void> bound = queue->bind(); !bound)
    return error("{}: {}", options.interface, bound.error().text);
  if (queue->waker_ == nullptr) return queue;
  Result<WakeWord*> word = queue->waker_->add(socket);
  if (!word) return word.error();
  queue->word_ = *word;
  return queue;
}

PacketQueue::PacketQueue(const PacketQueueOptions& options, int socket, std::shared_ptr<KernelPaths> paths,
                         std::shared_ptr<SocketWaker> waker)
    : options_(options),
      socket_(socket),
      paths_(std::move(paths)),
      waker_(std::move(waker)),
      arriving_(options.max_frame_bytes),
      leaving_(options.max_frame_bytes) {}

PacketQueue::~PacketQueue() {
  ::close(socket_);
}

Result<void> PacketQueue::bind() {
  if (const Result<void> filtered = take_only(socket_, options_.own, options_.port); !filtered)
    return filtered;
  size_socket_buffers(socket_, options_.buffer_bytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = swapped(static_cast<std::uint16_t>(ETH_P_IP));
  address.sll_ifindex = static_cast<int>(::if_nametoindex(options_.interface.c_str()));
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return error("{}", std::strerror(errno));
  return {};
}

std::size_t PacketQueue::receive(std::span<MutableBytes> frames) {
  if (first_unsent_ < unsent_end_) send();
  const auto most = static_cast<unsigned>(std::min(frames.size(), kMaxBurst));
  const int count = ::recvmmsg(socket_, arriving_.messages.data(), most, MSG_DONTWAIT, nullptr);
  // A link that went down says so once. It is known from the paths.
  if (count <= 0) return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    frames[i] = {arriving_.frame(i), arriving_.messages[i].msg_len};
  return static_cast<std::size_t>(count);
}

std::size_t PacketQueue::reserve(std::span<TxFrame> frames) {
  if (first_unsent_ < unsent_end_) send();
  if (first_unsent_ < unsent_end_) return 0;
  const std::size_t offered = std::min(frames.size(), kMaxBurst);
  for (std::size_t i = 0; i < offered; ++i)
    frames[i] = {.data = leaving_.frame(i), .capacity = options_.max_frame_bytes, .length = 0};
  return offered;
}

void PacketQueue::commit(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames) {
    if (paths_->address(frame))
      leaving_.vectors[unsent_end_++] = {frame.data, frame.length};
    else
      drops_.add();
  }
  send();
}

// What the kernel has no room for stays, for the next call.
void PacketQueue::send() {
  while (first_unsent_ < unsent_end_) {
    const int count = ::sendmmsg(socket_, leaving_.messages.data() + first_unsent_,
                                 static_cast<unsigned>(unsent_end_ - first_unsent_), MSG_DONTWAIT);
    if (count > 0) {
      first_unsent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {  // the interface refuses it, or its queue is full
      ++first_unsent_;
      drops_.add();
    }
  }
  first_unsent_ = unsent_end_ = 0;
}

std::uint64_t PacketQueue::receive_drops() const {
  return socket_drops(socket_);
}

void PacketQueue::announce_sleep() {
  send();
  word_->announce();
  waker_->arm(socket_, word_);
}

}  // namespace braid::proxy
