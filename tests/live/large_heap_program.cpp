// Uses a little of a large heap, and prints how much memory its process has then, without the pages of the program's and libraries' files: it
// depends on the kernel how many of those are mapped.
//
//   large_heap_program MEBIBYTES_ALLOCATED MEBIBYTES_USED block|cyclic|on|first-touch
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "dsm/api.h"

namespace {

// In KiB, of a line of /proc/self/status.
unsigned long memory_in(const char* line) {
  unsigned long kib = 0;
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  char text[256];
  while (file != nullptr && std::fgets(text, sizeof text, file) != nullptr) {
    if (std::strncmp(text, line, std::strlen(line)) == 0)
      kib = std::strtoul(text + std::strlen(line), nullptr, 10);
  }
  if (file != nullptr) std::fclose(file);
  return kib;
}

braid::dsm::Placement placement_of(const std::string& name) {
  using braid::dsm::Placement;
  if (name == "cyclic") return Placement::cyclic();
  if (name == "on") return Placement::on(1);
  if (name == "first-touch") return Placement::first_touch();
  return Placement::block();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace braid::dsm;  // NOLINT
  init();
  if (argc != 4) return finish(2);
  const std::size_t mebibyte = std::size_t{1} << 20, page = 4096;
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10) * mebibyte;
  const std::size_t used = std::strtoull(argv[2], nullptr, 10) * mebibyte;
  const double before = seconds();
  auto* const all = allocate<unsigned char>(bytes, placement_of(argv[3]));
  const double allocated = seconds() - before;
  const unsigned long after_allocation = memory_in("RssShmem:");
  unsigned wrong = 0;
  // Pages far from each other: what one of them takes, no other pays for.
  const std::size_t pages = used / page, distance = bytes / pages;
  const auto at = [&](std::size_t i) -> unsigned char& { return all[i * distance / page * page + i % page]; };
  parallel([&](Node& node) {
    for (const std::size_t i : node.share(pages)) at(i) = static_cast<unsigned char>(i % 251 + 1);
    node.barrier(3);
    for (const std::size_t i : node.share(pages)) {
      if (at(i) != i % 251 + 1) ++wrong;
    }
  });
  std::printf("allocated in %.3f s, then shared %lu KiB; at the end %lu KiB, of these shared %lu KiB\n",
              allocated, after_allocation, memory_in("RssAnon:") + memory_in("RssShmem:"),
              memory_in("RssShmem:"));
  return finish(wrong == 0 ? 0 : 1);
}
