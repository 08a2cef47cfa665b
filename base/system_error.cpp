#include "base/system_error.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

namespace braid {
namespace {

// Null: there is no usual cure.
const char* cure(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return "make room on that file system, or name another";
    case EFBIG:
      return "raise the limit of file sizes (ulimit -f), which also holds for shared memory";
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "the whole system has too many open files: raise fs.file-max (sysctl)";
    case ENOMEM:
      return "free memory, or raise the limit of this process's memory (ulimit -v)";
    case EAGAIN:
      return "raise the limit of processes and threads (ulimit -u)";
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
      return "name a folder that exists and that this user may write in";
    case EISDIR:
      return "name a file";
    case EPIPE:
      return "its reader has closed it";
    case EIO:
      return "the device has failed; the kernel's log says more";
    default:
      return nullptr;
  }
}

}  // namespace

std::string cause_and_cure(int number) {
  const char* const mend = cure(number);
  return mend == nullptr ? std::strerror(number) : fmt::format("{}: {}", std::strerror(number), mend);
}

}  // namespace braid
