#include "proxy/daemon/counters_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/memory_file.h"

namespace braid::proxy {

Result<std::unique_ptr<CountersMemory>> CountersMemory::map(int given) {
  int fd = given;
  if (fd < 0) {
    const Result<int> made = make_memory_file("braid-counters", sizeof(NodeCounters), MemoryFile::kSparse);
    if (!made) return made.error();
    fd = *made;
  }
  struct stat status {};
  if (::fstat(fd, &status) == 0 && static_cast<std::uint64_t>(status.st_size) < sizeof(NodeCounters))
    return error("counters_fd {} has {} bytes: give a descriptor of {} bytes", fd, status.st_size,
                 sizeof(NodeCounters));
  void* const memory = ::mmap(nullptr, sizeof(NodeCounters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error("counters_fd {}: {}: give a descriptor of {} bytes", fd, std::strerror(errno),
                 sizeof(NodeCounters));
  std::unique_ptr<CountersMemory> mapped(new CountersMemory);
  mapped->counters_ = new (memory) NodeCounters;
  // Clients get a read-only descriptor, so they can neither write the counters nor truncate the file. Without
  // /proc they get none.
  mapped->read_only_fd_ = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (given < 0) ::close(fd);
  mapped->counters_->process = static_cast<std::uint32_t>(::getpid());
  return mapped;
}

CountersMemory::~CountersMemory() {
  ::munmap(counters_, sizeof(NodeCounters));
  if (read_only_fd_ >= 0) ::close(read_only_fd_);
}

}  // namespace braid::proxy
