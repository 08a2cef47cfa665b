// Two ends of a sub-connection that seal their packets, and somebody between them who knows everything but their
// secret: pair.h. He keeps, changes, repeats and reflects packets of all epochs, and writes some of his own.
//
// OpenSSL's contexts are not in the arena, so the world is built anew for every input.
#include "tests/fuzz/pair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 2048));
  fuzz::Pair pair(true);
  fuzz::Digest::instance().begin();
  fuzz::run(pair, in);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::fuzz::make_operation);
}
