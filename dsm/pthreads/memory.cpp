// malloc() and what allocates by it: the program gets blocks of shared memory, from its first constructor on. Libraries keep
// the C library's; what they allocate for the program to free goes to whichever it came from, by its address. A mapping of
// no file, too, is a block. So is one of a file that is made when other clusters are there, or before, if they will be there and
// threads may write it without changing the file (MAP_PRIVATE): the clones' copies of it would be each cluster's alone.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include "dsm/blocks/early_blocks.h"
#include "dsm/blocks/shared_malloc.h"
#include "dsm/once/host.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

constexpr std::size_t kPage = 4096;

std::uint32_t heap_pages() {
  static const std::uint32_t pages = [] {
    const Host* const host = current_host();
    return host != nullptr ? host->shape().heap_pages
                           : static_cast<std::uint32_t>(page_length().pages_in(once::heap_bytes_to_come()));
  }();
  return pages;
}

bool is_shared(const void* memory) {
  return in_heap(reinterpret_cast<std::uintptr_t>(memory), heap_pages());
}

void* allocate(std::size_t bytes, std::size_t alignment, const char* call) {
  if (!can_share()) return ::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (bytes > PTRDIFF_MAX - kPage) return errno = ENOMEM, nullptr;
  if (alignment > kPage) refuse(call, "blocks of shared memory are aligned to at most a page of 4096 bytes");
  return on_private([=]() -> void* {
    if (alignment <= 16) return shared_malloc(bytes);
    // Of larger sizes blocks begin behind a header of 64 bytes, of these small ones at multiples of their size.
    constexpr std::array<std::size_t, 9> kSizes = {64, 128, 192, 256, 320, 384, 448, 576, 1344};
    const auto* const size =
        std::find_if(kSizes.begin(), kSizes.end(), [=](std::size_t s) { return bytes <= s; });
    if (alignment <= 64)
      return shared_malloc(size != kSizes.end() ? *size : std::max<std::size_t>(bytes, 2017));
    return allocate_zeroed(std::max<std::size_t>(bytes, 2048), 2048, call);
  });
}

void* allocate(std::size_t bytes) {
  if (!can_share()) return ::malloc(bytes);
  if (bytes > PTRDIFF_MAX - kPage) return errno = ENOMEM, nullptr;
  return on_private([=] { return shared_malloc(bytes); });
}

void release(void* memory) {
  if (!is_shared(memory)) return ::free(memory);
  if (can_share()) on_private([=] { shared_free(memory); });
}

std::size_t room_of(const void* memory) {
  return on_private([=] { return shared_block_bytes(memory); });
}

void* reallocate(void* memory, std::size_t bytes) {
  if (memory == nullptr) return allocate(bytes);
  if (!is_shared(memory)) return ::realloc(memory, bytes);
  if (bytes == 0) return release(memory), nullptr;
  if (bytes > PTRDIFF_MAX - kPage) return errno = ENOMEM, nullptr;
  return on_private([=] { return shared_realloc(memory, bytes); });
}

// A string of a library, in a block of the program's.
char* adopt(char* text, std::size_t length) {
  if (text == nullptr || !can_share()) return text;
  auto* const block = static_cast<char*>(allocate(length + 1));
  if (block != nullptr) ::memcpy(block, text, length + 1);
  ::free(text);
  return block;
}

