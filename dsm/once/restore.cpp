// The process that becomes another: it works at addresses that the image does not use (kRestoreAddress), and when it has begun it makes
// system calls only, by itself, because the C library's memory and the thread's are changed under it.
#include "dsm/once/restore.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/once/image.h"
#include "dsm/once/layout.h"
#include "dsm/program/failure.h"
#include "dsm/program/page_length.h"

namespace braid::dsm::once {

namespace {

//   kRestoreAddress    + kStackBytes      + kPlanBytes
//   | stack            | Plan             | the image, mapped to be read
constexpr std::size_t kStackBytes = 256u << 10;
constexpr std::size_t kPlanBytes = 64u << 20;
constexpr std::uintptr_t kImageAddress = kRestoreAddress + kStackBytes + kPlanBytes;

// What the image has not, and must go.
struct Leftover {
  std::uintptr_t begin, end;
};

struct Plan {
  Arrival arrival;
  std::uintptr_t low_end_of_stack;  // of this process
  std::size_t leftovers;
  Leftover leftover[1];
};
constexpr std::size_t kMostLeftovers = (kPlanBytes - sizeof(Plan)) / sizeof(Leftover);

Plan& plan() {
  return *reinterpret_cast<Plan*>(kRestoreAddress + kStackBytes);  // NOLINT
}
const Image& image_at(std::uintptr_t address) {
  return *reinterpret_cast<const Image*>(address);  // NOLINT
}
std::span<const ImageRange> ranges_of(const Image& image) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&image);
  return {reinterpret_cast<const ImageRange*>(bytes + image.ranges_at), image.ranges};
}

// Written when the image is there. The image itself has it as it is here.
struct Told {
  bool here;
  Arrival arrival;
};
constinit Told told{};

// --- What runs while memory changes. [[gnu::optimize]]: a loop must not become a call of memcpy().

#define BRAID_ALONE                                                                                  \
  [[gnu::noinline, gnu::no_stack_protector, gnu::no_sanitize("address"), gnu::no_sanitize("thread"), \
    gnu::no_sanitize("undefined"), gnu::optimize("no-tree-loop-distribute-patterns")]]

[[gnu::always_inline]] inline long call(long number, std::uintptr_t a = 0, std::uintptr_t b = 0,
                                        std::uintptr_t c = 0, std::uintptr_t d = 0, std::uintptr_t e = 0,
                                        std::uintptr_t f = 0) {
  long result = number;
  register std::uintptr_t r10 asm("r10") = d;
  register std::uintptr_t r8 asm("r8") = e;
  register std::uintptr_t r9 asm("r9") = f;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

constexpr char kImpossible[] =
    "braid: the image of cluster 0's process could not be restored on this host: the kernel refused a mapping\n";

[[gnu::always_inline]] inline void need(bool done) {
  if (done) return;
  (void)call(SYS_write, STDERR_FILENO, reinterpret_cast<std::uintptr_t>(kImpossible), sizeof kImpossible - 1);
  (void)call(SYS_exit_group, kFailureStatus);
}

[[gnu::always_inline]] inline void copy_bytes(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

BRAID_ALONE void become_image() {
  const Plan& own = *reinterpret_cast<const Plan*>(kRestoreAddress + kStackBytes);                  // NOLINT
  const Image& image = *reinterpret_cast<const Image*>(kImageAddress);                              // NOLINT
  const auto* const ranges = reinterpret_cast<const ImageRange*>(kImageAddress + image.ranges_at);  // NOLINT
  const auto* const runs = reinterpret_cast<const ImageRun*>(kImageAddress + image.runs_at);        // NOLINT
  for (std::size_t i = 0; i < own.leftovers; ++i)
    need(call(SYS_munmap, own.leftover[i].begin, own.leftover[i].end - own.leftover[i].begin) == 0);
  need(call(SYS_brk, image.end_of_heap) == static_cast<long>(image.end_of_heap));
  for (std::size_t i = 0; i < image.ranges; ++i) {
    const ImageRange& range = ranges[i];
    const std::size_t bytes = range.end - range.begin;
    if (range.kind == ImageRange::Kind::kOwn) {
      need(call(SYS_mmap, range.begin, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, ~std::uintptr_t{0},
                0) == static_cast<long>(range.begin));
    } else if (range.kind == ImageRange::Kind::kStack) {
      // The kernel extends it downwards when it is used.
      for (std::uintptr_t at = own.low_end_of_stack; at > range.begin; at -= kHostPageBytes)
        *reinterpret_cast<volatile char*>(at - kHostPageBytes) = 0;  // NOLINT
    } else if ((range.protection & PROT_WRITE) == 0) {
      // Some of its pages may be in the image: those that are read only after relocation.
      for (std::size_t k = 0; k < image.runs; ++k) {
        if (runs[k].address + runs[k].bytes <= range.begin || runs[k].address >= range.end) continue;
        need(call(SYS_mprotect, range.begin, bytes, PROT_READ | PROT_WRITE) == 0);
        break;
      }
    }
  }
  for (std::size_t i = 0; i < image.runs; ++i)
    copy_bytes(runs[i].address, kImageAddress + runs[i].offset, runs[i].bytes);
  for (std::size_t i = 0; i < image.ranges; ++i) {
    const ImageRange& range = ranges[i];
    if (range.kind == ImageRange::Kind::kStack || range.protection == (PROT_READ | PROT_WRITE)) continue;
    need(call(SYS_mprotect, range.begin, range.end - range.begin, range.protection) == 0);
  }
  for (unsigned number = 1; number <= 64; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    (void)call(SYS_rt_sigaction, number, reinterpret_cast<std::uintptr_t>(&image.actions[number - 1]), 0,
               sizeof(std::uint64_t));
  }
  (void)call(SYS_sigaltstack, reinterpret_cast<std::uintptr_t>(&image.signal_stack), 0);
  (void)call(SYS_umask, image.file_mask);
  if (image.folder[0] != '\0')
    need(call(SYS_chdir, reinterpret_cast<std::uintptr_t>(image.folder.data())) == 0);
  volatile Told& to = told;
  to.arrival.socket = own.arrival.socket;
  to.arrival.warden = own.arrival.warden;
  to.arrival.clusters = own.arrival.clusters;
  to.here = true;
  // From here on the C library is that of the image.
  ::setcontext(reinterpret_cast<const ucontext_t*>(image.context));  // NOLINT
  (void)call(SYS_exit_group, kFailureStatus);
}

// --- Before

std::uintptr_t map_image(int file, std::uintptr_t at) {
  struct stat status {};
  const bool has_size = ::fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(Image));
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const wanted = reinterpret_cast<void*>(at);  // NOLINT
  void* const memory =
      has_size ? ::mmap(wanted, bytes, PROT_READ, MAP_PRIVATE | (at == 0 ? 0 : MAP_FIXED_NOREPLACE), file, 0)
               : MAP_FAILED;
  if (memory == MAP_FAILED || (at != 0 && memory != wanted))
    fail("the image of cluster 0's process cannot be mapped: {}",
         has_size ? cause_and_cure(errno).c_str() : "it is not complete");
  const auto& image = *static_cast<const Image*>(memory);
  if (image.magic != Image::kMagic || image.bytes != bytes)
    fail("the image of cluster 0's process is not complete");
  return reinterpret_cast<std::uintptr_t>(memory);
}

// Parts of this process's memory that the image does not have.
void find_leftovers(const Image& image, const std::vector<MappedRange>& here) {
  Plan& to = plan();
  const auto add = [&](std::uintptr_t begin, std::uintptr_t end) {
    if (begin >= end) return;
    CHECK_LT(to.leftovers, kMostLeftovers);
    to.leftover[to.leftovers++] = {begin, end};
  };
  for (const MappedRange& range : here) {
    if (range.is_stack()) to.low_end_of_stack = range.begin;
    // The heap's end is moved.
    if (range.is_stack() || range.is_kernels() || range.name == "[heap]") continue;
    if (range.begin >= kRestoreAddress && range.end <= kRestoreAddress + kRestoreBytes) continue;
    std::uintptr_t at = range.begin;
    for (const ImageRange& known : ranges_of(image)) {
      if (known.end <= at || known.begin >= range.end) continue;
      add(at, known.begin);
      at = known.end;
    }
    add(at, range.end);
  }
}

}  // namespace

