#include "convergence/paths.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"
#include "stack/stack.h"

namespace braid::convergence {
namespace {

// Of a path, while its proxy closes it; an honest peer says one after the other.
constexpr std::size_t kMaxFences = 16;

ClusterId cluster_of(const Paths::Command& command) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires { c.path; })
          return c.path.cluster;
        else
          return c.cluster;
      },
      command);
}

}  // namespace

ProxyId proxy_of(const Paths::Command& command) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires { c.path; })
          return c.path.local;
        else
          return c.proxy;
      },
      command);
}

Paths::Paths(unsigned proxies, const std::vector<PathId>& paths, std::uint64_t seed, bool greets_at_first_use)
    : greets_at_first_use_(greets_at_first_use), stalled_(proxies, false), prng_(seed) {
  for (const PathId& id : paths) {
    CHECK_LT(id.local.value(), proxies);
    CHECK_LT(id.cluster.value(), stack::kMaxClusters);
    peers_.resize(std::max(peers_.size(), std::size_t{id.cluster.value()} + 1));
    Path path;
    path.id = id;
    of_cluster_.resize(peers_.size());
    of_cluster_[id.cluster.value()].push_back(static_cast<std::uint32_t>(paths_.size()));
    paths_.push_back(path);
  }
  for (Peer& peer : peers_) peer.association.own = prng_.next() | 1;  // never 0, which says "unknown"
}

Paths::Path* Paths::find(const PathId& id) {
  for (const std::uint32_t i : paths_to(id.cluster))
    if (paths_[i].id == id) return &paths_[i];
  return nullptr;
}

void Paths::reset(Path& path) {
  Path fresh;
  fresh.id = path.id;
  fresh.present = path.present;
  path = fresh;
}

void Paths::set_present(const PathId& id, bool present) {
  Path* const path = find(id);
  CHECK(path != nullptr);
  reset(*path);
  path->present = present;
}

bool Paths::alive(const PathId& id) const {
  return std::ranges::any_of(paths_to(id.cluster),
                             [&](std::uint32_t i) { return paths_[i].id == id && paths_[i].alive(); });
}

bool Paths::reachable(ClusterId cluster) const {
  return std::ranges::any_of(paths_to(cluster), [&](std::uint32_t i) { return paths_[i].alive(); });
}

ProxyId Paths::control_proxy(ClusterId cluster) const {
  for (const std::uint32_t i : paths_to(cluster))
    if (paths_[i].alive()) return paths_[i].id.local;
  const auto running = std::find(stalled_.begin(), stalled_.end(), false);
  return ProxyId(static_cast<std::uint8_t>(running == stalled_.end() ? 0 : running - stalled_.begin()));
}

// ---------------------------------------------------------------- incarnations

bool Paths::is_retired(const Peer& peer, std::uint64_t incarnation) const {
  return std::find(peer.retired.begin(), peer.retired.end(), incarnation) != peer.retired.end();
}

bool Paths::received(ClusterId from, const Association& association) {
  if (from.value() >= peers_.size() || association.peer == 0) return false;
  Peer& peer = peers_[from.value()];
  if (association.own != peer.association.own || is_retired(peer, association.peer)) return false;
  if (peer.association.peer != 0 && peer.association.peer != association.peer) lose(from, false);
  peer.association.peer = association.peer;
  return true;
}

void Paths::lost(ClusterId cluster, const Association& association, bool silent) {
  if (cluster.value() < peers_.size() && association == peers_[cluster.value()].association)
    lose(cluster, silent);
}

// FO-7
void Paths::lose(ClusterId cluster, bool silent) {
  Peer& peer = peers_[cluster.value()];
  const Association ended = peer.association;
  if (silent) {
    // It may be alive and only its packets lost: a new incarnation of ours tells it that we start anew.
    peer.association.own = prng_.next() | 1;
  } else {
    peer.retired[peer.next_retired] = ended.peer;
    peer.next_retired = (peer.next_retired + 1) % peer.retired.size();
  }
  peer.association.peer = 0;
  for_each_to(cluster, [&](Path& path) { reset(path); });
  // Messages and commands that wait for it have become meaningless.
  std::erase_if(outgoing_, [&](const Outgoing& out) { return out.to == cluster; });
  std::erase_if(commands_, [&](const Command& c) { return cluster_of(c) == cluster; });
  for (unsigned p = 0; p < stalled_.size(); ++p) {
    if (stalled_[p]) continue;
    commands_.push_back(ForgetPeer{.proxy = ProxyId(static_cast<std::uint8_t>(p)),
                                   .cluster = cluster,
                                   .association = ended,
                                   .incarnation = peer.association.own});
  }
  lost_.emplace_back(cluster, ended);
  ++stats_.peers_lost;
}

bool Paths::fencing() {
  may_be_fencing_ = may_be_fencing_ &&
                    std::ranges::any_of(paths_, [](const Path& p) { return p.state == State::kFencing; });
  return may_be_fencing_;
}

