// Two ends of a sub-connection and an unknown peer between them: pair.h.
#include "tests/fuzz/pair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 2048));
  fuzz::with_restored<fuzz::Pair>([&](fuzz::Pair& pair) { fuzz::run(pair, in); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::fuzz::make_operation);
}
