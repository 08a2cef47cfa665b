#include "proxy/daemon/node.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <new>
#include <variant>

#include "base/check.h"
#include "base/take_first.h"
#include "proxy/daemon/client_requests.h"
#include "proxy/daemon/stack_configs.h"

namespace braid::proxy {
namespace {

using convergence::Ports;

// Listeners of one client.
constexpr std::size_t kMaxListeners = 1024;
// The proxy whose datagrams introduce the node to other machines.
constexpr unsigned kIntroducer = 0;

ProxyId proxy_id(unsigned proxy) {
  return ProxyId(static_cast<std::uint8_t>(proxy));
}

Worker::Datagram to_datagram(const Machines::Datagram& introduction, std::uint16_t own_port) {
  static_assert(kIntroductionBytes <= Worker::kMaxDatagramBytes);
  Worker::Datagram d;
  d.port = own_port;
  d.peer = introduction.to;
  d.bytes = kIntroductionBytes;
  std::copy(introduction.bytes.begin(), introduction.bytes.end(), d.data.begin());
  return d;
}

std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  CHECK_EQ(::getrandom(&seed, sizeof seed, 0), static_cast<ssize_t>(sizeof seed));
  return seed;
}

}  // namespace

Node::Node(const NodeConfig& config, Instant now, const NodeSurroundings& surroundings)
    : config_(config),
      clients_({config.channel, surroundings.client_memory_bytes}, surroundings.make_region),
      monitor_({config.proxies, Duration::ms(config.transport.path_death_ms), surroundings.monitor_proxies},
               now),
      lanes_(monitor_),
      ports_(ClusterId(config.cluster), static_cast<std::uint16_t>(config.clusters + machine_slots(config)),
             clients_, config.channel.max_ports),
      installed_(config.proxies),
      retired_(config.proxies) {}

Node::~Node() {
  workers_.reset();  // before the memory that they use
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, Instant now,
                                           const NodeSurroundings& surroundings) {
  if (const Result<void> valid = config.validate(); !valid) return valid.error();
  std::unique_ptr<Node> node(new Node(config, now, surroundings));
  if (const Result<void> r = node->open(now, surroundings.make_queue); !r) return r.error();
  return node;
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, Instant now,
                                           const MakeQueue& make_queue) {
  NodeSurroundings surroundings;
  surroundings.make_queue = make_queue;
  return create(config, now, surroundings);
}

Result<void> Node::open(Instant now, const MakeQueue& make_queue) {
  Result<std::unique_ptr<CountersMemory>> counters = CountersMemory::map(config_.counters_fd);
  if (!counters) return counters.error();
  counters_ = std::move(counters).value();
  (**counters_).proxies = config_.proxies;
  lanes_.proxies_changed();
  (void)rebalance();
  Result<std::unique_ptr<Links>> links = Links::open(config_, **counters_, make_queue);
  if (!links) return links.error();
  links_ = std::move(links).value();

  const std::uint64_t seed = config_.seed != 0 ? config_.seed : system_seed();
  std::vector<stack::StackConfig> stacks;
  for (unsigned p = 0; p < proxies(); ++p) {
    stacks.push_back(stack_config(config_, p, seed));
    if (Result<void> r = links_->want_source_ports(config_, stacks[p]); !r) return r;
  }
  interfaces_ = stacks[0].interfaces;
  peers_ = std::make_unique<Peers>(stacks, Duration::ms(config_.transport.peer_death_ms), seed, monitor_);
  Result<std::unique_ptr<Workers>> workers =
      Workers::create(stacks, *links_, **counters_, states_, now, config_.channel.max_ports);
  if (!workers) return workers.error();
  workers_ = std::move(workers).value();

  machines_ = std::make_unique<Machines>(machines_config(config_, interfaces_, seed));
  // Also where nobody is let in: then it is said so.
  if (!config_.links.empty() && !worker(kIntroducer).bind(config_.machines.udp_port))
    CHECK(!config_.machines.any());  // a proxy has that port; validate() has seen to it otherwise
  return {};
}

