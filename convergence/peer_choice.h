// Which proxy of the destination's cluster a proxy sends to: the sending proxy picks it (paper, section 3.5).
#pragma once

#include <cstdint>
#include <optional>

namespace braid::convergence {

enum class PeerChoice : std::uint8_t {
  kAligned,     // proxy i to proxy i; where the numbers differ, modulo
  kRoundRobin,  // one after the other
};

// Proxy `mine` of `my_count` is aligned with proxy `theirs` of `their_count`: every proxy with at least one
// of the other side. `shift` turns the whole assignment by so many, in both directions alike.
constexpr bool are_aligned(unsigned mine, unsigned my_count, unsigned theirs, unsigned their_count,
                           unsigned shift = 0) {
  return theirs == (mine + shift) % their_count || mine == (theirs + my_count - shift % my_count) % my_count;
}
// One is to be preferred by a driver that makes `choice`.
constexpr bool is_preferred(PeerChoice choice, bool aligned) {
  return aligned || choice == PeerChoice::kRoundRobin;
}

// How usable a way to a peer is at the moment.
enum class Way : std::uint8_t { kNone, kLastResort, kGood };

// The turns of one proxy's ways to one cluster, of which the preferred ones are listed first. Pure; owned by
// the proxy.
class PeerTurns {
 public:
  // The next way: of the preferred ones, else of the others, one that is good; else one of the last resort;
  // nothing if there is none. `way(i)` judges number i of `count`.
  template <class Judge>
  std::optional<std::uint32_t> next(std::uint32_t preferred, std::uint32_t count, Judge&& way) {
    ++turn_;
    std::optional<std::uint32_t> last_resort;
    for (std::uint32_t tried = 0; tried < count; ++tried) {
      const std::uint32_t at = tried < preferred
                                   ? (turn_ + tried) % preferred
                                   : preferred + (turn_ + tried - preferred) % (count - preferred);
      switch (way(at)) {
        case Way::kGood:
          return at;
        case Way::kLastResort:
          last_resort = at;
          break;
        case Way::kNone:
          break;
      }
    }
    return last_resort;
  }

 private:
  std::uint32_t turn_ = 0;
};

}  // namespace braid::convergence
