// Calls of the C library whose memory the kernel reads or writes, interposed: shared memory works in them like private
// memory. The kernel does not wait for a page, and another cluster's write could always take a page away between
// preparation and call; so the bytes go through private memory, and the copies fault like any access of the program.
//
// A call that has no shared memory goes on to the C library (or to a sanitizer before it) with one comparison for each
// pointer. Calls in which the C library itself copies (fgets(), getline(), fscanf(), sprintf()) need nothing.
#include "dsm/program/system_calls.h"

#undef _FORTIFY_SOURCE  // its inline functions would have the names that are defined here

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>

#include "dsm/program/heap.h"

// Calls of programs that were compiled with _FORTIFY_SOURCE: `room` is the size that the compiler knows.
extern "C" {
ssize_t __read_chk(int fd, void* buffer, std::size_t bytes, std::size_t room);
ssize_t __pread_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t room);
ssize_t __recv_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags, sockaddr* from,
                       socklen_t* from_bytes);
std::size_t __fread_chk(void* buffer, std::size_t room, std::size_t size, std::size_t count, std::FILE* file);
std::size_t __fread_unlocked_chk(void* buffer, std::size_t room, std::size_t size, std::size_t count,
                                 std::FILE* file);
ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes, std::size_t room);
char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room);
int __gethostname_chk(char* buffer, std::size_t bytes, std::size_t room);
int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t room);
int __open_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
}

namespace braid::dsm {

namespace {

// --- The functions as the C library has them

#define BRAID_EACH_CALL(X) \
  X(read)                  \
  X(pread)                 \
  X(readv)                 \
  X(preadv)                \
  X(recv)                  \
  X(recvfrom)              \
  X(recvmsg)               \
  X(write)                 \
  X(pwrite)                \
  X(writev)                \
  X(pwritev)               \
  X(send)                  \
  X(sendto)                \
  X(sendmsg)               \
  X(fread)                 \
  X(fread_unlocked)        \
  X(fwrite)                \
  X(fwrite_unlocked)       \
  X(fputs)                 \
  X(puts)                  \
  X(setvbuf)               \
  X(stat)                  \
  X(lstat)                 \
  X(fstat)                 \
  X(fstatat)               \
  X(statfs)                \
  X(fstatfs)               \
  X(getcwd)                \
  X(readlink)              \
  X(gethostname)           \
  X(uname)                 \
  X(getrusage)             \
  X(times)                 \
  X(getrandom)             \
  X(pipe)                  \
  X(pipe2)                 \
  X(socketpair)            \
  X(poll)                  \
  X(open)                  \
  X(openat)                \
  X(creat)                 \
  X(fopen)                 \
  X(freopen)               \
  X(opendir)               \
  X(access)                \
  X(unlink)                \
  X(remove)                \
  X(rename)                \
  X(mkdir)                 \
  X(rmdir)                 \
  X(chdir)                 \
  X(truncate)              \
  X(system)                \
  X(popen)                 \
  X(__read_chk)            \
  X(__pread_chk)           \
  X(__recv_chk)            \
  X(__recvfrom_chk)        \
  X(__fread_chk)           \
  X(__fread_unlocked_chk)  \
  X(__readlink_chk)        \
  X(__getcwd_chk)          \
  X(__gethostname_chk)     \
  X(__poll_chk)            \
  X(__open_2)              \
  X(__openat_2)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
struct Originals {
#define BRAID_DECLARE(name) decltype(&::name) name;
  BRAID_EACH_CALL(BRAID_DECLARE)
#undef BRAID_DECLARE
};
#pragma GCC diagnostic pop

// Found before main(), because the calls may be made in signal handlers, where dlsym() is not allowed; earlier if a
// constructor or a sanitizer's runtime makes one of the calls.
constinit bool are_found = false;
constinit Originals found = {};
const Originals& original() {
  if (are_found) return found;
#define BRAID_FIND(name) found.name = reinterpret_cast<decltype(found.name)>(::dlsym(RTLD_NEXT, #name));
  BRAID_EACH_CALL(BRAID_FIND)
#undef BRAID_FIND
  are_found = true;
  return found;
}
[[gnu::constructor]] void find_originals() {
  (void)original();
}

// --- Shared memory

// Pages of the shared heap; 0: there is none. Any thread may make a call at any time, also while the host comes or goes.
constinit std::atomic<std::uint32_t> shared_pages{0};

// Globals that will be shared go through private memory from the beginning: a stream may keep what it is given now.
bool is_shared(const volatile void* memory) {
  return in_heap(reinterpret_cast<std::uintptr_t>(memory), shared_pages.load(std::memory_order_relaxed));
}

template <class... Pointers>
bool any_shared(Pointers... pointers) {
  return (is_shared(pointers) || ...);
}

bool any_part_shared(const iovec* parts, std::size_t count) {
  if (is_shared(parts)) return true;
  return std::any_of(parts, parts + count, [](const iovec& part) { return is_shared(part.iov_base); });
}

// Private memory of at most kMostBytes. is_there() is false if there was none; errno says it.
class Room {
 public:
  static constexpr std::size_t kMostBytes = 1u << 20;

