#include "proxy/daemon/machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;

constexpr Duration kCallRetry = 50_ms;
// For the other sub-connections when one is up already; a handshake takes some milliseconds.
constexpr Duration kOtherPathsTimeout = 300_ms;
// For the first one, at the callee: that is how long a Call can keep a slot from others.
constexpr Duration kCallerTimeout = 1_s;
// A client that connects again within that time need not wait for handshakes.
constexpr Duration kLinger = 500_ms;
// Datagrams that wait for the proxy; one more is dropped.
constexpr std::size_t kMaxDatagrams = 64;

}  // namespace

Machines::Machines(const Config& config)
    : config_(config), prng_(config.seed), slots_(config.first_slot, config.slots) {
  config_.self.incarnation = prng_.next() | 1;
}

// ---------------------------------------------------------------- requests

// CN-12
void Machines::connect(Instant now, Request request) {
  if (std::string problem = request_problem(request); !problem.empty()) {
    refuse(request, std::move(problem));
    return;
  }
  waiting_.push_back({std::move(request), std::nullopt});
  find_slot(now, waiting_.back());
  drop_answered();
}

std::string Machines::request_problem(const Request& request) const {
  if (!config_.may_connect)
    return "this node does not connect to other machines: set machines.connect in its configuration";
  if (waiting_.size() >= kMaxRequests)
    return fmt::format("{} connects to other machines wait already: try again", kMaxRequests);
  for (const Ipv4Address a : request.addresses) {
    if (contains(config_.self.addresses, a))
      return fmt::format("{} is this node's own address", a.to_string());
    if (!stack::link_to(config_.links, a))
      return fmt::format("{} is on no link of this node, and none has a gateway", a.to_string());
  }
  return {};
}

// Leaves the request without addresses if it has been answered.
void Machines::find_slot(Instant now, Waiting& w) {
  if (Slot* const s = slots_.find(w.request.addresses)) {
    if (s->state == State::kDraining) return;  // on_timer() looks again
    if (s->state != State::kCalling) {
      if (const std::string problem = foreign_address(w.request.addresses, s->peer.addresses);
          !problem.empty()) {
        refuse(w.request, problem);
        w.request.addresses.clear();
        return;
      }
    }
    w.slot = slots_.id(*s);
    if (s->state == State::kConnected) connect_waiting(*s);
    return;
  }
  Slot* const s = slots_.find_free();
  if (s == nullptr) {
    refuse(w.request,
           fmt::format("this node knows {} clusters of other machines already (machines.slots): close "
                       "connections with one",
                       slots_.size()));
    w.request.addresses.clear();
    return;
  }
  s->state = State::kCalling;
  s->called = true;
  s->nonce = prng_.next();
  s->wanted = w.request.addresses;
  s->introduction_port = w.request.introduction_port;
  w.slot = slots_.id(*s);
  call(now, *s);
}

void Machines::refuse(const Request& request, std::string text) {
  Event event;
  event.kind = Event::Kind::kRefused;
  event.request = request;
  event.text = std::move(text);
  events_.push_back(std::move(event));
}

void Machines::refuse_all(const Slot& slot, const std::string& text) {
  std::erase_if(waiting_, [&](const Waiting& w) {
    if (w.slot != slots_.id(slot)) return false;
    refuse(w.request, text);
    return true;
  });
}

void Machines::client_gone(std::uint32_t client) {
  std::erase_if(waiting_, [&](const Waiting& w) { return w.request.client == client; });
}

bool Machines::is_wanted(const Slot& slot) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& w) { return w.slot == slots_.id(slot); });
}

void Machines::connect_waiting(Slot& slot) {
  for (Waiting& w : waiting_) {
    if (w.slot != slots_.id(slot)) continue;
    Event event;
    event.kind = Event::Kind::kConnect;
    event.slot = slots_.id(slot);
    event.request = std::exchange(w.request, Request{});
    events_.push_back(std::move(event));
  }
}

void Machines::drop_answered() {
  std::erase_if(waiting_, [](const Waiting& w) { return w.request.addresses.empty(); });
}

// ---------------------------------------------------------------- introductions

