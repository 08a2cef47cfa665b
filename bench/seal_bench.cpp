// What sealing costs: a packet sealed and opened, at 64 and 8900 bytes, with each cipher; and what packets cost that are
// refused, as instructions for callgrind (bench/seal_instructions).
//
//     seal_bench                  nanoseconds, medians of 9 runs that take turns
//     seal_bench --repeat N WHAT  only WHAT, N times: nothing, unknown_epoch, refused_hello, hash, replayed_hello
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/seal_times.h"
#include "bench/two_processes.h"
#include "stack/secure/packet_cipher.h"
#include "stack/secure/primitives.h"
#include "stack/sub_connection.h"

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

int repeat(long times, std::string_view what) {
  if (what == "nothing") return 0;
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
               "usage: seal_bench [--repeat N nothing|unknown_epoch|refused_hello|hash|replayed_hello]\n");
    return 2;
  }
  return braid::stack::repeat(std::atol(argv[2]), arguments[2]);
}
