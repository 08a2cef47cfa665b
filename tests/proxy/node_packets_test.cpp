// Packets that no peer of a node has sent: the test sits in the middle of the wire, passes on the packets of the
// two nodes, and inserts others.
#include <fmt/core.h>
#include <array>
#include <cstring>
#include <deque>
#include <functional>

#include "stack/wire/segment.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

constexpr PortId kPort{9};
constexpr std::size_t kIp = kEthernetHeaderBytes;
constexpr std::size_t kUdp = kIp + 20;
constexpr std::size_t kPacket = kUdp + 8;
using Frame = std::vector<std::byte>;

// RFC 1071, byte pair by byte pair, apart from the code under test.
std::uint32_t internet_sum(ByteView bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

void mend_ip(Frame& f) {
  store_be<std::uint16_t>(f.data() + kIp + 10, 0);
  store_be<std::uint16_t>(f.data() + kIp + 10,
                          static_cast<std::uint16_t>(~internet_sum(ByteView(f).subspan(kIp, 20))));
}
void mend_udp(Frame& f) {
  store_be<std::uint16_t>(f.data() + kUdp + 6, 0);
  const ByteView udp = ByteView(f).subspan(kUdp);
  std::uint32_t sum =
      internet_sum(ByteView(f).subspan(kIp + 12, 8), static_cast<std::uint32_t>(17 + udp.size()));
  sum = internet_sum(udp, sum);
  store_be<std::uint16_t>(f.data() + kUdp + 6, static_cast<std::uint16_t>(~sum));
}
// Makes the lengths say what the frame holds, and the checksums right.
void mend(Frame& f) {
  store_be<std::uint16_t>(f.data() + kIp + 2, static_cast<std::uint16_t>(f.size() - kIp));
  store_be<std::uint16_t>(f.data() + kUdp + 4, static_cast<std::uint16_t>(f.size() - kUdp));
  mend_ip(f);
  mend_udp(f);
}

class Middle : public ::testing::Test {
 protected:
  Middle() {
    o_.proxies = {1, 1};
    for (int i = 0; i < 2; ++i) {
      const int fd = create_shm_wire({}).value();
      // Node 0 is side A of its wire, node 1 side B of its own; the test has the other sides.
      wires_[i] = ShmWire::map(fd, i == 0 ? ShmSide::kB : ShmSide::kA).value();
      ends_[i] = wires_[i]->queue(0);
      nodes_[i] = Node::create(node_config(o_, static_cast<std::uint16_t>(i), {{{0, 1}, fd}}), now_).value();
      ::close(fd);
    }
    services_[0] = std::make_unique<Relay>(*this, 0);
    services_[1] = std::make_unique<Relay>(*this, 1);
    a_ = Client::attach(std::move(services_[0]), {}).value();
    b_ = Client::attach(std::move(services_[1]), {}).value();
    c_ = connect(a_->endpoint(0), ClusterId(1), b_->endpoint(0), kPort);
  }

  // Drives everything: passes frames on, and remembers the last data packet to node 1.
  void turn() {
    now_ = now_ + 20_us;
    for (const auto& node : nodes_) {
      node->worker(0).do_work(now_);
      node->do_control(now_);
    }
    pass(0);
    pass(1);
  }
  void pass(int from) {
    std::array<MutableBytes, kMaxBurst> frames;
    const std::size_t n = ends_[from]->receive(frames);
    for (std::size_t i = 0; i < n; ++i) {
      put(1 - from, frames[i]);
      const ByteView f = frames[i];
      if (from == 0 && f.size() > kPacket + stack::kPacketHeaderBytes &&
          load<std::uint8_t>(f.data() + kPacket + 1) == 2)
        last_data_.assign(f.begin(), f.end());
    }
  }
  // A frame to `node`'s NIC.
  void put(int node, ByteView frame) {
    TxFrame room[1];
    if (ends_[node]->reserve(room) == 0) return;
    std::memcpy(room[0].data, frame.data(), frame.size());
    room[0].length = static_cast<std::uint32_t>(frame.size());
    ends_[node]->commit(room);
  }

  // Messages go through, in both directions, once.
  void expect_unharmed() {
    const std::uint32_t first = next_;
    for (; next_ < first + 50; ++next_) {
      ASSERT_EQ(c_.out->try_send(numbered(next_, 200)), SendStatus::kSent);
      ASSERT_EQ(c_.in->try_send(numbered(next_, 200)), SendStatus::kSent);
    }
    ASSERT_TRUE(until([&] { poll(); }, [&] { return got_[0] == next_ && got_[1] == next_; }));
    for (int i = 0; i < 200; ++i) poll();
    EXPECT_EQ(got_[0], next_);
    EXPECT_EQ(got_[1], next_);
  }
  void poll() {
    const auto take = [&](Connection& at, ByteView message) {
      std::uint32_t& got = got_[&at == c_.in ? 0 : 1];
      EXPECT_TRUE(intact(message));
      EXPECT_EQ(number_of(message), got);
      ++got;
    };
    a_->endpoint(0).poll(take);
    b_->endpoint(0).poll(take);
  }

  // The position before which node 1's client has taken everything: its messages have 200 bytes.
  std::uint32_t consumed() const { return next_ * convergence::granules_of(200); }
  std::uint64_t count(Counter ProxyCounters::*counter) {
    for (int i = 0; i < 200; ++i) turn();  // counters are written now and then
    return (nodes_[1]->counters(0).*counter).get();
  }

  // Puts the frame in and expects the counter to count exactly it, and no connection to be harmed.
  void expect_counted(const Frame& frame, Counter ProxyCounters::*counter, const char* what) {
    SCOPED_TRACE(what);
    const std::uint64_t before = count(counter);
    put(1, frame);
    EXPECT_EQ(count(counter), before + 1);
    expect_unharmed();
    EXPECT_EQ(count(counter), before + 1);
  }
  // A whole packet as node 0 sent it.
  Frame genuine() {
    expect_unharmed();
    return last_data_;
  }

  // A packet of our own with one record for the connection's end in node 1, much like a genuine one, and a
  // sequence number far ahead so that it meets no real one.
  Frame one_record(const std::function<void(stack::Record&)>& change) {
    return one_train([&](stack::Record& r, stack::TrainLengths&) {
      r.messages = 0;
      r.bytes = 64;
      r.message_bytes = 64;
      change(r);
    });
  }
  // The same with a train of three messages of 64, 8 and 60 bytes.
  Frame one_train(const std::function<void(stack::Record&, stack::TrainLengths&)>& change) {
    if (model_.empty()) model_ = genuine();
    stack::PacketHeader h;
    std::size_t header_bytes = 0;
    EXPECT_TRUE(stack::parse_packet_header(ByteView(model_).subspan(kPacket), &h, &header_bytes));
    stack::Record r;
    ByteView bytes;
    stack::RecordReader reader(ByteView(model_).subspan(kPacket + header_bytes), h.records);
    EXPECT_TRUE(reader.next(&r, &bytes));
    h.seq = Seq(h.seq.value() + 100 + ahead_++);
    h.records = 1;
    r.bytes = 64 + 8 + 64;
    r.message_bytes = r.bytes;
    r.messages = 3;
    stack::TrainLengths lengths{64, 8, 60};
    change(r, lengths);
    Frame f(model_.begin(), model_.begin() + kPacket);
    f.resize(kPacket + stack::kMaxPacketHeaderBytes + stack::kMaxRecordHeaderBytes + 256);
    std::size_t end = kPacket + stack::write_packet_header(f.data() + kPacket, h);
    record_at_ = end;
    end += stack::write_record_header(f.data() + end, r, lengths);
    std::fill_n(f.begin() + static_cast<std::ptrdiff_t>(end), stack::padded(r.bytes), std::byte{0xee});
    f.resize(end + stack::padded(r.bytes));
    mend(f);
    return f;
  }

  // Any service may stand under a client: this one drives the two nodes and the wire between them.
  class Relay final : public Service {
   public:
    Relay(Middle& middle, int node) : middle_(middle), node_(node) {
      id_ = middle.nodes_[node]->add_client();
    }
    ~Relay() override { middle_.nodes_[node_]->client_gone(id_); }
    Result<control::Message> call(const control::Message& request, Duration timeout, int* fd) override {
      control::Message m = request;
      m.serial = ++serial_;
      middle_.nodes_[node_]->on_request(middle_.now_, id_, m);
      for (const Instant deadline = monotonic_now() + timeout; monotonic_now() < deadline;) {
        middle_.turn();
        while (const auto out = middle_.nodes_[node_]->poll_outbound(id_)) {
          if (out->message.serial == 0) {
            events_.push_back(out->message);
            continue;
          }
          if (fd != nullptr && out->fd >= 0) *fd = ::dup(out->fd);
          if (out->message.kind == control::Kind::kRefused) return error("{}", out->message.refused.text);
          return out->message;
        }
      }
      return error("no answer");
    }
    bool next_event(unsigned, control::Message* event) override {
      while (const auto out = middle_.nodes_[node_]->poll_outbound(id_)) events_.push_back(out->message);
      if (events_.empty()) return false;
      *event = events_.front();
      events_.pop_front();
      return true;
    }
    void wait_for_event(Duration) override { middle_.turn(); }
    int turn() override {
      middle_.turn();
      return 1;
    }
    bool alive() override { return true; }

   private:
    Middle& middle_;
    int node_;
    Node::ClientId id_;
    std::uint32_t serial_ = 0;
    std::deque<control::Message> events_;
  };

  // The nodes' time, a step for each turn: on a busy machine no timer expires that would send a packet again.
  Instant now_ = monotonic_now();
  NodesOptions o_;
  std::shared_ptr<ShmWire> wires_[2];
  std::unique_ptr<ShmQueue> ends_[2];
  std::unique_ptr<Node> nodes_[2];
  std::unique_ptr<Relay> services_[2];
  std::unique_ptr<Client> a_;
  std::unique_ptr<Client> b_;
  Pair c_;
  std::uint32_t next_ = 0;
  std::uint32_t got_[2] = {0, 0};
  Frame last_data_;
  Frame model_;
  std::size_t record_at_ = 0;  // in the frame of one_train()
  std::uint32_t ahead_ = 0;
};

TEST_F(Middle, WrongIpChecksumIsCountedAndDropped) {
  Frame f = genuine();
  f[kIp + 8] ^= std::byte{1};
  expect_counted(f, &ProxyCounters::bad_ip, "time to live");
  f = genuine();
  f[kIp] = std::byte{0x46};
  expect_counted(f, &ProxyCounters::bad_ip, "header length");
  f = genuine();
  f[kIp] = std::byte{0x65};
  expect_counted(f, &ProxyCounters::bad_ip, "version 6");
}

TEST_F(Middle, WrongUdpChecksumIsCountedAndDropped) {
  Frame f = genuine();
  f.back() ^= std::byte{0x10};
  expect_counted(f, &ProxyCounters::bad_udp, "last byte");
  f = genuine();
  f[kPacket + 12] ^= std::byte{1};
  expect_counted(f, &ProxyCounters::bad_udp, "epoch");
  f = genuine();
  store_be<std::uint16_t>(f.data() + kUdp + 6, 0);
  expect_counted(f, &ProxyCounters::bad_udp, "none at all");
  f = genuine();
  store_be<std::uint16_t>(f.data() + kUdp + 4, 7);
  expect_counted(f, &ProxyCounters::bad_udp, "length below its header");
}

TEST_F(Middle, TruncatedFrameIsCountedAndDropped) {
  const Frame whole = genuine();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{13}}) {
    expect_counted(Frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)),
                   &ProxyCounters::bad_frames, "in the Ethernet header");
  }
  for (const std::size_t bytes : {kIp, kIp + 19, kUdp, kUdp + 7, kPacket, kPacket + 43, whole.size() - 1}) {
    expect_counted(Frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)),
                   &ProxyCounters::bad_ip, "in the IP packet");
  }
  // Cut, and the lengths and checksums made right again: the transport's own bounds.
  for (const std::size_t bytes : {kPacket, kPacket + 1, kPacket + 43}) {
    Frame f(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    mend(f);
    expect_counted(f, &ProxyCounters::bad_packets, "in the transport's header");
  }
  Frame udp_cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kUdp + 4));
  store_be<std::uint16_t>(udp_cut.data() + kIp + 2, static_cast<std::uint16_t>(udp_cut.size() - kIp));
  mend_ip(udp_cut);
  expect_counted(udp_cut, &ProxyCounters::bad_udp, "in the UDP header");
}

