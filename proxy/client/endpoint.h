// The part of a client that one thread uses: its connections, its lanes to all proxies, and what arrives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "proxy/channel/doorbell.h"
#include "proxy/client/connection.h"
#include "proxy/client/connection_table.h"
#include "proxy/client/lane.h"
#include "proxy/client/message_handover.h"
#include "proxy/client/service.h"

namespace braid::proxy {

// A cluster of another machine: where its network interfaces are.
struct RemoteCluster {
  std::vector<std::string> addresses;  // IPv4, dotted, of all of them: 1 .. kMaxNis
  std::uint16_t udp_port = 7699;       // machines.udp_port of its node
};

class Client;

class Endpoint {
 public:
  // Connections to `port` of this cluster will appear in accept(), and in poll() when they send.
  Result<void> listen(PortId port, const ConnectionOptions& options);
  // The peer must be listening; waits until `timeout` for it to begin.
  Result<Connection*> connect(ClusterId cluster, PortId port, const ConnectionOptions& options,
                              Duration timeout);
  // The same to a cluster of another machine. The daemons make sub-connections with it first, where
  // there are none yet; both nodes must allow it (machines.connect, machines.accept). peer() of the
  // connection is a number that this node gives that cluster as long as it knows it. The error names the
  // address that failed, and what is known of the cause.
  Result<Connection*> connect(const RemoteCluster& cluster, PortId port, const ConnectionOptions& options,
                              Duration timeout);
  // The next connection that a peer made to one of our listeners; nullptr when there is none (yet).
  Connection* try_accept();
  Result<Connection*> accept(Duration timeout);
  // Ends the connection and frees it; what was sent before is still delivered.
  void close(Connection* connection);

  // Sends what was committed, lets in-process proxies work, takes what has arrived and hands at most `limit`
  // messages to `handler(Connection&, ByteView)`. The view is valid during the call only. The handler may
  // send, listen, connect and close, its own connection too; it may not poll. Returns the number of messages.
  template <class Handler>
  int poll(Handler&& handler, int limit = 64);
  // Takes one arrival of `proxy`'s lane, if there is one, and hands over what it completes; returns the
  // number of messages. The credit for them, and what the handler commits, leaves with the next flush(). For
  // a driver that gives each arrival a time of its own; it lets no proxy work.
  template <class Handler>
  int take_one(unsigned proxy, Handler&& handler);
  // The next arrival of the lane waits for its connection to be announced, as take_one() has found.
  bool awaits_connection(unsigned proxy) { return lanes_[proxy].arrivals.keeps_early(); }
  // Returns the credit that found no room in a channel before, as far as there is room now.
  void return_pending_credit();
  // Calls f(descriptor) for each for `proxy` that the next flush() makes visible.
  template <class F>
  void for_each_unpublished(unsigned proxy, F&& f) {
    lanes_[proxy].send.for_each_unpublished(f);
  }
  // Notes what `proxy` has given back. Sending does it when it needs room; done early it keeps the channel's
  // memory small and warm.
  void reclaim(unsigned proxy) { lanes_[proxy].send.reclaim(); }
  // Makes everything committed visible to the proxies now. poll() does it too.
  void flush() { lanes_.publish(); }
  // Something has arrived that poll() has not taken. Any thread (a hint).
  bool has_arrivals() const { return left_over_.load(std::memory_order_relaxed) || lanes_.have_arrivals(); }
  // To sleep until something arrives; see proxy/channel/doorbell.h.
  Doorbell& doorbell() { return *doorbell_; }
  Service& service() { return *service_; }
  const EndpointCounts& counts() const { return counts_; }
  unsigned proxies() const { return lanes_.size(); }
  // Open ones, and those whose peer or service is gone and that the application has not closed.
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_.all(); }

 private:
  friend class Client;
  struct Listener {
    PortId port;
    ConnectionOptions options;
  };
  enum class Taken : std::uint8_t { kArrival, kNothingYet };

  Endpoint(Client& client, Service* service, std::byte* memory, const ChannelGeometry& geometry,
           unsigned index);
  // For Dispatch::kLeastLoaded: the proxies' counters, mapped when they are first asked for.
  Result<void> prepare(convergence::Dispatch dispatch);
  control::Connect connect_request(PortId port, const ConnectionOptions& options, Duration timeout) const;
  Connection* open(const control::Opened& opened, convergence::Dispatch dispatch);
  void take_accepted();
  // Takes the lane's next arrival into its connection: `to`, nullptr if nothing new came of it. Nothing yet:
  // the arrival waits for its connection to be announced.
  Taken take_arrival(ArrivalLane& lane, Connection** to);
  Taken take_early_arrival(ArrivalLane& lane, const ArrivalDescriptor& arrival, Connection** to);
  // The same for the next message of a train whose first message was taken, if it simply is the next one of its
  // connection: returns it. Otherwise nothing happens. lane.continues_train().
  std::optional<ByteView> take_train_message(ArrivalLane& lane, Connection** to);
  // The message that follows one of the connection that lane.take() returned last: of the same train, if `left` more
  // may be handed over, or one that was there before.
  static std::optional<ByteView> next_message(Connection& connection, ArrivalLane& lane, int left);
  Taken keep_or_drop(ArrivalLane& lane, const ArrivalDescriptor& arrival);
  // Tells the peer how much of the connection has been consumed. Nothing if it is nullptr, or was closed.
  void return_credit(Connection* connection);
  template <class Handler>
  int hand_over(Connection& connection, Handler&& handler, int limit);