Instant Node::next_deadline() const {
  Instant next = ports_.next_deadline();
  // Looks that are further apart than that say nothing about who is silent.
  if (peers_->watches()) next = earlier(next, monitor_.observed() + ProxyMonitor::kControlGap / 2);
  return next;
}

int Node::do_control(Instant now) {
  int work = take_worker_events(now);
  watch_proxies(now);
  work += peers_->run();
  carry_out_peers();
  work += rebalance();
  work += run_machines(now);
  if (ports_.next_deadline() <= now) ports_.on_timer(now);
  workers_->flush();
  return work + run_ports();
}

// ---------------------------------------------------------------- to and from proxies

void Node::tell_running(const WorkerCommand& command) {
  for (unsigned p = 0; p < proxies(); ++p)
    if (monitor_.running(p)) workers_->tell(p, command);
}

void Node::carry_out_lanes() {
  while (const std::optional<Lanes::Told> told = lanes_.poll_command())
    workers_->tell(told->proxy, told->command);
}

void Node::carry_out_peers() {
  while (const std::optional<Peers::Lost> lost = peers_->poll_lost()) {
    ports_.peer_lost(lost->cluster);
    if (machines_->is_place(lost->cluster))
      machines_->lost(lost->cluster);
    else
      (lost->ended ? ended_peers_ : lost_peers_).push_back(lost->cluster);
  }
  while (const std::optional<Peers::Told> told = peers_->poll_command())
    workers_->tell(told->proxy, told->command);
}

bool Node::caught_up() const {
  for (unsigned p = 0; p < proxies(); ++p)
    if (monitor_.running(p) && !workers_->caught_up(p)) return false;
  return true;
}

int Node::take_worker_events(Instant now) {
  int events = 0;
  WorkerEvent event;
  for (unsigned p = 0; p < proxies(); ++p) {
    for (; worker(p).take_event(&event); ++events) {
      // Of a proxy that was given up nothing counts but that it is there again.
      if (monitor_.running(p))
        std::visit([&](const auto& e) { on_event(now, p, e); }, event);
      else if (std::holds_alternative<ProxyResumed>(event))
        monitor_.resumed(p);
    }
  }
  return events;
}

void Node::on_event(Instant now, unsigned, const ControlReceived& event) {
  const bool of_ports = peers_->received(event);
  carry_out_peers();
  if (of_ports) ports_.on_control(now, event.from, event.message);
}

void Node::on_event(Instant, unsigned proxy, const PortDrained& event) {
  if (drains_.answered(event.port, proxy)) ports_.drained(event.port);
}

void Node::on_event(Instant, unsigned, const ChannelDetached& event) {
  lanes_.detached(event.channel);
}

void Node::on_event(Instant, unsigned, const LaneReleased& event) {
  const ClientId client = event.channel->client;
  const unsigned server = lanes_.released(event.channel);
  carry_out_lanes();
  // Ports that are being drained: what the proxy left in the lane is with another now.
  for (const PortId port : drains_.ports()) {
    const Ports::End* const end = installed_.find(port);
    if (end != nullptr && end->client == client) drain_by(port, server);
  }
}

void Node::on_event(Instant, unsigned, const ProtocolViolation& event) {
  clients_.expel(event.client);
}

void Node::on_event(Instant, unsigned proxy, const ProxyForgotten& event) {
  monitor_.forgotten(event.proxy.value(), proxy);
}

void Node::on_event(Instant, unsigned, const ProxyResumed&) {}  // it was not given up

void Node::on_event(Instant, unsigned proxy, const ClusterDrained& event) {
  peers_->cluster_drained(event.cluster, proxy);
}

// ---------------------------------------------------------------- clients

