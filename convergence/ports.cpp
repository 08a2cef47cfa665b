#include "convergence/ports.h"

#include <algorithm>

#include "base/check.h"
#include "base/take_first.h"

namespace braid::convergence {
namespace {

// How soon a connector asks again where no listener was found.
constexpr Duration kRetry = 20_ms;

bool possible_window(std::uint32_t bytes) {
  return bytes >= kMinWindowBytes && bytes <= kMaxWindowBytes && (bytes & (bytes - 1)) == 0;
}

}  // namespace

Ports::Ports(ClusterId self, std::uint16_t clusters, Resources& resources, std::uint32_t max_ports)
    : self_(self), clusters_(clusters), resources_(resources), entries_(max_ports) {
  CHECK_LE(max_ports, 65536u);
}

Ports::Entry* Ports::find(PortId port) {
  const std::uint32_t index = port.value() & 0xffff;
  if (index >= entries_.size()) return nullptr;
  Entry& entry = entries_[index];
  return entry.state != State::kFree && entry.end.port == port ? &entry : nullptr;
}

Ports::Entry* Ports::allocate(Client client, std::uint32_t endpoint, std::uint32_t window_bytes, bool ordered,
                              ClusterId peer) {
  std::uint32_t index = 0;
  for (std::size_t tried = 1; tried < entries_.size() && index == 0; ++tried) {
    if (entries_[next_index_].state == State::kFree) index = next_index_;
    next_index_ = next_index_ + 1 == entries_.size() ? 1 : next_index_ + 1;
  }
  if (index == 0) return nullptr;
  const std::optional<Grant> grant = resources_.grant(client, endpoint, window_bytes);
  if (!grant) return nullptr;
  Entry& entry = entries_[index];
  // CN-9
  auto generation = static_cast<std::uint16_t>(entry.generation + 1);
  if (generation == 0) generation = 1;  // those are listeners' ports
  entry = Entry{};
  entry.generation = generation;
  entry.end.port = PortId(std::uint32_t{generation} << 16 | index);
  entry.end.client = client;
  entry.end.endpoint = endpoint;
  entry.end.window_bytes = window_bytes;
  entry.end.ordered = ordered;
  entry.end.grant = *grant;
  entry.end.peer = peer;
  ++with_[peer.value()];
  return &entry;
}

void Ports::free(Entry& entry) {
  resources_.give_back(entry.end.client, entry.end.endpoint, entry.end.grant, entry.end.window_bytes);
  if (entry.state == State::kConnecting) stop_clock(entry);
  --with_.at(entry.end.peer.value());
  entry.state = State::kFree;
}

void Ports::send(ClusterId to, ControlMessage::Kind kind, PortId source, PortId destination,
                 std::uint32_t window_bytes, bool ordered, Refusal reason) {
  Outgoing out{to, {}};
  out.message.kind = kind;
  out.message.ordered = ordered;
  out.message.reason = static_cast<std::uint8_t>(reason);
  out.message.source = source;
  out.message.destination = destination;
  out.message.window_bytes = window_bytes;
  outgoing_.push_back(out);
}

Refusal Ports::listen(Client client, PortId port, std::uint32_t endpoint, std::uint32_t window_bytes,
                      bool ordered, stack::ProtocolId protocol) {
  if (!possible_window(window_bytes)) return Refusal::kBadWindow;
  if (port == PortId() || port.value() > kMaxListenerPort) return Refusal::kBadPort;
  for (const Listener& l : listeners_)
    if (l.port == port) return Refusal::kPortTaken;
  listeners_.push_back({port, client, endpoint, window_bytes, ordered, protocol});
  return Refusal::kNone;
}

void Ports::connect(Instant now, Client client, std::uint32_t serial, std::uint32_t endpoint,
                    ClusterId cluster, PortId port, std::uint32_t window_bytes, bool ordered,
                    Duration timeout, stack::ProtocolId protocol) {
  Refusal refusal = Refusal::kNone;
  Entry* entry = nullptr;
  if (!possible_window(window_bytes))
    refusal = Refusal::kBadWindow;
  else if (cluster.value() >= clusters_ || cluster == self_)
    refusal = Refusal::kNoSuchCluster;
  else if (entry = allocate(client, endpoint, window_bytes, ordered, cluster); entry == nullptr)
    refusal = Refusal::kNoRoomHere;
  if (refusal != Refusal::kNone) {
    Event event{Event::Kind::kRefused, {}, refusal};
    event.end.client = client;
    event.end.serial = serial;
    events_.push_back(event);
    return;
  }
  entry->state = State::kConnecting;
  entry->end.serial = serial;
  entry->end.protocol = protocol;
  entry->target = port;
  entry->nobody_listened = false;
  entry->deadline = now + timeout;
  ask(*entry);
  start_clock(*entry);
}

Instant Ports::due(const Entry& entry) {
  return entry.awaiting_answer ? entry.deadline : earlier(entry.retry, entry.deadline);
}

void Ports::start_clock(const Entry& entry) {
  due_.emplace(due(entry), entry.end.port);
}

void Ports::stop_clock(const Entry& entry) {
  CHECK_EQ(due_.erase({due(entry), entry.end.port}), 1u);
}

void Ports::ask(Entry& entry) {
  entry.awaiting_answer = true;
  send(entry.end.peer, ControlMessage::Kind::kConnect, entry.end.port, entry.target, entry.end.window_bytes,
       entry.end.ordered);
  outgoing_.back().message.protocol = entry.end.protocol;
}

void Ports::refuse(Entry& entry, Refusal refusal) {
  events_.push_back({Event::Kind::kRefused, entry.end, refusal});
  free(entry);
}

// CN-1, CN-3
void Ports::on_connect(ClusterId from, const ControlMessage& m) {
  const auto listener = std::find_if(listeners_.begin(), listeners_.end(),
                                     [&](const Listener& l) { return l.port == m.destination; });
  Refusal refusal = Refusal::kNone;
  Entry* entry = nullptr;
  if (listener == listeners_.end())
    refusal = Refusal::kNoListener;
  else if (listener->ordered != m.ordered)
    refusal = Refusal::kOrderMismatch;
  else if (listener->protocol != m.protocol)  // PS-2
    refusal = Refusal::kProtocolMismatch;
  else if (!possible_window(m.window_bytes))
    refusal = Refusal::kBadWindow;
  else if (entry = allocate(listener->client, listener->endpoint, listener->window_bytes, m.ordered, from);
           entry == nullptr)
    refusal = Refusal::kNoRoom;
  if (refusal != Refusal::kNone) {
    send(from, ControlMessage::Kind::kRefuse, m.destination, m.source, 0, m.ordered, refusal);
    return;
  }
  entry->state = State::kAccepting;
  entry->end.listener = listener->port;
  entry->end.protocol = listener->protocol;
  entry->end.peer_port = m.source;
  entry->end.peer_window_bytes = m.window_bytes;
  events_.push_back({Event::Kind::kInstall, entry->end});
  send(from, ControlMessage::Kind::kAccept, entry->end.port, m.source, entry->end.window_bytes, m.ordered);
}

void Ports::on_control(Instant now, ClusterId from, const ControlMessage& m) {
  if (m.kind == ControlMessage::Kind::kConnect) {
    on_connect(from, m);
    return;
  }
  Entry* const entry = find(m.destination);
  const bool ours = entry != nullptr && entry->end.peer == from;  // CN-10
  switch (m.kind) {
    case ControlMessage::Kind::kConnect:
      return;
    case ControlMessage::Kind::kAccept:
      on_accept(ours ? entry : nullptr, from, m);
      return;
    case ControlMessage::Kind::kConfirm:
      if (!ours || entry->state != State::kAccepting || entry->end.peer_port != m.source) return;
      entry->state = State::kOpen;
      events_.push_back({Event::Kind::kAccepted, entry->end});
      return;
    case ControlMessage::Kind::kRefuse: {
      if (!ours || entry->state != State::kConnecting) return;
      const auto refusal = static_cast<Refusal>(m.reason);
      if (refusal == Refusal::kNoListener && now + kRetry < entry->deadline) {
        stop_clock(*entry);
        entry->awaiting_answer = false;
        entry->nobody_listened = true;
        entry->retry = now + kRetry;
        start_clock(*entry);
      } else {
        refuse(*entry, refusal);
      }
      return;
    }
    case ControlMessage::Kind::kClose:
      if (ours) on_close(*entry, m);
      return;
    case ControlMessage::Kind::kFence:
    case ControlMessage::Kind::kFenceBefore:
    case ControlMessage::Kind::kFencedBefore:
    case ControlMessage::Kind::kFenced:
    case ControlMessage::Kind::kProxies:
      return;  // of no port
  }
}

void Ports::on_accept(Entry* entry, ClusterId from, const ControlMessage& m) {
  if (entry == nullptr || entry->state != State::kConnecting || !possible_window(m.window_bytes)) {
    send(from, ControlMessage::Kind::kClose, m.destination, m.source, 0, true, Refusal::kTimeout);  // CN-4
    return;
  }
  stop_clock(*entry);
  entry->state = State::kOpen;  // CN-1: our proxies know the port before the peer is told that it may send
  entry->end.peer_port = m.source;
  entry->end.peer_window_bytes = m.window_bytes;
  events_.push_back({Event::Kind::kInstall, entry->end});
  events_.push_back({Event::Kind::kOpened, entry->end});
  send(from, ControlMessage::Kind::kConfirm, entry->end.port, m.source);
}

void Ports::on_close(Entry& entry, const ControlMessage& m) {
  if (entry.state == State::kConnecting) {  // it overtook the Accept, which will find no entry (CN-5)
    refuse(entry, Refusal::kClientGone);
    return;
  }
  if (entry.end.peer_port != m.source) return;
  switch (entry.state) {
    case State::kAccepting:
      if (static_cast<Refusal>(m.reason) == Refusal::kTimeout) {  // CN-4: the client was never told of it
        events_.push_back({Event::Kind::kRemove, entry.end});
        free(entry);
        return;
      }
      // It overtook the Confirm; what the peer had sent before lies in the window already (CN-5).
      events_.push_back({Event::Kind::kAccepted, entry.end});
      [[fallthrough]];
    case State::kOpen:
      entry.state = State::kPeerClosed;
      events_.push_back({Event::Kind::kPeerClosed, entry.end});
      return;
    case State::kClosing:
      entry.tell_peer = false;
      return;
    case State::kFree:
    case State::kConnecting:
    case State::kPeerClosed:
    case State::kPeerLost:
      return;
  }
}

// CN-6
void Ports::start_closing(Entry& entry) {
  entry.tell_peer = entry.state == State::kOpen || entry.state == State::kAccepting;
  entry.state = State::kClosing;
  events_.push_back({Event::Kind::kDrain, entry.end});
}

void Ports::close(Client client, PortId port) {
  std::erase_if(listeners_, [&](const Listener& l) { return l.port == port && l.client == client; });
  Entry* const entry = find(port);
  if (entry == nullptr || entry->end.client != client || entry->state == State::kClosing) return;
  if (entry->state == State::kConnecting) {
    free(*entry);
  } else {
    start_closing(*entry);
  }
}

void Ports::drained(PortId port) {
  Entry* const entry = find(port);
  if (entry == nullptr || entry->state != State::kClosing) return;
  events_.push_back({Event::Kind::kRemove, entry->end});
  if (entry->tell_peer)
    send(entry->end.peer, ControlMessage::Kind::kClose, entry->end.port, entry->end.peer_port);
  free(*entry);
}

// CN-7
void Ports::client_gone(Client client) {
  std::erase_if(listeners_, [&](const Listener& l) { return l.client == client; });
  for (Entry& entry : entries_) {
    if (entry.state == State::kFree || entry.end.client != client || entry.state == State::kClosing) continue;
    if (entry.state == State::kConnecting)
      free(entry);
    else
      start_closing(entry);
  }
}

std::size_t Ports::held_by(Client client) const {
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.state != State::kFree && e.end.client == client;
  }));
}

