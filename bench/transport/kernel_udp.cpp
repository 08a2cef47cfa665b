#include "bench/transport/kernel_udp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench/round_trips.h"

namespace braid::bench {
namespace {

class KernelUdp final : public System {
 public:
  KernelUdp(Shared& shared, bool near) : source_(kLargeBytes) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_GE(socket_, 0);
    const int bytes = 4 << 20;
    (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    (void)::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    sockaddr_in own = loopback(0);
    CHECK_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    socklen_t length = sizeof own;
    CHECK_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &length), 0);
    shared.kernel_port[near ? 0 : 1].store(own.sin_port);
    std::uint16_t port = 0;
    while ((port = shared.kernel_port[near ? 1 : 0].load()) == 0) ::usleep(100);
    const sockaddr_in peer = loopback(port);
    CHECK_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
    sink_.resize(kBatch * kLargeBytes);
  }
  ~KernelUdp() override { ::close(socket_); }

  double trip_us(int trips, Latencies* each) override {
    std::byte buffer[kSmallBytes] = {};
    return round_trip_us(trips, each, [&] {
      CHECK_EQ(::send(socket_, buffer, sizeof buffer, 0), static_cast<ssize_t>(sizeof buffer));
      while (::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT) < 0) {
      }
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
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
      } else if (const int n = receive(); n > 0) {
        turn.received(static_cast<std::uint64_t>(n));
      }
    }
    drain(2_ms);
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) receive();
  }

 private:
  static constexpr unsigned kBatch = 64;
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = port;
    return a;
  }
  int receive() {
    iovec vectors[kBatch];
    mmsghdr messages[kBatch] = {};
    for (unsigned i = 0; i < kBatch; ++i) {
      vectors[i] = {sink_.data() + i * kLargeBytes, kLargeBytes};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    return ::recvmmsg(socket_, messages, kBatch, MSG_DONTWAIT, nullptr);
  }

  int socket_ = -1;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
};

}  // namespace

std::unique_ptr<System> make_kernel_udp(Shared& shared, bool near) {
  return std::make_unique<KernelUdp>(shared, near);
}

}  // namespace braid::bench
