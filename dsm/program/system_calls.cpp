// Calls of the C library whose memory the kernel reads or writes, interposed: shared memory works in them like private
// memory. The kernel does not wait for a page, and another cluster's write could always take a page away between
// preparation and call; so the bytes go through private memory, and the copies fault like any access of the program.
//
// A call that has no shared memory goes on to the C library (or to a sanitizer before it) with one comparison for each
// pointer. Calls in which the C library itself copies (fgets(), getline(), fscanf(), sprintf()) need nothing.
#include "dsm/program/system_calls.h"

#undef _FORTIFY_SOURCE  // its inline functions would have the names that are defined here

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/timespec.h"
#include "dsm/program/heap.h"
#include "dsm/program/shared_arguments.h"

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
}

#define BRAID_EACH_BYTE_CALL(X) \
  X(read)                       \
  X(pread)                      \
  X(readv)                      \
  X(preadv)                     \
  X(preadv2)                    \
  X(recv)                       \
  X(recvfrom)                   \
  X(recvmsg)                    \
  X(recvmmsg)                   \
  X(write)                      \
  X(pwrite)                     \
  X(writev)                     \
  X(pwritev)                    \
  X(pwritev2)                   \
  X(send)                       \
  X(sendto)                     \
  X(sendmsg)                    \
  X(sendmmsg)                   \
  X(fread)                      \
  X(fread_unlocked)             \
  X(fwrite)                     \
  X(fwrite_unlocked)            \
  X(fputs)                      \
  X(fputs_unlocked)             \
  X(puts)                       \
  X(setvbuf)                    \
  X(setbuffer)                  \
  X(setbuf)                     \
  X(getrandom)                  \
  X(getentropy)                 \
  X(getdents64)                 \
  X(eventfd_read)               \
  X(sendfile)                   \
  X(copy_file_range)            \
  X(splice)                     \
  X(msgsnd)                     \
  X(msgrcv)                     \
  X(semop)                      \
  X(__read_chk)                 \
  X(__pread_chk)                \
  X(__recv_chk)                 \
  X(__recvfrom_chk)             \
  X(__fread_chk)                \
  X(__fread_unlocked_chk)

BRAID_EACH_BYTE_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_BYTE_CALL)
#pragma GCC diagnostic pop

// Pages of the shared heap; 0: there is none. Any thread may make a call at any time, also while the host comes or goes.
constinit std::atomic<std::uint32_t> shared_pages{0};