bool has_arrived() {
  return const_cast<const volatile Told&>(told).here;
}

Arrival arrival() {
  ::munmap(reinterpret_cast<void*>(kRestoreAddress), kRestoreBytes);  // NOLINT
  return told.arrival;
}

void check_image(int file) {
  const Image& image = image_at(map_image(file, 0));
  const std::string text = mapped_ranges_text();
  const std::vector<MappedRange> here = ranges_in(text);
  const auto fail_for = [](const ImageRange& range, std::string_view what) {
    fail("cluster 0's process has memory at {:#x}-{:#x}, where this host has {}: run the program on one host",
         range.begin, range.end, std::string(what).c_str());
  };
  for (const ImageRange& range : ranges_of(image)) {
    if (range.begin < kRestoreAddress + kRestoreBytes && range.end > kRestoreAddress)
      fail_for(range, "a process that is restored");
    for (const MappedRange& own : here) {
      if (own.is_kernels() && own.begin < range.end && range.begin < own.end) fail_for(range, own.name);
    }
    rlimit limit{};
    if (range.kind == ImageRange::Kind::kStack && ::getrlimit(RLIMIT_STACK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < range.end - range.begin)
      fail(
          "the stack of cluster 0's process has {} bytes, and this host allows {}: raise its limit (`ulimit -s`)",
          range.end - range.begin, limit.rlim_cur);
  }
  if (image.folder[0] != '\0' && ::chdir(image.folder.data()) != 0)
    fail("main() has changed the working folder to {}, which this host cannot: {}", image.folder.data(),
         cause_and_cure(errno).c_str());
}

void restore_image(int file, const Arrival& arrival) {
  void* const area = reinterpret_cast<void*>(kRestoreAddress);  // NOLINT
  if (::mmap(area, kStackBytes + kPlanBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != area)
    fail("the addresses from {:#x} on are not free: {}", kRestoreAddress, cause_and_cure(errno).c_str());
  const Image& image = image_at(map_image(file, kImageAddress));
  ::close(file);
  plan().arrival = arrival;
  const std::string text = mapped_ranges_text();
  find_leftovers(image, ranges_in(text));
  static ucontext_t on_own_stack;
  ::getcontext(&on_own_stack);
  on_own_stack.uc_stack = {.ss_sp = area, .ss_flags = 0, .ss_size = kStackBytes};
  on_own_stack.uc_link = nullptr;
  ::makecontext(&on_own_stack, become_image, 0);
  ::setcontext(&on_own_stack);
  fail("cannot go on on another stack: {}", cause_and_cure(errno).c_str());
}

}  // namespace braid::dsm::once