void Node::on_request(Instant now, ClientId id, const control::Message& m) {
  Clients::Client* const client = clients_.find(id);
  if (client == nullptr || client->gone) return;
  if (const std::string problem = request_problem(m, client->memory.get()); !problem.empty())
    return clients_.refuse(id, m.serial, problem);
  switch (m.kind) {
    case control::Kind::kAttach:
      return attach(id, *client, m);
    case control::Kind::kCounters:
      if (counters_->read_only_fd() < 0)
        return clients_.refuse(id, m.serial, "this node keeps its counters to itself");
      return clients_.answer(id, control::Kind::kOk, m.serial, {}, counters_->read_only_fd());
    case control::Kind::kSetProxies:
      return set_proxies(id, m);
    case control::Kind::kListen:
      return listen(id, *client, m);
    case control::Kind::kConnect:
      return connect(now, id, m);
    case control::Kind::kConnectMachine:
      return connect_machine(now, id, m);
    case control::Kind::kClose:
      client->listeners.erase(m.close.port);
      ports_.close(id, PortId(m.close.port));
      return clients_.answer(id, control::Kind::kOk, m.serial);
    case control::Kind::kAttached:
    case control::Kind::kOk:
    case control::Kind::kOpened:
    case control::Kind::kRefused:
      return;  // request_problem() has said that these are no requests
  }
}

void Node::attach(ClientId id, Clients::Client& client, const control::Message& m) {
  const Result<ClientMemory*> memory = clients_.attach(client, m.attach, proxies());
  if (!memory) return clients_.refuse(id, m.serial, memory.error().text);
  lanes_.add(id, **memory);
  carry_out_lanes();
  control::Message reply;
  reply.attached.geometry = (*memory)->geometry();
  reply.attached.cluster = config_.cluster;
  reply.attached.clusters = config_.clusters;
  clients_.answer(id, control::Kind::kAttached, m.serial, reply, (*memory)->fd());
}

void Node::listen(ClientId id, Clients::Client& client, const control::Message& m) {
  if (client.listeners.size() >= kMaxListeners)
    return clients_.refuse(id, m.serial,
                           fmt::format("this client listens on {} ports already: close some", kMaxListeners));
  const control::Listen& l = m.listen;
  const convergence::Refusal refusal =
      ports_.listen(id, PortId(l.port), l.endpoint, l.window_bytes, l.ordered != 0);
  if (refusal != convergence::Refusal::kNone)
    return clients_.refuse(id, m.serial, convergence::to_string(refusal));
  client.listeners.insert(l.port);
  clients_.answer(id, control::Kind::kOk, m.serial);
}

void Node::connect(Instant now, ClientId id, const control::Message& m) {
  const control::Connect& c = m.connect;
  if (c.cluster >= config_.clusters)
    return clients_.refuse(id, m.serial, convergence::to_string(convergence::Refusal::kNoSuchCluster));
  ports_.connect(now, id, m.serial, c.endpoint, ClusterId(static_cast<std::uint16_t>(c.cluster)),
                 PortId(c.port), c.window_bytes, c.ordered != 0, Duration::ms(c.timeout_ms));
}

void Node::connect_machine(Instant now, ClientId id, const control::Message& m) {
  machines_->connect(now, machine_request(now, id, m));
}

void Node::set_proxies(ClientId id, const control::Message& m) {
  if (m.set_proxies.active > proxies())
    return clients_.refuse(id, m.serial,
                           fmt::format("{} proxies: this node was started with {}, so 1 to {} can be active",
                                       m.set_proxies.active, proxies(), proxies()));
  if (m.set_proxies.active != 0) set_active_proxies(m.set_proxies.active);
  control::Message body;
  body.set_proxies = {active_proxies(), proxies()};
  clients_.answer(id, control::Kind::kOk, m.serial, body);
}

std::byte* Node::client_memory(ClientId id) {
  const ClientMemory* const memory = clients_.memory(id);
  return memory == nullptr ? nullptr : memory->address();
}

void Node::client_gone(ClientId id) {
  const Clients::Client* const client = clients_.find(id);
  if (client == nullptr || client->gone) return;
  clients_.gone(id);
  machines_->client_gone(id);
  ports_.client_gone(id);
  if (client->memory == nullptr) clients_.erase(id);
}

