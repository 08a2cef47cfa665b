// The Linux kernel as peer, which nobody here wrote: it pings our stack, asks for its station, and exchanges
// datagrams with it, over a veth pair between network namespaces. Needs root.
//
//   namespace of the kernel          namespace of the stack
//   10.99.0.2/24, 10.77.0.1     ─────     10.99.0.1 (no address of the kernel's there)
//   sockets, ping, arp                    packet socket ─ FaultyQueue ─ CaptureQueue ─ Stack
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "proxy/nic/capture_queue.h"
#include "proxy/nic/faulty_queue.h"
#include "stack/stack.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "tests/cli/command.h"

namespace braid {
namespace {

using cli::testing::Command;
using cli::testing::Finished;
using cli::testing::TemporaryFile;
using stack::Endpoint;
using stack::Ipv4Address;
using stack::MacAddress;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;
using Bytes = std::vector<std::byte>;

constexpr Ipv4Address kUs(10, 99, 0, 1);
constexpr Ipv4Address kKernel(10, 99, 0, 2);
constexpr Ipv4Address kKernelBeyond(10, 77, 0, 1);  // on another network, behind the kernel
constexpr Ipv4Address kElsewhere(10, 99, 0, 3);     // where nobody is
constexpr MacAddress kOurMac(2, 0x62, 0x72, 0x64, 9, 1);
// A station for the kernel, and one that nobody has.
constexpr MacAddress kKernelMac(2, 0x62, 0x72, 0x64, 8, 1);
constexpr MacAddress kNobody(2, 0x62, 0x72, 0x64, 8, 66);
constexpr std::uint16_t kOurPort = 5000;
constexpr std::uint16_t kTheirPort = 6000;
constexpr LinkId kLink(0);
constexpr std::size_t kFrameBytes = 1514;
const std::size_t kLengths[] = {0, 1, 1471, 1472, 1473, 2960, 9000, 65507};

// A packet socket on an interface without an address, as a queue.
class PacketSocket final : public proxy::NicQueue {
 public:
  explicit PacketSocket(int fd) : fd_(fd), received_(proxy::kMaxBurst), sent_(proxy::kMaxBurst) {}
  ~PacketSocket() override { ::close(fd_); }
  std::size_t receive(std::span<MutableBytes> frames) override {
    std::size_t n = 0;
    while (n < std::min(frames.size(), proxy::kMaxBurst)) {
      const ssize_t bytes = ::recv(fd_, received_[n].data(), received_[n].size(), MSG_DONTWAIT);
      if (bytes <= 0) break;
      frames[n] = MutableBytes(received_[n]).first(static_cast<std::size_t>(bytes));
      ++n;
    }
    return n;
  }
  std::size_t reserve(std::span<proxy::TxFrame> frames) override {
    const std::size_t n = std::min(frames.size(), proxy::kMaxBurst);
    for (std::size_t i = 0; i < n; ++i) frames[i] = {sent_[i].data(), kFrameBytes, 0};
    return n;
  }
  void commit(std::span<const proxy::TxFrame> frames) override {
    for (const proxy::TxFrame& f : frames)
      drops_ += ::send(fd_, f.data, f.length, 0) == static_cast<ssize_t>(f.length) ? 0 : 1;
  }
  std::uint32_t max_frame_bytes() const override { return kFrameBytes; }
  std::uint64_t transmit_drops() const override { return drops_; }

 private:
  const int fd_;
  std::vector<std::array<std::byte, kFrameBytes>> received_, sent_;
  std::uint64_t drops_ = 0;
};

// This thread is in another network namespace as long as it lives.
class Inside {
 public:
  explicit Inside(const std::string& space) : home_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const int fd = ::open(("/var/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::setns(fd, CLONE_NEWNET), 0) << std::strerror(errno);
    ::close(fd);
  }
  ~Inside() {
    EXPECT_EQ(::setns(home_, CLONE_NEWNET), 0);
    ::close(home_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const int home_;
};

// A UDP socket of the kernel's at kTheirPort that speaks with us.
class KernelSocket {
 public:
  explicit KernelSocket(const std::string& space, Ipv4Address own = kKernel, std::uint16_t to = kOurPort) {
    const Inside inside(space);
    fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const sockaddr_in here = address(own, kTheirPort);
    const sockaddr_in there = address(kUs, to);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0) << std::strerror(errno);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&there), sizeof there), 0)
        << std::strerror(errno);
  }
  ~KernelSocket() { ::close(fd_); }
  KernelSocket(const KernelSocket&) = delete;
  KernelSocket& operator=(const KernelSocket&) = delete;

