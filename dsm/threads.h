// For programs whose loops inside a cluster run on threads of a library, such as oneTBB's workers, instead
// of those of parallel(): such a thread is adopted as a compute node, and may then access shared memory.
//
//     braid::dsm::AdoptedThread adopted(slot);   // on the library's thread, slot 1 .. nodes_per_cluster()-1
//
//     library_loop(...);                         // on the initial thread (compute node 0) and adopted ones
//     braid::dsm::barrier();                     // the initial thread, when the loop is over
//
// A library whose threads come late, as oneTBB's may, must have stopped adopting them when finish() is called.
//
// In simulation compute nodes are not threads, and no thread can be
// adopted: use run_on_cluster() for such loops; it works in a live run too.
#pragma once

#include <functional>
#include <memory>

namespace braid::dsm {

class SignalStack;

// Made and destroyed on its own thread, which must not be a compute node yet. In between the
// thread is compute node `local` of its cluster, 1 or more: the initial thread is compute node
// 0. It may access shared memory only outside parallel(), and while no other thread does so as
// the same compute node; it must not call locks or barriers. May outlive the runtime. Ends the
// process with a message if there is no such compute node, or if the thread is one already.
class AdoptedThread {
 public:
  explicit AdoptedThread(unsigned local);
  ~AdoptedThread();
  AdoptedThread(const AdoptedThread&) = delete;
  AdoptedThread& operator=(const AdoptedThread&) = delete;

 private:
  std::unique_ptr<SignalStack> stack_;
};

// Runs body(local) on every compute node of this cluster, and returns when all have returned: for
// loops inside a cluster, between barriers of all clusters' initial threads. The rules of
// parallel() hold, but locks and barriers must not be called. Initial thread, outside parallel().
void run_on_cluster(const std::function<void(unsigned local)>& body);

// Waits for the initial threads of all clusters. What they, and the threads that they waited
// for, wrote before is visible to all afterwards. Initial thread, outside parallel().
void barrier();

}  // namespace braid::dsm