// A proxy must have been told to forget the last port of a client before it is told to forget the client:
// until then it may write to the client's memory. So this is for when all events of ports are carried out.
void Node::free_gone_clients() {
  // What a proxy that stands still has lent out is read by others until they have dropped it.
  const bool lent = monitor_.awaits_anybody();
  for (auto next = clients_.all().begin(); next != clients_.all().end();) {
    const ClientId id = next->first;
    const bool gone = next->second.gone;
    ++next;
    if (!gone || (lanes_.serves(id) && ports_.held_by(id) > 0)) continue;
    if (lanes_.serves(id)) {
      lanes_.detach(id);
      carry_out_lanes();
    }
    if (lanes_.detached(id) && !lent) destroy(id);
  }
}

void Node::destroy(ClientId id) {
  const ClientMemory& memory = *clients_.find(id)->memory;
  for (unsigned p = 0; p < proxies(); ++p)
    if (monitor_.running(p) && memory.view(p) != nullptr) workers_->tell(p, UnmapClient{id});
  lanes_.remove(id);
  clients_.erase(id);
}

// ---------------------------------------------------------------- ports

// One step of ports at a time: an event takes effect in every proxy before the next, and all of them before a
// peer hears of it. While a lane has no server nothing can be said about what was sent through it.
int Node::run_ports() {
  int work = 0;
  bool all_events_carried_out = false;
  for (; lanes_.moving() == 0 && caught_up(); ++work) {
    for (unsigned p = 0; p < proxies(); ++p)
      if (monitor_.running(p)) installed_.release(p);
    if (const std::optional<Ports::Event> event = ports_.poll_event()) {
      carry_out(*event);
      continue;
    }
    all_events_carried_out = true;
    const std::optional<Ports::Outgoing> out = ports_.poll_control();
    if (!out) break;
    peers_->send(out->to, out->message);
    carry_out_peers();
  }
  if (all_events_carried_out) free_gone_clients();
  return work;
}

void Node::carry_out(const Ports::Event& event) {
  const Ports::End& end = event.end;
  switch (event.kind) {
    case Ports::Event::Kind::kInstall:
      return install(end);
    case Ports::Event::Kind::kOpened:
      return clients_.answer(end.client, control::Kind::kOpened, end.serial, opened_message(end, false));
    case Ports::Event::Kind::kAccepted:
      return clients_.answer(end.client, control::Kind::kOpened, 0, opened_message(end, true));
    case Ports::Event::Kind::kRefused:
      return refuse(event);
    case Ports::Event::Kind::kPeerClosed:
      return mark(end, PortState::kPeerClosed);
    case Ports::Event::Kind::kPeerLost:
      return mark(end, PortState::kPeerLost);
    case Ports::Event::Kind::kDrain:
      return drain(end.port);
    case Ports::Event::Kind::kRemove:
      tell_running(RemovePort{end.port});
      return installed_.remove(end.port);
  }
}

void Node::install(const Ports::End& end) {
  if (!lanes_.serves(end.client)) return;  // it died meanwhile, and its kRemove follows
  const ClientMemory& memory = *clients_.find(end.client)->memory;
  PortCell* const cell = new (memory.cell(end.grant.cell)) PortCell;
  cell->consumed.store(0, std::memory_order_relaxed);
  for (auto& credit : cell->credit) credit.store(0, std::memory_order_relaxed);
  cell->corrupted.store(0, std::memory_order_relaxed);
  cell->state.store(PortState::kOpen, std::memory_order_release);
  installed_.add(end);
  for (unsigned p = 0; p < proxies(); ++p)
    if (monitor_.running(p) && memory.view(p) != nullptr) install(p, end);
}

void Node::install(unsigned p, const Ports::End& end) {
  const ClientMemory& memory = *clients_.find(end.client)->memory;
  PortEntry port = installed_.entry(end.port, p);
  port.peer_incarnation = peers_->association(end.peer).peer;
  port.channel = lanes_.receiver(end.client, end.endpoint, p);
  port.window = memory.view(p) + end.grant.window_offset;
  port.cell = memory.cell(end.grant.cell, p);
  workers_->tell(p, InstallPort{port});
}

void Node::mark(const Ports::End& end, PortState state) {
  if (const Clients::Client* const client = clients_.find(end.client); client != nullptr && client->memory)
    client->memory->cell(end.grant.cell)->state.store(state, std::memory_order_release);
}

