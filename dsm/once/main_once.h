// main() once: a program that calls start_clusters() runs main() in cluster 0 alone. `braid run` starts a process for every
// cluster as ever; before main(), when constructors run, they take these parts:
//
//   stand-in   the process that `braid run` has started for a cluster. It keeps the cluster's place: descriptors,
//              environment, process group. It ends as the cluster's program process ends.       stand_in.h
//   warden     one for each run, a child of cluster 0's stand-in and the parent of every program process: it tells the
//              stand-ins how those end, and ends those whose stand-in has gone.                  warden.h
//   program    cluster 0's runs main(). start_clusters() clones it once for every other cluster, with the descriptors
//              and the environment that the cluster's stand-in hands over.                       clone.h
//
//            braid run
//          ______|______________
//         |                     |
//     stand-in 0            stand-in 1        a socket joins each stand-in and the warden
//         |
//       warden
//       __|__________________
//      |                     |
//   program 0  - clone -  program 1
//
// On each other host of the run it is the same, with a warden of that host and, in the place of program 0, a process that waits before
// main(), becomes the image of program 0 when that calls start_clusters() (image.h, courier.h), is cloned for all clusters of the host,
// and ends:
//
//   program 0 ── image ── courier 0 ══ network ══ fetcher ── image ── program 0 there  - clone -  program 2, program 3
//
// A process that dies takes along what depends on it: programs die with the warden (the kernel's death signal), the warden
// ends a program whose stand-in's socket closes, and stand-ins end when the warden's socket closes.
//
// A program that was started without `braid run`, or on one cluster, has no such processes.
//
// In simulation there are neither stand-ins nor a warden: sim/shell/main_once.cpp. What this header declares, early_heap.h and
// Host::begin_parallel(), end_parallel() and fill() (dsm/program/host.h) are the same for both; what they need of the host before
// init() is in host.h.
#pragma once

namespace braid::dsm {

// Clones the program, whose thread must be the only one, for the other clusters. Returns in each of them: the
// number of the cluster. Private memory is a copy, of open files and stdio's streams all but descriptors 0 to 2 are
// shared with cluster 0; where clusters are on other hosts there must be none of these. Then braid::dsm::init() joins the machine, in every cluster. Initial thread, once, before
// init().
unsigned start_clusters();

}  // namespace braid::dsm