void Machines::send(const stack::Endpoint& to, Introduction i) {
  if (datagrams_.size() >= kMaxDatagrams) return;
  i.incarnation = config_.self.incarnation;
  i.cluster = config_.self.cluster;
  i.udp_port = config_.self.udp_port;
  i.link = config_.self.link;
  i.addresses = config_.self.addresses;
  if (i.proxies == 0) i.proxies = config_.self.proxies;
  datagrams_.push_back({to, write_introduction(i)});
}

void Machines::call(Instant now, Slot& s) {
  Introduction i;
  i.kind = Introduction::Kind::kCall;
  i.nonce = s.nonce;
  i.slot = slots_.id(s);
  send({s.wanted[s.next_address], s.introduction_port}, i);
  s.next_address = (s.next_address + 1) % s.wanted.size();
  s.next_call = now + kCallRetry;
}

void Machines::on_datagram(Instant now, const stack::Endpoint& from, ByteView bytes) {
  const std::optional<Introduction> i = parse_introduction(bytes);
  if (!i) return;
  switch (i->kind) {
    case Introduction::Kind::kCall:
      return on_call(now, from, *i);
    case Introduction::Kind::kAnswer:
      return on_answer(now, from, *i);
    case Introduction::Kind::kRefusal:
      return on_refusal(from, *i);
  }
}

// CN-13
void Machines::on_call(Instant now, const stack::Endpoint& from, const Introduction& caller) {
  if (!contains(caller.addresses, from.address) || caller.incarnation == config_.self.incarnation) return;
  Introduction reply;
  Slot* slot = nullptr;
  reply.nonce = caller.nonce;
  reply.reason = call_refusal(caller);
  if (reply.reason == Introduction::Reason::kNone) reply.reason = take_slot(now, caller, slot);
  if (reply.reason == Introduction::Reason::kTooManyProxies) reply.proxies = config_.max_proxies;
  if (reply.reason == Introduction::Reason::kNone) {
    reply.kind = Introduction::Kind::kAnswer;
    reply.slot = slots_.id(*slot);
  } else {
    reply.kind = Introduction::Kind::kRefusal;
  }
  send(from, reply);
}

// A reason to refuse the call that does not depend on the slots.
Introduction::Reason Machines::call_refusal(const Introduction& caller) const {
  if (!config_.may_accept) return Introduction::Reason::kNotAllowed;
  if (caller.link != config_.self.link) return Introduction::Reason::kDifferent;
  if (caller.proxies > config_.max_proxies) return Introduction::Reason::kTooManyProxies;
  for (const Ipv4Address a : caller.addresses)
    if (contains(config_.self.addresses, a) || !stack::link_to(config_.links, a))
      return Introduction::Reason::kNoRoute;
  return Introduction::Reason::kNone;
}

// kNone: the caller has `slot`.
Introduction::Reason Machines::take_slot(Instant now, const Introduction& caller, Slot*& slot) {
  slot = slots_.find(caller.addresses);
  if (slot == nullptr) {
    slot = slots_.find_free();
    if (slot == nullptr) return Introduction::Reason::kNoSlot;
    connect_paths(now, *slot, caller, caller.addresses);
    return Introduction::Reason::kNone;
  }
  if (slot->state == State::kCalling) {  // each has called the other
    connect_paths(now, *slot, caller, caller.addresses);
    return Introduction::Reason::kNone;
  }
  const bool same_incarnation = slot->peer.incarnation == caller.incarnation;
  if (slot->state != State::kDraining && same_incarnation && slot->peer.slot == caller.slot)
    return Introduction::Reason::kNone;  // a repeated Call
  // The caller gave up its last call, or its earlier incarnation did. Only the sub-connections, if they were
  // ever up, can report that nobody is there any more.
  if (slot->state == State::kConnecting && same_incarnation) drain(*slot);
  return Introduction::Reason::kBusy;
}

// CN-14
void Machines::on_answer(Instant now, const stack::Endpoint& from, const Introduction& callee) {
  Slot* const slot = slots_.find_calling(callee.nonce, from.address);
  if (slot == nullptr) return;
  if (const std::string problem =
          answer_problem(callee, from.address, config_.self, config_.max_proxies, slot->wanted);
      !problem.empty()) {
    refuse_all(*slot, problem);
    slots_.free(*slot);
    return;
  }
  connect_paths(now, *slot, callee, slot->wanted);
}

