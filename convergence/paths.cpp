#include "convergence/paths.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "stack/stack.h"

namespace braid::convergence {

Paths::Paths(unsigned proxies, const std::vector<PathId>& paths, std::uint64_t seed)
    : stalled_(proxies, false), peers_(stack::kMaxClusters), prng_(seed) {
  for (const PathId& id : paths) {
    CHECK_LT(id.local.value(), proxies);
    CHECK_LT(id.cluster.value(), stack::kMaxClusters);
    Path path;
    path.id = id;
    paths_.push_back(path);
  }
  for (Peer& peer : peers_) peer.association.own = prng_.next() | 1;  // never 0, which says "unknown"
}

Paths::Path* Paths::find(const PathId& id) {
  const auto path = std::find_if(paths_.begin(), paths_.end(), [&](const Path& p) { return p.id == id; });
  return path == paths_.end() ? nullptr : &*path;
}

void Paths::reset(Path& path) {
  if (path.state == State::kFencing) --fencing_;
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
  return std::any_of(paths_.begin(), paths_.end(), [&](const Path& p) { return p.id == id && p.alive; });
}

bool Paths::reachable(ClusterId cluster) const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [&](const Path& p) { return p.id.cluster == cluster && p.alive; });
}

ProxyId Paths::speaker(ClusterId cluster) const {
  for (const Path& p : paths_)
    if (p.id.cluster == cluster && p.alive) return p.id.local;
  const auto running = std::find(stalled_.begin(), stalled_.end(), false);
  return ProxyId(static_cast<std::uint8_t>(running == stalled_.end() ? 0 : running - stalled_.begin()));
}

// ---------------------------------------------------------------- incarnations

bool Paths::is_retired(const Peer& peer, std::uint64_t incarnation) const {
  return std::find(peer.retired.begin(), peer.retired.end(), incarnation) != peer.retired.end();
}

bool Paths::heard(ClusterId from, const Association& association) {
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
    // It may be alive and only not heard: a new incarnation of ours tells it that we start anew.
    peer.association.own = prng_.next() | 1;
  } else {
    peer.retired[peer.next_retired] = ended.peer;
    peer.next_retired = (peer.next_retired + 1) % peer.retired.size();
  }
  peer.association.peer = 0;
  for (Path& path : paths_) {
    if (path.id.cluster != cluster) continue;
    reset(path);
  }
  // What was still to be said to it is of no meaning any more.
  std::erase_if(outgoing_, [&](const Outgoing& out) { return out.to == cluster; });
  std::erase_if(commands_, [&](const Command& c) { return c.path.cluster == cluster; });
  for (unsigned p = 0; p < stalled_.size(); ++p) {
    if (stalled_[p]) continue;
    Command command;
    command.kind = Command::Kind::kForgetPeer;
    command.path = {ProxyId(static_cast<std::uint8_t>(p)), cluster, ProxyId()};
    command.own = peer.association.own;
    command.association = ended;
    commands_.push_back(command);
  }
  lost_.emplace_back(cluster, ended);
  ++stats_.peers_lost;
}

bool Paths::deaf(ClusterId cluster) const {
  bool fencing = false;
  for (const Path& path : paths_) {
    if (path.id.cluster != cluster || !path.present) continue;
    if (path.state == State::kClosing) return false;
    if (path.state == State::kOpen && !stalled_[path.id.local.value()]) return false;
    fencing = fencing || path.state == State::kFencing;
  }
  return fencing;
}

// ---------------------------------------------------------------- paths

void Paths::up(const PathId& id, const Association& association) {
  if (!heard(id.cluster, association)) return;
  Path* const path = find(id);
  if (path == nullptr || !path->present || path->state != State::kOpen || stalled_[id.local.value()]) return;
  path->alive = true;
  path->dead = false;
  consider(id.cluster);
}

void Paths::dead(const PathId& id) {
  Path* const path = find(id);
  if (path == nullptr || !path->present || path->state != State::kOpen) return;
  path->alive = false;
  path->dead = true;
  consider(id.cluster);
}

// FO-1: a path is given up only for another one.
void Paths::consider(ClusterId cluster) {
  if (!reachable(cluster)) return;
  for (Path& path : paths_) {
    if (path.id.cluster != cluster) continue;
    if (path.state == State::kOpen && path.dead) close(path, false, 0);
    if (path.state == State::kFencing && !path.told) {
      path.told = true;
      say(path, ControlMessage::Kind::kFence, path.epoch);
    }
  }
}

