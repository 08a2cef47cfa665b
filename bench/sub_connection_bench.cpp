// Measures a 64-byte message from one proxy's stack to the other's, without a NIC: sender and receiver,
// both ways, acknowledgements included.
//
//     sub_connection_bench                              wall time (Google Benchmark)
//     sub_connection_bench --loop 100000 stack batched  so many messages and nothing else: for callgrind
//                                                       (bench/sub_connection_instructions)
//
// Layers: `window` is sub-connection to sub-connection, `stack` adds Ethernet, IPv4 and UDP with software
// checksums; `client` is from one application to the other, through their proxies and a wire of shared memory. Traffic: `batched` 16 messages per packet one way, `single` one message per packet one way,
// `pingpong` one message per packet to and fro (each counts).
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/pausable_service.h"
#include "bench/two_nodes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"
#include "proxy/nic/shm_wire.h"
#include "stack/stack.h"

namespace {

using namespace braid;
using namespace braid::stack;

constexpr std::uint32_t kMessageBytes = 64;
constexpr std::size_t kSlots = 1024;
constexpr LinkId kWire(0);

struct Side {
  std::vector<OutMessage> slots = std::vector<OutMessage>(kSlots);
  std::vector<std::byte> data = std::vector<std::byte>(kSlots * kMessageBytes);
  std::vector<OutMessage*> free;
  std::vector<std::byte> window = std::vector<std::byte>(kSlots * kMessageBytes);
  std::array<std::byte, 2048> frame{};
  Position position;
  std::uint64_t received = 0;

  Side() {
    for (std::size_t i = 0; i < kSlots; ++i) {
      slots[i].data = data.data() + i * kMessageBytes;
      free.push_back(&slots[i]);
    }
  }
  void send(SubConnection& sub) {
    CHECK(!free.empty());
    OutMessage& m = *free.back();
    free.pop_back();
    m.bytes = kMessageBytes;
    m.record.destination = PortId(0x10001);
    m.record.source = PortId(0x10002);
    m.record.position = position;
    m.record.message = position;
    m.record.message_bytes = kMessageBytes;
    ++position;
    sub.send(m);
  }
  void take_finished(SubConnection& sub) {
    for (OutMessage* m = sub.take_finished(); m != nullptr;) {
      OutMessage* const next = m->next;
      free.push_back(m);
      m = next;
    }
  }
  // As a proxy does it: the bytes go where the position says.
  void deliver(ByteView records, unsigned count) {
    RecordReader reader(records, count);
    Record r;
    ByteView bytes;
    while (reader.next(&r, &bytes)) {
      std::memcpy(window.data() + r.position.value() % kSlots * kMessageBytes, bytes.data(), bytes.size());
      ++received;
    }
    CHECK(!reader.broken());
  }
};

// Sub-connection to sub-connection.
class Windows {
 public:
  Windows() {
    SubConnectionConfig c;
    c.local = {ClusterId(0), ProxyId(0)};
    c.remote = {ClusterId(1), ProxyId(0)};
    c.congestion.enabled = true;  // as proxies have it
    subs_[0].emplace(c, 0xa1, now_, agenda_.entry(0));
    std::swap(c.local, c.remote);
    subs_[1].emplace(c, 0xb1, now_, agenda_.entry(1));
  }
  void send(int from) { sides_[from].send(*subs_[from]); }
  void exchange(int from) {
    Side& side = sides_[from];
    while (subs_[from]->wants_to_send(now_)) {
      std::uint64_t sum = 0;
      const std::size_t length = subs_[from]->poll(now_, MutableBytes(side.frame).first(1472), &sum);
      if (length == 0) break;
      benchmark::DoNotOptimize(sum);
      const ByteView packet = ByteView(side.frame).first(length);
      PacketHeader header;
      std::size_t header_bytes = 0;
      CHECK(parse_packet_header(packet, &header, &header_bytes));
      SubConnection& to = *subs_[1 - from];
      if (to.on_packet(now_, header, packet.subspan(header_bytes)) == PacketFate::kRecords) {
        sides_[1 - from].deliver(packet.subspan(header_bytes), header.records);
        to.delivered(now_, header);
      }
    }
    side.take_finished(*subs_[from]);
  }
  bool ready() const { return subs_[0]->established() && subs_[1]->established(); }
  void advance(Duration d) { now_ = now_ + d; }
  std::uint64_t received(int side) const { return sides_[side].received; }

