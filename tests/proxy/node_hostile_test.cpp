// Clients that write nonsense into the memory that they share with their node: they lose their connection,
// and no other client notices.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <deque>
#include <initializer_list>

#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

constexpr PortId kPort{9};

// A client without the library: it knows the layout and keeps to nothing.
class Raw {
 public:
  Raw(Nodes& machine, unsigned cluster, std::uint32_t send_bytes = 65536,
      std::uint64_t receive_bytes = 256u << 10)
      : machine_(machine), node_(machine.node(cluster)), id_(node_->add_client()) {
    control::Message m;
    m.kind = control::Kind::kAttach;
    m.attach = {1, send_bytes, receive_bytes};
    int fd = -1;
    const control::Message reply = ask(m, &fd);
    EXPECT_EQ(reply.kind, control::Kind::kAttached);
    geometry_ = reply.attached.geometry;
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, geometry_.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    CHECK_NE(static_cast<void*>(memory_), MAP_FAILED);
    ::close(fd);
    ring_ = reinterpret_cast<RingControl*>(memory_ + geometry_.send_ring(0, 0));
  }
  ~Raw() {
    node_->client_gone(id_);
    EXPECT_TRUE(until([&] { machine_.turn(); }, [&] { return !served(); }));
    ::munmap(memory_, geometry_.total_bytes());
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  control::Opened connect(ClusterId to, PortId port, std::uint32_t window_bytes = 65536) {
    control::Message m;
    m.kind = control::Kind::kConnect;
    m.connect = {to.value(), port.value(), 0, window_bytes, 1, 10'000, stack::kMessages.value()};
    const control::Message reply = ask(m);
    EXPECT_EQ(reply.kind, control::Kind::kOpened) << reply.refused.text;
    return reply.opened;
  }

  // The next descriptor, as a client's library would write it.
  void push(const SendDescriptor& d) {
    auto* const entries =
        reinterpret_cast<SendDescriptor*>(memory_ + geometry_.send_ring(0, 0) + sizeof(RingControl));
    entries[tail_ & (geometry_.send_descriptors - 1)] = d;
    ring_->tail.store(++tail_, std::memory_order_release);
  }
  // A train's descriptor, and the lengths of its messages behind it.
  void push_train(const SendDescriptor& d, const stack::TrainLengths& lengths) {
    push(d);
    push(std::bit_cast<SendDescriptor>(lengths));
  }
  std::byte* data() { return memory_ + geometry_.send_data(0, 0); }
  void jump_tail(std::uint32_t by) { ring_->tail.store(tail_ += by, std::memory_order_release); }
  std::uint32_t room() const {
    return geometry_.send_descriptors - (tail_ - ring_->head.load(std::memory_order_acquire));
  }

  // Still a client of the node; false also once the node has seen it out.
  bool served() const { return node_->has_client(id_); }
  Node::ClientId id() const { return id_; }
  std::byte* memory() { return memory_; }
  const ChannelGeometry& geometry() const { return geometry_; }
  RingControl& arrivals() { return *reinterpret_cast<RingControl*>(memory_ + geometry_.arrival_ring(0, 0)); }
  PortCell& cell(const control::Opened& o) {
    return *reinterpret_cast<PortCell*>(memory_ + geometry_.cell(o.cell));
  }

 private:
  control::Message ask(control::Message m, int* fd = nullptr) {
    m.serial = ++serial_;
    node_->on_request(monotonic_now(), id_, m);
    control::Message reply;
    EXPECT_TRUE(until([&] { machine_.turn(); },
                      [&] {
                        const auto out = node_->poll_outbound(id_);
                        if (!out || out->message.serial != serial_) return false;
                        reply = out->message;
                        if (fd != nullptr && out->fd >= 0) *fd = ::dup(out->fd);
                        return true;
                      }));
    return reply;
  }

  Nodes& machine_;
  std::shared_ptr<Node> node_;
  Node::ClientId id_;
  std::uint32_t serial_ = 0;
  ChannelGeometry geometry_;
  std::byte* memory_ = nullptr;
  RingControl* ring_ = nullptr;
  std::uint32_t tail_ = 0;
};

// Two clients that keep the rules and send over the same proxies, both ways, all the time.
class Hostile : public ::testing::Test {
 protected:
  explicit Hostile(const NodesOptions& options = {}) : m_(options) {
    ClientOptions large;
    large.receive_bytes = 16u << 20;
    a_ = m_.client(0, large);
    b_ = m_.client(1, large);
    good_ = connect(a_->endpoint(0), ClusterId(1), b_->endpoint(0), PortId(1));
    EXPECT_TRUE(b_->endpoint(0).listen(kPort, {}).ok());
  }

  void traffic() { talk_both_ways(good_, a_->endpoint(0), b_->endpoint(0), sent_, got_); }
  // `raw` returns credit for what it never takes, until it is served no more; returns how much it was sent.
  std::uint32_t receive_untaken(Raw& raw, const control::Opened& o, Connection& to) {
    std::uint32_t sent = 0;
    EXPECT_TRUE(until(
        [&] {
          if (to.try_send(numbered(sent, 64)) == SendStatus::kSent) ++sent;
          const std::uint32_t arrived = raw.arrivals().tail.load(std::memory_order_acquire);
          raw.cell(o).consumed.store(arrived);
          SendDescriptor d{};
          d.source_port = o.port;
          d.kind = 2;
          d.position = arrived;
          if (raw.served() && raw.room() > 0) raw.push(d);
          traffic();
        },
        [&] { return !raw.served(); }));
    return sent;
  }
  void expect_unharmed(std::uint32_t messages = 200) {
    const std::uint32_t first = got_[0], second = got_[1];
    ASSERT_TRUE(until([&] { traffic(); },
                      [&] { return got_[0] - first >= messages && got_[1] - second >= messages; }));
    EXPECT_EQ(good_.out->state(), ConnectionState::kOpen);
    EXPECT_EQ(good_.in->state(), ConnectionState::kOpen);
    // Ends of clients that are gone.
    for (std::size_t i = 0; i < b_->endpoint(0).connections().size();) {
      Connection* const c = b_->endpoint(0).connections()[i].get();
      if (c != good_.in && c->state() == ConnectionState::kPeerClosed)
        b_->endpoint(0).close(c);
      else
        ++i;
    }
  }
  std::uint64_t bad_descriptors() { return m_.node(0)->counters(0).bad_descriptors.get(); }

  // Expects that `misdeed` costs the client its connection, and is counted once.
  template <class F>
  void expect_expelled(const char* what, F&& misdeed) {
    SCOPED_TRACE(what);
    const std::uint64_t before = bad_descriptors();
    {
      Raw raw(m_, 0);
      const control::Opened o = raw.connect(ClusterId(1), kPort);
      misdeed(raw, o);
      EXPECT_TRUE(until([&] { traffic(); }, [&] { return !raw.served(); }));
    }
    EXPECT_EQ(bad_descriptors(), before + 1);
    expect_unharmed();
  }

  static SendDescriptor honest(const control::Opened& o) {
    SendDescriptor d{};
    d.source_port = o.port;
    d.message_bytes = 64;
    d.bytes = 64;
    d.kind = 1;
    return d;
  }

  // A train of these lengths at the connection's second position.
  struct Train {
    SendDescriptor descriptor;
    stack::TrainLengths lengths;
  };
  static Train train(const control::Opened& o, std::initializer_list<std::uint16_t> lengths) {
    Train t{honest(o), {}};
    std::copy(lengths.begin(), lengths.end(), t.lengths.begin());
    std::uint32_t bytes = 0;
    for (const std::uint16_t length : lengths) bytes += stack::train_aligned(length);
    t.descriptor.position = 1;
    t.descriptor.message = 1;
    t.descriptor.bytes = static_cast<std::uint16_t>(bytes);
    t.descriptor.message_bytes = bytes;
    t.descriptor.messages = static_cast<std::uint8_t>(lengths.size());
    return t;
  }
  // Expects that a client is expelled for a train of these lengths, changed.
  template <class F>
  void expect_refused(const char* what, std::initializer_list<std::uint16_t> lengths, F&& change) {
    expect_expelled(what, [&](Raw& raw, const control::Opened& o) {
      raw.push(honest(o));
      Train t = train(o, lengths);
      change(t, raw);
      raw.push_train(t.descriptor, t.lengths);
    });
  }

  Nodes m_;
  std::unique_ptr<Client> a_;
  std::unique_ptr<Client> b_;
  Pair good_;
  std::array<std::uint32_t, 2> sent_{};
  std::array<std::uint32_t, 2> got_{};
};

TEST_F(Hostile, RawClientThatKeepsTheRulesIsServed) {
  Raw raw(m_, 0);
  const control::Opened o = raw.connect(ClusterId(1), kPort);
  raw.push(honest(o));
  bool got = false;
  ASSERT_TRUE(until(
      [&] {
        m_.turn();
        b_->endpoint(0).poll([&](Connection& c, ByteView) { got |= &c != good_.in; });
      },
      [&] { return got; }));
  EXPECT_TRUE(raw.served());
  EXPECT_EQ(bad_descriptors(), 0u);
}

TEST_F(Hostile, JumpingIndicesAreAViolation) {
  expect_expelled("tail beyond the ring", [](Raw& raw, const control::Opened&) {
    raw.jump_tail(raw.geometry().send_descriptors + 1);
  });
  expect_expelled("tail far ahead", [](Raw& raw, const control::Opened&) { raw.jump_tail(0x80000000); });
  expect_expelled("tail backwards", [](Raw& raw, const control::Opened&) { raw.jump_tail(~0u); });
  expect_expelled("tail ahead of what was written", [](Raw& raw, const control::Opened&) {
    raw.jump_tail(raw.geometry().send_descriptors);  // zeroes: port 0
  });
}

TEST_F(Hostile, InvalidDescriptorsAreAViolation) {
  const auto wrong = [&](const char* what, auto&& change) {
    expect_expelled(what, [&](Raw& raw, const control::Opened& o) {
      raw.push(honest(o));  // one that is right before it
      SendDescriptor d = honest(o);
      d.position = 1;
      change(d, raw);
      raw.push(d);
    });
  };
  const std::uint32_t others = good_.out->port().value();
  wrong("no port", [](SendDescriptor& d, Raw&) { d.source_port = 0; });
  wrong("a port that is not there", [](SendDescriptor& d, Raw&) { d.source_port += 0x10000; });
  wrong("another client's port", [&](SendDescriptor& d, Raw&) { d.source_port = others; });
  wrong("its listener's port", [](SendDescriptor& d, Raw&) { d.source_port = kPort.value(); });
  wrong("data beyond its area",
        [](SendDescriptor& d, Raw& raw) { d.data_offset = raw.geometry().send_bytes - 63; });
  wrong("data far beyond", [](SendDescriptor& d, Raw&) { d.data_offset = 0xffffffc0; });
  wrong("an offset and a length that wrap", [](SendDescriptor& d, Raw&) {
    d.data_offset = 0xffffff00;
    d.message_bytes = d.bytes = 512;
  });
  wrong("a message in one piece that is too long",
        [](SendDescriptor& d, Raw&) { d.message_bytes = d.bytes = convergence::kMaxRunBytes + 1; });
  wrong("a message in one piece that is far too long",
        [](SendDescriptor& d, Raw&) { d.message_bytes = d.bytes = 0xffffffff; });
  wrong("a piece of many that is too long", [](SendDescriptor& d, Raw&) {
    d.message_bytes = 100'000;
    d.bytes = stack::kMaxPieceBytes + 1;
  });
  wrong("a message shorter than its piece", [](SendDescriptor& d, Raw&) { d.message_bytes = 63; });
  wrong("a message that is too long",
        [](SendDescriptor& d, Raw&) { d.message_bytes = convergence::kMaxMessageBytes + 1; });
  wrong("a piece outside its message", [](SendDescriptor& d, Raw&) {
    d.message_bytes = 100;
    d.message_offset = 64;
  });
  wrong("a whole message that begins behind its beginning",
        [](SendDescriptor& d, Raw&) { d.message_offset = 64; });
  wrong("an offset between granules", [](SendDescriptor& d, Raw&) {
    d.message_bytes = 1000;
    d.message_offset = 3;
  });
  wrong("no kind", [](SendDescriptor& d, Raw&) { d.kind = 0; });
  wrong("the control plane's kind", [](SendDescriptor& d, Raw&) { d.kind = 3; });
  wrong("an unknown kind", [](SendDescriptor& d, Raw&) { d.kind = 200; });
  wrong("a credit with bytes", [](SendDescriptor& d, Raw&) { d.kind = 2; });
}

TEST_F(Hostile, RawTrainThatKeepsTheRulesIsServed) {  // CV-11
  Raw raw(m_, 0);
  const control::Opened o = raw.connect(ClusterId(1), kPort);
  const std::vector<std::uint16_t> lengths{64, 5, 0, 120, 8};
  Train t = train(o, {64, 5, 0, 120, 8});
  t.descriptor.position = t.descriptor.message = 0;
  t.descriptor.data_offset = 128;
  for (std::size_t i = 0; i < t.descriptor.bytes; ++i) raw.data()[128 + i] = static_cast<std::byte>(i);
  raw.push_train(t.descriptor, t.lengths);
  std::vector<std::vector<std::byte>> got;
  ASSERT_TRUE(until(
      [&] {
        m_.turn();
        b_->endpoint(0).poll([&](Connection& c, ByteView message) {
          if (&c != good_.in) got.emplace_back(message.begin(), message.end());
        });
      },
      [&] { return got.size() >= lengths.size(); }));
  std::size_t offset = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_EQ(got[i].size(), lengths[i]) << "message " << i;
    for (std::size_t k = 0; k < got[i].size(); ++k) EXPECT_EQ(got[i][k], static_cast<std::byte>(offset + k));
    offset += stack::train_aligned(lengths[i]);
  }
  EXPECT_TRUE(raw.served());
  // The descriptors are free when the train is acknowledged.
  EXPECT_TRUE(until([&] { m_.turn(); }, [&] { return raw.room() == raw.geometry().send_descriptors; }));
  EXPECT_EQ(bad_descriptors(), 0u);
  EXPECT_EQ(m_.sum(1, &ProxyCounters::trains_received), 1u);
  expect_unharmed();
}

TEST_F(Hostile, TrainsThatBreakARuleAreAViolation) {  // CV-11
  const auto number = [](unsigned messages) {
    return [messages](Train& t, Raw&) { t.descriptor.messages = static_cast<std::uint8_t>(messages); };
  };
  expect_refused("a train of one", {64}, number(1));
  expect_refused("more messages than a table holds", {8, 8}, number(stack::kMaxTrainMessages + 1));
  expect_refused("as many as a byte can say", {8, 8}, number(255));
  expect_refused("lengths that are more than the bytes", {8, 16}, [](Train& t, Raw&) { t.lengths[1] = 17; });
  expect_refused("lengths that are less", {8, 16}, [](Train& t, Raw&) { t.lengths[1] = 8; });
  expect_refused("lengths that wrap in 16 bits", {8, 8}, [](Train& t, Raw&) {
    t.lengths[0] = 0xffff;
    t.lengths[1] = 16;
  });
  expect_refused("bytes that are no multiple of the alignment", {8, 8}, [](Train& t, Raw&) {
    t.descriptor.bytes = 15;
    t.descriptor.message_bytes = 15;
  });
  expect_refused("longer than a train may be", {8, 8}, [](Train& t, Raw& raw) {
    t.lengths[1] = raw.geometry().train.bytes;
    t.descriptor.bytes = static_cast<std::uint16_t>(8 + stack::train_aligned(t.lengths[1]));
    t.descriptor.message_bytes = t.descriptor.bytes;
  });
  expect_refused("a message that is not as long as its bytes", {8, 8},
                 [](Train& t, Raw&) { t.descriptor.message_bytes = 24; });
  expect_refused("a train that begins inside a message", {8, 8},
                 [](Train& t, Raw&) { t.descriptor.message_offset = 64; });
  expect_refused("data beyond its area", {32, 32},
                 [](Train& t, Raw& raw) { t.descriptor.data_offset = raw.geometry().send_bytes - 56; });
  expect_refused("data far beyond", {32, 32}, [](Train& t, Raw&) { t.descriptor.data_offset = 0xffffffc0; });
  expect_refused("a credit", {0, 0}, [](Train& t, Raw&) { t.descriptor.kind = 2; });
  expect_refused("the control plane's kind", {8, 8}, [](Train& t, Raw&) { t.descriptor.kind = 3; });
  expect_refused("of a message of many pieces", {8, 8},
                 [](Train& t, Raw&) { t.descriptor.message_bytes += 8; });
}

TEST_F(Hostile, TrainWithoutItsLengthsIsAViolation) {  // CV-11
  const auto without_table = [&](const char* what, std::initializer_list<std::uint16_t> lengths) {
    expect_expelled(what,
                    [&](Raw& raw, const control::Opened& o) { raw.push(train(o, lengths).descriptor); });
  };
  without_table("of some bytes", {8, 8});
  without_table("of none", {0, 0});
}

class HostileToShortTrains : public Hostile {
 protected:
  HostileToShortTrains() : Hostile(options()) {}
  static NodesOptions options() {
    NodesOptions o;
    o.transport.train_messages = 4;
    return o;
  }
};

TEST_F(HostileToShortTrains, TrainAboveTheLimitIsAViolation) {  // CV-11
  expect_refused("one more than may be", {8, 8, 8, 8, 8}, [](Train&, Raw&) {});
  Raw raw(m_, 0);
  const control::Opened o = raw.connect(ClusterId(1), kPort);
  EXPECT_EQ(raw.geometry().train.messages, 4u);
  Train t = train(o, {8, 8, 8, 8});
  t.descriptor.position = t.descriptor.message = 0;
  raw.push_train(t.descriptor, t.lengths);
  expect_unharmed();
  EXPECT_TRUE(raw.served());
}

class HostileWithoutTrains : public Hostile {
 protected:
  HostileWithoutTrains() : Hostile(options()) {}
  static NodesOptions options() {
    NodesOptions o;
    o.transport.train_messages = 1;
    return o;
  }
};

TEST_F(HostileWithoutTrains, AnyTrainIsAViolation) {  // CV-11
  expect_refused("of two", {8, 8}, [](Train&, Raw&) {});
  EXPECT_EQ(m_.sum(0, &ProxyCounters::trains_sent), 0u);
}

// Values that can harm only the client itself are not checked.
TEST_F(Hostile, InvalidWordsHarmNoOther) {
  Raw raw(m_, 0);
  const control::Opened o = raw.connect(ClusterId(1), kPort);
  Connection* mine = nullptr;
  ASSERT_TRUE(until([&] { m_.turn(); }, [&] { return (mine = b_->endpoint(0).try_accept()) != nullptr; }));
  Prng prng(21);
  for (int round = 0; round < 300; ++round) {
    store(raw.memory() + raw.geometry().doorbell(0),
          static_cast<std::uint32_t>(prng.below(4) == 0 ? 1 : prng.next()));
    raw.cell(o).consumed.store(static_cast<std::uint32_t>(prng.next()));
    for (auto& credit : raw.cell(o).credit) credit.store(static_cast<std::uint32_t>(prng.next()));
    raw.cell(o).state.store(static_cast<PortState>(prng.next()));
    SendDescriptor d = honest(o);
    d.position = static_cast<std::uint32_t>(prng.next());
    d.message = static_cast<std::uint32_t>(prng.next());
    d.skip = static_cast<std::uint16_t>(prng.next());
    if (prng.chance(0.3)) {
      d.message_bytes = 65 + static_cast<std::uint32_t>(prng.below(1u << 20));
      d.message_offset = static_cast<std::uint32_t>(prng.below((d.message_bytes - 64) / 64 + 1) * 64);
    }
    if (prng.chance(0.2)) {
      d = SendDescriptor{};
      d.source_port = o.port;
      d.kind = 2;
      d.position = static_cast<std::uint32_t>(prng.next());
    }
    if (raw.room() > 1 && d.kind == 1 && !d.many_pieces() && prng.chance(0.5)) {
      Train t = train(o, {24, 40});
      t.descriptor.position = d.position;
      t.descriptor.skip = d.skip;
      raw.push_train(t.descriptor, t.lengths);
    } else if (raw.room() > 0) {
      raw.push(d);
    }
    (void)mine->try_send(numbered(1, 500));
    traffic();
  }
  expect_unharmed();
  EXPECT_TRUE(raw.served());
  EXPECT_EQ(bad_descriptors(), 0u);
}

TEST_F(Hostile, JumpingHeadIsDetectedWhenItMatters) {
  Raw raw(m_, 0, 65536, 4096);  // arrivals: 64
  const control::Opened o = raw.connect(ClusterId(1), kPort, 4096);
  Connection* to = nullptr;
  ASSERT_TRUE(until([&] { m_.turn(); }, [&] { return (to = b_->endpoint(0).try_accept()) != nullptr; }));
  raw.arrivals().head.store(0x12345678);
  const std::uint32_t sent = receive_untaken(raw, o, *to);
  EXPECT_GE(sent, 64u);
  EXPECT_EQ(bad_descriptors(), 1u);
  expect_unharmed();
}

// It returns credit but takes nothing: its ring fills, and with it the sub-connection that others use. Not
// for long.
TEST_F(Hostile, CreditWithoutConsumptionStallsOthersOnlyBriefly) {
  Raw raw(m_, 0, 65536, 4096);
  const control::Opened o = raw.connect(ClusterId(1), kPort, 4096);
  Connection* to = nullptr;
  ASSERT_TRUE(until([&] { m_.turn(); }, [&] { return (to = b_->endpoint(0).try_accept()) != nullptr; }));
  const Instant begin = monotonic_now();
  receive_untaken(raw, o, *to);
  EXPECT_GE(monotonic_now() - begin, 900_ms);  // a slow client gets the time to catch up
  EXPECT_EQ(bad_descriptors(), 1u);
  expect_unharmed();
}

// Nor does it matter how slow: the ring of a client that sleeps does not fill, so others use the
// sub-connection and the sleeper is served when it wakes up.
TEST_F(Hostile, FloodOfDuplicatesToASleepingClientStallsNoOther) {
  ClientOptions small;
  small.receive_bytes = 128u << 10;  // 2048 arrivals
  auto sleeper = m_.client(1, small);
  ConnectionOptions o;
  o.window_bytes = 64u << 10;
  ASSERT_TRUE(sleeper->endpoint(0).listen(PortId(20), o).ok());
  Raw raw(m_, 0);
  const control::Opened flood = raw.connect(ClusterId(1), PortId(20));
  const Result<Connection*> honest_one = a_->endpoint(0).connect(ClusterId(1), PortId(20), o, 20_s);
  ASSERT_TRUE(honest_one.ok());
  Prng prng(2);
  const Instant begin = monotonic_now();
  std::uint32_t sent = 0;
  while (monotonic_now() - begin < 1500_ms || (sent < 1000 && monotonic_now() - begin < 60_s)) {
    while (raw.room() > 0) {
      SendDescriptor d = honest(flood);
      d.position = 1 + static_cast<std::uint32_t>(prng.below(1023));
      raw.push(d);
    }
    if (sent < 1000 && (*honest_one)->try_send(numbered(sent, 64)) == SendStatus::kSent) ++sent;
    for (int i = 0; i < 20; ++i) traffic();
  }
  expect_unharmed();
  EXPECT_EQ(sent, 1000u);
  std::uint32_t got = 0;
  ASSERT_TRUE(until(
      [&] {
        // The flood never sends its first message, so nothing of it is handed over.
        sleeper->endpoint(0).poll(
            [&](Connection&, ByteView message) { ASSERT_EQ(number_of(message), got++); });
      },
      [&] { return got == sent; }));
  EXPECT_GT(m_.sum(1, &ProxyCounters::stale_records), 10'000u);
  EXPECT_EQ(m_.sum(1, &ProxyCounters::arrival_ring_full), 0u);
  EXPECT_EQ(m_.sum(1, &ProxyCounters::bad_descriptors), 0u);
}

// A lost peer's port: a client that continues to send to it gets its descriptors back, and can be freed.
TEST(HostileToALostPeer, DescriptorsAreNotKeptForever) {
  NodesOptions options;
  options.transport.path_death_ms = 150;
  options.transport.peer_death_ms = 400;
  Nodes m(options);
  auto b = m.client(1);
  ASSERT_TRUE(b->endpoint(0).listen(kPort, {}).ok());
  auto a = m.lonely_client(0);
  {
    Raw raw(m, 0);
    const control::Opened o = raw.connect(ClusterId(1), kPort);
    ASSERT_TRUE(until([&] { a->endpoint(0).poll(ignore()); },
                      [&] { return raw.cell(o).state.load() == PortState::kPeerLost; }));
    for (int i = 0; i < 5000; ++i) {
      SendDescriptor d{};
      d.source_port = o.port;
      d.message_bytes = d.bytes = 64;
      d.kind = 1;
      d.position = static_cast<std::uint32_t>(i);
      if (raw.room() > 0) raw.push(d);
      a->endpoint(0).poll(ignore());
    }
    EXPECT_TRUE(until([&] { a->endpoint(0).poll(ignore()); },
                      [&] { return raw.room() == raw.geometry().send_descriptors; }));
    m.node(0)->client_gone(raw.id());
    EXPECT_TRUE(until([&] { a->endpoint(0).poll(ignore()); }, [&] { return !raw.served(); }));
  }
}

// Random writes over the whole of its memory, while the others go on.
TEST_F(Hostile, RandomWritesHarmOnlyTheWriter) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng prng(seed);
    for (int life = 0; life < 30; ++life) {
      Raw raw(m_, 0);
      (void)raw.connect(ClusterId(1), kPort);
      Connection* to = nullptr;
      ASSERT_TRUE(until([&] { traffic(); }, [&] { return (to = b_->endpoint(0).try_accept()) != nullptr; }));
      const std::uint64_t size = raw.geometry().total_bytes();
      for (int round = 0; round < 60 && raw.served(); ++round) {
        for (int writes = 0; writes < 200; ++writes) {
          // Half of them where it counts: the indices and descriptors at the front, and the cells.
          const std::uint64_t at = prng.chance(0.5) ? prng.below(size - 8)
                                   : prng.chance(0.5)
                                       ? prng.below(raw.geometry().send_data(0, 0) - 8)
                                       : raw.geometry().cell(0) + prng.below(sizeof(PortCell) - 8);
          if (round > 3)
            store(raw.memory() + at, prng.next());
          else if (at > 4096)
            store(raw.memory() + at, prng.chance(0.5) ? prng.below(100) : prng.next());
        }
        if (round % 2 == 0) raw.jump_tail(static_cast<std::uint32_t>(prng.below(3)));
        if (to->state() == ConnectionState::kOpen) (void)to->try_send(numbered(1, 300));
        traffic();
      }
    }
    expect_unharmed();
  }
}

}  // namespace
}  // namespace braid::proxy::test
