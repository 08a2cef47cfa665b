#include "proxy/xdp/xdp_wire.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "proxy/packet/kernel_paths.h"
#include "proxy/packet/packet_wire.h"
#include "proxy/udp/udp_frames.h"
#include "proxy/xdp/xdp_program.h"
#include "proxy/xdp/xdp_queue.h"
#include "stack/wire/flow.h"
#include "tests/nic/frames.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;
using stack::MacAddress;
using ::testing::HasSubstr;

constexpr std::uint16_t kPort = 7700;
constexpr Ipv4Address kA(10, 66, 0, 1), kB(10, 66, 0, 2);

// Two namespaces joined by a veth pair of two queues: xdp-a with 10.66.0.1, and xdp-b with 10.66.0.2.
class XdpWireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: network namespaces and XDP programs";
    const int socket = ::socket(AF_XDP, SOCK_RAW, 0);
    if (socket < 0) GTEST_SKIP() << "this kernel has no AF_XDP sockets";
    ::close(socket);
    run("ip netns add " + a_);
    run("ip netns add " + b_);
    run("ip link add xdp-a netns " + a_ + " numtxqueues 2 numrxqueues 2 type veth peer name xdp-b netns " +
        b_ + " numtxqueues 2 numrxqueues 2");
    for (const auto& [space, name, address] : {std::tuple{a_, "xdp-a", kA}, std::tuple{b_, "xdp-b", kB}}) {
      run("ip -n " + space + " link set lo up");
      run("ip -n " + space + " address add " + address.to_string() + "/24 dev " + name);
      run("ip -n " + space + " link set " + name + " up");
    }
    if (is_missing_) GTEST_SKIP() << "no veth pair between network namespaces here";
  }
  void TearDown() override {
    run("ip netns del " + a_ + " 2>&-");
    run("ip netns del " + b_ + " 2>&-");
  }

  void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) is_missing_ = true;
  }
  // The calling thread works in the namespace; what it opens stays there.
  static void enter(const std::string& space) {
    const int fd = ::open(("/var/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0) << space;
    ASSERT_EQ(::setns(fd, CLONE_NEWNET), 0);
    ::close(fd);
  }
  Result<KernelWire> open(Ipv4Address own, Ipv4Address peer, unsigned proxies = 1,
                          std::uint32_t mtu_bytes = 1500) {
    enter(own == kA ? a_ : b_);
    return open_xdp_wire({own, kPort, proxies, mtu_bytes, {peer}}, nullptr);
  }
  Result<KernelWire> open_packets(Ipv4Address own, Ipv4Address peer, unsigned proxies = 1) {
    enter(own == kA ? a_ : b_);
    return open_packet_wire({own, kPort, proxies, 1500, {peer}}, nullptr);
  }
  std::string refusal(unsigned proxies = 1, std::uint32_t mtu_bytes = 1500, Ipv4Address own = kA,
                      Ipv4Address peer = kB) {
    enter(a_);
    const Result<KernelWire> wire = open_xdp_wire({own, kPort, proxies, mtu_bytes, {peer}}, nullptr);
    return wire ? "" : wire.error().text;
  }
  bool has_program(const char* interface) {
    std::uint32_t id = 0;
    EXPECT_EQ(::bpf_xdp_query_id(static_cast<int>(::if_nametoindex(interface)), 0, &id), 0);
    return id != 0;
  }
  // Attached as `ip link` does it: nobody holds it.
  void leave_program(const char* name, const char* interface) {
    const std::array<bpf_insn, 2> pass{
        bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    const int program = ::bpf_prog_load(BPF_PROG_TYPE_XDP, name, "MIT", pass.data(), pass.size(), nullptr);
    ASSERT_GE(program, 0);
    ASSERT_EQ(::bpf_xdp_attach(static_cast<int>(::if_nametoindex(interface)), program, 0, nullptr), 0);
    ::close(program);
  }

  const std::string a_ = "braid-xdp-" + std::to_string(::getpid()) + "-a";
  const std::string b_ = "braid-xdp-" + std::to_string(::getpid()) + "-b";
  bool is_missing_ = false;
};

std::vector<std::byte> datagram(Ipv4Address to, std::uint16_t port, std::size_t bytes = 32) {
  std::vector<std::byte> frame(stack::kFlowHeaderBytes + bytes);
  const stack::FlowHeader header(
      MacAddress(2, 0, 0, 0, 0, 9), MacAddress(2, 0, 0, 0, 0, 8),
      {.source = kB, .destination = to, .source_port = 9, .destination_port = port});
  header.write(frame.data(), bytes, 0);
  return frame;
}

// Sends datagrams with the numbers `first` and so on to a port of `to`; returns how many had room.
std::size_t send(NicQueue& queue, Ipv4Address from, Ipv4Address to, std::uint16_t port, std::uint64_t first,
                 std::size_t count, std::size_t bytes) {
  std::array<TxFrame, kMaxBurst> frames;
  const std::size_t offered = queue.reserve(std::span(frames).first(count));
  const stack::FlowHeader header(
      station_of(to), station_of(from),
      {.source = from, .destination = to, .source_port = kPort, .destination_port = port});
  for (std::size_t i = 0; i < offered; ++i) {
    std::byte* const payload = frames[i].data + stack::kFlowHeaderBytes;
    for (std::uint32_t b = 8; b < bytes; ++b) payload[b] = test::pattern(first + i, b);
    store_be<std::uint64_t>(payload, first + i);
    header.write(frames[i].data, bytes, stack::checksum_add(0, {payload, bytes}));
    frames[i].length = static_cast<std::uint32_t>(stack::kFlowHeaderBytes + bytes);
  }
  queue.commit(std::span(frames).first(offered));
  return offered;
}

struct Arrivals {
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint16_t> ports;
  MacAddress to;
};

// What comes until `count` frames have come or nothing comes for a second; every byte is verified.
Arrivals take(NicQueue& queue, std::size_t count, std::size_t bytes) {
  Arrivals all;
  std::array<MutableBytes, kMaxBurst> frames;
  for (Instant last = monotonic_now();
       all.numbers.size() < count && monotonic_now() - last < Duration::s(1);) {
    const std::size_t n = queue.receive(frames);
    if (n > 0) last = monotonic_now();
    for (const MutableBytes& frame : std::span(frames).first(n)) {
      EXPECT_TRUE(test::ip_checksum_holds(frame));
      EXPECT_TRUE(test::udp_checksum_holds(frame));
      EXPECT_EQ(frame.size(), stack::kFlowHeaderBytes + bytes);
      const std::byte* const payload = frame.data() + stack::kFlowHeaderBytes;
      const auto number = load_be<std::uint64_t>(payload);
      for (std::uint32_t b = 8; b < bytes; ++b) EXPECT_EQ(payload[b], test::pattern(number, b));
      all.numbers.push_back(number);
      all.ports.push_back(load_be<std::uint16_t>(frame.data() + 36));
      all.to = MacAddress::load(frame.data());
    }
  }
  return all;
}

TEST_F(XdpWireTest, ItsProgramTakesWholeDatagramsToTheProxiesAndNothingElse) {
  enter(a_);
  auto loaded = XdpProgram::load({kA, kPort, 3}, 1);
  ASSERT_TRUE(loaded) << loaded.error().text;
  const std::shared_ptr<XdpProgram> program(std::move(*loaded));
  const int descriptor = program->descriptor();
  const auto verdict = [&](std::vector<std::byte> frame) {
    bpf_test_run_opts run{};
    run.sz = sizeof run;
    run.data_in = frame.data();
    run.data_size_in = static_cast<std::uint32_t>(frame.size());
    run.repeat = 1;
    EXPECT_EQ(::bpf_prog_test_run_opts(descriptor, &run), 0) << frame.size();
    return static_cast<int>(run.retval);
  };
  EXPECT_EQ(verdict(datagram(kA, kPort)), XDP_PASS) << "no socket serves the queue yet";
  const auto paths = KernelPaths::start({"xdp-a", kA, kPort, 3, {}}, Duration());
  ASSERT_TRUE(paths) << paths.error().text;
  const auto queue = XdpQueue::open({.interface = "xdp-a"}, *paths, program, nullptr);
  ASSERT_TRUE(queue) << queue.error().text;
  for (const std::uint16_t port : {kPort, std::uint16_t{kPort + 1}, std::uint16_t{kPort + 2}})
    EXPECT_EQ(verdict(datagram(kA, port)), XDP_REDIRECT) << port;
  EXPECT_EQ(verdict(datagram(kA, kPort, 0)), XDP_REDIRECT) << "no payload";
  EXPECT_EQ(verdict(datagram(kA, kPort, 1458)), XDP_REDIRECT);

  struct Case {
    const char* what;
    std::function<void(std::vector<std::byte>&)> change;
  };
  const auto put = [](std::size_t at, unsigned value) {
    return [=](std::vector<std::byte>& f) { f[at] = static_cast<std::byte>(value); };
  };
  const auto put16 = [](std::size_t at, std::uint16_t value) {
    return [=](std::vector<std::byte>& f) { store_be<std::uint16_t>(&f[at], value); };
  };
  for (const Case& c :
       std::vector<Case>{{"the port below", put16(36, kPort - 1)},
                         {"the port above", put16(36, kPort + 3)},
                         {"port 0", put16(36, 0)},
                         {"the highest port", put16(36, 65535)},
                         {"another address", put(33, 9)},
                         {"ARP", put16(12, 0x0806)},
                         {"IPv6", put16(12, 0x86dd)},
                         {"a VLAN's tag", put16(12, 0x8100)},
                         {"IP options", put(14, 0x46)},
                         {"IP version 6", put(14, 0x65)},
                         {"TCP", put(23, 6)},
                         {"ICMP", put(23, 1)},
                         {"the first fragment", put16(20, 0x2000)},
                         {"the last fragment", put16(20, 0x0001)},
                         {"a fragment far behind", put16(20, 0x1fff)},
                         {"one byte less than the headers", [](std::vector<std::byte>& f) { f.resize(41); }},
                         {"an Ethernet header alone", [](std::vector<std::byte>& f) { f.resize(14); }}}) {
    std::vector<std::byte> frame = datagram(kA, kPort);
    c.change(frame);
    EXPECT_EQ(verdict(frame), XDP_PASS) << c.what;
  }
  std::vector<std::byte> whole = datagram(kA, kPort);
  store_be<std::uint16_t>(&whole[20], 0x4000);
  EXPECT_EQ(verdict(whole), XDP_REDIRECT) << "DF";
}

TEST_F(XdpWireTest, CarriesFramesToTheStationThatTheKernelKnows) {
  auto a = open(kA, kB), b = open(kB, kA);
  ASSERT_TRUE(a) << a.error().text;
  ASSERT_TRUE(b) << b.error().text;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1458}}) {
    std::vector<std::uint64_t> expected;
    Arrivals got;
    // More than there are frames in memory.
    for (std::uint64_t next = 0; next < 6000;) {
      const std::size_t sent = send(*a->queues[0], kA, kB, kPort, next, kMaxBurst, bytes);
      ASSERT_GT(sent, 0u);
      next += sent;
      const Arrivals some = take(*b->queues[0], sent, bytes);
      got.to = some.to;
      got.numbers.insert(got.numbers.end(), some.numbers.begin(), some.numbers.end());
    }
    for (std::uint64_t n = 0; n < got.numbers.size(); ++n) expected.push_back(n);
    EXPECT_GE(got.numbers.size(), 6000u);
    EXPECT_EQ(got.numbers, expected);
    EXPECT_EQ(got.to, b->mac);
  }
  ASSERT_EQ(send(*b->queues[0], kB, kA, kPort, 7, 1, 100), 1u);
  EXPECT_EQ(take(*a->queues[0], 1, 100).numbers, std::vector<std::uint64_t>{7});
  EXPECT_EQ(a->queues[0]->transmit_drops(), 0u);
  EXPECT_TRUE(a->queues[0]->link_up());
}

