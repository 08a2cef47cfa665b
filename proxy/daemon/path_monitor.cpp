#include "proxy/daemon/path_monitor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace braid::proxy {
namespace {

// How long the last messages to a cluster that is drained may take to be acknowledged.
constexpr Duration kDrainTimeout = 200_ms;

bool is_fenced(const stack::SubConnection& sub) {
  return sub.state() == stack::SubConnection::State::kFenced;
}

// Messages of this fence follow those of an earlier one.
void append(stack::OutMessage** list, stack::OutMessage* messages) {
  while (*list != nullptr) list = &(*list)->next;
  *list = messages;
}

}  // namespace

PathMonitor::PathMonitor(stack::Stack& stack) : stack_(stack) {
  const stack::StackConfig& config = stack.config();
  unsigned clusters = 0;  // up to the last one to which there is a path
  for (std::size_t i = 0; i < config.remotes.size(); ++i) {
    const stack::RemoteStack& remote = config.remotes[i];
    Path path;
    path.sub = stack_.sub_connections()[i].get();
    path.id = {config.local.proxy, remote.id.cluster, remote.id.proxy};
    path.known = !remote.absent;
    path.waits = remote.absent;
    paths_.push_back(path);
    clusters = std::max(clusters, unsigned{remote.id.cluster.value()} + 1);
  }
  reached_ = greeted_ = ClusterBits(clusters);
  of_cluster_.resize(clusters);
  for (std::uint32_t i = 0; i < paths_.size(); ++i) of_cluster_[paths_[i].id.cluster.value()].push_back(i);
  for (std::uint16_t cluster = 0; cluster < clusters; ++cluster) {
    make_route(ClusterId(cluster));
    note_reached(ClusterId(cluster));
  }
}

PathMonitor::Path* PathMonitor::find(const convergence::PathId& id) {
  if (id.cluster.value() >= of_cluster_.size()) return nullptr;
  for (const std::uint32_t i : of_cluster_[id.cluster.value()])
    if (paths_[i].id == id) return &paths_[i];
  return nullptr;
}

PathMonitor::Path& PathMonitor::at(const convergence::PathId& id) {
  Path* const path = find(id);
  CHECK(path != nullptr);
  return *path;
}

// Those that are preferred first.
void PathMonitor::make_route(ClusterId cluster) {
  std::vector<stack::SubConnection*> subs;
  std::uint32_t preferred_subs = 0;
  for (const bool preferred : {true, false}) {
    for (const Path& path : paths_) {
      if (path.id.cluster != cluster || !path.known || stack_.remote(index(path)).preferred != preferred)
        continue;
      subs.push_back(path.sub);
      if (preferred) ++preferred_subs;
    }
  }
  routes_.set(cluster, std::move(subs), preferred_subs);
}

std::optional<PathMonitor::Decision> PathMonitor::poll() {
  if (next_decision_ == decisions_.size()) {
    decisions_.clear();
    next_decision_ = 0;
    return std::nullopt;
  }
  return decisions_[next_decision_++];
}

// ---------------------------------------------------------------- watching

void PathMonitor::watch(Instant now) {
  for (Path& path : paths_) look_at(now, path);
}

void PathMonitor::watch_changed(Instant now) {
  stack_.agenda().take_changed([&](std::size_t i) { look_at(now, paths_[i]); });
}

void PathMonitor::look_at(Instant now, Path& path) {
  watch(now, path);
  tell_unreachable(path);
  tell_refused(path);
  refused_peer_ = refused_peer_ || path.sub->refused_hash();
  note_reached(path.id.cluster);
}

void PathMonitor::note_reached(ClusterId cluster) {
  bool reached = false, greeted = false;
  for (const std::uint32_t i : of_cluster_[cluster.value()]) {
    const stack::SubConnection& sub = *paths_[i].sub;
    reached = reached || lives(sub);
    greeted = greeted || sub.state() == stack::SubConnection::State::kHandshake;
  }
  reached ? reached_.add(cluster) : reached_.remove(cluster);
  greeted ? greeted_.add(cluster) : greeted_.remove(cluster);
}

