#include "tests/sim/fault_datagrams.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace braid::sim {

using proxy::DatagramProtocol;
using proxy::DatagramReturn;
using proxy::Datagrams;

namespace {

constexpr double kSendsInTurn = 0.3;
constexpr double kTakesInTurn = 0.3;
constexpr int kTakenAtOnce = 8;
// With fewer in the whole world no bound is reached (PS-6).
constexpr DatagramLedger::Number kFewest = 16;

}  // namespace

// One proxy's object of the protocol kServed.
class FaultDatagrams::Service final : public DatagramProtocol {
 public:
  Service(FaultDatagrams& all, unsigned node) : all_(all), node_(node) {}
  Verdict receive(Instant /*now*/, const proxy::Datagram& request, proxy::Datagram& answer) override {
    return all_.serve(node_, request, answer);
  }

 private:
  FaultDatagrams& all_;
  const unsigned node_;
};

FaultDatagrams::FaultDatagrams(const WorldConfig& config, const WorldEvents& events, WorldLog& log,
                               const FaultNodes& nodes, const TroublePlanner& trouble)
    : config_(config),
      random_(mix(config.seed, 3)),  // its own, so that other parts of a world draw what they did without
      events_(events),
      log_(log),
      nodes_(nodes),
      trouble_(trouble) {}

void FaultDatagrams::plan(const std::vector<unsigned>& nodes) {
  for (const unsigned node : nodes) {
    Program program;
    program.node = node;
    programs_.push_back(program);
  }
}

proxy::Protocols FaultDatagrams::protocols_of(unsigned node) {
  proxy::Protocols protocols;
  CHECK(protocols.add_of_connections(FaultNodes::kAddedStream, "added_stream").ok());
  if (serves(node))
    CHECK(protocols.add(kServed, "served", [this, node] { return std::make_unique<Service>(*this, node); })
              .ok());
  return protocols;
}

std::vector<stack::ProtocolId> FaultDatagrams::protocols_of_clients(unsigned node) const {
  if (serves(node)) return {stack::kDatagrams, kServed};
  return {stack::kDatagrams};
}

// ---------------------------------------------------------------- clients

void FaultDatagrams::take_turn(const Sender& sender, proxy::Client& client, bool* worked) {
  if (planned() == 0 || !bind(sender, client)) return;
  if (needs(sender.client) && random_.chance(kSendsInTurn)) {
    if (!send_one(sender, client)) return;
    *worked = true;
  }
  if (ledger_.open() > 0 && random_.chance(kTakesInTurn))
    for (int i = 0; i < kTakenAtOnce && take(sender, client); ++i) *worked = true;
}

void FaultDatagrams::on_client_gone(unsigned client) {
  if (ended_) return;
  Program& program = programs_[client];
  program.bound = Instant::never();
  program.ended = now();
  ++program.ends;
}

bool FaultDatagrams::bind(const Sender& sender, proxy::Client& client) {
  Program& program = programs_[sender.client];
  if (program.listens()) return true;
  for (const stack::ProtocolId protocol : protocols_of_clients(sender.node)) {
    const Result<Datagrams> bound = Datagrams::bind(client, port_of(sender.client), protocol);
    if (sender.is_doomed() || log_.has_failed()) return false;
    if (!bound) {
      on_call_failed(sender, bound.error().text);
      return false;
    }
  }
  program.bound = now();
  program.life = nodes_.life(program.node);
  return true;
}

DatagramLedger::Entry FaultDatagrams::draw(const Sender& sender) {
  const auto clients = programs_.size();
  auto to = static_cast<unsigned>(random_.below(clients));
  while (programs_[to].node == sender.node) to = static_cast<unsigned>(random_.below(clients));
  DatagramLedger::Entry e;
  e.from = ClusterId(static_cast<std::uint16_t>(sender.node));
  e.to = ClusterId(static_cast<std::uint16_t>(programs_[to].node));
  e.protocol = serves(sender.node) && random_.chance(0.5) ? kServed : stack::kDatagrams;
  e.source = port_of(sender.client);
  e.destination = port_of(to);
  if (e.protocol == kServed && random_.chance(0.7))
    e.destination = PortId(kAnswered + static_cast<std::uint32_t>(random_.below(3)));
  if (random_.chance(0.1)) e.destination = PortId(kUnbound);
  e.sent_at = now();
  e.bytes = static_cast<std::uint32_t>(
      DatagramLedger::kMinBytes + random_.below(proxy::Datagram::kMaxBytes - DatagramLedger::kMinBytes + 1));
  return e;
}

