// A stack that talks to a peer, and frames from anybody: raw bytes, well-formed headers around any payload,
// and the peer's own frames, changed. Nothing crashes, what leaves is well formed, and the genuine traffic
// goes on once the others are silent.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "stack/stack.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/udp_frame.h"

namespace braid {
namespace {

using fuzz::Input;
using namespace stack;

constexpr LinkId kLink(0);
constexpr std::uint16_t kPort = 7700;
constexpr std::uint16_t kProxies = 2;

StackConfig config_of(std::uint16_t cluster) {
  StackConfig c;
  c.local = {ClusterId(cluster), ProxyId(0)};
  Interface own;
  own.address = *Ipv4Address::parse(cluster == 0 ? "10.0.0.1" : "10.0.0.2");
  own.mac = *MacAddress::parse(cluster == 0 ? "02:00:00:00:00:01" : "02:00:00:00:00:02");
  own.prefix_bits = 24;
  own.gateway = Ipv4Address::parse("10.0.0.254");
  c.interfaces.push_back(own);
  c.udp_port_base = kPort;
  c.proxies = kProxies;
  // Each is 64 KiB of memory that an input would have to pay for.
  c.reassembly.packets = 4;
  c.outgoing_packets = 4;
  c.seed = 40u + cluster;
  c.sub_connection.path_death = 50_ms;
  c.sub_connection.peer_death = 10_s;
  RemoteStack r;
  r.id = {ClusterId(static_cast<std::uint16_t>(1 - cluster)), ProxyId(0)};
  r.address = *Ipv4Address::parse(cluster == 0 ? "10.0.0.2" : "10.0.0.1");
  r.udp_port = kPort;
  r.link = kLink;
  c.remotes.push_back(r);  // found by ARP
  return c;
}

// From the peer to the target.
constexpr fuzz::FrameEnds kEnds = {
    {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, 0x0a000002, 0x0a000001, kPort, kPort};

struct Message : OutMessage {
  std::vector<std::byte> content;
  bool finished = false;
};

class FrameWorld {
 public:
  FrameWorld() {
    for (std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}})
      stacks_[i] = std::make_unique<Stack>(config_of(i), now_);
  }

  void send(int i, std::uint32_t bytes) {
    if (messages_.size() > 64) return;
    auto m = std::make_unique<Message>();
    m->content.assign(bytes, std::byte{0x5c});
    m->data = m->content.data();
    m->bytes = bytes;
    m->record.message_bytes = bytes;
    m->record.message = m->record.position = Position(static_cast<std::uint32_t>(messages_.size()));
    messages_.push_back(std::move(m));
    stacks_[i]->to(ClusterId(static_cast<std::uint16_t>(1 - i)))[0]->send(*messages_.back());
  }

  // Puts everything that is due on the wire.
  void transmit(int i) {
    for (int guard = 0;; ++guard) {
      CHECK_LT(guard, 2000);
      room_.resize(stacks_[i]->frame_bytes());
      const std::size_t length = stacks_[i]->poll_transmit(now_, kLink, room_);
      if (length == 0) break;
      CHECK_LE(length, room_.size());
      const ByteView frame = ByteView(room_).first(length);
      check_frame(frame);
      fuzz::digest(frame);
      wire_[1 - i].emplace_back(frame.begin(), frame.end());
    }
    for (const auto& sub : stacks_[i]->sub_connections()) {
      for (OutMessage* m = sub->take_finished(); m != nullptr; m = m->next) {
        CHECK(!static_cast<Message*>(m)->finished);
        static_cast<Message*>(m)->finished = true;
      }
      (void)sub->take_lost();
      sub->check();
    }
  }

  void receive_all(int i) {
    for (std::size_t n = wire_[i].size(); n > 0; --n) {
      const std::vector<std::byte> frame = std::move(wire_[i].front());
      wire_[i].pop_front();
      receive(i, frame, true);
    }
  }