  // 0 or an errno.
  int send(ByteView payload) const { return ::send(fd_, payload.data(), payload.size(), 0) < 0 ? errno : 0; }
  // The next datagram; nullopt: none, and `problem` tells why.
  std::optional<Bytes> receive(int* problem = nullptr) const {
    Bytes room(65536);
    const ssize_t n = ::recv(fd_, room.data(), room.size(), 0);
    if (problem != nullptr) *problem = n < 0 ? errno : 0;
    if (n < 0) return std::nullopt;
    room.resize(static_cast<std::size_t>(n));
    return room;
  }
  void send_no_checksums() const {
    const int yes = 1;
    EXPECT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_NO_CHECK, &yes, sizeof yes), 0);
  }

 private:
  static sockaddr_in address(Ipv4Address ip, std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(ip.value());
    return a;
  }
  int fd_ = -1;
};

class KernelPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: network namespaces and packet sockets";
    const std::string id = std::to_string(::getpid() % 100000);
    ours_ = "braid-peer-" + id + "-us";
    theirs_ = "braid-peer-" + id + "-kernel";
    for (const std::string& space : {ours_, theirs_}) ip({"netns", "add", space});
    ip({"link", "add", "us", "netns", ours_, "type", "veth", "peer", "name", "kernel", "netns", theirs_});
    run_in(ours_, {"sysctl", "-qw", "net.ipv6.conf.us.disable_ipv6=1"});
    run_in(theirs_, {"sysctl", "-qw", "net.ipv6.conf.kernel.disable_ipv6=1"});
    // Complete checksums, and frames as long as the MTU: there is no NIC in between that would finish them.
    run_in(ours_, {"ethtool", "-K", "us", "tx", "off"});
    run_in(theirs_, {"ethtool", "-K", "kernel", "tx", "off"});
    ip({"-n", theirs_, "addr", "add", "10.99.0.2/24", "dev", "kernel"});
    ip({"-n", theirs_, "addr", "add", "10.77.0.1/32", "dev", "lo"});
    ip({"-n", theirs_, "link", "set", "lo", "up"});
    ip({"-n", theirs_, "link", "set", "kernel", "up"});
    ip({"-n", ours_, "link", "set", "us", "up"});
    if (!problem_.empty()) GTEST_SKIP() << "no veth pair between namespaces here: " << problem_;
    start();
  }
  void TearDown() override {
    queue_.reset();
    if (capture_ != nullptr) check_capture();
    for (const std::string& space : {ours_, theirs_})
      if (!space.empty()) cli::testing::run({"/usr/bin/env", "ip", "netns", "del", space});
  }

  static stack::StackConfig config(const MacAddress& mac, Ipv4Address remote) {
    stack::StackConfig c;
    c.local = {ClusterId(0), ProxyId(0)};
    c.interfaces = {{kUs, mac, 24, kKernel}};
    // A cluster that should be there, and is not.
    c.remotes = {{{ClusterId(1), ProxyId(0)}, remote, 7700, kLink, std::nullopt}};
    return c;
  }
  // A stack at its end of the wire.
  void start(const proxy::Faults& faults = {}, const MacAddress& mac = kOurMac,
             Ipv4Address remote = kKernel) {
    int fd = -1;
    {
      const Inside inside(ours_);
      fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
      const int yes = 1, megabytes = 8 << 20;
      ::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
      ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &megabytes, sizeof megabytes);
      sockaddr_ll at{};
      at.sll_family = AF_PACKET;
      at.sll_protocol = htons(ETH_P_ALL);
      at.sll_ifindex = static_cast<int>(::if_nametoindex("us"));
      ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0) << std::strerror(errno);
    }
    queue_.reset();
    if (capture_ == nullptr) {
      capture_ = proxy::CaptureFile::create(capture_path_.path()).value();
      interface_ = capture_->add_interface("veth", kFrameBytes);
    }
    std::unique_ptr<proxy::NicQueue> queue = std::make_unique<PacketSocket>(fd);
    if (faults.any()) queue = std::make_unique<proxy::FaultyQueue>(std::move(queue), faults);
    queue_ = std::make_unique<proxy::CaptureQueue>(std::move(queue), capture_, interface_);
    stack_ = std::make_unique<stack::Stack>(config(mac, remote), monotonic_now());
    ASSERT_TRUE(stack_->bind(kOurPort));
  }

  void turn() {
    const Instant now = monotonic_now();
    std::array<MutableBytes, proxy::kMaxBurst> burst;
    const std::size_t n = queue_->receive(burst);
    for (std::size_t i = 0; i < n; ++i) {
      const stack::Stack::Received r = stack_->receive(now, kLink, burst[i]);
      if (r.what == stack::Stack::Received::What::kDatagram)
        datagrams_.push_back({r.peer, Bytes(r.datagram.begin(), r.datagram.end())});
      if (r.what == stack::Stack::Received::What::kUnreachable && r.sub_connection == nullptr)
        unreachables_.push_back({r.peer, r.reason});
    }
    proxy::TxFrame room[1];
    while (queue_->reserve(room) > 0) {
      room[0].length =
          static_cast<std::uint32_t>(stack_->poll_transmit(now, kLink, {room[0].data, room[0].capacity}));
      if (room[0].length == 0) break;
      queue_->commit(room);
    }
    if (n == 0) ::usleep(50);
  }
  bool until(const std::function<bool()>& done, Duration limit = 5_s) {
    for (const Instant end = monotonic_now() + limit; monotonic_now() < end;) {
      if (done()) return true;
      turn();
    }
    return done();
  }
  void run_for(Duration d) {
    (void)until([] { return false; }, d);
  }

  // A command in the kernel's namespace, while our stack runs.
  Finished in_kernels(const Words& words) {
    Words command = {"/usr/bin/env", "ip", "netns", "exec", theirs_};
    command.insert(command.end(), words.begin(), words.end());
    TemporaryFile status;
    // The shell writes the file when it has ended, so that the stack can be driven until then.
    std::string line;
    for (const std::string& w : command) line += "'" + w + "' ";
    Command shell({"/bin/sh", "-c", line + "; echo $? > '" + status.path() + "'"});
    EXPECT_TRUE(until([&] { return !status.text().empty(); }, 60_s)) << line;
    Finished finished = shell.wait();
    finished.status = std::atoi(status.text().c_str());
    return finished;
  }
  static bool there_is(const std::string& program) {
    return cli::testing::run({"/bin/sh", "-c", "command -v " + program}).status == 0;
  }

  // Another program accepts the captured packets as correct.
  void check_capture() {
    capture_.reset();
    if (HasFailure()) return;
    if (there_is("tcpdump")) {
      const Finished seen = cli::testing::run({"/usr/bin/env", "tcpdump", "-nvvr", capture_path_.path()});
      EXPECT_EQ(seen.status, 0) << seen.err;
      EXPECT_THAT(seen.out, HasSubstr("udp sum ok")) << "it looks at checksums";
      for (const char* complaint : {"bad cksum", "bad udp cksum", "wrong icmp cksum", "bad-len", "truncated"})
        EXPECT_THAT(seen.out, Not(HasSubstr(complaint)));
    }
    if (there_is("tshark")) {
      const Finished seen = cli::testing::run(
          {"/usr/bin/env", "tshark", "-nr", capture_path_.path(), "-o", "ip.check_checksum:TRUE", "-o",
           "udp.check_checksum:TRUE", "-Y",
           "_ws.malformed || ip.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\" || "
           "icmp.checksum.status == \"Bad\" || ip.fragment.error"});
      EXPECT_EQ(seen.status, 0) << seen.err;
      EXPECT_THAT(seen.out, IsEmpty());
    }
  }

  // Somebody in the kernel's network says by a packet socket of its own which station has an address.
  void announce(Ipv4Address address, const MacAddress& station) {
    std::array<std::byte, 60> frame{};
    const std::size_t at =
        stack::write_ethernet(frame, MacAddress::broadcast(), station, stack::EtherType::kArp);
    stack::write_arp(std::span(frame).subspan(at), {.operation = stack::ArpOperation::kRequest,
                                                    .sender_mac = station,
                                                    .sender_ip = address,
                                                    .target_mac = MacAddress(),
                                                    .target_ip = address});
    const Inside inside(theirs_);
    const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(::if_nametoindex("kernel"));
    EXPECT_EQ(::sendto(fd, frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(frame.size()))
        << std::strerror(errno);
    ::close(fd);
  }

  void ip(const Words& words) { check({"/usr/bin/env", "ip"}, words); }
  void run_in(const std::string& space, const Words& words) {
    check({"/usr/bin/env", "ip", "netns", "exec", space}, words);
  }
  void check(Words head, const Words& words) {
    head.insert(head.end(), words.begin(), words.end());
    const Finished done = cli::testing::run(head);
    if (done.status == 0 || !problem_.empty()) return;
    for (const std::string& word : head) problem_ += word + " ";
    problem_ += ": " + done.err;
  }

  static Bytes random_bytes(std::size_t n, std::uint64_t seed) {
    Prng prng(seed);
    Bytes out(n);
    for (std::byte& b : out) b = static_cast<std::byte>(prng.next());
    return out;
  }

  std::string ours_, theirs_, problem_;
  TemporaryFile capture_path_{"", 0600, ".pcapng"};
  std::shared_ptr<proxy::CaptureFile> capture_;
  unsigned interface_ = 0;
  std::unique_ptr<proxy::NicQueue> queue_;
  std::unique_ptr<stack::Stack> stack_;
  struct Datagram {
    Endpoint from;
    Bytes content;
  };
  std::vector<Datagram> datagrams_;
  std::vector<std::pair<Endpoint, stack::Unreachable>> unreachables_;
};

