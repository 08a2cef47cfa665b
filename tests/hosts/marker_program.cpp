// Cluster 0 writes a marker all over shared memory, and every compute node reads it: bytes that a test looks for on the wire.
#include <cstdio>
#include <cstring>

#include "dsm/api.h"

namespace {

constexpr char kMarker[] = "only-for-the-members-of-this-run";
constexpr std::size_t kCopies = 2048;
constexpr int kRounds = 4;

}  // namespace

int main() {
  using namespace braid::dsm;  // NOLINT
  init();
  char* const text = allocate<char>(kCopies * sizeof kMarker);
  bool is_right = true;
  parallel([&](Node& node) {
    for (int round = 0; round < kRounds; ++round) {
      if (node.id() == 0) {
        for (std::size_t i = 0; i < kCopies; ++i) {
          std::memcpy(text + i * sizeof kMarker, kMarker, sizeof kMarker);
          text[i * sizeof kMarker + sizeof kMarker - 1] = static_cast<char>('a' + round);
        }
      }
      node.barrier();
      for (std::size_t i = 0; i < kCopies; ++i) {
        const char* const copy = text + i * sizeof kMarker;
        if (std::memcmp(copy, kMarker, sizeof kMarker - 1) != 0 || copy[sizeof kMarker - 1] != 'a' + round)
          is_right = false;
      }
      node.barrier();
    }
  });
  std::puts(is_right ? "verified" : "WRONG");
  return finish(is_right ? 0 : 1);
}