  Client& client_;
  Service* service_;
  std::byte* memory_;
  ChannelGeometry geometry_;
  unsigned index_;
  Doorbell* doorbell_;
  EndpointLanes lanes_;
  EndpointCounts counts_;
  ConnectionTable connections_;
  MessageHandover handover_;
  std::deque<Connection*> accepted_;  // not yet asked for
  std::vector<Listener> listeners_;
  unsigned next_lane_ = 0;
  bool credit_pending_ = false;         // a connection's credit found no room in a channel
  std::atomic<bool> left_over_{false};  // the last poll() did not take all that it saw
};

// --- inline

inline Endpoint::Taken Endpoint::take_arrival(ArrivalLane& lane, Connection** to) {
  const ArrivalDescriptor arrival = lane.take();
  Connection* const connection = connections_.find(PortId(arrival.destination_port));
  if (connection == nullptr) [[unlikely]]
    return take_early_arrival(lane, arrival, to);
  lane.handled();
  *to = connection->on_arrival(arrival) == convergence::Accepted::kNew ? connection : nullptr;
  return Taken::kArrival;
}

inline std::optional<ByteView> Endpoint::take_train_message(ArrivalLane& lane, Connection** to) {
  const ArrivalLane::TrainMessage next = lane.train_message();
  Connection* const connection = connections_.find(PortId(next.port));
  if (connection == nullptr) return std::nullopt;
  const std::optional<ByteView> message = connection->take_next_in_line(next);
  if (!message) return std::nullopt;
  lane.take_train_message();
  *to = connection;
  return message;
}

[[gnu::always_inline]] inline std::optional<ByteView> Endpoint::next_message(Connection& connection,
                                                                             ArrivalLane& lane, int left) {
  if (left > 0 && lane.continues_train()) [[likely]] {
    if (const std::optional<ByteView> message = connection.pass_to_next_in_line(lane.train_message())) {
      lane.take_train_message();
      return message;
    }
  }
  return connection.next_message();
}

template <class Handler>
int Endpoint::hand_over(Connection& connection, Handler&& handler, int limit) {
  const int handed = handover_.run(connection, connection.next_message(), handler, limit);
  counts_.messages_received += static_cast<unsigned>(handed);
  return handed;
}

template <class Handler>
int Endpoint::take_one(unsigned proxy, Handler&& handler) {
  ArrivalLane& lane = lanes_[proxy].arrivals;
  if (!lane.has_arrival()) return 0;
  handover_.begin();
  int handed = 0;
  Connection* connection = nullptr;
  if (take_arrival(lane, &connection) == Taken::kArrival && connection != nullptr) {
    handed = hand_over(*connection, handler, std::numeric_limits<int>::max());
    return_credit(connection);
  }
  lane.release();
  handover_.end();
  return handed;
}

template <class Handler>
int Endpoint::poll(Handler&& handler, int limit) {
  flush();
  service_->turn();
  if (credit_pending_) return_pending_credit();
  handover_.begin();
  int handed = 0;
  // The connection whose messages were handed over last: its credit is returned when another follows.
  Connection* last = nullptr;
  if (handover_.left_over() != nullptr && limit > 0) {
    last = handover_.left_over();
    handed = handover_.resume(handler, limit);
    counts_.messages_received += static_cast<unsigned>(handed);
  }
  for (unsigned visited = 0; visited < lanes_.size() && handed < limit; ++visited) {
    ArrivalLane& lane = lanes_[next_lane_].arrivals;
    next_lane_ = next_lane_ + 1 == lanes_.size() ? 0 : next_lane_ + 1;
    while (handed < limit && lane.has_arrival()) {
      Connection* connection = nullptr;
      std::optional<ByteView> message;
      if (lane.continues_train()) message = take_train_message(lane, &connection);
      if (!message) {
        if (take_arrival(lane, &connection) == Taken::kNothingYet) break;
        if (connection == nullptr) continue;
        message = connection->next_message();
      }
      if (last != connection) return_credit(std::exchange(last, connection));
      const int now_handed = handover_.run(*connection, message, handler, limit - handed,
                                           [&](int left) { return next_message(*connection, lane, left); });
      counts_.messages_received += static_cast<unsigned>(now_handed);
      handed += now_handed;
    }
    lane.release();
  }
  return_credit(last);
  handover_.end();
  const bool left_over = handover_.left_over() != nullptr || lanes_.keep_arrivals();
  if (left_over != left_over_.load(std::memory_order_relaxed))
    left_over_.store(left_over, std::memory_order_relaxed);
  flush();
  return handed;
}

}  // namespace braid::proxy
