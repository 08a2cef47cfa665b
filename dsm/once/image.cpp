#include "dsm/once/image.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "base/system_error.h"
#include "dsm/once/fork.h"
#include "dsm/once/layout.h"
#include "dsm/once/restore.h"
#include "dsm/program/failure.h"
#include "dsm/program/page_length.h"

namespace braid::dsm::once {

namespace {

// --- The start

struct Start {
  std::string text;                 // of the ranges
  std::vector<MappedRange> ranges;  // names are parts of it
  std::string layout;
  std::map<int, FileIdentity> descriptors;
  std::string folder;
};
Start* start = nullptr;

std::map<int, FileIdentity> open_descriptors() {
  std::map<int, FileIdentity> found;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) fail("cannot read /proc/self/fd: {}", cause_and_cure(errno).c_str());
  while (const dirent* const entry = ::readdir(folder)) {
    const int fd = ::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != ::dirfd(folder)) found[fd] = identity(fd);
  }
  ::closedir(folder);
  return found;
}

std::string working_folder() {
  std::array<char, 4096> path{};
  return ::getcwd(path.data(), path.size()) == nullptr ? std::string() : path.data();
}

std::string path_of_descriptor(int fd) {
  std::array<char, 4096> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  return ::readlink(link.c_str(), path.data(), path.size() - 1) < 0 ? "an unknown file" : path.data();
}

// --- The image. Nothing here may change memory that is in it, so nothing allocates.

constexpr std::size_t kScratchBytes = std::size_t{1} << 30;
constexpr std::size_t kPagemapPages = 4096;

// Memory of this process that is not in the image, because it is shared. Used as it is needed.
struct Scratch {
  std::array<char, 16u << 20> text;
  std::array<ImageRange, 1u << 18> ranges;
  std::array<std::uint64_t, kPagemapPages> pages;
  Image image;
  std::array<ImageRun, 1u << 22> runs;
};
static_assert(sizeof(Scratch) <= kScratchBytes);

// proc_pid_pagemap(5)
constexpr std::uint64_t kPresentOrSwapped = std::uint64_t{3} << 62;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;

class Writer {
 public:
  Writer(int file, Scratch& scratch) : file_(file), scratch_(scratch) {
    pagemap_ = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    const auto maps =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
    std::size_t used = 0;
    long n = 0;
    while ((n = ::syscall(SYS_read, maps, scratch.text.data() + used, scratch.text.size() - used)) > 0)
      used += static_cast<std::size_t>(n);
    if (maps < 0 || n < 0) fail("cannot read /proc/self/maps: {}", -1 * n);
    text_ = {scratch.text.data(), used};
  }

  void write(std::uintptr_t context) {
    Image& image = scratch_.image;
    image = {};
    for (MappedRange range; take_line(&text_, &range);) {
      if (range.is_shared || range.is_kernels()) continue;
      if (image.ranges == scratch_.ranges.size()) fail("the program has too many mappings");
      ImageRange& to = scratch_.ranges[image.ranges++];
      to = {range.begin, range.end, static_cast<std::uint32_t>(range.protection), kind_of(range)};
      add_pages(to, range.is_of_file());
    }
    image.ranges_at = at_;
    put(scratch_.ranges.data(), image.ranges * sizeof(ImageRange));
    image.runs_at = at_;
    put(scratch_.runs.data(), image.runs * sizeof(ImageRun));
    image.bytes = at_;
    image.context = context;
    image.end_of_heap = static_cast<std::uintptr_t>(::syscall(SYS_brk, 0));
    for (unsigned number = 1; number <= image.actions.size(); ++number)
      (void)::syscall(SYS_rt_sigaction, number, nullptr, &image.actions[number - 1], sizeof(std::uint64_t));
    (void)::syscall(SYS_sigaltstack, nullptr, &image.signal_stack);
    image.file_mask = static_cast<mode_t>(::syscall(SYS_umask, 0));
    (void)::syscall(SYS_umask, image.file_mask);
    if (::syscall(SYS_getcwd, image.folder.data(), image.folder.size()) < 0 ||
        start->folder == image.folder.data())
      image.folder[0] = '\0';
    at_ = 0;
    put(&image, sizeof image);
    // The copy's end closes them.
  }

 private:
  static ImageRange::Kind kind_of(const MappedRange& range) {
    if (range.is_stack()) return ImageRange::Kind::kStack;
    const bool was_there = std::any_of(start->ranges.begin(), start->ranges.end(), [&](const MappedRange& r) {
      return r.begin == range.begin && r.end == range.end && r.protection == range.protection &&
             !r.is_shared && r.offset == range.offset && r.name == range.name && r.is_of_file();
    });
    return was_there ? ImageRange::Kind::kFile : ImageRange::Kind::kOwn;
  }