std::uint32_t Ports::held_with(ClusterId cluster) const {
  const auto with = with_.find(cluster.value());
  return with == with_.end() ? 0 : with->second;
}

// CN-8
void Ports::peer_lost(ClusterId cluster) {
  // Messages for its former incarnation must not reach a new one.
  std::erase_if(outgoing_, [&](const Outgoing& out) { return out.to == cluster; });
  for (Entry& entry : entries_) {
    if (entry.state == State::kFree || entry.end.peer != cluster) continue;
    switch (entry.state) {
      case State::kConnecting:
        refuse(entry, Refusal::kPeerLost);
        break;
      case State::kAccepting:
        // The window may already hold messages that the peer sent before it was confirmed (as in CN-5).
        events_.push_back({Event::Kind::kAccepted, entry.end});
        [[fallthrough]];
      case State::kOpen:
        entry.state = State::kPeerLost;
        events_.push_back({Event::Kind::kPeerLost, entry.end});
        break;
      case State::kClosing:
        entry.tell_peer = false;
        break;
      case State::kFree:
      case State::kPeerClosed:
      case State::kPeerLost:
        break;
    }
  }
}

// CN-2
void Ports::on_timer(Instant now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    Entry& entry = *find(due_.begin()->second);
    if (entry.deadline <= now) {
      refuse(entry, entry.nobody_listened ? Refusal::kNoListener : Refusal::kTimeout);
    } else {
      stop_clock(entry);
      ask(entry);
      start_clock(entry);
    }
  }
}

Instant Ports::next_deadline() const {
  return due_.empty() ? Instant::never() : due_.begin()->first;
}

std::optional<Ports::Event> Ports::poll_event() {
  return take_first(events_);
}

std::optional<Ports::Outgoing> Ports::poll_control() {
  CHECK(events_.empty());  // a peer must not be told of a port that proxies do not know yet
  return take_first(outgoing_);
}

}  // namespace braid::convergence
