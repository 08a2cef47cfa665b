// open_memstream() with its bytes in shared memory, where threads of all clusters read and free them: in the C library they are memory of
// one process. A stream that is opened before the start is in all clusters, which have one position in it, as in a file. And
// streams of fopencookie(), each of the cluster that opened it.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// Of the guard of its address. At the end of a process nobody sees what is still written.
struct Bytes {
  char** text;  // the program's
  std::size_t* size;
  char* memory;
  std::size_t room;
  std::size_t length;
  std::size_t position;
};

// As many bytes, and a zero behind them; false: no memory, as errno says.
bool make_room(Bytes& bytes, std::size_t end) {
  if (end < bytes.room) return true;
  const std::size_t room = std::max(end + 1, 2 * bytes.room);
  void* const larger = WRAPPED(realloc)(bytes.memory, room);
  if (larger == nullptr) return false;
  bytes.memory = static_cast<char*>(larger);
  ::memset(bytes.memory + bytes.room, 0, room - bytes.room);
  bytes.room = room;
  return true;
}

void tell(const Bytes& bytes) {
  *bytes.text = bytes.memory;
  *bytes.size = bytes.position;
}

ssize_t write_bytes(void* cookie, const char* from, std::size_t count) {
  if (!can_share()) return static_cast<ssize_t>(count);
  return on_private([=]() -> ssize_t {
    Bytes& bytes = *static_cast<Bytes*>(cookie);
    const Guard guard(guard_of(&bytes));
    if (!make_room(bytes, bytes.position + count)) return 0;
    ::memcpy(bytes.memory + bytes.position, from, count);
    bytes.position += count;
    bytes.length = std::max(bytes.length, bytes.position);
    tell(bytes);
    return static_cast<ssize_t>(count);
  });
}

int seek_bytes(void* cookie, off64_t* offset, int whence) {
  if (!can_share()) return errno = EBADF, -1;
  return on_private([=] {
    Bytes& bytes = *static_cast<Bytes*>(cookie);
    const Guard guard(guard_of(&bytes));
    const std::size_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? bytes.position : bytes.length;
    const off64_t to = static_cast<off64_t>(from) + *offset;
    if (to < 0) return errno = EINVAL, -1;
    if (!make_room(bytes, static_cast<std::size_t>(to))) return -1;
    bytes.position = static_cast<std::size_t>(to);
    tell(bytes);
    *offset = to;
    return 0;
  });
}

int close_bytes(void* cookie) {
  if (can_share()) WRAPPED(free)(cookie);
  return 0;
}

// --- A stream with functions

// The argument of the stream's functions. A stream at an address that a stream of another cluster has is muted, and closed: its
// functions are not called.
struct Cookie {
  void* cookie;
  cookie_io_functions_t functions;
  bool is_muted;
};

ssize_t read_cookie(void* of, char* to, std::size_t count) {
  const auto& cookie = *static_cast<const Cookie*>(of);
  return cookie.functions.read(cookie.cookie, to, count);
}
ssize_t write_cookie(void* of, const char* from, std::size_t count) {
  const auto& cookie = *static_cast<const Cookie*>(of);
  return cookie.functions.write(cookie.cookie, from, count);
}
int seek_cookie(void* of, off64_t* offset, int whence) {
  const auto& cookie = *static_cast<const Cookie*>(of);
  return cookie.functions.seek(cookie.cookie, offset, whence);
}
int close_cookie(void* of) {
  auto* const cookie = static_cast<Cookie*>(of);
  const bool has_close = !cookie->is_muted && cookie->functions.close != nullptr;
  const int result = has_close ? cookie->functions.close(cookie->cookie) : 0;
  on_private([=] { delete cookie; });
  return result;
}

FILE* open_cookie(Cookie* cookie, const char* mode) {
  const cookie_io_functions_t& functions = cookie->functions;
  return ::fopencookie(cookie, mode,
                       {.read = functions.read != nullptr ? read_cookie : nullptr,
                        .write = functions.write != nullptr ? write_cookie : nullptr,
                        .seek = functions.seek != nullptr ? seek_cookie : nullptr,
                        .close = close_cookie});
}

// No two clusters have one of the same address.
FILE* open_own(void* of, const char* mode, const cookie_io_functions_t& functions) {
  std::vector<std::pair<FILE*, Cookie*>> others;
  FILE* stream = nullptr;
  for (;;) {
    auto* const cookie = new Cookie{of, functions, false};
    stream = open_cookie(cookie, mode);
    if (stream == nullptr) delete cookie;
    if (stream == nullptr || claim(stream)) break;
    others.emplace_back(stream, cookie);
  }
  for (const auto& [other, cookie] : others) {
    cookie->is_muted = true;
    (void)::fclose(other);
  }
  return stream;
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

FILE* WRAPPED(open_memstream)(char** text, std::size_t* size) {
  auto* const bytes = static_cast<Bytes*>(WRAPPED(malloc)(sizeof(Bytes)));
  if (bytes == nullptr) return nullptr;
  *bytes = {.text = text, .size = size, .memory = nullptr, .room = 0, .length = 0, .position = 0};
  FILE* stream = nullptr;
  if (make_room(*bytes, 0)) {
    const cookie_io_functions_t functions{nullptr, write_bytes, seek_bytes, close_bytes};
    stream = on_private([=] { return open_own(bytes, "w", functions); });
  }
  if (stream == nullptr) return WRAPPED(free)(bytes->memory), WRAPPED(free)(bytes), nullptr;
  tell(*bytes);
  if (!started()) (void)::setvbuf(stream, nullptr, _IONBF, 0);
  return stream;
}

FILE* WRAPPED(fopencookie)(void* cookie, const char* mode, cookie_io_functions_t functions) {
  return on_private([=] { return open_own(cookie, mode, functions); });
}

}  // extern "C"