void* private_block(std::size_t bytes, std::size_t alignment) {
  bytes = std::max<std::size_t>(bytes, 1);
  return alignment <= 16 ? ::malloc(bytes)
                         : ::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

bool before_main = true;
bool begun = false;
[[gnu::constructor(103)]] void begin() {
  begun = true;
}

// Of the C++ library's calls: those that the program's code makes, on its own stack.
bool is_for_program() {
  return on_shared_stack() || (begun && before_main);
}

// Whether clusters would not see the same in a mapping of the kernel.
bool must_be_shared(int protection, int flags) {
  const bool writes = (protection & PROT_WRITE) != 0;
  if ((flags & MAP_ANONYMOUS) != 0) return writes;
  if (several_clusters()) return true;
  return writes && (flags & MAP_SHARED) == 0 && several_clusters_come();
}

void* map(std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (bytes > PTRDIFF_MAX - kPage) return errno = ENOMEM, MAP_FAILED;
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  // Zeros, by the cluster that touches them first.
  void* const memory = on_private([=] { return allocate_zeroed(rounded, kPage / 2, "mmap()"); });
  if ((flags & MAP_ANONYMOUS) != 0) return memory;
  if ((flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0)
    refuse("mmap() of a file to write it", "the mapping would be one cluster's alone");
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t n =
        ::pread(file, static_cast<char*>(memory) + at, bytes - at, offset + static_cast<off_t>(at));
    if (n < 0) {
      release(memory);
      return MAP_FAILED;
    }
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  return memory;
}

}  // namespace

bool can_share() {
  if (!started()) return true;
  const Host* const host = current_host();
  return host != nullptr && !is_forked_child() && host->current_node() >= 0;
}

void main_begins() {
  before_main = false;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

void* WRAPPED(malloc)(std::size_t bytes) {
  // By a program's own operator new, for what the C++ library does for the runtime.
  if (!is_for_program()) return ::malloc(bytes);
  return allocate(bytes);
}
void* WRAPPED(calloc)(std::size_t count, std::size_t element_bytes) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) return errno = ENOMEM, nullptr;
  if (!can_share()) return ::calloc(count, element_bytes);
  if (bytes > PTRDIFF_MAX - kPage) return errno = ENOMEM, nullptr;
  return on_private([=] { return shared_calloc(1, bytes); });
}
void* WRAPPED(realloc)(void* memory, std::size_t bytes) {
  return reallocate(memory, bytes);
}
void* WRAPPED(reallocarray)(void* memory, std::size_t count, std::size_t element_bytes) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) return errno = ENOMEM, nullptr;
  return reallocate(memory, bytes);
}
void WRAPPED(free)(void* memory) {
  if (memory != nullptr) release(memory);
}
int WRAPPED(posix_memalign)(void** memory, std::size_t alignment, std::size_t bytes) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* const block = allocate(bytes, alignment, "posix_memalign()");
  if (block == nullptr) return ENOMEM;
  *memory = block;
  return 0;
}
void* WRAPPED(aligned_alloc)(std::size_t alignment, std::size_t bytes) {
  return allocate(bytes, alignment, "aligned_alloc()");
}
void* WRAPPED(memalign)(std::size_t alignment, std::size_t bytes) {
  return allocate(bytes, alignment, "memalign()");
}
void* WRAPPED(valloc)(std::size_t bytes) {
  return allocate(bytes, kPage, "valloc()");
}
void* WRAPPED(pvalloc)(std::size_t bytes) {
  return allocate((bytes + kPage - 1) / kPage * kPage, kPage, "pvalloc()");
}
std::size_t WRAPPED(malloc_usable_size)(void* memory) {
  if (memory == nullptr || !is_shared(memory)) return 0;
  return room_of(memory);
}

char* WRAPPED(strdup)(const char* text) {
  const std::size_t bytes = ::strlen(text) + 1;
  void* const copy = allocate(bytes);
  return static_cast<char*>(copy == nullptr ? nullptr : ::memcpy(copy, text, bytes));
}
char* WRAPPED(__strdup)(const char* text) {
  return WRAPPED(strdup)(text);
}
char* WRAPPED(strndup)(const char* text, std::size_t most) {
  const std::size_t length = ::strnlen(text, most);
  auto* const copy = static_cast<char*>(allocate(length + 1));
  if (copy == nullptr) return nullptr;
  ::memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}
wchar_t* WRAPPED(wcsdup)(const wchar_t* text) {
  const std::size_t bytes = (::wcslen(text) + 1) * sizeof *text;
  void* const copy = allocate(bytes);
  return static_cast<wchar_t*>(copy == nullptr ? nullptr : ::memcpy(copy, text, bytes));
}
int WRAPPED(vasprintf)(char** text, const char* format, va_list arguments) {
  char* made = nullptr;
  const int length = ::vasprintf(&made, format, arguments);
  if (length < 0) return length;
  *text = adopt(made, static_cast<std::size_t>(length));
  return *text == nullptr ? -1 : length;
}
int WRAPPED(asprintf)(char** text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = WRAPPED(vasprintf)(text, format, arguments);
  va_end(arguments);
  return length;
}
int WRAPPED(__vasprintf_chk)(char** text, int, const char* format, va_list arguments) {
  return WRAPPED(vasprintf)(text, format, arguments);
}
int WRAPPED(__asprintf_chk)(char** text, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = WRAPPED(vasprintf)(text, format, arguments);
  va_end(arguments);
  return length;
}
ssize_t WRAPPED(getdelim)(char** line, std::size_t* room, int delimiter, FILE* file) {
  const unsigned home = home_of(file, "getline()");
  if (home != kHere)
    return at(home, "getline()", [=] { return WRAPPED(getdelim)(line, room, delimiter, file); });
  char* read = nullptr;
  std::size_t read_room = 0;
  const ssize_t length = at_read(
      file, [&] { return ::getdelim(&read, &read_room, delimiter, file); }, [](ssize_t n) { return n < 0; });
  if (length >= 0) {
    const auto bytes = static_cast<std::size_t>(length) + 1;
    if (*line == nullptr || *room < bytes) {
      void* const larger = reallocate(*line, std::max<std::size_t>(bytes, 120));
      if (larger == nullptr) return ::free(read), -1;
      *line = static_cast<char*>(larger);
      *room = std::max<std::size_t>(bytes, 120);
    }
    ::memcpy(*line, read, bytes);
  }
  ::free(read);
  return length;
}
// What getline() is where the compiler expands it.
ssize_t WRAPPED(__getdelim)(char** line, std::size_t* room, int delimiter, FILE* file) {
  return WRAPPED(getdelim)(line, room, delimiter, file);
}
ssize_t WRAPPED(getline)(char** line, std::size_t* room, FILE* file) {
  return WRAPPED(getdelim)(line, room, '\n', file);
}
char* WRAPPED(realpath)(const char* path, char* resolved) {
  char* const found = ::realpath(path, resolved);
  return resolved != nullptr || found == nullptr ? found : adopt(found, ::strlen(found));
}
char* WRAPPED(canonicalize_file_name)(const char* path) {
  return WRAPPED(realpath)(path, nullptr);
}
char* WRAPPED(getcwd)(char* buffer, std::size_t bytes) {
  char* const found = ::getcwd(buffer, bytes);
  return buffer != nullptr || found == nullptr ? found : adopt(found, ::strlen(found));
}
char* WRAPPED(get_current_dir_name)() {
  char* const found = ::get_current_dir_name();
  return found == nullptr ? found : adopt(found, ::strlen(found));
}

