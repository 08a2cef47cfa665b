#include "proxy/udp/udp_queue.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "stack/wire/flow.h"
#include "tests/nic/frames.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;
using ::testing::HasSubstr;

// Ports of this process in its own part of the loopback network, so that tests that run at once do not meet.
UdpEnd end(std::uint8_t host, std::uint16_t port = 7000) {
  const auto process = static_cast<std::uint32_t>(::getpid());
  return {Ipv4Address(0x7f000000u + (1 + process % 65000) * 256 + host), port};
}

std::unique_ptr<UdpQueue> open(const UdpEnd& own, bool joins = true,
                               std::shared_ptr<SocketWaker> waker = nullptr) {
  Result<std::unique_ptr<UdpQueue>> queue =
      UdpQueue::open({.own = own, .max_frame_bytes = 9014, .joins = joins}, std::move(waker));
  CHECK(queue.ok());
  return std::move(*queue);
}

// The datagram with this number, of so many bytes.
void write(TxFrame& frame, const UdpEnd& from, const UdpEnd& to, std::uint64_t number, std::uint32_t bytes) {
  const stack::FlowHeader header(station_of(to.address), station_of(from.address),
                                 {.source = from.address,
                                  .destination = to.address,
                                  .source_port = from.port,
                                  .destination_port = to.port});
  std::byte* const payload = frame.data + UdpFrames::kHeaderBytes;
  for (std::uint32_t b = 0; b < bytes; ++b) payload[b] = test::pattern(number, b);
  store_be<std::uint64_t>(payload, number);
  header.write(frame.data, bytes, stack::checksum_add(0, {payload, bytes}));
  frame.length = static_cast<std::uint32_t>(UdpFrames::kHeaderBytes + bytes);
}

// Sends datagrams with the numbers first, first + 1, ... in one burst; returns how many had room.
std::size_t send(UdpQueue& queue, const UdpEnd& from, const UdpEnd& to, std::uint64_t first,
                 std::size_t count, auto bytes_of) {
  std::array<TxFrame, kMaxBurst> frames;
  const std::size_t offered = queue.reserve(std::span(frames).first(count));
  for (std::size_t i = 0; i < offered; ++i) write(frames[i], from, to, first + i, bytes_of(first + i));
  queue.commit(std::span(frames).first(offered));
  return offered;
}

struct Arrival {
  std::uint64_t number;
  std::size_t bytes;
  std::uint16_t from_port;
  bool operator==(const Arrival&) const = default;
};

// Everything that comes until `count` frames have come or nothing comes for a second; every byte is verified.
std::vector<Arrival> take(UdpQueue& queue, std::size_t count, std::size_t burst = kMaxBurst) {
  std::vector<Arrival> arrivals;
  std::array<MutableBytes, kMaxBurst> frames;
  for (Instant last = monotonic_now(); arrivals.size() < count && monotonic_now() - last < 1_s;) {
    const std::size_t n = queue.receive(std::span(frames).first(burst));
    if (n > 0) last = monotonic_now();
    for (const MutableBytes& frame : std::span(frames).first(n)) {
      EXPECT_TRUE(test::ip_checksum_holds(frame));
      EXPECT_TRUE(test::udp_checksum_holds(frame));
      const std::byte* const payload = frame.data() + UdpFrames::kHeaderBytes;
      const std::size_t bytes = frame.size() - UdpFrames::kHeaderBytes;
      const auto number = load_be<std::uint64_t>(payload);
      for (std::uint32_t b = 8; b < bytes; ++b) EXPECT_EQ(payload[b], test::pattern(number, b)) << number;
      arrivals.push_back({number, bytes, load_be<std::uint16_t>(frame.data() + 34)});
    }
  }
  return arrivals;
}

class UdpQueueTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Joined, UdpQueueTest, ::testing::Bool());

TEST_P(UdpQueueTest, CarriesDatagramsOfAllLengthsInOrder) {
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a, GetParam()), to = open(b, GetParam());
  // Runs of one length, shorter last ones, and lengths that nothing can be joined with.
  const auto bytes_of = [](std::uint64_t n) -> std::uint32_t {
    return n % 50 < 30 ? 1400 : n % 50 < 35 ? static_cast<std::uint32_t>(100 + n) : 8972;
  };
  std::vector<Arrival> all, expected;
  for (std::uint64_t n = 0; n < 600;) {
    const std::size_t sent = send(*from, a, b, n, kMaxBurst, bytes_of);
    for (std::size_t i = 0; i < sent; ++i) expected.push_back({n + i, bytes_of(n + i), a.port});
    n += sent;
    const std::vector<Arrival> some = take(*to, sent);
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_EQ(all, expected);
  EXPECT_EQ(from->transmit_drops(), 0u);
}

