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
//              command kResume: what it still owed goes over the others, and it starts a new handshake
//
// The two ends may keep different paths, and then neither hears the other's word. So a node to which no path
// to a peer is left starts a new handshake on those that it has fenced (kHandshake), which says that its end
// is closed, and a peer that answers in the new conversation has closed its own (SC-13). That is as good as its
// Fenced: kResume.
//
// A peer is lost when a sub-connection says so (nothing heard on any path for the peer death time, or a new
// incarnation of the peer): once for each pair of incarnations, however many sub-connections notice it.
//
// Pure: what workers and peers say comes in; commands for workers, messages for peers and news for the node
// come out of poll_*(). Owned by the node's control plane. Not on the message path.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
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
// because it was not heard.
struct Association {
  std::uint64_t own = 0;
  std::uint64_t peer = 0;  // 0: not known
  constexpr bool operator==(const Association&) const = default;
};

class Paths {
 public:
  struct Command {
    enum class Kind : std::uint8_t {
      // Fence the sub-connection of `path`; answered by closed(). `by_peer`: the peer has closed its end, and
      // the epoch of that was `epoch`, or whichever came before `epoch`; else only if the path is still dead.
      kClose,
      kHandshake,  // start a new handshake, keep what it owed; up() answers when the peer's end is closed too
      kResume,     // send what it owed over other paths, and let it start a new handshake unless it has
      kForgetPeer,  // every proxy: what belongs to `association` has failed; sub-connections with
                    // `path.cluster` start anew with incarnation `own`
    };
    Kind kind = Kind::kClose;
    PathId path;
    bool by_peer = false;
    bool before = false;
    std::uint64_t epoch = 0;  // kHandshake, kResume: of the new handshake, 0: any
    std::uint64_t own = 0;
    Association association;
  };
  struct Outgoing {
    ClusterId to;
    ControlMessage message;
  };
  struct Stats {
    std::uint64_t fenced = 0;   // paths given up for others
    std::uint64_t resumed = 0;  // and taken into use again
    std::uint64_t peers_lost = 0;
  };

  // `paths`: all of them, for good. `seed`: of incarnations.
  Paths(unsigned proxies, const std::vector<PathId>& paths, std::uint64_t seed);

  // The incarnation that sub-connections with `cluster` name in the handshake.
  std::uint64_t own_incarnation(ClusterId cluster) const { return peers_[cluster.value()].association.own; }
  Association association(ClusterId cluster) const { return peers_[cluster.value()].association; }

  // Whether there is anybody at its other end; if not, nothing is said about it, and it is as at the start.
  // All are present at first.
  void set_present(const PathId& path, bool present);
  // The path is established, and heard.
  bool alive(const PathId& path) const;

  // --- what workers say

  // The sub-connection is established, or is heard again. After kHandshake: the peer has spoken in the new
  // conversation.
  void up(const PathId& path, const Association& association);
  // It was not heard for the path death time.
  void dead(const PathId& path);
  // Obeyed kClose. `closed`: false if it was of another incarnation than the one to be closed. `peer_epoch`:
  // 0 if it was not established.
  void closed(const PathId& path, bool closed, std::uint64_t epoch, std::uint64_t peer_epoch);
  // A sub-connection lost its peer. `silent`: it was not heard; else the peer has a new incarnation.
  void lost(ClusterId cluster, const Association& association, bool silent);
  // The proxy's thread stands still, and what it may still do reaches nobody any more: its paths are closed.
  void stalled(ProxyId proxy);
  // It goes on, with nothing of what it had, and takes what its peers send. They may not have closed its old
  // ends yet.
  void back(ProxyId proxy);
  // Nothing of what the proxy had sent before it stood still can arrive any more.
  bool fenced(ProxyId proxy) const;

  // Every path to it is closed at this end, e.g. because proxies stood still when the others' paths had been
  // given up for theirs: nothing can be said or heard any more, not even that it is another one by now.
  bool all_closed(ClusterId cluster) const;
  // Some path is closed at this end and not yet at the other: else all_closed() is false.
  bool fencing() const;
  // It was so for the peer death time: the peer is lost.
  void give_up(ClusterId cluster) { lose(cluster, true); }

  // --- what peers say

  // A message that came by a sub-connection of these incarnations. False: it is of a peer that was given up.
  [[nodiscard]] bool heard(ClusterId from, const Association& association);
  // kFence and kFenced.
  void on_control(ClusterId from, const ControlMessage& message);

  // --- what is to be done

  std::optional<Command> poll_command();
  std::optional<Outgoing> poll_control();
  // Clusters that were lost, with the association that ended.
  std::optional<std::pair<ClusterId, Association>> poll_lost();

  // A path lives.
  bool reachable(ClusterId cluster) const;
  // The best proxy to send a control message with: one that reaches the cluster, or else any that goes.
  ProxyId speaker(ClusterId cluster) const;
  const Stats& stats() const { return stats_; }

 private:
  enum class State : std::uint8_t { kOpen, kClosing, kFencing };
  struct Path {
    PathId id;
    bool present = true;
    State state = State::kOpen;
    bool up = false;          // its proxy says so
    bool dead = false;        // its proxy says so; neither: not established
    std::uint64_t epoch = 0;  // kFencing: that the peer is told of
    std::uint64_t closed =
        0;              // kFencing: the peer's, of the conversation that was closed; 0: whichever it was
    bool told = false;  // kFencing: the peer
    bool handshaking = false;  // a new handshake runs, and what it owed from before still waits
    // The peer closes whatever came before `epoch`: the proxy stood still, or has had several conversations.
    bool whichever = false;
    bool stood_still = false;      // what its proxy sent before may still arrive
    bool mute = false;             // the peer may yet hear of another `epoch` first: not before its word
    std::uint64_t next_epoch = 0;  // of the next handshake, if the peer is told of it
    // Of the peer, while kClosing: which it is closed for, and others that came meanwhile, all to be
    // answered.
    std::optional<ControlMessage> asked;
    std::deque<ControlMessage> fences;
    std::optional<std::uint32_t> last_before;  // serial of the last kFenceBefore

    bool alive() const { return state == State::kOpen && up; }
  };
  struct Peer {
    Association association;
    std::array<std::uint64_t, 8> retired{};  // earlier incarnations of the peer, the oldest is forgotten
    std::size_t next_retired = 0;
  };

  Path* find(const PathId& id);
  void reset(Path& path);
  void consider(ClusterId cluster);
  void handshake_fenced(ClusterId cluster);
  void command(Command::Kind kind, const Path& path);
  void close(Path& path);
  void close_for_peer(Path& path, const ControlMessage& fence);
  void say(const Path& path, ControlMessage::Kind kind, std::uint64_t epoch);
  void answer(const Path& path, const ControlMessage& fence);
  void fence_whichever(Path& path);
  void not_closed(Path& path);
  void answer_all(Path& path);
  void resume(Path& path);
  void on_fence(Path& path, const ControlMessage& message);
  void lose(ClusterId cluster, bool silent);
  bool is_retired(const Peer& peer, std::uint64_t incarnation) const;

  std::vector<Path> paths_;
  std::vector<bool> stalled_;  // by local proxy
  std::vector<Peer> peers_;    // by cluster
  Prng prng_;
  std::deque<Command> commands_;
  std::deque<Outgoing> outgoing_;
  std::deque<std::pair<ClusterId, Association>> lost_;
  Stats stats_;
};

}  // namespace braid::convergence
