// What sealing costs: a packet sealed and opened, at 64 and 8900 bytes, with each cipher; and what packets cost that are
// refused, as instructions for callgrind (bench/seal_instructions).
//
//     seal_bench                  nanoseconds, medians of 9 runs that take turns
//     seal_bench --repeat N WHAT  only WHAT, N times: nothing, unknown_epoch, refused_hello, hash, replayed_hello; and frames
//                                 that a whole stack takes: stack_unknown_epoch, stack_refused_hello, stack_unread_hello
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/seal_times.h"
#include "bench/two_processes.h"
#include "stack/secure/packet_cipher.h"
#include "stack/secure/primitives.h"
#include "stack/stack.h"
#include "stack/sub_connection.h"
#include "stack/wire/checksum.h"
#include "stack/wire/flow.h"

namespace braid::stack {
namespace {

constexpr int kRuns = 9;

Security security(unsigned char secret) {
  KeyBytes bytes;
  bytes.fill(std::byte{secret});
  Security s;
  s.secret = std::make_shared<const Secret>(bytes);
  return s;
}

void print_times() {
  struct Case {
    const char* name;
    CipherKind kind;
    std::size_t bytes;
    std::vector<double> seal, open;
  };
  std::vector<Case> cases;
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{8900}}) {
    cases.push_back({"AES-256-GCM", CipherKind::kAesGcm, bytes, {}, {}});
    cases.push_back({"ChaCha20-Poly1305", CipherKind::kChaChaPoly, bytes, {}, {}});
  }
  for (int run = 0; run < kRuns; ++run) {
    for (Case& c : cases) {
      const bench::SealTimes times = bench::seal_times(c.kind, c.bytes);
      c.seal.push_back(times.seal);
      c.open.push_back(times.open);
    }
  }
  for (const Case& c : cases)
    fmt::print("{:18} {:5} bytes: seal {:7.0f} ns, open {:7.0f} ns\n", c.name, c.bytes, bench::median(c.seal),
               bench::median(c.open));
}

// One end, and the hello of another with this secret.
struct Target {
  explicit Target(unsigned char secret_of_sender) {
    SubConnectionConfig c;
    c.local = {ClusterId(0), ProxyId(0)};
    c.remote = {ClusterId(1), ProxyId(0)};
    c.security = security(1);
    sub = std::make_unique<SubConnection>(c, 0xa1, now, agenda.entry(0));
    std::swap(c.local, c.remote);
    c.security = security(secret_of_sender);
    SubConnection sender(c, 0xb1, now, agenda.entry(1));
    std::uint64_t sum = 0;
    hello.resize(sender.poll(now, hello, &sum));
    CHECK(!hello.empty());
  }
  PacketFate take(ByteView packet) {
    PacketHeader header;
    std::size_t bytes = 0;
    CHECK(parse_packet_header(packet, &header, &bytes));
    return sub->on_packet(now, header, packet.subspan(bytes));
  }
  Instant now = Instant::from_ns(1'000'000'000);
  Agenda agenda{2};
  std::unique_ptr<SubConnection> sub;
  std::vector<std::byte> hello = std::vector<std::byte>(1472);
};

// A whole stack, and a frame for it with this packet.
struct TargetStack {
  TargetStack() {
    StackConfig c;
    c.local = {ClusterId(0), ProxyId(0)};
    c.interfaces = {{us, MacAddress{2, 0, 0, 0, 0, 1}}};
    c.sub_connection.security = security(1);
    port = c.udp_port_base;
    RemoteStack peer;
    peer.id = {ClusterId(1), ProxyId(0)};
    peer.address = them;
    peer.udp_port = c.udp_port_base;
    peer.link = LinkId(0);
    peer.mac = MacAddress{2, 0, 0, 0, 1, 1};
    c.remotes = {peer};
    stack.emplace(c, now);
  }
  std::vector<std::byte> frame_of(ByteView packet) const {
    const MacAddress mac{2, 0, 0, 0, 0, 1};
    const FlowHeader header(
        mac, mac, {.source = them, .destination = us, .source_port = port, .destination_port = port});
    std::vector<std::byte> frame(kFlowHeaderBytes + packet.size());
    header.write(frame.data(), packet.size(), checksum_add(0, packet));
    std::copy(packet.begin(), packet.end(), frame.begin() + kFlowHeaderBytes);
    return frame;
  }
  const Ipv4Address us{10, 0, 0, 1}, them{10, 0, 0, 2};
  std::uint16_t port = 0;
  Instant now = Instant::from_ns(1'000'000'000);
  std::optional<Stack> stack;
};

int repeat_with_stack(long times, std::string_view what) {
  TargetStack target;
  std::vector<std::byte> packet = Target(2).hello;
  const bool unread = what == "stack_unread_hello";
  if (what == "stack_unknown_epoch") store(packet.data() + 1, std::uint8_t{2});
  const std::vector<std::byte> frame = target.frame_of(packet);
  for (long i = 0; i < times; ++i) {
    if (!unread) target.now = target.now + 1_ms;
    (void)target.stack->receive(target.now, LinkId(0), frame);
  }
  const StackStats stats = target.stack->stats();
  const std::uint64_t counted = unread                          ? stats.hellos_unread
                                : what == "stack_refused_hello" ? stats.refused_other_secret
                                                                : stats.unknown_epoch;
  // The first ones of those that come at once are read.
  CHECK(counted + (unread ? stats.refused_other_secret : 0) == static_cast<std::uint64_t>(times));
  CHECK(!unread || counted > static_cast<std::uint64_t>(times) / 2);
  return 0;
}

int repeat(long times, std::string_view what) {
  if (what == "nothing") return 0;
  if (what.starts_with("stack_")) return repeat_with_stack(times, what);
  if (what == "hash") {
    const Hmac keyed(KeyBytes{});
    const std::vector<std::byte> hello(kPacketHeaderBytes + 20);
    unsigned sum = 0;
    for (long i = 0; i < times; ++i) sum += static_cast<unsigned>(keyed({hello})[0]);
    return sum == 1 ? 1 : 0;
  }
  Target target(what == "replayed_hello" ? 1 : 2);
  std::vector<std::byte> packet = target.hello;
  PacketFate expected = what == "replayed_hello" ? PacketFate::kNothing : PacketFate::kRefusedSender;
  if (what == "unknown_epoch") {
    store(packet.data() + 1, std::uint8_t{2});
    expected = PacketFate::kUnknownEpoch;
  }
  for (long i = 0; i < times; ++i) CHECK(target.take(packet) == expected);
  return 0;
}

}  // namespace
}  // namespace braid::stack

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    braid::stack::print_times();
    return 0;
  }
  if (arguments.size() != 3 || arguments[0] != "--repeat") {
    fmt::print(stderr,
               "usage: seal_bench [--repeat N nothing|unknown_epoch|refused_hello|hash|replayed_hello|"
               "stack_unknown_epoch|stack_refused_hello|stack_unread_hello]\n");
    return 2;
  }
  return braid::stack::repeat(std::atol(argv[2]), arguments[2]);
}
