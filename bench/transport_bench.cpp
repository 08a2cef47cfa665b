// The transport between two processes, a core each: 64-byte messages one way and there and back, 8 KiB
// messages one way; over the shm wire and over memif.
//
//   stack     one whole protocol stack at each end, driven by its process: what the transport itself costs
//   service   the same under the client library and its node ("invoker" mode): what an application gets
//   bare      the same wire with nothing on it but the message: what the wire itself costs
//   kernel    UDP sockets over loopback, sendmmsg and recvmmsg of 64 one way, busy there and back
//
// All take turns in every round, so that a machine that others use too harms them alike; the medians of the
// rounds and their ratios are what counts. With --busy a third process computes on the far core during half
// of the rounds.
//
// One way the near side sends for a fixed time and the far side counts what arrives; every byte is copied out
// there once, into memory of the receiver's own.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/ethernet.h"
#include "bench/two_nodes.h"
#include "bench/two_processes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"
#include "proxy/nic/shm_wire.h"
#include "stack/stack.h"
#ifdef BRAID_WITH_DPDK
#include "proxy/nic/ethdev.h"
#endif

namespace braid {
namespace {

using proxy::NicQueue;
using proxy::TxFrame;

struct Options {
  int rounds = 9;
  int trips = 5'000;
  int milliseconds = 60;  // of each measurement one way
  bool busy = false;
  bool memif = true;
  bool realtime = false;
  std::string json;
};

constexpr std::uint32_t kSmallBytes = 64;
constexpr std::uint32_t kLargeBytes = 8192;

enum class Test : std::uint32_t { kNone, kTrip, kSmall, kLarge };
constexpr Test kTests[] = {Test::kTrip, Test::kSmall, Test::kLarge};

// What both processes see.
struct Shared {
  // System << 8 | test, and a number that tells one turn from the next above it.
  alignas(64) std::atomic<std::uint64_t> step{0};
  alignas(64) std::atomic<std::uint64_t> far_step{0};  // what the far side has got ready for
  alignas(64) std::atomic<std::uint64_t> received{0};  // messages, or bytes over the bare wire
  alignas(64) std::atomic<bool> far_ready{false};
  std::atomic<std::uint16_t> kernel_port[2];  // near, far
};
constexpr std::uint64_t kStop = ~std::uint64_t{0};

// How a far side learns that its turn is over.
class Turn {
 public:
  Turn(Shared& shared, std::uint64_t step) : shared_(shared), step_(step) {}
  bool over() const { return shared_.step.load(std::memory_order_relaxed) != step_; }
  void received(std::uint64_t n) {
    total_ += n;
    shared_.received.store(total_, std::memory_order_release);
  }

 private:
  Shared& shared_;
  const std::uint64_t step_;
  std::uint64_t total_ = 0;
};

// One of the things that are compared. The same object is made in both processes.
class System {
 public:
  virtual ~System() = default;
  virtual double trip_us(int trips) = 0;
  // Sends messages until `end`.
  virtual void send(std::uint32_t bytes, Instant end) = 0;
  virtual void far(Test test, Turn turn) = 0;
  // After sending: takes what is still to come, for so long.
  virtual void drain(Duration) {}
  // Of what the far side counts.
  virtual double unit_bytes(std::uint32_t message_bytes) const { return message_bytes; }
};

// ---------------------------------------------------------------- the wire with nothing on it

class Bare final : public System {
 public:
  Bare(std::unique_ptr<NicQueue> queue) : queue_(std::move(queue)), source_(kLargeBytes), sink_(16384) {}