TEST_P(UdpQueueTest, GivesOutWhatTheKernelHasJoinedInSmallBursts) {
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a, GetParam()), to = open(b, GetParam());
  ASSERT_EQ(send(*from, a, b, 0, 32, [](std::uint64_t) { return 1000; }), 32u);
  const std::vector<Arrival> arrivals = take(*to, 32, 5);
  ASSERT_EQ(arrivals.size(), 32u);
  for (std::uint64_t n = 0; n < 32; ++n) EXPECT_EQ(arrivals[n], (Arrival{n, 1000, a.port}));
}

TEST(UdpQueue, PeersShareASocketAndProxiesDoNot) {
  const UdpEnd a = end(1), b = end(2), c0 = end(3), c1 = end(3, 7001);
  const auto qa = open(a), qb = open(b), q0 = open(c0), q1 = open(c1);
  send(*qa, a, c0, 10, 2, [](std::uint64_t) { return 100; });
  send(*qb, b, c0, 20, 2, [](std::uint64_t) { return 100; });
  send(*qb, b, c1, 30, 1, [](std::uint64_t) { return 100; });
  EXPECT_EQ(take(*q0, 4).size(), 4u);
  const std::vector<Arrival> other = take(*q1, 1);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].number, 30u);
}

// One burst to several peers, in turn: nothing can be joined, and nothing is lost or goes to another.
TEST(UdpQueue, BurstToManyPeersIsDivided) {
  const UdpEnd a = end(1);
  const auto from = open(a);
  std::vector<std::unique_ptr<UdpQueue>> peers;
  for (std::uint8_t k = 0; k < 4; ++k) peers.push_back(open(end(static_cast<std::uint8_t>(2 + k))));
  std::array<TxFrame, kMaxBurst> frames;
  ASSERT_EQ(from->reserve(frames), kMaxBurst);
  for (std::size_t i = 0; i < kMaxBurst; ++i) {
    const UdpEnd to = end(static_cast<std::uint8_t>(2 + i % 4));
    std::byte* const payload = frames[i].data + UdpFrames::kHeaderBytes;
    store_be<std::uint64_t>(payload, i);
    stack::FlowHeader(
        station_of(to.address), station_of(a.address),
        {.source = a.address, .destination = to.address, .source_port = a.port, .destination_port = to.port})
        .write(frames[i].data, 8, stack::checksum_add(0, {payload, 8}));
    frames[i].length = UdpFrames::kHeaderBytes + 8;
  }
  from->commit(frames);
  for (std::uint64_t k = 0; k < 4; ++k) {
    const std::vector<Arrival> arrivals = take(*peers[k], 8);
    ASSERT_EQ(arrivals.size(), 8u);
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(arrivals[i].number, k + 4 * i);
  }
}

TEST(UdpQueue, FrameThatIsNoDatagramIsADrop) {
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a), to = open(b);
  ASSERT_EQ(test::send_numbered(*from, 0, 3), 3u);
  EXPECT_EQ(from->transmit_drops(), 3u);
  send(*from, a, b, 7, 1, [](std::uint64_t) { return 64; });
  ASSERT_EQ(take(*to, 1).size(), 1u);
  EXPECT_EQ(from->transmit_drops(), 3u);
}

TEST(UdpQueue, WhatFindsNoRoomIsCounted) {
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a, false);
  const auto to = UdpQueue::open({.own = b, .buffer_bytes = 1, .joins = false}, nullptr);
  ASSERT_TRUE(to) << to.error().text;
  EXPECT_EQ((*to)->receive_drops(), 0u);
  for (std::uint64_t n = 0; n < 512; n += 8)
    ASSERT_EQ(send(*from, a, b, n, 8, [](std::uint64_t) { return 1000; }), 8u);
  const std::uint64_t dropped = (*to)->receive_drops();
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(take(**to, 512 - dropped).size(), 512 - dropped);
  EXPECT_EQ((*to)->receive_drops(), dropped);
}

TEST(UdpQueue, ClosedPortIsCountedAndHarmsNoOtherPeer) {
  const UdpEnd a = end(1), b = end(2), nobody = end(3);
  const auto from = open(a), to = open(b);
  for (std::uint64_t n = 0; n < 20; ++n) {
    send(*from, a, nobody, n, 1, [](std::uint64_t) { return 64; });
    ASSERT_EQ(send(*from, a, b, n, 1, [](std::uint64_t) { return 64; }), 1u);
    const std::vector<Arrival> arrivals = take(*to, 1);
    ASSERT_EQ(arrivals.size(), 1u) << n;
    EXPECT_EQ(arrivals[0].number, n);
  }
  std::array<MutableBytes, 1> none;
  EXPECT_EQ(from->receive(none), 0u);
  EXPECT_GT(from->icmp_errors(), 0u);
  EXPECT_EQ(from->transmit_drops(), 0u);
}

