// Numbers in the kernel's files about processes. Works before the C++ library's streams do.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>

namespace braid::dsm {

// The number behind `name` in a file of /proc; 0: there is none.
inline std::uint64_t number_in_file(const char* path, const char* name, int base) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[4096];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* const found = ::strstr(text, name);
  return found == nullptr ? 0 : ::strtoull(found + ::strlen(name), nullptr, base);
}

}  // namespace braid::dsm
