#include "base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/output_file.h"
#include "base/system_error.h"

namespace braid {

Result<int> make_memory_file(const char* name, std::uint64_t bytes, MemoryFile kind, int seals) {
  const HeldWriteSignals held(false);
  const int fd = ::memfd_create(name, MFD_CLOEXEC | (seals != 0 ? MFD_ALLOW_SEALING : 0));
  if (fd < 0) return error("{}: cannot make shared memory: {}", name, cause_and_cure(errno));
  const auto length = static_cast<off_t>(bytes);
  if (::ftruncate(fd, length) == 0 &&
      (kind == MemoryFile::kSparse || bytes == 0 || ::fallocate(fd, 0, 0, length) == 0) &&
      (seals == 0 || ::fcntl(fd, F_ADD_SEALS, seals) == 0))
    return fd;
  const int problem = errno;
  ::close(fd);
  return error("{}: cannot get {} bytes of shared memory: {}", name, bytes, cause_and_cure(problem));
}

}  // namespace braid
