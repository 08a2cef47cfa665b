// Ends in the way that its argument names, while other compute nodes wait at a barrier. Two clusters of two nodes.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "dsm/api.h"

namespace {

using braid::dsm::Node;

volatile int* shared;

// A function with a name for the stack trace, and an address that no compiler knows.
[[gnu::noinline]] void write_to(volatile int* address) {
  *address = 1;
}

[[gnu::noinline]] int recurse(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + room[0];
}

void end_in_node(const std::string& how) {
  volatile int one = 1, zero = 0;
  void (*volatile nothing)() = nullptr;
  if (how == "exit") std::exit(3);
  if (how == "exit-0") std::exit(0);
  if (how == "_exit") ::_exit(4);
  if (how == "write") write_to(reinterpret_cast<volatile int*>(0x10));  // NOLINT
  if (how == "write-forbidden")
    write_to(
        static_cast<volatile int*>(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
  if (how == "write-nowhere") write_to(reinterpret_cast<volatile int*>(0x1234567812345678));  // NOLINT
  if (how == "call") nothing();
  if (how == "recurse") std::printf("%d\n", recurse(0));
  if (how == "divide") std::printf("%d\n", one / zero);
  if (how == "abort") std::abort();
  if (how == "trap") __builtin_trap();
  if (how == "throw") throw std::runtime_error("the reason");
  if (how == "close-all") ::close_range(3, ~0u, 0);
  if (how == "close-really-all") ::close_range(0, ~0u, 0);
  if (how == "mprotect") ::mprotect(const_cast<int*>(shared), 4096, PROT_NONE);
  if (how == "mprotect-by-number") {  // which is not interposed
    ::syscall(SYS_mprotect, shared, 4096, PROT_NONE);
    *shared = 1;
  }
  if (how == "munmap") {
    ::munmap(const_cast<int*>(shared), 4096);
    *shared = 1;
  }
  if (how == "kill") ::raise(SIGKILL);
  if (how == "raise") ::raise(SIGSEGV);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace braid::dsm;  // NOLINT
  const std::string how = argc > 1 ? argv[1] : "";
  const unsigned ends = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;  // the compute node
  init();
  if (how == "return" && cluster() == ends / nodes_per_cluster()) return 0;
  shared = allocate<int>(1024);
  parallel([&](Node& node) {
    // The page is every node's own to write.
    if (node.id() == ends) *shared = 2;
    if (node.id() == ends) end_in_node(how);
    node.barrier(3);
  });
  return finish(0);
}
