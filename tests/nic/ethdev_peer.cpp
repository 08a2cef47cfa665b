// One end of a DPDK link, for ethdev_test: the EAL starts once in a process, so each end is a process of its
// own.
//
//   ethdev_peer exchange VDEV QUEUES COUNT   sends COUNT numbered frames on every queue and expects as many
//   ethdev_peer flood VDEV QUEUES             sends and receives on queue 0 until it is killed
//   ethdev_peer survive VDEV QUEUES           the same until its peer is gone, then shows that it works
//                                             without one
//   ethdev_peer visit VDEV QUEUES             sends and receives on every queue until SIGTERM, then leaves
//   ethdev_peer outlive VDEV QUEUES TIMES     sends and receives on every queue while so many peers come and
//                                             go; prints c when frames of one have come and d when it
//                                             is gone
//   ethdev_peer steer VDEV QUEUES WANTED WAY  has the port steer as WANTED, and expects WAY to come of it
//
// Exits with 0 when all was right; otherwise the last line on stderr tells what was not.
#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "proxy/nic/ethdev.h"
#include "tests/nic/frames.h"

namespace braid::proxy {
namespace {

// Frames in flight at most: less than any ring on the way holds, so that a missing frame was lost by the code
// under test.
constexpr std::uint64_t kWindow = 128;

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "{}\n", text);
  std::_Exit(1);
}

std::unique_ptr<EthdevPorts> start(const std::string& vdev, unsigned queues) {
  cpu_set_t before, after;
  ::sched_getaffinity(0, sizeof before, &before);
  const EthdevOptions options{.vdevs = {vdev}, .queues = queues};
  Result<std::unique_ptr<EthdevPorts>> ports = EthdevPorts::start(options);
  if (!ports) fail(ports.error().text);
  ::sched_getaffinity(0, sizeof after, &after);
  if (!CPU_EQUAL(&before, &after)) fail("the EAL has pinned the thread that started it");
  if (const Result<void> up = ports.value()->wait_for_link(Duration::s(20)); !up) fail(up.error().text);
  if (const auto second = EthdevPorts::start(options);
      second || !second.error().text.starts_with("DPDK: it starts only")) {
    fail("a second start was not refused");
  }
  return std::move(ports).value();
}

constexpr std::uint16_t kHelloType = 0x88b6;  // IEEE 802: for local experiments

// One queue's share of an exchange; frames that are not of the test (the kernel's own) are passed over.
struct Exchange {
  std::unique_ptr<NicQueue> queue;
  std::uint64_t count;
  bool peer_is_there = false;  // a frame of the other side has come
  bool peer_knows_us = false;  // and one of ours has come there
  std::uint64_t sent = 0;
  std::uint64_t received = 0;

  static std::uint32_t length_of(std::uint64_t number) {
    return static_cast<std::uint32_t>(60 + number * 131 % (kEthdevMaxFrameBytes - 59));
  }
  bool done() const { return sent == count && received == count; }

  // Hellos until both ends know that both can receive, then the numbered frames.
  void turn() {
    if (!peer_knows_us) {
      send_hello();
      ::usleep(1000);
    } else if (const std::uint64_t may_send = std::min(count, received + kWindow) - sent; may_send > 0) {
      sent += test::send_numbered(*queue, sent, std::min<std::uint64_t>(may_send, 20), length_of);
    }
    std::array<MutableBytes, kMaxBurst> frames;
    // Bursts of several sizes, so that some are given out in parts.
    const std::size_t n = queue->receive(std::span(frames).first(1 + (sent + received) % kMaxBurst));
    for (std::size_t i = 0; i < n; ++i) take(frames[i]);
    if (n == 0) std::this_thread::yield();
  }

