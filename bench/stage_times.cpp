#include "bench/stage_times.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/ethernet.h"
#include "bench/fault_opener.h"
#include "bench/two_nodes.h"
#include "bench/two_processes.h"
#include "dsm/api.h"
#include "dsm/engine/diff.h"
#include "dsm/engine/engine.h"
#include "dsm/live/machine.h"
#include "dsm/live/memory.h"
#include "proxy/client/client.h"
#include "proxy/daemon/in_process.h"
#include "proxy/daemon/node.h"
#include "proxy/nic/shm_wire.h"
#include "stack/wire/checksum.h"
#include "stack/wire/flow.h"

namespace braid::bench {

namespace {

// Of messages between which costs per byte are taken: both fit one frame of a shm wire.
constexpr std::uint32_t kShort = 64;
constexpr std::uint32_t kLong = 4096;
constexpr std::uint32_t kMtuBytes = 9000;
// Calls in a row between two looks at the clock, for what takes less than the look.
constexpr int kRow = 128;

// Results must not be optimised away, nor loops be moved out of.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

double ns_between(Instant begin, Instant end) {
  return static_cast<double>((end - begin).ns());
}

// What a look at the clock adds to the time between two.
double clock_ns() {
  std::vector<double> times;
  for (int i = 0; i < 1001; ++i) {
    const Instant begin = monotonic_now();
    times.push_back(ns_between(begin, monotonic_now()));
  }
  return median(times);
}

template <class Body>
double ns_each(unsigned samples, int times, Body&& body) {
  std::vector<double> rows;
  for (unsigned s = 0; s < samples; ++s) {
    const Instant begin = monotonic_now();
    for (int i = 0; i < times; ++i) body(i);
    rows.push_back(ns_between(begin, monotonic_now()) / times);
  }
  return median(rows);
}

// Runs body(results) in a process of its own, which may do to itself what it likes. The error says how it
// ended.
Result<std::vector<double>> in_child(std::size_t count, const std::function<void(double*)>& body,
                                     const char* what) {
  double* const results = shared<double>(count);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return error("cannot start a process to time {}: {}", what, std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    body(results);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error("the process that times {} ended with {} {}", what, WIFEXITED(status) ? "status" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return std::vector<double>(results, results + count);
}

// ---------------------------------------------------------------- NIs

// The two ends of a shm wire.
struct Ends {
  std::unique_ptr<proxy::ShmQueue> a, b;
};

Result<Ends> make_ends() {
  const Result<int> fd = proxy::create_shm_wire({});
  if (!fd) return fd.error();
  const auto a = proxy::ShmWire::map(*fd, proxy::ShmSide::kA);
  const auto b = proxy::ShmWire::map(*fd, proxy::ShmSide::kB);
  ::close(*fd);
  if (!a) return a.error();
  if (!b) return b.error();
  return Ends{(*a)->queue(0), (*b)->queue(0)};
}

// As a proxy asks for room and sends one frame; the frame's bytes are the caller's to write.
template <class Write>
void send_frame(proxy::NicQueue& queue, std::uint32_t bytes, Write&& write) {
  std::array<proxy::TxFrame, proxy::kMaxBurst> room;
  CHECK_GT(queue.reserve(room), 0u);
  write(room[0].data);
  room[0].length = bytes;
  queue.commit(std::span(room).first(1));
}

struct NiTimes {
  double send = 0, receive = 0;  // a frame
};

NiTimes time_ni(Ends& ends, unsigned samples) {
  std::vector<double> send, receive;
  for (unsigned s = 0; s < samples; ++s) {
    const Instant begin = monotonic_now();
    for (int i = 0; i < kRow; ++i) send_frame(*ends.a, kShort, [](std::byte*) {});
    const Instant sent = monotonic_now();
    for (int i = 0; i < kRow; ++i) {
      std::array<MutableBytes, 1> frame;
      CHECK_EQ(ends.b->receive(frame), 1u);
    }
    const Instant received = monotonic_now();
    std::array<MutableBytes, 1> none;
    CHECK_EQ(ends.b->receive(none), 0u);  // the last frames go back
    send.push_back(ns_between(begin, sent) / kRow);
    receive.push_back(ns_between(sent, received) / kRow);
  }
  return {median(send), median(receive)};
}

// A frame there: every byte is written by one side and read by the other.
void fill_and_send(proxy::NicQueue& queue, std::uint32_t bytes) {
  send_frame(queue, bytes, [&](std::byte* data) { std::memset(data, 0x5a, bytes); });
}
bool take_and_read(proxy::NicQueue& queue) {
  std::array<MutableBytes, 1> frame;
  if (queue.receive(frame) == 0) return false;
  keep(stack::checksum_add(0, frame[0]));
  return true;
}

// One way between two threads, each on a processor of its own where there are two.
double one_way_ns(Ends& ends, std::uint32_t bytes, unsigned trips) {
  // A look costs nothing while the other one runs; else it must be let run.
  constexpr int kLooks = 1000;
  const auto wait_for_frame = [](proxy::NicQueue& queue, const std::atomic<bool>& stop) {
    for (int look = 1; !take_and_read(queue); ++look) {
      if (stop.load(std::memory_order_relaxed)) return false;
      if (look % kLooks == 0) std::this_thread::yield();
    }
    return true;
  };
  std::atomic<bool> stop{false};
  std::vector<double> times;
  std::thread echo([&] {
    pin(1);
    while (wait_for_frame(*ends.b, stop)) fill_and_send(*ends.b, bytes);
  });
  std::thread measure([&] {
    pin(0);
    const std::atomic<bool> never{false};
    for (unsigned t = 0; t < trips; ++t) {
      const Instant begin = monotonic_now();
      fill_and_send(*ends.a, bytes);
      wait_for_frame(*ends.a, never);
      times.push_back(ns_between(begin, monotonic_now()) / 2);
    }
    stop = true;
  });
  measure.join();
  echo.join();
  return median(times);
}

struct WireTimes {
  double latency = 0, byte = 0;
};

// What a thread alone does for the same frames is taken off.
WireTimes time_wire(Ends& ends, unsigned samples) {
  // Every slot has been used before: the first lap makes the system map it.
  for (int lap = 0; lap < 600; ++lap) {
    fill_and_send(*ends.a, kLong);
    fill_and_send(*ends.b, kLong);
    CHECK(take_and_read(*ends.b) && take_and_read(*ends.a));
  }
  const auto alone = [&](std::uint32_t bytes) {
    return ns_each(samples, 16, [&](int) {
      fill_and_send(*ends.a, bytes);
      CHECK(take_and_read(*ends.b));
    });
  };
  const double short_alone = alone(kShort), long_alone = alone(kLong);
  const double short_way = one_way_ns(ends, kShort, 20 * samples);
  const double long_way = one_way_ns(ends, kLong, 20 * samples);
  return {short_way - short_alone,
          ((long_way - long_alone) - (short_way - short_alone)) / static_cast<double>(kLong - kShort)};
}

// ---------------------------------------------------------------- IP and UDP

struct HeaderTimes {
  double udp_send = 0, ip_send = 0, udp_receive = 0, ip_receive = 0;
};

// A flow writes and reads both headers at once (stack/wire/flow.h): what that takes is shared between them as
// the general writers and parsers take it.
HeaderTimes time_headers(unsigned samples) {
  using namespace stack;  // NOLINT
  const MacAddress mac(2, 0, 0, 0, 0, 1);
  const UdpFields udp{Ipv4Address(10, 0, 0, 1), Ipv4Address(10, 0, 0, 2), 7700, 7700, 0};
  const Ipv4Fields ip{.source = udp.source, .destination = udp.destination, .payload_bytes = kUdpHeaderBytes};
  alignas(64) std::array<std::byte, 64> frame{};
  const MutableBytes bytes(frame);
  const MutableBytes ip_bytes = bytes.subspan(kEthernetHeaderBytes, kIpv4HeaderBytes + kUdpHeaderBytes);
  const MutableBytes udp_bytes = ip_bytes.subspan(kIpv4HeaderBytes);
  const FlowHeader header(mac, mac, udp);
  const FlowFilter filter(mac, udp.destination, udp.destination_port);

  const double both_send = ns_each(samples, kRow, [&](int i) {
    header.write(frame.data(), 0, static_cast<std::uint64_t>(i));
    keep(frame);
  });
  const double ip_write = ns_each(samples, kRow, [&](int) {
    write_ethernet(bytes, mac, mac, EtherType::kIpv4);
    write_ipv4(ip_bytes, ip);
    keep(frame);
  });
  const double udp_write = ns_each(samples, kRow, [&](int) {
    write_udp(udp_bytes, udp, 0);
    keep(frame);
  });
  header.write(frame.data(), 0, 0);
  const double both_receive = ns_each(samples, kRow, [&](int) {
    keep(frame);
    Ipv4Address source;
    CHECK(filter.match(ByteView(frame).first(kFlowHeaderBytes), source).data() != nullptr);
  });
  const double ip_read = ns_each(samples, kRow, [&](int) {
    keep(frame);
    EthernetFrame e;
    Ipv4Packet p;
    CHECK(parse_ethernet(ByteView(frame).first(kFlowHeaderBytes), e) == EthernetParse::kOk);
    CHECK(parse_ipv4(e.payload, p) == Ipv4Parse::kOk);
  });
  const double udp_read = ns_each(samples, kRow, [&](int) {
    keep(frame);
    UdpDatagram d;
    CHECK(parse_udp(udp_bytes, udp.source, udp.destination, d) == UdpParse::kOk);
  });
  const double send_share = udp_write / (udp_write + ip_write);
  const double receive_share = udp_read / (udp_read + ip_read);
  return {both_send * send_share, both_send * (1 - send_share), both_receive * receive_share,
          both_receive * (1 - receive_share)};
}

// A byte of a long block, the block's fixed part taken off.
template <class OfBytes>
double ns_per_byte(unsigned samples, OfBytes&& of_bytes) {
  const auto whole = [&](std::uint32_t bytes) {
    return ns_each(samples, kRow, [&](int) { of_bytes(bytes); });
  };
  return (whole(kLong) - whole(kShort)) / static_cast<double>(kLong - kShort);
}

struct ByteTimes {
  double sum = 0, copy = 0;  // of bytes that lie in the cache
};

ByteTimes time_bytes(unsigned samples) {
  std::vector<std::byte> from(kLong, std::byte{0x5a}), to(kLong);
  ByteTimes t;
  t.sum = ns_per_byte(samples, [&](std::uint32_t bytes) {
    keep(from);
    keep(stack::checksum_add(0, ByteView(from).first(bytes)));
  });
  t.copy = ns_per_byte(samples, [&](std::uint32_t bytes) {
    std::memcpy(to.data(), from.data(), bytes);
    keep(to);
  });
  return t;
}

// ---------------------------------------------------------------- proxies

// Two nodes of one proxy each with a shm wire between them, and a client of each, all on this thread.
class TwoNodes {
 public:
  static Result<std::unique_ptr<TwoNodes>> make() {
    auto two = std::make_unique<TwoNodes>();
    if (const Result<void> done = two->connect(); !done) return done.error();
    return two;
  }

  proxy::Worker& proxy(int side) { return nodes_[side]->worker(0); }
  std::uint64_t bytes_sent(int side) { return nodes_[side]->counters(0).frame_bytes_sent.get(); }
  proxy::Endpoint& endpoint(int side) { return clients_[side]->endpoint(0); }
  proxy::Connection& connection() { return *connection_; }

 private:
  Result<void> connect() {
    const Result<int> wire = proxy::create_shm_wire({});
    if (!wire) return wire.error();
    for (const int side : {0, 1}) {
      const auto cluster = static_cast<std::uint16_t>(side);
      proxy::NodeConfig config = one_of_two_nodes(cluster, kMtuBytes);
      config.links.push_back(end_of_wire(cluster, *wire));
      Result<std::unique_ptr<proxy::Node>> node = proxy::Node::create(config, monotonic_now());
      if (!node) return node.error();
      nodes_[side] = std::move(node).value();
    }
    for (const int side : {0, 1}) {
      auto client = proxy::Client::attach(proxy::in_process_service(nodes_[side], {nodes_[1 - side]}), {});
      if (!client) return client.error();
      clients_[side] = std::move(client).value();
    }
    constexpr PortId kPort(7);
    if (const Result<void> listening = endpoint(1).listen(kPort, {}); !listening) return listening.error();
    const Result<proxy::Connection*> connected = endpoint(0).connect(ClusterId(1), kPort, {}, 10_s);
    if (!connected) return connected.error();
    connection_ = *connected;
    const Result<proxy::Connection*> accepted = endpoint(1).accept(10_s);
    if (!accepted) return accepted.error();
    return {};
  }

  std::shared_ptr<proxy::Node> nodes_[2];
  std::unique_ptr<proxy::Client> clients_[2];
  proxy::Connection* connection_ = nullptr;
};

// Of messages of one length that go from one node to the other, so many in one packet.
struct Turns {
  double hand_over = 0;    // all of them, in place
  double send = 0;         // the sending proxy's turn
  double receive = 0;      // the receiving one's
  double poll = 0;         // the receiving client's, less one that finds nothing
  double acknowledge = 0;  // the receiving proxy's turn that sends nothing else
  double hear = 0;         // the sending one's that hears it
  double idle = 0;         // a turn that finds nothing
  double frame_bytes = 0;
  double ack_bytes = 0;
};

class TurnSamples {
 public:
  explicit TurnSamples(TwoNodes& two) : two_(two) {}

  // One more; nothing is kept of one that went another way, as when a timer came between.
  void take(std::uint32_t bytes, int messages) {
    proxy::Endpoint& from = two_.endpoint(0);
    proxy::Endpoint& to = two_.endpoint(1);
    proxy::Worker& sender = two_.proxy(0);
    proxy::Worker& receiver = two_.proxy(1);
    const auto ignore = [](proxy::Connection&, ByteView) {};
    const std::uint64_t sent_before = two_.bytes_sent(0);
    const std::uint64_t acked_before = two_.bytes_sent(1);
    const Instant begin = monotonic_now();
    for (int m = 0; m < messages; ++m) {
      if (two_.connection().reserve(bytes).empty()) {
        drain();
        return;
      }
      two_.connection().commit(bytes);
    }
    from.flush();
    const Instant handed = monotonic_now();
    (void)sender.do_work(handed);
    const Instant sent = monotonic_now();
    (void)receiver.do_work(sent);
    const Instant received = monotonic_now();
    const int got = to.poll(ignore);
    const Instant polled = monotonic_now();
    (void)to.poll(ignore);
    const Instant polled_again = monotonic_now();
    if (got != messages || two_.bytes_sent(1) != acked_before) return drain();
    // Its acknowledgement is held back for a while.
    Instant turn, after;
    do {
      turn = monotonic_now();
      if (receiver.do_work(turn) == 0) idle_.push_back(ns_between(turn, monotonic_now()));
      after = monotonic_now();
    } while (two_.bytes_sent(1) == acked_before && turn - received < 10_ms);
    if (two_.bytes_sent(1) == acked_before) return drain();
    const Instant hears = monotonic_now();
    (void)sender.do_work(hears);
    const Instant heard = monotonic_now();
    hand_over_.push_back(ns_between(begin, handed));
    send_.push_back(ns_between(handed, sent));
    receive_.push_back(ns_between(sent, received));
    poll_.push_back(ns_between(received, polled) - ns_between(polled, polled_again));
    acknowledge_.push_back(ns_between(turn, after));
    hear_.push_back(ns_between(hears, heard));
    frame_bytes_.push_back(static_cast<double>(two_.bytes_sent(0) - sent_before));
    ack_bytes_.push_back(static_cast<double>(two_.bytes_sent(1) - acked_before));
    drain();
  }

  bool any() const { return !send_.empty() && !idle_.empty(); }
  Turns medians(double clock) const {
    return {.hand_over = median(hand_over_) - clock,
            .send = median(send_) - clock,
            .receive = median(receive_) - clock,
            .poll = median(poll_),
            .acknowledge = median(acknowledge_) - clock,
            .hear = median(hear_) - clock,
            .idle = median(idle_) - clock,
            .frame_bytes = median(frame_bytes_),
            .ack_bytes = median(ack_bytes_)};
  }

 private:
  // Until nothing of this sample is in flight any more.
  void drain() {
    const auto ignore = [](proxy::Connection&, ByteView) {};
    for (int i = 0; i < 4; ++i) {
      (void)two_.endpoint(0).poll(ignore);
      (void)two_.endpoint(1).poll(ignore);
    }
  }

  TwoNodes& two_;
  std::vector<double> hand_over_, send_, receive_, poll_, acknowledge_, hear_, idle_, frame_bytes_,
      ack_bytes_;
};

Result<Turns> time_turns(TwoNodes& two, std::uint32_t bytes, int messages, unsigned samples, double clock) {
  // Everything that is used in turn has been used before: the first lap makes the system map it.
  TurnSamples first_laps(two);
  for (int lap = 0; lap < 600; ++lap) first_laps.take(kLong, 1);
  TurnSamples turns(two);
  for (unsigned s = 0; s < 20 * samples; ++s) turns.take(bytes, messages);
  if (!turns.any())
    return error("no message of {} bytes went from one proxy to the other undisturbed: is this machine busy?",
                 bytes);
  return turns.medians(clock);
}

// ---------------------------------------------------------------- the page protocol

class ArrayPages final : public dsm::PageMemory {
 public:
  explicit ArrayPages(std::uint32_t pages) : bytes_(std::size_t{pages} * dsm::kPageBytes) {}
  void protect(PageId, std::uint32_t, dsm::Access) override {}
  std::byte* page(PageId page) override { return &bytes_[std::size_t{page.value()} * dsm::kPageBytes]; }

 private:
  std::vector<std::byte> bytes_;
};

dsm::EngineConfig engine_config(std::uint16_t cluster, std::uint16_t clusters) {
  dsm::EngineConfig c;
  c.cluster = ClusterId(cluster);
  c.clusters = clusters;
  c.pages = 16;
  c.locks = 16;
  c.barriers = 4;
  c.words = 16;
  c.twins = 16;
  return c;
}

struct EngineTimes {
  double lock = 0, barrier = 0, sync = 0;      // inside a cluster
  double small_message = 0, small_output = 0;  // taken, and written
};

EngineTimes time_engine(unsigned samples, double clock) {
  EngineTimes t;
  ArrayPages pages(16);
  dsm::Engine alone(engine_config(0, 1), pages);
  t.lock = ns_each(samples, kRow,
                   [&](int) {
                     CHECK(alone.lock(0, dsm::LockId(7)));
                     alone.unlock(0, dsm::LockId(7));
                   }) /
           2;
  t.barrier = ns_each(samples, kRow, [&](int) { CHECK(alone.barrier(0, dsm::BarrierId(1))); });
  dsm::SyncCall add;
  add.op = dsm::SyncOp::kWordAdd;
  add.first = 1;
  t.sync = ns_each(samples, kRow, [&](int) { CHECK(alone.sync(0, add)); });

  // A word whose home is elsewhere: one message there and one back.
  ArrayPages more(16);
  dsm::Engine first(engine_config(0, 2), pages), second(engine_config(1, 2), more);
  dsm::Engine* const engines[2] = {&first, &second};
  std::vector<std::byte> room(dsm::kMaxMessageBytes);
  std::vector<double> taken, written;
  const auto pump = [&](int from) {
    const auto source = ClusterId(static_cast<std::uint16_t>(from));
    const auto destination = ClusterId(static_cast<std::uint16_t>(1 - from));
    while (engines[from]->has_output(destination)) {
      const Instant begin = monotonic_now();
      const std::size_t bytes = engines[from]->poll_transmit(destination, room);
      const Instant polled = monotonic_now();
      if (bytes == 0) return;
      engines[1 - from]->on_message(source, ByteView(room).first(bytes));
      const Instant handled = monotonic_now();
      written.push_back(ns_between(begin, polled) - clock);
      taken.push_back(ns_between(polled, handled) - clock);
    }
  };
  for (unsigned s = 0; s < 20 * samples; ++s) {
    add.id = s % 16;
    for (const int asks : {0, 1}) {
      if (engines[asks]->sync(0, add)) continue;  // it is at home here
      while (!engines[asks]->done(0)) {
        pump(asks);
        pump(1 - asks);
      }
    }
  }
  t.small_message = median(taken);
  t.small_output = median(written);
  return t;
}

struct PageTimes {
  double copy = 0, diff = 0, diff_byte = 0;
};

PageTimes time_pages(unsigned samples) {
  PageTimes t;
  // More than a first-level cache has, as a program's pages are.
  constexpr int kPages = 128;
  std::vector<std::byte> from(kPages * dsm::kPageBytes, std::byte{1}), to(kPages * dsm::kPageBytes);
  t.copy = ns_each(samples, kPages, [&](int i) {
    const std::size_t at = static_cast<std::size_t>(i) * dsm::kPageBytes;
    std::memcpy(to.data() + at, from.data() + at, dsm::kPageBytes);
    keep(to);
  });
  // Changes of eight bytes: few of them, or in half of the page.
  const auto change = [&](int i, std::size_t changes) {
    std::byte* const page = to.data() + static_cast<std::size_t>(i) * dsm::kPageBytes;
    for (std::size_t c = 0; c < changes; ++c) std::memset(page + c * 16, 2, 8);
  };
  struct Diff {
    double find, apply, bytes;
  };
  const auto diff_of = [&](std::size_t changes) {
    std::memcpy(to.data(), from.data(), to.size());
    for (int i = 0; i < kPages; ++i) change(i, changes);
    std::vector<std::byte> room(dsm::kMaxDiffBytes);
    dsm::EncodedDiff encoded;
    Diff d{};
    d.find = ns_each(samples, kPages, [&](int i) {
      const std::size_t at = static_cast<std::size_t>(i) * dsm::kPageBytes;
      encoded = dsm::encode_diff(to.data() + at, from.data() + at, room);
      keep(room);
    });
    d.apply = ns_each(samples, kPages, [&](int i) {
      CHECK(dsm::apply_diff(encoded.format, ByteView(room).first(encoded.bytes),
                            to.data() + static_cast<std::size_t>(i) * dsm::kPageBytes));
      keep(to);
    });
    d.bytes = static_cast<double>(encoded.bytes);
    return d;
  };
  const Diff few = diff_of(1), many = diff_of(dsm::kPageBytes / 16);
  t.diff = few.find;
  t.diff_byte = (many.find - few.find + many.apply - few.apply) / 2 / (many.bytes - few.bytes);
  return t;
}

// ---------------------------------------------------------------- faults and calls

struct FaultTimes {
  double fault = 0, protect = 0, protect_beside_sibling = 0;
  bool userfaultfd = false;
};

// As the runtime chooses.
Result<dsm::Memory> make_memory(std::uint32_t pages) {
  Result<dsm::Memory> memory = dsm::Memory::make(pages, dsm::Protection::kUserfaultfd);
  if (memory) return memory;
  return dsm::Memory::make(pages, dsm::Protection::kMprotect);
}

// In a process of its own: it takes the heap's address and the faults.
void time_faults_here(unsigned samples, double* results) {
  constexpr std::uint32_t kPages = 128;
  std::vector<double> faults, protects;
  bool userfaultfd = false;
  const auto round = [&](bool counts_faults) {
    Result<dsm::Memory> made = make_memory(kPages);
    CHECK(made.ok());
    dsm::Memory& memory = *made;
    userfaultfd = memory.protection() == dsm::Protection::kUserfaultfd;
    for (std::uint32_t p = 0; p < kPages; ++p) *memory.page(PageId(p)) = std::byte{1};
    // Every other page, so that neighbours differ.
    const auto each = [&](auto&& body) {
      const Instant begin = monotonic_now();
      for (std::uint32_t p = 0; p < kPages; p += 2) body(PageId(p));
      return ns_between(begin, monotonic_now()) / (kPages / 2.0);
    };
    const auto set = [&](dsm::Access access) {
      return each([&](PageId p) { memory.protect(p, 1, access); });
    };
    const auto at = [](PageId p) { return static_cast<volatile int*>(dsm::application_address(p)); };
    memory.protect(PageId(0), kPages, dsm::Access::kNone);
    const double to_read = set(dsm::Access::kRead), to_write = set(dsm::Access::kWrite);
    protects.insert(protects.end(), {to_read, to_write, set(dsm::Access::kRead), set(dsm::Access::kNone)});
    if (!counts_faults) return;
    FaultOpener opener(memory);
    const dsm::SignalStack stack;
    CHECK(dsm::install_fault_handler(&opener, dsm::HandlerStack::kSignalStack).ok());
    const double read = each([&](PageId p) { (void)*at(p); });
    const double write = each([&](PageId p) { *at(p) = 1; });
    dsm::remove_fault_handler();
    faults.push_back((read - to_read + write - to_write) / 2);
  };
  for (unsigned s = 0; s < samples; ++s) round(true);
  results[0] = median(faults);
  results[1] = median(protects);
  results[2] = userfaultfd ? 1 : 0;
  protects.clear();
  std::atomic<bool> stop{false};
  std::thread sibling([&] {
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  for (unsigned s = 0; s < samples; ++s) round(false);
  stop = true;
  sibling.join();
  results[3] = median(protects);
}

Result<FaultTimes> time_faults(unsigned samples) {
  const auto results = in_child(
      4, [&](double* r) { time_faults_here(samples, r); }, "page faults");
  if (!results) return results.error();
  const std::vector<double>& r = *results;
  return FaultTimes{.fault = r[0], .protect = r[1], .protect_beside_sibling = r[3], .userfaultfd = r[2] > 0};
}

// A lock taken or given back by a program, on a machine of one cluster.
Result<double> time_lock_call(unsigned samples) {
  const auto results = in_child(
      1,
      [&](double* r) {
        dsm::Environment alone;
        alone.heap_mib = 1;
        dsm::join_machine(alone, nullptr);
        dsm::parallel([&](dsm::Node& node) {
          *r = ns_each(samples, kRow,
                       [&](int) {
                         node.lock(7);
                         node.unlock(7);
                       }) /
               2;
        });
      },
      "calls");
  if (!results) return results.error();
  return results->front();
}

}  // namespace

Result<StageTimes> time_stages(unsigned samples) {
  CHECK_GE(samples, 10u);
  const double clock = clock_ns();
  Result<Ends> ends = make_ends();
  if (!ends) return ends.error();
  const NiTimes ni = time_ni(*ends, samples);
  const WireTimes wire = time_wire(*ends, samples);
  const HeaderTimes headers = time_headers(samples);
  const ByteTimes bytes = time_bytes(samples);
  const auto two = TwoNodes::make();
  if (!two) return two.error();
  constexpr int kMany = 5;
  const Result<Turns> one = time_turns(**two, kShort, 1, samples, clock);
  if (!one) return one.error();
  const Result<Turns> many = time_turns(**two, kShort, kMany, samples, clock);
  if (!many) return many.error();
  const Result<Turns> longer = time_turns(**two, kLong, 1, samples, clock);
  if (!longer) return longer.error();
  const EngineTimes engine = time_engine(samples, clock);
  const PageTimes page = time_pages(samples);
  const Result<FaultTimes> fault = time_faults(samples);
  if (!fault) return fault.error();
  const Result<double> lock_call = time_lock_call(samples);
  if (!lock_call) return lock_call.error();

  constexpr double kSpan = kLong - kShort;
  const double send_byte = (longer->send - one->send) / kSpan;
  const double receive_byte = (longer->receive - one->receive) / kSpan;
  StageTimes t;
  // Less than nothing is what noise makes of next to nothing.
  const auto put = [&](const char* key, double ns, std::string how) {
    t[key] = {std::max(ns, 0.0), std::move(how)};
  };
  const auto put_fixed = [&](const char* key, double ns, std::string how) {
    constexpr double kLeast = 0.1;  // of anything that happens at all
    t[key] = {std::max(ns, kLeast), std::move(how)};
  };
  put_fixed("fault", fault->fault,
            fmt::format("from an access to the runtime's handler and back, {}, less the page's opening",
                        fault->userfaultfd ? "userfaultfd" : "mprotect"));
  put_fixed("call", *lock_call - engine.lock, "a lock call of a program less what its engine does");
  put_fixed("lock", engine.lock, "the engine's lock and unlock, halved");
  put_fixed("barrier", engine.barrier, "the engine's, of the only compute node");
  put_fixed("sync", engine.sync, "the engine's, a word that is at home here");
  put_fixed("protect", fault->protect,
            fmt::format("a page opened or closed by {}; {:.0f} ns while a sibling computes",
                        fault->userfaultfd ? "userfaultfd" : "mprotect", fault->protect_beside_sibling));
  put_fixed("twin", page.copy, "a page copied within the second-level cache");
  put_fixed("diff", page.diff, "a page with one change of eight bytes");
  put("diff_byte", page.diff_byte, "changes in half of a page less one change; mean of finding and applying");
  put("page_byte", page.copy / dsm::kPageBytes, "a page copied within the second-level cache");
  put_fixed("handler", one->poll + engine.small_message,
            "a client's poll that takes a message less one that takes none, and the engine's part");
  const double hand_over_byte = (longer->hand_over - one->hand_over) / kSpan;
  put("hand_over_byte", hand_over_byte, "4096 and 64 bytes, written in place by the page protocol");
  put_fixed("hand_over", one->hand_over + engine.small_output - kShort * std::max(hand_over_byte, 0.0),
            "a client's reserve, commit and flush, and the engine's writing of a small message");

  put("checksum_byte", bytes.sum, "checksum_add() over 4096 and 64 bytes in the cache");
  put("ni_byte", std::max(send_byte - bytes.sum, bytes.copy),
      "a proxy's turn that sends 4096 bytes less one that sends 64, less their checksum; at least a copy");
  put("deliver_byte", std::max(receive_byte - send_byte, bytes.copy),
      "a proxy's turn that receives 4096 bytes less one that receives 64, less the same of sending; at "
      "least a copy");
  const double ni_byte = t["ni_byte"].ns, deliver_byte = t["deliver_byte"].ns;
  const auto of_frame = [&](double frame_bytes) {
    constexpr double kOutsideUdp = kEthernetHeaderBytes + stack::kIpv4HeaderBytes;
    return ni_byte * frame_bytes + bytes.sum * (frame_bytes - kOutsideUdp);
  };
  put_fixed("udp_send", headers.udp_send,
            "a flow's headers written, shared as write_udp() and write_ipv4() take");
  put_fixed("ip_send", headers.ip_send,
            "a flow's headers written, shared as write_udp() and write_ipv4() take");
  put_fixed("udp_receive", headers.udp_receive,
            "a flow's headers looked at, shared as parse_udp() and parse_ipv4() take");
  put_fixed("ip_receive", headers.ip_receive,
            "a flow's headers looked at, shared as parse_udp() and parse_ipv4() take");
  put_fixed("ni_send", ni.send, "the shm wire's reserve() and commit() of one frame");
  put_fixed("ni_receive", ni.receive, "the shm wire's receive() of one frame");
  const double below_send = headers.udp_send + headers.ip_send + ni.send;
  const double below_receive = headers.udp_receive + headers.ip_receive + ni.receive;
  put_fixed("window_send", one->send - below_send - of_frame(one->frame_bytes),
            "a proxy's turn that takes 64 bytes from its client and sends them, less UDP, IP, NI and bytes");
  put_fixed("timer", one->idle, "a proxy's turn that finds nothing to do");
  put_fixed(
      "ack_send", one->acknowledge - one->idle - below_send - of_frame(one->ack_bytes),
      "a proxy's turn that sends an acknowledgement less one that finds nothing, UDP, IP, NI and bytes");
  const double more_bytes = (many->frame_bytes - one->frame_bytes) / (kMany - 1);
  put_fixed("deliver",
            (many->receive - one->receive) / (kMany - 1) - (ni_byte + bytes.sum) * more_bytes -
                deliver_byte * kShort,
            "a turn that receives five records of 64 bytes less one that receives one, less their bytes");
  put_fixed(
      "window_receive",
      one->receive - below_receive - of_frame(one->frame_bytes) - t["deliver"].ns - deliver_byte * kShort,
      "a proxy's turn that receives 64 bytes, less NI, IP, UDP, bytes and delivery");
  put_fixed(
      "ack_receive", one->hear - below_receive - of_frame(one->ack_bytes),
      "a proxy's turn that hears an acknowledgement and takes back the message, less NI, IP, UDP and bytes");
  put_fixed("latency", wire.latency,
            "64 bytes between two threads on two processors over the shm wire, less what one thread takes");
  put("wire_byte", wire.byte, "4096 bytes between two threads less 64, less what one thread takes");
  return t;
}

}  // namespace braid::bench