void PathMonitor::recall(ClusterId cluster) {
  for (const std::uint32_t i : of_cluster_[cluster.value()]) {
    stack::SubConnection& sub = *paths_[i].sub;
    if (sub.state() == stack::SubConnection::State::kHandshake && sub.has_unfinished())
      send_again(sub.recall(), false);
  }
}

void PathMonitor::watch(Instant now, Path& path) {
  stack::SubConnection& sub = *path.sub;
  if (!path.known || is_fenced(sub)) return;
  if (sub.take_lost()) {
    // It can be told apart from its successor only by the incarnation that it had when it was up.
    const convergence::Association lost{sub.config().incarnation, sub.lost_incarnation()};
    if (path.told == Path::Told::kNothing && !(path.waits && lost == path.association)) {
      path.association = lost;
      report(PathUp{path.id, path.association});
    }
    const bool replaced = sub.established() && sub.peer_incarnation() != path.association.peer;
    decisions_.push_back(EndIncarnation{path.id.cluster, path.association.peer});
    report(PeerLost{path.id.cluster, path.association, !replaced, sub.peer_closed()});
    path.told = Path::Told::kNothing;
    if (!replaced) return fence(now, path);  // the control plane says with which incarnation it starts again
  }
  // A path that waits for the peer to close its end is up only when the peer has confirmed it (FO-10).
  const Path::Told state = !sub.established() || (path.waits && !sub.confirmed()) ? Path::Told::kNothing
                           : sub.path_dead()                                      ? Path::Told::kDead
                                                                                  : Path::Told::kUp;
  if (state == path.told) return;
  if (state == Path::Told::kUp || path.told == Path::Told::kNothing) {
    path.association = {sub.config().incarnation, sub.peer_incarnation()};
    report(PathUp{path.id, path.association});
  }
  if (state == Path::Told::kDead) report(PathDead{path.id});
  path.told = state;
}

// Reports why a path does not come up, once for each reason.
void PathMonitor::tell_unreachable(Path& path) {
  const stack::PathReport& unreachable = stack_.path_report(index(path));
  if (unreachable.unreachables == path.unreachables || !path.known) return;
  path.unreachables = unreachable.unreachables;
  if (!lives(*path.sub)) report(PathUnreachable{path.id, unreachable.reason});
}

// Reports why hellos are refused, once for each reason: anybody can send them, as often as they like.
void PathMonitor::tell_refused(Path& path) {
  const stack::Refusal why = path.sub->refusal();
  const auto bit = static_cast<std::uint8_t>(1u << static_cast<unsigned>(why));
  if (why == stack::Refusal::kNone || why == stack::Refusal::kOtherSettings || (path.refusals & bit) != 0)
    return;
  path.refusals |= bit;
  report(PeerRefused{path.id.cluster, why});
}

// ---------------------------------------------------------------- commands of the control plane

void PathMonitor::fence(Instant now, Path& path) {
  append(&path.held, path.sub->fence(now));
  path.waits = true;
  path.told = Path::Told::kNothing;
}

void PathMonitor::obey(Instant now, const ClosePath& c) {
  Path& path = at(c.path);
  watch(now, path);  // what it has to report comes first
  const stack::SubConnection& sub = *path.sub;
  PathClosed answer{path.id, false, sub.epoch(), sub.established() ? sub.peer_epoch() : 0};
  // Our own judgement concerns the established peer. A peer's Fence concerns the epoch that it names; an end
  // that does not know that epoch yet must not be established with it either.
  answer.closed = path.known && !is_fenced(sub) &&
                  (!c.peer_end          ? sub.established() && sub.path_dead()
                   : c.peer_end->before ? !sub.has_met(c.peer_end->epoch)
                                        : !sub.established() || answer.peer_epoch == c.peer_end->epoch);
  if (answer.closed) fence(now, path);
  report(answer);
}