  void send_hello() {
    TxFrame hello;
    if (queue->reserve({&hello, 1}) == 0) return;
    std::fill_n(hello.data, 60, std::byte{0x02});
    store_be<std::uint16_t>(hello.data + 12, kHelloType);
    hello.data[test::kEthernetBytes] = static_cast<std::byte>(peer_is_there);
    hello.length = 60;
    queue->commit({&hello, 1});
  }
  void take(ByteView frame) {
    const auto type = load_be<std::uint16_t>(frame.data() + 12);
    if (type == kHelloType) {
      peer_is_there = true;
      if (frame[test::kEthernetBytes] == std::byte{1} && !peer_knows_us) {
        peer_knows_us = true;
        send_hello();  // the last one that it needs
      }
    }
    if (!test::is_numbered(frame)) return;
    peer_is_there = peer_knows_us = true;
    const std::uint64_t number = test::number_of(frame);
    if (number != received) fail(fmt::format("frame {} came where {} should have", number, received));
    if (frame.size() != length_of(number) || !test::pattern_holds(frame)) {
      fail(fmt::format("frame {} came damaged, {} bytes", number, frame.size()));
    }
    ++received;
  }
};

void exchange(const std::string& vdev, unsigned queues, std::uint64_t count) {
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  if ((ports->mac_address(0)[0] & std::byte{1}) != std::byte{0})
    fail("the port's own address is a group address");
  // Each queue in a thread that DPDK does not know yet.
  std::vector<std::thread> threads;
  for (unsigned q = 0; q < queues; ++q) {
    threads.emplace_back([q, side = Exchange{.queue = ports->queue(0, q), .count = count}]() mutable {
      const Instant end = monotonic_now() + Duration::s(30);
      while (!side.peer_knows_us && monotonic_now() < end) side.turn();
      const std::uint64_t drops = side.queue->transmit_drops();
      while (!side.done() && monotonic_now() < end) side.turn();
      const std::uint64_t dropped = side.queue->transmit_drops() - drops;
      if (!side.done() || dropped != 0) {
        fail(fmt::format("queue {}: {} sent, {} received, {} dropped", q, side.sent, side.received, dropped));
      }
      // The other side may still wait for what lies in this one's rings, which go when this process does.
      ::usleep(300'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void flood_while(NicQueue& queue, auto goes_on) {
  std::array<MutableBytes, kMaxBurst> frames;
  for (std::uint64_t sent = 0; goes_on();) {
    sent += test::send_numbered(queue, sent, kMaxBurst, 1500);
    queue.receive(frames);
  }
}

void flood(const std::string& vdev, unsigned queues) {
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  const std::unique_ptr<NicQueue> queue = ports->queue(0, 0);
  flood_while(*queue, [] { return true; });
}

void survive(const std::string& vdev, unsigned queues) {
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  std::thread proxy([queue = ports->queue(0, 0)] {
    fmt::print("connected\n");
    std::fflush(stdout);
    const Instant end = monotonic_now() + Duration::s(20);
    flood_while(*queue, [&, calls = 0]() mutable {
      return ++calls % 256 != 0 || (queue->link_up() && monotonic_now() < end);
    });
    if (queue->link_up()) fail("the peer was not killed");
    const std::uint64_t drops = queue->transmit_drops();
    std::array<MutableBytes, kMaxBurst> frames;
    for (int i = 0; i < 1000; ++i) {
      test::send_numbered(*queue, 0, 1);
      if (queue->receive(frames) != 0) fail("a frame came from a peer that is dead");
    }
    if (queue->transmit_drops() != drops + 1000)
      fail("frames without a receiver were not counted as dropped");
  });
  proxy.join();
}

// One peer after the other comes, sends, and goes: killed or in good order. This end exchanges frames with each.
void outlive(const std::string& vdev, unsigned queues, unsigned times) {
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  std::atomic<bool> stop{false};
  std::vector<std::atomic<bool>> up(queues);
  std::vector<std::atomic<std::uint64_t>> received(queues);
  std::vector<std::thread> proxies;
  for (unsigned q = 0; q < queues; ++q) {
    proxies.emplace_back([&, q, queue = ports->queue(0, q)] {
      std::array<MutableBytes, kMaxBurst> frames;
      for (std::uint64_t sent = 0; !stop.load();) {
        sent += test::send_numbered(*queue, sent, kMaxBurst, 1500);
        const std::size_t n = queue->receive(frames);
        for (std::size_t i = 0; i < n; ++i) {
          if (!test::is_numbered(frames[i]) || !test::pattern_holds(frames[i])) fail("a damaged frame came");
        }
        received[q] += n;
        up[q] = queue->link_up();
      }
    });
  }
  const auto all = [&](auto&& holds) {
    const Instant end = monotonic_now() + Duration::s(20);
    for (unsigned q = 0; q < queues; ++q) {
      while (!holds(q)) {
        if (monotonic_now() > end) return false;
        ::usleep(200);
      }
    }
    return true;
  };
  for (unsigned peer = 0; peer < times; ++peer) {
    std::vector<std::uint64_t> before;
    for (unsigned q = 0; q < queues; ++q) before.push_back(received[q]);
    if (!all([&](unsigned q) { return up[q] && received[q] > before[q] + 100; }))
      fail(fmt::format("peer {} sent too little", peer));
    fmt::print("c");
    std::fflush(stdout);
    if (!all([&](unsigned q) { return !up[q].load(); })) fail(fmt::format("peer {} did not go", peer));
    fmt::print("d");
    std::fflush(stdout);
  }
  stop = true;
  for (std::thread& proxy : proxies) proxy.join();
}

std::atomic<bool> g_asked_to_leave{false};

// Sends on every queue until SIGTERM, and leaves in good order.
void visit(const std::string& vdev, unsigned queues) {
  ::signal(SIGTERM, [](int) { g_asked_to_leave = true; });
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  const Instant end = monotonic_now() + Duration::s(60);
  std::vector<std::thread> proxies;
  for (unsigned q = 0; q < queues; ++q) {
    proxies.emplace_back([&, queue = ports->queue(0, q)] {
      flood_while(*queue, [&] { return !g_asked_to_leave && monotonic_now() < end; });
    });
  }
  for (std::thread& proxy : proxies) proxy.join();
}

void expect_steering(const std::string& vdev, unsigned queues, const std::string& wanted,
                     const std::string& way) {
  const std::unique_ptr<EthdevPorts> ports = start(vdev, queues);
  Steering asked = Steering::kAuto;
  for (const Steering s : {Steering::kFlow, Steering::kRss, Steering::kHandoff})
    if (to_string(s) == wanted) asked = s;
  const Result<Steered> steered = ports->steer(0, asked, 7700);
  if (!steered) fail(steered.error().text);
  if (to_string(steered->way) != way) fail(fmt::format("{} came of {}", to_string(steered->way), wanted));
  if (steered->way != Steering::kRss) return;
  for (unsigned q = 0; q < queues; ++q) {
    UdpFlow flow{.source = 0x0a620001, .destination = 0x0a620101, .destination_port = 7700};
    const std::optional<std::uint16_t> port = source_port_for(steered->hash, flow, q, 49152, 512);
    if (!port) fail(fmt::format("no source port leads to queue {}", q));
    flow.source_port = *port;
    if (queue_of(steered->hash, flow) != q) fail(fmt::format("port {} does not lead to queue {}", *port, q));
  }
}

}  // namespace
}  // namespace braid::proxy

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (arguments.size() < 4) return 2;
  const auto queues = static_cast<unsigned>(std::stoul(arguments[3]));
  if (arguments[1] == "exchange") braid::proxy::exchange(arguments[2], queues, std::stoull(arguments.at(4)));
  if (arguments[1] == "flood") braid::proxy::flood(arguments[2], queues);
  if (arguments[1] == "visit") braid::proxy::visit(arguments[2], queues);
  if (arguments[1] == "outlive")
    braid::proxy::outlive(arguments[2], queues, static_cast<unsigned>(std::stoul(arguments.at(4))));
  if (arguments[1] == "steer")
    braid::proxy::expect_steering(arguments[2], queues, arguments.at(4), arguments.at(5));
  if (arguments[1] == "survive") braid::proxy::survive(arguments[2], queues);
  return 0;
}
