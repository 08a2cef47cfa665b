// How the image of cluster 0's process (image.h) comes to the other hosts: over connections of the run's own nodes, which seal
// packets where the run does. The courier is a process on cluster 0's host, the fetcher one on each other host:
//
//   fetcher                          courier
//     kHello: my host's clusters ------>
//     <------ kLayout: of cluster 0's host               then both wait for the program's first CREATE
//     <------ kSize, kPart ... kPart: the image
//     kAnswer: it can be restored here -->               from all
//     <------ kGo                                        to all
//
// The program of cluster 0 tells the courier when the image is in their file, and hears from it that every host goes on (messages.h:
// kImage), or why not (kFailure). If it ends before, so does the courier, and then the fetchers. A host that cannot go on ends the run with
// its own message.
#pragma once

namespace braid::dsm::once {

// Serves cluster 0's program, at the other end of the socket, and ends. Other hosts have so many clusters.
[[noreturn]] void carry_image(int program, int file, unsigned clusters_elsewhere);

enum class Fetched { kImage, kNone };
// Fetches the image into the file, which is empty. kNone: main() has ended before it started the other clusters, or the run ends. Ends the process
// with a message if the image cannot come, or cannot be restored here.
Fetched fetch_image(int file, unsigned clusters_of_host);

// From the program of cluster 0: the image is in the file. Returns when all hosts go on; ends the process with a message if one does not.
void send_image(int courier);

}  // namespace braid::dsm::once
