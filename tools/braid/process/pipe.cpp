#include "tools/braid/process/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/system_error.h"

namespace braid::cli {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return error("cannot make a pipe: {}", cause_and_cure(errno));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace braid::cli
