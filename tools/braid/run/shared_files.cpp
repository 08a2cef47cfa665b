#include "tools/braid/run/shared_files.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/memory_file.h"
#include "base/output_file.h"
#include "base/system_error.h"

namespace braid::cli {

Result<Descriptor> make_memory_file(const char* name, std::size_t bytes) {
  const Result<int> file = braid::make_memory_file(name, bytes, MemoryFile::kSparse);
  if (!file) return file.error();
  return Descriptor(*file);
}

Result<Descriptor> make_memory_file_of(const char* name, const std::string& text) {
  Result<Descriptor> file = make_memory_file(name, 0);
  if (!file) return file;
  if (const int problem = write_all(file->get(), text); problem != 0)
    return error("{}: cannot be written: {}", name, cause_and_cure(problem));
  (void)::lseek(file->get(), 0, SEEK_SET);
  return file;
}

std::string contents(int fd, std::size_t max_bytes) {
  const off_t end = ::lseek(fd, 0, SEEK_END);
  std::string text(end > 0 ? std::min(static_cast<std::size_t>(end), max_bytes) : 0, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

// The kernel picks a name that nobody has in the abstract namespace (a bind of the family alone).
Result<Listener> make_listener() {
  Listener listener{Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), ""};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);
  if (!listener.socket || ::bind(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return error("cannot make a control socket: {}", cause_and_cure(errno));
  length = sizeof address;
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::listen(listener.socket.get(), 64) != 0)
    return error("cannot listen on a control socket: {}", cause_and_cure(errno));
  listener.address = "@" + std::string(address.sun_path + 1, length - sizeof(sa_family_t) - 1);
  return listener;
}

std::string unique_run_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    random = static_cast<std::uint64_t>(monotonic_now().ns());
  return fmt::format("braid-{}-{:016x}", ::getpid(), random);
}

}  // namespace braid::cli