TEST_F(XdpWireTest, WhatComesByTheQueueOfAnotherProxyIsItsProxysToHandOver) {
  auto a = open(kA, kB, 2), b = open(kB, kA, 2);
  ASSERT_TRUE(a) << a.error().text;
  ASSERT_TRUE(b) << b.error().text;
  ASSERT_EQ(b->queues.size(), 2u);
  for (const unsigned queue : {0u, 1u}) {
    const auto wrong = static_cast<std::uint16_t>(kPort + 1 - queue);
    ASSERT_EQ(send(*a->queues[queue], kA, kB, wrong, 0, 20, 64), 20u);
    const Arrivals got = take(*b->queues[queue], 20, 64);
    EXPECT_EQ(got.ports, std::vector<std::uint16_t>(20, wrong));
  }
}

TEST_F(XdpWireTest, WhatCannotLeaveIsCounted) {
  auto a = open(kA, kB);
  ASSERT_TRUE(a) << a.error().text;
  NicQueue& queue = *a->queues[0];
  send(queue, kA, Ipv4Address(10, 66, 0, 3), kPort, 0, 2, 64);  // no peer
  EXPECT_EQ(queue.transmit_drops(), 2u);
  std::array<TxFrame, 1> frame;
  ASSERT_EQ(queue.reserve(frame), 1u);
  test::write_numbered(frame[0].data, 60, 1);  // no IP
  frame[0].length = 60;
  queue.commit(frame);
  EXPECT_EQ(queue.transmit_drops(), 3u);
  run("ip -n " + b_ + " link set xdp-b down");
  const Instant begin = monotonic_now();
  while (queue.link_up() && monotonic_now() - begin < Duration::s(10)) ::usleep(1000);
  EXPECT_FALSE(queue.link_up());
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(send(queue, kA, kB, kPort, 0, kMaxBurst, 64), kMaxBurst) << i;
  EXPECT_EQ(queue.transmit_drops(), 3u + 100 * kMaxBurst);
}

