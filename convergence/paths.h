// The paths of one node to its peers: which of its proxies reach which of theirs, what happens when one of
// them dies, and with which incarnation of a peer this node is talking.
//
// A path is a sub-connection as its node sees it. When one dies while another to the same cluster lives, it
// is fenced before anything that it carried goes over the others: this end closes its incarnation of the
// sub-connection, says so over a path that lives, and waits until the peer has closed its own (design: a
// proxy that wakes up late finds its epoch closed).
//
//            worker: dead, and another lives               worker: closed
//     kOpen ────────────────────────────────► kClosing ───────────────────► kFencing
//       ▲      peer: fence                       │  the peer has closed       │  peer: fenced, or its fence
//       └────────────────────────────────────────┴────────────────────────────┘
//              command ResumePath: what was not acknowledged goes over the others; a new handshake starts
//
// The two ends may keep different paths, and then neither receives the other's message. So a node to which no
// path to a peer is left starts a new handshake on those that it has fenced (HandshakePath), which says that
// its end is closed; a peer that answers in the new connection has closed its own (SC-13). That counts as its
// Fenced: ResumePath.
//
// A peer is lost when a sub-connection says so (nothing received on any path for the peer death time, or a new
// incarnation of the peer): once for each pair of incarnations, however many sub-connections report it.
//
// Pure: reports of workers and messages of peers come in; commands for workers, messages for peers and events
// for the node come out of poll_*(). Owned by the node's control plane. Not on the message path.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/prng.h"
#include "convergence/ports.h"

namespace braid::convergence {

struct PathId {
  ProxyId local;
  ClusterId cluster;
  ProxyId remote;
  constexpr bool operator==(const PathId&) const = default;
};

// Which incarnations of two nodes talk to each other. A node takes a new one towards a peer that it gave up
// because nothing was received from it.
struct Association {
  std::uint64_t own = 0;
  std::uint64_t peer = 0;  // 0: not known
  constexpr bool operator==(const Association&) const = default;
};

// Commands for a proxy about one of its paths. Their results are reported to Paths by the calls that are named.

// Fence the sub-connection; answered by closed().
struct ClosePath {
  PathId path;
  // An end that the peer has closed: the one with `epoch`, or with `before` any one that precedes it.
  struct PeerEnd {
    std::uint64_t epoch = 0;
    bool before = false;
  };
  std::optional<PeerEnd> peer_end;  // nullopt: fence it only if the path is still dead
};
// Start a new handshake and keep unacknowledged messages; answered by up() when the peer has closed its end.
struct HandshakePath {
  PathId path;
  std::uint64_t incarnation = 0;  // of this node
  std::uint64_t epoch = 0;        // of the new handshake, 0: any
};
// Send unacknowledged messages over other paths, and start a new handshake unless one has begun.
struct ResumePath {
  PathId path;
  std::uint64_t incarnation = 0;
  std::uint64_t epoch = 0;
};
// The proxy's part of a lost peer: what belongs to `association` has failed, and sub-connections with the
// cluster start anew.
struct ForgetPeer {
  ProxyId proxy;
  ClusterId cluster;
  Association association;
  std::uint64_t incarnation = 0;
};

// Start the first handshake, if the path still waits for its first use (SC-14).
struct GreetPath {
  PathId path;
};

class Paths {
 public:
  using Command = std::variant<ClosePath, HandshakePath, ResumePath, ForgetPeer, GreetPath>;
  struct Outgoing {
    ClusterId to;
    ControlMessage message;
  };
  struct Stats {
    std::uint64_t fenced = 0;   // paths given up for others
    std::uint64_t resumed = 0;  // and taken into use again
    std::uint64_t peers_lost = 0;
  };

  // `paths`: all of them, for good. `seed`: of incarnations. `greets_at_first_use`: no handshake begins by itself, and
  // the paths to a cluster are used together: when one of them comes up the others are told to begin.
  Paths(unsigned proxies, const std::vector<PathId>& paths, std::uint64_t seed,
        bool greets_at_first_use = false);

  // The incarnation that sub-connections with `cluster` name in the handshake.
  std::uint64_t own_incarnation(ClusterId cluster) const { return peers_[cluster.value()].association.own; }
  // Of any cluster; {} if no path leads there.
  Association association(ClusterId cluster) const {
    return cluster.value() < peers_.size() ? peers_[cluster.value()].association : Association{};
  }

  // Whether there is a peer at its other end; if not, no message is about it, and it is as at the start.
  // All are present at first.
  void set_present(const PathId& path, bool present);
  // A message is to be sent to the cluster: if none of its paths is alive, all that wait for their first use begin, because
  // some may never come up.
  void begin_use(ClusterId cluster) {
    if (!reachable(cluster)) greet(cluster);
  }
  // The path is established, and packets arrive.
  bool alive(const PathId& path) const;

  // --- reports of workers

