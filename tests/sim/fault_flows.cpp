#include "tests/sim/fault_flows.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "convergence/position.h"

namespace braid::sim {
namespace {

using proxy::Connection;
using proxy::ConnectionState;
using proxy::SendStatus;

constexpr Duration kConnectTimeout = 300_ms;
// The longest time after which a call that timed out while the network was bad is tried again.
constexpr Duration kSettles = 500_ms;
// Above what several connects that time out one after the other take: who waits inside another's wait keeps
// it from going on.
constexpr Duration kSendTimeout = 20_s;
// Tag of a connection that came when nobody waited for it any more; others' are flow * 2 + end + 1.
constexpr std::uint64_t kNobodys = ~std::uint64_t{0};

}  // namespace

FaultFlows::FaultFlows(const WorldConfig& config, Prng& random, const WorldEvents& events, WorldLog& log,
                       const FaultNodes& nodes, const TroublePlanner& trouble, Clients& clients)
    : config_(config),
      random_(random),
      events_(events),
      log_(log),
      nodes_(nodes),
      trouble_(trouble),
      clients_(clients),
      contents_(config.seed) {}

// ---------------------------------------------------------------- the plan

void FaultFlows::plan(std::size_t clients) {
  ends_.resize(clients);
  const auto node_of = [this](unsigned client) { return clients_.node_of(client); };
  for (unsigned id = 0; id < static_cast<unsigned>(config_.flows); ++id) {
    flows_.push_back(make_flow(id, draw_flow(config_, random_, clients, node_of)));
    for (unsigned e = 0; e < 2; ++e) ends_[flows_.back().ends[e].client].push_back(id * 2 + e);
  }
}

FaultFlows::Flow FaultFlows::make_flow(unsigned id, const FlowPlan& plan) {
  Flow flow;
  flow.id = id;
  flow.options = plan.options;
  static constexpr stack::ProtocolId kProtocols[] = {stack::kMessages, stack::kSharedMemory,
                                                     FaultNodes::kAddedStream};
  flow.options.protocol = kProtocols[id % std::size(kProtocols)];
  flow.listen_at = plan.listen_at;
  flow.connect_at = plan.connect_at;
  for (unsigned e = 0; e < 2; ++e) {
    static_cast<FlowEndPlan&>(flow.ends[e]) = plan.ends[e];
    flow.streams.emplace_back(contents_, mix(id, e), plan.options.ordered, plan.ends[e].messages);
  }
  return flow;
}

bool FaultFlows::needs(unsigned client) const {
  return std::any_of(ends_[client].begin(), ends_[client].end(),
                     [&](unsigned e) { return !flows_[e / 2].ends[e % 2].over(); });
}

std::uint32_t FaultFlows::receive_bytes(unsigned client) const {
  std::uint32_t bytes = 0;
  for (const unsigned e : ends_[client]) bytes += flows_[e / 2].ends[e % 2].window_bytes;
  return bytes;
}

// ---------------------------------------------------------------- opening

void FaultFlows::begin(unsigned client, bool* worked) {
  for (const unsigned e : ends_[client]) {
    begin_end(flows_[e / 2], e % 2, worked);
    if (clients_.is_doomed(client) || log_.has_failed()) return;
  }
}

void FaultFlows::begin_end(Flow& flow, unsigned e, bool* worked) {
  End& end = flow.ends[e];
  const End& other = flow.ends[1 - e];
  // An end that lost its peer before it learnt of the connection never learns of it.
  if (end.state == End::State::kListening &&
      (flow.unopened || (other.over() && !faulty() && may_be_lost(flow))))
    end.state = End::State::kGone;
  if (end.state != End::State::kWaiting) return;
  if (flow.unopened || other.state == End::State::kGone) {
    end.state = End::State::kGone;  // it will not come about
    flow.unopened = true;
    return;
  }
  if (now() < (e == 1 ? flow.listen_at : flow.connect_at)) return;
  if (e == 1)
    listen(flow);
  else
    connect(flow);
  *worked = true;
}

void FaultFlows::listen(Flow& flow) {
  End& end = flow.ends[1];
  proxy::ConnectionOptions options = flow.options;
  options.window_bytes = end.window_bytes;
  const Result<void> listening =
      clients_.endpoint(end.client, end.endpoint).listen(PortId(flow.id + 1), options);
  if (clients_.is_doomed(end.client)) return;
  if (listening.ok())
    end.state = End::State::kListening;
  else if (!faulty())
    log_.fail(fmt::format("client {}: {}", end.client, listening.error().text));
}

void FaultFlows::connect(Flow& flow) {
  End& end = flow.ends[0];
  flow.opened = now();
  const bool must_succeed =
      now() > trouble_.quiet_from() + kSettles && flow.ends[1].state == End::State::kListening;
  proxy::ConnectionOptions options = flow.options;
  options.window_bytes = end.window_bytes;
  const ClusterId cluster(static_cast<std::uint16_t>(clients_.node_of(flow.ends[1].client)));
  const Result<Connection*> made = clients_.endpoint(end.client, end.endpoint)
                                       .connect(cluster, PortId(flow.id + 1), options, kConnectTimeout);
  if (log_.has_failed()) return;
  if (!made.ok()) return on_connect_failed(flow, must_succeed, made.error().text);
  made.value()->tag = flow.id * 2 + 1;
  end.state = End::State::kOpen;
  end.connection = made.value();
  ++connections_;
  log_.trace("client {} has connected flow {}", end.client, flow.id);
}

void FaultFlows::on_connect_failed(Flow& flow, bool must_succeed, const std::string& why) {
  End& end = flow.ends[0];
  const End& other = flow.ends[1];
  log_.trace("client {} could not connect flow {}: {}", end.client, flow.id, why);
  end.state = End::State::kGone;
  flow.unopened = true;
  const bool listens = !clients_.is_doomed(other.client) && clients_.has_its_node(other.client);
  if (must_succeed && listens && !may_be_lost(flow) &&
      !nodes_.may_lose(clients_.node_of(end.client), clients_.node_of(other.client)) && !other.over())
    log_.fail(
        fmt::format("client {} cannot connect flow {} on a good network: {}", end.client, flow.id, why));
}

// A connection that a peer made to one of our listeners: whose port tells which flow it is.
void FaultFlows::on_accept(unsigned client, Connection& connection) {
  if (connection.tag != 0) return;
  CHECK_GT(connection.listener().value(), 0u);
  Flow& flow = flows_[connection.listener().value() - 1];
  End& end = flow.ends[1];
  if (end.client == client && (flow.unopened || end.state == End::State::kGone)) {
    connection.tag = kNobodys;  // its caller gave up, or was lost; it ends with its client
    return;
  }
  connection.tag = flow.id * 2 + 1 + 1;
  if (end.client != client || end.state != End::State::kListening) {
    log_.fail(fmt::format("client {} was given a second connection of flow {}", client, flow.id));
    return;
  }
  end.state = End::State::kOpen;
  end.connection = &connection;
  ++connections_;
  log_.trace("client {} accepts flow {}", client, flow.id);
}

// ---------------------------------------------------------------- messages

void FaultFlows::on_message(unsigned client, Connection& from, ByteView message) {
  if (from.tag == 0) on_accept(client, from);
  if (from.tag == kNobodys || log_.has_failed()) return;
  const unsigned id = static_cast<unsigned>(from.tag - 1) / 2;
  const unsigned end = static_cast<unsigned>(from.tag - 1) % 2;
  Flow& flow = flows_[id];
  MessageStream& stream = flow.streams[1 - end];
  const auto wrong = [&](const std::string& what) {
    log_.fail(fmt::format("flow {} ({}, from client {} to {}): {}; {} of {} messages had arrived", id,
                          flow.options.ordered ? "ordered" : "unordered", flow.ends[1 - end].client, client,
                          what, stream.delivered(), stream.sent()));
  };
  if (flow.ends[end].client != client) return wrong("it came to another client");
  if (flow.ends[end].state != End::State::kOpen) return wrong("it came to an end that is not open");
  const MessageStream::Delivery delivery = stream.deliver(now(), message);
  if (!delivery.wrong.empty()) return wrong(delivery.wrong);
  log_.trace("client {} takes message {} of flow {}.{}: {} bytes", client, delivery.number, id, 1 - end,
             message.size());
  if (config_.latency_us > 0 && delivery.took > from_us(config_.latency_us))
    return wrong(fmt::format("message {} took {:.3f} ms, though only one frame was lost", delivery.number,
                             delivery.took.ms()));
  ++messages_;
}

void FaultFlows::advance(unsigned client, bool* worked) {
  for (const unsigned e : ends_[client]) {
    if (clients_.is_doomed(client) || log_.has_failed()) return;
    Flow& flow = flows_[e / 2];
    if (flow.ends[e % 2].state != End::State::kOpen) continue;
    send_some(flow, e % 2, worked);
    if (!clients_.is_doomed(client)) watch(flow, e % 2, worked);
  }
}

void FaultFlows::send_some(Flow& flow, unsigned e, bool* worked) {
  const End& end = flow.ends[e];
  for (auto burst = random_.below(static_cast<std::uint64_t>(config_.batch) + 1);
       burst > 0 && !flow.streams[e].all_sent(); --burst) {
    if (!send_one(flow, e)) return;
    *worked = true;
    if (clients_.is_doomed(end.client) || log_.has_failed() || end.state != End::State::kOpen) return;
  }
}

// A client that waits in send() takes nothing meanwhile. Two that wait for each other would wait for ever, so long
// messages go in one direction only; nor can the receiver take them if it waits for something itself, further up
// on this stack.
MessageDraft FaultFlows::draft_message(const Flow& flow, unsigned e) {
  const End& end = flow.ends[e];
  const bool is_long = end.client < flow.ends[1 - e].client && random_.chance(config_.long_messages) &&
                       !clients_.anybody_waits();
  return draw_message(config_, random_, end.connection->max_message_bytes(), is_long);
}

SendStatus FaultFlows::submit_long(Flow& flow, unsigned e, const MessageDraft& draft, ByteView bytes) {
  const End& end = flow.ends[e];
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());  // the world goes on meanwhile
  const Instant began = now();
  const std::uint32_t number = flow.streams[e].sent();
  const unsigned compute_node = flow.options.dispatch == convergence::Dispatch::kFixed ? flow.id : 0;
  const SendStatus status =
      clients_.send_waiting(end.client, *end.connection, copy, kSendTimeout, compute_node);
  if (log_.has_failed() || status != SendStatus::kTimeout) return status;
  if (began > trouble_.quiet_from() && config_.jump_every_ms == 0 &&
      !nodes_.may_lose(clients_.node_of(end.client), clients_.node_of(flow.ends[1 - e].client)))
    log_.fail(fmt::format("flow {}: message {} of {} bytes found no room in {:.1f} s of a good network",
                          flow.id, number, draft.bytes, kSendTimeout.s()));
  note_lost(flow, e, "a long message found no room in time");
  return status;
}

