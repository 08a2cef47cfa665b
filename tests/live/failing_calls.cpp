// For LD_PRELOAD: the n-th allocation, descriptor, mapping, thread or process that the project's own code asks for is
// refused, as a system without room refuses it.
//
//   FAILING_CALL=KIND:N      KIND: allocation (new), malloc, descriptor, mapping, thread, process
//   FAILING_CALL_IN=NAME     in processes of this name only; counted from the beginning of main()
//   FAILING_CALL_LOG=FILE    a line there when it has happened
//
// (Names that do not begin with BRAID_: those do not reach the processes of a run.) The project's own code is the program
// itself, into which its libraries and those of DPDK are linked, and what the standard C++ library does for it; other
// libraries' calls succeed.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

extern char* program_invocation_short_name;

namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
};
Range own[2];  // the program, libstdc++
unsigned found = 0;
char kind[16];
long wanted = -1;
std::atomic<long> counted{0};
std::atomic<bool> started{false};

int look(dl_phdr_info* info, std::size_t, void* index) {
  const bool is_program = *static_cast<unsigned*>(index) == 0;
  ++*static_cast<unsigned*>(index);
  if (!is_program && std::strstr(info->dlpi_name, "libstdc++") == nullptr) return 0;
  Range range{~std::uintptr_t{0}, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + info->dlpi_phdr[i].p_memsz > range.end) range.end = begin + info->dlpi_phdr[i].p_memsz;
  }
  if (found < 2) own[found++] = range;
  return 0;
}

void begin() {
  const char* const what = std::getenv("FAILING_CALL");
  const char* const where = std::getenv("FAILING_CALL_IN");
  const char* const colon = what == nullptr ? nullptr : std::strchr(what, ':');
  if (colon == nullptr || where == nullptr || std::strcmp(where, program_invocation_short_name) != 0) return;
  const std::size_t length = static_cast<std::size_t>(colon - what);
  if (length >= sizeof kind) return;
  std::memcpy(kind, what, length);
  wanted = std::strtol(colon + 1, nullptr, 10);
  unsigned index = 0;
  ::dl_iterate_phdr(look, &index);
  started.store(true);
}

void tell() {
  const char* const path = std::getenv("FAILING_CALL_LOG");
  const auto open_file = reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(RTLD_NEXT, "open"));
  const int fd = path == nullptr ? -1 : open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = ::write(fd, "failed\n", 7);
  ::close(fd);
}

bool fails(const char* what, const void* caller) {
  if (!started.load(std::memory_order_relaxed) || std::strcmp(what, kind) != 0) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  bool ours = false;
  for (unsigned i = 0; i < found; ++i) ours = ours || (at >= own[i].begin && at < own[i].end);
  if (!ours || ++counted != wanted) return false;
  tell();
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

using Main = int (*)(int, char**, char**);
Main the_main = nullptr;
int counted_main(int argc, char** argv, char** environment) {
  begin();
  return the_main(argc, argv, environment);
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

// From here on it is not the start-up of the program any more.
__attribute__((visibility("default"))) void braid_start_is_over() {
  started.store(false);
}

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*loader)(),
                      void* stack) {
  the_main = main;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  return next<Start>("__libc_start_main")(counted_main, argc, argv, init, fini, loader, stack);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (fails("mapping", CALLER)) return errno = ENOMEM, MAP_FAILED;
  static const auto real = next<decltype(&mmap)>("mmap");
  return real(address, bytes, protection, flags, fd, offset);
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  if (fails("mapping", CALLER)) return errno = ENOMEM, MAP_FAILED;
  static const auto real = next<decltype(&mmap64)>("mmap64");
  return real(address, bytes, protection, flags, fd, offset);
}

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* malloc(size_t bytes) {
  if (fails("malloc", CALLER)) return errno = ENOMEM, nullptr;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  if (fails("malloc", CALLER)) return errno = ENOMEM, nullptr;
  return __libc_calloc(count, bytes);
}

#define BRAID_REFUSE_DESCRIPTOR                                 \
  do {                                                          \
    if (fails("descriptor", CALLER)) return errno = EMFILE, -1; \
  } while (false)

int memfd_create(const char* name, unsigned flags) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(const char*, unsigned)>("memfd_create");
  return real(name, flags);
}
int socket(int domain, int type, int protocol) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(int, int, int)>("socket");
  return real(domain, type, protocol);
}
int pipe2(int* ends, int flags) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(int*, int)>("pipe2");
  return real(ends, flags);
}
int eventfd(unsigned value, int flags) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(unsigned, int)>("eventfd");
  return real(value, flags);
}
int epoll_create(int size) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(int)>("epoll_create");
  return real(size);
}
FILE* fopen64(const char* path, const char* mode) {
  if (fails("descriptor", CALLER)) return errno = EMFILE, nullptr;
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  return real(path, mode);
}
int signalfd(int fd, const sigset_t* set, int flags) noexcept {
  BRAID_REFUSE_DESCRIPTOR;
  static const auto real = next<int (*)(int, const sigset_t*, int)>("signalfd");
  return real(fd, set, flags);
}
int open(const char* path, int flags, ...) {
  BRAID_REFUSE_DESCRIPTOR;
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  BRAID_REFUSE_DESCRIPTOR;
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  static const auto real = next<int (*)(const char*, int, ...)>("open64");
  return real(path, flags, mode);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  if (fails("thread", CALLER)) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = next<Create>("pthread_create");
  return real(thread, attributes, run, argument);
}
pid_t fork() noexcept {
  if (fails("process", CALLER)) return errno = EAGAIN, -1;
  static const auto real = next<pid_t (*)()>("fork");
  return real();
}

}  // extern "C"

void* operator new(std::size_t bytes) {
  void* const memory = fails("allocation", CALLER) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) {
  void* const memory = fails("allocation", CALLER) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