TEST_F(Middle, AnotherProtocolIsCountedAndDropped) {
  Frame f = genuine();
  store_be<std::uint16_t>(f.data() + 12, 0x86dd);
  expect_counted(f, &ProxyCounters::bad_frames, "IPv6");
  f = genuine();
  f[0] ^= std::byte{4};
  expect_counted(f, &ProxyCounters::bad_frames, "another station's");
  f = genuine();
  f[kIp + 9] = std::byte{6};
  mend_ip(f);
  expect_counted(f, &ProxyCounters::bad_frames, "TCP");
  f = genuine();
  f[kIp + 19] ^= std::byte{1};
  mend_ip(f);
  expect_counted(f, &ProxyCounters::not_for_us, "another host's");
  f = genuine();
  store_be<std::uint16_t>(f.data() + kUdp + 2, 7799);
  mend_udp(f);
  expect_counted(f, &ProxyCounters::closed_ports, "another port");
  f = genuine();
  store_be<std::uint16_t>(f.data() + kIp + 6, 1);
  mend_ip(f);
  expect_counted(f, &ProxyCounters::fragments_received, "a fragment whose others never come");
  f = genuine();
  f[kIp + 12] = std::byte{127};
  mend_ip(f);
  expect_counted(f, &ProxyCounters::martians, "from a loop");
  f = genuine();
  f[kPacket] = std::byte{99};
  mend(f);
  expect_counted(f, &ProxyCounters::other_versions, "another version of the transport");
  f = genuine();
  f[kPacket + 1] = std::byte{77};
  mend(f);
  expect_counted(f, &ProxyCounters::bad_packets, "an unknown type");
  f = genuine();
  f[kPacket + 3] = std::byte{200};
  mend(f);
  expect_counted(f, &ProxyCounters::bad_packets, "more acknowledgement words than there are");
}