TEST_F(KernelPeer, ItsPingIsAnswered) {  // IC-1
  if (!there_is("ping")) GTEST_SKIP() << "no ping here (iputils-ping)";
  for (const char* bytes : {"56", "1472", "1473", "8000", "65507"}) {
    SCOPED_TRACE(bytes);
    const Finished ping = in_kernels({"ping", "-c", "3", "-i", "0.02", "-W", "5", "-s", bytes, "10.99.0.1"});
    EXPECT_EQ(ping.status, 0) << ping.out << ping.err;
    EXPECT_THAT(ping.out, HasSubstr("3 received, 0% packet loss"));
    EXPECT_THAT(ping.out, Not(HasSubstr("wrong data byte")));
  }
  EXPECT_EQ(stack_->stats().echoes_answered, 15u);
}

TEST_F(KernelPeer, ResolvesOurAddressAndFollowsItToAnotherStation) {  // ARP-3
  const KernelSocket socket(theirs_);
  const auto station = [&] { return in_kernels({"ip", "neigh", "show", "10.99.0.1"}).out; };
  EXPECT_EQ(socket.send(random_bytes(10, 1)), 0);
  ASSERT_TRUE(until([&] { return datagrams_.size() == 1; }));
  EXPECT_THAT(station(), HasSubstr(kOurMac.to_string()));
  // Another stack takes our place, and says so.
  in_kernels({"sysctl", "-qw", "net.ipv4.neigh.kernel.locktime=0"});
  const MacAddress other(2, 0x62, 0x72, 0x64, 9, 2);
  start({}, other);
  EXPECT_TRUE(until([&] { return stack_->neighbours().stats().announcements_sent == 1; }));
  EXPECT_TRUE(until([&] { return station().find(other.to_string()) != std::string::npos; }))
      << "before it had to ask";
  EXPECT_EQ(socket.send(random_bytes(10, 1)), 0);
  EXPECT_TRUE(until([&] { return datagrams_.size() == 2; }));
}

