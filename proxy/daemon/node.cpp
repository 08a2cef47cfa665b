#include "proxy/daemon/node.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <variant>

#include "base/check.h"
#include "base/take_first.h"
#include "proxy/daemon/client_requests.h"
#include "proxy/daemon/security.h"
#include "proxy/daemon/stack_configs.h"

namespace braid::proxy {
namespace {

using convergence::Ports;

// The proxy whose datagrams introduce the node to other machines.
constexpr unsigned kIntroducer = 0;

ProxyId proxy_id(unsigned proxy) {
  return ProxyId(static_cast<std::uint8_t>(proxy));
}

void name_protocols(NodeCounters& counters, const Protocols& protocols) {
  for (std::size_t i = 0; i < protocols.all().size(); ++i) {
    const Protocol& protocol = protocols.all()[i];
    counters.protocol[i].id = protocol.id.value();
    std::copy(protocol.name.begin(), protocol.name.end(), counters.protocol[i].name);
  }
}

std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  CHECK_EQ(::getrandom(&seed, sizeof seed, 0), static_cast<ssize_t>(sizeof seed));
  return seed;
}

// SE-3: the seed of keys never comes from the configuration, for two runs may have the same.
void set_security(stack::StackConfig& config, unsigned proxy, const NodeSurroundings& surroundings,
                  stack::KeyObserver* observer) {
  stack::Security& security = config.sub_connection.security;
  if (surroundings.security) {
    security = *surroundings.security;
    for (stack::RemoteStack& remote : config.remotes) remote.is_sealed = true;
    security.seed[0] ^= static_cast<std::byte>(proxy);
  } else {
    CHECK_EQ(::getrandom(security.seed.data(), security.seed.size(), 0),
             static_cast<ssize_t>(security.seed.size()));
  }
  security.observer = observer;
}

}  // namespace

Node::Node(const NodeConfig& config, Instant now, const NodeSurroundings& surroundings)
    : config_(config),
      clients_({config.channel, surroundings.client_memory_bytes, train_limits(config.transport)},
               surroundings.make_region),
      monitor_({config.proxies, Duration::ms(config.transport.path_death_ms), surroundings.monitor_proxies},
               now),
      lanes_(monitor_),
      ports_(ClusterId(config.cluster), static_cast<std::uint16_t>(config.clusters + machine_slots(config)),
             clients_, config.channel.max_ports),
      protocols_(surroundings.protocols),
      retired_(config.proxies) {}

Node::~Node() {
  workers_.reset();  // before the memory that they use
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, Instant now,
                                           const NodeSurroundings& surroundings) {
  if (const Result<void> valid = config.validate(); !valid) return valid.error();
  std::unique_ptr<Node> node(new Node(config, now, surroundings));
  if (const Result<void> r = node->open(now, surroundings); !r) return r.error();
  return node;
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, Instant now,
                                           const MakeQueue& make_queue) {
  NodeSurroundings surroundings;
  surroundings.make_queue = make_queue;
  return create(config, now, surroundings);
}

Result<void> Node::open(Instant now, const NodeSurroundings& surroundings) {
  const Result<std::shared_ptr<const stack::Secret>> secret = load_secret(config_);
  if (!secret) return secret.error();
  config_.secret = *secret;
  if (!config_.security.keylog.empty() && settings::needs_secret(config_)) {
    Result<std::unique_ptr<KeyLog>> log = KeyLog::open(config_.security.keylog);
    if (!log) return error("security.keylog: {}", log.error().text);
    key_log_ = std::move(log).value();
  }
  Result<std::unique_ptr<CountersMemory>> counters = CountersMemory::map(config_.counters_fd);
  if (!counters) return counters.error();
  counters_ = std::move(counters).value();
  name_protocols(**counters_, protocols_);
  (**counters_).proxies = config_.proxies;
  lanes_.proxies_changed();
  (void)rebalance();
  Result<std::unique_ptr<Links>> links = Links::open(config_, **counters_, surroundings.make_queue);
  if (!links) return links.error();
  links_ = std::move(links).value();

  const std::uint64_t seed = config_.seed != 0 ? config_.seed : system_seed();
  std::vector<stack::StackConfig> stacks;
  for (unsigned p = 0; p < proxies(); ++p) {
    stacks.push_back(stack_config(config_, p, seed));
    set_security(stacks[p], p, surroundings, key_log_.get());
    if (Result<void> r = links_->want_source_ports(config_, stacks[p]); !r) return r;
  }
  peers_ = std::make_unique<Peers>(stacks, Duration::ms(config_.transport.peer_death_ms), seed, monitor_);
  installer_ = std::make_unique<PortInstaller>(clients_, lanes_, monitor_, *peers_);
  Result<std::unique_ptr<Workers>> workers =
      Workers::create(stacks, *links_, **counters_, states_, now, config_.channel.max_ports, protocols_);
  if (!workers) return workers.error();
  workers_ = std::move(workers).value();

  client_service_ = std::make_unique<ClientService>(
      ClientService::Config{config_.cluster, config_.clusters, config_.proxies, counters_->read_only_fd()},
      clients_, lanes_, ports_, datagram_ports_, protocols_);
  machines_ =
      std::make_unique<MachinesDriver>(config_, stacks[0].interfaces, seed, *peers_, ports_, clients_);
  // Also if no other machine is accepted: then Calls are refused with that reason.
  if (!config_.links.empty() && !worker(kIntroducer).bind(config_.machines.udp_port))
    CHECK(!config_.machines.any());  // a proxy has that port; validate() rules that out otherwise
  return {};
}