SendStatus FaultFlows::submit(Flow& flow, unsigned e, const MessageDraft& draft, ByteView bytes) {
  if (draft.is_long()) return submit_long(flow, e, draft, bytes);
  Connection& connection = *flow.ends[e].connection;
  // With fixed dispatch the compute node determines the proxy.
  const unsigned compute_node = flow.options.dispatch == convergence::Dispatch::kFixed ? flow.id : 0;
  if (random_.chance(0.5)) return connection.try_send(bytes, compute_node);
  // More room than is needed, at times.
  const auto room =
      std::min(connection.max_message_bytes(), draft.bytes + static_cast<std::uint32_t>(random_.below(100)));
  SendStatus status = SendStatus::kSent;
  const MutableBytes place = connection.reserve(room, compute_node, &status);
  if (status == SendStatus::kSent) {
    std::copy(bytes.begin(), bytes.end(), place.begin());
    connection.commit(draft.bytes);
  }
  return status;
}

// False: not now.
bool FaultFlows::send_one(Flow& flow, unsigned e) {
  const End& end = flow.ends[e];
  MessageStream& stream = flow.streams[e];
  const MessageDraft draft = draft_message(flow, e);
  const std::uint32_t number = stream.sent();
  const SendStatus status = submit(flow, e, draft, stream.offer(now(), draft.bytes, draft.granules));
  if (draft.is_long() && log_.has_failed()) return false;
  switch (status) {
    case SendStatus::kSent:
      break;
    case SendStatus::kNoCredit:
    case SendStatus::kChannelFull:
    case SendStatus::kClosed:
    case SendStatus::kTimeout:
      stream.withdraw();
      return false;
    case SendStatus::kTooLong:
      stream.withdraw();
      log_.fail(fmt::format("flow {}: {} bytes are too long", flow.id, draft.bytes));
      return false;
  }
  stream.confirm();
  log_.trace("client {} sends message {} of flow {}.{}: {} bytes", end.client, number, flow.id, e,
             draft.bytes);
  const std::uint32_t window = flow.ends[1 - e].window_bytes / convergence::kGranuleBytes;
  if (!stream.has_long() && stream.granules_in_flight() > window)
    log_.fail(fmt::format("flow {}: {} granules are in flight into a window of {}", flow.id,
                          stream.granules_in_flight(), window));
  return true;
}