void PathMonitor::obey(Instant now, const HandshakePath& c) {
  const Path& path = at(c.path);
  if (path.known && path.waits && is_fenced(*path.sub)) path.sub->reopen(now, c.incarnation, c.epoch);
}

void PathMonitor::obey(Instant now, const ResumePath& c) {
  Path& path = at(c.path);
  if (!path.known || !std::exchange(path.waits, false)) return;
  set_changed(path);
  if (is_fenced(*path.sub)) path.sub->reopen(now, c.incarnation, c.epoch);
  send_again(std::exchange(path.held, nullptr), true);
}

void PathMonitor::obey(Instant now, const ForgetPeer& c) {
  decisions_.push_back(EndIncarnation{c.cluster, c.association.peer});
  for (Path& path : paths_) {
    if (path.id.cluster != c.cluster || !path.known) continue;
    watch(now, path);
    stack::SubConnection& sub = *path.sub;
    fail(std::exchange(path.held, nullptr));
    path.waits = false;
    const bool goes_on = !is_fenced(sub) && sub.config().incarnation == c.incarnation;
    if (goes_on && sub.established() && sub.peer_incarnation() != c.association.peer)
      continue;  // established with the successor
    if (goes_on && !sub.established()) {
      fail(sub.recall());  // it may be known to the successor already
      continue;
    }
    if (!is_fenced(sub)) fail(sub.fence(now));
    path.told = Path::Told::kNothing;
    sub.reopen(now, c.incarnation);
  }
  decisions_.push_back(FailWaiting{c.cluster});
}

// SC-14
void PathMonitor::obey(Instant now, const GreetPath& c) {
  at(c.path).sub->greet(now);
}

// This proxy was stalled, and others have taken over (FO-6).
void PathMonitor::restart(Instant now) {
  for (Path& path : paths_) {
    if (stack_.remote(index(path)).names && std::exchange(path.known, false)) make_route(path.id.cluster);
    (void)path.sub->fence(now);
    (void)path.sub->take_finished();
    (void)path.sub->take_lost();
    path.told = Path::Told::kNothing;
    path.held = nullptr;
    path.waits = true;
  }
  drains_.clear();
  decisions_.clear();
  next_decision_ = 0;
}

// ---------------------------------------------------------------- clusters of other machines

void PathMonitor::obey(Instant now, const ConnectPath& c) {
  Path* const path = find(c.path);
  if (path == nullptr) return;
  CHECK(path->waits);
  // The control plane has checked that a link leads there.
  if (!stack_.set_remote(index(*path), c.remote)) return;
  path->known = true;
  path->unreachables = 0;
  make_route(path->id.cluster);
  if (!c.opens) return;  // ResumePath does
  path->waits = false;
  path->sub->reopen(now, c.remote.incarnation);
}

// No connection with it is left, so only control messages are still in flight.
void PathMonitor::obey(Instant now, const DrainCluster& c) {
  for (Path& path : paths_) {
    if (path.id.cluster != c.cluster || !path.known) continue;
    path.known = false;
    path.told = Path::Told::kNothing;
    fail(std::exchange(path.held, nullptr));
    path.waits = true;
    path.sub->close(now);
    set_changed(path);
  }
  make_route(c.cluster);
  decisions_.push_back(FailWaiting{c.cluster});
  drains_.push_back({c.cluster, now + kDrainTimeout});
}

bool PathMonitor::is_closed(ClusterId cluster) const {
  return std::all_of(paths_.begin(), paths_.end(), [&](const Path& path) {
    return path.id.cluster != cluster || is_fenced(*path.sub) ||
           path.sub->state() == stack::SubConnection::State::kClosed;
  });
}

void PathMonitor::end(Instant now, ClusterId cluster) {
  for (const Path& path : paths_) {
    if (path.id.cluster != cluster) continue;
    fail(path.sub->fence(now));
    (void)path.sub->take_lost();
  }
  report(ClusterDrained{cluster});
}

Instant PathMonitor::next_deadline() const {
  Instant next = Instant::never();
  for (const Drain& drain : drains_) next = earlier(next, drain.until);
  return next;
}

}  // namespace braid::proxy