// What any program of the kernel's sockets may send.
TEST(UdpQueue, EmptyAndTooLongDatagramsAreIgnored) {
  const UdpEnd b = end(2);
  const auto to = open(b);
  const int other = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(other, 0);
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(b.port),
                            .sin_addr = {htonl(b.address.value())},
                            .sin_zero = {}};
  std::vector<std::byte> bytes(60'000);
  const auto send_bytes = [&](std::size_t n) {
    return ::sendto(other, bytes.data(), n, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  ASSERT_EQ(send_bytes(0), 0);
  ASSERT_EQ(send_bytes(60'000), 60'000);
  ASSERT_EQ(send_bytes(9014 - 42 + 1), 9014 - 42 + 1);
  for (std::uint32_t b2 = 8; b2 < 100; ++b2) bytes[b2] = test::pattern(0, b2);
  ASSERT_EQ(send_bytes(100), 100);
  ::close(other);
  const std::vector<Arrival> arrivals = take(*to, 1);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].bytes, 100u);
}

TEST(UdpQueue, SocketsErrorsNameTheCure) {
  const UdpEnd taken = end(1);
  const auto first = open(taken);
  const auto second = UdpQueue::open({.own = taken}, nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(
      second.error().text,
      HasSubstr(
          "another process has UDP port 7000; set another udp_port; a 'braid run' that is begun again takes others"));
  const auto elsewhere = UdpQueue::open({.own = {Ipv4Address(192, 0, 2, 77), 7000}}, nullptr);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(elsewhere.error().text, HasSubstr("this host has no address 192.0.2.77"));
}

TEST(UdpQueue, PathMtuIsThatOfTheRoute) {
  const Result<std::uint32_t> loopback = path_mtu(end(1).address, end(2).address);
  ASSERT_TRUE(loopback.ok());
  EXPECT_EQ(*loopback, 65535u);
  EXPECT_FALSE(path_mtu(Ipv4Address(192, 0, 2, 77), end(2).address).ok());
  // From the loopback interface other hosts are not reached.
  const Result<std::uint32_t> none = path_mtu(Ipv4Address(127, 0, 0, 1), Ipv4Address(192, 0, 2, 77));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, HasSubstr("see 'ip route get 192.0.2.77 from 127.0.0.1 ipproto udp'"));
}

// Sleeps as a proxy does.
struct Sleeper {
  UdpQueue& queue;
  Instant deadline;
  WakeWait::Outcome outcome = WakeWait::Outcome::kTimeout;
  bool found = false;
  void announce() { queue.announce_sleep(); }
  void barrier() { ASSERT_TRUE(WakeBarrier::execute().ok()); }
  bool look() {
    std::array<MutableBytes, kMaxBurst> frames;
    return found = queue.receive(frames) > 0;
  }
  void wait() {
    WakeWord* const word = queue.wake_word();
    outcome = WakeWait::wait({&word, 1}, deadline);
  }
  void withdraw() { queue.withdraw_sleep(); }
};

// How many files all instances of epoll of this process watch.
std::size_t watched_files() {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(file, gone) != "anon_inode:[eventpoll]") continue;
    std::ifstream about("/proc/self/fdinfo/" + file.path().filename().string());
    for (std::string line; std::getline(about, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

TEST(UdpQueue, WakerWatchesNoSocketOfABusyProxy) {
  ASSERT_TRUE(WakeBarrier::join().ok());
  if (const Result<void> probed = WakeWait::probe(); !probed) GTEST_SKIP() << probed.error().text;
  std::shared_ptr<SocketWaker> waker = std::move(*SocketWaker::start());
  const std::size_t alone = watched_files();
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a), to = open(b, true, waker);
  EXPECT_EQ(watched_files(), alone + 1);
  std::array<MutableBytes, kMaxBurst> frames;
  for (std::uint64_t n = 0; n < 3; ++n) {
    for (int polls = 0; polls < 1000; ++polls) (void)to->receive(frames);
    EXPECT_EQ(watched_files(), alone);
    std::thread sender([&] { send(*from, a, b, n, 1, [](std::uint64_t) { return 64; }); });
    Sleeper sleeper{*to, monotonic_now() + 20_s};
    sleep_until_woken(sleeper);
    EXPECT_EQ(watched_files(), alone + 1);
    sender.join();
    EXPECT_TRUE(sleeper.found || sleeper.outcome == WakeWait::Outcome::kWoken) << n;
    (void)to->receive(frames);
  }
}

TEST(UdpQueue, ArrivalWakesASleeper) {
  ASSERT_TRUE(WakeBarrier::join().ok());
  if (const Result<void> probed = WakeWait::probe(); !probed) GTEST_SKIP() << probed.error().text;
  std::shared_ptr<SocketWaker> waker = std::move(*SocketWaker::start());
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a), to = open(b, true, waker);
  for (std::uint64_t n = 0; n < 50; ++n) {
    std::thread sender([&] { send(*from, a, b, n, 1, [](std::uint64_t) { return 64; }); });
    Sleeper sleeper{*to, monotonic_now() + 20_s};
    sleep_until_woken(sleeper);
    sender.join();
    EXPECT_TRUE(sleeper.found || sleeper.outcome == WakeWait::Outcome::kWoken) << n;
    if (!sleeper.found) {
      EXPECT_EQ(take(*to, 1).size(), 1u);
    }
  }
}

// sendmmsg() to a closed port and then to an open one meets the ICMP error of the first at the second, and returns neither.
TEST(UdpQueue, IcmpErrorThatNoCallReturnsEndsNoSleep) {
  ASSERT_TRUE(WakeBarrier::join().ok());
  if (const Result<void> probed = WakeWait::probe(); !probed) GTEST_SKIP() << probed.error().text;
  std::shared_ptr<SocketWaker> waker = std::move(*SocketWaker::start());
  const UdpEnd a = end(1), b = end(2), nobody = end(3);
  const auto from = open(a, false, waker), to = open(b);
  std::array<TxFrame, 2> frames;
  ASSERT_EQ(from->reserve(frames), 2u);
  write(frames[0], a, nobody, 0, 64);
  write(frames[1], a, b, 1, 64);
  from->commit(frames);
  EXPECT_EQ(take(*to, 1).size(), 1u);
  Sleeper sleeper{*from, monotonic_now() + 100_ms};
  sleep_until_woken(sleeper);
  EXPECT_EQ(sleeper.outcome, WakeWait::Outcome::kTimeout);
  EXPECT_EQ(from->icmp_errors(), 1u);
}

// A host of the test's own: the thread that calls this is alone in a network namespace. Empty: it is.
std::string enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0) return std::strerror(errno);
  return std::system(
             "ip link set lo up && ip address add 10.1.0.1/32 dev lo && ip address add 10.1.0.2/32 dev lo") ==
                 0
             ? ""
             : "ip (iproute2) does not work";
}