// ---------------------------------------------------------------- the end

bool FaultFlows::may_be_lost(const Flow& flow) const {
  return nodes_.may_have_lost(clients_.node_of(flow.ends[0].client), clients_.node_of(flow.ends[1].client),
                              earlier(flow.opened, now()));
}

void FaultFlows::note_lost(Flow& flow, unsigned end, const char* how) {
  log_.trace("client {}: flow {} is lost: {}", flow.ends[end].client, flow.id, how);
  flow.lost = true;
}

void FaultFlows::watch(Flow& flow, unsigned e, bool* worked) {
  const End& end = flow.ends[e];
  if (end.state != End::State::kOpen) return;
  if (end.connection->corrupted())
    return log_.fail(fmt::format("client {} is told that flow {} was damaged", end.client, flow.id));
  if (!is_to_close(flow, e)) return;
  close(flow, e);
  *worked = true;
}

bool FaultFlows::is_to_close(Flow& flow, unsigned e) {
  const End& end = flow.ends[e];
  const End& other = flow.ends[1 - e];
  const MessageStream& in = flow.streams[1 - e];
  switch (end.connection->state()) {
    case ConnectionState::kOpen:
      if (flow.unopened || flow.lost) return true;
      if (!flow.streams[e].all_sent()) return false;
      // All sent. The other end may be gone, and its word of it in flight.
      return end.close_early || (!in.is_missing_any() && (in.sent() == in.planned() || other.over()));
    case ConnectionState::kPeerClosed:
      if (!other.over() && !flow.unopened && !flow.lost) {
        log_.fail(fmt::format("client {} is told that flow {} was closed, and its peer has it open",
                              end.client, flow.id));
        return false;
      }
      // Messages that were sent before the close still arrive; a peer that was lost meanwhile sends no more.
      return !in.is_missing_any() || flow.unopened || flow.lost || may_be_lost(flow);
    case ConnectionState::kPeerLost:
      if (!may_be_lost(flow)) {
        log_.fail(
            fmt::format("client {} is told that flow {}'s peer was lost, which lives", end.client, flow.id));
        return false;
      }
      note_lost(flow, e, "the peer was lost");
      return true;
    case ConnectionState::kServiceLost:
      note_lost(flow, e, "the service is gone");
      if (!clients_.has_its_node(end.client)) return true;
      log_.fail(fmt::format("client {} is told that its node is gone, which lives", end.client));
      return false;
  }
  return false;
}