  explicit Room(std::size_t bytes)
      : bytes_(std::min(bytes, kMostBytes)), memory_(new (std::nothrow) char[bytes_]) {
    if (memory_ == nullptr) errno = ENOMEM;
  }
  bool is_there() const { return memory_ != nullptr; }
  char* data() { return memory_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::unique_ptr<char[]> memory_;
};

// The memory of one call, in order: advanced by what was copied.
class Parts {
 public:
  Parts(const iovec* parts, std::size_t count) : parts_(parts), count_(count) {
    for (std::size_t i = 0; i < count; ++i) left_ += parts[i].iov_len;
  }
  std::size_t left() const { return left_; }
  // Copies to the parts, at most left() bytes.
  void fill(const char* from, std::size_t bytes) {
    each(bytes, [&](char* part, std::size_t n) {
      std::memcpy(part, from, n);
      from += n;
    });
  }
  void copy_to(char* to, std::size_t bytes) {
    each(bytes, [&](const char* part, std::size_t n) {
      std::memcpy(to, part, n);
      to += n;
    });
  }

 private:
  template <class Function>
  void each(std::size_t bytes, Function&& function) {
    left_ -= bytes;
    while (bytes > 0) {
      const iovec part = *parts_;
      const std::size_t n = std::min(bytes, part.iov_len - offset_);
      if (n > 0) function(static_cast<char*>(part.iov_base) + offset_, n);
      bytes -= n;
      offset_ += n;
      if (offset_ == part.iov_len && count_ > 1) {
        ++parts_;
        --count_;
        offset_ = 0;
      }
    }
  }