TEST_F(Middle, UnknownEpochIsCountedAndDropped) {
  Frame f = genuine();
  f[kPacket + 12] ^= std::byte{1};
  mend(f);
  expect_counted(f, &ProxyCounters::unknown_epoch, "of the sender");
  f = genuine();
  f[kPacket + 20] ^= std::byte{1};
  mend(f);
  expect_counted(f, &ProxyCounters::unknown_epoch, "of the receiver");
  f = genuine();
  f[kPacket + 4] ^= std::byte{32};
  mend(f);
  expect_counted(f, &ProxyCounters::unknown_epoch, "from no peer of ours");
  f = genuine();
  f[kPacket + 7] ^= std::byte{1};
  mend(f);
  expect_counted(f, &ProxyCounters::unknown_epoch, "for another proxy");
}

TEST_F(Middle, DuplicatePacketIsCountedAndDropped) {
  expect_counted(genuine(), &ProxyCounters::duplicates, "the last one");
}

// The next packet of the sequence, well made but for its records: what they say is not believed, and none of
// it reaches a client. (It is the real next packet that must still get through.)
TEST_F(Middle, InvalidRecordsAreDropped) {
  const auto next_packet = [&](auto&& change) {
    Frame f = genuine();
    store<std::uint32_t>(f.data() + kPacket + 28, load<std::uint32_t>(f.data() + kPacket + 28) + 200);
    stack::PacketHeader h;
    std::size_t header_bytes = 0;
    EXPECT_TRUE(stack::parse_packet_header(ByteView(f).subspan(kPacket), &h, &header_bytes));
    change(f, kPacket + header_bytes);
    mend(f);
    return f;
  };
  expect_counted(next_packet([](Frame& f, std::size_t) { f[kPacket + 2] = std::byte{255}; }),
                 &ProxyCounters::bad_packets, "more records than there are");
  expect_counted(
      next_packet([](Frame& f, std::size_t at) { store<std::uint16_t>(f.data() + at + 12, 60'000); }),
      &ProxyCounters::bad_packets, "a record longer than the packet");
  expect_counted(next_packet([](Frame& f, std::size_t at) { store<std::uint32_t>(f.data() + at + 16, 15); }),
                 &ProxyCounters::bad_packets, "an unknown kind");
}

// Records for ports that are not there, from ports that are not their peers, and outside every window are
// taken off the wire and dropped. (A sender that knows both epochs can corrupt the sub-connection itself, so
// messages that are really sent may be lost here.)
TEST_F(Middle, RecordsForUnknownPortsAreDropped) {
  const auto once = [&](auto&& change, Counter ProxyCounters::*counter, const char* what) {
    SCOPED_TRACE(what);
    const Frame f = one_record(change);
    const std::uint64_t before = count(counter);
    put(1, f);
    EXPECT_EQ(count(counter), before + 1);
  };
  once([](stack::Record& r) { r.destination = PortId(0x7fff'0003); }, &ProxyCounters::no_port,
       "no such port");
  once([](stack::Record& r) { r.destination = PortId(); }, &ProxyCounters::no_port, "port 0");
  once([](stack::Record& r) { r.source = PortId(r.source.value() + 1); }, &ProxyCounters::no_port,
       "not from its peer");
  once([](stack::Record& r) { r.position += 100'000; }, &ProxyCounters::stale_records, "beyond its window");
  once([](stack::Record& r) { r.position = r.position - 40; }, &ProxyCounters::stale_records,
       "before its window");
  for (int i = 0; i < 200; ++i) poll();
  EXPECT_EQ(got_[0], next_);  // none of it was handed over
}

// A record whose header was damaged behind all checksums: its message is lost, and its receiver can be told.
// Records that may belong to other connections, or may be duplicates, mean nothing.
struct Harm {
  const char* name;
  bool corrupts;
  std::function<void(stack::Record&)> change;
};
void PrintTo(const Harm& harm, std::ostream* out) {
  *out << harm.name;
}
class Records : public Middle, public testing::WithParamInterface<Harm> {};
INSTANTIATE_TEST_SUITE_P(
    Harmed, Records,
    testing::Values(
        Harm{"ForAnotherPort", true,
             [](stack::Record& r) { r.destination = PortId(r.destination.value() ^ 0x10000); }},
        Harm{"ForNoPort", true, [](stack::Record& r) { r.destination = PortId(); }},
        Harm{"NotFromItsPeer", true, [](stack::Record& r) { r.source = PortId(r.source.value() ^ 1); }},
        Harm{"OfAnotherConnection", false,
             [](stack::Record& r) {
               r.source = PortId(r.source.value() ^ 1);
               r.destination = PortId(r.destination.value() ^ 0x10000);
             }},
        Harm{"OfAnUnknownProtocol", true, [](stack::Record& r) { r.protocol = stack::ProtocolId(200); }},
        Harm{"OfNoProtocol", true, [](stack::Record& r) { r.protocol = stack::ProtocolId(); }},
        Harm{"OfAnotherConnectionsProtocol", true,
             [](stack::Record& r) { r.protocol = stack::kSharedMemory; }},
        Harm{"OfAProtocolWithoutConnections", true, [](stack::Record& r) { r.protocol = stack::kControl; }},
        Harm{"CreditOfAnotherProtocol", true,
             [](stack::Record& r) {
               r.kind = stack::RecordKind::kCredit;
               r.protocol = stack::kDatagrams;
               r.bytes = 0;
               r.message_bytes = 0;
             }},
        Harm{"OfAnUnknownProtocolAndConnection", false,
             [](stack::Record& r) {
               r.protocol = stack::ProtocolId(200);
               r.source = PortId(r.source.value() ^ 1);
               r.destination = PortId(r.destination.value() ^ 0x10000);
             }},
        Harm{"BeyondTheWindow", true, [](stack::Record& r) { r.position += 100'000; }},
        Harm{"WhereAnotherWas", true, [](stack::Record& r) { r.position = r.position - 40; }},
        Harm{"WhereItMayHaveBeen", false,
             [](stack::Record& r) {
               r.position = r.position - 40;
               r.maybe_duplicate = true;
             }},
        Harm{"BehindAGapThatBeganBefore", true,
             [](stack::Record& r) {
               r.position += 40;
               r.skip = 0x4000;
             }},
        Harm{"BehindAGapInTheMiddle", true,
             [](stack::Record& r) {
               r.position += 40;
               r.skip = 3;
             }}),
    [](const auto& harm) { return harm.param.name; });

TEST_P(Records, ImpossibleRecordCorruptsItsConnection) {  // CV-10, PS-3
  const Frame f = one_record(GetParam().change);
  EXPECT_FALSE(c_.in->corrupted());
  put(1, f);
  for (int i = 0; i < 200; ++i) poll();
  EXPECT_EQ(c_.in->corrupted(), GetParam().corrupts);
  EXPECT_FALSE(c_.out->corrupted());
}

// Records of protocols that the node does not have are counted, taken off the wire and never waited for. A datagram goes
// back, and what came back does not go back once more.
TEST_F(Middle, RecordsOfUnknownProtocolsAreCountedAndRefused) {  // PS-3, PS-6
  const auto datagram = [&](stack::RecordKind kind, stack::ProtocolId protocol) {
    return one_record([&](stack::Record& r) {
      r.kind = kind;
      r.protocol = protocol;
      r.source = PortId(77);
      r.destination = PortId(78);
    });
  };
  put(1, datagram(stack::RecordKind::kDatagram, stack::ProtocolId(200)));
  EXPECT_EQ(count(&ProxyCounters::unknown_protocol), 1u);
  put(1, datagram(stack::RecordKind::kReturned, stack::ProtocolId(200)));
  EXPECT_EQ(count(&ProxyCounters::unknown_protocol), 2u);
  // Both and more, in any number: what is to go back is bounded, and no packet waits for it.
  for (unsigned i = 0; i < 2 * DatagramOutbox::kMaxPerCluster; ++i)
    put(1, datagram(stack::RecordKind::kDatagram, stack::ProtocolId(200)));
  EXPECT_EQ(count(&ProxyCounters::unknown_protocol), 2u + 2 * DatagramOutbox::kMaxPerCluster);
  EXPECT_GE(count(&ProxyCounters::datagrams_dropped), DatagramOutbox::kMaxPerCluster);
  put(1, one_record([](stack::Record& r) {
        r.protocol = stack::ProtocolId(200);
        r.source = PortId(77);
        r.destination = PortId(78);
      }));
  EXPECT_EQ(count(&ProxyCounters::unknown_protocol), 3u + 2 * DatagramOutbox::kMaxPerCluster)
      << "a message for no connection";
  const auto refused = [&](stack::ProtocolId protocol) {
    for (int i = 0; i < 200; ++i) turn();
    return nodes_[1]->all_counters().proxy[0].protocol[protocol.value() - 1].refused.get();
  };
  put(1, datagram(stack::RecordKind::kDatagram, stack::kMessages));
  EXPECT_EQ(refused(stack::kMessages), 1u) << "it carries connections";
  put(1, datagram(stack::RecordKind::kReturned, stack::kControl));
  EXPECT_EQ(refused(stack::kControl), 1u) << "control messages do not come back";
  const std::uint64_t bad = count(&ProxyCounters::bad_packets);
  put(1, one_record([](stack::Record& r) {
        r.kind = stack::RecordKind::kDatagram;
        r.protocol = stack::kDatagrams;
        r.bytes = Datagram::kMaxBytes + 1;
        r.message_bytes = r.bytes;
      }));
  EXPECT_EQ(refused(stack::kDatagrams), 1u) << "it is too long";
  EXPECT_EQ(count(&ProxyCounters::bad_packets), bad + 1);
  EXPECT_FALSE(c_.in->corrupted()) << "none of them names the connection";
  EXPECT_FALSE(c_.out->corrupted());
}

// The node can say why such a peer does not come up.
TEST_F(Middle, PeerOfAnotherVersionIsDiagnosed) {  // PS-7
  EXPECT_EQ(nodes_[1]->other_version(), 0);
  Frame f = genuine();
  f[kPacket] = std::byte{3};
  mend(f);
  expect_counted(f, &ProxyCounters::other_versions, "an older build");
  EXPECT_EQ(nodes_[1]->other_version(), 3);
}

// A train that its header, its table of lengths and its bytes do not agree on is a malformed packet, of which nothing
// is delivered.
TEST_F(Middle, MalformedTrainIsCountedAndDropped) {  // CV-11
  const auto fresh_train = [&] {
    model_.clear();  // its sequence number is not far ahead for ever
    return one_train([](stack::Record&, stack::TrainLengths&) {});
  };
  const auto malformed = [&](const char* what, const std::function<void(std::byte*)>& harm) {
    Frame f = fresh_train();
    harm(f.data() + record_at_);
    mend(f);
    expect_counted(f, &ProxyCounters::bad_packets, what);
  };
  const auto number = [](unsigned messages) {
    return [messages](std::byte* r) { store(r + 18, static_cast<std::uint8_t>(messages)); };
  };
  malformed("a train of one", number(1));
  malformed("of fewer messages than there are", number(2));
  malformed("of more", number(5));
  malformed("of more than a train may have", number(stack::kMaxTrainMessages + 1));
  malformed("of as many as a byte can say", number(255));
  malformed("no train, and a table", number(0));
  malformed("a length that is too great", [](std::byte* r) { store<std::uint16_t>(r + 20, 65); });
  malformed("one that is too small", [](std::byte* r) { store<std::uint16_t>(r + 20, 56); });
  malformed("one that is as great as can be", [](std::byte* r) { store<std::uint16_t>(r + 22, 0xffff); });
  malformed("more bytes than the lengths are", [](std::byte* r) { store<std::uint16_t>(r + 12, 137); });
  malformed("a part of a message", [](std::byte* r) { store<std::uint8_t>(r + 16, 0x81); });
  malformed("of a message of many pieces", [](std::byte* r) { store<std::uint8_t>(r + 16, 0x41); });
  malformed("a credit", [](std::byte* r) { store<std::uint8_t>(r + 16, 2); });
  malformed("a control message", [](std::byte* r) { store<std::uint8_t>(r + 16, 3); });
  malformed("a returned datagram", [](std::byte* r) { store<std::uint8_t>(r + 16, 4); });
  malformed("a flag that means nothing", [](std::byte* r) { store<std::uint8_t>(r + 19, 1); });
  for (const std::size_t cut : {2u, 8u, 137u, 144u}) {
    Frame f = fresh_train();
    f.resize(f.size() - cut);
    mend(f);
    expect_counted(f, &ProxyCounters::bad_packets, "a train that is cut off");
  }
}

// A well-formed train whose messages do not lie where a sender may put them: each is judged alone.
struct TrainHarm {
  const char* name;
  bool corrupts;
  unsigned dropped;  // of its three messages
  std::function<void(stack::Record&)> change;
};
void PrintTo(const TrainHarm& harm, std::ostream* out) {
  *out << harm.name;
}
class Trains : public Middle, public testing::WithParamInterface<TrainHarm> {};
constexpr std::uint32_t kWindowGranules = ConnectionOptions{}.window_bytes / convergence::kGranuleBytes;
INSTANTIATE_TEST_SUITE_P(
    Harmed, Trains,
    testing::Values(TrainHarm{"BeyondTheWindow", true, 3, [](stack::Record& r) { r.position += 100'000; }},
                    TrainHarm{"BeforeTheWindow", true, 3,
                              [](stack::Record& r) { r.position = r.position - 40; }},
                    TrainHarm{"WhereItMayHaveBeen", false, 3,
                              [](stack::Record& r) {
                                r.position = r.position - 40;
                                r.maybe_duplicate = true;
                              }},
                    TrainHarm{"OverTheEndOfTheWindow", true, 1,
                              [](stack::Record& r) { r.position += kWindowGranules - 2; }},
                    TrainHarm{"OverTheBeginningOfTheWindow", true, 2,
                              [](stack::Record& r) { r.position = r.position - 2; }},
                    TrainHarm{"OverTheEndOfTheRing", false, 0,
                              [](stack::Record& r) {
                                r.position = Position(
                                    (r.position.value() / kWindowGranules + 1) * kWindowGranules - 1);
                              }}),
    [](const auto& harm) { return harm.param.name; });

TEST_P(Trains, MessagesWhereNoneCanBeAreDroppedAndCorruptTheConnection) {  // CV-10, CV-11
  // Behind everything that was consumed.
  const Frame f = one_train([&](stack::Record& r, stack::TrainLengths&) {
    r.position = Position(consumed());
    r.maybe_duplicate = false;
    GetParam().change(r);
  });
  EXPECT_FALSE(c_.in->corrupted());
  const std::uint64_t stale = count(&ProxyCounters::stale_records);
  const std::uint64_t received = count(&ProxyCounters::messages_received);
  put(1, f);
  EXPECT_EQ(count(&ProxyCounters::stale_records), stale + GetParam().dropped);
  EXPECT_EQ(count(&ProxyCounters::messages_received), received + 3 - GetParam().dropped);
  for (int i = 0; i < 200; ++i) turn();
  EXPECT_EQ(c_.in->corrupted(), GetParam().corrupts);
  EXPECT_FALSE(c_.out->corrupted());
}

// Messages that a train brings a second time are dropped one by one, also where only some of them came before.
TEST_F(Middle, TrainOverDeliveredMessagesIsDroppedWhereItOverlaps) {  // CV-10, CV-11
  const auto at = [&](std::uint32_t position) {
    return one_train([&](stack::Record& r, stack::TrainLengths&) { r.position = Position(position); });
  };
  model_ = genuine();
  const std::uint32_t next = consumed();  // nothing is sent from now on
  const std::uint64_t received = count(&ProxyCounters::messages_received);
  put(1, at(next + 3));
  EXPECT_EQ(count(&ProxyCounters::stale_records), 0u);
  EXPECT_EQ(count(&ProxyCounters::messages_received), received + 3);
  EXPECT_FALSE(c_.in->corrupted());
  put(1, at(next + 1));
  EXPECT_EQ(count(&ProxyCounters::stale_records), 1u);
  EXPECT_EQ(count(&ProxyCounters::messages_received), received + 5);
  EXPECT_TRUE(c_.in->corrupted());
}

// Seeded nonsense: nothing of it may crash the node, and what is really sent gets through.
TEST_F(Middle, RandomlyChangedFramesHarmNoConnection) {
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Prng prng(kSeed);
  for (int round = 0; round < 40; ++round) {
    const Frame model = genuine();
    for (int i = 0; i < 30; ++i) {
      Frame f = model;
      if (prng.chance(0.3)) f.resize(1 + prng.below(f.size()));
      for (std::uint64_t flips = 1 + prng.below(4); flips > 0; --flips)
        f[prng.below(f.size())] ^= static_cast<std::byte>(1 + prng.below(255));
      put(1, f);
      turn();
    }
  }
  expect_unharmed();
}

}  // namespace
}  // namespace braid::proxy::test
