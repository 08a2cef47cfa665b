// The library that applications link to send and receive messages through a node's proxies. No DPDK in it.
//
//     auto client = Client::attach(service_address, {});            // to the braidd of this node
//     Endpoint& endpoint = client.value()->endpoint(0);
//     auto connection = endpoint.connect(ClusterId(1), PortId(9), {}, 5_s);
//     connection.value()->try_send(bytes);
//     endpoint.poll([](Connection& from, ByteView message) { ... });
//
// Messages arrive exactly once while both ends live, in order where the connection asked for order.
// try_send() and reserve() never block: no credit, or a full channel, is a status. Nothing here allocates
// after set-up except for messages longer than a piece (convergence/position.h).
//
// Threads: an Endpoint and its connections belong to one thread at a time (the caller may pass them on under
// a lock of its own). Endpoints of one client may be used by different threads at once; setting up (attach,
// listen, connect, accept, close) is serialised inside.
//
// This header is all that an application includes. Connection is in connection.h, Endpoint in endpoint.h.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/node_counters.h"
#include "proxy/client/connection.h"
#include "proxy/client/endpoint.h"
#include "proxy/client/mapping.h"
#include "proxy/client/service.h"

namespace braid::proxy {

struct ClientOptions {
  // Threads, or groups of threads under a lock, that send and receive on their own.
  std::uint16_t endpoints = 1;
  // Receive buffers of each endpoint's connections together; connections take their windows from it.
  std::uint32_t receive_bytes = 1u << 20;
  // Per endpoint and proxy: bytes of messages handed over and not yet acknowledged.
  std::uint32_t send_bytes = 512u << 10;
};

class Client {
 public:
  // `address` is the Unix socket of the node's braidd: a path, or "@name" for the abstract namespace.
  static Result<std::unique_ptr<Client>> attach(const std::string& address, const ClientOptions& options);
  // Over any service, e.g. a node in this process.
  static Result<std::unique_ptr<Client>> attach(std::unique_ptr<Service> service,
                                                const ClientOptions& options);
  ~Client();

  Endpoint& endpoint(unsigned index) { return *endpoints_[index]; }
  ClusterId cluster() const { return cluster_; }
  std::uint16_t clusters() const { return clusters_; }
  std::uint16_t proxies() const { return geometry_.proxies; }
  Service& service() { return *service_; }
  // The node's counters, which its proxies go on writing; valid while the client lives. The first call asks the node for them, and
  // waits at most 5 s. Any thread.
  Result<const NodeCounters*> counters();

 private:
  friend class Endpoint;
  Client() = default;
  // In the order of the members: the endpoints end before the service, which in one process still uses the
  // memory, and that before the memory.
  Mapping mapping_;  // of nothing where the service has the memory
  std::mutex counters_lock_;
  Mapping counters_;
  std::unique_ptr<Service> service_;
  ChannelGeometry geometry_;
  ClusterId cluster_;
  std::uint16_t clusters_ = 1;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace braid::proxy