  const iovec* parts_;
  std::size_t count_;
  std::size_t offset_ = 0;  // in *parts_
  std::size_t left_ = 0;
};

// --- Bytes that come

// Calls call(memory, bytes, taken) until the parts are full, less came than was asked for, or more() is false. Returns
// the bytes that came; what the first call returned if it failed.
template <class Call, class More>
ssize_t take(Parts parts, Call&& call, More&& more) {
  Room room(parts.left());
  if (!room.is_there()) return -1;
  std::size_t taken = 0;
  do {
    const std::size_t wanted = std::min(parts.left(), room.size());
    const ssize_t n = call(room.data(), wanted, taken);
    if (n < 0) return taken > 0 ? static_cast<ssize_t>(taken) : n;
    const std::size_t came = std::min(static_cast<std::size_t>(n), wanted);
    parts.fill(room.data(), came);
    taken += static_cast<std::size_t>(n);
    if (came < wanted) break;
  } while (parts.left() > 0 && more());
  return static_cast<ssize_t>(taken);
}

bool has_more(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return original().poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0;
}
constexpr auto kAlways = [] { return true; };
constexpr auto kNever = [] { return false; };

// A call after the first one must not wait where read(2) would have returned what was there.
ssize_t read_parts(int fd, Parts parts) {
  return take(
      parts, [&](char* to, std::size_t bytes, std::size_t) { return original().read(fd, to, bytes); },
      [&] { return has_more(fd); });
}
ssize_t pread_parts(int fd, Parts parts, off_t offset) {
  return take(
      parts,
      [&](char* to, std::size_t bytes, std::size_t taken) {
        return original().pread(fd, to, bytes, offset + static_cast<off_t>(taken));
      },
      kAlways);
}
// One message, or a stream's bytes. A message longer than Room::kMostBytes is cut: none is.
template <class Call>
ssize_t receive_parts(Parts parts, int flags, Call&& call) {
  const bool all = (flags & MSG_WAITALL) != 0 && (flags & MSG_PEEK) == 0;
  const auto once = [&](char* to, std::size_t bytes, std::size_t) { return call(to, bytes); };
  return all ? take(parts, once, kAlways) : take(parts, once, kNever);
}

// --- Bytes that leave

// Calls call(memory, bytes, given) until all has left or less was taken than was offered.
template <class Call>
ssize_t give(Parts parts, Call&& call) {
  Room room(parts.left());
  if (!room.is_there()) return -1;
  std::size_t given = 0;
  do {
    const std::size_t offered = std::min(parts.left(), room.size());
    parts.copy_to(room.data(), offered);
    const ssize_t n = call(room.data(), offered, given);
    if (n < 0) return given > 0 ? static_cast<ssize_t>(given) : n;
    given += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < offered) break;
  } while (parts.left() > 0);
  return static_cast<ssize_t>(given);
}

ssize_t write_parts(int fd, Parts parts) {
  return give(parts, [&](const char* from, std::size_t bytes, std::size_t) {
    return original().write(fd, from, bytes);
  });
}
ssize_t pwrite_parts(int fd, Parts parts, off_t offset) {
  return give(parts, [&](const char* from, std::size_t bytes, std::size_t given) {
    return original().pwrite(fd, from, bytes, offset + static_cast<off_t>(given));
  });
}

// The one part of a call with a single buffer.
class OnePart {
 public:
  OnePart(const void* memory, std::size_t bytes) : part_{const_cast<void*>(memory), bytes} {}
  Parts parts() const { return {&part_, 1}; }

