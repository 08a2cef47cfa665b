// Shared memory before the clusters start: private memory at the addresses that the shared heap will have. Its
// contents, of which every clone of the program has a copy, become the heap's initial contents.
//
//   allocate() ... allocate()   start_clusters()   close()   init()   publish()
//
// Used by the initial thread of a program whose main() runs once.
#pragma once

#include <cstddef>

namespace braid::dsm {

class EarlyHeap {
 public:
  // Zeroed. Aligned to 16 bytes, or to a page where it has a page or more. Ends the process with a message when the
  // heap is full.
  void* allocate(std::size_t bytes);
  // Whether the address is in memory that allocate() has returned.
  bool has(const void* address) const;
  // Makes room at the heap's address, for init(). No address that allocate() has returned may be used until publish()
  // has returned.
  void close();
  // Allocates the memory from the shared heap, at its place, with its contents. Every cluster calls it, after init(),
  // as its first allocation.
  void publish();

 private:
  void open();

  std::byte* memory_ = nullptr;  // where the contents are now
  std::size_t heap_bytes_ = 0;
  std::size_t used_ = 0;
};

}  // namespace braid::dsm