 private:
  Instant now_ = Instant::from_ns(1'000'000'000);
  Agenda agenda_{2};
  std::optional<SubConnection> subs_[2];
  Side sides_[2];
};

StackConfig stack_config(std::uint16_t self) {
  const auto mac = [](std::uint16_t c) { return MacAddress(2, 0, 0, 0, 0, static_cast<std::uint8_t>(c)); };
  const auto ip = [](std::uint16_t c) { return Ipv4Address(10, 0, 0, static_cast<std::uint8_t>(1 + c)); };
  const auto other = static_cast<std::uint16_t>(1 - self);
  StackConfig c;
  c.local = {ClusterId(self), ProxyId(0)};
  c.interfaces = {{ip(self), mac(self)}};
  c.seed = 5u + self;
  c.sub_connection.congestion.enabled = true;
  c.remotes.push_back({{ClusterId(other), ProxyId(0)}, ip(other), 7700, kWire, mac(other)});
  return c;
}

// Whole stack to whole stack.
class Stacks {
 public:
  Stacks() {
    for (std::uint16_t i = 0; i < 2; ++i) stacks_[i].emplace(stack_config(i), now_);
  }
  void send(int from) { sides_[from].send(sub(from)); }
  void exchange(int from) {
    Side& side = sides_[from];
    while (const std::size_t length = stacks_[from]->poll_transmit(now_, kWire, side.frame)) {
      Stack& to = *stacks_[1 - from];
      const Stack::Received r = to.receive(now_, kWire, ByteView(side.frame).first(length));
      if (r.what != Stack::Received::What::kRecords) continue;
      sides_[1 - from].deliver(r.records, r.record_count);
      to.delivered(now_, r);
    }
    side.take_finished(sub(from));
  }
  bool ready() const { return stacks_[0]->all_established() && stacks_[1]->all_established(); }
  void advance(Duration d) { now_ = now_ + d; }
  std::uint64_t received(int side) const { return sides_[side].received; }

 private:
  SubConnection& sub(int i) { return *stacks_[i]->sub_connections()[0]; }
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::optional<Stack> stacks_[2];
  Side sides_[2];
};

// Client to client: what one hands over until the other has it, with a proxy in each node and a wire of shared memory.
// Their turns come one after the other, so that nothing is counted that only waits.
class Clients {
 public:
  // Registered in both nodes besides Braid's own; the connection is of the last of them.
  static inline unsigned more_protocols = 0;

  Clients() {
    const Result<int> wire = proxy::create_shm_wire({});
    CHECK(wire.ok());
    for (const int side : {0, 1}) {
      const auto cluster = static_cast<std::uint16_t>(side);
      proxy::NodeConfig config = bench::one_of_two_nodes(cluster, 1500);
      config.links.push_back(bench::end_of_wire(cluster, *wire));
      proxy::NodeSurroundings surroundings;
      for (unsigned i = 0; i < more_protocols; ++i)
        CHECK(surroundings.protocols.add_of_connections(more_protocol(i), fmt::format("more_{}", i)).ok());
      Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(config, now_, surroundings);
      CHECK(node.ok());
      nodes_[side] = std::move(node).value();
    }
    bench::PausableService* services[2] = {};
    for (const int side : {0, 1}) {
      auto service = std::make_unique<bench::PausableService>(
          proxy::in_process_service(nodes_[side], {nodes_[1 - side]}));
      services[side] = service.get();
      clients_[side] = proxy::Client::attach(std::move(service), {}).value();
    }
    constexpr PortId kPort(7);
    proxy::ConnectionOptions options;
    if (more_protocols > 0) options.protocol = more_protocol(more_protocols - 1);
    CHECK(endpoint(1).listen(kPort, options).ok());
    connections_[0] = endpoint(0).connect(ClusterId(1), kPort, options, 10_s).value();
    connections_[1] = endpoint(1).accept(10_s).value();
    now_ = monotonic_now();
    for (bench::PausableService* service : services) service->pause(true);
  }
  void send(int from) { CHECK(connections_[from]->try_send(message_) == proxy::SendStatus::kSent); }
  void exchange(int from) {
    endpoint(from).flush();
    (void)nodes_[from]->worker(0).do_work(now_);
    (void)nodes_[1 - from]->worker(0).do_work(now_);
    received_[1 - from] +=
        static_cast<std::uint64_t>(endpoint(1 - from).poll([](proxy::Connection&, ByteView) {}));
  }
  bool ready() const { return true; }
  void advance(Duration d) { now_ = now_ + d; }
  std::uint64_t received(int side) const { return received_[side]; }

