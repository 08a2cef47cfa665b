// Shared memory between clusters: every compute node takes blocks of numbers from a common counter, counts the primes
// in them, and leaves each block's count in a shared array.
#include <cstdint>
#include <cstdio>

#include "dsm/api.h"

namespace dsm = braid::dsm;

constexpr std::uint32_t kBlockNumbers = 1000, kBlocks = 1000;  // so the numbers below a million
constexpr unsigned kPrimes = 78498;                            // there are so many primes among them

bool is_prime(std::uint32_t n) {
  for (std::uint32_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n >= 2;
}

int main() {
  // main() runs once in every cluster: what one allocates, all allocate, in the same order.
  dsm::init();
  // Shared: the same address in every cluster. Everything else, `total` too, is each cluster's own.
  std::uint32_t* const primes = dsm::allocate<std::uint32_t>(kBlocks);
  unsigned total = 0;

  dsm::parallel([&](dsm::Node& node) {  // on every compute node of every cluster
    constexpr unsigned kNext = 0;       // a word, one of 4096 atomic integers: it costs a message, not a page
    for (;;) {
      const auto block = static_cast<std::uint32_t>(node.fetch_add(kNext, 1));
      if (block >= kBlocks) break;
      // Nodes of different clusters may write to one page at the same time, as long as they write different bytes.
      for (std::uint32_t n = 0; n < kBlockNumbers; ++n) primes[block] += is_prime(block * kBlockNumbers + n);
    }
    node.barrier();  // what others wrote before it is seen after it; without it, some old values
    unsigned mine = 0;
    for (const std::size_t block : node.share(kBlocks))
      mine += primes[block];  // this node's part of the array
    const unsigned all =
        node.reduce(mine, dsm::Reduce::kSum);  // the sum of every node's `mine`, given to each
    if (node.local() == 0) total = all;        // one node of a cluster writes its cluster's own
  });

  if (dsm::cluster() == 0) std::printf("%u primes: %s\n", total, total == kPrimes ? "right" : "WRONG");
  return dsm::finish(total == kPrimes ? 0 : 1);  // waits for the other clusters
}