  void add_pages(const ImageRange& range, bool is_of_file) {
    for (std::uintptr_t at = range.begin; at < range.end;) {
      const std::size_t pages = std::min(kPagemapPages, (range.end - at) / kHostPageBytes);
      const auto bytes = static_cast<long>(pages * sizeof(std::uint64_t));
      const bool is_known = ::syscall(SYS_pread64, pagemap_, scratch_.pages.data(), bytes,
                                      at / kHostPageBytes * sizeof(std::uint64_t)) == bytes;
      for (std::size_t i = 0; i < pages; ++i, at += kHostPageBytes) {
        if (is_wanted(range, is_of_file, is_known, scratch_.pages[i])) add_page(range, at);
      }
    }
  }

  static bool is_wanted(const ImageRange& range, bool is_of_file, bool is_known, std::uint64_t page) {
    switch (range.kind) {
      case ImageRange::Kind::kStack:
        return true;
      case ImageRange::Kind::kFile:
        // The other process may have changed pages that this one has not.
        if ((range.protection & PROT_WRITE) != 0) return true;
        return is_known ? (page & kPresentOrSwapped) != 0 && (page & kOfFile) == 0
                        : (range.protection & PROT_EXEC) == 0;
      case ImageRange::Kind::kOwn:
        break;
    }
    return is_of_file || !is_known || (page & kPresentOrSwapped) != 0;
  }

  void add_page(const ImageRange& range, std::uintptr_t address) {
    auto* const memory = reinterpret_cast<const std::byte*>(address);  // NOLINT
    if ((range.protection & PROT_READ) == 0)
      (void)::syscall(SYS_mprotect, address, kHostPageBytes,
                      PROT_READ);  // this process is a copy, whose end is near
    Image& image = scratch_.image;
    const bool follows =
        image.runs > 0 &&
        scratch_.runs[image.runs - 1].address + scratch_.runs[image.runs - 1].bytes == address;
    if (!follows && image.runs == scratch_.runs.size()) fail("the program's memory is in too many parts");
    // EFAULT: a page behind the end of a mapped file.
    if (!try_put(memory, kHostPageBytes)) return;
    if (follows)
      scratch_.runs[image.runs - 1].bytes += kHostPageBytes;
    else
      scratch_.runs[image.runs++] = {address, kHostPageBytes, at_ - kHostPageBytes};
  }

  bool try_put(const void* from, std::size_t bytes) {
    const long n = ::syscall(SYS_pwrite64, file_, from, bytes, at_);
    if (n < 0 && errno == EFAULT) return false;
    if (n != static_cast<long>(bytes))
      fail("cannot write the program's image of {} bytes: error {}", at_, errno);
    at_ += bytes;
    return true;
  }

  void put(const void* from, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t part = std::min(bytes - done, std::size_t{1} << 20);
      if (!try_put(static_cast<const std::byte*>(from) + done, part))
        fail("cannot write the program's image");
      done += part;
    }
  }

  const int file_;
  Scratch& scratch_;
  int pagemap_ = -1;
  std::string_view text_;
  std::uint64_t at_ = (sizeof(Image) + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes;
};

// With which the process of the image goes on.
ucontext_t continuation;

[[gnu::noinline]] void write_as_copy(int file) {
  void* const memory = ::mmap(nullptr, kScratchBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("cannot map memory for the program's image: error {}", errno);
  Writer(file, *static_cast<Scratch*>(memory)).write(reinterpret_cast<std::uintptr_t>(&continuation));
}

}  // namespace

void note_start() {
  start = new Start;
  start->text = mapped_ranges_text();
  start->ranges = ranges_in(start->text);
  start->layout = layout_text(start->text);
  start->descriptors = open_descriptors();
  start->folder = working_folder();
}

const std::string& layout_at_start() {
  return start->layout;
}

void check_image_can_go() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  fail(
      "a program with a sanitizer cannot go to other hosts: run it on one host (`braid run --clusters N`, without --hosts)");
#endif
  for (int fd = 0; fd <= 2; ++fd) {
    if (!is_original(fd))
      fail(
          "main() has replaced descriptor {} by {}, which cannot go to the other hosts: give the program its input and output by "
          "`braid run`, or run it on one host",
          fd, path_of_descriptor(fd).c_str());
  }
  for (const auto& [fd, file] : open_descriptors()) {
    if (fd <= 2) continue;
    const auto was = start->descriptors.find(fd);
    if (was == start->descriptors.end() || !(was->second == file))
      fail(
          "descriptor {} ({}) is open when the other clusters start, and cannot go to the other hosts: close it before, or run the "
          "program on one host",
          fd, path_of_descriptor(fd).c_str());
  }
  if (working_folder().empty())
    fail(
        "the working folder is gone when the other clusters start, and cannot be that of the other hosts: {}",
        cause_and_cure(errno).c_str());
  const std::string text = mapped_ranges_text();
  for (const MappedRange& range : ranges_in(text)) {
    if (range.is_shared && !range.is_kernels())
      fail(
          "the memory at {:#x} is a shared mapping (of {}) when the other clusters start, and cannot go to the other hosts: unmap it "
          "before, or run the program on one host",
          range.begin, std::string(range.name).c_str());
  }
}

bool write_image(int file) {
  ::getcontext(&continuation);
  if (has_arrived()) return true;
  write_as_copy(file);
  return false;
}

}  // namespace braid::dsm::once
