// G_MALLOC. Before the machine is started: memory of main() alone that becomes shared memory. Then each process takes large
// pieces of the shared heap and divides them, because a call of the heap costs a message to every cluster.
#include <cstddef>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"

namespace braid::dsm::parmacs {

namespace {

constexpr std::size_t kPieceBytes = 256u << 10;
constexpr std::size_t kLargeBytes = 4096;  // a page: such blocks begin on a page

struct Piece {
  std::byte* next = nullptr;
  std::size_t left = 0;
};
// A compute node is a thread.
thread_local Piece piece;

std::byte* take(std::size_t bytes) {
  return static_cast<std::byte*>(self().allocate_bytes(bytes, Placement::first_touch()));
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void* braid_parmacs_allocate(size_t bytes) {
  if (!started()) return early_heap().allocate(bytes);
  if (bytes >= kLargeBytes) return take(bytes);
  const std::size_t rounded = (bytes + 15) / 16 * 16;
  if (piece.left < rounded) piece = {take(kPieceBytes), kPieceBytes};
  std::byte* const block = piece.next;
  piece.next += rounded;
  piece.left -= rounded;
  return block;
}

// The heap is not given back before the end of the program.
void braid_parmacs_free(void*) {}

}  // extern "C"
