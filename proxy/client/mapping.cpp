#include "proxy/client/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/system_error.h"

namespace braid::proxy {

Result<Mapping> Mapping::of(int fd, std::size_t bytes, Access access) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return error("{}", cause_and_cure(errno));
  // Beyond the end of a file its pages would be there, and a read of them a SIGBUS.
  if (status.st_size < static_cast<off_t>(bytes))
    return error("it has {} bytes, {} were expected", status.st_size, bytes);
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return error("{}", cause_and_cure(errno));
  Mapping mapping;
  mapping.begin_ = static_cast<std::byte*>(memory);
  mapping.bytes_ = bytes;
  return mapping;
}

Mapping::~Mapping() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

}  // namespace braid::proxy
