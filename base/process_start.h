// Resets process state that exec inherits: a parent can close descriptors 0 to 2, ignore and block signals, and lower
// limits. Done once, at the start of main(), or before the first file is opened.
#pragma once

#include <cstddef>

namespace braid {

// `braid run` needs more than 64 KiB and less than 128; some may be there for other machines and libraries.
inline constexpr std::size_t kLeastStackBytes = std::size_t{512} << 10;

// Opens /dev/null for each of descriptors 0 to 2 that is closed. Otherwise the next file that the process opens gets
// the number, and what is printed goes into that file. False: /dev/null cannot be opened, and errno says why.
[[nodiscard]] bool occupy_standard_descriptors();

// For main() of the project's own commands, before the first thread and the first file:
//
//   descriptors 0 to 2   open
//   blocked signals      none
//   SIGCHLD              its default: waitpid() finds no child where it is ignored
//   umask                lets the owner use the files, folders and sockets that the process makes
//   open files           the soft limit is the hard limit
//   stack                kLeastStackBytes at least
//
// Other signals that the parent ignores stay ignored (nohup). Ends the process with a message and status 70 if
// descriptors 0 to 2 or such a stack cannot be had. Children inherit all of it.
void prepare_process();

}  // namespace braid