bool any_part_shared(const iovec* parts, std::size_t count) {
  if (is_shared(parts)) return true;
  return std::any_of(parts, parts + count, [](const iovec& part) { return is_shared(part.iov_base); });
}

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
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0;
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
// With flags of preadv2(2); offset -1: at the file's position.
ssize_t preadv2_parts(int fd, Parts parts, off_t offset, int flags) {
  return take(
      parts,
      [&](char* to, std::size_t bytes, std::size_t taken) {
        Unshared<iovec> part;
        *part.make() = {to, bytes};
        return original().preadv2(fd, part.get(), 1, offset < 0 ? offset : offset + static_cast<off_t>(taken),
                                  flags);
      },
      [&] { return offset >= 0 || has_more(fd); });
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

ssize_t pwritev2_parts(int fd, Parts parts, off_t offset, int flags) {
  return give(parts, [&](const char* from, std::size_t bytes, std::size_t given) {
    Unshared<iovec> part;
    *part.make() = {const_cast<char*>(from), bytes};
    return original().pwritev2(fd, part.get(), 1, offset < 0 ? offset : offset + static_cast<off_t>(given),
                               flags);
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

// --- Streams

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
  Header(const msghdr& theirs, std::span<char> all) : control_(theirs.msg_controllen) {
    given_.make()->header = theirs;
    given_->part = {all.data(), all.size()};
    header().msg_iov = &given_->part;
    header().msg_iovlen = 1;
    if (theirs.msg_name != nullptr) {
      name_bytes_ = std::min<socklen_t>(theirs.msg_namelen, sizeof given_->name);
      std::memcpy(&given_->name, theirs.msg_name, name_bytes_);
      header().msg_name = &given_->name;
      header().msg_namelen = name_bytes_;
    }
    if (theirs.msg_control != nullptr && control_.is_there()) {
      std::memcpy(control_.data(), theirs.msg_control, control_.size());
      header().msg_control = control_.data();
      header().msg_controllen = control_.size();
    }
  }

  bool is_there() const { return control_.is_there(); }
  msghdr* get() { return &header(); }
  // Copies all that a receiving call has written, except for the parts.
  void copy_results_to(msghdr& theirs) {
    if (theirs.msg_name != nullptr)
      std::memcpy(theirs.msg_name, &given_->name, std::min(name_bytes_, header().msg_namelen));
    if (theirs.msg_control != nullptr)
      std::memcpy(theirs.msg_control, control_.data(), std::min(control_.size(), header().msg_controllen));
    theirs.msg_namelen = header().msg_namelen;
    theirs.msg_controllen = header().msg_controllen;
    theirs.msg_flags = header().msg_flags;
  }

 private:
  struct ForKernel {
    msghdr header;
    iovec part;
    sockaddr_storage name;
  };
  msghdr& header() { return given_->header; }

  Unshared<ForKernel> given_;
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

bool are_shared(const mmsghdr* messages, unsigned count) {
  return is_shared(messages) ||
         std::any_of(messages, messages + count, [](const mmsghdr& m) { return has_shared(&m.msg_hdr); });
}

// What a call returns for a message that it does not want any more.
constexpr ssize_t kNoMore = -2;
// Of so many that are called one after the other: how many came before the first that failed; -1 if none did.
template <class Call>
int each_message(std::span<mmsghdr> messages, Call&& call) {
  int count = 0;
  for (mmsghdr& message : messages) {
    const ssize_t n = call(message.msg_hdr);
    if (n == kNoMore) break;
    if (n < 0) return count > 0 ? count : -1;
    message.msg_len = static_cast<unsigned>(n);
    ++count;
  }
  return count;
}

// As the kernel: looks at the time between two messages.
int receive_messages(int fd, std::span<mmsghdr> messages, int flags, timespec* timeout) {
  const Instant deadline = timeout == nullptr ? Instant::never() : monotonic_now() + to_duration(*timeout);
  bool is_first = true;
  const int received = each_message(messages, [&](msghdr& header) -> ssize_t {
    if (!is_first && monotonic_now() >= deadline) return kNoMore;
    if (!is_first && (flags & MSG_WAITFORONE) != 0) flags |= MSG_DONTWAIT;
    is_first = false;
    return ::recvmsg(fd, &header, flags & ~MSG_WAITFORONE);
  });
  if (timeout != nullptr) *timeout = to_timespec(std::max(deadline - monotonic_now(), Duration{}));
  return received;
}

ssize_t send_message(int fd, const msghdr* message, int flags) {
  Parts parts(message->msg_iov, message->msg_iovlen);
  Room room(parts.left());
  if (!room.is_there()) return -1;
  parts.copy_to(room.data(), room.size());
  Header header(*message, {room.data(), room.size()});
  return header.is_there() ? original().sendmsg(fd, header.get(), flags) : -1;
}

}  // namespace

bool is_shared(const volatile void* memory) {
  return in_heap(reinterpret_cast<std::uintptr_t>(memory), shared_pages.load(std::memory_order_relaxed));
}

namespace {

// What a call has returned that is made in its own cluster alone.
template <class Result>
Result moved(const char* call, int fd, Result result) {
  if (result < 0 && errno == EBADF && fd >= 0 && elsewhere != nullptr) {
    elsewhere->refuse(call, fd);
    errno = EBADF;
  }
  return result;
}

// Memory of all clusters while it lives.
class Bounce {
 public:
  explicit Bounce(std::size_t bytes) : memory_(static_cast<char*>(elsewhere->allocate(bytes + 1))) {}
  ~Bounce() { elsewhere->free(memory_); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  char* get() const { return memory_; }

 private:
  char* const memory_;
};

// What a call that brings bytes has returned, or what use(memory, bytes) does where the descriptor is open.
template <class Use>
ssize_t brought(const char* call, int fd, ssize_t result, Parts parts, Use use) {
  if (!may_be_elsewhere(result, fd)) return result;
  const Bounce copy(parts.left());
  errno = EBADF;
  const ssize_t n =
      where_open(call, fd, result, [=, to = copy.get(), bytes = parts.left()] { return use(to, bytes); });
  const int error = errno;
  if (n > 0) parts.fill(copy.get(), std::min(static_cast<std::size_t>(n), parts.left()));
  errno = error;
  return n;
}
// The same of a call that takes bytes.
template <class Use>
ssize_t taken(const char* call, int fd, ssize_t result, Parts parts, Use use) {
  if (!may_be_elsewhere(result, fd)) return result;
  const std::size_t bytes = parts.left();
  const Bounce copy(bytes);
  parts.copy_to(copy.get(), bytes);
  errno = EBADF;
  return where_open(call, fd, result, [=, from = copy.get()] { return use(from, bytes); });
}

// --- Slots of private memory

constexpr std::size_t kSlots = 128;  // each of a cluster's threads has one or two calls at once
using Slot = std::array<std::byte, kSlotBytes>;
alignas(std::max_align_t) constinit std::array<Slot, kSlots> slots{};
constinit std::array<std::atomic<bool>, kSlots> are_taken{};

}  // namespace

void* take_slot() {
  for (std::size_t i = 0; i < kSlots; ++i)
    if (!are_taken[i].load(std::memory_order_relaxed) &&
        !are_taken[i].exchange(true, std::memory_order_acquire))
      return slots[i].data();
  return nullptr;
}

void give_slot(void* slot) {
  const std::ptrdiff_t i = static_cast<Slot*>(slot) - slots.data();
  are_taken[static_cast<std::size_t>(i)].store(false, std::memory_order_release);
}

std::vector<const char*> interposed_calls() {
  std::vector<const char*> all;
  for (const NamesOfCalls names :
       {NamesOfCalls(kNamesOfCalls), descriptor_calls(), name_calls(), process_calls()})
    all.insert(all.end(), names.begin(), names.end());
  return all;
}

void begin_sharing(std::uint32_t pages) {
  for (const auto& link : {descriptor_calls, name_calls, process_calls, refused_calls, open_calls})
    (void)link();
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
  const OnePart part(buffer, bytes);
  const ssize_t n = is_shared(buffer) ? read_parts(fd, part.parts()) : original().read(fd, buffer, bytes);
  return brought("read()", fd, n, part.parts(),
                 [=](char* to, std::size_t wanted) { return ::read(fd, to, wanted); });
}
ssize_t pread(int fd, void* buffer, std::size_t bytes, off_t offset) {
  const OnePart part(buffer, bytes);
  const ssize_t n =
      is_shared(buffer) ? pread_parts(fd, part.parts(), offset) : original().pread(fd, buffer, bytes, offset);
  return brought("pread()", fd, n, part.parts(),
                 [=](char* to, std::size_t wanted) { return ::pread(fd, to, wanted, offset); });
}
ssize_t readv(int fd, const iovec* parts, int count) {
  if (count <= 0 || count > IOV_MAX) return original().readv(fd, parts, count);
  const Parts all(parts, static_cast<std::size_t>(count));
  const ssize_t n = any_part_shared(parts, static_cast<std::size_t>(count))
                        ? read_parts(fd, all)
                        : original().readv(fd, parts, count);
  return brought("readv()", fd, n, all, [=](char* to, std::size_t wanted) { return ::read(fd, to, wanted); });
}
ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  if (count <= 0 || count > IOV_MAX) return original().preadv(fd, parts, count, offset);
  const Parts all(parts, static_cast<std::size_t>(count));
  const ssize_t n = any_part_shared(parts, static_cast<std::size_t>(count))
                        ? pread_parts(fd, all, offset)
                        : original().preadv(fd, parts, count, offset);
  return brought("preadv()", fd, n, all,
                 [=](char* to, std::size_t wanted) { return ::pread(fd, to, wanted, offset); });
}
ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return moved("preadv2()", fd, original().preadv2(fd, parts, count, offset, flags));
  return moved("preadv2()", fd, preadv2_parts(fd, {parts, static_cast<std::size_t>(count)}, offset, flags));
}
ssize_t recvfrom(int fd, void* buffer, std::size_t bytes, int flags, sockaddr* from, socklen_t* from_bytes) {
  const OnePart part(buffer, bytes);
  const auto received = [=](ssize_t n) {
    if (from != nullptr) return moved("recvfrom()", fd, n);
    return brought("recvfrom()", fd, n, part.parts(),
                   [=](char* to, std::size_t wanted) { return ::recv(fd, to, wanted, flags); });
  };
  if (!any_shared(buffer, from, from_bytes))
    return received(original().recvfrom(fd, buffer, bytes, flags, from, from_bytes));
  Unshared<sockaddr_storage> address;
  address.make();
  const socklen_t address_room =
      from_bytes == nullptr ? 0 : std::min<socklen_t>(*from_bytes, sizeof *address);
  Unshared<socklen_t> address_bytes;
  *address_bytes.make() = address_room;
  const ssize_t n = receive_parts(part.parts(), flags, [&](char* to, std::size_t wanted) {
    return original().recvfrom(fd, to, wanted, flags,
                               from == nullptr ? nullptr : reinterpret_cast<sockaddr*>(address.get()),
                               from == nullptr ? nullptr : address_bytes.get());
  });
  if (n >= 0 && from != nullptr && from_bytes != nullptr) {
    std::memcpy(from, address.get(), std::min(address_room, *address_bytes));
    *from_bytes = *address_bytes;
  }
  return received(n);
}
ssize_t recv(int fd, void* buffer, std::size_t bytes, int flags) {
  const OnePart part(buffer, bytes);
  const ssize_t n = is_shared(buffer) ? receive_parts(part.parts(), flags,
                                                      [&](char* to, std::size_t wanted) {
                                                        return original().recv(fd, to, wanted, flags);
                                                      })
                                      : original().recv(fd, buffer, bytes, flags);
  return brought("recv()", fd, n, part.parts(),
                 [=](char* to, std::size_t wanted) { return ::recv(fd, to, wanted, flags); });
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (message == nullptr || !has_shared(message))
    return moved("recvmsg()", fd, original().recvmsg(fd, message, flags));
  return moved("recvmsg()", fd, receive_message(fd, message, flags));
}
int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  if (!are_shared(messages, count) && !is_shared(timeout))
    return original().recvmmsg(fd, messages, count, flags, timeout);
  return receive_messages(fd, {messages, count}, flags, timeout);
}

ssize_t write(int fd, const void* buffer, std::size_t bytes) {
  const OnePart part(buffer, bytes);
  const ssize_t n = is_shared(buffer) ? write_parts(fd, part.parts()) : original().write(fd, buffer, bytes);
  return taken("write()", fd, n, part.parts(),
               [=](const char* from, std::size_t offered) { return ::write(fd, from, offered); });
}
ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const OnePart part(buffer, bytes);
  const ssize_t n = is_shared(buffer) ? pwrite_parts(fd, part.parts(), offset)
                                      : original().pwrite(fd, buffer, bytes, offset);
  return taken("pwrite()", fd, n, part.parts(),
               [=](const char* from, std::size_t offered) { return ::pwrite(fd, from, offered, offset); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  if (count <= 0 || count > IOV_MAX) return original().writev(fd, parts, count);
  const Parts all(parts, static_cast<std::size_t>(count));
  const ssize_t n = any_part_shared(parts, static_cast<std::size_t>(count))
                        ? write_parts(fd, all)
                        : original().writev(fd, parts, count);
  return taken("writev()", fd, n, all,
               [=](const char* from, std::size_t offered) { return ::write(fd, from, offered); });
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  if (count <= 0 || count > IOV_MAX) return original().pwritev(fd, parts, count, offset);
  const Parts all(parts, static_cast<std::size_t>(count));
  const ssize_t n = any_part_shared(parts, static_cast<std::size_t>(count))
                        ? pwrite_parts(fd, all, offset)
                        : original().pwritev(fd, parts, count, offset);
  return taken("pwritev()", fd, n, all,
               [=](const char* from, std::size_t offered) { return ::pwrite(fd, from, offered, offset); });
}
ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  if (count <= 0 || count > IOV_MAX || !any_part_shared(parts, static_cast<std::size_t>(count)))
    return moved("pwritev2()", fd, original().pwritev2(fd, parts, count, offset, flags));
  return moved("pwritev2()", fd, pwritev2_parts(fd, {parts, static_cast<std::size_t>(count)}, offset, flags));
}
ssize_t sendto(int fd, const void* buffer, std::size_t bytes, int flags, const sockaddr* to,
               socklen_t to_bytes) {
  const OnePart part(buffer, bytes);
  const auto sent = [=](ssize_t n) {
    if (to != nullptr) return moved("sendto()", fd, n);
    return taken("sendto()", fd, n, part.parts(),
                 [=](const char* from, std::size_t offered) { return ::send(fd, from, offered, flags); });
  };
  if (!any_shared(buffer, to)) return sent(original().sendto(fd, buffer, bytes, flags, to, to_bytes));
  Unshared<sockaddr_storage> address;
  if (to != nullptr) std::memcpy(address.make(), to, std::min<std::size_t>(to_bytes, sizeof *address));
  return sent(give(part.parts(), [&](const char* from, std::size_t offered, std::size_t) {
    return original().sendto(fd, from, offered, flags,
                             to == nullptr ? nullptr : reinterpret_cast<const sockaddr*>(address.get()),
                             to_bytes);
  }));
}
ssize_t send(int fd, const void* buffer, std::size_t bytes, int flags) {
  const OnePart part(buffer, bytes);
  const ssize_t n = is_shared(buffer) ? ::sendto(fd, buffer, bytes, flags, nullptr, 0)
                                      : original().send(fd, buffer, bytes, flags);
  return taken("send()", fd, n, part.parts(),
               [=](const char* from, std::size_t offered) { return ::send(fd, from, offered, flags); });
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (message == nullptr || !has_shared(message))
    return moved("sendmsg()", fd, original().sendmsg(fd, message, flags));
  return moved("sendmsg()", fd, send_message(fd, message, flags));
}
int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  if (!are_shared(messages, count)) return original().sendmmsg(fd, messages, count, flags);
  return each_message({messages, count}, [&](const msghdr& header) { return ::sendmsg(fd, &header, flags); });
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
int fputs_unlocked(const char* text, std::FILE* file) {
  if (!is_shared(text)) return original().fputs_unlocked(text, file);
  const auto copy = private_string(text);
  return copy == nullptr ? EOF : original().fputs_unlocked(copy.get(), file);
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
void setbuffer(std::FILE* file, char* buffer, std::size_t bytes) noexcept {
  if (!is_shared(buffer)) return original().setbuffer(file, buffer, bytes);
  (void)original().setvbuf(file, nullptr, _IOFBF, bytes);
}
void setbuf(std::FILE* file, char* buffer) noexcept {
  if (!is_shared(buffer)) return original().setbuf(file, buffer);
  (void)original().setvbuf(file, nullptr, _IOFBF, BUFSIZ);
}

// --- Bytes of other kinds

ssize_t getrandom(void* buffer, std::size_t bytes, unsigned flags) {
  if (!is_shared(buffer)) return original().getrandom(buffer, bytes, flags);
  return take(
      OnePart(buffer, bytes).parts(),
      [&](char* to, std::size_t wanted, std::size_t) { return original().getrandom(to, wanted, flags); },
      kAlways);
}
int getentropy(void* buffer, std::size_t bytes) {
  ChangedBytes copy(buffer, bytes);
  return copy.is_there() ? original().getentropy(copy.as<void>(), bytes) : -1;
}
ssize_t getdents64(int fd, void* buffer, std::size_t bytes) noexcept {
  if (!is_shared(buffer)) return original().getdents64(fd, buffer, bytes);
  return take(
      OnePart(buffer, bytes).parts(),
      [&](char* to, std::size_t wanted, std::size_t) { return original().getdents64(fd, to, wanted); },
      kNever);
}
int eventfd_read(int fd, eventfd_t* value) {
  return original().eventfd_read(fd, Changed<eventfd_t>(value));
}
ssize_t sendfile(int to, int from, off_t* offset, std::size_t bytes) noexcept {
  return original().sendfile(to, from, Changed<off_t>(offset), bytes);
}
ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, std::size_t bytes,
                        unsigned flags) {
  return original().copy_file_range(from, Changed<off64_t>(from_offset), to, Changed<off64_t>(to_offset),
                                    bytes, flags);
}
ssize_t splice(int from, off64_t* from_offset, int to, off64_t* to_offset, std::size_t bytes,
               unsigned flags) {
  return original().splice(from, Changed<off64_t>(from_offset), to, Changed<off64_t>(to_offset), bytes,
                           flags);
}
// A message begins with its kind.
int msgsnd(int queue, const void* message, std::size_t bytes, int flags) {
  const GivenBytes copy(message, sizeof(long) + bytes);
  return copy.is_there() ? original().msgsnd(queue, copy.as<void>(), bytes, flags) : -1;
}
ssize_t msgrcv(int queue, void* message, std::size_t bytes, long kind, int flags) {
  ChangedBytes copy(message, sizeof(long) + bytes);
  return copy.is_there() ? original().msgrcv(queue, copy.as<void>(), bytes, kind, flags) : -1;
}
int semop(int set, sembuf* operations, std::size_t count) noexcept {
  const GivenBytes copy(operations, count * sizeof *operations);
  return copy.is_there() ? original().semop(set, const_cast<sembuf*>(copy.as<sembuf>()), count) : -1;
}

// --- Checked calls, and those for large files

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

// The names of programs that were compiled for large files: offsets are the same with and without.
static_assert(sizeof(off_t) == sizeof(off64_t));
#define BRAID_SAME(name) __attribute__((weak, alias(#name)))
ssize_t pread64(int fd, void* buffer, std::size_t bytes, off64_t offset) BRAID_SAME(pread);
ssize_t preadv64(int fd, const iovec* parts, int count, off64_t offset) BRAID_SAME(preadv);
ssize_t preadv64v2(int fd, const iovec* parts, int count, off64_t offset, int flags) BRAID_SAME(preadv2);
ssize_t pwrite64(int fd, const void* buffer, std::size_t bytes, off64_t offset) BRAID_SAME(pwrite);
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) BRAID_SAME(pwritev);
ssize_t pwritev64v2(int fd, const iovec* parts, int count, off64_t offset, int flags) BRAID_SAME(pwritev2);
ssize_t sendfile64(int to, int from, off64_t* offset, std::size_t bytes) noexcept BRAID_SAME(sendfile);
ssize_t __pread64_chk(int fd, void* buffer, std::size_t bytes, off64_t offset,  // NOLINT
                      std::size_t room) BRAID_SAME(__pread_chk);
#undef BRAID_SAME

}  // extern "C"
#pragma GCC visibility pop