TEST_F(KernelPeer, ForgedAnnouncementOfItsAddressChangesNothing) {  // ARP-4
  start({}, kOurMac, kElsewhere);
  run_in(theirs_, {"ip", "link", "set", "kernel", "address", kKernelMac.to_string()});
  const KernelSocket socket(theirs_);
  const auto answers = [&](std::uint64_t seed) {
    const Bytes content = random_bytes(100, seed);
    (void)stack_->send_datagram(monotonic_now(), kOurPort, {kKernel, kTheirPort}, content);
    std::optional<Bytes> got;
    return until([&] { return (got = socket.receive()).has_value(); }, 2_s) && *got == content;
  };
  ASSERT_TRUE(answers(1));
  announce(kKernel, kNobody);
  // The kernel is asked whether it is still there.
  EXPECT_TRUE(until([&] { return stack_->neighbours().stats().address_conflicts == 1; }));
  EXPECT_EQ(stack_->take_address_conflict(), (stack::AddressConflict{kKernel, kKernelMac, kNobody, false}));
  run_for(600_ms);
  EXPECT_TRUE(answers(2));
  EXPECT_EQ(stack_->neighbours().stats().moved, 0u);
}

TEST_F(KernelPeer, AnnouncementOfItsNewStationIsFollowed) {  // ARP-4
  start({}, kOurMac, kElsewhere);
  const KernelSocket socket(theirs_);
  EXPECT_EQ(socket.send(random_bytes(10, 1)), 0);
  ASSERT_TRUE(until([&] { return datagrams_.size() == 1; }));
  run_in(theirs_, {"ip", "link", "set", "kernel", "address", kKernelMac.to_string()});
  announce(kKernel, kKernelMac);
  EXPECT_TRUE(until([&] { return stack_->neighbours().stats().moved == 1; }));
  EXPECT_EQ(stack_->send_datagram(monotonic_now(), kOurPort, {kKernel, kTheirPort}, random_bytes(10, 2)),
            stack::Sent::kQueued);
  EXPECT_TRUE(until([&] { return socket.receive().has_value(); }, 2_s));
}