 private:
  iovec part_;
};

// --- Values and names

// Calls call(value) with a private copy if `value` is shared; copied back if the call has worked.
template <class T, class Call>
auto with_value(T* value, Call&& call) {
  if (!is_shared(value)) return call(value);
  T copy = *value;
  const auto result = call(&copy);
  if (result >= 0) *value = copy;
  return result;
}
// The same with an array, and with anything else of `bytes` bytes.
template <class Call>
auto with_bytes(void* memory, std::size_t bytes, Call&& call) -> decltype(call(memory)) {
  if (memory == nullptr || !is_shared(memory)) return call(memory);
  Room room(bytes);
  if (!room.is_there() || room.size() < bytes) return errno = ENOMEM, -1;
  std::memcpy(room.data(), memory, bytes);
  const auto result = call(room.data());
  if (result >= 0) std::memcpy(memory, room.data(), bytes);
  return result;
}

// A path, or another short string, in private memory. One that is too long for a path stays too long.
class Name {
 public:
  explicit Name(const char* name) : name_(name) {
    if (!is_shared(name)) return;
    ::stpncpy(copy_.data(), name, copy_.size() - 1);
    copy_.back() = '\0';
    name_ = copy_.data();
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  operator const char*() const { return name_; }  // NOLINT: it stands where the C library takes a string

 private:
  const char* name_;
  std::array<char, PATH_MAX + 2> copy_;
};

// A string of any length; nullptr: no memory.
std::unique_ptr<char, decltype(&std::free)> private_string(const char* text) {
  return {::strdup(text), std::free};
}

// The bytes that fread() and fwrite() move; 0 if the product exceeds size_t.
std::size_t product(std::size_t size, std::size_t count) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(size, count, &bytes) ? 0 : bytes;
}
std::size_t elements(ssize_t bytes, std::size_t size) {
  return bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / size;
}
template <class Call>
std::size_t fread_shared(Call* call, void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  const std::size_t bytes = product(size, count);
  if (bytes == 0) return 0;
  return elements(take(
                      OnePart(buffer, bytes).parts(),
                      [&](char* to, std::size_t wanted, std::size_t) {
                        return static_cast<ssize_t>(call(to, 1, wanted, file));
                      },
                      kAlways),
                  size);
}
template <class Call>
std::size_t fwrite_shared(Call* call, const void* buffer, std::size_t size, std::size_t count,
                          std::FILE* file) {
  const std::size_t bytes = product(size, count);
  if (bytes == 0) return 0;
  return elements(give(OnePart(buffer, bytes).parts(),
                       [&](const char* from, std::size_t offered, std::size_t) {
                         return static_cast<ssize_t>(call(from, 1, offered, file));
                       }),
                  size);
}

// --- Message headers

// A private copy of a message header: its name and control data are private too, and one part stands for all.
class Header {
 public:
  // `all`: the parts' bytes, private.
  Header(const msghdr& theirs, std::span<char> all)
      : header_(theirs), part_{all.data(), all.size()}, control_(theirs.msg_controllen) {
    header_.msg_iov = &part_;
    header_.msg_iovlen = 1;
    if (theirs.msg_name != nullptr) {
      name_bytes_ = std::min<socklen_t>(theirs.msg_namelen, sizeof name_);
      std::memcpy(&name_, theirs.msg_name, name_bytes_);
      header_.msg_name = &name_;
      header_.msg_namelen = name_bytes_;
    }
    if (theirs.msg_control != nullptr && control_.is_there()) {
      std::memcpy(control_.data(), theirs.msg_control, control_.size());
      header_.msg_control = control_.data();
      header_.msg_controllen = control_.size();
    }
  }
  Header(const Header&) = delete;
  Header& operator=(const Header&) = delete;

  bool is_there() const { return control_.is_there(); }
  msghdr* get() { return &header_; }
  // Copies all that a receiving call has written, except for the parts.
  void copy_results_to(msghdr& theirs) {
    if (theirs.msg_name != nullptr)
      std::memcpy(theirs.msg_name, &name_, std::min(name_bytes_, header_.msg_namelen));
    if (theirs.msg_control != nullptr)
      std::memcpy(theirs.msg_control, control_.data(), std::min(control_.size(), header_.msg_controllen));
    theirs.msg_namelen = header_.msg_namelen;
    theirs.msg_controllen = header_.msg_controllen;
    theirs.msg_flags = header_.msg_flags;
  }

