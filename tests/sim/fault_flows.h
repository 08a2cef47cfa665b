// The connections of a fault world and the messages that go over them: each is opened, used and closed as the
// seed says, and what arrives is compared with what was sent (tests/sim/message_stream.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/client/client.h"
#include "tests/sim/fault_nodes.h"
#include "tests/sim/flow_plan.h"
#include "tests/sim/message_stream.h"
#include "tests/sim/trouble.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

class FaultFlows {
 public:
  // The clients whose connections these are, by number.
  class Clients {
   public:
    virtual unsigned node_of(unsigned client) const = 0;
    // Of a client that is attached.
    virtual proxy::Endpoint& endpoint(unsigned client, unsigned endpoint) = 0;
    // The client ends as soon as its current call returns, and must not be used any more.
    virtual bool is_doomed(unsigned client) const = 0;
    // The client's node is still the incarnation that it attached to.
    virtual bool has_its_node(unsigned client) const = 0;
    // Sends; the rest of the world goes on while the client waits for room.
    virtual proxy::SendStatus send_waiting(unsigned client, proxy::Connection& connection, ByteView message,
                                           Duration timeout, unsigned compute_node) = 0;
    // Some client waits for something, further up on this stack.
    virtual bool anybody_waits() const = 0;

   protected:
    ~Clients() = default;
  };

  // All of them live longer.
  FaultFlows(const WorldConfig& config, Prng& random, const WorldEvents& events, WorldLog& log,
             const FaultNodes& nodes, const TroublePlanner& trouble, Clients& clients);

  // Draws all connections, between `clients` clients.
  void plan(std::size_t clients);

  bool has_flows(unsigned client) const { return !ends_[client].empty(); }
  // Some connection of the client is not over.
  bool needs(unsigned client) const;
  // The windows of all its connections.
  std::uint32_t receive_bytes(unsigned client) const;

  // A turn of an attached client: listens and connects where it is time; sends, and closes what is over. `worked`
  // is set when something was done.
  void begin(unsigned client, bool* worked);
  void advance(unsigned client, bool* worked);
  // A peer has connected to the client.
  void on_accept(unsigned client, proxy::Connection& connection);
  void on_message(unsigned client, proxy::Connection& from, ByteView message);
  // The client is gone, and its connections with it.
  void on_client_gone(unsigned client);
  // No client has connections any more.
  void forget();

  bool all_over() const;
  // Text for the user: the flows that have not ended.
  std::string unfinished() const;
  std::uint64_t messages() const { return messages_; }        // delivered
  std::uint64_t connections() const { return connections_; }  // ends of them

 private:
  struct End : FlowEndPlan {
    enum class State : std::uint8_t { kWaiting, kListening, kOpen, kClosed, kGone };
    State state = State::kWaiting;
    proxy::Connection* connection = nullptr;
    bool over() const { return state == State::kClosed || state == State::kGone; }
  };
  // A connection: ends[0] connects, ends[1] listens; streams[d] is sent by ends[d].
  struct Flow {
    unsigned id = 0;
    proxy::ConnectionOptions options;
    Instant listen_at;
    Instant connect_at;
    End ends[2];
    std::vector<MessageStream> streams;
    Instant opened = Instant::never();  // not before: when connect() was called
    bool unopened = false;              // connect() failed, as it may
    bool lost = false;  // its peer was lost, as it may be: at most once is all that is promised
    bool over() const { return ends[0].over() && ends[1].over(); }
  };

  Instant now() const { return events_.now(); }
  bool faulty() const { return now() < trouble_.quiet_from(); }
  Flow make_flow(unsigned id, const FlowPlan& plan);
  void begin_end(Flow& flow, unsigned end, bool* worked);
  void listen(Flow& flow);
  void connect(Flow& flow);
  void on_connect_failed(Flow& flow, bool must_succeed, const std::string& why);
  void send_some(Flow& flow, unsigned end, bool* worked);
  bool send_one(Flow& flow, unsigned end);
  MessageDraft draft_message(const Flow& flow, unsigned end);
  proxy::SendStatus submit(Flow& flow, unsigned end, const MessageDraft& draft, ByteView bytes);
  proxy::SendStatus submit_long(Flow& flow, unsigned end, const MessageDraft& draft, ByteView bytes);
  void watch(Flow& flow, unsigned end, bool* worked);
  bool is_to_close(Flow& flow, unsigned end);
  void close(Flow& flow, unsigned end);
  void note_lost(Flow& flow, unsigned end, const char* how);
  bool may_be_lost(const Flow& flow) const;

  const WorldConfig& config_;
  Prng& random_;
  const WorldEvents& events_;
  WorldLog& log_;
  const FaultNodes& nodes_;
  const TroublePlanner& trouble_;
  Clients& clients_;
  MessageContents contents_;
  std::deque<Flow> flows_;
  std::vector<std::vector<unsigned>> ends_;  // by client: flow * 2 + end
  std::uint64_t messages_ = 0;
  std::uint64_t connections_ = 0;
};

}  // namespace braid::sim
