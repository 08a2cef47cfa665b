// The commands of a node's control plane to a proxy, and the proxy's events for the control plane: one type for
// each. They are copied by value through rings (Worker::command(), Worker::take_event()).
// Channels and memory that they point to are the control plane's, which keeps them until the proxy has
// answered, or is fenced.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/ids.h"
#include "convergence/paths.h"
#include "convergence/ports.h"
#include "proxy/channel/channel.h"
#include "proxy/daemon/port_entry.h"
#include "stack/stack.h"

namespace braid::proxy {

class Channel;

// A client of one node's braidd. Numbers are not used twice; 0 is none.
using ClientId = std::uint32_t;

// How often each proxy of a node was fenced.
using ProxyGenerations = std::array<std::uint32_t, kMaxProxies>;

// ---------------------------------------------------------------- commands

// The proxy serves the channel.
struct AttachChannel {
  Channel* channel = nullptr;
};
// The channel's client is gone. Answered by ChannelDetached when nothing of it is in flight.
struct DetachChannel {
  Channel* channel = nullptr;
};
// A connection's end exists.
struct InstallPort {
  PortEntry port;
};
// It exists no longer.
struct RemovePort {
  PortId port;
};
// Answered by PortDrained when everything that was handed over for the port so far has been sent.
struct DrainPort {
  PortId port;
};
// Send a message to another control plane.
struct SendControl {
  ClusterId to;
  convergence::ControlMessage message;
};
// Send what the control plane has put into the ring for it (DatagramRings).
struct SendDatagrams {};
// Another proxy shall serve the lane. Answered by LaneReleased when nothing that was taken is in flight.
struct ReleaseLane {
  Channel* channel = nullptr;
};
// Serve the lane again.
struct ServeLane {
  Channel* channel = nullptr;
};
// This proxy sees the client's memory at that address.
struct MapClient {
  ClientId client = 0;
  std::byte* memory = nullptr;
};
// It sees it no longer.
struct UnmapClient {
  ClientId client = 0;
};
// Commands about the proxy's paths (convergence/paths.h). ClosePath is answered by PathClosed.
using convergence::ClosePath;
using convergence::ForgetPeer;
using convergence::GreetPath;
using convergence::HandshakePath;
using convergence::ResumePath;
// The first `active` proxies of the cluster serve clients: prefer those (FO-8).
struct PreferProxies {
  ClusterId cluster;
  unsigned active = 0;
};
// The proxy is stalled: drop messages that were borrowed from it. Answered by ProxyForgotten.
struct ForgetProxy {
  ProxyId proxy;
};
// None of the packets that the proxy sent before it stalled can arrive any more: send the messages that were lent
// to it over another path.
struct ReclaimLent {
  ProxyId proxy;
};
// The path leads to `remote` from now on.
struct ConnectPath {
  convergence::PathId path;
  stack::RemoteStack remote;
  bool opens = false;  // start the handshake at once, as `remote.incarnation`; else ResumePath says when
};
// The cluster is not needed any more: end its paths in good order. Answered by ClusterDrained when nothing of
// it is left.
struct DrainCluster {
  ClusterId cluster;
};
// For a proxy that was stalled while others were fenced.
struct SetProxyGenerations {
  ProxyGenerations generations{};
};

using WorkerCommand = std::variant<AttachChannel, DetachChannel, InstallPort, RemovePort, DrainPort,
                                   SendControl, SendDatagrams, ReleaseLane, ServeLane, MapClient, UnmapClient,
                                   ClosePath, HandshakePath, ResumePath, ForgetPeer, GreetPath, PreferProxies,
                                   ForgetProxy, ReclaimLent, ConnectPath, DrainCluster, SetProxyGenerations>;
static_assert(std::is_trivially_copyable_v<WorkerCommand>);

// A command and the proxy that it is for.
struct AddressedCommand {
  unsigned proxy = 0;
  WorkerCommand command;
};

// ---------------------------------------------------------------- events

// A message of another control plane, by a sub-connection of that association.
struct ControlReceived {
  ClusterId from;
  convergence::Association association;
  convergence::ControlMessage message;
};
struct PortDrained {
  PortId port;
};
struct ChannelDetached {
  Channel* channel = nullptr;
};
struct LaneReleased {
  Channel* channel = nullptr;
};
// The client broke a rule of the channel: nothing of it is read any more.
struct ProtocolViolation {
  ClientId client = 0;
};
// A sub-connection lost its peer.
struct PeerLost {
  ClusterId cluster;
  convergence::Association association;
  bool silent = false;  // no packet was received; else it has a new incarnation
  bool closed = false;  // it ended in good order (SC-11)
};
// A path is established, or packets arrive again.
struct PathUp {
  convergence::PathId path;
  convergence::Association association;
};
// No packet was received for the path death time.
struct PathDead {
  convergence::PathId path;
};
struct PathClosed {
  convergence::PathId path;
  bool closed = false;  // false: it was another incarnation than the one that was to be closed
  std::uint64_t epoch = 0;
  std::uint64_t peer_epoch = 0;  // 0: it was not established
};
// A host on the way reports why a path does not come up.
struct PathUnreachable {
  convergence::PathId path;
  stack::Unreachable reason{};
};
// Nothing that was borrowed from the proxy is in flight.
struct ProxyForgotten {
  ProxyId proxy;
};
// This proxy was stalled, moves again, and has dropped everything.
struct ProxyResumed {};
struct ClusterDrained {
  ClusterId cluster;
};
// Hellos in the name of that cluster are refused: what is said of a secret there is not what is said here (SE-2).
struct PeerRefused {
  ClusterId cluster;
  stack::Refusal why{};
};
// Two stations claim an address.
struct AddressClaimed {
  stack::AddressConflict conflict;
};
// A peer's proxy is at another address now (SE-8, SE-10).
struct PeerMoved {
  stack::AddressMove move;
};

using WorkerEvent =
    std::variant<ControlReceived, PortDrained, ChannelDetached, LaneReleased, ProtocolViolation, PeerLost,
                 PathUp, PathDead, PathClosed, PathUnreachable, ProxyForgotten, ProxyResumed, ClusterDrained,
                 PeerRefused, AddressClaimed, PeerMoved>;
static_assert(std::is_trivially_copyable_v<WorkerEvent>);

}  // namespace braid::proxy