 private:
  msghdr header_;
  iovec part_;
  sockaddr_storage name_ = {};
  socklen_t name_bytes_ = 0;
  Room control_;
};

bool has_shared(const msghdr* message) {
  return is_shared(message) || any_shared(message->msg_name, message->msg_control) ||
         any_part_shared(message->msg_iov, message->msg_iovlen);
}

ssize_t receive_message(int fd, msghdr* message, int flags) {
  Parts parts(message->msg_iov, message->msg_iovlen);
  Room room(parts.left());
  if (!room.is_there()) return -1;
  Header header(*message, {room.data(), room.size()});
  if (!header.is_there()) return -1;
  const ssize_t n = original().recvmsg(fd, header.get(), flags);
  if (n < 0) return n;
  parts.fill(room.data(), std::min(static_cast<std::size_t>(n), room.size()));
  header.copy_results_to(*message);
  return n;
}

ssize_t send_message(int fd, const msghdr* message, int flags) {
  Parts parts(message->msg_iov, message->msg_iovlen);
  Room room(parts.left());
  if (!room.is_there()) return -1;
  parts.copy_to(room.data(), room.size());
  Header header(*message, {room.data(), room.size()});
  return header.is_there() ? original().sendmsg(fd, header.get(), flags) : -1;
}

// The mode of open(): there only with some flags.
mode_t mode_of(int flags, std::va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

}  // namespace

void begin_sharing(std::uint32_t pages) {
  (void)original();
  shared_pages.store(pages, std::memory_order_relaxed);
}

void end_sharing() {
  shared_pages.store(0, std::memory_order_relaxed);
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int fd, void* buffer, std::size_t bytes) {
  if (!is_shared(buffer)) return original().read(fd, buffer, bytes);
  return read_parts(fd, OnePart(buffer, bytes).parts());
}
ssize_t pread(int fd, void* buffer, std::size_t bytes, off_t offset) {
  if (!is_shared(buffer)) return original().pread(fd, buffer, bytes, offset);
  return pread_parts(fd, OnePart(buffer, bytes).parts(), offset);
}
ssize_t readv(int fd, const iovec* parts, int count) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return original().readv(fd, parts, count);
  return read_parts(fd, {parts, static_cast<std::size_t>(count)});
}
ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return original().preadv(fd, parts, count, offset);
  return pread_parts(fd, {parts, static_cast<std::size_t>(count)}, offset);
}
ssize_t recvfrom(int fd, void* buffer, std::size_t bytes, int flags, sockaddr* from, socklen_t* from_bytes) {
  if (!any_shared(buffer, from, from_bytes))
    return original().recvfrom(fd, buffer, bytes, flags, from, from_bytes);
  sockaddr_storage address = {};
  socklen_t address_bytes = from_bytes == nullptr ? 0 : *from_bytes;
  const socklen_t address_room = std::min<socklen_t>(address_bytes, sizeof address);
  address_bytes = address_room;
  const ssize_t n = receive_parts(OnePart(buffer, bytes).parts(), flags, [&](char* to, std::size_t wanted) {
    return original().recvfrom(fd, to, wanted, flags,
                               from == nullptr ? nullptr : reinterpret_cast<sockaddr*>(&address),
                               from == nullptr ? nullptr : &address_bytes);
  });
  if (n >= 0 && from != nullptr && from_bytes != nullptr) {
    std::memcpy(from, &address, std::min(address_room, address_bytes));
    *from_bytes = address_bytes;
  }
  return n;
}
ssize_t recv(int fd, void* buffer, std::size_t bytes, int flags) {
  if (!is_shared(buffer)) return original().recv(fd, buffer, bytes, flags);
  return ::recvfrom(fd, buffer, bytes, flags, nullptr, nullptr);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (message == nullptr || !has_shared(message)) return original().recvmsg(fd, message, flags);
  return receive_message(fd, message, flags);
}

ssize_t write(int fd, const void* buffer, std::size_t bytes) {
  if (!is_shared(buffer)) return original().write(fd, buffer, bytes);
  return write_parts(fd, OnePart(buffer, bytes).parts());
}
ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  if (!is_shared(buffer)) return original().pwrite(fd, buffer, bytes, offset);
  return pwrite_parts(fd, OnePart(buffer, bytes).parts(), offset);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return original().writev(fd, parts, count);
  return write_parts(fd, {parts, static_cast<std::size_t>(count)});
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return original().pwritev(fd, parts, count, offset);
  return pwrite_parts(fd, {parts, static_cast<std::size_t>(count)}, offset);
}
ssize_t sendto(int fd, const void* buffer, std::size_t bytes, int flags, const sockaddr* to,
               socklen_t to_bytes) {
  if (!any_shared(buffer, to)) return original().sendto(fd, buffer, bytes, flags, to, to_bytes);
  sockaddr_storage address = {};
  if (to != nullptr) std::memcpy(&address, to, std::min<std::size_t>(to_bytes, sizeof address));
  return give(OnePart(buffer, bytes).parts(), [&](const char* from, std::size_t offered, std::size_t) {
    return original().sendto(fd, from, offered, flags,
                             to == nullptr ? nullptr : reinterpret_cast<const sockaddr*>(&address), to_bytes);
  });
}
ssize_t send(int fd, const void* buffer, std::size_t bytes, int flags) {
  if (!is_shared(buffer)) return original().send(fd, buffer, bytes, flags);
  return ::sendto(fd, buffer, bytes, flags, nullptr, 0);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (message == nullptr || !has_shared(message)) return original().sendmsg(fd, message, flags);
  return send_message(fd, message, flags);
}