TEST_F(KernelPeer, SilentPeerIsFoundAtItsNewStation) {  // ARP-5
  const KernelSocket socket(theirs_);
  // Handshakes leave for the cluster that is not there.
  ASSERT_TRUE(until([&] { return stack_->path_report(0).unreachables > 0; }));
  run_in(theirs_, {"ip", "link", "set", "kernel", "address", kKernelMac.to_string()});  // and does not say so
  EXPECT_TRUE(until([&] { return stack_->neighbours().stats().moved == 1; }));
  EXPECT_EQ(stack_->send_datagram(monotonic_now(), kOurPort, {kKernel, kTheirPort}, random_bytes(10, 2)),
            stack::Sent::kQueued);
  EXPECT_TRUE(until([&] { return socket.receive().has_value(); }, 2_s));
}

TEST_F(KernelPeer, ExchangesDatagramsOfEveryLength) {  // UDP-2, IP-2, IP-3
  const KernelSocket socket(theirs_);
  for (const std::size_t bytes : kLengths) {
    SCOPED_TRACE(bytes);
    const Bytes there = random_bytes(bytes, 2 * bytes + 1);
    const Bytes back = random_bytes(bytes, 2 * bytes + 2);
    datagrams_.clear();
    EXPECT_EQ(socket.send(there), 0);
    ASSERT_TRUE(until([&] { return datagrams_.size() == 1; }));
    EXPECT_EQ(datagrams_[0].from, (Endpoint{kKernel, kTheirPort}));
    EXPECT_EQ(datagrams_[0].content, there);
    EXPECT_EQ(stack_->send_datagram(monotonic_now(), kOurPort, {kKernel, kTheirPort}, back),
              stack::Sent::kQueued);
    std::optional<Bytes> got;
    ASSERT_TRUE(until([&] { return (got = socket.receive()).has_value(); }));
    EXPECT_EQ(*got, back);
  }
  EXPECT_EQ(stack_->stats().bad_udp, 0u);
  EXPECT_EQ(stack_->stats().bad_ip, 0u);
  EXPECT_EQ(stack_->stats().fragments_dropped, 0u);
  EXPECT_GT(stack_->stats().packets_fragmented, 3u);
  EXPECT_GT(stack_->stats().packets_reassembled, 3u);
}

