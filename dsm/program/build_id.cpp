#include "dsm/program/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "base/fnv.h"

namespace braid::dsm {

namespace {

constexpr std::size_t kIdBytes = 8;

std::uint64_t id_in_notes(const std::byte* notes, std::size_t bytes) {
  const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t name = sizeof note, contents = name + padded(note.n_namesz);
    const std::size_t end = contents + padded(note.n_descsz);
    if (end > bytes) return 0;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0 &&
        note.n_descsz >= kIdBytes) {
      std::uint64_t id = 0;
      for (std::size_t i = 0; i < kIdBytes; ++i)
        id = id << 8 | std::to_integer<std::uint64_t>(notes[contents + i]);
      return id;
    }
    notes += end;
    bytes -= end;
  }
  return 0;
}

// The first object is the program.
int look_at_program(dl_phdr_info* info, std::size_t, void* result) {
  *static_cast<std::uint64_t*>(result) = build_id_of(*info);
  return 1;
}

std::uint64_t hash_of_file() {
  const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  Fnv1a hash;
  std::array<std::byte, 16384> part;
  ssize_t n;
  while ((n = ::read(fd, part.data(), part.size())) > 0)
    hash.add(ByteView(part).first(static_cast<std::size_t>(n)));
  ::close(fd);
  return n < 0 ? 0 : hash.value();
}

}  // namespace

std::uint64_t build_id_of(const dl_phdr_info& object) {
  std::uint64_t id = 0;
  for (int i = 0; i < object.dlpi_phnum && id == 0; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type == PT_NOTE)
      id = id_in_notes(reinterpret_cast<const std::byte*>(object.dlpi_addr + header.p_vaddr), header.p_memsz);
  }
  return id;
}

std::uint64_t build_id() {
  std::uint64_t id = 0;
  ::dl_iterate_phdr(look_at_program, &id);
  return id != 0 ? id : hash_of_file();
}

}  // namespace braid::dsm