std::size_t fread(void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (!is_shared(buffer)) return original().fread(buffer, size, count, file);
  return fread_shared(original().fread, buffer, size, count, file);
}
std::size_t fread_unlocked(void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (!is_shared(buffer)) return original().fread_unlocked(buffer, size, count, file);
  return fread_shared(original().fread_unlocked, buffer, size, count, file);
}
std::size_t fwrite(const void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (!is_shared(buffer)) return original().fwrite(buffer, size, count, file);
  return fwrite_shared(original().fwrite, buffer, size, count, file);
}
std::size_t fwrite_unlocked(const void* buffer, std::size_t size, std::size_t count, std::FILE* file) {
  if (!is_shared(buffer)) return original().fwrite_unlocked(buffer, size, count, file);
  return fwrite_shared(original().fwrite_unlocked, buffer, size, count, file);
}
int fputs(const char* text, std::FILE* file) {
  if (!is_shared(text)) return original().fputs(text, file);
  const auto copy = private_string(text);
  return copy == nullptr ? EOF : original().fputs(copy.get(), file);
}
int puts(const char* text) {
  if (!is_shared(text)) return original().puts(text);
  const auto copy = private_string(text);
  return copy == nullptr ? EOF : original().puts(copy.get());
}
// A stream's buffer stays private: what is in it between two calls is not the program's concern.
int setvbuf(std::FILE* file, char* buffer, int mode, std::size_t bytes) noexcept {
  return original().setvbuf(file, is_shared(buffer) ? nullptr : buffer, mode, bytes);
}

int stat(const char* path, struct stat* status) noexcept {
  const Name name(path);
  return with_value(status, [&](struct stat* to) { return original().stat(name, to); });
}
int lstat(const char* path, struct stat* status) noexcept {
  const Name name(path);
  return with_value(status, [&](struct stat* to) { return original().lstat(name, to); });
}
int fstat(int fd, struct stat* status) noexcept {
  return with_value(status, [&](struct stat* to) { return original().fstat(fd, to); });
}
int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
  const Name name(path);
  return with_value(status, [&](struct stat* to) { return original().fstatat(directory, name, to, flags); });
}
int statfs(const char* path, struct statfs* status) noexcept {
  const Name name(path);
  return with_value(status, [&](struct statfs* to) { return original().statfs(name, to); });
}
int fstatfs(int fd, struct statfs* status) noexcept {
  return with_value(status, [&](struct statfs* to) { return original().fstatfs(fd, to); });
}
char* getcwd(char* buffer, std::size_t bytes) noexcept {
  if (!is_shared(buffer)) return original().getcwd(buffer, bytes);
  Room room(bytes);
  if (!room.is_there() || original().getcwd(room.data(), room.size()) == nullptr) return nullptr;
  return std::strcpy(buffer, room.data());  // NOLINT: it fits, as the call has checked
}
ssize_t readlink(const char* path, char* buffer, std::size_t bytes) noexcept {
  const Name name(path);
  if (!is_shared(buffer)) return original().readlink(name, buffer, bytes);
  return take(
      OnePart(buffer, bytes).parts(),
      [&](char* to, std::size_t wanted, std::size_t) { return original().readlink(name, to, wanted); },
      kNever);
}
int gethostname(char* buffer, std::size_t bytes) noexcept {
  return with_bytes(buffer, bytes,
                    [&](void* to) { return original().gethostname(static_cast<char*>(to), bytes); });
}
int uname(utsname* name) noexcept {
  return with_value(name, [&](utsname* to) { return original().uname(to); });
}
int getrusage(__rusage_who_t who, rusage* usage) noexcept {
  return with_value(usage, [&](rusage* to) { return original().getrusage(who, to); });
}
clock_t times(tms* used) noexcept {
  return with_value(used, [&](tms* to) { return original().times(to); });
}
ssize_t getrandom(void* buffer, std::size_t bytes, unsigned flags) {
  if (!is_shared(buffer)) return original().getrandom(buffer, bytes, flags);
  return take(
      OnePart(buffer, bytes).parts(),
      [&](char* to, std::size_t wanted, std::size_t) { return original().getrandom(to, wanted, flags); },
      kAlways);
}
int pipe(int* ends) noexcept {
  return with_bytes(ends, 2 * sizeof *ends, [&](void* to) { return original().pipe(static_cast<int*>(to)); });
}
int pipe2(int* ends, int flags) noexcept {
  return with_bytes(ends, 2 * sizeof *ends,
                    [&](void* to) { return original().pipe2(static_cast<int*>(to), flags); });
}
int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  return with_bytes(ends, 2 * sizeof *ends, [&](void* to) {
    return original().socketpair(domain, type, protocol, static_cast<int*>(to));
  });
}
int poll(pollfd* fds, nfds_t count, int timeout) {
  return with_bytes(fds, count * sizeof *fds,
                    [&](void* to) { return original().poll(static_cast<pollfd*>(to), count, timeout); });
}

