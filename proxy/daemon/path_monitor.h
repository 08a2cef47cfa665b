// The sub-connections of one proxy as paths: it watches which of them live, reports to the control plane, and
// carries out the control plane's commands (convergence/paths.h). The unacknowledged messages of a dead path are
// held until the control plane reports that the peer has closed its end; then they are sent again, or fail.
//
//             dead, or the peer is lost                     ResumePath
//    open ───────────────────────────────► fenced, held ───────────────────► open
//                                               │  ▲
//                                               ▼  │ HandshakePath: the new handshake runs, and messages of
//                                            handshake   before still wait
//
// Decisions come out of poll(), to be carried out in that order before anything else is done. Owned by the
// proxy's worker, like the stack whose sub-connections it fences, closes and reopens.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/cluster_bits.h"
#include "base/ids.h"
#include "base/time.h"
#include "convergence/paths.h"
#include "proxy/daemon/routes.h"
#include "proxy/daemon/worker_commands.h"
#include "stack/stack.h"

namespace braid::proxy {

class PathMonitor {
 public:
  // Connections with that incarnation of the peer are dead.
  struct EndIncarnation {
    ClusterId peer;
    std::uint64_t incarnation = 0;
  };
  // Messages, linked by `next`, to be sent over another path.
  struct SendAgain {
    stack::OutMessage* messages = nullptr;
    bool maybe_duplicates = false;
  };
  // Messages, linked by `next`, that can no longer be delivered.
  struct Fail {
    stack::OutMessage* messages = nullptr;
  };
  // And those to the cluster that no sub-connection has.
  struct FailWaiting {
    ClusterId to;
  };
  // A WorkerEvent: the control plane is to be told.
  using Decision = std::variant<WorkerEvent, EndIncarnation, SendAgain, Fail, FailWaiting>;

  // The stack outlives this.
  explicit PathMonitor(stack::Stack& stack);
  PathMonitor(const PathMonitor&) = delete;
  PathMonitor& operator=(const PathMonitor&) = delete;

  // --- commands of the control plane

  void obey(Instant now, const ClosePath& command);
  void obey(Instant now, const HandshakePath& command);
  void obey(Instant now, const ResumePath& command);
  void obey(Instant now, const ForgetPeer& command);
  void obey(Instant now, const GreetPath& command);
  void obey(Instant now, const ConnectPath& command);
  void obey(Instant now, const DrainCluster& command);
  // This proxy was fenced: its paths stay closed until the control plane resumes them, and their messages are
  // dropped.
  void restart(Instant now);

  // --- time

  // Looks at every path.
  void watch(Instant now);
  // Looks at those that have changed since this was called last.
  void watch_changed(Instant now);
  // Takes back messages that wait for a peer that was never there, where another proxy has a path: to the clusters of
  // `reached(i)`, bits as word i of reached(). After watch() or watch_changed().
  template <class Reached>
  void recall_waiting(Reached&& reached) {
    const std::span<const std::uint64_t> greeted = greeted_.words();
    for (std::size_t i = 0; i < greeted.size(); ++i)
      for (std::uint64_t left = greeted[i] != 0 ? greeted[i] & reached(i) : 0; left != 0; left &= left - 1)
        recall(ClusterId(static_cast<std::uint16_t>(i * 64 + static_cast<unsigned>(std::countr_zero(left)))));
  }
  bool draining() const { return !drains_.empty(); }
  // Ends drains whose paths are closed, or whose time is over. `any_lent(cluster)`: other proxies still have
  // messages of this one to the cluster, which they return first.
  template <class AnyLent>
  void end_drains(Instant now, AnyLent&& any_lent) {
    std::erase_if(drains_, [&](const Drain& drain) {
      decisions_.push_back(FailWaiting{drain.cluster});  // messages that borrowers have returned
      if ((!is_closed(drain.cluster) && now < drain.until) || any_lent(drain.cluster)) return false;
      end(now, drain.cluster);
      return true;
    });
  }
  // When end_drains() must be called if nothing happens before.
  Instant next_deadline() const;

  std::optional<Decision> poll();

  // --- what is known

  Routes& routes() { return routes_; }
  // The clusters to which some path lived when they were watched last; up to the last one to which there is a path.
  const ClusterBits& reached() const { return reached_; }
  // A peer was refused because its configuration differs.
  bool refused_peer() const { return refused_peer_; }

 private:
  struct Path {
    stack::SubConnection* sub = nullptr;
    convergence::PathId id;
    enum class Told : std::uint8_t { kNothing, kUp, kDead } told = Told::kNothing;
    convergence::Association association;  // of the last kUp
    // Fenced: `held` has its unacknowledged messages until ResumePath. A new handshake may start before that.
    bool waits = false;
    stack::OutMessage* held = nullptr;
    bool known = true;               // false: it has no remote; it is fenced, or closes
    std::uint64_t unreachables = 0;  // that were told
    std::uint8_t refusals = 0;       // the same: a bit for each stack::Refusal
  };
  // A cluster's paths are closing. At `until` they are given up, acknowledged or not.
  struct Drain {
    ClusterId cluster;
    Instant until;
  };

  Path* find(const convergence::PathId& id);
  Path& at(const convergence::PathId& id);
  std::size_t index(const Path& path) const { return static_cast<std::size_t>(&path - paths_.data()); }
  void make_route(ClusterId cluster);
  void watch(Instant now, Path& path);
  void look_at(Instant now, Path& path);
  // What watch_changed() looks at next, though its sub-connection has not changed.
  void set_changed(const Path& path) { stack_.agenda().entry(index(path)).set_changed(); }
  void note_reached(ClusterId cluster);
  void recall(ClusterId cluster);
  void tell_unreachable(Path& path);
  void tell_refused(Path& path);
  static void fence(Instant now, Path& path);
  bool is_closed(ClusterId cluster) const;
  void end(Instant now, ClusterId cluster);
  void report(const WorkerEvent& event) { decisions_.push_back(event); }
  void send_again(stack::OutMessage* messages, bool maybe_duplicates) {
    if (messages != nullptr) decisions_.push_back(SendAgain{messages, maybe_duplicates});
  }
  void fail(stack::OutMessage* messages) {
    if (messages != nullptr) decisions_.push_back(Fail{messages});
  }

  stack::Stack& stack_;
  Routes routes_;
  std::vector<Path> paths_;                             // beside the stack's sub-connections
  std::vector<std::vector<std::uint32_t>> of_cluster_;  // those to each cluster
  std::vector<Drain> drains_;
  std::vector<Decision> decisions_;
  std::size_t next_decision_ = 0;
  ClusterBits reached_;
  ClusterBits greeted_;  // to which some path is in the handshake
  bool refused_peer_ = false;
};

}  // namespace braid::proxy
