// For programs whose loops inside a cluster run on threads of a library, such as oneTBB's workers, instead of
// parallel()'s: such a thread is adopted as a compute node, and may then touch shared memory.
//
//     braid::dsm::AdoptedThread adopted(slot);   // on the library's thread, slot 1 .. nodes_per_cluster()-1
//
//     library_loop(...);                         // the initial thread, as compute node 0, and adopted ones
//     braid::dsm::barrier();                     // the initial thread, when the loop is over
//
// In simulation compute nodes are no threads, and none can be adopted: run_on_cluster() divides loops there,
// as it does live.
#pragma once

#include <functional>
#include <memory>

namespace braid::dsm {

class SignalStack;

// Made and destroyed on the thread that it is for, which is no compute node yet. Between the two the thread
// stands for compute node `local` of its cluster, 1 or more: the initial thread is compute node 0. It touches
// shared memory only outside parallel(), and while no other thread does so for the same compute node; it
// takes no lock and comes to no barrier. May outlive the runtime. Ends the process with a message when there
// is no such compute node, or the thread is one already.
class AdoptedThread {
 public:
  explicit AdoptedThread(unsigned local);
  ~AdoptedThread();
  AdoptedThread(const AdoptedThread&) = delete;
  AdoptedThread& operator=(const AdoptedThread&) = delete;

 private:
  std::unique_ptr<SignalStack> stack_;
};

// Runs body(local) on every compute node of this cluster, and returns when all are through: for loops inside
// a cluster, between barriers of all clusters' initial threads. Inside it as inside parallel(), but for locks
// and barriers, which it has none of. Initial thread, outside parallel().
void run_on_cluster(const std::function<void(unsigned local)>& body);

// Waits for the initial threads of all clusters: what they, and the threads that they waited for, wrote
// before is seen by all after it. Initial thread, outside parallel().
void barrier();

}  // namespace braid::dsm