TEST_F(KernelPeer, SendsDatagramsWithoutChecksum) {  // UDP-1
  const KernelSocket plain(theirs_);
  plain.send_no_checksums();
  EXPECT_EQ(plain.send(random_bytes(100, 1)), 0);
  EXPECT_TRUE(until([&] { return datagrams_.size() == 1; }));
  EXPECT_EQ(stack_->stats().bad_udp, 0u);
}

TEST_F(KernelPeer, ClosedPortsAnswerUnreachableBothWays) {  // IC-2, IC-3
  const KernelSocket socket(theirs_, kKernel, 4999);
  EXPECT_EQ(socket.send(random_bytes(100, 1)), 0);
  int problem = 0;
  EXPECT_TRUE(until([&] { return !socket.receive(&problem) && problem == ECONNREFUSED; }))
      << std::strerror(problem);
  EXPECT_EQ(stack_->send_datagram(monotonic_now(), kOurPort, {kKernel, 5999}, random_bytes(3000, 1)),
            stack::Sent::kQueued);
  ASSERT_TRUE(until([&] { return !unreachables_.empty(); }));
  EXPECT_EQ(unreachables_[0].first, (Endpoint{kKernel, 5999}));
  EXPECT_EQ(unreachables_[0].second, stack::Unreachable::kPort);
  // Our handshakes to the cluster that is not there.
  EXPECT_TRUE(until([&] { return stack_->path_report(0).unreachables > 0; }));
  EXPECT_EQ(stack_->path_report(0).reason, stack::Unreachable::kPort);
}

TEST_F(KernelPeer, RoutesToAnotherNetworkThroughTheKernel) {  // ARP-2
  const KernelSocket socket(theirs_, kKernelBeyond);
  const Bytes content = random_bytes(5000, 1);
  EXPECT_EQ(stack_->send_datagram(monotonic_now(), kOurPort, {kKernelBeyond, kTheirPort}, content),
            stack::Sent::kQueued);
  std::optional<Bytes> got;
  ASSERT_TRUE(until([&] { return (got = socket.receive()).has_value(); }));
  EXPECT_EQ(*got, content);
  EXPECT_EQ(socket.send(content), 0);
  ASSERT_TRUE(until([&] { return datagrams_.size() == 1; }));
  EXPECT_EQ(datagrams_[0].from, (Endpoint{kKernelBeyond, kTheirPort}));
  EXPECT_EQ(datagrams_[0].content, content);
}

TEST_F(KernelPeer, ExchangesDatagramsOverALossyReorderingLink) {  // IP-2
  proxy::Faults faults;
  faults.loss = 0.02;
  faults.duplicate = 0.05;
  faults.reorder = 0.1;
  faults.reorder_distance = 6;
  faults.seed = 826;
  start(faults);
  const KernelSocket socket(theirs_);
  std::set<Bytes> sent;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Bytes content = random_bytes(kLengths[i % 7] + 8 + i, i);
    sent.insert(content);
    // Nobody resends datagrams but we: again until one is there. Of those before some are late.
    const auto arrived = [&] {
      for (const Datagram& d : datagrams_)
        if (d.content == content) return true;
      return false;
    };
    for (const Instant end = monotonic_now() + 10_s; !arrived() && monotonic_now() < end;) {
      EXPECT_EQ(socket.send(content), 0);
      (void)until(arrived, 10_ms);
    }
    ASSERT_TRUE(arrived()) << i;
    for (const Datagram& d : datagrams_) ASSERT_TRUE(sent.contains(d.content)) << "whole or not at all";
    datagrams_.clear();
  }
  EXPECT_GT(stack_->reassembly().stats().duplicates, 0u);
  EXPECT_GT(stack_->reassembly().stats().completed, 20u);
  EXPECT_EQ(stack_->reassembly().stats().overlaps, 0u);
}

}  // namespace
}  // namespace braid