// False: the client must not be used any more.
bool FaultDatagrams::send_one(const Sender& sender, proxy::Client& client) {
  const DatagramLedger::Entry e = draw(sender);
  Result<Datagrams> bound = Datagrams::bind(client, e.source, e.protocol);
  if (sender.is_doomed() || log_.has_failed()) return false;
  if (!bound) {
    on_call_failed(sender, bound.error().text);
    return false;
  }
  const DatagramLedger::Number number = ledger_.offer(e);
  ++programs_[sender.client].sent;
  log_.trace("client {} sends {}", sender.client, ledger_.describe(number));
  const Result<void> sent = bound.value().send(e.to, e.destination, ledger_.content(number));
  if (!sent.ok()) {
    if (sent.error().text.find("too many datagrams wait") != std::string::npos)
      ledger_.withdraw(number);
    else
      on_call_failed(sender, sent.error().text);
  }
  return !sender.is_doomed() && !log_.has_failed();
}

// False: nothing is there, or the client must not be used any more.
bool FaultDatagrams::take(const Sender& sender, proxy::Client& client) {
  const std::vector<stack::ProtocolId> protocols = protocols_of_clients(sender.node);
  const stack::ProtocolId protocol = protocols[random_.below(protocols.size())];
  Result<Datagrams> bound = Datagrams::bind(client, port_of(sender.client), protocol);
  if (sender.is_doomed() || log_.has_failed() || !bound) return false;
  const auto next = bound.value().try_receive();
  if (log_.has_failed()) return false;
  if (!next) {
    if (!sender.is_doomed()) on_call_failed(sender, next.error().text);
    return false;
  }
  if (!next.value()) return false;
  const proxy::ReceivedDatagram& got = *next.value();
  proxy::Datagram d;
  d.protocol = protocol;
  d.returned = got.returned;
  d.peer = got.peer;
  d.source = got.source;
  d.destination = got.destination;
  d.bytes = static_cast<std::uint16_t>(got.bytes);
  d.data = got.data;
  const PortId own = d.returned == DatagramReturn::kNone ? d.destination : d.source;
  if (own != port_of(sender.client))
    log_.fail(fmt::format("client {} was given a datagram for port {}", sender.client, own.value()));
  return arrived(sender.node, d) && !sender.is_doomed();
}

void FaultDatagrams::on_call_failed(const Sender& sender, const std::string& why) {
  log_.trace("client {}: {}", sender.client, why);
  call_failed_ = true;
  if (sender.has_its_node() && !sender.is_doomed() && now() >= trouble_.quiet_from() &&
      config_.jump_every_ms == 0)
    log_.fail(fmt::format("client {} on a good network: {}", sender.client, why));
}

// ---------------------------------------------------------------- what arrives

// False: something is wrong.
bool FaultDatagrams::arrived(unsigned node, const proxy::Datagram& d) {
  DatagramLedger::Number number = 0;
  // Of interest to what comes back only; it looks at all counters of all nodes.
  const bool may_repeat = d.returned != DatagramReturn::kNone && failed_over(nodes_.faults());
  std::string wrong = ledger_.arrive(ClusterId(static_cast<std::uint16_t>(node)), d, &number, may_repeat);
  if (wrong.empty() && d.returned != DatagramReturn::kNone) {
    wrong = check_reason(ledger_[number], d.returned);
    if (!wrong.empty()) wrong = ledger_.describe(number) + ": " + wrong;
  }
  if (!wrong.empty()) {
    log_.fail(wrong);
    return false;
  }
  ++(d.returned == DatagramReturn::kNone ? delivered_ : returned_);
  log_.trace("c{} {} {}", node, d.returned == DatagramReturn::kNone ? "takes" : "is given back",
             ledger_.describe(number));
  return true;
}

DatagramProtocol::Verdict FaultDatagrams::serve(unsigned node, const proxy::Datagram& request,
                                                proxy::Datagram& answer) {
  const std::uint32_t port = request.destination.value();
  if (port >= kFirstClientPort) return DatagramProtocol::Verdict::kForClient;
  if (port == kRefused) return DatagramProtocol::Verdict::kRefused;
  if (!arrived(node, request) || port == kTaken) return DatagramProtocol::Verdict::kTaken;
  DatagramLedger::Entry e;
  e.from = ClusterId(static_cast<std::uint16_t>(node));
  e.to = answer.peer;
  e.protocol = answer.protocol;
  e.source = answer.source;
  e.destination = answer.destination;
  e.is_answer = true;
  e.sent_at = now();
  e.bytes = request.bytes;
  const std::vector<std::byte> content = ledger_.content(ledger_.offer(e));
  answer.bytes = static_cast<std::uint16_t>(content.size());
  std::copy(content.begin(), content.end(), answer.data.begin());
  return DatagramProtocol::Verdict::kAnswered;
}

