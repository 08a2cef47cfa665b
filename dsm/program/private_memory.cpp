#include "dsm/program/private_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

constexpr std::size_t kLineBytes = 512;  // what is longer is a path, whose rest is not needed
constexpr std::string_view kRunVariable = "BRAID_RUN=";

class File {
 public:
  explicit File(const char* path, int flags = O_RDONLY)
      : fd_(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC))) {}
  ~File() {
    if (fd_ >= 0) (void)::syscall(SYS_close, fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // 0: no more, or an error.
  std::size_t read(char* to, std::size_t bytes) const {
    const long n = ::syscall(SYS_read, fd_, to, bytes);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  long entries(char* to, std::size_t bytes) const { return ::syscall(SYS_getdents64, fd_, to, bytes); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

// "/proc/12/maps".
struct Path {
  char text[64];
  Path(const char* process, const char* file) {
    text[format_within(text, sizeof text - 1, "/proc/{}/{}", fmt::make_format_args(process, file))] = '\0';
  }
};

// Calls use(part) for each part of the file that ends in `end`; a longer one is cut. Until it returns false.
template <class Use>
void for_each_part(const File& file, char end, Use&& use) {
  char part[kLineBytes];
  std::size_t length = 0;
  char bytes[4096];
  for (std::size_t n; (n = file.read(bytes, sizeof bytes)) > 0;) {
    for (std::size_t i = 0; i < n; ++i) {
      if (bytes[i] != end) {
        if (length < sizeof part) part[length++] = bytes[i];
        continue;
      }
      if (!use(std::string_view(part, length))) return;
      length = 0;
    }
  }
}

struct Mapping {
  char access[5] = {};  // "rw-p"
  bool has_file = false;
  LibraryName file;  // its name, without folders
};

std::uintptr_t take_hex(std::string_view& text) {
  std::uintptr_t value = 0;
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9')
      value = value << 4 | static_cast<unsigned>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value << 4 | static_cast<unsigned>(c - 'a' + 10);
    else
      break;
  }
  text.remove_prefix(std::min(i + 1, text.size()));
  return value;
}

// A line of maps: "7f00-7f10 rw-p 00000000 00:00 0    /path".
bool is_at(std::string_view line, std::uintptr_t address, Mapping& mapping) {
  const std::uintptr_t begin = take_hex(line), end = take_hex(line);
  if (address < begin || address >= end || line.size() < 4) return false;
  std::copy_n(line.begin(), 4, mapping.access);
  const std::size_t path = line.find('/');
  mapping.has_file = path != std::string_view::npos;
  if (!mapping.has_file) return true;
  const std::string_view name = line.substr(line.rfind('/') + 1);
  std::copy_n(name.begin(), std::min(name.size(), sizeof mapping.file.text - 1), mapping.file.text);
  return true;
}

Mapping mapping_of(const char* process, std::uintptr_t address) {
  Mapping mapping;
  const File maps(Path(process, "maps").text);
  if (maps) for_each_part(maps, '\n', [&](std::string_view line) { return !is_at(line, address, mapping); });
  return mapping;
}

// The name of the run that a process was started for, of which clones have copies. Empty: of none.
std::string_view run_of(const char* process, std::array<char, kLineBytes>& room) {
  std::size_t length = 0;
  const File environment(Path(process, "environ").text);
  if (!environment) return {};
  for_each_part(environment, '\0', [&](std::string_view variable) {
    if (!variable.starts_with(kRunVariable)) return true;
    variable.remove_prefix(kRunVariable.size());
    length = variable.copy(room.data(), room.size());
    return false;
  });
  return {room.data(), length};
}

std::string_view link_of(const char* process, const char* file, std::array<char, kLineBytes>& room) {
  const long n = ::syscall(SYS_readlinkat, AT_FDCWD, Path(process, file).text, room.data(), room.size());
  return {room.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}

// Calls use(number) for each process that is seen here, until it returns false.
template <class Use>
void for_each_process(Use&& use) {
  const File folder("/proc", O_RDONLY | O_DIRECTORY);
  alignas(dirent64) char bytes[4096];
  for (long n; folder && (n = folder.entries(bytes, sizeof bytes)) > 0;) {
    for (long at = 0; at < n;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(bytes + at);
      if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && !use(entry->d_name)) return;
      at += entry->d_reclen;
    }
  }
}

bool is_private_and_open(const Mapping& mapping) {
  return mapping.access[0] == 'r' && mapping.access[1] == 'w' && mapping.access[3] == 'p' &&
         !mapping.has_file;
}

}  // namespace

bool is_private_elsewhere(std::uintptr_t address) {
  std::array<char, kLineBytes> own_run_room, own_room, own_number_room, room;
  const std::string_view run =
      run_of("self", own_run_room);  // the runtime has taken it out of the environment
  if (run.empty()) return false;
  const std::string_view own_program = link_of("self", "exe", own_room);
  char own[24] = {};
  const long n =
      ::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", own_number_room.data(), own_number_room.size());
  if (n > 0 && n < static_cast<long>(sizeof own))
    std::copy_n(own_number_room.begin(), static_cast<std::size_t>(n), own);
  bool is = false;
  for_each_process([&](const char* process) {
    if (std::strcmp(process, own) == 0 || link_of(process, "exe", room) != own_program ||
        run_of(process, room) != run)
      return true;
    is = is_private_and_open(mapping_of(process, address));
    return !is;
  });
  return is;
}

LibraryName library_of_code(std::uintptr_t address) {
  const Mapping mapping = mapping_of("self", address);
  const std::string_view name = mapping.file.text;
  constexpr std::string_view kOfCompiler[] = {
      "libc.",     "libm.",      "libmvec.", "libpthread.", "libdl.",      "librt.",    "libstdc++.",
      "libgcc_s.", "libatomic.", "ld-linux", "libcrypto",   "libquadmath", "libresolv."};
  const bool is_library = name.starts_with("lib") && name.find(".so") != std::string_view::npos;
  const bool is_of_compiler = std::any_of(std::begin(kOfCompiler), std::end(kOfCompiler),
                                          [&](std::string_view known) { return name.starts_with(known); });
  return is_library && !is_of_compiler ? mapping.file : LibraryName();
}

}  // namespace braid::dsm
