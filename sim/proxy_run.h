// One proxy in virtual time: the production worker, the one queue from which it takes its work, its queues of
// the NIs, and how long it is busy. It is the worker's stage meter: stages become cycles as the worker goes
// through them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "proxy/daemon/worker.h"
#include "proxy/nic/nic_queue.h"
#include "sim/events.h"
#include "sim/frame_pool.h"
#include "sim/message_log.h"
#include "sim/queue_history.h"
#include "sim/stage_costs.h"
#include "sim/virtual_nic.h"

namespace braid::sim {

// What one proxy did while somebody measured.
struct ProxyFigures {
  Duration busy{};
  QueueHistory queue;          // with the one in service; of the time that was measured
  std::uint64_t messages = 0;  // from compute nodes, and credits
  std::uint64_t frames_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t timers = 0;
  StageCycles stages{};  // what `busy` consists of, in cycles of a compute node
};

// A frame that is on its way, beside its bytes in the pool.
struct Frame {
  std::uint32_t length = 0;
  ClusterId to;
  std::uint8_t to_proxy = 0;
  std::uint8_t from_ni = 0;
  std::uint8_t to_ni = 0;
  FrameShape shape;
  std::uint32_t ahead = 0;  // in the receiving proxy's queue
  Instant left;
  Instant on_link;
  Instant arrived;
};

class Frames {
 public:
  explicit Frames(std::uint32_t frame_bytes) : pool_(frame_bytes) {}
  std::uint32_t take() {
    const std::uint32_t number = pool_.take();
    (void)admit(number);
    return number;
  }
  // What is known of a buffer that the pool itself gave out.
  Frame& admit(std::uint32_t number) {
    if (facts_.size() <= number) facts_.resize(number + 1);
    return facts_[number];
  }
  void give(std::uint32_t number) { pool_.give(number); }
  std::byte* data(std::uint32_t number) const { return pool_.data(number); }
  FramePool& pool() { return pool_; }
  Frame& operator[](std::uint32_t number) { return facts_[number]; }

 private:
  FramePool pool_;
  std::vector<Frame> facts_;
};

// A record that lies where its connection has it, or a credit, from then on until the stages are over.
struct Arrival {
  ClusterId source;
  proxy::PortCell* cell = nullptr;  // of a credit
  Position position;                // where the message begins; what the credit grants
  std::uint32_t ahead = 0;
  Instant left, on_link, arrived, taken, delivered;
};

// What all proxies of an ICCS share.
struct IccsShared {
  IccsShared(Events& its_events, const StageCosts& its_costs, Duration its_notice, std::uint32_t frame_bytes,
             MessageLog its_log)
      : events(its_events),
        costs(its_costs),
        notice(its_notice),
        frames(frame_bytes),
        log(std::move(its_log)) {}
  Events& events;
  const StageCosts costs;
  const Duration notice;  // from a delivery until a compute node's handler does something about it
  Frames frames;
  MessageLog log;
  bool measuring = false;
  bool last_in_first_out = false;  // a mutant of the model
};

class ProxyRun final : private VirtualNic::Wire {
 public:
  class Owner {
   public:
    // After each unit of work: the worker may have told the control plane something, freed room for its
    // client, or left work for other proxies of its node.
    virtual void worked(ProxyRun& proxy) = 0;
    // The lane that the message was handed to is not this proxy's to serve, any more or for now.
    virtual void not_taken(ProxyRun& proxy, MessageLog::Index message) = 0;

   protected:
    ~Owner() = default;
  };

  ProxyRun(IccsShared& shared, Owner& owner, ClusterId cluster, unsigned index)
      : shared_(shared), owner_(owner), cluster_(cluster), index_(index) {}
  // Before anything else.
  void start(proxy::Worker& worker) { worker_ = &worker; }
  std::unique_ptr<proxy::NicQueue> make_nic(LinkId link);

  ClusterId cluster() const { return cluster_; }
  unsigned index() const { return index_; }
  proxy::Worker& worker() { return *worker_; }

  // Work comes into its queue: kMessageArrives (item: of the log), kFrameArrives (a frame), or kTimer.
  void enqueue(EventKind kind, std::uint32_t item);
  // Its worker has something to do that no ticket is for: commands, or what other proxies left it.
  void poke();
  // Its timer may have run out.
  void on_timer();
  void on_service_ends();
  // It executes nothing until then: its queue grows.
  void stop(Instant until);
  void resume();
  bool is_stopped() const { return shared_.events.now() < stopped_until_; }
  bool busy() const { return busy_; }
  Arrival take_arrival();

  void count_queue();
  void start_measuring() { count_queue(); }
  void stop_measuring(Instant end);
  const ProxyFigures& figures() const { return figures_; }

  // --- the worker's stage meter (proxy/daemon/stage_meter.h)
  void received(ByteView frame, const stack::Stack::Received& what);
  void delivered(ClusterId source, const stack::Record& record);
  bool keeps_credit(proxy::PortCell& cell, ClusterId source, Position credit);
  void taken(const proxy::Outgoing& message);

 private:
  struct Ticket {
    EventKind kind = EventKind::kTimer;
    std::uint32_t item = 0;
    std::uint64_t number = 0;  // of the message; 0: it is for none
  };

  std::uint32_t queued() const {
    return static_cast<std::uint32_t>(queue_.size()) - (rest_queued_ ? 1 : 0) +
           (busy_ && in_service_.kind != EventKind::kTimer ? 1 : 0);
  }
  bool rest_in_service() const { return busy_ && in_service_.kind == EventKind::kTimer; }
  void serve();
  void arm_timer();
  // Frames leave when the stages that send them are over.
  void transmit(const VirtualNic& from, std::span<const FrameRef> frames) override;
  void push_arrival(const Arrival& arrival);
  // The stages' time passes, and is counted.
  void spend(const Service& service);

  IccsShared& shared_;
  Owner& owner_;
  const ClusterId cluster_;
  const unsigned index_;
  proxy::Worker* worker_ = nullptr;
  std::deque<Ticket> queue_;
  bool busy_ = false;
  Ticket in_service_;
  Instant until_;                     // the stages so far end then
  Instant timer_ = Instant::never();  // that is pushed
  bool rest_queued_ = false;          // the queue holds a ticket of kTimer
  Instant stopped_until_;
  std::uint8_t fragments_to_ = 0;  // the proxy that the last first fragment went to
  std::deque<Arrival> arrivals_;
  ProxyFigures figures_;
  Instant counted_until_;  // in figures_.queue
};

}  // namespace braid::sim