  double trip_us(int trips) override {
    const Instant begin = monotonic_now();
    for (int i = 0; i < trips; ++i) {
      send_frames(1, kSmallBytes);
      while (receive() == 0) __builtin_ia32_pause();
    }
    return (monotonic_now() - begin).us() / trips;
  }
  void send(std::uint32_t bytes, Instant end) override {
    const auto frame = static_cast<std::uint32_t>(unit_bytes(bytes));
    while (monotonic_now() < end) {
      if (send_frames(proxy::kMaxBurst, frame) == 0) __builtin_ia32_pause();
    }
  }
  // What a frame takes of a message.
  double unit_bytes(std::uint32_t message_bytes) const override {
    const auto most = static_cast<std::uint32_t>(queue_->max_frame_bytes() - kEthernetHeaderBytes);
    return std::min(message_bytes, most);
  }
  void far(Test test, Turn turn) override {
    while (!turn.over()) {
      const std::size_t n = receive();
      if (n == 0) {
        __builtin_ia32_pause();
        continue;
      }
      if (test == Test::kTrip)
        send_frames(1, kSmallBytes);
      else
        turn.received(n);
    }
    drain(2_ms);
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) receive();
  }

 private:
  std::size_t send_frames(std::size_t wanted, std::uint32_t bytes) {
    std::array<TxFrame, proxy::kMaxBurst> frames;
    const std::size_t n = queue_->reserve(std::span(frames).first(wanted));
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(frames[i].data + kEthernetHeaderBytes, source_.data(), bytes);
      frames[i].length = static_cast<std::uint32_t>(bytes + kEthernetHeaderBytes);
    }
    queue_->commit(std::span(frames).first(n));
    return n;
  }
  std::size_t receive() {
    std::array<MutableBytes, proxy::kMaxBurst> frames;
    const std::size_t n = queue_->receive(frames);
    for (std::size_t i = 0; i < n; ++i) std::memcpy(sink_.data(), frames[i].data(), frames[i].size());
    return n;
  }

  const std::unique_ptr<NicQueue> queue_;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
};

// ---------------------------------------------------------------- stacks

constexpr LinkId kLink(0);

stack::StackConfig stack_config(bool near, std::uint32_t mtu_bytes) {
  const auto id = [](bool n) { return stack::StackId{ClusterId(n ? 0 : 1), ProxyId(0)}; };
  const auto address = [](bool n) {
    return stack::Ipv4Address{10, 98, 0, static_cast<std::uint8_t>(n ? 1 : 2)};
  };
  const auto mac = [](bool n) {
    return stack::MacAddress{2, 0x62, 0x72, 0x64, 0, static_cast<std::uint8_t>(n ? 1 : 2)};
  };
  stack::StackConfig c;
  c.local = id(near);
  stack::Interface own;
  own.address = address(near);
  own.mac = mac(near);
  c.interfaces.push_back(own);
  c.mtu_bytes = mtu_bytes;
  c.seed = static_cast<std::uint64_t>(::getpid());
  stack::RemoteStack remote;
  remote.id = id(!near);
  remote.address = address(!near);
  remote.udp_port = c.udp_port_base;
  remote.link = kLink;
  remote.mac = mac(!near);
  c.remotes.push_back(remote);
  return c;
}

class Stacks final : public System {
 public:
  Stacks(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes)
      : queue_(std::move(queue)),
        stack_(stack_config(near, mtu_bytes), monotonic_now()),
        sub_(*stack_.sub_connections()[0]),
        source_(kLargeBytes),
        sink_(kLargeBytes + 64),
        messages_(kMessages) {
    for (stack::OutMessage& m : messages_) free_.push_back(&m);
  }

  double trip_us(int trips) override {
    CHECK(establish());
    const Instant begin = monotonic_now();
    for (int i = 0; i < trips; ++i) {
      CHECK(give(kSmallBytes));
      transmit(monotonic_now());
      while (turn() == 0) {
      }
    }
    return (monotonic_now() - begin).us() / trips;
  }
  void send(std::uint32_t bytes, Instant end) override {
    CHECK(establish());
    while (monotonic_now() < end) {
      for (int i = 0; i < 128 && give(bytes); ++i) {
      }
      turn();
    }
  }
  // Also until nothing waits to be sent any more, or the next measurement would stand behind it.
  void drain(Duration d) override {
    const Instant begin = monotonic_now();
    for (Instant now = begin; now < begin + d || (free_.size() < kMessages && now < begin + 200_ms);
         now = monotonic_now())
      turn();
  }
  void far(Test test, Turn phase) override {
    while (!phase.over()) {
      const std::size_t n = turn();
      if (n == 0) continue;
      if (test == Test::kTrip) {
        CHECK(give(kSmallBytes));
        transmit(monotonic_now());
      } else {
        phase.received(n);
      }
    }
    drain(2_ms);
  }