 private:
  static ProtocolId more_protocol(unsigned i) {
    return ProtocolId(static_cast<std::uint8_t>(kFirstFreeProtocol.value() + i));
  }
  proxy::Endpoint& endpoint(int side) { return clients_[side]->endpoint(0); }

  Instant now_ = monotonic_now();
  std::shared_ptr<proxy::Node> nodes_[2];
  std::unique_ptr<proxy::Client> clients_[2];
  proxy::Connection* connections_[2] = {};
  std::vector<std::byte> message_ = std::vector<std::byte>(kMessageBytes);
  std::uint64_t received_[2] = {};
};

enum class Traffic { kBatched, kSingle, kPingPong };

// One round: 16 messages batched, else one per packet and direction. Returns the messages.
template <class Pair>
int round_of(Pair& pair, Traffic traffic) {
  pair.advance(1_us);
  switch (traffic) {
    case Traffic::kBatched:
      for (int i = 0; i < 16; ++i) pair.send(0);
      pair.exchange(0);
      pair.exchange(1);
      return 16;
    case Traffic::kSingle:
      pair.send(0);
      pair.exchange(0);
      pair.exchange(1);
      return 1;
    case Traffic::kPingPong:
      pair.send(0);
      pair.exchange(0);
      pair.send(1);
      pair.exchange(1);
      return 2;
  }
  return 0;
}

template <class Pair>
std::unique_ptr<Pair> established() {
  auto pair = std::make_unique<Pair>();
  for (int i = 0; i < 1000 && !pair->ready(); ++i) {
    pair->exchange(0);
    pair->exchange(1);
    pair->advance(10_us);
  }
  CHECK(pair->ready());
  return pair;
}

template <class Pair>
void loop(std::uint64_t messages, Traffic traffic) {
  const auto pair = established<Pair>();
  std::uint64_t sent = 0;
  while (sent < messages) sent += static_cast<std::uint64_t>(round_of(*pair, traffic));
  CHECK_EQ(pair->received(0) + pair->received(1), sent);
}

template <class Pair, Traffic kTraffic>
void messages(benchmark::State& state) {
  const auto pair = established<Pair>();
  std::int64_t sent = 0;
  for (auto _ : state) sent += round_of(*pair, kTraffic);
  state.SetItemsProcessed(sent);
}
BENCHMARK(messages<Windows, Traffic::kBatched>)->Name("window/batched");
BENCHMARK(messages<Windows, Traffic::kSingle>)->Name("window/single");
BENCHMARK(messages<Windows, Traffic::kPingPong>)->Name("window/pingpong");
BENCHMARK(messages<Stacks, Traffic::kBatched>)->Name("stack/batched");
BENCHMARK(messages<Stacks, Traffic::kSingle>)->Name("stack/single");
BENCHMARK(messages<Stacks, Traffic::kPingPong>)->Name("stack/pingpong");
BENCHMARK(messages<Clients, Traffic::kBatched>)->Name("client/batched");
BENCHMARK(messages<Clients, Traffic::kSingle>)->Name("client/single");
BENCHMARK(messages<Clients, Traffic::kPingPong>)->Name("client/pingpong");

int usage() {
  fmt::print(stderr,
             "usage: sub_connection_bench --loop MESSAGES window|stack|client batched|single|pingpong "
             "[MORE_PROTOCOLS]\n");
  return 2;
}

int run_loop(int argc, char** argv) {
  if (argc != 5 && argc != 6) return usage();
  if (argc == 6) Clients::more_protocols = static_cast<unsigned>(std::strtoul(argv[5], nullptr, 10));
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  const std::string_view layer = argv[3];
  const std::string_view name = argv[4];
  Traffic traffic = Traffic::kBatched;
  if (name == "single")
    traffic = Traffic::kSingle;
  else if (name == "pingpong")
    traffic = Traffic::kPingPong;
  else if (name != "batched")
    return usage();
  if (layer == "window")
    loop<Windows>(count, traffic);
  else if (layer == "stack")
    loop<Stacks>(count, traffic);
  else if (layer == "client")
    loop<Clients>(count, traffic);
  else
    return usage();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--loop") return run_loop(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