bool Paths::all_closed(ClusterId cluster) const {
  bool fencing = false;
  for (const std::uint32_t i : paths_to(cluster)) {
    const Path& path = paths_[i];
    if (!path.present) continue;
    if (path.state == State::kClosing) return false;
    if (path.state == State::kOpen && !stalled_[path.id.local.value()]) return false;
    fencing = fencing || path.state == State::kFencing;
  }
  return fencing;
}

// ---------------------------------------------------------------- paths

void Paths::up(const PathId& id, const Association& association) {
  if (!received(id.cluster, association)) return;
  Path* const path = find(id);
  if (path == nullptr || !path->present) return;
  if (path->state == State::kFencing) {
    if (!path->handshaking) return;  // word of before
    resume(*path);
  }
  if (stalled_[id.local.value()]) return;
  const bool first = !reachable(id.cluster);
  path->up = true;
  path->dead = false;
  if (first) greet(id.cluster);
  consider(id.cluster);
}

void Paths::dead(const PathId& id) {
  Path* const path = find(id);
  if (path == nullptr || !path->present || path->state == State::kFencing) return;
  path->up = false;
  path->dead = true;
  consider(id.cluster);
}

// FO-1: a path is given up only for another one.
void Paths::consider(ClusterId cluster) {
  if (!reachable(cluster)) return handshake_fenced(cluster);
  for_each_to(cluster, [&](Path& path) {
    if (path.state == State::kOpen && path.dead) close(path);
    if (path.state == State::kFencing && !path.told) {
      path.told = true;
      send_control(path, path.whichever ? ControlMessage::Kind::kFenceBefore : ControlMessage::Kind::kFence,
                   path.epoch);
    }
  });
}

// SC-14
void Paths::greet(ClusterId cluster) {
  if (!greets_at_first_use_) return;
  for_each_to(cluster, [&](const Path& path) {
    if (path.present && path.state == State::kOpen && !path.up && !stalled_[path.id.local.value()])
      commands_.push_back(GreetPath{path.id});
  });
}

// FO-10
void Paths::handshake_fenced(ClusterId cluster) {
  // Those that wait for their first use would never come up to tell the peer.
  if (std::ranges::any_of(paths_to(cluster),
                          [&](std::uint32_t i) { return paths_[i].state != State::kOpen; }))
    greet(cluster);
  for_each_to(cluster, [&](Path& path) {
    if (path.state != State::kFencing || path.handshaking || path.awaits_answer ||
        stalled_[path.id.local.value()])
      return;
    path.handshaking = true;
    command_handshake(path);
  });
}

void Paths::command_handshake(const Path& path) {
  commands_.push_back(HandshakePath{path.id, own_incarnation(path.id.cluster), path.next_epoch});
}

void Paths::command_resume(const Path& path) {
  commands_.push_back(ResumePath{path.id, own_incarnation(path.id.cluster), path.next_epoch});
}

void Paths::close(Path& path, std::optional<ClosePath::PeerEnd> peer_end) {
  path.state = State::kClosing;
  commands_.push_back(ClosePath{path.id, peer_end});
}

void Paths::close_for_peer(Path& path, const ControlMessage& fence) {
  path.asked = fence;
  close(path, ClosePath::PeerEnd{fence.epoch, fence.kind == ControlMessage::Kind::kFenceBefore});
}

void Paths::send_control(const Path& path, ControlMessage::Kind kind, std::uint64_t epoch) {
  Outgoing out{path.id.cluster, {}};
  out.message.kind = kind;
  out.message.proxy = path.id.local.value();
  out.message.peer_proxy = path.id.remote.value();
  out.message.epoch = epoch;
  outgoing_.push_back(out);
}

void Paths::answer(const Path& path, const ControlMessage& fence) {
  send_control(path,
               fence.kind == ControlMessage::Kind::kFence ? ControlMessage::Kind::kFenced
                                                          : ControlMessage::Kind::kFencedBefore,
               fence.epoch);
}

void Paths::answer_all(Path& path) {
  if (path.asked) answer(path, *path.asked);
  for (const ControlMessage& fence : path.fences) answer(path, fence);
  path.asked.reset();
  path.fences.clear();
}

// The last epoch is not known, or there are several that the peer may still have open: so it is told which
// will be the next.
void Paths::fence_whichever(Path& path) {
  path.awaits_answer = path.awaits_answer || (path.next_epoch != 0 && path.told);
  begin_fencing(path);
  path.whichever = true;
  path.epoch = path.next_epoch = prng_.next() | 1;
  path.closed = 0;
  path.up = path.dead = path.told = path.handshaking = false;
}

