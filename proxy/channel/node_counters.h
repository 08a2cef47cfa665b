// The counters of a node: a block per proxy in memory that its supervisor and any attached client may map and
// read while the node runs, and after it died.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "proxy/channel/channel.h"

namespace braid::proxy {

// X(name, meaning): one list for the struct, the reports and the documentation.
#define BRAID_PROXY_COUNTERS(X)                                                                     \
  X(messages_sent, "messages and parts of messages given to sub-connections")                       \
  X(message_bytes_sent, "their bytes")                                                              \
  X(messages_received, "messages and parts of messages put into receive buffers")                   \
  X(message_bytes_received, "their bytes")                                                          \
  X(trains_sent, "records given to sub-connections that hold several messages")                     \
  X(trains_received, "such records put into receive buffers all at once")                           \
  X(packets_sent, "UDP packets of the transport that left")                                         \
  X(packets_received, "UDP packets of the transport that were taken")                               \
  X(frame_bytes_sent, "bytes of frames that left")                                                  \
  X(frame_bytes_received, "bytes of frames that arrived")                                           \
  X(retransmissions, "packets retransmitted")                                                       \
  X(timeouts, "retransmission timeouts")                                                            \
  X(fast_retransmissions, "packets retransmitted because later ones were acknowledged")             \
  X(tail_probes, "probes sent because no acknowledgement of the last packets had come")             \
  X(spurious_timeouts, "packets retransmitted by timeout that had arrived")                         \
  X(spurious_fast_retransmissions, "packets retransmitted because of later ones that had arrived")  \
  X(spurious_tail_probes, "tail probes whose answer told that nothing was lost")                    \
  X(acknowledgements_sent, "packets that carried nothing but acknowledgement")                      \
  X(duplicates, "packets that had arrived before")                                                  \
  X(misdirected, "packets that arrived for another proxy of this node: handed over")                \
  X(handoff_drops, "misdirected packets dropped because that proxy's ring was full")                \
  X(links_by_flow, "links whose NIC brings this proxy its packets by flow rule: now")               \
  X(links_by_rss, "links whose peers send from a port that hashes to its queue: now")               \
  X(links_by_handoff, "links that do neither: other proxies hand them over: now")                   \
  X(bad_frames, "too short, of another protocol, or not addressed to us")                           \
  X(bad_ip, "IPv4 packets with a wrong version, length or checksum")                                \
  X(bad_udp, "UDP datagrams with a wrong length or checksum")                                       \
  X(bad_packets, "packets whose transport header or records are malformed")                         \
  X(other_versions, "packets of another version of the transport")                                  \
  X(not_for_us, "IPv4 packets for another host, or for all of them")                                \
  X(martians, "IPv4 packets from an address that no other host has")                                \
  X(fragments_received, "IP fragments that arrived")                                                \
  X(fragments_sent, "IP fragments that left")                                                       \
  X(packets_reassembled, "IPv4 packets put together from fragments")                                \
  X(fragments_dropped, "IP fragments that came twice, or overlap others")                           \
  X(closed_ports, "UDP datagrams for a port that is not open")                                      \
  X(unreachables, "ICMP messages that a peer could not be reached")                                 \
  X(icmp_answers, "pings answered, and ICMP errors sent")                                           \
  X(outgoing_dropped, "datagrams and ICMP messages dropped: no room, no way, no ARP answer")        \
  X(address_conflicts, "claims by ARP of this node's address, or of a peer whose station answers")  \
  X(stations_changed, "addresses that another station has taken over, as ARP says")                 \
  X(refused_no_secret, "hellos of peers without a secret, and this node has one")                   \
  X(refused_other_secret, "hellos of peers with another secret, or changed on the way")             \
  X(refused_sealed, "hellos of peers with a secret, and this node has none")                        \
  X(hellos_unread, "hellos dropped unread: more came than this proxy looks at")                     \
  X(forged_packets, "packets of a connection that were not sealed with its keys")                   \
  X(replayed_packets, "sealed packets that came before")                                            \
  X(address_moves, "peers that were followed to another address, after they had answered there")    \
  X(address_challenges, "packets to addresses that peers seemed to have, to see if they answer")    \
  X(address_validations_failed, "such addresses from which no answer came")                         \
  X(unknown_epoch, "packets of an unknown or old epoch, or for another stack")                      \
  X(unknown_protocol, "records of a protocol that this node does not have: refused")                \
  X(datagrams_dropped, "datagrams, answers and returns dropped: too many were in flight or waited") \
  X(no_port, "records for a port that is closed or not the sender's")                               \
  X(stale_records, "records outside the window of their connection: duplicates")                    \
  X(arrival_ring_full, "packets left unacknowledged because a client's ring was full")              \
  X(bad_descriptors, "descriptors of clients that were refused: the client was disconnected")       \
  X(transmit_drops, "frames that the link refused")                                                 \
  X(receive_drops, "frames that came and that the kernel had no room for")                          \
  X(icmp_errors, "messages of hosts on the way that frames did not arrive, which the kernel got")   \
  X(address_changes, "times that this host's address was gone, and another one was taken")          \
  X(scheduling_gaps, "times that this proxy was not scheduled for long: timers postponed")          \
  X(peers_lost, "sub-connections given up because nothing came from the peer")                      \
  X(handshakes_aes_gcm, "handshakes after which packets are sealed with AES-256-GCM")               \
  X(handshakes_chacha20, "handshakes after which packets are sealed with ChaCha20-Poly1305")        \
  X(handshakes_plain, "handshakes after which packets are plain")                                   \
  X(failed_over, "messages sent again over another path because theirs had died")                   \
  X(redelivered, "records that may have been delivered by another path before")                     \
  X(lent, "messages that another proxy of this node sent because this one had no path")             \
  X(queued_bytes, "bytes given to sub-connections and not yet acknowledged: now, not in all")       \
  X(turns, "turns of the worker loop")                                                              \
  X(idle_turns, "turns that found nothing to do")                                                   \
  X(sleeps, "times that the idle proxy slept")                                                      \
  X(naps, "of these, short ones because it had to poll for something")                              \
  X(woken_by_clients, "sleeps that a client ended")                                                 \
  X(woken_by_links, "sleeps that the other side of a link ended")                                   \
  X(woken_by_node, "sleeps that the control plane or another proxy ended")                          \
  X(polls_asleep, "1: the idle proxy polls, because a queue or the kernel cannot wake it: now")

// The same for each protocol of each proxy (proxy/daemon/protocols.h).
#define BRAID_PROTOCOL_COUNTERS(X)                                                           \
  X(sent, "messages, parts of messages, datagrams and control messages that it sent")        \
  X(sent_bytes, "their bytes, of a train with its padding")                                  \
  X(received, "those that arrived and were delivered")                                       \
  X(received_bytes, "their bytes")                                                           \
  X(refused, "records that arrived and were refused: not such as the protocol has, no room") \
  X(returned, "datagrams of this node that came back")

inline constexpr unsigned kMaxProtocols = 16;

// As the proxy counts it; copied to where others read it now and then.
struct ProtocolTraffic {
#define X(name, meaning) std::uint64_t name = 0;
  BRAID_PROTOCOL_COUNTERS(X)
#undef X
};

struct ProtocolCounters {
#define X(name, meaning) Counter name;
  BRAID_PROTOCOL_COUNTERS(X)
#undef X
};

struct ProtocolName {
  std::uint8_t id = 0;  // 0: none
  char name[23] = {};   // ends in a zero
};

struct alignas(kCacheLine) ProxyCounters {
#define X(name, meaning) Counter name;
  BRAID_PROXY_COUNTERS(X)
#undef X
  ProtocolCounters protocol[kMaxProtocols];  // as NodeCounters::protocol names them
};

struct NodeCounters {
  static constexpr std::uint64_t kMagic = 0x3643646961724200;
  std::uint64_t magic = kMagic;
  std::uint32_t proxies = 0;
  std::uint32_t process = 0;
  // Which proxy serves lane p of every client now: p, unless that is inactive or stalled.
  std::atomic<std::uint8_t> server[kMaxProxies] = {};
  // Processes that connected to the control socket and were refused; the control plane's.
  Counter refused_connections;
  // Written before `proxies`.
  ProtocolName protocol[kMaxProtocols];
  ProxyCounters proxy[kMaxProxies];
};

// Calls f(name, meaning, value) for every counter.
template <class F>
void for_each_counter(const ProxyCounters& counters, F&& f) {
#define X(name, meaning) f(#name, meaning, counters.name.get());
  BRAID_PROXY_COUNTERS(X)
#undef X
}

// Whether the counter tells what is the case now, not what has happened so often.
inline bool is_level(std::string_view name) {
  return name == "queued_bytes" || name == "polls_asleep" || name.starts_with("links_by_");
}

// Calls f(name, value) for every counter of every protocol at that proxy; a name is like "messages.sent".
template <class F>
void for_each_protocol_counter(const NodeCounters& node, unsigned proxy, F&& f) {
  for (unsigned i = 0; i < kMaxProtocols && node.protocol[i].id != 0; ++i) {
    const ProtocolCounters& counters = node.proxy[proxy].protocol[i];
    const char* const last = node.protocol[i].name + sizeof(ProtocolName::name);
    const std::string protocol(node.protocol[i].name, std::find(node.protocol[i].name, last, '\0'));
#define X(name, meaning) f(protocol + "." #name, counters.name.get());
    BRAID_PROTOCOL_COUNTERS(X)
#undef X
  }
}

// How packets were protected where a counter of handshakes is not 0, for people; null: the counter is another one.
inline const char* protection_of(std::string_view counter) {
  if (counter == "handshakes_aes_gcm") return "AES-256-GCM";
  if (counter == "handshakes_chacha20") return "ChaCha20-Poly1305";
  if (counter == "handshakes_plain") return "plain";
  return nullptr;
}

// Names and values, in the order of this file.
using CounterValues = std::vector<std::pair<std::string, std::uint64_t>>;

// Of one proxy, those of the protocols too.
inline CounterValues values_of(const NodeCounters& node, unsigned proxy) {
  CounterValues all;
  for_each_counter(node.proxy[proxy], [&](const char* name, const char*, std::uint64_t value) {
    all.emplace_back(name, value);
  });
  for_each_protocol_counter(
      node, proxy, [&](const std::string& name, std::uint64_t value) { all.emplace_back(name, value); });
  return all;
}

}  // namespace braid::proxy
