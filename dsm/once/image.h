// The image of a process with one thread: what of its memory and of the kernel's knowledge about it another process of the same
// program, laid out alike (layout.h), needs to go on in its place. It is a file that is mapped to be read:
//
//   0          Image
//   one page   contents of pages
//   then       Image::ranges of ImageRange, ascending, and Image::runs of ImageRun
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid::dsm::once {

// Where the process that becomes the image's works meanwhile: addresses that nothing else uses.
inline constexpr std::uintptr_t kRestoreAddress = 0x7d00'0000'0000;
inline constexpr std::size_t kRestoreBytes = 0x80'0000'0000;

struct ImageRange {
  enum class Kind : std::uint32_t {
    kOwn,   // nothing but what the image has
    kFile,  // of a file that both processes have mapped from their start; only changed pages are in the image
    kStack,  // the initial thread's
  };
  std::uintptr_t begin = 0, end = 0;
  std::uint32_t protection = 0;
  Kind kind = Kind::kOwn;
};

// Pages one after another.
struct ImageRun {
  std::uintptr_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
};

// As rt_sigaction(2) has it.
struct KernelAction {
  std::uint64_t handler = 0, flags = 0, restorer = 0, mask = 0;
};

struct Image {
  static constexpr std::uint64_t kMagic = 0x3165'6761'6d69'6272;  // "rbimage1"
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;  // of the file
  std::uint64_t ranges_at = 0, ranges = 0;
  std::uint64_t runs_at = 0, runs = 0;
  std::uintptr_t end_of_heap = 0;  // brk(2)
  std::uintptr_t context = 0;      // of the ucontext_t with which the process goes on
  std::array<KernelAction, 64> actions;
  stack_t signal_stack{};
  mode_t file_mask = 0;
  std::array<char, 4096> folder{};  // that main() has changed to; empty: the one of its start
};

// Remembers what this process is like at its start, before main().
void note_start();
// The layout as it was then.
const std::string& layout_at_start();

// Ends the process with a message that names what cannot go to another host: descriptors that main() has opened or replaced, memory
// that is shared with others.
void check_image_can_go();

// Writes the image of this process to the file, which is empty, and returns false; in the process that goes on with the image it
// returns true. Allocates nothing. Ends the process with a message if it cannot.
bool write_image(int file);

// What the process that goes on is told about its new place.
struct Arrival {
  int socket = -1;  // to the warden of its host
  pid_t warden = 0;
  unsigned clusters = 0;  // of the host
};
// In the process that goes on.
Arrival arrival();

// Ends the process with a message if the image in the file cannot be restored here.
void check_image(int file);
// Becomes the process of the image, after check_image(), where write_image() returns true. Closes the file.
[[noreturn]] void restore_image(int file, const Arrival& arrival);

}  // namespace braid::dsm::once