int open(const char* path, int flags, ...) {  // NOLINT: as the C library declares it
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return original().open(Name(path), flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {  // NOLINT
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return original().openat(directory, Name(path), flags, mode);
}
int creat(const char* path, mode_t mode) {
  return original().creat(Name(path), mode);
}
std::FILE* fopen(const char* path, const char* mode) {
  return original().fopen(Name(path), Name(mode));
}
std::FILE* freopen(const char* path, const char* mode, std::FILE* file) {
  return original().freopen(Name(path), Name(mode), file);
}
DIR* opendir(const char* path) {
  return original().opendir(Name(path));
}
int access(const char* path, int mode) noexcept {
  return original().access(Name(path), mode);
}
int unlink(const char* path) noexcept {
  return original().unlink(Name(path));
}
int remove(const char* path) noexcept {
  return original().remove(Name(path));
}
int rename(const char* from, const char* to) noexcept {
  return original().rename(Name(from), Name(to));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return original().mkdir(Name(path), mode);
}
int rmdir(const char* path) noexcept {
  return original().rmdir(Name(path));
}
int chdir(const char* path) noexcept {
  return original().chdir(Name(path));
}
int truncate(const char* path, off_t bytes) noexcept {
  return original().truncate(Name(path), bytes);
}
int system(const char* command) {
  if (!is_shared(command)) return original().system(command);
  const auto copy = private_string(command);
  return copy == nullptr ? -1 : original().system(copy.get());
}
std::FILE* popen(const char* command, const char* mode) {
  if (!any_shared(command, mode)) return original().popen(command, mode);
  const auto copy = private_string(command);
  return copy == nullptr ? nullptr : original().popen(copy.get(), Name(mode));
}

// The original ends the program where the compiler knows that the buffer is too small.
ssize_t __read_chk(int fd, void* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::read(fd, buffer, bytes)
                                            : original().__read_chk(fd, buffer, bytes, room);
}
ssize_t __pread_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::pread(fd, buffer, bytes, offset)
                                            : original().__pread_chk(fd, buffer, bytes, offset, room);
}
ssize_t __recv_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::recv(fd, buffer, bytes, flags)
                                            : original().__recv_chk(fd, buffer, bytes, room, flags);
}
ssize_t __recvfrom_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags,  // NOLINT
                       sockaddr* from, socklen_t* from_bytes) {
  return any_shared(buffer, from, from_bytes) && bytes <= room
             ? ::recvfrom(fd, buffer, bytes, flags, from, from_bytes)
             : original().__recvfrom_chk(fd, buffer, bytes, room, flags, from, from_bytes);
}
std::size_t __fread_chk(void* buffer, std::size_t room, std::size_t size, std::size_t count,  // NOLINT
                        std::FILE* file) {
  return is_shared(buffer) && product(size, count) <= room
             ? ::fread(buffer, size, count, file)
             : original().__fread_chk(buffer, room, size, count, file);
}
std::size_t __fread_unlocked_chk(void* buffer, std::size_t room, std::size_t size,  // NOLINT
                                 std::size_t count, std::FILE* file) {
  return is_shared(buffer) && product(size, count) <= room
             ? ::fread_unlocked(buffer, size, count, file)
             : original().__fread_unlocked_chk(buffer, room, size, count, file);
}
ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return bytes <= room ? ::readlink(path, buffer, bytes)
                       : original().__readlink_chk(path, buffer, bytes, room);
}
char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::getcwd(buffer, bytes)
                                            : original().__getcwd_chk(buffer, bytes, room);
}
int __gethostname_chk(char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::gethostname(buffer, bytes)
                                            : original().__gethostname_chk(buffer, bytes, room);
}
int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t room) {  // NOLINT
  return is_shared(fds) && count * sizeof *fds <= room ? ::poll(fds, count, timeout)
                                                       : original().__poll_chk(fds, count, timeout, room);
}
int __open_2(const char* path, int flags) {  // NOLINT
  return original().__open_2(Name(path), flags);
}
int __openat_2(int directory, const char* path, int flags) {  // NOLINT
  return original().__openat_2(directory, Name(path), flags);
}