 private:
  static constexpr std::size_t kMessages = 2048;

  bool establish() {
    const Instant limit = monotonic_now() + 10_s;
    while (!sub_.established() && monotonic_now() < limit) turn();
    return sub_.established();
  }
  bool give(std::uint32_t bytes) {
    if (free_.empty()) return false;
    stack::OutMessage& m = *free_.back();
    free_.pop_back();
    m = {};
    m.data = source_.data();
    m.bytes = bytes;
    m.record.message_bytes = bytes;
    m.record.position = m.record.message = Position(next_position_);
    next_position_ += (bytes + 63) / 64;
    sub_.send(m);
    return true;
  }
  // One turn of a proxy's loop; returns how many messages were completed.
  std::size_t turn() {
    const Instant now = monotonic_now();
    const std::size_t n = queue_->receive(arriving_);
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const stack::Stack::Received r = stack_.receive(now, kLink, arriving_[i]);
      if (r.what != stack::Stack::Received::What::kRecords) continue;
      stack::RecordReader reader(r.records, r.record_count);
      stack::Record record;
      ByteView bytes;
      while (reader.next(&record, &bytes)) {
        std::memcpy(sink_.data() + record.message_offset % kLargeBytes, bytes.data(), bytes.size());
        arrived_bytes_ += bytes.size();
        // Of messages of one size the bytes tell how many are whole, in whatever parts they come.
        if (arrived_bytes_ < record.message_bytes) continue;
        arrived_bytes_ -= record.message_bytes;
        ++arrived;
      }
      stack_.delivered(now, r);
    }
    transmit(now);
    for (stack::OutMessage* m = sub_.take_finished(); m != nullptr;) {
      stack::OutMessage* const next = m->next;
      free_.push_back(m);
      m = next;
    }
    return arrived;
  }
  void transmit(Instant now) {
    while (stack_.wants_to_transmit(now)) {
      const std::size_t room = queue_->reserve(leaving_);
      std::size_t filled = 0;
      for (; filled < room; ++filled) {
        TxFrame& frame = leaving_[filled];
        const std::size_t length = stack_.poll_transmit(now, kLink, MutableBytes(frame.data, frame.capacity));
        if (length == 0) break;
        frame.length = static_cast<std::uint32_t>(length);
      }
      queue_->commit(std::span(leaving_).first(filled));
      if (filled < proxy::kMaxBurst) break;
    }
  }

  const std::unique_ptr<NicQueue> queue_;
  // One burst each. Members, or each turn would clear them first.
  std::array<MutableBytes, proxy::kMaxBurst> arriving_;
  std::array<TxFrame, proxy::kMaxBurst> leaving_;
  stack::Stack stack_;
  stack::SubConnection& sub_;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
  std::vector<stack::OutMessage> messages_;
  std::vector<stack::OutMessage*> free_;
  std::uint32_t next_position_ = 0;
  std::uint64_t arrived_bytes_ = 0;
};

// ---------------------------------------------------------------- the service

class InvokedService final : public System {
 public:
  InvokedService(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes)
      : near_(near), sink_(kLargeBytes) {
    Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(
        node_config(near, mtu_bytes), monotonic_now(), [&](LinkId, unsigned) { return std::move(queue); });
    if (!node) fmt::print(stderr, "transport_bench: {}\n", node.error().text);
    CHECK(node.ok());
    auto client = proxy::Client::attach(proxy::in_process_service(std::move(node).value()), {});
    CHECK(client.ok());
    client_ = std::move(client).value();
    if (!near) CHECK(client_->endpoint(0).listen(kPort, kConnection).ok());
  }