void Node::refuse(const Ports::Event& event) {
  std::string text = convergence::to_string(event.refusal);
  if (event.refusal == convergence::Refusal::kTimeout)
    if (const std::string problems = peers_->problems(event.end.peer); !problems.empty())
      text += " (" + problems + ")";
  clients_.refuse(event.end.client, event.end.serial, text);
}

void Node::drain(PortId port) {
  for (unsigned p = 0; p < proxies(); ++p) drain_by(port, p);
}

// What lies in the lanes of a proxy that stands still is sent by those who take them over: while it is
// unsettled nobody knows yet who that is (settle() does), and after that it has none.
void Node::drain_by(PortId port, unsigned p) {
  if (!monitor_.running(p) && !monitor_.unsettled(p)) return;
  drains_.await(port, p);
  if (monitor_.serves(p)) workers_->tell(p, DrainPort{port});
}

// ---------------------------------------------------------------- other machines

int Node::run_machines(Instant now) {
  int work = 0;
  // What was decided before has been carried out: the paths of these are known.
  for (const ClusterId slot : machines_->occupied()) {
    if (machines_->is_meeting(slot)) {
      const Peers::Count paths = peers_->count_paths(slot);
      machines_->on_paths(now, slot, paths.up, paths.all, peers_->problems(slot));
    }
    machines_->in_use(now, slot, ports_.held_with(slot));
  }
  for (Worker::Datagram d; worker(kIntroducer).take_datagram(&d); ++work) {
    if (d.port != config_.machines.udp_port) continue;
    if (d.unreachable)
      machines_->on_unreachable(d.peer, *d.unreachable);
    else
      machines_->on_datagram(now, d.peer, ByteView(d.data).first(d.bytes));
  }
  machines_->on_timer(now);
  for (; const std::optional<Machines::Event> event = machines_->poll_event(); ++work) carry_out(now, *event);
  for (const ClusterId slot : peers_->drained()) work += free_slot(slot) ? 1 : 0;
  for (; const std::optional<Machines::Datagram> out = machines_->poll_datagram(); ++work)
    worker(kIntroducer).send_datagram(to_datagram(*out, config_.machines.udp_port));
  return work;
}

void Node::carry_out(Instant now, const Machines::Event& event) {
  const Machines::Request& r = event.request;
  switch (event.kind) {
    case Machines::Event::Kind::kMeet:
      return connect_cluster(event.slot, event.peer);
    case Machines::Event::Kind::kConnect:
      return ports_.connect(now, r.client, r.serial, r.endpoint, event.slot, r.port, r.window_bytes,
                            r.ordered, r.deadline - now);
    case Machines::Event::Kind::kRefused:
      return clients_.refuse(r.client, r.serial, event.text);
    case Machines::Event::Kind::kPart:
      return drain_cluster(event.slot);
  }
}

void Node::connect_cluster(ClusterId slot, const Introduction& peer) {
  peers_->connect(paths_to_machine(config_, slot, peer, interfaces_, peers_->own_incarnation(slot)));
  carry_out_peers();
  log_.push_back(
      fmt::format("the cluster at {} is known as cluster {}", machines_->name(slot), slot.value()));
}

void Node::drain_cluster(ClusterId slot) {
  peers_->drain(slot);
  carry_out_peers();
  log_.push_back(
      fmt::format("the cluster at {}, known as cluster {}, is left", machines_->name(slot), slot.value()));
}

// No proxy has anything of it any more. While clients have not closed what was lost with it, its ports are
// still the former's. True if all is gone.
bool Node::free_slot(ClusterId slot) {
  if (ports_.held_with(slot) > 0) return false;
  peers_->forget(slot);
  carry_out_peers();
  machines_->gone(slot);
  return true;
}

// ---------------------------------------------------------------- proxies

void Node::set_active_proxies(unsigned count) {
  lanes_.set_active(count);
  for (unsigned p = 0; p < proxies(); ++p) states_[p].active.store(p < count, std::memory_order_relaxed);
  peers_->set_active(count);
  carry_out_peers();
}

