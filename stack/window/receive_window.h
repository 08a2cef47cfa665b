// Which packets of a sub-connection were delivered: a cumulative edge and a bit for each packet of the window
// after it.
//
//      delivered            delivered (1) or missing (0)                never accepted
//   ------|------------------------------------------------|------------------------->
//       edge_                                        edge_ + kWindow
//
// It holds no packets: each one's records go to their destinations as it arrives, whatever is missing before
// it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/mutant.h"
#include "base/seq.h"
#include "stack/wire/segment.h"

namespace braid::stack {

enum class PacketArrival : std::uint8_t { kNew, kDuplicate, kBeyondWindow };

class ReceiveWindow {
 public:
  static constexpr std::uint32_t kWindow = 64 * kMaxSackWords;

  ReceiveWindow() = default;
  explicit ReceiveWindow(Seq first) : edge_(first), highest_(first) {}

  // Classifies a packet without a change of state (SW-1).
  PacketArrival classify(Seq seq) const {
    const std::int32_t ahead = seq - edge_;
    if (ahead == 0) return PacketArrival::kNew;
    if (ahead < 0) return PacketArrival::kDuplicate;
    if (ahead >= static_cast<std::int32_t>(kWindow)) return PacketArrival::kBeyondWindow;
    return test(seq) ? PacketArrival::kDuplicate : PacketArrival::kNew;
  }
  // All records of the packet lie where they belong. classify(seq) was kNew.
  void delivered(Seq seq) {
    if (seq == edge_ && seq == highest_) {  // in order
      highest_ = ++edge_;
      return;
    }
    CHECK(classify(seq) == PacketArrival::kNew);
    if (seq - highest_ >= 0) highest_ = seq + 1;
    if (seq != edge_) {
      if (!mutant(Mutant::kForgetAcknowledgement)) words_[word(seq)] |= bit(seq);
      return;
    }
    ++edge_;
    while (edge_ - highest_ < 0 && test(edge_)) {
      words_[word(edge_)] &= ~bit(edge_);
      ++edge_;
    }
    check();
  }
  // Everything before it was delivered.
  Seq edge() const { return edge_; }
  bool has_hole() const { return highest_ - edge_ > 0; }
  // The selective acknowledgement: bit i of word w stands for edge()+1+64w+i. Returns the words in use
  // (SW-2).
  std::uint8_t sack(std::uint64_t (&words)[kMaxSackWords]) const {
    const std::int32_t beyond = highest_ - edge_ - 1;  // packets after the hole at the edge
    if (beyond <= 0) return 0;
    const auto used = static_cast<std::uint8_t>((beyond + 63) / 64);
    for (std::uint32_t w = 0; w < used; ++w) {
      const Seq first = edge_ + 1 + 64 * w;
      const unsigned shift = first.value() % 64;
      words[w] = words_[word(first)] >> shift;
      if (shift != 0) words[w] |= words_[word(first + 64)] << (64 - shift);
      // The ring's last word runs into the first. Bits without a packet are clear: delivered() leaves none behind
      // the edge.
    }
    return used;
  }
  void check() const { CHECK_LE(highest_ - edge_, static_cast<std::int32_t>(kWindow)); }

 private:
  static std::size_t word(Seq seq) { return seq.value() / 64 % kMaxSackWords; }
  static std::uint64_t bit(Seq seq) { return std::uint64_t{1} << (seq.value() % 64); }
  bool test(Seq seq) const { return (words_[word(seq)] & bit(seq)) != 0; }

  Seq edge_;
  Seq highest_;  // one past the highest delivered; edge_ if nothing is missing
  std::uint64_t words_[kMaxSackWords] = {};
};

}  // namespace braid::stack