  void receive(int i, const std::vector<std::byte>& frame, bool deliver) {
    const Stack::Received r = stacks_[i]->receive(now_, kLink, frame);
    if (r.what == Stack::Received::What::kMisdirected) CHECK_LT(r.proxy, unsigned{kProxies});
    if (r.what != Stack::Received::What::kRecords) return;
    CHECK(r.sub_connection != nullptr);
    RecordReader reader(r.records, r.record_count);
    Record record;
    ByteView bytes;
    while (reader.next(&record, &bytes)) {
      std::byte sum{0};
      for (const std::byte b : bytes) sum ^= b;  // every byte of it may be read
      sum_ ^= sum;
      fuzz::digest(bytes);
    }
    if (reader.broken())
      stacks_[i]->malformed();
    else if (deliver)
      stacks_[i]->delivered(now_, r);
  }

  // The peer's next frame, or any that the input makes up.
  std::vector<std::byte> make_frame(Input& in) {
    std::vector<std::byte> frame;
    switch (in.below(6)) {
      case 0: {  // raw
        const ByteView raw = in.some_bytes(1514);
        return {raw.begin(), raw.end()};
      }
      case 1: {  // UDP around anything
        fuzz::FrameEnds ends = kEnds;
        ends.destination_port = static_cast<std::uint16_t>(kPort + in.below(4));
        return fuzz::udp_frame(ends, in.some_bytes(1472));
      }
      case 2: {  // any protocol, whole or as a fragment
        const auto protocol = static_cast<std::uint8_t>(in.truth() ? 1 : in.byte());
        const auto id = static_cast<std::uint16_t>(in.below(4));
        const auto fragment = in.number<std::uint16_t>();
        return fuzz::ipv4_frame(kEnds, protocol, in.some_bytes(1480), id, fragment);
      }
      case 3: {  // ARP, asked or told
        frame.resize(42);
        fuzz::put_ethernet(frame.data(), kEnds, 0x0806);
        constexpr std::uint8_t kHead[] = {0, 1, 8, 0, 6, 4, 0};
        std::memcpy(frame.data() + 14, kHead, sizeof kHead);
        frame[21] = static_cast<std::byte>(1 + in.below(2));
        std::memcpy(frame.data() + 22, kEnds.source_mac, 6);
        store_be(frame.data() + 28, kEnds.source_address);
        store_be(frame.data() + 38, kEnds.destination_address);
        fuzz::mutate(in, MutableBytes(frame).subspan(14));
        return frame;
      }
      case 4: {  // the transport's header, as the peer would write it, and any records
        PacketHeader h;
        h.type = static_cast<PacketType>(1 + in.below(7));
        h.records = in.byte();
        h.sack_words = static_cast<std::uint8_t>(in.below(kMaxSackWords + 1));
        h.source = {ClusterId(1), ProxyId(0)};
        h.destination = {ClusterId(0), ProxyId(0)};
        h.sender_epoch = stacks_[1]->sub_connections()[0]->epoch();
        h.receiver_epoch =
            in.truth() ? stacks_[0]->sub_connections()[0]->epoch() : in.number<std::uint64_t>();
        h.seq = Seq(in.truth() ? in.byte() : in.number<std::uint32_t>());
        h.ack = Seq(in.truth() ? in.byte() : in.number<std::uint32_t>());
        h.timestamp = in.number<std::uint32_t>();
        h.timestamp_echo = in.number<std::uint32_t>();
        for (std::uint64_t& word : h.sack) word = in.number<std::uint64_t>();
        std::vector<std::byte> payload(kMaxPacketHeaderBytes);
        payload.resize(write_packet_header(payload.data(), h));
        const ByteView records = in.some_bytes(1400);
        payload.insert(payload.end(), records.begin(), records.end());
        peer_was_spoofed_ = true;
        return fuzz::udp_frame(kEnds, payload);
      }
      default: {  // the peer's own, changed, with correct checksums or not
        if (wire_[0].empty()) return frame;
        frame = wire_[0].front();
        fuzz::mutate(in, frame);
        if (in.truth()) fuzz::fix_checksums(frame);
        peer_was_spoofed_ = true;
        return frame;
      }
    }
  }

  void pass(Duration d) { now_ = now_ + d; }
  void gap(Duration length) { stacks_[0]->on_scheduling_gap(now_, length); }
  void flush_acks() { stacks_[0]->flush_acks(now_); }

