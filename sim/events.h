// The events of a simulated machine.
#pragma once

#include <cstdint>

#include <functional>
#include <queue>
#include <vector>

#include "sim/event_queue.h"

namespace braid::sim {

enum class EventKind : std::uint8_t {
  kFrameLeaves,     // proxy; item: a frame, which reaches its NI's link
  kFrameArrives,    // proxy; item: a frame, which reaches its queue
  kMessageArrives,  // proxy; item: a compute node's message, which reaches its queue
  kServiceEnds,     // proxy
  kTimer,           // proxy
  kProxyResumes,    // a stopped proxy
  kIncident,        // item: index in the configuration
  kControl,         // cluster: its control plane takes a turn
  kDelivery,        // cluster, proxy: its next arrival is visible to compute nodes
  kRoom,            // cluster: proxies have freed room in its client's channels
  kRequest,         // cluster, compute node: the page protocol receives its request
};

struct Event {
  EventKind kind;
  std::uint8_t index = 0;  // of the proxy or compute node, in the cluster
  std::uint16_t cluster = 0;
  std::uint32_t item = 0;
};

// Orders events of the same instant by their kind and owner, never by the order of their insertion: the
// order in which shells ran must not matter.
inline std::uint32_t rank(const Event& e) {
  return static_cast<std::uint32_t>(e.kind) << 20 | std::uint32_t{e.cluster} << 8 | e.index;
}

class Events {
 public:
  explicit Events(std::size_t clusters) : inside_(clusters) {}

  Instant now() const { return queue_.now(); }
  Instant next_time() const { return queue_.next_time(); }
  // The next event that may change what a cluster's compute nodes read or do.
  Instant next_inside(std::uint16_t cluster) const {
    return inside_[cluster].empty() ? Instant::never() : inside_[cluster].top();
  }
  bool empty() const { return queue_.empty(); }
  std::uint64_t happened() const { return queue_.popped(); }
  void push(Instant at, const Event& event) {
    queue_.push(at, event, rank(event));
    if (is_inside(event)) inside_[event.cluster].push(at);
  }
  Event pop() {
    const Event event = queue_.pop();
    if (is_inside(event)) inside_[event.cluster].pop();
    return event;
  }

 private:
  static bool is_inside(const Event& e) {
    return e.kind == EventKind::kDelivery || e.kind == EventKind::kRoom || e.kind == EventKind::kRequest;
  }

  EventQueue<Event> queue_;
  std::vector<std::priority_queue<Instant, std::vector<Instant>, std::greater<>>> inside_;  // by cluster
};

}  // namespace braid::sim
