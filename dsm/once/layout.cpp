#include "dsm/once/layout.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/system_error.h"
#include "dsm/program/build_id.h"
#include "dsm/program/failure.h"

namespace braid::dsm::once {

namespace {

std::string text_of_file(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot read {}: {}", path, cause_and_cure(errno).c_str());
  std::string text;
  char part[16384];
  for (;;) {
    const ssize_t n = ::read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return text;
}

// Takes a hexadecimal number off `text`, and what separates it from the next field.
std::uint64_t take_number(std::string_view* text) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number, 16);
  const auto used = static_cast<std::size_t>(parsed.ptr - text->data());
  text->remove_prefix(std::min(text->size(), used + 1));
  return number;
}

int add_object(dl_phdr_info* object, std::size_t, void* text) {
  const std::string_view path = object->dlpi_name;
  *static_cast<std::string*>(text) +=
      fmt::format("object '{}' of build {:016x} at {:x}\n", path, build_id_of(*object), object->dlpi_addr);
  return 0;
}

// What the C library chooses functions by.
std::string processor_text() {
  std::string text = "processor";
  for (const auto& [leaf, first] : {std::pair{0x1u, 2}, {0x7u, 1}, {0xdu, 0}, {0x80000001u, 2}, {0x19u, 1}}) {
    unsigned registers[4] = {};
    if (__get_cpuid_count(leaf, 0, &registers[0], &registers[1], &registers[2], &registers[3]) == 0) continue;
    // Of leaf 1 the others are of this one processor; of leaf 0xd the second changes with what is in use.
    for (int i = first; i < 4; ++i)
      if (leaf != 0xd || i != 1) text += fmt::format(" {:x}", registers[i]);
  }
  return text + "\n";
}

// Where the heap that brk(2) moves begins: the 47th field of proc_pid_stat(5).
std::uint64_t begin_of_heap() {
  const std::string text = text_of_file("/proc/self/stat");
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 47 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  std::uint64_t number = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
  return number;
}

}  // namespace

bool take_line(std::string_view* text, MappedRange* range) {
  const std::size_t length = text->find('\n');
  if (length == std::string_view::npos) return false;
  std::string_view line = text->substr(0, length);
  text->remove_prefix(length + 1);
  range->begin = take_number(&line);
  range->end = take_number(&line);
  const std::string_view letters = line.substr(0, 4);
  range->protection = (letters[0] == 'r' ? PROT_READ : 0) | (letters[1] == 'w' ? PROT_WRITE : 0) |
                      (letters[2] == 'x' ? PROT_EXEC : 0);
  range->is_shared = letters[3] == 's';
  line.remove_prefix(5);
  range->offset = take_number(&line);
  for (int field = 0; field < 2; ++field) line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  range->name = line;
  return true;
}

std::string mapped_ranges_text() {
  return text_of_file("/proc/self/maps");
}

std::vector<MappedRange> ranges_in(std::string_view text) {
  std::vector<MappedRange> ranges;
  for (MappedRange range; take_line(&text, &range);) ranges.push_back(range);
  return ranges;
}

std::string layout_text(std::string_view ranges) {
  std::string text =
      fmt::format("the program, of build {:016x}\npages of {}\n", build_id(), ::sysconf(_SC_PAGESIZE));
  ::dl_iterate_phdr(add_object, &text);
  text += processor_text();
  std::uintptr_t thread = 0;
  (void)::syscall(SYS_arch_prctl, ARCH_GET_FS, &thread);
  text += fmt::format("thread at {:x}\nheap at {:x}\n", thread, begin_of_heap());
  // A program that is sent has a path of its own on each host.
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view program(path, n < 0 ? 0 : static_cast<std::size_t>(n));
  for (const MappedRange& range : ranges_in(ranges)) {
    if (!range.is_of_file() && !range.is_kernels()) continue;
    text += fmt::format("{} at {:x}-{:x}, part {:x}\n", range.name == program ? "the program" : range.name,
                        range.begin, range.end, range.offset);
  }
  return text;
}

std::string difference_of_layouts(std::string_view there, std::string_view here) {
  while (there != here) {
    const std::string_view line_there = there.substr(0, there.find('\n'));
    const std::string_view line_here = here.substr(0, here.find('\n'));
    if (line_there != line_here) return fmt::format("'{}' there, '{}' here", line_there, line_here);
    there.remove_prefix(std::min(there.size(), line_there.size() + 1));
    here.remove_prefix(std::min(here.size(), line_here.size() + 1));
  }
  return {};
}

}  // namespace braid::dsm::once