int Node::rebalance() {
  if (!lanes_.unbalanced()) return 0;
  for (unsigned p = 0; p < proxies(); ++p)
    (**counters_).server[p].store(static_cast<std::uint8_t>(lanes_.server_for(p)), std::memory_order_relaxed);
  const int moved = lanes_.rebalance();
  carry_out_lanes();
  return moved;
}

void Node::watch_proxies(Instant now) {
  std::array<std::uint64_t, kMaxProxies> beats{};
  for (unsigned p = 0; p < proxies(); ++p) beats[p] = states_[p].heartbeat.load(std::memory_order_relaxed);
  if (!monitor_.observe(now, std::span(beats).first(proxies()))) peers_->restart_watch();
  for (unsigned p = 0; p < proxies(); ++p) {
    if (monitor_.stands_still(p)) fence(p);
    if (monitor_.may_settle(p) && peers_->settled(proxy_id(p))) settle(p);
    if (monitor_.may_return(p)) take_back(p);
  }
  peers_->watch(now);
}

// FO-5. Its thread may be anywhere, also in the middle of a copy, and may go on at any time. From here on
// whatever it writes to clients' memory lands in copies of its own, and what it reads there is what stood
// there: so all that it can still do is to send what it was about to send, until its peers have closed its
// epochs.
void Node::fence(unsigned p) {
  monitor_.fence(p);
  lanes_.proxies_changed();
  states_[p].fenced.store(true, std::memory_order_seq_cst);
  for (const auto& [id, client] : clients_.all())
    if (client.memory != nullptr) retired_[p].views.push_back(client.memory->isolate(p));
  for (std::unique_ptr<Channel>& channel : lanes_.fence(p))
    retired_[p].channels.push_back(std::move(channel));
  states_[p].isolated.store(true, std::memory_order_release);
  workers_->forget_commands(p);
  tell_running(ForgetProxy{proxy_id(p)});
  peers_->proxy_fenced(proxy_id(p));
  carry_out_peers();
  fenced_proxies_.push_back(p);
}

// Nothing that it sent before it stood still can arrive any more: its lanes are served again.
void Node::settle(unsigned p) {
  monitor_.settle(p);
  std::vector<unsigned> running;
  for (unsigned other = 0; other < proxies(); ++other) {
    if (!monitor_.running(other)) continue;
    running.push_back(other);
    if (other != p) workers_->tell(other, ReclaimLent{proxy_id(p)});
  }
  if (monitor_.running(p)) lanes_.serve_again(p);
  carry_out_lanes();
  lanes_.proxies_changed();
  rebalance();
  // Ports that were being drained: what lay in its lanes is with others now.
  for (const PortId port : drains_.replace(p, running))
    for (const unsigned other : running) workers_->tell(other, DrainPort{port});
}

// FO-6. If it is not settled yet it takes what its peers send, and makes sub-connections with those that nobody
// else can tell.
void Node::take_back(unsigned p) {
  monitor_.take_back(p);
  lanes_.proxies_changed();
  installed_.release(p);
  retired_[p] = {};
  workers_->tell(p, SetProxyGenerations{monitor_.generations()});
  for (const auto& [id, client] : clients_.all()) {
    if (!lanes_.serves(id)) continue;
    if (client.memory->map(p))
      lanes_.take_back(p, id);
    else
      clients_.expel(id);  // no memory for it: this client cannot be served any more
  }
  carry_out_lanes();
  for (const auto& [port, end] : installed_.all())
    if (lanes_.serves(end.client) && clients_.find(end.client)->memory->view(p) != nullptr) install(p, end);
  if (!monitor_.unsettled(p)) lanes_.serve_again(p);
  carry_out_lanes();
  peers_->proxy_back(proxy_id(p));
  carry_out_peers();
}

// ---------------------------------------------------------------- for the log

std::optional<ClusterId> Node::poll_lost_peer() {
  return take_first(lost_peers_);
}

std::optional<ClusterId> Node::poll_ended_peer() {
  return take_first(ended_peers_);
}

std::optional<std::string> Node::poll_news() {
  return take_first(log_);
}

std::optional<unsigned> Node::poll_fenced_proxy() {
  return take_first(fenced_proxies_);
}

}  // namespace braid::proxy