TEST(UdpQueue, SocketFollowsItsHostToAnotherAddress) {  // SE-8
  ASSERT_TRUE(WakeBarrier::join().ok());
  std::string missing;
  std::thread host([&] {
    missing = enter_own_network();
    if (!missing.empty()) return;
    std::shared_ptr<SocketWaker> waker = std::move(*SocketWaker::start());
    const UdpEnd a{Ipv4Address(10, 1, 0, 1), 7001}, b{Ipv4Address(10, 1, 0, 2), 7000};
    for (const bool joins : {false, true}) {
      const auto mover = open(a, joins, waker), other = open(b, joins, waker);
      const auto bytes = [](std::uint64_t) { return 64; };
      send(*mover, a, b, 0, 4, bytes);
      EXPECT_EQ(take(*other, 4).size(), 4u);
      EXPECT_EQ(mover->address_changes(), 0u);

      ASSERT_EQ(std::system("ip address del 10.1.0.1/32 dev lo"), 0);
      mover->announce_sleep();  // the other socket has to be armed, too
      mover->withdraw_sleep();
      send(*mover, a, b, 4, 8, bytes);
      const std::vector<Arrival> arrivals = take(*other, 8);
      ASSERT_EQ(arrivals.size(), 8u) << "what the old socket could not send leaves by the new one";
      EXPECT_EQ(mover->transmit_drops(), 0u);
      EXPECT_EQ(mover->address_changes(), 1u);

      const UdpEnd elsewhere{*source_to(b.address), a.port};
      mover->announce_sleep();
      send(*other, b, elsewhere, 12, 2, bytes);
      EXPECT_EQ(take(*mover, 2).size(), 2u) << "frames have the address that the stack knows";
      mover->withdraw_sleep();
      EXPECT_EQ(std::system("ip address add 10.1.0.1/32 dev lo"), 0);
    }
  });
  host.join();
  if (!missing.empty()) GTEST_SKIP() << "no network namespace: " << missing;
}

TEST(UdpQueue, QueueMayGoWhileItsSocketIsArmed) {
  ASSERT_TRUE(WakeBarrier::join().ok());
  std::shared_ptr<SocketWaker> waker = std::move(*SocketWaker::start());
  const UdpEnd a = end(1), b = end(2);
  const auto from = open(a);
  for (std::uint64_t n = 0; n < 100; ++n) {
    auto to = open(b, true, waker);
    to->announce_sleep();
    send(*from, a, b, n, 1, [](std::uint64_t) { return 64; });
    to.reset();
  }
}

}  // namespace
}  // namespace braid::proxy
