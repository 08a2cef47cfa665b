#include "proxy/daemon/peers.h"

#include <algorithm>

#include "base/take_first.h"

namespace braid::proxy {

convergence::Paths Peers::make_paths(const std::vector<stack::StackConfig>& stacks, std::uint64_t seed) {
  std::vector<convergence::PathId> all;
  for (const stack::StackConfig& s : stacks)
    for (const stack::RemoteStack& r : s.remotes) all.push_back({s.local.proxy, r.id.cluster, r.id.proxy});
  const bool at_first_use = !stacks.empty() && stacks[0].sub_connection.greets_at_first_use;
  return convergence::Paths(static_cast<unsigned>(stacks.size()), all, seed, at_first_use);
}

namespace {

// Up to the last one to which there is a path.
std::size_t clusters_of(const std::vector<stack::StackConfig>& stacks) {
  std::size_t clusters = 0;
  for (const stack::StackConfig& s : stacks)
    for (const stack::RemoteStack& r : s.remotes)
      clusters = std::max(clusters, std::size_t{r.id.cluster.value()} + 1);
  return clusters;
}

}  // namespace

Peers::Peers(std::vector<stack::StackConfig>& stacks, Duration peer_death, std::uint64_t seed,
             const ProxyMonitor& monitor)
    : monitor_(monitor),
      active_(monitor.proxies()),
      paths_(make_paths(stacks, seed)),
      control_(monitor.proxies(), clusters_of(stacks)),
      closed_(peer_death) {
  for (stack::StackConfig& s : stacks) {
    for (stack::RemoteStack& r : s.remotes) {
      const convergence::PathId path{s.local.proxy, r.id.cluster, r.id.proxy};
      if (r.absent)
        paths_.set_present(path, false);
      else
        remotes_.add({path, r});
      r.incarnation = paths_.own_incarnation(r.id.cluster);
    }
  }
}

namespace {

// Fences name an epoch; all other messages are for one incarnation of the receiver.
bool is_fence(convergence::ControlMessage::Kind kind) {
  using Kind = convergence::ControlMessage::Kind;
  return kind == Kind::kFence || kind == Kind::kFenced || kind == Kind::kFenceBefore ||
         kind == Kind::kFencedBefore;
}

// CN-8: a path that comes up again may carry messages that waited for the receiver's predecessor.
bool is_for(std::uint64_t incarnation, const convergence::ControlMessage& message) {
  return is_fence(message.kind) || message.epoch == 0 || message.epoch == incarnation;
}

}  // namespace

// ---------------------------------------------------------------- events of proxies

// CN-11
bool Peers::received(const ControlReceived& event) {
  const ClusterId from = event.from;
  const bool known = association(from).peer != 0;
  if (!paths_.received(from, event.association)) return false;
  if (!known) tell_active(from);
  run();  // the loss of an earlier incarnation comes before messages of its successor
  if (!is_for(event.association.own, event.message)) return false;
  if (!control_.receive(from, event.message.serial)) return false;
  switch (event.message.kind) {
    case convergence::ControlMessage::Kind::kFence:
    case convergence::ControlMessage::Kind::kFenced:
    case convergence::ControlMessage::Kind::kFenceBefore:
    case convergence::ControlMessage::Kind::kFencedBefore:
      paths_.on_control(from, event.message);
      return false;
    case convergence::ControlMessage::Kind::kProxies:
      tell_running(PreferProxies{from, event.message.proxy});
      return false;
    case convergence::ControlMessage::Kind::kConnect:
    case convergence::ControlMessage::Kind::kAccept:
    case convergence::ControlMessage::Kind::kConfirm:
    case convergence::ControlMessage::Kind::kRefuse:
    case convergence::ControlMessage::Kind::kClose:
      return true;
  }
  return false;
}

void Peers::on_event(const PathUp& event) {
  const bool known = association(event.path.cluster).peer != 0;
  paths_.up(event.path, event.association);
  if (!known) tell_active(event.path.cluster);
}

void Peers::on_event(const PathClosed& event) {
  paths_.closed(event.path, event.closed, event.epoch, event.peer_epoch);
}

void Peers::on_event(const PeerLost& event) {
  if (event.closed) ending_.insert(event.cluster.value());
  paths_.lost(event.cluster, event.association, event.silent);
}

// ---------------------------------------------------------------- a stalled proxy

void Peers::proxy_fenced(ProxyId proxy) {
  remotes_.proxy_fenced(proxy.value());
  paths_.stalled(proxy);
  // A peer may wait for one of its messages to close a path; a peer that has received it drops the duplicate.
  for (const SendControl& message : control_.take(proxy)) {
    const ProxyId sender = paths_.control_proxy(message.to);
    control_.hand_over(sender, message);
    tell(sender.value(), message);
  }
}

// FO-6. It is told of other machines' remotes again; ResumePath says when it starts handshakes with them.
void Peers::proxy_back(ProxyId proxy) {
  for (const ClusterId cluster : remotes_.clusters()) {
    if (remotes_.draining(cluster)) continue;
    for (const RemotePath& r : remotes_.of(cluster))
      if (r.path.local == proxy && r.stack.names) tell(proxy.value(), ConnectPath{r.path, r.stack, false});
  }
  paths_.back(proxy);
}

// ---------------------------------------------------------------- time

int Peers::run() {
  int work = 0;
  for (; const auto lost = paths_.poll_lost(); ++work) lose(lost->first);
  for (; const std::optional<convergence::Paths::Command> command = paths_.poll_command(); ++work)
    std::visit([&](const auto& c) { tell(proxy_of(*command).value(), c); }, *command);
  for (; const auto out = paths_.poll_control(); ++work) send(out->to, out->message);
  return work;
}

void Peers::lose(ClusterId cluster) {
  lost_.push_back({cluster, ending_.erase(cluster.value()) > 0});
  control_.peer_lost(cluster);
  tell_running(PreferProxies{cluster, kMaxProxies});
}

void Peers::watch(Instant now) {
  if (!paths_.fencing()) return closed_.clear();
  for (const ClusterId cluster : remotes_.clusters())
    if (closed_.is_lost(now, cluster, paths_.all_closed(cluster))) paths_.give_up(cluster);
}

// ---------------------------------------------------------------- messages for peers

void Peers::send(ClusterId to, convergence::ControlMessage message) {
  begin_use(to);
  if (!is_fence(message.kind)) message.epoch = association(to).peer;
  const ProxyId sender = paths_.control_proxy(to);
  tell(sender.value(), control_.number(sender, to, message));
}

void Peers::set_active(unsigned count) {
  active_ = count;
  for (const ClusterId cluster : remotes_.clusters()) tell_active(cluster);
}

// FO-8
void Peers::tell_active(ClusterId cluster) {
  if (association(cluster).peer == 0) return;  // it is told when it is known
  convergence::ControlMessage message;
  message.kind = convergence::ControlMessage::Kind::kProxies;
  message.proxy = static_cast<std::uint8_t>(active_);
  send(cluster, message);
}

// ---------------------------------------------------------------- clusters of other machines

void Peers::connect(const std::vector<RemotePath>& paths) {
  for (const RemotePath& r : paths) {
    remotes_.add(r);
    paths_.set_present(r.path, true);
    const unsigned proxy = r.path.local.value();
    if (monitor_.running(proxy)) tell(proxy, ConnectPath{r.path, r.stack, true});
  }
}

void Peers::drain(ClusterId cluster) {
  tell_running(DrainCluster{cluster});
  std::set<unsigned> running;
  for (unsigned p = 0; p < monitor_.proxies(); ++p)
    if (monitor_.running(p)) running.insert(p);
  remotes_.drain(cluster, std::move(running));
}

void Peers::forget(ClusterId cluster) {
  // No message to it or from it concerns its successor.
  paths_.give_up(cluster);
  for (const RemotePath& r : remotes_.of(cluster)) paths_.set_present(r.path, false);
  run();
  remotes_.erase(cluster);
  closed_.forget(cluster);
}

// ---------------------------------------------------------------- queries

Peers::Count Peers::count_paths(ClusterId cluster) const {
  Count count;
  for (const RemotePath& r : remotes_.of(cluster)) {
    count.all += monitor_.running(r.path.local.value()) ? 1 : 0;
    count.up += paths_.alive(r.path) ? 1 : 0;
  }
  return count;
}

std::string Peers::problems(ClusterId cluster) const {
  return remotes_.problems(cluster, [&](const convergence::PathId& path) { return paths_.alive(path); });
}

void Peers::tell_running(const WorkerCommand& command) {
  for (unsigned p = 0; p < monitor_.proxies(); ++p)
    if (monitor_.running(p)) tell(p, command);
}

std::optional<AddressedCommand> Peers::poll_command() {
  return take_first(commands_);
}

std::optional<Peers::Lost> Peers::poll_lost() {
  return take_first(lost_);
}

}  // namespace braid::proxy