// The names of programs that were compiled for large files: offsets and records are the same with and without.
static_assert(sizeof(off_t) == sizeof(off64_t) && sizeof(struct stat) == sizeof(struct stat64));
#define BRAID_SAME(name) __attribute__((alias(#name)))
ssize_t pread64(int fd, void* buffer, std::size_t bytes, off64_t offset) BRAID_SAME(pread);
ssize_t preadv64(int fd, const iovec* parts, int count, off64_t offset) BRAID_SAME(preadv);
ssize_t pwrite64(int fd, const void* buffer, std::size_t bytes, off64_t offset) BRAID_SAME(pwrite);
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) BRAID_SAME(pwritev);
int open64(const char* path, int flags, ...) BRAID_SAME(open);                     // NOLINT
int openat64(int directory, const char* path, int flags, ...) BRAID_SAME(openat);  // NOLINT
int creat64(const char* path, mode_t mode) BRAID_SAME(creat);
std::FILE* fopen64(const char* path, const char* mode) BRAID_SAME(fopen);
std::FILE* freopen64(const char* path, const char* mode, std::FILE* file) BRAID_SAME(freopen);
int truncate64(const char* path, off64_t bytes) noexcept BRAID_SAME(truncate);
ssize_t __pread64_chk(int fd, void* buffer, std::size_t bytes, off64_t offset,  // NOLINT
                      std::size_t room) BRAID_SAME(__pread_chk);
int __open64_2(const char* path, int flags) BRAID_SAME(__open_2);                     // NOLINT
int __openat64_2(int directory, const char* path, int flags) BRAID_SAME(__openat_2);  // NOLINT
#undef BRAID_SAME
int stat64(const char* path, struct stat64* status) noexcept {
  return ::stat(path, reinterpret_cast<struct stat*>(status));
}
int lstat64(const char* path, struct stat64* status) noexcept {
  return ::lstat(path, reinterpret_cast<struct stat*>(status));
}
int fstat64(int fd, struct stat64* status) noexcept {
  return ::fstat(fd, reinterpret_cast<struct stat*>(status));
}
int fstatat64(int directory, const char* path, struct stat64* status, int flags) noexcept {
  return ::fstatat(directory, path, reinterpret_cast<struct stat*>(status), flags);
}

}  // extern "C"
#pragma GCC visibility pop
