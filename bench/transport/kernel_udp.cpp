#include "bench/transport/kernel_udp.h"

#include <arpa/inet.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench/round_trips.h"

namespace braid::bench {
namespace {

class Sockets final : public System {
 public:
  Sockets(Shared& shared, bool near, KernelUdp kind)
      : joined_(kind == KernelUdp::kJoined), source_(kMaxJoinedBytes) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_GE(socket_, 0);
    const int bytes = 4 << 20;
    (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    sockaddr_in own = loopback(0);
    CHECK_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    socklen_t length = sizeof own;
    CHECK_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &length), 0);
    auto& ports = shared.kernel_port[joined_ ? 1 : 0];
    ports[near ? 0 : 1].store(own.sin_port);
    std::uint16_t port = 0;
    while ((port = ports[near ? 1 : 0].load()) == 0) ::usleep(100);
    const sockaddr_in peer = loopback(port);
    CHECK_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
    const int on = 1;
    if (joined_) CHECK_EQ(::setsockopt(socket_, IPPROTO_UDP, UDP_GRO, &on, sizeof on), 0);
    sink_.resize(kBatch * buffer_bytes());
  }
  ~Sockets() override { ::close(socket_); }

  double trip_us(int trips, Latencies* each) override {
    std::byte buffer[kSmallBytes] = {};
    return round_trip_us(trips, each, [&] {
      CHECK_EQ(::send(socket_, buffer, sizeof buffer, 0), static_cast<ssize_t>(sizeof buffer));
      while (::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT) < 0) {
      }
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
    if (joined_) return send_joined(bytes, end);
    iovec vectors[kBatch];
    mmsghdr messages[kBatch] = {};
    for (unsigned i = 0; i < kBatch; ++i) {
      vectors[i] = {source_.data(), bytes};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (monotonic_now() < end) (void)::sendmmsg(socket_, messages, kBatch, 0);
  }
  void far(Test test, Turn turn) override {
    while (!turn.over()) {
      if (test == Test::kTrip) {
        std::byte buffer[kSmallBytes];
        const ssize_t n = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n > 0) (void)::send(socket_, buffer, static_cast<std::size_t>(n), 0);
      } else if (const std::size_t n = receive(test == Test::kLarge ? kLargeBytes : kSmallBytes); n > 0) {
        turn.received(n);
      }
    }
    drain(2_ms);
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) (void)receive(kSmallBytes);
  }

 private:
  static constexpr unsigned kBatch = 64;
  static constexpr std::size_t kMaxSegments = 64;
  static constexpr std::size_t kMaxJoinedBytes = 65535 - 28;
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = port;
    return a;
  }
  std::size_t buffer_bytes() const { return joined_ ? kMaxJoinedBytes : kLargeBytes; }
  // As many messages of `bytes` as one datagram of the kernel holds before it is cut.
  void send_joined(std::uint32_t bytes, Instant end) {
    iovec vector{source_.data(), std::min<std::size_t>(kMaxSegments, kMaxJoinedBytes / bytes) * bytes};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto segment = static_cast<std::uint16_t>(bytes);
    std::memcpy(CMSG_DATA(c), &segment, sizeof segment);
    while (monotonic_now() < end) (void)::sendmsg(socket_, &message, 0);
  }
  // How many messages of `bytes` have come.
  std::size_t receive(std::uint32_t bytes) {
    iovec vectors[kBatch];
    mmsghdr messages[kBatch] = {};
    for (unsigned i = 0; i < kBatch; ++i) {
      vectors[i] = {sink_.data() + i * buffer_bytes(), buffer_bytes()};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int n = ::recvmmsg(socket_, messages, kBatch, MSG_DONTWAIT, nullptr);
    std::size_t whole = 0;
    for (int i = 0; i < n; ++i) whole += messages[i].msg_len / bytes;
    return whole;
  }

  const bool joined_;
  int socket_ = -1;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
};

}  // namespace

std::unique_ptr<System> make_kernel_udp(Shared& shared, bool near, KernelUdp kind) {
  return std::make_unique<Sockets>(shared, near, kind);
}

}  // namespace braid::bench
