// What a node's control plane does about its proxies: which of them serves which lane of its clients, how
// many are active, and what happens when one stands still.
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"
#include "proxy/daemon/node.h"

namespace braid::proxy {
namespace {

// A control plane that comes so late was itself held up; what it did not see meanwhile says nothing.
constexpr Duration kControlGap = 50_ms;

}  // namespace

// ---------------------------------------------------------------- lanes

unsigned Node::server_for(unsigned lane) const {
  std::vector<unsigned> able;
  for (unsigned p = 0; p < active_; ++p)
    if (serves(p)) able.push_back(p);
  for (unsigned p = active_; p < proxies_.size() && able.empty(); ++p)
    if (serves(p)) able.push_back(p);
  if (able.empty() || std::find(able.begin(), able.end(), lane) != able.end()) return lane;
  return able[lane % able.size()];
}

void Node::tell_servers() {
  for (unsigned p = 0; p < proxies_.size(); ++p)
    counters_->server[p].store(static_cast<std::uint8_t>(server_for(p)), std::memory_order_relaxed);
}

std::byte* Node::map_client(int fd, std::uint64_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

void Node::attach_proxy(ClientId id, Client& client, unsigned p, bool resumes) {
  tell_worker(p, MapClient{id, client.mapped[p]});
  for (unsigned e = 0; e < client.geometry.endpoints; ++e) {
    Lane& lane = client.lanes[e * proxies() + p];
    lane.receiver = std::make_unique<Channel>(id, client.geometry, client.mapped[p], e, p, resumes);
    lane.receiver->sends = lane.server == p && !resumes && !proxies_[p].owes;
    tell_worker(p, AttachChannel{lane.receiver.get()});
  }
}

void Node::add_sender(ClientId id, Client& client, unsigned index, bool resumes) {
  Lane& lane = client.lanes[index];
  const unsigned p = lane.server;
  lane.sender = std::make_unique<Channel>(id, client.geometry, client.mapped[p], index / proxies(),
                                          index % proxies(), resumes);
  tell_worker(p, AttachChannel{lane.sender.get()});
}

void Node::detach_channel(Client& client, unsigned proxy, Channel* channel) {
  ++client.detaching;
  tell_worker(proxy, DetachChannel{channel});
}

int Node::rebalance() {
  if (!lanes_unsettled_) return 0;
  lanes_unsettled_ = false;
  int moved = 0;
  tell_servers();
  for (auto& [id, client] : clients_) {
    if (client.detach_sent) continue;
    for (unsigned i = 0; i < client.lanes.size(); ++i) {
      Lane& lane = client.lanes[i];
      const unsigned wanted = server_for(i % proxies());
      if (lane.moving || lane.server == wanted) continue;
      if (!serves(wanted)) {
        lanes_unsettled_ = true;
        continue;
      }
      if (serves(lane.server)) {
        Channel* const channel = lane.sender != nullptr ? lane.sender.get() : lane.receiver.get();
        tell_worker(lane.server, ReleaseLane{channel});
        lane.moving = true;
        ++moving_;
      } else if (!proxies_[lane.server].owes) {
        lane.server = wanted;
        add_sender(id, client, i, true);
      } else {
        lanes_unsettled_ = true;  // nobody knows yet what it has sent
        continue;
      }
      ++moved;
    }
  }
  return moved;
}

// Its proxy takes nothing more from the lane, and nothing that it took is under way.
void Node::on_event(Instant, unsigned, const LaneReleased& event) {
  const Channel* const channel = event.channel;
  const ClientId id = channel->client;
  Client& client = clients_.at(id);
  const unsigned index = channel->endpoint * proxies() + channel->lane;
  Lane& lane = client.lanes[index];
  const unsigned giver = lane.server;
  lane.moving = false;
  --moving_;
  lanes_unsettled_ = true;
  if (lane.sender != nullptr) {
    client.retired.push_back(std::move(lane.sender));
    detach_channel(client, giver, client.retired.back().get());
  }
  lane.server = server_for(channel->lane);
  if (serves(lane.server)) serve_lane(id, client, index);  // else settle() does
  // Ports that are being drained: what the giver left in the lane is with another now.
  for (auto& [port, awaited] : draining_) {
    const auto end = installed_.find(port);
    if (end == installed_.end() || end->second.client != id) continue;
    if (!running(lane.server) && !proxies_[lane.server].owes) continue;
    awaited.push_back(lane.server);
    if (!serves(lane.server)) continue;
    tell_worker(lane.server, DrainPort{PortId(port)});
  }
}

void Node::on_event(Instant, unsigned, const ChannelDetached& event) {
  const Channel* const channel = event.channel;
  Client& client = clients_.at(channel->client);
  --client.detaching;
  std::erase_if(client.retired, [&](const auto& c) { return c.get() == channel; });
  for (Lane& lane : client.lanes) {  // so that it is not buried as well if its proxy is fenced now
    if (lane.receiver.get() == channel) lane.receiver.reset();
    if (lane.sender.get() == channel) lane.sender.reset();
  }
}

// ---------------------------------------------------------------- how many

void Node::set_active_proxies(unsigned count) {
  CHECK_GE(count, 1u);
  CHECK_LE(count, proxies());
  active_ = count;
  lanes_unsettled_ = true;
  for (unsigned p = 0; p < proxies(); ++p) states_[p].active.store(p < count, std::memory_order_relaxed);
  for (const auto& [cluster, remotes] : remotes_) tell_active(ClusterId(cluster));
}

void Node::prefer_proxies(ClusterId cluster, unsigned active) {
  tell_running(PreferProxies{cluster, active});
}

// FO-8
void Node::tell_active(ClusterId cluster) {
  if (paths_->association(cluster).peer == 0) return;  // when it is there
  convergence::ControlMessage message;
  message.kind = convergence::ControlMessage::Kind::kProxies;
  message.proxy = static_cast<std::uint8_t>(active_);
  say(cluster, message);
}

void Node::set_proxies(ClientId client, const control::Message& m) {
  if (m.set_proxies.active > proxies()) {
    refuse(client, m.serial,
           fmt::format("{} proxies: this node was started with {}, so 1 to {} can be active",
                       m.set_proxies.active, proxies(), proxies()));
    return;
  }
  if (m.set_proxies.active != 0) set_active_proxies(m.set_proxies.active);
  control::Message body;
  body.set_proxies = {active_, proxies()};
  answer(client, control::Kind::kOk, m.serial, body);
}

// ---------------------------------------------------------------- paths

// Nobody but us knows that we hear nothing: no sub-connection is left that could judge.
void Node::watch_paths(Instant now) {
  if (!paths_->fencing()) {
    deaf_since_.clear();
    return;
  }
  for (const auto& [number, remotes] : remotes_) {
    const ClusterId cluster(number);
    if (!paths_->deaf(cluster)) {
      deaf_since_.erase(number);
      continue;
    }
    const Instant since = deaf_since_.try_emplace(number, now).first->second;
    if (now - since < Duration::ms(config_.transport.peer_death_ms)) continue;
    deaf_since_.erase(number);
    paths_->give_up(cluster);
  }
}

int Node::run_paths() {
  int work = 0;
  for (; const auto lost = paths_->poll_lost(); ++work) {
    const ClusterId cluster = lost->first;
    ports_.peer_lost(cluster);
    const bool ended = ending_.erase(cluster.value()) > 0;
    if (machines_->is_place(cluster))
      machines_->lost(cluster);
    else
      (ended ? ended_peers_ : lost_peers_).push_back(cluster);
    heard_[cluster.value()].forget();
    for (std::deque<Said>& said : said_) std::erase_if(said, [&](const Said& x) { return x.to == cluster; });
    prefer_proxies(cluster, kMaxProxies);
  }
  for (; const auto path = paths_->poll_command(); ++work)
    tell_worker(path->path.local.value(), ControlPath{*path});
  for (; const auto out = paths_->poll_control(); ++work) say(out->to, out->message);
  return work;
}

// ---------------------------------------------------------------- a proxy that stands still

void Node::watch_proxies(Instant now) {
  const bool late = now - last_control_ > kControlGap;
  if (late) deaf_since_.clear();
  last_control_ = now;
  const Duration patience = Duration::ms(config_.transport.path_death_ms);
  bool somebody_runs = false;
  for (unsigned p = 0; p < proxies(); ++p) {
    Proxy& proxy = proxies_[p];
    const std::uint64_t beat = states_[p].heartbeat.load(std::memory_order_relaxed);
    if (beat != proxy.heartbeat || late) proxy.beat_at = now;
    proxy.heartbeat = beat;
    somebody_runs = somebody_runs || (running(p) && now - proxy.beat_at < patience);
  }
  for (unsigned p = 0; p < proxies(); ++p) {
    // If none goes on it is the machine that stands still, or there is nobody to take over.
    if (running(p) && somebody_runs && now - proxies_[p].beat_at >= patience) fence(p);
    if (!running(p) || proxies_[p].owes) consider_adoption(p);
  }
  watch_paths(now);
}

// FO-5. Its thread may be anywhere, also in the middle of a copy, and may go on at any time. From here on
// whatever it writes to clients' memory lands in copies of its own, and what it reads there is what stood
// there: so all that it can still do is to send what it was about to send, until its peers have closed its
// epochs.
void Node::fence(unsigned p) {
  Proxy& proxy = proxies_[p];
  proxy.fenced = true;
  ++proxy.generation;
  lanes_unsettled_ = true;
  proxy.back = false;
  proxy.owes = true;
  proxy.awaited.clear();
  states_[p].fenced.store(true, std::memory_order_seq_cst);
  for (auto& [id, entry] : clients_) {
    Client& client = entry;  // a lambda cannot name the binding with every compiler
    if (client.mapped.empty() || client.mapped[p] == nullptr) continue;
    const std::uint64_t bytes = client.geometry.total_bytes();
    CHECK(::mmap(client.mapped[p], bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, client.fd, 0) !=
          MAP_FAILED);
    for (std::unique_ptr<Channel>& channel : client.retired) {
      if (channel->memory != client.mapped[p]) continue;  // it was another's
      --client.detaching;
      proxy.graveyard.push_back(std::move(channel));
    }
    std::erase(client.retired, nullptr);
    proxy.old_mappings.emplace_back(client.mapped[p], bytes);
    client.mapped[p] = nullptr;
    for (unsigned i = 0; i < client.lanes.size(); ++i) {
      Lane& lane = client.lanes[i];
      const auto bury = [&](std::unique_ptr<Channel>& channel) {
        if (channel == nullptr) return;
        if (client.detach_sent) --client.detaching;
        proxy.graveyard.push_back(std::move(channel));
      };
      if (lane.server == p) bury(lane.sender);
      if (i % proxies() == p) bury(lane.receiver);
      if (lane.server == p && lane.moving) {
        lane.moving = false;
        --moving_;
      }
    }
  }
  states_[p].isolated.store(true, std::memory_order_release);
  backlog_[p].clear();
  for (unsigned other = 0; other < proxies(); ++other) {
    if (running(other))
      proxy.awaited.insert(other);
    else
      proxies_[other].awaited.erase(p);
  }
  tell_running(ForgetProxy{ProxyId(static_cast<std::uint8_t>(p))});
  for (auto& [place, awaited] : parting_) awaited.erase(p);
  paths_->stalled(ProxyId(static_cast<std::uint8_t>(p)));
  // What it was to say may be what somebody waits for, to close what it had; who has heard it knows it again
  // (CN-11).
  for (const Said& said : std::exchange(said_[p], {}))
    if (next_serial_ - said.message.serial <= 2 * kSaidRemembered)
      say_by(paths_->speaker(said.to).value(), said.to, said.message);
  fenced_proxies_.push_back(p);
}

// When nobody has anything of it any more, and its peers have closed what it could still send on, its lanes
// are served again. If it has come back before that it takes what its peers send, and greets those that
// nobody else can tell.
void Node::consider_adoption(unsigned p) {
  Proxy& proxy = proxies_[p];
  if (!proxy.awaited.empty()) return;
  if (proxy.owes && paths_->fenced(ProxyId(static_cast<std::uint8_t>(p)))) settle(p);
  if (proxy.back) take_back(p);
}

// Nothing that it sent before it stood still can arrive any more.
void Node::settle(unsigned p) {
  proxies_[p].owes = false;
  for (unsigned other = 0; other < proxies(); ++other) {
    if (!running(other) || other == p) continue;
    tell_worker(other, ReclaimLent{ProxyId(static_cast<std::uint8_t>(p))});
  }
  if (running(p)) serve_again(p);
  lanes_unsettled_ = true;
  rebalance();
  // Ports that were being drained: what lay in its lanes is with others now.
  for (auto& [port, awaited] : draining_) {
    if (std::erase(awaited, p) == 0) continue;
    for (unsigned other = 0; other < proxies(); ++other) {
      if (!running(other)) continue;
      awaited.push_back(other);
      tell_worker(other, DrainPort{PortId(port)});
    }
  }
}

// The lanes that it served before.
void Node::serve_again(unsigned p) {
  for (auto& [id, client] : clients_) {
    if (client.detach_sent || client.mapped.empty() || client.mapped[p] == nullptr) continue;
    for (unsigned i = 0; i < client.lanes.size(); ++i) {
      if (client.lanes[i].server == p && !client.lanes[i].moving) serve_lane(id, client, i);
    }
  }
}

// Its server goes on where another, or itself before it stood still, has left off.
void Node::serve_lane(ClientId id, Client& client, unsigned index) {
  Lane& lane = client.lanes[index];
  if (lane.server != index % proxies()) return add_sender(id, client, index, true);
  tell_worker(lane.server, ServeLane{lane.receiver.get()});
}

// FO-6
void Node::take_back(unsigned p) {
  Proxy& proxy = proxies_[p];
  proxy.forgotten.clear();
  proxy.graveyard.clear();
  for (const auto& [at, bytes] : proxy.old_mappings) ::munmap(at, bytes);
  proxy.old_mappings.clear();
  proxy.fenced = proxy.back = false;
  lanes_unsettled_ = true;
  SetProxyGenerations generations;
  for (unsigned other = 0; other < proxies(); ++other)
    generations.generations[other] = proxies_[other].generation;
  tell_worker(p, generations);
  for (auto& [id, client] : clients_) {
    if (client.mapped.empty() || client.detach_sent) continue;
    client.mapped[p] = map_client(client.fd, client.geometry.total_bytes());
    if (client.mapped[p] == nullptr) {  // no memory for it: this client cannot be served any more
      expelled_.push_back(id);
      continue;
    }
    attach_proxy(id, client, p, true);
  }
  for (auto& [port, end] : installed_) {
    const Client& client = clients_.at(end.client);
    if (client.detach_sent || client.mapped[p] == nullptr) continue;
    install(p, end);
  }
  for (const auto& [cluster, remotes] : remotes_) {
    if (!machines_->is_place(ClusterId(cluster)) || parting_.contains(cluster)) continue;
    for (const Remote& r : remotes)
      if (r.path.local.value() == p) tell_of_remote(r, false);
  }
  if (!proxy.owes) serve_again(p);
  paths_->back(ProxyId(static_cast<std::uint8_t>(p)));
}

std::optional<unsigned> Node::poll_fenced_proxy() {
  return take_first(fenced_proxies_);
}

}  // namespace braid::proxy