// FO-2
void Paths::closed(const PathId& id, bool closed, std::uint64_t epoch, std::uint64_t peer_epoch) {
  Path* const path = find(id);
  if (path == nullptr || path->state != State::kClosing) return;
  if (!closed) {
    not_closed(*path);
    return consider(id.cluster);
  }
  ++stats_.fenced;
  const auto names_it = [&](const ControlMessage& m) {
    return m.kind == ControlMessage::Kind::kFence && m.epoch == peer_epoch;
  };
  // The peer has closed this very conversation, or where it never answered nothing of it can be in flight.
  bool over =
      path->asked && (path->asked->kind == ControlMessage::Kind::kFenceBefore || names_it(*path->asked));
  if (!path->handshaking)
    over = over || peer_epoch == 0 || std::any_of(path->fences.begin(), path->fences.end(), names_it);
  answer_all(*path);
  if (over) {
    resume(*path);
  } else if (path->handshaking) {
    fence_whichever(*path);
  } else {
    begin_fencing(*path);
    path->epoch = epoch;
    path->closed = peer_epoch;
    path->up = path->dead = path->told = false;
  }
  consider(id.cluster);
}

// The peer's message was about an incarnation that is gone here already, or its packets arrive again.
void Paths::not_closed(Path& path) {
  const std::vector<ControlMessage> others = std::exchange(path.fences, {});
  path.dead = path.dead && path.asked;
  answer_all(path);
  path.state = State::kOpen;
  if (path.handshaking) begin_fencing(path);
  if (path.handshaking && path.up) {  // the peer spoke meanwhile
    resume(path);
    path.up = true;
  }
  for (const ControlMessage& fence : others) on_fence(path, fence);
}

// FO-4
void Paths::resume(Path& path) {
  Path open;
  open.id = path.id;
  open.present = path.present;
  open.next_epoch = path.next_epoch;
  open.last_before = path.last_before;
  path = open;
  ++stats_.resumed;
  if (stalled_[path.id.local.value()]) return;  // back() does it
  command_resume(path);
  path.next_epoch = 0;
}

void Paths::on_control(ClusterId from, const ControlMessage& m) {
  Path* const path = find({ProxyId(m.peer_proxy), from, ProxyId(m.proxy)});
  if (path == nullptr || !path->present) return;
  if (m.kind == ControlMessage::Kind::kFence || m.kind == ControlMessage::Kind::kFenceBefore)
    return on_fence(*path, m);
  const bool whichever = m.kind == ControlMessage::Kind::kFencedBefore;
  if (path->state == State::kFencing && path->told && path->whichever == whichever && m.epoch == path->epoch)
    resume(*path);
}

// FO-3
void Paths::on_fence(Path& path, const ControlMessage& m) {
  const bool before = m.kind == ControlMessage::Kind::kFenceBefore;
  if (before) {
    const bool overtaken = path.last_before && static_cast<std::int32_t>(m.serial - *path.last_before) < 0;
    if (overtaken) return answer(path, m);
    path.last_before = m.serial;
  }
  const bool names_it = !before && m.epoch == path.closed && path.closed != 0;
  switch (path.state) {
    case State::kOpen:
      if (stalled_[path.id.local.value()])
        answer(path, m);  // what it had is closed
      else
        close_for_peer(path, m);
      return;
    case State::kClosing:
      if (path.fences.size() < kMaxFences) path.fences.push_back(m);
      return;
    case State::kFencing:
      // The end of the new handshake may be what the peer has closed.
      if (path.handshaking && !names_it) return close_for_peer(path, m);
      answer(path, m);
      if (names_it) resume(path);
      return;
  }
}

// ---------------------------------------------------------------- stalled proxies

// FO-5
void Paths::stalled(ProxyId proxy) {
  if (stalled_[proxy.value()]) return;
  stalled_[proxy.value()] = true;
  std::erase_if(commands_, [&](const Command& c) { return proxy_of(c) == proxy; });
  for (Path& path : paths_) {
    if (path.id.local != proxy || !path.present) continue;
    answer_all(path);
    path.unsettled = true;
    // Nobody was told of a later conversation than the one that it was closed in.
    if (path.state == State::kFencing && !path.handshaking) continue;
    ++stats_.fenced;
    fence_whichever(path);
    consider(path.id.cluster);
  }
}

bool Paths::fenced(ProxyId proxy) const {
  return std::none_of(paths_.begin(), paths_.end(),
                      [&](const Path& p) { return p.id.local == proxy && p.unsettled; });
}

// FO-6
void Paths::back(ProxyId proxy) {
  stalled_[proxy.value()] = false;
  for (Path& path : paths_) {
    if (path.id.local != proxy || !path.present) continue;
    if (path.state == State::kOpen) {
      command_resume(path);
      path.next_epoch = 0;
    }
    consider(path.id.cluster);
  }
}

// ---------------------------------------------------------------- polling

std::optional<Paths::Command> Paths::poll_command() {
  return take_first(commands_);
}

std::optional<Paths::Outgoing> Paths::poll_control() {
  return take_first(outgoing_);
}

std::optional<std::pair<ClusterId, Association>> Paths::poll_lost() {
  return take_first(lost_);
}

}  // namespace braid::convergence
