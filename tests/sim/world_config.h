// The configuration of a simulated world: its machines, its network, its faults and its programs. All of it is
// drawn from one seed; any part can then be set by name, which makes a failing world smaller.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::sim {

// X(name, value unless drawn, meaning). One list for the struct, for `--set name=value` and for what a person
// is shown. Numbers are doubles, so that one loop can set, print and halve them; every one of them that says
// how often something happens is a mean, and 0 means never.
#define BRAID_WORLD(X)                                                                        \
  /* machines */                                                                              \
  X(clusters, 2, "nodes, 2 to 4, or 200")                                                     \
  X(proxies_0, 1, "proxies of clusters 0, 4, 8 and so on")                                    \
  X(proxies_1, 1, "of 1, 5, 9 and so on")                                                     \
  X(proxies_2, 1, "of 2, 6, 10 and so on")                                                    \
  X(proxies_3, 1, "of 3, 7, 11 and so on")                                                    \
  X(mtu, 1500, "bytes of an IP packet")                                                       \
  X(window_packets, 256, "of a sub-connection")                                               \
  X(min_rto_us, 500, "transport.min_rto_us")                                                  \
  X(path_death_ms, 500, "transport.path_death_ms")                                            \
  X(peer_death_ms, 10'000, "transport.peer_death_ms")                                         \
  X(static_mac, 1, "1: neighbours are configured; 0: ARP finds them")                         \
  X(steering, 0, "frames land on the queue 0: of their proxy, 1: chance picks, 2: the first") \
  X(misdirect, 0, "1: proxies talk to peers that are not their own number")                   \
  X(all_pairs, 0, "1: a sub-connection for every pair of proxies")                            \
  X(round_robin, 0, "1: a proxy sends to its peers in turn")                                  \
  X(train_messages, 16, "transport.train_messages")                                           \
  X(idle_us, 0, "an idle proxy hears of work up to this later")                               \
  X(control_us, 100, "between turns of the control plane")                                    \
  /* network */                                                                               \
  X(gbits, 10, "rate of a link, Gb/s")                                                        \
  X(propagation_us, 5, "of a link")                                                           \
  X(queue_kib, 512, "of a link")                                                              \
  X(rx_frames, 256, "ring of a NIC's queue")                                                  \
  /* faults of frames, and of stretches of time */                                            \
  X(fault_ms, 60, "how long anything goes wrong; then the network is good")                   \
  X(loss, 0, "probability per frame")                                                         \
  X(lose_frame, 0, "this one of the frames that carry data is lost, and no other")            \
  X(burst, 0, "probability per frame that a burst of loss begins")                            \
  X(duplicate, 0, "probability per frame")                                                    \
  X(reorder, 0, "probability per frame")                                                      \
  X(corrupt, 0, "probability per frame: one byte of an IP packet")                            \
  X(spike, 0, "probability per frame of a long delay")                                        \
  X(spike_us, 1000, "mean of those delays")                                                   \
  X(cut_every_ms, 0, "one direction between two nodes carries nothing")                       \
  X(cut_ms, 3, "for so long")                                                                 \
  X(clog_every_ms, 0, "one direction between two nodes holds everything up")                  \
  X(clog_ms, 3, "for so long")                                                                \
  X(partition_every_ms, 0, "two nodes do not hear each other")                                \
  X(partition_ms, 5, "for so long")                                                           \
  X(path_cut_every_ms, 0, "two proxies do not hear each other")                               \
  X(path_cut_ms, 100, "for so long")                                                          \
  X(dead_paths, 0, "pairs of proxies that never hear each other again, at most so many")      \
  X(link_down_every_ms, 0, "a NIC has no link")                                               \
  X(link_down_ms, 5, "for so long")                                                           \
  X(forge_every_ms, 0, "an ARP packet gives a node's address to a station that is not there") \
  /* faults of machines */                                                                    \
  X(stall_every_ms, 0, "a proxy is not scheduled")                                            \
  X(stall_ms, 2, "for so long")                                                               \
  X(dead_proxies, 0, "proxies that are not scheduled for very long, so many times")           \
  X(death_ms, 400, "for so long")                                                             \
  X(resize_every_ms, 0, "a node has another number of active proxies")                        \
  X(control_stall_every_ms, 0, "a control plane is not scheduled")                            \
  X(control_stall_ms, 5, "for so long")                                                       \
  X(jump_every_ms, 0, "a node's clock jumps forward")                                         \
  X(jump_ms, 20, "by so much")                                                                \
  X(gap_every_ms, 0, "a busy host: nothing of a node is scheduled")                           \
  X(gap_ms, 80, "for so long")                                                                \
  X(stopped_ms, 0, "a node is stopped once, for so long; its peers must give it up in time")  \
  X(restarts, 0, "a node dies and comes back with another epoch, so many times")              \
  X(down_ms, 5, "after so long")                                                              \
  X(kills, 0, "a client dies, so many times")                                                 \
  /* programs */                                                                              \
  X(clients, 1, "per node")                                                                   \
  X(endpoints, 1, "per client")                                                               \
  X(flows, 4, "connections, one after the other and beside each other")                       \
  X(messages, 60, "each way of a connection, at most")                                        \
  X(max_bytes, 4000, "of a message")                                                          \
  X(long_messages, 0, "probability that a message is longer than a piece")                    \
  X(window_kib, 64, "of a connection, at most")                                               \
  X(unordered, 0.4, "probability that a connection asks for no order")                        \
  X(fixed, 0.4, "probability of fixed dispatch")                                              \
  X(pace_us, 20, "between turns of a client")                                                 \
  X(batch, 8, "messages that a client sends on a connection in one turn, at most")            \
  X(slow, 0, "probability that a client takes one message a turn, and turns seldom")          \
  X(stops, 0, "times that a client stops receiving")                                          \
  X(stop_ms, 10, "for so long")                                                               \
  X(pauses, 0, "times that all clients do nothing")                                           \
  X(pause_ms, 500, "for so long")                                                             \
  X(latency_us, 0, "every message must arrive within so long; 0: no bound")                   \
  X(shared_memory, 0, "1: a random shared-memory program runs over all nodes")                \
  X(datagrams, 0, "that a client sends")                                                      \
  X(serving_nodes, 4, "the first so many nodes have the worlds' own protocol of datagrams")   \
  X(sealed, 0, "1: packets are sealed")                                                       \
  X(at_first_use, 0, "1: transport.connect: at-first-use")                                    \
  X(closes, 0.5, "probability that an end closes as soon as it has sent everything")

struct WorldConfig {
  std::uint64_t seed = 1;
#define X(name, value, meaning) double name = value;
  BRAID_WORLD(X)
#undef X

  // The world of a seed: of few nodes, or now and then of 200.
  static WorldConfig draw(std::uint64_t seed);
  // The world of a seed in which a shared-memory program runs and nothing else. Its network and proxies are
  // as bad as any, but nobody who takes part dies: that would be the program's end.
  static WorldConfig draw_shared_memory(std::uint64_t seed);
  // "name=value"; the error names what may be set.
  Result<void> set(const std::string& assignment);
  // Why there can be no such world; empty: there can.
  std::string problem() const;
  // The differences from `other`, as assignments.
  std::vector<std::string> differences(const WorldConfig& other) const;
  // A line for each value that is not what it is unless drawn.
  std::string describe() const;

  unsigned proxies(unsigned cluster) const {
    const double all[] = {proxies_0, proxies_1, proxies_2, proxies_3};
    return static_cast<unsigned>(all[cluster % std::size(all)]);
  }
  // Trouble may last so long that a peer is given up for dead.
  bool may_lose_peers() const {
    return peer_death_ms < 5000;
  }

 private:
  static WorldConfig draw_few(std::uint64_t seed);
};

// Calls f(name, member pointer, meaning) for each.
template <class F>
void for_each_setting(F&& f) {
#define X(name, value, meaning) f(#name, &WorldConfig::name, meaning);
  BRAID_WORLD(X)
#undef X
}

}  // namespace braid::sim
