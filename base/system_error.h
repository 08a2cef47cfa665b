// Errors of system calls as texts for the person who can mend them.
#pragma once

#include <string>

namespace braid {

// The cause, and the cure where there is a usual one: "No space left on device: make room on that file system, or
// name another". `number` is an errno.
std::string cause_and_cure(int number);

}  // namespace braid
