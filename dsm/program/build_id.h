// Which build of a program a process runs.
#pragma once

#include <cstdint>

namespace braid::dsm {

// The first 8 bytes of the build id that the linker has given the program (NT_GNU_BUILD_ID), as `readelf -n` prints them; of
// a program without one a hash of its file, which takes a millisecond for every megabyte or so. 0: neither can be read. Any
// thread.
std::uint64_t build_id();

}  // namespace braid::dsm