  double trip_us(int trips) override {
    connect();
    const std::vector<std::byte> message(kSmallBytes);
    const Instant begin = monotonic_now();
    for (int i = 0; i < trips; ++i) {
      while (connection_->try_send(message) != proxy::SendStatus::kSent) poll(Test::kSmall);
      while (poll(Test::kSmall) == 0) {
      }
    }
    return (monotonic_now() - begin).us() / trips;
  }
  void send(std::uint32_t bytes, Instant end) override {
    connect();
    const std::vector<std::byte> message(bytes);
    while (monotonic_now() < end) {
      for (int i = 0; i < 32 && connection_->try_send(message) == proxy::SendStatus::kSent; ++i) {
      }
      poll(Test::kSmall);
    }
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) poll(Test::kSmall);
  }
  void far(Test test, Turn turn) override {
    if (connection_ == nullptr) {
      Result<proxy::Connection*> accepted = client_->endpoint(0).accept(10_s);
      if (!accepted) fmt::print(stderr, "transport_bench: {}\n", accepted.error().text);
      CHECK(accepted.ok());
      connection_ = *accepted;
    }
    while (!turn.over()) {
      const int n = poll(test);
      if (n > 0 && test != Test::kTrip) turn.received(static_cast<std::uint64_t>(n));
    }
    drain(2_ms);
  }

 private:
  static constexpr PortId kPort{7};
  static constexpr proxy::ConnectionOptions kConnection{
      .ordered = true, .window_bytes = 256u << 10, .dispatch = {}};

  static proxy::NodeConfig node_config(bool near, std::uint32_t mtu_bytes) {
    proxy::NodeConfig c = bench::one_of_two_nodes(near ? 0 : 1, mtu_bytes);
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;
    link.device = "of the bench";
    c.links.push_back(link);
    // Between its turns nobody drives it.
    c.transport.path_death_ms = 60'000;
    c.transport.peer_death_ms = 120'000;
    return c;
  }
  void connect() {
    if (connection_ != nullptr) return;
    CHECK(near_);
    Result<proxy::Connection*> made = client_->endpoint(0).connect(ClusterId(1), kPort, kConnection, 10_s);
    if (!made) fmt::print(stderr, "transport_bench: {}\n", made.error().text);
    CHECK(made.ok());
    connection_ = *made;
  }
  int poll(Test test) {
    return client_->endpoint(0).poll([&](proxy::Connection& from, ByteView message) {
      if (test == Test::kTrip)
        CHECK(from.try_send(message) == proxy::SendStatus::kSent);
      else
        std::memcpy(sink_.data(), message.data(), message.size());
    });
  }

  const bool near_;
  std::vector<std::byte> sink_;
  std::unique_ptr<proxy::Client> client_;
  proxy::Connection* connection_ = nullptr;
};

// ---------------------------------------------------------------- the kernel

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

  double trip_us(int trips) override {
    std::byte buffer[kSmallBytes] = {};
    const Instant begin = monotonic_now();
    for (int i = 0; i < trips; ++i) {
      CHECK_EQ(::send(socket_, buffer, sizeof buffer, 0), static_cast<ssize_t>(sizeof buffer));
      while (::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT) < 0) {
      }
    }
    return (monotonic_now() - begin).us() / trips;
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

// ---------------------------------------------------------------- the run

struct Named {
  std::string name;
  std::unique_ptr<System> system;
};