void* WRAPPED(mmap)(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  const bool ordinary = address == nullptr && bytes > 0 && (flags & MAP_TYPE) != 0 &&
                        (flags & MAP_FIXED) == 0 && (protection & PROT_READ) != 0 &&
                        (protection & PROT_EXEC) == 0;
  const bool in_heap = ordinary && can_share() && must_be_shared(protection, flags);
  void* const memory = in_heap ? map(bytes, protection, flags, file, offset)
                               : ::mmap(address, bytes, protection, flags, file, offset);
  if ((flags & MAP_SHARED) != 0) note_mapping(memory, bytes, in_heap);
  return memory;
}
void* WRAPPED(mmap64)(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return WRAPPED(mmap)(address, bytes, protection, flags, file, offset);
}
int WRAPPED(munmap)(void* memory, std::size_t bytes) {
  forget_mapping(memory);
  if (!is_shared(memory)) return ::munmap(memory, bytes);
  // A part of a mapping stays until the program ends.
  if (reinterpret_cast<std::uintptr_t>(memory) % kPage != 0 || bytes == 0) return errno = EINVAL, -1;
  const std::size_t room = on_private([=] { return find_shared_block_bytes(memory).value_or(SIZE_MAX); });
  if (bytes + kPage > room) release(memory);
  return 0;
}

void* braid_pthreads_new(std::size_t bytes, std::size_t alignment) {
  if (!is_for_program()) return private_block(bytes, alignment);
  return alignment <= 16 ? allocate(bytes) : allocate(bytes, alignment, "operator new");
}
void braid_pthreads_delete(void* memory) {
  WRAPPED(free)(memory);
}

// What operator new and delete are called in the runtime (cmake/pthreads.cmake).
#define PRIVATE_NEW(name, parameters, memory)     \
  void* braid_private##name parameters {          \
    void* const block = memory;                   \
    if (block == nullptr) throw std::bad_alloc(); \
    return block;                                 \
  }
#define PRIVATE_DELETE(name, parameters) \
  void braid_private##name parameters {  \
    ::free(memory);                      \
  }
PRIVATE_NEW(_Znwm, (std::size_t bytes), private_block(bytes, 1))
PRIVATE_NEW(_Znam, (std::size_t bytes), private_block(bytes, 1))
PRIVATE_NEW(_ZnwmSt11align_val_t, (std::size_t bytes, std::size_t alignment), private_block(bytes, alignment))
PRIVATE_NEW(_ZnamSt11align_val_t, (std::size_t bytes, std::size_t alignment), private_block(bytes, alignment))
void* braid_private_ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t&) {
  return private_block(bytes, 1);
}
void* braid_private_ZnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t&) {
  return private_block(bytes, 1);
}
PRIVATE_DELETE(_ZdlPv, (void* memory))
PRIVATE_DELETE(_ZdaPv, (void* memory))
PRIVATE_DELETE(_ZdlPvm, (void* memory, std::size_t))
PRIVATE_DELETE(_ZdaPvm, (void* memory, std::size_t))
PRIVATE_DELETE(_ZdlPvSt11align_val_t, (void* memory, std::size_t))
PRIVATE_DELETE(_ZdaPvSt11align_val_t, (void* memory, std::size_t))
PRIVATE_DELETE(_ZdlPvmSt11align_val_t, (void* memory, std::size_t, std::size_t))
PRIVATE_DELETE(_ZdaPvmSt11align_val_t, (void* memory, std::size_t, std::size_t))

}  // extern "C"
