// The set of signals that a call blocks while it waits. A private copy without the signals of page faults: the kernel would
// kill the process at the next access of a handler that runs meanwhile.
#pragma once

#include <signal.h>

#include "dsm/program/program_signals.h"
#include "dsm/program/shared_arguments.h"

namespace braid::dsm {

class GivenMask {
 public:
  explicit GivenMask(const sigset_t* theirs) : is_given_(theirs != nullptr) {
    if (is_given_) *copy_.make() = without_fault_signals(*theirs);
  }
  operator const sigset_t*() const {
    return is_given_ ? copy_.get() : nullptr;
  }  // NOLINT: it stands where a set does

 private:
  bool is_given_;
  Unshared<sigset_t> copy_;
};

}  // namespace braid::dsm
