#include "tests/sim/fault_clients.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/faults.h"

namespace braid::sim {
namespace {

using proxy::Connection;

// Clients that find nothing to do turn ever less often.
constexpr unsigned kMaxQuietTurns = 6;
constexpr Duration kQuietClient = 300_us;
// The time between a slow client's turns, as a multiple of another client's.
constexpr double kSlowPace = 30;

}  // namespace

FaultClients::FaultClients(const WorldConfig& config, Prng& random, WorldEvents& events, WorldLog& log,
                           FaultNodes& nodes, const TroublePlanner& trouble, FaultDriver& driver)
    : config_(config),
      random_(random),
      events_(events),
      log_(log),
      nodes_(nodes),
      trouble_(trouble),
      driver_(driver),
      flows_(config, random, events, log, nodes, trouble, *this),
      datagrams_(config, events, log, nodes, trouble) {
  nodes.use_protocols([this](unsigned node) { return datagrams_.protocols_of(node); });
}

void FaultClients::plan() {
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    for (unsigned c = 0; c < static_cast<unsigned>(config_.clients); ++c) {
      ClientRun run;
      run.node = n;
      run.slow = random_.chance(config_.slow);
      clients_.push_back(std::move(run));
    }
  }
  flows_.plan(clients_.size());
  std::vector<unsigned> nodes;
  for (const ClientRun& run : clients_) nodes.push_back(run.node);
  datagrams_.plan(nodes);
  for (unsigned c = 0; c < clients_.size(); ++c)
    if (flows_.has_flows(c) || datagrams_.needs(c)) wake(c, Instant() + from_us(random_.uniform() * 100));
}

// ---------------------------------------------------------------- turns

void FaultClients::wake(unsigned index, Instant at) {
  ClientRun& c = clients_[index];
  at = std::max(at, events_.now());
  if (at >= c.wake) return;
  c.wake = at;
  events_.push(at, {WorldEvent::Kind::kClient, 0, static_cast<std::uint16_t>(index), 0, 0});
}

bool FaultClients::on_event(unsigned index) {
  ClientRun& c = clients_[index];
  if (c.wake != events_.now()) return false;
  c.wake = Instant::never();
  if (c.busy) return true;  // it goes on when it has its answer
  if (c.stopped_until > events_.now())
    wake(index, c.stopped_until);
  else if (needs(index) || c.client != nullptr)
    take_turn(index);
  return true;
}

void FaultClients::take_turn(unsigned index) {
  ClientRun& c = clients_[index];
  c.busy = true;
  const bool worked = work(index);
  c.busy = false;
  if (std::exchange(c.doomed, false)) destroy(index);
  // The proxies see what the client wrote at their next turn; without work they are woken now and then.
  if (worked || ++c.turns % 16 == 0) nodes_.wake_proxies(c.node);
  c.quiet = worked ? 0 : std::min(c.quiet + 1, kMaxQuietTurns);
  const Duration pace = from_us(config_.pace_us * (c.slow ? kSlowPace : 1));
  const Duration quiet = std::max(pace, std::min(pace * (1 << c.quiet), kQuietClient));
  wake(index, events_.now() + std::max(exponential(random_, quiet), 1_us));
}

bool FaultClients::work(unsigned index) {
  ClientRun& c = clients_[index];
  if (c.client == nullptr) attach(index);
  if (c.client == nullptr) return false;
  bool worked = take_messages(index);
  if (!c.doomed) flows_.begin(index, &worked);
  flows_.advance(index, &worked);
  if (!c.doomed && !log_.has_failed())
    datagrams_.take_turn({index, c.node, [&] { return c.doomed; }, [&] { return has_its_node(index); }},
                         *c.client, &worked);
  if (c.client != nullptr && !c.doomed)
    for (unsigned e = 0; e < endpoints(); ++e) c.client->endpoint(e).flush();
  return worked;
}

bool FaultClients::take_messages(unsigned index) {
  ClientRun& c = clients_[index];
  bool worked = false;
  const int limit = c.slow ? 1 : static_cast<int>(1 + random_.below(64));
  for (unsigned e = 0; e < endpoints(); ++e) {
    proxy::Endpoint& endpoint = c.client->endpoint(e);
    while (Connection* const accepted = endpoint.try_accept()) flows_.on_accept(index, *accepted);
    const int handed = endpoint.poll(
        [&](Connection& from, ByteView message) { flows_.on_message(index, from, message); }, limit);
    worked = worked || handed > 0;
  }
  return worked;
}

proxy::SendStatus FaultClients::send_waiting(unsigned client, Connection& connection, ByteView message,
                                             Duration timeout, unsigned compute_node) {
  auto& service = static_cast<FaultService&>(clients_[client].client->service());
  service.in_loop = true;
  const FaultDriver::Waiting waiting(driver_);
  const proxy::SendStatus status = connection.send(message, timeout, compute_node);
  service.in_loop = false;
  return status;
}

// ---------------------------------------------------------------- lives

void FaultClients::attach(unsigned index) {
  ClientRun& c = clients_[index];
  if (!nodes_.is_running(c.node)) return;
  proxy::ClientOptions options;
  options.endpoints = static_cast<std::uint16_t>(config_.endpoints);
  options.receive_bytes = std::max(2 * flows_.receive_bytes(index), 64u << 10);
  options.send_bytes = 128u << 10;
  c.life = nodes_.life(c.node);
  auto made = proxy::Client::attach(std::make_unique<FaultService>(driver_, nodes_, c.node), options);
  if (made) {
    c.client = std::move(made).value();
    log_.trace("client {} attaches to c{}", index, c.node);
  } else if (has_its_node(index) && events_.now() >= trouble_.quiet_from()) {
    log_.fail(fmt::format("client {} cannot attach to cluster {}: {}", index, c.node, made.error().text));
  }
}

// The client dies, or ends. Messages that it sent before arrive all the same.
void FaultClients::destroy(unsigned index) {
  ClientRun& c = clients_[index];
  if (c.client == nullptr) return;
  flows_.on_client_gone(index);
  datagrams_.on_client_gone(index);
  for (unsigned e = 0; e < endpoints(); ++e) {
    const proxy::EndpointCounts& counts = c.client->endpoint(e).counts();
    if (counts.bad_arrivals > 0 && config_.jump_every_ms == 0 && !nodes_.anybody_lost())
      log_.fail(fmt::format("client {} was given {} arrivals that are none of its connections'", index,
                            counts.bad_arrivals));
  }
  c.client.reset();
  wake(index, events_.now() + 1_us);
}

void FaultClients::kill(unsigned index) {
  if (clients_[index].busy)
    clients_[index].doomed = true;
  else
    destroy(index);
}

void FaultClients::kill_those_of(unsigned node) {
  for (unsigned c = 0; c < clients_.size(); ++c)
    if (clients_[c].node == node) kill(c);
}

void FaultClients::end_stops() {
  for (unsigned c = 0; c < clients_.size(); ++c) {
    clients_[c].slow = false;
    clients_[c].stopped_until = Instant();
    if (flows_.has_flows(c) || clients_[c].client != nullptr || datagrams_.needs(c)) wake(c, events_.now());
  }
}

void FaultClients::end() {
  flows_.forget();
  datagrams_.end();
  for (unsigned c = 0; c < clients_.size(); ++c)
    if (!clients_[c].busy) destroy(c);
}

}  // namespace braid::sim
