// The interface between clients and daemon: the memory's layout, the doorbell, and the control socket's packets.
#include "proxy/channel/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "proxy/channel/unix_socket.h"

namespace braid::proxy {
namespace {

using ::testing::HasSubstr;

// ---------------------------------------------------------------- geometry

struct Region {
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<Region> regions(const ChannelGeometry& g) {
  std::vector<Region> all;
  for (unsigned e = 0; e < g.endpoints; ++e) {
    all.push_back({g.doorbell(e), g.doorbell(e) + sizeof(Doorbell)});
    for (unsigned p = 0; p < g.proxies; ++p) {
      const std::uint64_t send = g.send_ring(e, p);
      all.push_back({send, send + ring_bytes<SendDescriptor>(g.send_descriptors)});
      all.push_back({g.send_data(e, p), g.send_data(e, p) + g.send_bytes});
      const std::uint64_t arrivals = g.arrival_ring(e, p);
      all.push_back({arrivals, arrivals + ring_bytes<ArrivalDescriptor>(g.arrivals)});
    }
  }
  for (unsigned c = 0; c < g.connections; ++c) all.push_back({g.cell(c), g.cell(c) + sizeof(PortCell)});
  all.push_back({g.receive_buffers(), g.receive_buffers() + g.receive_bytes});
  return all;
}

TEST(Geometry, NoTwoRegionsOverlapAndEachIsAligned) {
  Prng prng(1);
  for (int round = 0; round < 200; ++round) {
    ChannelGeometry g;
    g.endpoints = static_cast<std::uint16_t>(1 + prng.below(5));
    g.proxies = static_cast<std::uint16_t>(1 + prng.below(5));
    g.send_descriptors = 1u << prng.below(10);
    g.send_bytes = static_cast<std::uint32_t>(65536 + 64 * prng.below(100));
    g.arrivals = 1u << prng.below(12);
    g.connections = static_cast<std::uint32_t>(1 + prng.below(70));
    g.receive_bytes = 4096 * (1 + prng.below(64));
    ASSERT_EQ(g.problem(), "") << round;

    std::vector<Region> all = regions(g);
    for (const Region& r : all) ASSERT_EQ(r.begin % kCacheLine, 0u) << round;
    std::sort(all.begin(), all.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < all.size(); ++i) ASSERT_LE(all[i - 1].end, all[i].begin) << round;
    ASSERT_LE(all.back().end, g.total_bytes()) << round;
    ASSERT_EQ(g.receive_buffers() % 4096, 0u);
    ASSERT_EQ(g.total_bytes() % 4096, 0u);
  }
}

TEST(Geometry, ImpossibleGeometryIsExplained) {
  const auto problem = [](auto&& change) {
    ChannelGeometry g;
    change(g);
    return g.problem();
  };
  EXPECT_EQ(ChannelGeometry{}.problem(), "");
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.endpoints = 0; }),
              HasSubstr("endpoints is 0: ask for 1 to"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.endpoints = kMaxEndpoints + 1; }), HasSubstr("endpoints"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.proxies = 0; }), HasSubstr("proxies is 0"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.proxies = kMaxProxies + 1; }), HasSubstr("proxies"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.send_descriptors = 0; }), HasSubstr("power of two"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.send_descriptors = 100; }), HasSubstr("power of two"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.arrivals = 1u << 25; }), HasSubstr("too large"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.send_bytes = 1024; }), HasSubstr("send_bytes is 1024"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.send_bytes = 65537; }), HasSubstr("multiple of 64"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.connections = kMaxConnections + 1; }),
              HasSubstr("connections"));
  EXPECT_THAT(problem([](ChannelGeometry& g) { g.receive_bytes = 5ull << 30; }),
              HasSubstr("more than 4096 MiB"));
  // Together too large, though each is possible; and no sum overflows on the way.
  EXPECT_THAT(problem([](ChannelGeometry& g) {
                g.endpoints = kMaxEndpoints;
                g.proxies = kMaxProxies;
                g.send_bytes = 1u << 30;
                g.arrivals = 1u << 24;
              }),
              HasSubstr("more than 4096 MiB"));
}