void Machines::on_refusal(const stack::Endpoint& from, const Introduction& refusal) {
  Slot* const slot = slots_.find_calling(refusal.nonce, from.address);
  if (slot == nullptr || refusal.reason == Introduction::Reason::kNone) return;
  if (refusal.reason == Introduction::Reason::kBusy) {
    slot->busy = true;
    return;
  }
  refuse_all(*slot, refusal_text(refusal, from.address, config_.self));
  slots_.free(*slot);
}

void Machines::on_unreachable(const stack::Endpoint& to, stack::Unreachable reason) {
  for (Slot& s : slots_)
    if (s.state == State::kCalling && s.introduction_port == to.port && contains(s.wanted, to.address))
      s.problems = fmt::format("{}: {}", to.address.to_string(), stack::to_string(reason));
}

void Machines::connect_paths(Instant now, Slot& s, const Introduction& peer, Ipv4Addresses used) {
  s.state = State::kConnecting;
  s.peer = peer;
  s.since = now;
  s.until = now + kCallerTimeout;
  s.problems.clear();
  Event event;
  event.kind = Event::Kind::kConnectPaths;
  event.slot = slots_.id(s);
  event.peer = peer;
  event.peer.addresses = std::move(used);
  events_.push_back(std::move(event));
}

// ---------------------------------------------------------------- from connecting to free

void Machines::on_paths(Instant now, ClusterId slot, unsigned up, unsigned all, const std::string& problems) {
  Slot& s = slots_.at(slot);
  CHECK(s.state == State::kConnecting);
  s.problems = problems;
  if (up < all && (up == 0 || now - s.since < kOtherPathsTimeout)) return;
  s.state = State::kConnected;
  s.unused_since = now;
  connect_waiting(s);
  drop_answered();
}

void Machines::drain(Slot& s) {
  s.state = State::kDraining;
  Event event;
  event.kind = Event::Kind::kDrain;
  event.slot = slots_.id(s);
  events_.push_back(std::move(event));
}

void Machines::lost(ClusterId slot) {
  Slot& s = slots_.at(slot);
  if (!s.has_paths()) return;
  refuse_all(s, fmt::format("the cluster at {} was lost", to_string(s.peer.addresses)));
  drain(s);
}

// CN-15
void Machines::in_use(Instant now, ClusterId slot, std::uint32_t connections) {
  Slot& s = slots_.at(slot);
  if (s.state != State::kConnected) return;
  if (connections > 0)
    s.unused_since = now;
  else if (s.called && now - s.unused_since >= kLinger)
    drain(s);
}

void Machines::gone(ClusterId slot) {
  Slot& s = slots_.at(slot);
  CHECK(s.state == State::kDraining);
  slots_.free(s);
}

std::string Machines::timeout_text(const Waiting& w) const {
  if (!w.slot) return "its former connections are still being taken down";
  const Slot& s = slots_.at(*w.slot);
  const std::string why = s.problems.empty() ? "" : " (" + s.problems + ")";
  if (s.state == State::kConnecting)
    return fmt::format("the cluster answers, but no sub-connection comes up{}", why);
  if (s.busy)
    return fmt::format("{} still knows an earlier incarnation of this node: wait for its peer_death_ms",
                       to_string(s.wanted));
  return fmt::format("no answer from {}, UDP port {}{}", to_string(s.wanted), s.introduction_port, why);
}

void Machines::on_timer(Instant now) {
  std::erase_if(waiting_, [&](const Waiting& w) {
    if (now < w.request.deadline) return false;
    refuse(w.request, timeout_text(w));
    return true;
  });
  for (Slot& s : slots_) {
    const bool wanted = is_wanted(s);
    if (s.state == State::kCalling && !wanted)
      slots_.free(s);
    else if (s.state == State::kCalling && s.next_call <= now)
      call(now, s);
    else if (s.state == State::kConnecting && s.until <= now && !wanted)
      drain(s);
  }
  for (Waiting& w : waiting_)
    if (!w.slot) find_slot(now, w);
  drop_answered();
}

std::optional<Machines::Event> Machines::poll_event() {
  return take_first(events_);
}

std::optional<Machines::Datagram> Machines::poll_datagram() {
  return take_first(datagrams_);
}

}  // namespace braid::proxy
