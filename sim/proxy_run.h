// One proxy in virtual time: the production worker, the single queue of
// its work, its queues of the NIs, and how long it is busy. It is the
// worker's stage meter: it converts the worker's stages into cycles.
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

// The figures of one proxy, over the measured time.
struct ProxyFigures {
  Duration busy{};
  QueueHistory queue;  // over the measured time, with the item in service; credits and acknowledgements too
  Duration stay{};     // of messages, summed: waiting, and in service until they leave
  std::uint64_t messages = 0;  // from compute nodes, and credits
  std::uint64_t records = 0;   // of these: the messages of a train share one
  std::uint64_t frames_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t timers = 0;
  StageCycles stages{};  // the components of `busy`, in cycles of a compute node
};

// A frame in flight, except its bytes, which are in the pool.
struct Frame {
  std::uint32_t length = 0;
  ClusterId to;
  std::uint8_t to_proxy = 0;
  std::uint8_t from_ni = 0;
  std::uint8_t to_ni = 0;
  FrameShape shape;
  std::uint32_t messages = 0;  // that are complete with it: of a datagram's fragments the last has all
  std::uint32_t ahead = 0;     // in the receiving proxy's queue
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
  // The description of a buffer that was taken from the pool itself.
  Frame& admit(std::uint32_t number) {
    if (frames_.size() <= number) frames_.resize(number + 1);
    return frames_[number];
  }
  void give(std::uint32_t number) { pool_.give(number); }
  std::byte* data(std::uint32_t number) const { return pool_.data(number); }
  FramePool& pool() { return pool_; }
  Frame& operator[](std::uint32_t number) { return frames_[number]; }

 private:
  FramePool pool_;
  std::vector<Frame> frames_;
};

// A delivered record, or a credit, until its stages have ended.
struct Arrival {
  ClusterId source;
  proxy::PortCell* cell = nullptr;  // set for a credit
  Position position;                // where the message begins, or what the credit grants
  std::uint32_t ahead = 0;
  Instant left, on_link, arrived, taken, delivered;
};

// Shared by all proxies of an ICCS.
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
  const Duration notice;  // from a delivery until a compute node's handler starts
  Frames frames;
  MessageLog log;
  bool measuring = false;
  bool last_in_first_out = false;  // a mutant of the model
};

class ProxyRun final : private VirtualNic::Wire {
 public:
  static constexpr bool kCountsMessages = true;  // see proxy/daemon/stage_meter.h

  class Owner {
   public:
    // Called after each unit of work: the worker may have sent events to the control
    // plane, freed room for its client, or left work for other proxies of its node.
    virtual void worked(ProxyRun& proxy) = 0;
    // This proxy does not serve the message's lane any more, or not at present.
    virtual void not_taken(ProxyRun& proxy, MessageLog::Index message) = 0;

   protected:
    ~Owner() = default;
  };

  ProxyRun(IccsShared& shared, Owner& owner, ClusterId cluster, unsigned index)
      : shared_(shared), owner_(owner), cluster_(cluster), index_(index) {}
  // Called before all others.
  void start(proxy::Worker& worker) { worker_ = &worker; }
  std::unique_ptr<proxy::NicQueue> make_nic(LinkId link);

  ClusterId cluster() const { return cluster_; }
  unsigned index() const { return index_; }
  proxy::Worker& worker() { return *worker_; }

  // Work enters its queue: kMessageArrives (item: in the log), kFrameArrives (item: a frame), or kTimer.
  void enqueue(EventKind kind, std::uint32_t item);
  // Its worker has work for which there is no ticket: commands, or work that other proxies left.
  void poke();
  // Its timer may have expired.
  void on_timer();
  void on_service_ends();
  // The proxy executes nothing until then: its queue grows.
  void stop(Instant until);
  void resume();
  bool is_stopped() const { return shared_.events.now() < stopped_until_; }
  bool busy() const { return busy_; }
  const Arrival& next_arrival() const { return arrivals_.front(); }
  void drop_arrival() { arrivals_.pop_front(); }

  void count_queue();
  void start_measuring() { count_queue(); }
  void restart_measuring() {
    count_queue();
    figures_ = {};
  }
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
    std::uint64_t number = 0;  // of the message, of a train's last one; 0: no message
    // By which the queue is longer: of a train, all messages; of a frame or a credit, 1; of a rest, none.
    std::uint32_t things = 0;
    std::uint32_t messages = 0;  // of these, without credits, acknowledgements and what is not complete yet
  };

  std::uint32_t queued() const { return waiting_ + (busy_ ? in_service_.things : 0); }
  bool rest_in_service() const { return busy_ && in_service_.kind == EventKind::kTimer; }
  // Describes the queue that the messages of a ticket find.
  void enter(MessageLog::Index first, Ticket& ticket);
  void serve();
  void arm_timer();
  // Frames leave when the stages that send them are over.
  void transmit(const VirtualNic& from, std::span<const FrameRef> frames) override;
  void push_arrival(const Arrival& arrival);
  // Counts the stages and lets their time pass.
  void spend(const Service& service);

  IccsShared& shared_;
  Owner& owner_;
  const ClusterId cluster_;
  const unsigned index_;
  proxy::Worker* worker_ = nullptr;
  std::deque<Ticket> queue_;
  std::uint32_t waiting_ = 0;           // things of queue_
  std::uint32_t waiting_messages_ = 0;  // of these
  bool busy_ = false;
  Ticket in_service_;
  Instant until_;                     // end of the stages so far
  Instant messages_until_;            // of those of the messages in service: an acknowledgement may follow
  Instant timer_ = Instant::never();  // the one whose event is pushed
  bool rest_queued_ = false;          // the queue holds a ticket of kTimer
  Instant stopped_until_;
  std::uint8_t fragments_to_ = 0;         // the proxy that the last first fragment was sent to
  std::uint32_t fragments_messages_ = 0;  // what its datagram brings
  std::deque<Arrival> arrivals_;
  ProxyFigures figures_;
  Instant counted_until_;  // end of the time that figures_.queue covers
};

}  // namespace braid::sim