std::string FaultDatagrams::check_reason(const DatagramLedger::Entry& e, DatagramReturn reason) {
  const bool has_protocol = e.protocol != kServed || serves(e.to.value());
  switch (reason) {
    case DatagramReturn::kNone:
      break;
    case DatagramReturn::kUnknownProtocol:
      return has_protocol ? "its protocol is said to be unknown, and is not" : "";
    case DatagramReturn::kRefused:
      return e.protocol == kServed && e.destination.value() == kRefused ? "" : "nobody has refused it";
    case DatagramReturn::kNoSuchPort: {
      const std::uint32_t port = e.destination.value();
      if (port == kUnbound) return "";
      if (port < kFirstClientPort) return "a proxy serves its port, which is said to be unbound";
      const Program& receiver = programs_[port - kFirstClientPort];
      // A client that waits in a call outlives its node for a while.
      const bool lives = receiver.life == nodes_.life(receiver.node);
      const bool bound =
          lives && receiver.bound <= e.sent_at && !client_ended_since(e.destination, e.sent_at);
      return bound ? "its port is said to be unbound, and is not" : "";
    }
    case DatagramReturn::kNoRoom:
      no_room_ = true;
      return ledger_.size() < kFewest ? "no room is said to be left" : "";
    case DatagramReturn::kMaybeDelivered:
      maybe_delivered_ = true;
      return "";
  }
  return "it came back without a reason";
}

bool FaultDatagrams::client_ended_since(PortId port, Instant when) const {
  if (port.value() < kFirstClientPort || port.value() == kUnbound) return false;
  const Program& program = programs_[port.value() - kFirstClientPort];
  return program.ends > 0 && program.ended >= when;
}

bool FaultDatagrams::failed_over(const FaultNodes::Faults& faults) const {
  return faults.anybody_lost || faults.paths_fenced > 0 || faults.proxies_fenced > 0 ||
         config_.resize_every_ms > 0;
}

// PS-5; or it has arrived where its client ended before it took it.
bool FaultDatagrams::may_be_lost(const DatagramLedger::Entry& e, const FaultNodes::Faults& faults) const {
  return call_failed_ || faults.anybody_lost || faults.proxies_fenced > 0 || faults.datagrams_dropped > 0 ||
         client_ended_since(e.source, e.sent_at) || client_ended_since(e.destination, e.sent_at) ||
         // An answer that may be a duplicate goes back to the proxy.
         (e.is_answer && (faults.paths_fenced > 0 || config_.resize_every_ms > 0));
}

// ---------------------------------------------------------------- the end

bool FaultDatagrams::all_over() const {
  if (planned() == 0) return true;
  for (unsigned c = 0; c < programs_.size(); ++c)
    if (needs(c)) return false;
  if (ledger_.open() == 0) return true;
  const FaultNodes::Faults faults = nodes_.faults();
  for (DatagramLedger::Number n = 0; n < ledger_.size(); ++n)
    if (!ledger_[n].settled() && !may_be_lost(ledger_[n], faults)) return false;
  return true;
}

std::string FaultDatagrams::unfinished() const {
  const FaultNodes::Faults faults = nodes_.faults();
  std::string text;
  for (unsigned c = 0; c < programs_.size(); ++c)
    if (needs(c))
      text += fmt::format("\n  client {} has sent {} of {} datagrams", c, programs_[c].sent, planned());
  for (DatagramLedger::Number n = 0; n < ledger_.size(); ++n)
    if (!ledger_[n].settled() && !may_be_lost(ledger_[n], faults))
      text += fmt::format("\n  {}: it has neither arrived nor come back", ledger_.describe(n));
  return text;
}

void FaultDatagrams::check_counters() {
  const FaultNodes::Faults faults = nodes_.faults();
  if (log_.has_failed() || planned() == 0 || failed_over(faults)) return;
  if (maybe_delivered_) log_.fail("a datagram is said to be a possible duplicate, and no path was given up");
  const bool exact =
      !call_failed_ && !no_room_ && faults.datagrams_dropped == 0 && ledger_.open() == 0 &&
      std::all_of(programs_.begin(), programs_.end(), [](const Program& p) { return p.ends == 0; });
  if (!exact) return;
  for (unsigned node = 0; node < nodes_.size(); ++node)
    for (const stack::ProtocolId protocol : protocols_of_clients(node)) check_counters(node, protocol);
}

void FaultDatagrams::check_counters(unsigned node, stack::ProtocolId protocol) {
  proxy::ProtocolTraffic wanted;
  for (DatagramLedger::Number n = 0; n < ledger_.size(); ++n) {
    const DatagramLedger::Entry& e = ledger_[n];
    if (e.protocol != protocol) continue;
    const bool for_unbound_port = e.returned == DatagramReturn::kNoSuchPort;
    if (e.from.value() == node) {
      ++wanted.sent;
      wanted.sent_bytes += e.bytes;
      if (e.returned != DatagramReturn::kNone) ++wanted.returned;
    }
    if (e.to.value() != node) continue;
    if (e.delivered || for_unbound_port) {
      ++wanted.received;
      wanted.received_bytes += e.bytes;
    }
    if (for_unbound_port || e.returned == DatagramReturn::kRefused) ++wanted.refused;
  }
  const proxy::ProtocolTraffic counted = nodes_.traffic(node, protocol);
#define X(name, meaning)                                                                                    \
  if (counted.name != wanted.name)                                                                          \
    log_.fail(fmt::format("c{} has counted {} " #name " of protocol {}, and it was {}", node, counted.name, \
                          protocol.value(), wanted.name));
  BRAID_PROTOCOL_COUNTERS(X)
#undef X
}

}  // namespace braid::sim
