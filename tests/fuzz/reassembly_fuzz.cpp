// Fragments of a few packets in any order: complete, duplicated, overlapping, contradictory; and time that
// passes. A reassembled packet consists of fragments that came, each in its place, with no two over the same
// byte; and as many packets are incomplete as a list beside it has.
#include "stack/reassembly.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/udp_frame.h"

namespace braid {
namespace {

using fuzz::Input;
using namespace stack;

constexpr std::uint32_t kPackets = 4;
constexpr std::uint32_t kKeys = 6;
constexpr std::size_t kPacketDistance = 30'011;  // between the bytes of two packets, which overlap

struct Fragment {
  std::size_t offset;
  std::vector<std::byte> bytes;
};

// A packet as the fuzzer has seen it grow.
struct Growing {
  unsigned key;
  std::vector<Fragment> kept;
};

class ReassemblyWorld {
 public:
  ReassemblyWorld() : reassembly_(config()) {}

  void step(Input& in) {
    if (in.below(8) == 0) {
      now_ = now_ + Duration::ms(in.byte());
      expire();
    } else {
      add(in);
    }
    CHECK_EQ(reassembly_.incomplete(), growing_.size());
    reassembly_.check();
  }

 private:
  static ReassemblyConfig config() {
    ReassemblyConfig c;
    c.packets = kPackets;
    c.timeout = 500_ms;
    return c;
  }

  void expire() {
    Ipv4Packet first;
    while (reassembly_.expire(now_, first)) {
      CHECK(!growing_.empty());  // the oldest
      growing_.pop_front();
    }
    CHECK_GT(reassembly_.next_deadline(), now_);
  }

  void add(Input& in) {
    const unsigned key = in.below(kKeys);
    const std::size_t offset =
        (in.truth() ? in.below(8) : in.number<std::uint16_t>() % 8192) * std::size_t{8};
    const bool more = in.below(4) != 0;
    std::size_t length = in.truth() ? 8 * (1 + in.below(8)) : in.number<std::uint16_t>() % 1500;
    if (more) length = length / 8 * 8;
    // Each key's packet has bytes of its own, the same in every fragment that covers them.
    const ByteView right = fuzz::random_bytes(key * kPacketDistance + offset, length);
    std::vector<std::byte> payload(right.begin(), right.end());
    if (in.below(8) == 0) fuzz::mutate(in, payload);

    fuzz::FrameEnds ends = {{2}, {2}, 0x0a000002 + key % 2, 0x0a000001, 0, 0};
    const auto field = static_cast<std::uint16_t>(offset / 8 | (more ? 0x2000 : 0));
    const std::vector<std::byte> frame =
        fuzz::ipv4_frame(ends, 17, payload, static_cast<std::uint16_t>(key / 2), field);
    const std::vector<std::byte> packet(frame.begin() + fuzz::kEthernetBytes, frame.end());
    Ipv4Packet fragment;
    if (parse_ipv4(packet, fragment) != Ipv4Parse::kFragment) return;

    auto at = std::find_if(growing_.begin(), growing_.end(), [&](const Growing& g) { return g.key == key; });
    // One more takes the place of the oldest, also of one that was given up.
    if (at == growing_.end() && growing_.size() == kPackets) {
      growing_.pop_front();
      at = growing_.end();
    }
    Ipv4Packet whole;
    const FragmentFate fate = reassembly_.add(now_, fragment, whole);
    fuzz::digest(static_cast<std::uint64_t>(fate));
    switch (fate) {
      case FragmentFate::kKept:
        if (at == growing_.end()) at = growing_.insert(growing_.end(), {key, {}});
        at->kept.push_back({offset, payload});
        break;
      case FragmentFate::kComplete: {
        std::vector<Fragment> kept = at == growing_.end() ? std::vector<Fragment>{} : at->kept;
        kept.push_back({offset, payload});
        check_whole(whole, std::move(kept));
        if (at != growing_.end()) growing_.erase(at);
        break;
      }
      case FragmentFate::kOverlap:
        // Its place stays taken, so that the rest of it is known.
        if (at == growing_.end())
          growing_.push_back({key, {}});
        else
          at->kept.clear();
        break;
      case FragmentFate::kDuplicate:
        CHECK(at != growing_.end());
        break;
      case FragmentFate::kGivenUp:
        CHECK(at != growing_.end() && at->kept.empty());
        break;
    }
  }

  static void check_whole(const Ipv4Packet& whole, std::vector<Fragment> kept) {
    CHECK(!whole.is_fragment());
    CHECK_LE(whole.header.size() + whole.payload.size(), kIpv4MaxPacketBytes);
    std::sort(kept.begin(), kept.end(),
              [](const Fragment& a, const Fragment& b) { return a.offset < b.offset; });
    std::size_t end = 0;
    for (const Fragment& f : kept) {
      CHECK_EQ(f.offset, end);
      end += f.bytes.size();
      CHECK_LE(end, whole.payload.size());
      CHECK(std::equal(f.bytes.begin(), f.bytes.end(),
                       whole.payload.begin() + static_cast<std::ptrdiff_t>(f.offset)));
    }
    CHECK_EQ(end, whole.payload.size());
    CHECK(whole.header.data() + whole.header.size() == whole.payload.data());
  }

  Reassembly reassembly_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::deque<Growing> growing_;  // oldest first
};

// As step() and add() read it: a packet in fragments, one of which may be a byte longer or shorter, or come twice.
std::vector<std::byte> make_operation(fuzz::Draw& draw) {
  fuzz::Writer w;
  const std::uint32_t key = draw.below(kKeys);
  const std::uint32_t count = 1 + draw.below(4);
  const std::uint32_t first = draw.below(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t units = (first + i) % count;  // each of 8 bytes
    const bool last = units + 1 == count;
    w.byte(1).byte(key).byte(1).byte(draw.one_in(8) ? draw.length(units) : units).byte(last ? 0 : 1);
    w.byte(0).number(draw.length(std::uint16_t{8})).byte(1);
  }
  return w.take();
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 1024));
  fuzz::with_restored<ReassemblyWorld>([&](ReassemblyWorld& world) {
    while (!in.empty()) world.step(in);
  });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::make_operation);
}