// Everything that one process needs; `near` says which of the two it is.
std::vector<Named> make_systems(const Options& o, Shared& shared, bool near, int wire_fd,
                                const std::string& memif_socket, std::shared_ptr<void>& keep) {
  constexpr std::uint32_t kShmMtu = 9000;
  std::vector<Named> systems;
  auto wire = proxy::ShmWire::map(wire_fd, near ? proxy::ShmSide::kA : proxy::ShmSide::kB);
  CHECK(wire.ok());
  systems.push_back({"shm bare", std::make_unique<Bare>((*wire)->queue(0))});
  systems.push_back({"shm stack", std::make_unique<Stacks>((*wire)->queue(1), near, kShmMtu)});
  systems.push_back({"shm service", std::make_unique<InvokedService>((*wire)->queue(2), near, kShmMtu)});
#ifdef BRAID_WITH_DPDK
  if (o.memif) {
    constexpr std::uint32_t kMemifMtu = 1500;
    proxy::EthdevOptions options;
    options.vdevs = {
        proxy::memif_vdev(0, near ? proxy::MemifRole::kServer : proxy::MemifRole::kClient, memif_socket)};
    options.queues = 3;
    auto ports = proxy::EthdevPorts::start(options);
    if (!ports) fmt::print(stderr, "transport_bench: {}\n", ports.error().text);
    CHECK(ports.ok());
    CHECK((*ports)->wait_for_link(20_s).ok());
    systems.push_back({"memif bare", std::make_unique<Bare>((*ports)->queue(0, 0))});
    systems.push_back({"memif stack", std::make_unique<Stacks>((*ports)->queue(0, 1), near, kMemifMtu)});
    systems.push_back(
        {"memif service", std::make_unique<InvokedService>((*ports)->queue(0, 2), near, kMemifMtu)});
    keep = std::shared_ptr<proxy::EthdevPorts>(std::move(*ports));
  }
#else
  (void)o, (void)memif_socket, (void)keep;
#endif
  systems.push_back({"kernel UDP", std::make_unique<KernelUdp>(shared, near)});
  return systems;
}

void far_process(Shared& shared, std::vector<Named>& systems) {
  shared.far_ready.store(true);
  std::uint64_t done = 0;
  for (;;) {
    const std::uint64_t step = shared.step.load(std::memory_order_acquire);
    if (step == kStop) return;
    if (step == done) {
      ::usleep(50);
      continue;
    }
    done = step;
    const auto test = static_cast<Test>(step & 0xff);
    shared.received.store(0);
    shared.far_step.store(step, std::memory_order_release);
    if (test == Test::kNone) continue;
    systems[(step >> 8) & 0xff].system->far(test, Turn(shared, step));
  }
}

