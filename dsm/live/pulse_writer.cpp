#include "dsm/live/pulse_writer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "dsm/live/environment.h"

namespace braid::dsm {

PulseWriter::~PulseWriter() {
  pulse_->counts.store(0);
}

Result<void> PulseWriter::map(int fd) {
  void* const memory = ::mmap(nullptr, sizeof(Pulse), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kPulseFd, fd, std::strerror(errno));
  pulse_ = static_cast<Pulse*>(memory);
  return {};
}

}  // namespace braid::dsm
