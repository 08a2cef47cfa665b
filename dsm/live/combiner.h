// The state that all compute nodes of a cluster share, and the lock that guards it: the page engine, the collective
// call in progress, and the network. The holder of the lock serves all nodes: it handles what has arrived, sends what
// is ready, and signals each sibling whose operation is complete (flat combining).
//
// Holders never touch the application's view of the heap, so they never fault; they allocate and log nothing.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "dsm/engine/engine.h"
#include "dsm/live/current_call.h"
#include "dsm/live/network.h"
#include "dsm/live/own_descriptors.h"
#include "dsm/live/trace.h"
#include "dsm/live/transmitter.h"
#include "dsm/live/waiting.h"
#include "dsm/program/host.h"

namespace braid::dsm {

class Combiner final : private Network::Sink {
 public:
  // `network` is null when there is one cluster only; it and `memory` outlive the combiner.
  Combiner(const Shape& shape, PageMemory& memory, Network* network);

  // The combiner lock, as std::lock_guard wants it.
  void lock() { lock_.lock(); }
  bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }

  // --- Without the lock.

  // Starts an operation of compute node `local`: operation() calls the engine and returns
  // whether it is complete. False: it is in progress, and completion(local) signals its end.
  template <class Operation>
  [[nodiscard]] bool start(unsigned local, Operation&& operation) {
    const std::lock_guard hold(*this);
    nodes_[local].completion.begin();
    const bool complete = operation();
    if (!complete) waiting_.set(local);
    send_and_signal(local);
    return complete;
  }
  // The same for an operation that always completes at once.
  template <class Operation>
  void perform(unsigned local, Operation&& operation) {
    const std::lock_guard hold(*this);
    operation();
    send_and_signal(local);
  }
  // Begins a collective call of compute node `local`, which ends it with call().end(). False: it is in progress, and
  // completion(local) signals its end.
  [[nodiscard]] bool start_call(unsigned local, const CollectiveCall& call);

  Completion& completion(unsigned local) { return nodes_[local].completion; }
  // A message has arrived, or output waits. With a network only.
  bool work_is_there() const { return network_->has_arrivals() || transmitter_.pending(); }

  // dsm/live/trace.h. A node's stamps: while its operation is in progress the combiner writes them, else the node.
  void trace(bool on) { tracing_.store(on); }
  bool tracing() const { return tracing_.load(std::memory_order_relaxed); }
  FaultStamps& stamps(unsigned local) { return nodes_[local].stamps; }

  // --- With the lock.

  Engine& engine() { return engine_; }  // without the lock for open locks only
  CurrentCall& call() { return call_; }
  // Whether compute node `local` has begun one that is in progress.
  bool calls_together(unsigned local) const { return local == calling_node_ && call_.in_progress(); }
  // Whether compute node `local` has an operation or a call in progress.
  bool waits(unsigned local) const { return waiting_[local] || calls_together(local); }
  // Handles arrived messages, up to a batch, and sends the resulting ones, as `compute_node`. False: none
  // had arrived. Ends the process if one must be refused (PG-27) or a cluster is lost. With a network only.
  bool serve(unsigned compute_node);
  // Ends the process if a cluster is lost. With a network only.
  void check_links();

  // --- Any thread.

  // Ends the process if the program has closed one of the runtime's descriptors.
  void check_descriptors() const;
  OwnDescriptors& descriptors() { return descriptors_; }  // to add to, before other threads run

 private:
  struct alignas(64) Node {
    Completion completion;
    FaultStamps stamps;
  };

  void on_message(ClusterId from, ByteView message) override;
  // Called after an operation, which may have completed siblings' ones (the last node at a barrier).
  void send_and_signal(unsigned compute_node) {
    transmitter_.send(compute_node);
    signal_complete();
  }
  void signal_complete() {
    if (waiting_.any() || call_.in_progress()) signal_waiting();
  }
  void signal_waiting();
  void signal_if_complete(unsigned local);
  bool operation_complete(unsigned local) const;
  void judge_link(ClusterId peer, const char* trouble);
  [[noreturn]] void fail_for_lost(ClusterId peer, const char* trouble) const;

  const Shape shape_;
  OwnDescriptors descriptors_;
  Network* const network_;
  CombinerLock lock_;
  // Guarded by lock_.
  Engine engine_;
  CurrentCall call_;
  unsigned calling_node_ = 0;  // the compute node that has begun it
  Transmitter transmitter_;
  std::bitset<kMaxComputeNodes> waiting_;  // compute nodes whose operation of the engine is in progress
  unsigned compute_node_ = 0;              // the compute node that serves
  std::uint32_t idle_serves_ = 0;
  Instant message_taken_;  // while tracing

  const std::unique_ptr<Node[]> nodes_;
  std::atomic<bool> tracing_{false};
};

}  // namespace braid::dsm
