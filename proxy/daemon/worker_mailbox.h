// The rings between a worker and the control plane: commands one way, events the other.
//
// Two threads use it; each method says whose it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/local_ring.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class WorkerMailbox {
 public:
  static constexpr std::size_t kCommands = 256;
  static constexpr std::size_t kEvents = 1024;

  WorkerMailbox() { pending_.reserve(kEvents); }
  WorkerMailbox(const WorkerMailbox&) = delete;
  WorkerMailbox& operator=(const WorkerMailbox&) = delete;

  // --- the control plane's thread

  // False: full, try again.
  [[nodiscard]] bool push_command(const WorkerCommand& command) {
    return commands_.push(command) && (++commanded_, true);
  }
  // Every command so far has taken effect.
  bool caught_up() const { return obeyed_.load(std::memory_order_acquire) == commanded_; }
  [[nodiscard]] bool take_event(WorkerEvent* event) { return events_.pop(*event); }
  // Some event can be taken.
  bool has_events() const { return events_.read_available() > 0; }

  // --- the worker's thread

  bool has_commands() const { return commands_.read_available() > 0; }
  // Hands each command to obey(command); how many there were. All of them have taken effect then.
  template <class Obey>
  int take_commands(Obey&& obey) {
    int taken = 0;
    for (WorkerCommand command; commands_.pop(command); ++taken) obey(command);
    if (taken > 0) obeyed_.store(obeyed_.load(std::memory_order_relaxed) + taken, std::memory_order_release);
    return taken;
  }
  // Nothing of what was reported and not published is told any more.
  void drop_events() { pending_.clear(); }

  // The event is published when the ring has room, after those before it.
  void report(const WorkerEvent& event) { pending_.push_back(event); }
  bool any_reported() const { return !pending_.empty(); }
  void publish();
  // So many events can be told at once, now.
  bool has_room(std::size_t events) const { return pending_.empty() && events_.write_available() >= events; }
  // has_room() said so.
  void publish(const WorkerEvent& event) { CHECK(events_.push(event)); }

 private:
  LocalRing<WorkerCommand, kCommands> commands_;
  LocalRing<WorkerEvent, kEvents> events_;
  std::uint64_t commanded_ = 0;  // the control plane's
  std::atomic<std::uint64_t> obeyed_{0};
  std::vector<WorkerEvent> pending_;  // reported, the oldest first
};

inline void WorkerMailbox::publish() {
  std::size_t published = 0;
  while (published < pending_.size() && events_.push(pending_[published])) ++published;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(published));
}

}  // namespace braid::proxy