  // Without forged packets every message arrives. Not after one that had the peer's epochs: it may have
  // acknowledged what never arrived.
  void expect_recovery() {
    const Instant limit = now_ + 60_s;
    while (!peer_was_spoofed_) {
      for (int i : {0, 1}) {
        receive_all(i);
        transmit(i);
      }
      if (stacks_[0]->all_established() && stacks_[1]->all_established() &&
          std::all_of(messages_.begin(), messages_.end(), [](const auto& m) { return m->finished; }))
        return;
      CHECK_LT(now_, limit);
      Instant next = earlier(stacks_[0]->next_deadline(), stacks_[1]->next_deadline());
      if (!wire_[0].empty() || !wire_[1].empty()) next = now_;
      now_ = std::max(now_ + 10_us, std::min(next, limit));
    }
  }

 private:
  // Another implementation would accept it.
  static void check_frame(ByteView frame) {
    CHECK_GE(frame.size(), fuzz::kEthernetBytes);
    if (load_be<std::uint16_t>(frame.data() + 12) != 0x0800) return;
    const ByteView ip = frame.subspan(fuzz::kEthernetBytes);
    CHECK_GE(ip.size(), fuzz::kIpv4Bytes);
    CHECK_EQ(fuzz::internet_sum(ip.first(fuzz::kIpv4Bytes)), 0xffffu);
    CHECK_LE(std::size_t{load_be<std::uint16_t>(ip.data() + 2)}, ip.size());
  }

  Instant now_ = Instant::from_ns(3'000'000'000);
  std::unique_ptr<Stack> stacks_[2];
  std::deque<std::vector<std::byte>> wire_[2];  // to 0 and to 1
  std::vector<std::unique_ptr<Message>> messages_;
  bool peer_was_spoofed_ = false;
  std::vector<std::byte> room_;  // for the frame that is being sent
  std::byte sum_{0};
};

void run(FrameWorld& world, Input& in) {
  while (!in.empty()) {
    switch (in.below(8)) {
      case 0:
        world.transmit(0);
        break;
      case 1:
        world.transmit(1);
        break;
      case 2:
        world.receive_all(1);
        break;
      case 3:
        world.receive_all(0);
        break;
      case 4: {
        const bool deliver = in.below(4) != 0;
        world.receive(0, world.make_frame(in), deliver);
        break;
      }
      case 5:
        world.send(in.below(2) == 0 ? 0 : 1, in.number<std::uint16_t>() % 5000);
        break;
      case 6:
        world.pass(Duration::us(in.number<std::uint16_t>()));
        break;
      case 7:
        in.truth() ? world.gap(60_ms) : world.flush_acks();
        break;
    }
  }
  world.expect_recovery();
}

// As run() and FrameWorld::make_frame() read it: a frame of the peer's, a fragment, an ICMP message, or records behind a header that has the
// epochs of both.
std::vector<std::byte> make_operation(fuzz::Draw& draw) {
  fuzz::Writer w;
  w.byte(4).byte(1);
  switch (draw.below(5)) {
    case 4:
      w.byte(2).byte(1).byte(draw.below(4)).number(std::uint16_t{0x4000});
      return w.some_bytes(fuzz::make_icmp(draw, kEnds)).take();
    case 0:
      return w.byte(0).some_bytes(fuzz::make_frame(draw, kEnds, fuzz::make_packet(draw))).take();
    case 1:
      return w.byte(1).byte(draw.below(4)).some_bytes(fuzz::make_packet(draw)).take();
    case 2:
      w.byte(2).byte(0).byte(draw.one_in(2) ? 17 : 1).byte(draw.below(4));
      return w.number(static_cast<std::uint16_t>(draw.below(4) << 13 | draw.below(8)))
          .some_bytes(draw.bytes(draw.length(8 * draw.below(8) + 8)))
          .take();
    default: {
      const unsigned records = draw.below(4);
      w.byte(4).byte(draw.below(5)).byte(draw.length(records)).byte(draw.below(5));
      w.byte(1)
          .byte(1)
          .byte(draw.below(8))
          .byte(1)
          .byte(draw.below(8));  // epoch, seq and ack that are likely
      w.number(draw.number<std::uint32_t>()).number(draw.number<std::uint32_t>());
      for (std::size_t i = 0; i < kMaxSackWords; ++i) w.number(draw.number<std::uint64_t>());
      return w.some_bytes(fuzz::make_records(draw, records)).take();
    }
  }
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 4096));
  fuzz::with_restored<FrameWorld>([&](FrameWorld& world) { run(world, in); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::make_operation);
}
