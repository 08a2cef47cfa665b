// The messages between a client and the control plane of its node: plain structs, over a Unix socket of
// packets (SOCK_SEQPACKET, one struct per packet, descriptors passed beside it) or by a call inside one
// process.
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "proxy/channel/channel.h"

namespace braid::proxy {

// Network interfaces of a cluster that is named by their addresses.
using braid::kMaxNis;

}  // namespace braid::proxy

namespace braid::proxy::control {

inline constexpr std::uint32_t kVersion = 4;
inline constexpr std::uint32_t kMagic = 0x64696172;  // "raid"

enum class Kind : std::uint32_t {
  kAttach = 1,
  kListen,
  kConnect,
  kClose,
  kCounters,        // asks for the node's counters: answered with a descriptor
  kSetProxies,      // changes how many of the node's proxies serve clients; answered with kOk
  kConnectMachine,  // to a cluster of another machine; answered as kConnect
  kBindDatagrams,   // datagrams of a protocol for a port are kept for the client; kClose does not end that
  kSendDatagram,    // answered when a proxy has it, or cannot
  kTakeDatagram,    // the next one kept for a port; answered with kOk if there is none
  // answers and events
  kAttached = 100,
  kOk,
  kOpened,   // a connection is open; answers kConnect, or tells of an accepted one
  kRefused,  // the request was refused: text
  kDatagram,
};

struct Attach {
  std::uint32_t endpoints;
  std::uint32_t send_bytes;
  std::uint64_t receive_bytes;  // per endpoint
};
struct Listen {
  std::uint32_t port;
  std::uint32_t endpoint;
  std::uint32_t window_bytes;
  std::uint32_t ordered;
  std::uint32_t protocol;  // stack::ProtocolId
};
struct Connect {
  std::uint32_t cluster;
  std::uint32_t port;
  std::uint32_t endpoint;
  std::uint32_t window_bytes;
  std::uint32_t ordered;
  std::uint32_t timeout_ms;
  std::uint32_t protocol;  // stack::ProtocolId
};
struct ConnectMachine {
  Connect connect;                   // without `cluster`
  std::uint32_t addresses[kMaxNis];  // of all its NIs, as numbers: 10.0.0.1 is 0x0a000001
  std::uint16_t nis;                 // so many of them
  std::uint16_t udp_port;            // where its node introduces itself
};
struct Close {
  std::uint32_t port;
};
struct SetProxies {
  std::uint32_t active;  // 0 in a request: only asks. The answer tells what is now
  std::uint32_t all;     // in the answer: that the node was started with
};
struct Attached {
  ChannelGeometry geometry;
  std::uint16_t cluster;
  std::uint16_t clusters;
};
struct Opened {
  std::uint32_t listener;  // the listener's port if it was accepted, 0 if it was connected
  std::uint32_t endpoint;
  std::uint32_t port;
  std::uint32_t peer_port;
  std::uint16_t peer_cluster;
  std::uint16_t ordered;
  std::uint32_t cell;  // index
  std::uint64_t window_offset;
  std::uint32_t window_bytes;       // of this end
  std::uint32_t peer_window_bytes;  // of the peer's
};
struct Refused {
  char text[200];
};

// Why a datagram came back to its sender (PS-5). Also on the wire.
enum class DatagramReturn : std::uint16_t {
  kNone,             // it did not: it is a peer's
  kUnknownProtocol,  // the peer's node has no such protocol
  kRefused,          // the protocol there did not take it
  kNoSuchPort,       // no client there has bound the port
  kNoRoom,           // too many wait there, or here
  kMaybeDelivered,   // the path or the peer died: it is not known whether it was delivered
};
inline constexpr std::size_t kMaxDatagramBytes = 192;
struct BindDatagrams {
  std::uint32_t protocol;  // stack::ProtocolId
  std::uint32_t port;
};
struct DatagramMessage {
  std::uint32_t protocol;
  std::uint16_t cluster;   // the peer's
  std::uint16_t returned;  // DatagramReturn
  std::uint32_t source;
  std::uint32_t destination;
  std::uint32_t bytes;
  std::byte data[kMaxDatagramBytes];
};

struct Message {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  Kind kind = Kind::kOk;
  std::uint32_t serial = 0;  // a request's, repeated in its answer; 0 in events
  union {
    Attach attach;
    Listen listen;
    Connect connect;
    ConnectMachine connect_machine;
    Close close;
    SetProxies set_proxies;
    Attached attached;
    Opened opened;
    Refused refused;
    BindDatagrams bind_datagrams;  // kBindDatagrams, kTakeDatagram
    DatagramMessage datagram;      // kSendDatagram, kDatagram
    std::byte bytes[224];
  };
  Message() : bytes{} {}
};
static_assert(std::is_trivially_copyable_v<Message>);

}  // namespace braid::proxy::control