// ---------------------------------------------------------------- doorbell

TEST(Doorbell, RingSinceItWasArmedEndsTheSleep) {
  Doorbell bell;
  bell.arm();
  bell.ring();
  const Instant before = monotonic_now();
  bell.wait(20_s);
  EXPECT_LT(monotonic_now() - before, 10_s);
}

TEST(Doorbell, WhilePolledARingChangesNothing) {
  Doorbell bell;
  bell.disarm();
  bell.ring();
  std::uint32_t word = 0;
  static_assert(sizeof bell == sizeof word);
  std::memcpy(&word, &bell, sizeof word);
  EXPECT_EQ(word, 0u);  // unchanged: no wake-up was paid for
  const Instant before = monotonic_now();
  bell.wait(20_ms);
  EXPECT_GE(monotonic_now() - before, 19_ms);
}

TEST(Doorbell, WaitEndsAfterItsTimeout) {
  Doorbell bell;
  bell.arm();
  const Instant before = monotonic_now();
  bell.wait(20_ms);
  EXPECT_GE(monotonic_now() - before, 19_ms);
  bell.wait(Duration());
  bell.wait(Duration::ns(-1));  // a deadline that has passed
}

TEST(Doorbell, WakeWakesEveryWaiterWhetherArmedOrNot) {
  for (const bool armed : {false, true}) {
    Doorbell bell;
    std::atomic<int> awake{0};
    std::vector<std::thread> sleepers;
    if (armed) bell.arm();
    for (int i = 0; i < 3; ++i) {
      sleepers.emplace_back([&] {
        const Instant before = monotonic_now();
        bell.wait(60_s);
        if (monotonic_now() - before < 30_s) ++awake;
      });
    }
    bell.wake();
    for (std::thread& t : sleepers) t.join();
    EXPECT_EQ(awake, 3);
  }
}

// One thread publishes and rings, the other arms, looks again, and waits. A wake-up that is lost is a wait of
// many seconds.
TEST(Doorbell, NoWakeUpIsLostBetweenLookAndSleep) {
  constexpr std::uint32_t kRounds = 5000;
  constexpr Duration kForever = 20_s;
  Doorbell bell;
  std::atomic<std::uint32_t> published{0};
  std::atomic<std::uint32_t> taken{0};
  std::thread proxy([&] {
    Prng prng(5);
    for (std::uint32_t n = 1; n <= kRounds; ++n) {
      while (taken.load(std::memory_order_acquire) + 1 < n) std::this_thread::yield();
      for (std::uint64_t spin = prng.below(200); spin > 0; --spin) asm volatile("");
      published.store(n, std::memory_order_release);
      bell.ring();
    }
  });
  Prng prng(6);
  Duration longest;
  for (std::uint32_t seen = 0; seen < kRounds;) {
    for (std::uint64_t spin = prng.below(200); spin > 0; --spin) asm volatile("");
    bell.arm();
    if (published.load(std::memory_order_acquire) == seen) {
      const Instant before = monotonic_now();
      bell.wait(kForever);
      longest = std::max(longest, monotonic_now() - before);
    }
    bell.disarm();
    seen = published.load(std::memory_order_acquire);
    taken.store(seen, std::memory_order_release);
  }
  proxy.join();
  EXPECT_LT(longest, kForever / 2);
}

// ---------------------------------------------------------------- the control socket

struct Sockets {
  int fd[2];
  Sockets() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0); }
  ~Sockets() {
    for (const int f : fd)
      if (f >= 0) ::close(f);
  }
};

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