void FaultFlows::close(Flow& flow, unsigned e) {
  End& end = flow.ends[e];
  log_.trace("client {} closes flow {}", end.client, flow.id);
  Connection* const connection = std::exchange(end.connection, nullptr);
  end.state = End::State::kClosed;
  clients_.endpoint(end.client, end.endpoint).close(connection);
}

void FaultFlows::on_client_gone(unsigned client) {
  for (const unsigned e : ends_[client]) {
    End& end = flows_[e / 2].ends[e % 2];
    if (end.state != End::State::kOpen && end.state != End::State::kListening) continue;
    end.state = End::State::kGone;
    end.connection = nullptr;
  }
}

void FaultFlows::forget() {
  for (std::vector<unsigned>& ends : ends_) ends.clear();
}

bool FaultFlows::all_over() const {
  return std::all_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.over(); });
}

std::string FaultFlows::unfinished() const {
  static constexpr const char* kStates[] = {"waiting", "listening", "open", "closed", "gone"};
  std::string text;
  for (const Flow& flow : flows_) {
    if (flow.over()) continue;
    text += fmt::format("\n  flow {}{}{}", flow.id, flow.options.ordered ? "" : ", unordered",
                        flow.lost ? ", lost" : "");
    for (unsigned e = 0; e < 2; ++e) {
      const End& end = flow.ends[e];
      const MessageStream& s = flow.streams[e];
      text +=
          fmt::format("; client {} of c{} ({}{}) sent {} of {}, {} arrived", end.client,
                      clients_.node_of(end.client), kStates[static_cast<unsigned>(end.state)],
                      end.connection != nullptr ? std::string(", ") + to_string(end.connection->state()) : "",
                      s.sent(), s.planned(), s.delivered());
    }
  }
  return text;
}

}  // namespace braid::sim