void Paths::close(Path& path, bool by_peer, std::uint64_t epoch) {
  path.state = State::kClosing;
  path.alive = false;
  Command command;
  command.kind = Command::Kind::kClose;
  command.path = path.id;
  command.by_peer = by_peer;
  command.epoch = epoch;
  commands_.push_back(command);
}

void Paths::say(const Path& path, ControlMessage::Kind kind, std::uint64_t epoch) {
  Outgoing out{path.id.cluster, {}};
  out.message.kind = kind;
  out.message.proxy = path.id.local.value();
  out.message.peer_proxy = path.id.remote.value();
  out.message.epoch = epoch;
  outgoing_.push_back(out);
}

void Paths::answer(Path& path) {
  if (!std::exchange(path.owes_answer, false)) return;
  say(path, ControlMessage::Kind::kFenced, path.answer_epoch);
}

// FO-2
void Paths::closed(const PathId& id, bool closed, std::uint64_t epoch, std::uint64_t peer_epoch) {
  Path* const path = find(id);
  if (path == nullptr || path->state != State::kClosing) return;
  if (!closed) {  // the peer's word was about an incarnation that is gone here already
    path->state = State::kOpen;
    path->closed_by_peer = false;
    answer(*path);
    return;
  }
  ++stats_.fenced;
  path->state = State::kFencing;
  ++fencing_;
  path->epoch = epoch;
  path->told = false;
  answer(*path);
  // Where the peer never answered nothing of it can be under way.
  if (path->closed_by_peer || peer_epoch == 0)
    resume(*path);
  else
    consider(id.cluster);
}

// FO-4
void Paths::resume(Path& path) {
  const PathId id = path.id;
  reset(path);
  ++stats_.resumed;
  if (stalled_[id.local.value()]) return;  // back() does it
  Command command;
  command.kind = Command::Kind::kResume;
  command.path = id;
  command.own = own_incarnation(id.cluster);
  commands_.push_back(command);
}

void Paths::on_control(ClusterId from, const ControlMessage& m) {
  Path* const path = find({ProxyId(m.peer_proxy), from, ProxyId(m.proxy)});
  if (path == nullptr || !path->present) return;
  if (m.kind == ControlMessage::Kind::kFence) {
    on_fence(*path, m);
  } else if (m.kind == ControlMessage::Kind::kFenced && path->state == State::kFencing && path->told &&
             m.epoch == path->epoch) {
    resume(*path);
  }
}

// FO-3
void Paths::on_fence(Path& path, const ControlMessage& m) {
  path.owes_answer = true;
  path.answer_epoch = m.epoch;
  path.closed_by_peer = true;
  switch (path.state) {
    case State::kOpen:
      if (stalled_[path.id.local.value()]) {
        answer(path);  // what it had is closed
        path.closed_by_peer = false;
      } else {
        close(path, true, m.epoch);
      }
      return;
    case State::kClosing:
      return;  // closed() answers
    case State::kFencing:
      answer(path);
      resume(path);
      return;
  }
}

// ---------------------------------------------------------------- proxies that stand still

// FO-5
void Paths::stalled(ProxyId proxy) {
  if (stalled_[proxy.value()]) return;
  stalled_[proxy.value()] = true;
  for (Path& path : paths_) {
    if (path.id.local != proxy || !path.present) continue;
    path.alive = false;
    path.dead = false;
    if (path.state == State::kFencing) continue;
    path.state = State::kFencing;
    ++fencing_;
    path.epoch = 0;  // whichever it has: its word on that cannot be had
    path.told = false;
    ++stats_.fenced;
    answer(path);
    if (path.closed_by_peer)
      resume(path);
    else
      consider(path.id.cluster);
  }
}

bool Paths::fenced(ProxyId proxy) const {
  return std::none_of(paths_.begin(), paths_.end(),
                      [&](const Path& p) { return p.id.local == proxy && p.state != State::kOpen; });
}

// FO-6
void Paths::back(ProxyId proxy) {
  stalled_[proxy.value()] = false;
  for (Path& path : paths_) {
    if (path.id.local != proxy || !path.present || path.state != State::kOpen) continue;
    Command command;
    command.kind = Command::Kind::kResume;
    command.path = path.id;
    command.own = own_incarnation(path.id.cluster);
    commands_.push_back(command);
  }
}

// ---------------------------------------------------------------- polling

namespace {
template <class T>
std::optional<T> take_first(std::deque<T>& queue) {
  if (queue.empty()) return std::nullopt;
  std::optional<T> first(std::move(queue.front()));
  queue.pop_front();
  return first;
}
}  // namespace

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