TEST(UnixSocket, CarriesAMessageAndADescriptor) {
  Sockets s;
  control::Message sent;
  sent.kind = control::Kind::kListen;
  sent.serial = 7;
  sent.listen = {9, 1, 65536, 1, 2};
  const int passed = ::open("/dev/null", O_RDONLY);
  ASSERT_TRUE(send_message(s.fd[0], sent, passed));
  ASSERT_TRUE(send_message(s.fd[0], sent, -1));
  ::close(passed);

  control::Message got;
  int fd = -1;
  ASSERT_TRUE(receive_message(s.fd[1], &got, &fd));
  EXPECT_EQ(got.kind, control::Kind::kListen);
  EXPECT_EQ(got.serial, 7u);
  EXPECT_EQ(got.listen.window_bytes, 65536u);
  EXPECT_EQ(got.listen.protocol, 2u);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ::close(fd);
  ASSERT_TRUE(receive_message(s.fd[1], &got, &fd));
  EXPECT_EQ(fd, -1);
}

TEST(UnixSocket, MalformedMessageIsRefused) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, sizeof(control::Message) - 1,
                                  sizeof(control::Message) + 1, std::size_t{4096}}) {
    Sockets s;
    const std::vector<std::byte> junk(bytes, std::byte{0x5a});
    ASSERT_EQ(::send(s.fd[0], junk.data(), bytes, 0), static_cast<ssize_t>(bytes));
    control::Message got;
    int fd = -1;
    EXPECT_FALSE(receive_message(s.fd[1], &got, &fd)) << bytes << " bytes";
    EXPECT_EQ(fd, -1);
  }
}

TEST(UnixSocket, ClosedPeerIsAnErrorNotASignal) {
  Sockets s;
  ::close(s.fd[1]);
  s.fd[1] = -1;
  EXPECT_FALSE(send_message(s.fd[0], control::Message(), -1));
  EXPECT_EQ(send_message(s.fd[0], control::Message(), -1, false), Sent::kGone);
  control::Message got;
  int fd = -1;
  EXPECT_FALSE(receive_message(s.fd[0], &got, &fd));
}

TEST(UnixSocket, SenderDoesNotWaitForAReader) {
  Sockets s;
  int sent = 0;
  while (send_message(s.fd[0], control::Message(), -1, false) == Sent::kSent) ASSERT_LT(++sent, 1'000'000);
  EXPECT_GT(sent, 10);
  control::Message got;
  int fd = -1;
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(receive_message(s.fd[1], &got, &fd));
  EXPECT_EQ(send_message(s.fd[0], control::Message(), -1, false), Sent::kSent);
}

// Unexpected descriptors are closed, however many arrive and with whatever message.
TEST(UnixSocket, UnexpectedDescriptorsAreClosed) {
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {1u, 2u, 3u, 20u}) {
    for (const std::size_t bytes : {sizeof(control::Message), std::size_t{3}}) {
      Sockets s;
      std::vector<std::byte> data(bytes);
      iovec part{data.data(), data.size()};
      std::vector<char> space(CMSG_SPACE(sizeof(int) * count));
      msghdr header{};
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      header.msg_control = space.data();
      header.msg_controllen = space.size();
      cmsghdr* const c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int) * count);
      const std::vector<int> fds(count, STDERR_FILENO);
      std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * count);
      ASSERT_GT(::sendmsg(s.fd[0], &header, 0), 0);

      control::Message got;
      int fd = -1;
      EXPECT_EQ(receive_message(s.fd[1], &got, &fd), bytes == sizeof got);
      if (fd >= 0) ::close(fd);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(UnixSocket, AddressesAreRefusedByName) {
  EXPECT_THAT(connect_unix("").error().text, HasSubstr("'' is no address"));
  EXPECT_THAT(connect_unix(std::string(200, 'x')).error().text, HasSubstr("1 to 107 characters"));
  EXPECT_THAT(connect_unix("/nowhere/at/all").error().text, HasSubstr("is its braidd running?"));
  const std::string name = "@braid-channel-test-" + std::to_string(::getpid());
  const Result<int> first = listen_unix(name);
  ASSERT_TRUE(first.ok());
  const Result<int> second = listen_unix(name);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().text, HasSubstr(name));
  EXPECT_THAT(second.error().text, HasSubstr("choose another address"));
  const Result<int> client = connect_unix(name);
  EXPECT_TRUE(client.ok());
  ::close(client.value());
  ::close(first.value());
}

}  // namespace
}  // namespace braid::proxy
