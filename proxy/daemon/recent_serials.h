// Which of a peer's control messages were received: one that was sent over two paths arrives twice (CN-11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

namespace braid::proxy {

// Not on the message path.
class RecentSerials {
 public:
  // Far more than are in flight at once.
  static constexpr std::size_t kRemembered = 4096;

  // True if it was not received before.
  bool receive(std::uint32_t serial) {
    if (!known_.insert(serial).second) return false;
    order_.push_back(serial);
    if (order_.size() > kRemembered) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  void forget() {
    known_.clear();
    order_.clear();
  }

 private:
  std::set<std::uint32_t> known_;
  std::deque<std::uint32_t> order_;
};

}  // namespace braid::proxy
