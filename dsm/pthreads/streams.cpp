#include "dsm/pthreads/streams.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/shared_arguments.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

extern "C" {
void* __wrap_malloc(std::size_t bytes);
void __wrap_free(void* memory);
int __wrap_vasprintf(char** text, const char* format, va_list arguments);
std::size_t __fread_chk(void* buffer, std::size_t room, std::size_t bytes, std::size_t count, FILE* stream);
std::size_t __fread_unlocked_chk(void* buffer, std::size_t room, std::size_t bytes, std::size_t count,
                                 FILE* stream);
char* __fgets_chk(char* buffer, std::size_t room, int bytes, FILE* stream);
char* __fgets_unlocked_chk(char* buffer, std::size_t room, int bytes, FILE* stream);
int __isoc99_vfscanf(FILE* stream, const char* format, va_list arguments);
}

namespace braid::dsm::pthreads {

namespace {

// What this cluster knows. The lock is never held while the machine is called.
struct Here {
  std::mutex mutex;
  std::set<FILE*> streams;          // that are good here
  std::map<FILE*, FILE*> original;  // of popen(), if the program has another stream for it
};
Here& here() {
  static Here& all = *new Here;
  return all;
}

// One that was good for the calling thread when `closed` was as it is.
std::atomic<std::uint64_t> closed{1};
struct Known {
  FILE* stream;
  std::uint64_t closed;
};
constinit thread_local Known known __attribute__((tls_model("initial-exec"))){};
constinit thread_local bool prints __attribute__((tls_model("initial-exec"))) = false;

bool is_everywhere(const FILE* stream) {
  return stream == nullptr || stream == stdin || stream == stdout || stream == stderr;
}

unsigned own_cluster() {
  return joined_host("stdio").shape().cluster;
}

// With kNumbersLock.
Stream* find(FILE* stream) {
  Shared& all = shared();
  Stream* const end = all.streams.data() + all.stream_count;
  Stream* const found =
      std::find_if(all.streams.data(), end, [=](const Stream& s) { return s.stream == stream; });
  return found == end ? nullptr : found;
}

bool is_known_here(FILE* stream) {
  const std::lock_guard hold(here().mutex);
  return here().streams.contains(stream);
}

void know(FILE* stream) {
  const std::lock_guard hold(here().mutex);
  here().streams.insert(stream);
}

unsigned look_up(FILE* stream) {
  if (is_known_here(stream)) return kHere;
  {
    const Guard guard(kNumbersLock);
    const Stream* const found = find(stream);
    if (found != nullptr && found->cluster != own_cluster()) return found->cluster;
  }
  know(stream);
  return kHere;
}

// False: another cluster has one of that address.
bool record(FILE* stream) {
  Shared& all = shared();
  {
    const Guard guard(kNumbersLock);
    const unsigned cluster = own_cluster();
    if (const Stream* const found = find(stream)) {
      if (found->cluster != cluster) return false;
    } else if (all.stream_count == all.streams.size()) {
      fail("fopen(){}: more than {} streams are open that threads have opened: close some",
           place_of_call().c_str(), all.streams.size());
    } else {
      all.streams[all.stream_count++] = {stream, static_cast<std::uint16_t>(cluster)};
    }
  }
  know(stream);
  return true;
}

void forget(FILE* stream) {
  {
    const std::lock_guard hold(here().mutex);
    here().streams.erase(stream);
  }
  closed.fetch_add(1);
  Shared& all = shared();
  const Guard guard(kNumbersLock);
  Stream* const found = find(stream);
  if (found != nullptr && found->cluster == own_cluster()) *found = all.streams[--all.stream_count];
}

// A stream that was just opened, or another one of the same file: no two clusters have one of the same address.
template <class Again>
FILE* made(FILE* stream, Again again) {
  if (stream == nullptr || !several_clusters() || is_forked_child()) return stream;
  std::vector<FILE*> others;
  while (!record(stream)) {
    others.push_back(stream);
    stream = again(stream);
    if (stream == nullptr) break;
  }
  for (FILE* const other : others) (void)::fclose(other);
  return stream;
}

FILE* of_same_file(FILE* stream, const char* mode) {
  const int fd = ::dup(::fileno(stream));
  return fd < 0 ? nullptr : ::fdopen(fd, mode);
}

FILE* made_of_file(FILE* stream, const char* mode) {
  return on_private([=] { return made(stream, [=](FILE* one) { return of_same_file(one, mode); }); });
}

// A command is not started again.
FILE* made_of_pipe(FILE* stream, const char* mode) {
  if (stream == nullptr || !several_clusters() || is_forked_child() || record(stream)) return stream;
  FILE* const other = made(of_same_file(stream, mode), [=](FILE* one) { return of_same_file(one, mode); });
  if (other == nullptr) return ::pclose(stream), nullptr;
  const std::lock_guard hold(here().mutex);
  here().original[other] = stream;
  return other;
}

void close_begins(FILE* stream) {
  if (several_clusters() && !is_forked_child()) on_private([=] { forget(stream); });
}

int close_pipe(FILE* stream) {
  FILE* original = stream;
  {
    const std::lock_guard hold(here().mutex);
    if (const auto found = here().original.find(stream); found != here().original.end()) {
      original = found->second;
      here().original.erase(found);
    }
  }
  if (original != stream) (void)::fclose(stream);
  return on_private([=] { return ::pclose(original); });
}

// A piece of shared memory while it lives.
class Bounce {
 public:
  explicit Bounce(std::size_t bytes) : memory_(static_cast<char*>(__wrap_malloc(bytes + 1))) {}
  ~Bounce() { __wrap_free(memory_); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  char* get() const { return memory_; }

 private:
  char* const memory_;
};

// What is written may be of this cluster alone.
std::size_t write_at(unsigned home, const char* call, const void* memory, std::size_t bytes, FILE* stream) {
  const Bounce copy(bytes);
  char* const from = copy.get();
  ::memcpy(from, memory, bytes);
  return at(home, call, [=] { return ::fwrite(from, 1, bytes, stream); });
}

std::size_t read_at(unsigned home, const char* call, void* memory, std::size_t bytes, std::size_t count,
                    FILE* stream) {
  const Bounce copy(bytes * count);
  char* const to = copy.get();
  const std::size_t n = at(home, call, [=] { return ::fread(to, bytes, count, stream); });
  ::memcpy(memory, to, n * bytes);
  return n;
}

void refuse_lock_elsewhere(const char* call, FILE* stream) {
  if (home_of(stream, call) == kHere) return;
  on_private([=] {
    refuse(
        call,
        "a thread of another cluster has opened the stream, and its lock is of one process: open it before the first "
        "pthread_create(), or write by one call");
  });
}

bool has_others() {
  if (thread_host::starts_threads()) return false;
  const Host* const host = started() && !is_forked_child() ? current_host() : nullptr;
  return host != nullptr && host->shape().compute > 1 && host->current_node() >= 0;
}

}  // namespace

Printing::Printing() : takes_(!prints && has_others()) {
  if (!takes_) return;
  on_private([] { calling_node_of("stdio").lock(kOutputLock); });
  prints = true;
}
Printing::~Printing() {
  if (!takes_) return;
  prints = false;
  on_private([] { calling_node_of("stdio").unlock(kOutputLock); });
}

bool claim(FILE* stream) {
  return !several_clusters() || is_forked_child() || record(stream);
}

unsigned home_of(FILE* stream, const char* call) {
  if (!several_clusters() || is_everywhere(stream) || is_forked_child()) return kHere;
  if (known.stream == stream && known.closed == closed.load(std::memory_order_relaxed)) return kHere;
  const bool in_handler = !on_shared_stack();
  if (in_handler && is_known_here(stream)) return kHere;
  if (in_handler)
    refuse(call, "a handler of a signal uses only streams that its own cluster has used before");
  const std::uint64_t now = closed.load();
  const unsigned home = on_private([=] { return look_up(stream); });
  if (home == kHere) known = {stream, now};
  return home;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

// A call of one stream that refers to nothing else: f(stream, ...).
#define AT_HOME(type, name, parameters, stream, ...)                                         \
  type WRAPPED(name) parameters {                                                            \
    return at(home_of(stream, #name "()"), #name "()", [=] { return ::name(__VA_ARGS__); }); \
  }

extern "C" {

// --- Opened and closed

FILE* WRAPPED(fopen)(const char* path, const char* mode) {
  return made_of_file(::fopen(path, mode), mode);
}
FILE* WRAPPED(fopen64)(const char* path, const char* mode) {
  return made_of_file(::fopen64(path, mode), mode);
}
// The stream of another cluster's descriptor is that cluster's, too.
FILE* WRAPPED(fdopen)(int descriptor, const char* mode) {
  FILE* const stream = made_of_file(::fdopen(descriptor, mode), mode);
  if (stream != nullptr || !braid::dsm::may_be_elsewhere(-1, descriptor)) return stream;
  struct Opening {
    int descriptor;
    const char* mode;
    FILE* stream;
  } opening{descriptor, mode, nullptr};
  const auto open_there = [](void* argument) {
    auto* const to = static_cast<Opening*>(argument);
    to->stream = __wrap_fdopen(to->descriptor, to->mode);
  };
  if (!braid::dsm::elsewhere->carry_out("fdopen()", descriptor, open_there, &opening)) errno = EBADF;
  return opening.stream;
}
FILE* WRAPPED(tmpfile)() {
  return made_of_file(::tmpfile(), "w+");
}
FILE* WRAPPED(tmpfile64)() {
  return made_of_file(::tmpfile64(), "w+");
}
FILE* WRAPPED(fmemopen)(void* memory, std::size_t bytes, const char* mode) {
  FILE* const stream = ::fmemopen(memory, bytes, mode);
  return on_private([=] { return made(stream, [=](FILE*) { return ::fmemopen(memory, bytes, mode); }); });
}
// The C library's would write to a descriptor of the caller's cluster alone.
int WRAPPED(vdprintf)(int descriptor, const char* format, va_list arguments) {
  char* text = nullptr;
  const int length = WRAPPED(vasprintf)(&text, format, arguments);
  for (ssize_t n = 0, at = 0; length > 0 && at < length; at += n) {
    n = ::write(descriptor, text + at, static_cast<std::size_t>(length - at));
    if (n < 0) return WRAPPED(free)(text), -1;
  }
  if (length >= 0) WRAPPED(free)(text);
  return length;
}
int WRAPPED(dprintf)(int descriptor, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = WRAPPED(vdprintf)(descriptor, format, arguments);
  va_end(arguments);
  return length;
}
int WRAPPED(__vdprintf_chk)(int descriptor, int, const char* format, va_list arguments) {
  return WRAPPED(vdprintf)(descriptor, format, arguments);
}
int WRAPPED(__dprintf_chk)(int descriptor, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = WRAPPED(vdprintf)(descriptor, format, arguments);
  va_end(arguments);
  return length;
}

FILE* WRAPPED(popen)(const char* command, const char* mode) {
  FILE* const stream = ::popen(command, mode);
  return on_private([=] { return made_of_pipe(stream, mode); });
}
int WRAPPED(fclose)(FILE* stream) {
  return at(home_of(stream, "fclose()"), "fclose()", [=] {
    close_begins(stream);
    return ::fclose(stream);
  });
}
// In these two the C library waits for the status of a process, into a variable of its own: not on a stack in shared memory.
int WRAPPED(system)(const char* command) {
  test_cancellation();
  return on_private([=] { return ::system(command); });
}
int WRAPPED(pclose)(FILE* stream) {
  return at(home_of(stream, "pclose()"), "pclose()", [=] {
    close_begins(stream);
    return close_pipe(stream);
  });
}

// --- Written

int WRAPPED(vfprintf)(FILE* stream, const char* format, va_list arguments) {
  test_cancellation();
  const unsigned home = home_of(stream, "fprintf()");
  if (home == kHere) {
    const Printing printing;
    return ::vfprintf(stream, format, arguments);
  }
  char* text = nullptr;
  const int bytes = __wrap_vasprintf(&text, format, arguments);
  if (bytes < 0) return bytes;
  const auto count = static_cast<std::size_t>(bytes);
  const std::size_t written = at(home, "fprintf()", [=] { return ::fwrite(text, 1, count, stream); });
  __wrap_free(text);
  return written == count ? bytes : -1;
}
int WRAPPED(fprintf)(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stream, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(__vfprintf_chk)(FILE* stream, int, const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(stream, format, arguments);
}
int WRAPPED(__fprintf_chk)(FILE* stream, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stream, format, arguments);
  va_end(arguments);
  return written;
}
std::size_t WRAPPED(fwrite)(const void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
  test_cancellation();
  const unsigned home = home_of(stream, "fwrite()");
  if (home != kHere && bytes > 0 && count > 0)
    return write_at(home, "fwrite()", memory, bytes * count, stream) / bytes;
  const Printing printing;
  return ::fwrite(memory, bytes, count, stream);
}
int WRAPPED(fputs)(const char* text, FILE* stream) {
  test_cancellation();
  const unsigned home = home_of(stream, "fputs()");
  if (home != kHere) {
    const std::size_t bytes = ::strlen(text);
    return write_at(home, "fputs()", text, bytes, stream) == bytes ? 1 : EOF;
  }
  const Printing printing;
  return ::fputs(text, stream);
}
int WRAPPED(fputc)(int character, FILE* stream) {
  test_cancellation();
  return at(home_of(stream, "fputc()"), "fputc()", [=] {
    const Printing printing;
    return ::fputc(character, stream);
  });
}
int WRAPPED(putc)(int character, FILE* stream) {
  return WRAPPED(fputc)(character, stream);
}
int WRAPPED(fflush)(FILE* stream) {
  test_cancellation();
  return at(home_of(stream, "fflush()"), "fflush()", [=] {
    const Printing printing;
    return ::fflush(stream);
  });
}

// Of calls without a lock: the thread that is made for one elsewhere takes it.
std::size_t WRAPPED(fwrite_unlocked)(const void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
  if (home_of(stream, "fwrite_unlocked()") != kHere) return WRAPPED(fwrite)(memory, bytes, count, stream);
  const Printing printing;
  return ::fwrite_unlocked(memory, bytes, count, stream);
}
int WRAPPED(fputs_unlocked)(const char* text, FILE* stream) {
  if (home_of(stream, "fputs_unlocked()") != kHere) return WRAPPED(fputs)(text, stream);
  const Printing printing;
  return ::fputs_unlocked(text, stream);
}
int WRAPPED(fputc_unlocked)(int character, FILE* stream) {
  if (home_of(stream, "fputc_unlocked()") != kHere) return WRAPPED(fputc)(character, stream);
  const Printing printing;
  return ::fputc_unlocked(character, stream);
}
int WRAPPED(putc_unlocked)(int character, FILE* stream) {
  return WRAPPED(fputc_unlocked)(character, stream);
}
int WRAPPED(fflush_unlocked)(FILE* stream) {
  if (home_of(stream, "fflush_unlocked()") != kHere) return WRAPPED(fflush)(stream);
  const Printing printing;
  return ::fflush_unlocked(stream);
}

// --- Read

static bool is_end(int result) {
  return result < 0;
}

char* WRAPPED(fgets)(char* buffer, int bytes, FILE* stream) {
  const auto read = [&]() -> char* {
    const unsigned home = home_of(stream, "fgets()");
    if (home == kHere || bytes <= 0) return ::fgets(buffer, bytes, stream);
    const Bounce copy(static_cast<std::size_t>(bytes));
    char* const to = copy.get();
    char* const found = at(home, "fgets()", [=] { return ::fgets(to, bytes, stream); });
    if (found == nullptr) return nullptr;
    ::strcpy(buffer, to);
    return buffer;
  };
  return at_read(stream, read, [](const char* line) { return line == nullptr; });
}
char* WRAPPED(__fgets_chk)(char* buffer, std::size_t room, int bytes, FILE* stream) {
  const auto read = [&]() -> char* {
    if (home_of(stream, "fgets()") == kHere) return ::__fgets_chk(buffer, room, bytes, stream);
    return WRAPPED(fgets)(buffer, bytes, stream);
  };
  return at_read(stream, read, [](const char* line) { return line == nullptr; });
}
std::size_t WRAPPED(fread)(void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
  const auto read = [&] {
    const unsigned home = home_of(stream, "fread()");
    return home == kHere ? ::fread(memory, bytes, count, stream)
                         : read_at(home, "fread()", memory, bytes, count, stream);
  };
  return at_read(stream, read, [&](std::size_t n) { return n < count; });
}
std::size_t WRAPPED(__fread_chk)(void* memory, std::size_t room, std::size_t bytes, std::size_t count,
                                 FILE* stream) {
  const auto read = [&] {
    const unsigned home = home_of(stream, "fread()");
    return home == kHere ? ::__fread_chk(memory, room, bytes, count, stream)
                         : read_at(home, "fread()", memory, bytes, count, stream);
  };
  return at_read(stream, read, [&](std::size_t n) { return n < count; });
}
std::size_t WRAPPED(fread_unlocked)(void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
  const unsigned home = home_of(stream, "fread_unlocked()");
  return home == kHere ? ::fread_unlocked(memory, bytes, count, stream)
                       : read_at(home, "fread_unlocked()", memory, bytes, count, stream);
}
std::size_t WRAPPED(__fread_unlocked_chk)(void* memory, std::size_t room, std::size_t bytes,
                                          std::size_t count, FILE* stream) {
  const unsigned home = home_of(stream, "fread_unlocked()");
  return home == kHere ? ::__fread_unlocked_chk(memory, room, bytes, count, stream)
                       : read_at(home, "fread_unlocked()", memory, bytes, count, stream);
}
char* WRAPPED(fgets_unlocked)(char* buffer, int bytes, FILE* stream) {
  if (home_of(stream, "fgets_unlocked()") == kHere) return ::fgets_unlocked(buffer, bytes, stream);
  return WRAPPED(fgets)(buffer, bytes, stream);
}
char* WRAPPED(__fgets_unlocked_chk)(char* buffer, std::size_t room, int bytes, FILE* stream) {
  if (home_of(stream, "fgets_unlocked()") == kHere)
    return ::__fgets_unlocked_chk(buffer, room, bytes, stream);
  return WRAPPED(fgets)(buffer, bytes, stream);
}
int WRAPPED(vfscanf)(FILE* stream, const char* format, va_list arguments) {
  // In the caller's frame, which is shared memory; a va_list that is a parameter is a pointer to one.
  va_list copy;
  va_copy(copy, arguments);
  va_list* const all = &copy;
  const int read = at_read(
      stream,
      [&] {
        return at(home_of(stream, "fscanf()"), "fscanf()",
                  [=] { return ::__isoc99_vfscanf(stream, format, *all); });
      },
      is_end);
  va_end(copy);
  return read;
}
int WRAPPED(__isoc99_vfscanf)(FILE* stream, const char* format, va_list arguments) {
  return WRAPPED(vfscanf)(stream, format, arguments);
}
int WRAPPED(fscanf)(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int read = WRAPPED(vfscanf)(stream, format, arguments);
  va_end(arguments);
  return read;
}
int WRAPPED(__isoc99_fscanf)(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int read = WRAPPED(vfscanf)(stream, format, arguments);
  va_end(arguments);
  return read;
}
int WRAPPED(fgetc)(FILE* stream) {
  return at_read(
      stream, [=] { return at(home_of(stream, "fgetc()"), "fgetc()", [=] { return ::fgetc(stream); }); },
      is_end);
}
int WRAPPED(getc)(FILE* stream) {
  return WRAPPED(fgetc)(stream);
}
AT_HOME(int, fgetc_unlocked, (FILE * stream), stream, stream)
AT_HOME(int, getc_unlocked, (FILE * stream), stream, stream)
AT_HOME(int, ungetc, (int character, FILE* stream), stream, character, stream)

// --- Position and state

AT_HOME(int, fseek, (FILE * stream, long offset, int from), stream, stream, offset, from)
AT_HOME(int, fseeko, (FILE * stream, off_t offset, int from), stream, stream, offset, from)
AT_HOME(int, fseeko64, (FILE * stream, off64_t offset, int from), stream, stream, offset, from)
AT_HOME(long, ftell, (FILE * stream), stream, stream)
AT_HOME(off_t, ftello, (FILE * stream), stream, stream)
AT_HOME(off64_t, ftello64, (FILE * stream), stream, stream)
AT_HOME(int, feof, (FILE * stream), stream, stream)
AT_HOME(int, ferror, (FILE * stream), stream, stream)
AT_HOME(int, feof_unlocked, (FILE * stream), stream, stream)
AT_HOME(int, ferror_unlocked, (FILE * stream), stream, stream)
int WRAPPED(setvbuf)(FILE* stream, char* buffer, int mode, std::size_t bytes) {
  // A buffer of the caller's cluster is not the stream's cluster's.
  const unsigned home = home_of(stream, "setvbuf()");
  char* const given = home == kHere ? buffer : nullptr;
  return at(home, "setvbuf()", [=] { return ::setvbuf(stream, given, mode, bytes); });
}
void WRAPPED(setbuf)(FILE* stream, char* buffer) {
  if (home_of(stream, "setbuf()") == kHere) return ::setbuf(stream, buffer);
  (void)WRAPPED(setvbuf)(stream, nullptr, buffer == nullptr ? _IONBF : _IOFBF, BUFSIZ);
}
void WRAPPED(setlinebuf)(FILE* stream) {
  (void)WRAPPED(setvbuf)(stream, nullptr, _IOLBF, 0);
}
void WRAPPED(clearerr_unlocked)(FILE* stream) {
  const auto clear = [=] { return ::clearerr_unlocked(stream), 0; };
  (void)at(home_of(stream, "clearerr_unlocked()"), "clearerr_unlocked()", clear);
}
// The lock is a thread's of the stream's cluster.
void WRAPPED(flockfile)(FILE* stream) {
  refuse_lock_elsewhere("flockfile()", stream);
  ::flockfile(stream);
}
int WRAPPED(ftrylockfile)(FILE* stream) {
  refuse_lock_elsewhere("ftrylockfile()", stream);
  return ::ftrylockfile(stream);
}
void WRAPPED(funlockfile)(FILE* stream) {
  refuse_lock_elsewhere("funlockfile()", stream);
  ::funlockfile(stream);
}
void WRAPPED(rewind)(FILE* stream) {
  (void)at(home_of(stream, "rewind()"), "rewind()", [=] { return ::rewind(stream), 0; });
}
void WRAPPED(clearerr)(FILE* stream) {
  (void)at(home_of(stream, "clearerr()"), "clearerr()", [=] { return ::clearerr(stream), 0; });
}
// A descriptor is of one process.
int WRAPPED(fileno)(FILE* stream) {
  if (home_of(stream, "fileno()") != kHere)
    on_private([] {
      refuse(
          "fileno() of a stream that a thread of another cluster has opened",
          "a descriptor is of one process; open it before the first pthread_create(), or call fileno() where it was "
          "opened");
    });
  return ::fileno(stream);
}

}  // extern "C"

void braid::dsm::pthreads::forget_interrupt(FILE* stream) {
  if (errno == EINTR) WRAPPED(clearerr)(stream);
}