std::optional<std::string> Node::poll_file_problem() {
  if (key_log_ != nullptr)
    if (std::optional<std::string> problem = key_log_->poll_problem()) return problem;
  return links_->poll_capture_problem();
}

Result<void> Node::finish_files() {
  const Result<void> captures = links_->finish_captures();
  return captures && key_log_ != nullptr ? key_log_->outcome() : captures;
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
  work += run_datagrams();
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
  while (const std::optional<AddressedCommand> told = lanes_.poll_command())
    workers_->tell(told->proxy, told->command);
}

void Node::carry_out_peers() {
  while (const std::optional<Peers::Lost> lost = peers_->poll_lost()) {
    ports_.peer_lost(lost->cluster);
    if (machines_->is_slot(lost->cluster))
      machines_->lost(lost->cluster);
    else
      (lost->ended ? ended_peers_ : lost_peers_).push_back(lost->cluster);
  }
  while (const std::optional<AddressedCommand> told = peers_->poll_command())
    workers_->tell(told->proxy, told->command);
}

void Node::carry_out_installer() {
  while (const std::optional<AddressedCommand> told = installer_->poll_command())
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
      // Of a fenced proxy only its return counts.
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
  if (installer_->drained(event.port, proxy)) ports_.drained(event.port);
}

void Node::on_event(Instant, unsigned, const ChannelDetached& event) {
  lanes_.detached(event.channel);
}

void Node::on_event(Instant, unsigned, const LaneReleased& event) {
  const ClientId client = event.channel->client;
  const unsigned server = lanes_.released(event.channel);
  carry_out_lanes();
  installer_->lane_moved(client, server);
  carry_out_installer();
}

void Node::on_event(Instant, unsigned, const ProtocolViolation& event) {
  clients_.expel(event.client);
}

void Node::on_event(Instant, unsigned proxy, const ProxyForgotten& event) {
  monitor_.forgotten(event.proxy.value(), proxy);
}

void Node::on_event(Instant, unsigned, const ProxyResumed&) {}  // it is not fenced

void Node::on_event(Instant, unsigned proxy, const ClusterDrained& event) {
  peers_->cluster_drained(event.cluster, proxy);
}

void Node::on_event(Instant, unsigned, const PeerRefused& event) {
  refused_peers_.add(event);
}

void Node::on_event(Instant now, unsigned, const AddressClaimed& event) {
  address_conflicts_.add(now, event.conflict);
}

void Node::on_event(Instant, unsigned, const PeerMoved& event) {
  if (address_moves_.size() == kMaxUnpolledMoves) address_moves_.pop_front();
  address_moves_.push_back(event.move);
}

// ---------------------------------------------------------------- clients

void Node::on_request(Instant now, ClientId id, const control::Message& m) {
  ClientService::Action action = client_service_->on_request(now, id, m);
  carry_out_lanes();
  if (const auto* const set = std::get_if<ClientService::SetActiveProxies>(&action))
    set_active_proxies(set->count);
  else if (auto* const request = std::get_if<Machines::Request>(&action))
    machines_->connect(now, std::move(*request));
  else if (const auto* const send = std::get_if<ClientService::SendDatagram>(&action))
    send_datagram(id, *send);
}

void Node::send_datagram(ClientId id, const ClientService::SendDatagram& request) {
  peers_->begin_use(request.datagram.peer);
  const unsigned proxy = peers_->control_proxy(request.datagram.peer).value();
  if (!worker(proxy).datagram_rings().send(request.datagram))
    return clients_.refuse(id, request.serial, "too many datagrams wait for the proxy: try again");
  workers_->tell(proxy, SendDatagrams{});
  clients_.answer(id, control::Kind::kOk, request.serial);
}

// An arrived datagram waits for its client, or goes back the way it came (PS-5).
int Node::run_datagrams() {
  int work = 0;
  for (unsigned p = 0; p < proxies(); ++p) {
    DatagramRings& rings = worker(p).datagram_rings();
    bool any_returned = false;
    for (Datagram d; rings.has_room() && rings.take_arrived(&d); ++work) {
      const DatagramReturn problem = datagram_ports_.deliver(d);
      if (problem == DatagramReturn::kNone || d.returned != DatagramReturn::kNone) continue;
      d.returned = problem;
      CHECK(rings.send(d));
      any_returned = true;
    }
    if (any_returned) workers_->tell(p, SendDatagrams{});
  }
  return work;
}

std::byte* Node::client_memory(ClientId id) {
  const ClientMemory* const memory = clients_.memory(id);
  return memory == nullptr ? nullptr : memory->address();
}

