// A program with access checks. The last compute node accesses what cluster 0 has written, in the way that is named, and prints what
// it has seen:
//
//     cli_small_pages_app checked | span | copy | stray | strayed-write | atomic | structure | behind
//
// Memory has 15 KiB, which cluster 0 keeps: byte i is i / 1024 + 1. "stray" ways are in small_pages_stray.cpp, without checks.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "dsm/api.h"

unsigned stray_read(const unsigned char* p);
void stray_write(unsigned char* p, unsigned char value);

namespace {

constexpr std::size_t kBytes = 15 * 1024;  // the last of the kernel's pages has a KiB that is not allocated

struct Structure {
  unsigned char bytes[24];
};

[[gnu::noinline]] std::uint64_t word_at(const unsigned char* p) {
  return *reinterpret_cast<const std::uint64_t __attribute__((aligned(1)))*>(p);
}

[[gnu::noinline]] void copy_structure(Structure* to, const Structure* from) {
  *to = *from;
}

void access(const char* how, unsigned char* memory) {
  const auto is = [how](const char* name) { return std::strcmp(how, name) == 0; };
  if (is("checked")) {
    std::printf("saw %u\n", memory[5000]);
  } else if (is("span")) {
    std::printf("saw %llx\n", static_cast<unsigned long long>(word_at(memory + 4092)));
  } else if (is("copy")) {
    unsigned char own[3000];
    std::memcpy(own, memory + 500, sizeof own);
    std::memmove(memory + 8200, memory + 500, sizeof own);
    std::memset(memory + 12288, 77, 2);
    std::printf("saw %u %u %u %u %d\n", own[0], own[2999], memory[8200], memory[12289],
                std::memcmp(memory + 8200, own, sizeof own));
  } else if (is("stray")) {
    std::printf("saw %u\n", stray_read(memory + 5000));
  } else if (is("strayed-write")) {
    stray_write(memory + 5000, 99);
    std::printf("saw %u\n", memory[5000]);
  } else if (is("atomic")) {
    auto* const word = reinterpret_cast<std::uint32_t*>(memory + 2048);
    __atomic_fetch_add(word, 1u, __ATOMIC_SEQ_CST);
    std::printf("saw %x\n", *word);
  } else if (is("structure")) {
    copy_structure(reinterpret_cast<Structure*>(memory + 3064), reinterpret_cast<Structure*>(memory + 1016));
    std::printf("saw %u %u\n", memory[3064], memory[3087]);
  } else if (is("behind")) {
    for (std::size_t i = 12 * 1024; i < kBytes; ++i) memory[i] = 1;
    memory[kBytes] = 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  braid::dsm::init();
  auto* const memory =
      static_cast<unsigned char*>(braid::dsm::allocate_bytes(kBytes, braid::dsm::Placement::on(0)));
  braid::dsm::parallel([&](braid::dsm::Node& node) {
    if (node.id() == 0)
      for (std::size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<unsigned char>(i / 1024 + 1);
    node.barrier();
    if (node.id() + 1 == node.count() && argc > 1) access(argv[1], memory);
    node.barrier();
    if (node.id() == 0) std::printf("home has %u\n", memory[5000]);
  });
  return braid::dsm::finish(0);
}
