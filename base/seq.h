// Sequence numbers of 32 bits that wrap. Comparisons are right while two numbers are less than 2^31
// apart, which every window guarantees by orders of magnitude (RFC 1982 serial number arithmetic).
#pragma once

#include <cstdint>

namespace braid {

template <class Tag>
class WrappingSeq {
 public:
  constexpr WrappingSeq() = default;
  explicit constexpr WrappingSeq(std::uint32_t value) : value_(value) {}
  constexpr std::uint32_t value() const { return value_; }

  constexpr bool operator==(const WrappingSeq&) const = default;
  constexpr bool operator<(WrappingSeq o) const { return *this - o < 0; }
  constexpr bool operator>(WrappingSeq o) const { return *this - o > 0; }
  constexpr bool operator<=(WrappingSeq o) const { return *this - o <= 0; }
  constexpr bool operator>=(WrappingSeq o) const { return *this - o >= 0; }

  constexpr WrappingSeq operator+(std::uint32_t n) const { return WrappingSeq(value_ + n); }
  constexpr WrappingSeq operator-(std::uint32_t n) const { return WrappingSeq(value_ - n); }
  constexpr WrappingSeq& operator+=(std::uint32_t n) {
    value_ += n;
    return *this;
  }
  constexpr WrappingSeq& operator++() { return *this += 1; }
  // Signed distance; exact while the two lie less than 2^31 apart.
  constexpr std::int32_t operator-(WrappingSeq o) const {
    return static_cast<std::int32_t>(value_ - o.value_);
  }

 private:
  std::uint32_t value_ = 0;
};

// Position of a packet on a sub-connection.
using Seq = WrappingSeq<struct PacketSeqTag>;
// Position on a parallel connection, in granules of receive buffer (convergence/position.h).
using Position = WrappingSeq<struct PositionTag>;

}  // namespace braid
