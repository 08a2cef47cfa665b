// Which build of a program a process runs.
#pragma once

#include <cstdint>

struct dl_phdr_info;

namespace braid::dsm {

// The first 8 bytes of the build id that the linker has given the program (NT_GNU_BUILD_ID), as `readelf -n` prints them; of
// a program without one a hash of its file, which takes a millisecond for every megabyte or so. 0: neither can be read. Any
// thread.
std::uint64_t build_id();
// The same of an object that dl_iterate_phdr() tells of; 0: the linker has given it none.
std::uint64_t build_id_of(const dl_phdr_info& object);

}  // namespace braid::dsm
