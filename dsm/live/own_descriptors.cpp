#include "dsm/live/own_descriptors.h"

#include <sys/stat.h>

#include "dsm/program/failure.h"

namespace braid::dsm {

void fail_for_closed_descriptor(const char* what) {
  fail(
      "the program has closed a descriptor of the runtime, {}: close only what the program opened, not all numbers "
      "(closefrom(), close_range())",
      what);
}

void OwnDescriptors::add(int fd, const char* what) {
  struct stat status {};
  if (fd >= 0 && ::fstat(fd, &status) == 0) own_.push_back({fd, what, status.st_dev, status.st_ino});
}

const char* OwnDescriptors::lost() const {
  for (const Own& own : own_) {
    struct stat status {};
    if (::fstat(own.fd, &status) != 0 || status.st_dev != own.device || status.st_ino != own.file)
      return own.what;
  }
  return nullptr;
}

}  // namespace braid::dsm
