// Atomic words, flags, counting semaphores, condition variables and gatherings of the machine. Each has a
// home (object_names.h), which carries out one operation at a time; nodes that must wait are
// queued there. A home has one slot per compute node, because a node has one operation at a time.
// So thousands of variables cost a few bytes each, and queues of any length cost nothing more. Of a
// variable at an address nothing is kept while it is 0 and no node waits for it.
//
// Rules SY-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/zeroed_table.h"
#include "dsm/engine/locks.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/object_names.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"
#include "dsm/engine/sparse_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class SyncVariables {
 public:
  SyncVariables(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages, Locks& locks,
                const ObjectAddresses& addresses);

  // The node waits at least until the engine has handled this cluster's messages to itself.
  void begin(std::uint16_t node, const SyncCall& call);
  // The release that the node's operation waited for is complete.
  void released(std::uint16_t node);

  // Messages, also this cluster's to itself. False: the message is invalid now; nothing was changed.
  [[nodiscard]] bool on_call(ClusterId from, const Header& header, ByteView operands);
  [[nodiscard]] bool on_result(ClusterId from, const Header& header, ByteView value);

  // A queued descriptor becomes a message: writes the payload, returns its length.
  std::size_t write(ClusterId to, const Header& header, MutableBytes payload);

  // Text for the user that tells why `node` waits. Allocates.
  std::string explain(const ComputeNode& node) const;

  void check() const;
  void describe(StateSink& sink) const;

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  struct Queue {  // of slots, FIFO
    std::uint32_t first = kEnd;
    std::uint32_t last = kEnd;
  };
  // The queue of a variable that nodes wait for; the rest has a value. A gathering's: how many must come, 0 while none has.
  struct Variable {
    std::uint64_t value = 0;
    Queue waiting;
  };

  // The home's state of a compute node of any cluster.
  struct Slot {
    std::uint64_t value = 0;  // for its result
    std::uint32_t next = 0;   // while waiting: the one behind it, or kEnd
    bool waiting = false;     // in a queue
    bool registers = false;   // the answer that acknowledges this was not sent (SY-5)
    bool answered = false;    // the result was not sent
    bool busy() const { return waiting || registers || answered; }
  };

  ClusterId home(SyncOp op, std::uint32_t id) const { return keeper_of(config_, id, count_of(op)); }
  std::uint32_t slot_of(ClusterId cluster, std::uint32_t node) const {
    return global_node(config_, cluster, node);
  }
  void ask(std::uint16_t node);
  void finish_call(std::uint16_t node);
  void carry_out(SyncOp op, std::uint32_t id, std::uint32_t slot, std::uint64_t first, std::uint64_t second);
  bool gather(Variable& v, std::uint32_t id, std::uint32_t slot, std::uint64_t count);
  void answer(std::uint32_t slot, std::uint32_t id, std::uint64_t value);
  void send_result(std::uint32_t slot, std::uint32_t id, std::uint8_t format);
  void enqueue(Variable& v, std::uint32_t slot);
  bool wake_first(Variable& v, std::uint32_t id);
  void check_queue(const Variable& v, std::size_t* queued) const;
  std::size_t length(const Variable& v) const;

  const EngineConfig config_;
  const ObjectAddresses& addresses_;
  const ClusterId self_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  Pages& pages_;
  Locks& locks_;
  std::vector<Variable> words_;  // those of which this cluster is the home, by id / clusters
  std::vector<Variable> flags_;
  std::vector<Variable> semaphores_;
  std::vector<Variable> conditions_;
  std::array<SparseTable<Variable>, 5> at_addresses_;  // by Type (sync_variables.cpp)
  ZeroedTable<Slot> slots_;                            // by cluster and compute node

  std::vector<Variable>& kept(SyncOp op);
  // Of the numbered ones.
  std::uint32_t count_of(SyncOp op) const;
  // Valid until it is called for another variable at an address.
  Variable& variable(SyncOp op, std::uint32_t id);
  // Nothing is kept of a variable at an address that is in its initial state.
  void tidy(SyncOp op, std::uint32_t id);
};

}  // namespace braid::dsm