TEST_F(XdpWireTest, OtherTrafficReachesTheKernel) {
  auto a = open(kA, kB), b = open(kB, kA);
  ASSERT_TRUE(a && b);
  enter(b_);
  const int receiver = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = swapped(std::uint16_t{kPort + 1});
  at.sin_addr.s_addr = swapped(kB.value());
  ASSERT_EQ(::bind(receiver, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ASSERT_EQ(::setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  enter(a_);
  const int sender = ::socket(AF_INET, SOCK_DGRAM, 0);
  ASSERT_EQ(::sendto(sender, "word", 4, 0, reinterpret_cast<sockaddr*>(&at), sizeof at), 4);
  std::array<char, 8> word{};
  EXPECT_EQ(::recv(receiver, word.data(), word.size(), 0), 4);
  EXPECT_STREQ(word.data(), "word");
  ::close(sender);
  ::close(receiver);
  EXPECT_EQ(std::system(("ip netns exec " + a_ + " ping -c 1 -W 5 10.66.0.2 >/dev/null").c_str()), 0);
}

TEST_F(XdpWireTest, WhatFindsNoRoomIsCounted) {
  for (const bool is_packet : {false, true}) {
    SCOPED_TRACE(is_packet);
    auto b = is_packet ? open_packets(kB, kA) : open(kB, kA);
    ASSERT_TRUE(b) << b.error().text;
    auto a = is_packet ? open_packets(kA, kB) : open(kA, kB);
    ASSERT_TRUE(a) << a.error().text;
    NicQueue &from = *a->queues[0], &to = *b->queues[0];
    EXPECT_EQ(to.receive_drops(), 0u);
    std::uint64_t sent = 0;
    for (const Instant begin = monotonic_now();
         to.receive_drops() == 0 && monotonic_now() - begin < Duration::s(20);)
      sent += send(from, kA, kB, kPort, sent, kMaxBurst, 64);
    const std::uint64_t dropped = to.receive_drops();
    EXPECT_GT(dropped, 0u);
    EXPECT_EQ(take(to, sent - dropped, 64).numbers.size(), sent - dropped);
    EXPECT_EQ(from.transmit_drops(), 0u);
  }
}

TEST_F(XdpWireTest, SocketsOfAfPacketTakeWholeDatagramsToTheirProxyAndTheKernelAnswersNone) {
  auto a = open_packets(kA, kB, 2), b = open_packets(kB, kA, 2);
  ASSERT_TRUE(a) << a.error().text;
  ASSERT_TRUE(b) << b.error().text;
  ASSERT_EQ(a->queues.size(), 2u);
  std::uint64_t number = 0;
  for (const auto& [from, to, sender, receiver] :
       {std::tuple{kA, kB, &*a, &*b}, std::tuple{kB, kA, &*b, &*a}}) {
    for (const std::uint16_t proxy : {std::uint16_t{0}, std::uint16_t{1}}) {
      NicQueue& queue = *receiver->queues[proxy];
      ASSERT_EQ(
          send(*sender->queues[0], from, to, static_cast<std::uint16_t>(kPort + proxy), number, 20, 1458),
          20u);
      const Arrivals arrivals = take(queue, 20, 1458);
      ASSERT_EQ(arrivals.numbers.size(), 20u);
      EXPECT_EQ(arrivals.numbers.front(), number);
      EXPECT_EQ(arrivals.ports.front(), kPort + proxy);
      number += 20;
      // None of these is the proxy's.
      const std::vector<std::pair<std::size_t, unsigned>> changes{{14, 0x46}, {20, 0x20}, {21, 1},
                                                                  {23, 6},    {33, 77},   {37, 9}};
      for (const auto& [at, value] : changes) {
        std::array<TxFrame, 1> frame;
        ASSERT_EQ(sender->queues[0]->reserve(frame), 1u);
        const std::vector<std::byte> plain = datagram(to, static_cast<std::uint16_t>(kPort + proxy));
        std::copy(plain.begin(), plain.end(), frame[0].data);
        frame[0].length = static_cast<std::uint32_t>(plain.size());
        frame[0].data[at] = static_cast<std::byte>(value);
        sender->queues[0]->commit(frame);
      }
      ASSERT_EQ(send(*sender->queues[0], from, to, static_cast<std::uint16_t>(kPort + proxy), number, 1, 64),
                1u);
      EXPECT_EQ(take(queue, 1, 64).numbers, std::vector{number});
      ++number;
    }
    EXPECT_EQ(sender->queues[0]->transmit_drops(), 2u) << "to an address that is no peer's";
    EXPECT_EQ(sender->queues[0]->icmp_errors() + sender->queues[1]->icmp_errors(), 0u);
  }
}

TEST_F(XdpWireTest, IcmpErrorsComeToTheKernelAndAreCounted) {
  auto a = open(kA, kB);
  ASSERT_TRUE(a) << a.error().text;
  NicQueue& queue = *a->queues[0];
  const Instant begin = monotonic_now();
  // Nobody has the port there.
  while (queue.icmp_errors() == 0 && monotonic_now() - begin < Duration::s(10)) {
    send(queue, kA, kB, kPort, 0, 1, 64);
    ::usleep(1000);
  }
  EXPECT_GT(queue.icmp_errors(), 0u);
}

TEST_F(XdpWireTest, FollowsWhatTheKernelLearns) {
  enter(a_);
  const Ipv4Address router(10, 66, 0, 2), far(10, 99, 0, 1);
  run("ip -n " + a_ + " route add 10.99.0.0/24 via 10.66.0.2");
  const auto paths = KernelPaths::start({"xdp-a", kA, kPort, 1, {kB, far}}, Duration::s(10));
  ASSERT_TRUE(paths) << paths.error().text;
  const auto comes = [&](Ipv4Address peer, std::optional<MacAddress> station) {
    const Instant begin = monotonic_now();
    while ((*paths)->station_of(peer) != station && monotonic_now() - begin < Duration::s(10)) ::usleep(1000);
    return (*paths)->station_of(peer) == station;
  };
  const std::optional<MacAddress> first = (*paths)->station_of(kB);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ((*paths)->station_of(far), first) << "the router's";
  EXPECT_EQ((*paths)->station_of(Ipv4Address(10, 66, 0, 77)), std::nullopt);
  const MacAddress second(2, 0, 0, 0, 7, 7);
  run("ip -n " + a_ + " neigh replace 10.66.0.2 lladdr 02:00:00:00:07:07 nud permanent dev xdp-a");
  EXPECT_TRUE(comes(kB, second));
  EXPECT_TRUE(comes(far, second));
  run("ip -n " + a_ + " route del 10.99.0.0/24");
  EXPECT_TRUE(comes(far, std::nullopt));
  EXPECT_EQ((*paths)->station_of(kB), second);
}

TEST_F(XdpWireTest, ProgramsThatAreInTheWayAreNamedOrRemoved) {
  enter(a_);
  leave_program("somebodys", "xdp-a");
  EXPECT_THAT(refusal(), HasSubstr("xdp-a has another XDP program, 'somebodys' (id "));
  EXPECT_THAT(refusal(), HasSubstr("remove it with 'ip link set dev xdp-a xdp off'"));
  run("ip -n " + a_ + " link set dev xdp-a xdp off");
  leave_program(XdpProgram::kName, "xdp-a");
  {
    auto wire = open(kA, kB);
    ASSERT_TRUE(wire) << wire.error().text;
    const Result<KernelWire> second = open_xdp_wire({kA, kPort + 1, 1, 1500, {kB}}, nullptr);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().text, HasSubstr("xdp-a has an XDP program of another braidd"));
    EXPECT_THAT(refusal(), HasSubstr("UDP 10.66.0.1:7700: another process has UDP port 7700"));
    EXPECT_TRUE(has_program("xdp-a"));
  }
  EXPECT_FALSE(has_program("xdp-a"));
}

TEST_F(XdpWireTest, AKilledProcessLeavesNothing) {
  std::array<int, 2> told;
  ASSERT_EQ(::pipe(told.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto wire = open(kA, kB);
    (void)!::write(told[1], wire ? "y" : "n", 1);
    ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(told[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  enter(a_);
  EXPECT_TRUE(has_program("xdp-a"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(has_program("xdp-a"));
  const auto wire = open(kA, kB);
  EXPECT_TRUE(wire) << wire.error().text;
  ::close(told[0]);
  ::close(told[1]);
}

TEST_F(XdpWireTest, RefusesWhatCannotWorkAndNamesTheCure) {
  EXPECT_THAT(refusal(3),
              HasSubstr("xdp-a has 2 queues and 3 proxies need one each: set proxies to at most 2"));
  EXPECT_THAT(refusal(1, 3000),
              HasSubstr("transport.mtu_bytes is 3000 but xdp-a takes packets of 1500 over AF_XDP: set at "
                        "most 1500, or 'ip link set dev xdp-a mtu 3000'"));
  run("ip -n " + a_ + " link set xdp-a mtu 9000");
  EXPECT_THAT(refusal(1, 9000),
              HasSubstr("takes packets of 3826 over AF_XDP: set at most 3826 (a frame must fit a page)"));
  EXPECT_THAT(refusal(1, 1500, Ipv4Address(10, 66, 0, 9)),
              HasSubstr("this host has no address 10.66.0.9; see 'ip address'"));
  EXPECT_THAT(refusal(1, 1500, Ipv4Address(127, 0, 0, 1), Ipv4Address(127, 0, 0, 2)),
              HasSubstr("lo (127.0.0.1) is no Ethernet interface"));
  EXPECT_THAT(refusal(1, 1500, kA, Ipv4Address(10, 1, 1, 1)),
              HasSubstr("the way from 10.66.0.1 to 10.1.1.1: the kernel has no route"));
  EXPECT_THAT(refusal(1, 1500, kA, kA), HasSubstr("stays on this host"));
  run("ip -n " + a_ + " link add other type veth peer name rehto");
  run("ip -n " + a_ + " address add 10.67.0.1/24 dev other");
  run("ip -n " + a_ + " link set other up");
  EXPECT_THAT(refusal(1, 1500, kA, Ipv4Address(10, 67, 0, 2)), HasSubstr("leaves by other, not by xdp-a"));
  run("ip -n " + a_ + " link set xdp-a down");
  EXPECT_THAT(refusal(), HasSubstr("xdp-a is down: 'ip link set dev xdp-a up'"));
}

TEST_F(XdpWireTest, NamesTheCapabilitiesThatItLacks) {
  enter(a_);
  std::array<int, 2> told;
  ASSERT_EQ(::pipe(told.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const auto wire = open_xdp_wire({kA, kPort, 1, 1500, {kB}}, nullptr);
    const std::string text = wire ? "it works" : wire.error().text;
    (void)!::write(told[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(told[1]);
  std::array<char, 512> text{};
  (void)!::read(told[0], text.data(), text.size() - 1);
  ::close(told[0]);
  ::waitpid(child, nullptr, 0);
  EXPECT_STREQ(
      text.data(),
      "xdp-a: AF_XDP needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or take udp, "
      "which needs none");
}

}  // namespace
}  // namespace braid::proxy
