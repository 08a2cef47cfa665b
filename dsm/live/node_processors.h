// Compute nodes run on the processors that `braid run` has chosen (tools/braid/run/placement.h), but only inside parallel():
// outside it the initial thread keeps the process's set, which threads and libraries that it starts inherit, and from which they
// tell how many processors there are. Helper threads of the runtime keep it always. A thread that a bound one creates
// (pthread_create(), std::thread) gets the process's set as well.
#pragma once

#include <vector>

namespace braid::dsm {

class NodeProcessors {
 public:
  // `processors`: of compute nodes 0, 1, ...; empty: nothing is bound. The calling thread's set is the process's.
  explicit NodeProcessors(std::vector<unsigned> processors);

  // The calling thread is compute node `local`; one without a processor runs on any. Where the kernel refuses the processor a
  // line on standard error says so, once in a process. This must live until release(), or as long as the thread.
  void bind(unsigned local) const;
  // The calling thread gets the process's set again.
  void release() const;

  const std::vector<unsigned>& whole() const { return whole_; }

 private:
  const std::vector<unsigned> processors_;
  const std::vector<unsigned> whole_;
};

}  // namespace braid::dsm
