// Clones of cluster 0's program for the other clusters (main_once.h).
#pragma once

#include <sys/types.h>

namespace braid::dsm::once {

// Facts from before main() that cluster 0's program remembers.
struct Origin {
  int socket = -1;  // to the warden; -1: the program was not started so
  pid_t warden = 0;
  unsigned clusters = 1;  // of this host
  // Where other hosts have clusters:
  int courier = -1;  // socket to it (courier.h)
  int image = -1;    // the file that it carries
};

// Returns in every process, on every host: the number of its cluster. Ends the process with a message if the places of the other
// clusters cannot be had. Closes the origin's descriptors.
unsigned clone_program(const Origin& origin);

}  // namespace braid::dsm::once
