#include "bench/transport/kernel_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench/round_trips.h"

namespace braid::bench {
namespace {

constexpr std::size_t kSystem = 2;  // of Shared::kernel_port

sockaddr_in loopback(std::uint16_t port) {
  return {.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
}

class KernelTcp final : public System {
 public:
  KernelTcp(Shared& shared, bool near) : buffer_(1 << 20) {
    if (near)
      connect(shared);
    else
      accept(shared);
    const int on = 1;
    CHECK_EQ(::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  }
  ~KernelTcp() override { ::close(socket_); }

  double trip_us(int trips, Latencies* each) override {
    return round_trip_us(trips, each, [&] {
      put(kSmallBytes);
      for (std::size_t n = 0; n < kSmallBytes;) n += get();
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
    while (monotonic_now() < end) {
      for (int i = 0; i < 32; ++i) put(bytes);
    }
  }
  void far(Test test, Turn turn) override {
    const std::size_t message = test == Test::kLarge ? kLargeBytes : kSmallBytes;
    std::size_t bytes = 0;
    while (!turn.over()) {
      bytes += get();
      if (bytes < message) continue;
      if (test == Test::kTrip)
        put(kSmallBytes);
      else
        turn.received(bytes / message);
      bytes %= message;
    }
    drain(2_ms);
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) (void)get();
  }

 private:
  void connect(Shared& shared) {
    std::uint16_t port = 0;
    while ((port = shared.kernel_port[kSystem][1].load()) == 0) ::usleep(100);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = loopback(port);
    CHECK_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  void accept(Shared& shared) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = loopback(0);
    CHECK_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    CHECK_EQ(::listen(listener, 1), 0);
    socklen_t length = sizeof own;
    CHECK_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &length), 0);
    shared.kernel_port[kSystem][1].store(own.sin_port);
    socket_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    CHECK_GE(socket_, 0);
    ::close(listener);
  }
  void put(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = ::send(socket_, buffer_.data(), bytes - done, MSG_NOSIGNAL);
      CHECK_GT(n, 0);
      done += static_cast<std::size_t>(n);
    }
  }
  // What is there.
  std::size_t get() {
    const ssize_t n = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

  int socket_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<System> make_kernel_tcp(Shared& shared, bool near) {
  return std::make_unique<KernelTcp>(shared, near);
}

}  // namespace braid::bench