// Others on the machine wait, as far as the system lets us.
void go_first(int level) {
  const sched_param priority{.sched_priority = level};
  if (::sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
    fmt::print(stderr, "transport_bench: no real-time priority ({}): run as root\n", std::strerror(errno));
}

// A process that computes on the far core while it is let. Where everybody else waits for the bench it would
// too, or never let go; so there it takes its half of the core itself, in slices like the scheduler's.
class Busy {
 public:
  explicit Busy(bool realtime) {
    pid_ = bench::spawn(1, [realtime] {
      if (realtime) go_first(20);
      for (Instant begin = monotonic_now();;) {
        if (!realtime || monotonic_now() - begin < 4_ms) continue;
        ::usleep(4000);
        begin = monotonic_now();
      }
    });
    ::kill(pid_, SIGSTOP);
  }
  ~Busy() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  void run(bool on) const { ::kill(pid_, on ? SIGCONT : SIGSTOP); }

 private:
  pid_t pid_;
};

using Figures = std::map<std::string, std::map<Test, std::vector<double>>>;

class Near {
 public:
  Near(const Options& o, Shared& shared, std::vector<Named>& systems)
      : o_(o), shared_(shared), systems_(systems) {}

  void round(Figures& figures, std::span<const Test> tests, int milliseconds) {
    for (std::size_t s = 0; s < systems_.size(); ++s) {
      for (const Test test : tests) figures[systems_[s].name][test].push_back(measure(s, test, milliseconds));
    }
  }
  void stop() { shared_.step.store(kStop); }

 private:
  // µs of a round trip, or millions of messages in a second.
  double measure(std::size_t index, Test test, int milliseconds) {
    System& system = *systems_[index].system;
    begin(index, test);
    double result = 0;
    if (test == Test::kTrip) {
      (void)system.trip_us(o_.trips / 10);
      result = system.trip_us(o_.trips);
    } else {
      const std::uint32_t bytes = test == Test::kSmall ? kSmallBytes : kLargeBytes;
      const Duration all = Duration::ms(milliseconds);
      system.send(bytes, monotonic_now() + all / 5);  // until it flows
      const Instant begin = monotonic_now();
      const std::uint64_t before = shared_.received.load(std::memory_order_acquire);
      system.send(bytes, begin + all);
      const std::uint64_t received = shared_.received.load(std::memory_order_acquire) - before;
      const double units = static_cast<double>(received) * system.unit_bytes(bytes) / bytes;
      result = units / (monotonic_now() - begin).us();
    }
    // What is still in flight must not come into the next measurement. A far side that shares its core may be
    // out for many of the scheduler's slices.
    const Duration quiet = o_.busy ? 30_ms : 3_ms;
    system.drain(quiet);
    end();
    system.drain(quiet);
    return result;
  }
  void begin(std::size_t index, Test test) {
    step_ += std::uint64_t{1} << 16;
    const std::uint64_t step = step_ | index << 8 | static_cast<std::uint64_t>(test);
    shared_.step.store(step, std::memory_order_release);
    while (shared_.far_step.load(std::memory_order_acquire) != step) ::sched_yield();
  }
  void end() {
    step_ += std::uint64_t{1} << 16;
    shared_.step.store(step_, std::memory_order_release);
  }

  const Options& o_;
  Shared& shared_;
  std::vector<Named>& systems_;
  std::uint64_t step_ = 0;
};

double figure(const Figures& figures, const std::string& system, Test test) {
  return bench::median(figures.at(system).at(test));
}

// A goal, what was reached, whether that is enough.
struct Goal {
  std::string what;
  double value;
  double limit;
  bool at_least;
  bool met() const { return at_least ? value >= limit : value <= limit; }
};

std::vector<Goal> goals_of(const Figures& f) {
  std::vector<Goal> goals;
  for (const std::string wire : {"shm", "memif"}) {
    if (!f.contains(wire + " bare")) continue;
    const std::string bare = wire + " bare", stack = wire + " stack";
    goals.push_back(
        {wire + ": 64 B one way, M/s", figure(f, stack, Test::kSmall), wire == "shm" ? 20.0 : 15.0, true});
    goals.push_back({wire + ": round trip over the bare wire's",
                     figure(f, stack, Test::kTrip) / figure(f, bare, Test::kTrip), wire == "shm" ? 2.0 : 1.7,
                     false});
    goals.push_back({wire + ": round trip over the kernel's",
                     figure(f, stack, Test::kTrip) / figure(f, "kernel UDP", Test::kTrip), 0.5, false});
    goals.push_back({wire + ": 8 KiB one way over the bare wire's",
                     figure(f, stack, Test::kLarge) / figure(f, bare, Test::kLarge), 0.5, true});
  }
  return goals;
}

void print(const Figures& f, const std::vector<Named>& systems, int rounds) {
  fmt::print("{:16} {:>14} {:>16} {:>16}   medians of {} rounds\n", "", "64 B trip, us", "64 B way, M/s",
             "8 KiB way, GB/s", rounds);
  for (const Named& s : systems)
    fmt::print("{:16} {:14.3f} {:16.2f} {:16.2f}\n", s.name, figure(f, s.name, Test::kTrip),
               figure(f, s.name, Test::kSmall), figure(f, s.name, Test::kLarge) * kLargeBytes / 1e3);
  for (const Goal& g : goals_of(f))
    fmt::print("  {:40} {:8.2f}   goal {} {:.2f}: {}\n", g.what, g.value, g.at_least ? ">=" : "<=", g.limit,
               g.met() ? "met" : "missed");
}

nlohmann::json json_of(const Figures& f) {
  nlohmann::json json;
  for (const auto& [name, tests] : f) {
    json["systems"][name] = {
        {"round_trip_us", bench::median(tests.at(Test::kTrip))},
        {"small_one_way_million_per_s", bench::median(tests.at(Test::kSmall))},
        {"large_one_way_gb_per_s", bench::median(tests.at(Test::kLarge)) * kLargeBytes / 1e3}};
  }
  for (const Goal& g : goals_of(f))
    json["goals"].push_back({{"what", g.what}, {"value", g.value}, {"limit", g.limit}, {"met", g.met()}});
  return json;
}

void print_busy(const Figures& quiet, const Figures& busy, nlohmann::json& json) {
  fmt::print(
      "with a third busy process on the far core, share of the quiet rate (one half is its share of that "
      "core)\n");
  for (const auto& [name, tests] : busy) {
    const double small = figure(busy, name, Test::kSmall) / figure(quiet, name, Test::kSmall);
    const double large = figure(busy, name, Test::kLarge) / figure(quiet, name, Test::kLarge);
    fmt::print("{:16} 64 B {:5.2f}   8 KiB {:5.2f}\n", name, small, large);
    json["busy"][name] = {{"small_share", small}, {"large_share", large}};
  }
}

int run(const Options& o) {
  Shared& shared = *bench::shared<Shared>();
  proxy::ShmWireOptions wire_options;
  wire_options.queues = 3;
  const Result<int> wire = proxy::create_shm_wire(wire_options);
  if (!wire) {
    fmt::print(stderr, "transport_bench: {}\n", wire.error().text);
    return 1;
  }
  const std::string socket = fmt::format("braid-bench-{}", ::getpid());
  std::unique_ptr<Busy> third;
  if (o.busy) third = std::make_unique<Busy>(o.realtime);
  const pid_t far = bench::spawn(1, [&] {
    std::shared_ptr<void> keep;
    std::vector<Named> systems = make_systems(o, shared, false, wire.value(), socket, keep);
    if (o.realtime) go_first(10);
    far_process(shared, systems);
    systems.clear();
  });
  std::shared_ptr<void> keep;
  std::vector<Named> systems = make_systems(o, shared, true, wire.value(), socket, keep);
  while (!shared.far_ready.load()) ::usleep(1000);

  // Not before DPDK's interrupt thread has brought the links up: it shares the core.
  if (o.realtime) go_first(10);

  Near near(o, shared, systems);
  Figures quiet, busy;
  for (int i = 0; i < o.rounds; ++i) {
    near.round(quiet, kTests, o.milliseconds);
    if (!third) continue;
    // Long against the scheduler's slices. A round trip would take as long as those, and say nothing.
    third->run(true);
    near.round(busy, std::span(kTests).subspan(1), o.milliseconds * 5);
    third->run(false);
  }
  near.stop();
  print(quiet, systems, o.rounds);
  nlohmann::json json = json_of(quiet);
  if (third) print_busy(quiet, busy, json);
  if (!o.json.empty()) {
    std::ofstream out(o.json);
    out << json.dump(2) << "\n";
    if (!out) {
      fmt::print(stderr, "transport_bench: {} cannot be written: {}\n", o.json, std::strerror(errno));
      return 1;
    }
  }
  int status = 0;
  ::waitpid(far, &status, 0);
  systems.clear();
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  CLI::App app("The transport against the bare wire and the kernel's UDP, between two processes, in one run");
  braid::Options options;
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--trips", options.trips, "round trips of a measurement")
      ->check(CLI::Range(10, 10'000'000))
      ->capture_default_str();
  app.add_option("--milliseconds", options.milliseconds, "of a measurement one way")
      ->check(CLI::Range(5, 100'000))
      ->capture_default_str();
  app.add_flag("--busy", options.busy, "every round also with a third busy process");
  app.add_flag("--memif,!--no-memif", options.memif, "over DPDK's memif too")->capture_default_str();
  app.add_flag("--realtime", options.realtime, "before all other programs of the machine (needs root)");
  app.add_option("--json", options.json, "write the figures there too")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  return braid::run(options);
}