void Node::client_gone(ClientId id) {
  if (client_service_->client_gone(id)) machines_->client_gone(id);
}

void Node::free_gone_clients() {
  const std::vector<AddressedCommand> commands = client_service_->free_gone(monitor_);
  carry_out_lanes();
  for (const AddressedCommand& told : commands) workers_->tell(told.proxy, told.command);
}

// ---------------------------------------------------------------- ports

// One event of ports at a time: it takes effect in every proxy before the next one does, and all of them before a
// peer is told. While a lane has no server it is not known which of its messages were sent.
int Node::run_ports() {
  int work = 0;
  bool all_events_carried_out = false;
  for (; lanes_.moving() == 0 && caught_up(); ++work) {
    installer_->release_removed();
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
      installer_->install(end);
      break;
    case Ports::Event::Kind::kOpened:
      clients_.answer(end.client, control::Kind::kOpened, end.serial, opened_message(end, false));
      break;
    case Ports::Event::Kind::kAccepted:
      clients_.answer(end.client, control::Kind::kOpened, 0, opened_message(end, true));
      break;
    case Ports::Event::Kind::kRefused:
      refuse(event);
      break;
    case Ports::Event::Kind::kPeerClosed:
      installer_->mark(end, PortState::kPeerClosed);
      break;
    case Ports::Event::Kind::kPeerLost:
      installer_->mark(end, PortState::kPeerLost);
      break;
    case Ports::Event::Kind::kDrain:
      installer_->drain(end.port);
      break;
    case Ports::Event::Kind::kRemove:
      installer_->remove(end.port);
      break;
  }
  carry_out_installer();
}

void Node::refuse(const Ports::Event& event) {
  std::string text = convergence::to_string(event.refusal);
  if (event.refusal == convergence::Refusal::kTimeout)
    if (const std::string problems = peers_->problems(event.end.peer); !problems.empty())
      text += " (" + problems + ")";
  clients_.refuse(event.end.client, event.end.serial, text);
}

// ---------------------------------------------------------------- other machines

int Node::run_machines(Instant now) {
  int work = 0;
  machines_->observe(now);
  for (PlainDatagram d; worker(kIntroducer).take_datagram(&d); ++work) machines_->on_datagram(now, d);
  work += machines_->run(now);
  carry_out_peers();
  for (; const std::optional<PlainDatagram> out = machines_->poll_datagram(); ++work)
    worker(kIntroducer).send_datagram(*out);
  return work;
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
  const Duration gap = monitor_.observe(now, std::span(beats).first(proxies()));
  if (gap > Duration()) peers_->on_scheduling_gap(now, gap);
  for (unsigned p = 0; p < proxies(); ++p) {
    if (monitor_.is_stalled(p)) fence(p);
    if (monitor_.may_settle(p) && peers_->settled(proxy_id(p))) serve_lanes_of(p);
    if (monitor_.may_return(p)) take_back(p);
  }
  peers_->watch(now);
}

// FO-5. Its thread may be anywhere, even in the middle of a copy, and may continue at any time. From here on its
// writes to clients' memory go to private copies, and its reads find what was there before. So it can at most
// send the messages that it has, until its peers have closed its epochs.
void Node::fence(unsigned p) {
  monitor_.fence(p);
  lanes_.proxies_changed();
  states_[p].fenced.store(true, std::memory_order_seq_cst);
  for (const auto& [id, client] : clients_.all())
    if (client.memory != nullptr) retired_[p].views.push_back(client.memory->isolate(p));
  for (std::unique_ptr<Channel>& channel : lanes_.fence(p))
    retired_[p].channels.push_back(std::move(channel));
  states_[p].isolated.store(true, std::memory_order_release);
  worker(p).wake();
  workers_->forget_commands(p);
  tell_running(ForgetProxy{proxy_id(p)});
  peers_->proxy_fenced(proxy_id(p));
  carry_out_peers();
  fenced_proxies_.push_back(p);
}

// None of the packets that it sent before it stalled can arrive any more: its lanes are served again.
void Node::serve_lanes_of(unsigned p) {
  monitor_.mark_settled(p);
  for (unsigned other = 0; other < proxies(); ++other)
    if (other != p && monitor_.running(other)) workers_->tell(other, ReclaimLent{proxy_id(p)});
  if (monitor_.running(p)) lanes_.serve_again(p);
  carry_out_lanes();
  lanes_.proxies_changed();
  rebalance();
  installer_->drain_instead_of(p);
  carry_out_installer();
}

// FO-6. If it is not settled yet it takes packets of its peers, and starts handshakes with peers that no other
// path reaches.
void Node::take_back(unsigned p) {
  monitor_.take_back(p);
  lanes_.proxies_changed();
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
  installer_->take_back(p);
  carry_out_installer();
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

std::optional<std::string> Node::poll_machine_event() {
  return machines_->poll_event();
}

std::optional<unsigned> Node::poll_fenced_proxy() {
  return take_first(fenced_proxies_);
}

}  // namespace braid::proxy
