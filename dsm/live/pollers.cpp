#include "dsm/live/pollers.h"

namespace braid::dsm {

bool Pollers::prepare_sleep(bool nobody_polled) {
  if (nobody_polled) {
    network_->arm();
    return !(nobody() && combiner_.work_is_there());
  }
  network_->disarm();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !nobody();
}

}  // namespace braid::dsm