  // The sub-connection is established, or packets arrive again. After HandshakePath: the peer has sent one in
  // the new connection.
  void up(const PathId& path, const Association& association);
  // Nothing was received for the path death time.
  void dead(const PathId& path);
  // ClosePath was carried out. `closed`: false if it was of another incarnation than that one. `peer_epoch`:
  // 0 if it was not established.
  void closed(const PathId& path, bool closed, std::uint64_t epoch, std::uint64_t peer_epoch);
  // A sub-connection lost its peer. `silent`: nothing was received; else the peer has a new incarnation.
  void lost(ClusterId cluster, const Association& association, bool silent);
  // The proxy's thread is stalled, and nothing that it may still do has an effect: its paths are closed.
  void stalled(ProxyId proxy);
  // It runs again, without its former state, and receives from its peers. They may not have closed its
  // old ends yet.
  void back(ProxyId proxy);
  // Nothing that the proxy sent before it stalled can arrive any more.
  bool fenced(ProxyId proxy) const;

  // Every path to it is closed at this end, for instance because the proxies stalled that had taken over the
  // others' paths. No message can be exchanged any more, not even one of a new incarnation.
  bool all_closed(ClusterId cluster) const;
  // Some path is closed at this end and not yet at the other. Otherwise all_closed() is false.
  bool fencing();
  // All paths have been closed for the peer death time: the peer is lost.
  void give_up(ClusterId cluster) { lose(cluster, true); }

  // --- messages of peers

  // A message arrived over a sub-connection of these incarnations. False: its sender was given up.
  [[nodiscard]] bool received(ClusterId from, const Association& association);
  // kFence and kFenced.
  void on_control(ClusterId from, const ControlMessage& message);

  // --- decisions

  // In this order.
  std::optional<Command> poll_command();
  std::optional<Outgoing> poll_control();
  // Clusters that were lost, with the association that ended.
  std::optional<std::pair<ClusterId, Association>> poll_lost();

  // Some path is alive.
  bool reachable(ClusterId cluster) const;
  // The best proxy to send a control message with: one that reaches the cluster, or else any that runs.
  ProxyId control_proxy(ClusterId cluster) const;
  const Stats& stats() const { return stats_; }

 private:
  enum class State : std::uint8_t { kOpen, kClosing, kFencing };
  struct Path {
    PathId id;
    bool present = true;
    State state = State::kOpen;
    bool up = false;           // its proxy has reported so
    bool dead = false;         // its proxy has reported so; neither: not established
    std::uint64_t epoch = 0;   // kFencing: that the peer is told of
    std::uint64_t closed = 0;  // kFencing: the peer's, of the connection that was closed; 0: whichever it was
    bool told = false;         // kFencing: the peer was told
    bool handshaking = false;  // a new handshake runs, and unacknowledged messages from before wait
    // The peer closes whatever came before `epoch`: the proxy was stalled, or has had several connections.
    bool whichever = false;
    bool unsettled = false;  // what its proxy sent before may still arrive
    bool awaits_answer =
        false;  // no handshake before the answer: the peer may learn of another `epoch` first
    std::uint64_t next_epoch = 0;  // of the next handshake, if the peer is told of it
    // While kClosing: the peer's fence that it is closed for, and others that arrived
    // meanwhile. All must be answered.
    std::optional<ControlMessage> asked;
    std::vector<ControlMessage> fences;
    std::optional<std::uint32_t> last_before;  // serial of the last kFenceBefore

    bool alive() const { return state == State::kOpen && up; }
  };
  struct Peer {
    Association association;
    std::array<std::uint64_t, 8> retired{};  // earlier incarnations of the peer, the oldest is forgotten
    std::size_t next_retired = 0;
  };

  Path* find(const PathId& id);
  // Calls use(path) for each path to the cluster.
  template <class Use>
  void for_each_to(ClusterId cluster, Use&& use) {
    for (const std::uint32_t i : paths_to(cluster)) use(paths_[i]);
  }
  std::span<const std::uint32_t> paths_to(ClusterId cluster) const {
    if (cluster.value() >= of_cluster_.size()) return {};
    return of_cluster_[cluster.value()];
  }
  void begin_fencing(Path& path) {
    path.state = State::kFencing;
    may_be_fencing_ = true;
  }
  void reset(Path& path);
  void consider(ClusterId cluster);
  void handshake_fenced(ClusterId cluster);
  void greet(ClusterId cluster);
  void command_handshake(const Path& path);
  void command_resume(const Path& path);
  void close(Path& path, std::optional<ClosePath::PeerEnd> peer_end = std::nullopt);
  void close_for_peer(Path& path, const ControlMessage& fence);
  void send_control(const Path& path, ControlMessage::Kind kind, std::uint64_t epoch);
  void answer(const Path& path, const ControlMessage& fence);
  void fence_whichever(Path& path);
  void not_closed(Path& path);
  void answer_all(Path& path);
  void resume(Path& path);
  void on_fence(Path& path, const ControlMessage& message);
  void lose(ClusterId cluster, bool silent);
  bool is_retired(const Peer& peer, std::uint64_t incarnation) const;

  const bool greets_at_first_use_;
  std::vector<Path> paths_;
  std::vector<std::vector<std::uint32_t>> of_cluster_;  // which of them lead to each cluster
  bool may_be_fencing_ = false;                         // false: none is
  std::vector<bool> stalled_;                           // by local proxy
  std::vector<Peer> peers_;  // by cluster, up to the last one to which there is a path
  Prng prng_;
  std::deque<Command> commands_;
  std::deque<Outgoing> outgoing_;
  std::deque<std::pair<ClusterId, Association>> lost_;
  Stats stats_;
};

// The proxy that carries the command out.
ProxyId proxy_of(const Paths::Command& command);

}  // namespace braid::convergence
