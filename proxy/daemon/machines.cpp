#include "proxy/daemon/machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;

constexpr std::uint32_t kMagic = 0x49647262;  // "brdI"
constexpr std::uint8_t kVersion = 1;
constexpr Duration kCallRetry = 50_ms;
// For one sub-connection more when another is up already; a handshake takes some milliseconds.
constexpr Duration kPatienceWithPaths = 300_ms;
// For the first one, at the callee: that is how long a Call can keep a slot from others.
constexpr Duration kPatienceWithCaller = 1_s;
// A client that connects again at once need not wait.
constexpr Duration kLinger = 500_ms;
// Datagrams that wait for the proxy; one more is dropped.
constexpr std::size_t kMaxDatagrams = 64;

std::string list(const std::vector<Ipv4Address>& addresses) {
  std::string text;
  for (const Ipv4Address a : addresses) text += (text.empty() ? "" : ", ") + a.to_string();
  return text;
}

bool contains(const std::vector<Ipv4Address>& all, Ipv4Address one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool intersect(const std::vector<Ipv4Address>& a, const std::vector<Ipv4Address>& b) {
  return std::any_of(a.begin(), a.end(), [&](Ipv4Address x) { return contains(b, x); });
}

// Says which of the addresses is not one of the cluster's; empty if all are.
std::string foreign_address(const std::vector<Ipv4Address>& addresses,
                            const std::vector<Ipv4Address>& clusters) {
  for (const Ipv4Address a : addresses)
    if (!contains(clusters, a))
      return fmt::format("{} is not an address of the cluster at {}", a.to_string(), list(clusters));
  return {};
}

// The first thing that is not alike, with the cure.
std::string difference(const Introduction::Link& ours, const Introduction::Link& theirs) {
  if (ours.mtu_bytes != theirs.mtu_bytes)
    return fmt::format("transport.mtu_bytes is {} there and {} here: set both alike", theirs.mtu_bytes,
                       ours.mtu_bytes);
  if (ours.window_packets != theirs.window_packets)
    return fmt::format("transport.window_packets is {} there and {} here: set both alike",
                       theirs.window_packets, ours.window_packets);
  if (ours.fragmentation != theirs.fragmentation)
    return "transport.fragmentation is another there: set both alike";
  return "transport.all_pairs is another there: set both alike";
}

}  // namespace

// ---------------------------------------------------------------- the datagram

IntroductionBytes write_introduction(const Introduction& i) {
  CHECK_LE(i.addresses.size(), kMaxNis);
  IntroductionBytes bytes{};
  std::byte* const at = bytes.data();
  store(at, kMagic);
  store(at + 4, kVersion);
  store(at + 5, static_cast<std::uint8_t>(i.kind));
  store(at + 6, static_cast<std::uint8_t>(i.reason));
  store(at + 7, static_cast<std::uint8_t>(i.addresses.size()));
  store(at + 8, i.nonce);
  store(at + 16, i.incarnation);
  store(at + 24, i.cluster.value());
  store(at + 26, i.slot.value());
  store(at + 28, i.proxies);
  store(at + 30, i.udp_port);
  store(at + 32, i.link.mtu_bytes);
  store(at + 36, i.link.window_packets);
  store(at + 38, static_cast<std::uint8_t>(i.link.fragmentation));
  store(at + 39, static_cast<std::uint8_t>(i.link.all_pairs));
  for (std::size_t n = 0; n < i.addresses.size(); ++n) store(at + 40 + 4 * n, i.addresses[n].value());
  return bytes;
}

std::optional<Introduction> parse_introduction(ByteView bytes) {
  if (bytes.size() != kIntroductionBytes) return std::nullopt;
  const std::byte* const at = bytes.data();
  const auto kind = load<std::uint8_t>(at + 5), reason = load<std::uint8_t>(at + 6);
  const auto nis = load<std::uint8_t>(at + 7);
  const auto fragmentation = load<std::uint8_t>(at + 38), all_pairs = load<std::uint8_t>(at + 39);
  if (load<std::uint32_t>(at) != kMagic || load<std::uint8_t>(at + 4) != kVersion || kind < 1 ||
      kind > static_cast<std::uint8_t>(Introduction::Kind::kRefusal) ||
      reason > static_cast<std::uint8_t>(Introduction::Reason::kBusy) || nis < 1 || nis > kMaxNis ||
      fragmentation > static_cast<std::uint8_t>(stack::Fragmentation::kIp) || all_pairs > 1)
    return std::nullopt;
  Introduction i;
  i.kind = static_cast<Introduction::Kind>(kind);
  i.reason = static_cast<Introduction::Reason>(reason);
  i.nonce = load<std::uint64_t>(at + 8);
  i.incarnation = load<std::uint64_t>(at + 16);
  i.cluster = ClusterId(load<std::uint16_t>(at + 24));
  i.slot = ClusterId(load<std::uint16_t>(at + 26));
  i.proxies = load<std::uint16_t>(at + 28);
  i.udp_port = load<std::uint16_t>(at + 30);
  i.link.mtu_bytes = load<std::uint32_t>(at + 32);
  i.link.window_packets = load<std::uint16_t>(at + 36);
  i.link.fragmentation = static_cast<stack::Fragmentation>(fragmentation);
  i.link.all_pairs = all_pairs == 1;
  for (std::size_t n = 0; n < nis; ++n) {
    const Ipv4Address address(load<std::uint32_t>(at + 40 + 4 * n));
    if (!address.is_unicast() || contains(i.addresses, address)) return std::nullopt;
    i.addresses.push_back(address);
  }
  if (i.proxies < 1 || i.proxies > stack::kMaxProxiesPerCluster || i.udp_port < 1 ||
      i.udp_port + i.proxies - 1 > 65535 || i.cluster.value() >= stack::kMaxClusters ||
      i.slot.value() >= stack::kMaxClusters)
    return std::nullopt;
  return i;
}

// ---------------------------------------------------------------- slots

Machines::Machines(const Config& config) : config_(config), prng_(config.seed), slots_(config.slots) {
  config_.self.incarnation = prng_.next() | 1;
}

// The one that is free for the longest time: what is still in flight to its last owner is the oldest.
Machines::Slot* Machines::free_slot() {
  Slot* best = nullptr;
  for (Slot& p : slots_)
    if (p.state == State::kFree && (best == nullptr || p.freed < best->freed)) best = &p;
  return best;
}

// Nothing of its last owner is kept.
void Machines::free(Slot& slot) {
  slot = Slot{};
  slot.freed = ++freed_;
}

Machines::Slot* Machines::calling(std::uint64_t nonce, Ipv4Address whom) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& p) {
    return p.state == State::kCalling && p.nonce == nonce && contains(p.wanted, whom);
  });
  return found == slots_.end() ? nullptr : &*found;
}

Machines::Slot* Machines::slot_of(const std::vector<Ipv4Address>& addresses) {
  for (Slot& p : slots_) {
    if (p.state == State::kFree) continue;
    if (intersect(p.state == State::kCalling ? p.wanted : p.peer.addresses, addresses)) return &p;
  }
  return nullptr;
}

std::vector<ClusterId> Machines::occupied() const {
  std::vector<ClusterId> all;
  for (const Slot& p : slots_)
    if (p.state == State::kMeeting || p.state == State::kMet) all.push_back(id(p));
  return all;
}

std::string Machines::name(ClusterId slot) const {
  const Slot& p = slots_[slot.value() - config_.first_slot.value()];
  return list(p.state == State::kCalling ? p.wanted : p.peer.addresses);
}

// ---------------------------------------------------------------- wishes

// CN-12
void Machines::connect(Instant now, Request request) {
  if (!config_.may_connect) {
    refuse(request,
           "this node does not connect to other machines: set machines.connect in its configuration");
    return;
  }
  if (waiting_.size() >= kMaxRequests) {
    refuse(request, fmt::format("{} connects to other machines wait already: try again", kMaxRequests));
    return;
  }
  for (const Ipv4Address a : request.addresses) {
    if (contains(config_.self.addresses, a)) {
      refuse(request, fmt::format("{} is this node's own address", a.to_string()));
      return;
    }
    if (!stack::link_to(config_.links, a)) {
      refuse(request, fmt::format("{} is on no link of this node, and none has a gateway", a.to_string()));
      return;
    }
  }
  waiting_.push_back({std::move(request), std::nullopt});
  find_slot(now, waiting_.back());
  drop_served();
}

// Leaves the request without addresses if it is done with.
void Machines::find_slot(Instant now, Waiting& w) {
  if (Slot* const p = slot_of(w.request.addresses)) {
    if (p->state == State::kParting) return;  // on_timer() looks again
    if (p->state != State::kCalling) {
      if (const std::string problem = foreign_address(w.request.addresses, p->peer.addresses);
          !problem.empty()) {
        refuse(w.request, problem);
        w.request.addresses.clear();
        return;
      }
    }
    w.slot = p - slots_.data();
    if (p->state == State::kMet) connect_waiting(*p);
    return;
  }
  Slot* const p = free_slot();
  if (p == nullptr) {
    refuse(w.request,
           fmt::format("this node knows {} clusters of other machines already (machines.slots): close "
                       "connections with one",
                       config_.slots));
    w.request.addresses.clear();
    return;
  }
  p->state = State::kCalling;
  p->called = true;
  p->nonce = prng_.next();
  p->wanted = w.request.addresses;
  p->introduction_port = w.request.introduction_port;
  w.slot = p - slots_.data();
  call(now, *p);
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
    if (!w.slot || &slots_[*w.slot] != &slot) return false;
    refuse(w.request, text);
    return true;
  });
}

void Machines::client_gone(std::uint32_t client) {
  std::erase_if(waiting_, [&](const Waiting& w) { return w.request.client == client; });
}

void Machines::connect_waiting(Slot& slot) {
  for (Waiting& w : waiting_) {
    if (!w.slot || &slots_[*w.slot] != &slot) continue;
    Event event;
    event.kind = Event::Kind::kConnect;
    event.slot = id(slot);
    event.request = std::exchange(w.request, Request{});
    events_.push_back(std::move(event));
  }
}

void Machines::drop_served() {
  std::erase_if(waiting_, [](const Waiting& w) { return w.request.addresses.empty(); });
}

// ---------------------------------------------------------------- introductions

void Machines::say(const stack::Endpoint& to, Introduction i) {
  if (datagrams_.size() >= kMaxDatagrams) return;
  i.incarnation = config_.self.incarnation;
  i.cluster = config_.self.cluster;
  i.udp_port = config_.self.udp_port;
  i.link = config_.self.link;
  i.addresses = config_.self.addresses;
  if (i.proxies == 0) i.proxies = config_.self.proxies;
  datagrams_.push_back({to, write_introduction(i)});
}

void Machines::call(Instant now, Slot& p) {
  Introduction i;
  i.kind = Introduction::Kind::kCall;
  i.nonce = p.nonce;
  i.slot = id(p);
  say({p.wanted[p.next_address], p.introduction_port}, i);
  p.next_address = (p.next_address + 1) % p.wanted.size();
  p.next_call = now + kCallRetry;
}

void Machines::on_datagram(Instant now, const stack::Endpoint& from, ByteView bytes) {
  const std::optional<Introduction> i = parse_introduction(bytes);
  if (!i) return;
  switch (i->kind) {
    case Introduction::Kind::kCall:
      on_call(now, from, *i);
      return;
    case Introduction::Kind::kAnswer:
      on_answer(now, from, *i);
      return;
    case Introduction::Kind::kRefusal:
      on_refusal(from, *i);
      return;
  }
}

// CN-13
void Machines::on_call(Instant now, const stack::Endpoint& from, const Introduction& caller) {
  if (!contains(caller.addresses, from.address) || caller.incarnation == config_.self.incarnation) return;
  Introduction reply;
  reply.kind = Introduction::Kind::kRefusal;
  reply.nonce = caller.nonce;
  Slot* p = nullptr;
  if (!config_.may_accept) {
    reply.reason = Introduction::Reason::kNotAllowed;
  } else if (caller.link != config_.self.link) {
    reply.reason = Introduction::Reason::kDifferent;
  } else if (caller.proxies > config_.max_proxies) {
    reply.reason = Introduction::Reason::kTooManyProxies;
    reply.proxies = config_.max_proxies;
  } else if (std::any_of(caller.addresses.begin(), caller.addresses.end(), [&](Ipv4Address a) {
               return contains(config_.self.addresses, a) || !stack::link_to(config_.links, a);
             })) {
    reply.reason = Introduction::Reason::kNoWay;
  } else if (p = slot_of(caller.addresses); p == nullptr) {
    p = free_slot();
    if (p == nullptr)
      reply.reason = Introduction::Reason::kNoPlace;
    else
      meet(now, *p, caller, caller.addresses);
  } else if (p->state == State::kCalling) {
    meet(now, *p, caller, caller.addresses);  // each has called the other
  } else if (p->state == State::kParting || p->peer.incarnation != caller.incarnation ||
             p->peer.slot != caller.slot) {
    // It gave up its last call, or did so in an earlier life. Only the sub-connections, if they were ever up,
    // can say that nobody is there any more.
    if (p->state == State::kMeeting && p->peer.incarnation == caller.incarnation) part(*p);
    reply.reason = Introduction::Reason::kBusy;
  }
  if (reply.reason == Introduction::Reason::kNone) {
    reply.kind = Introduction::Kind::kAnswer;
    reply.slot = id(*p);
  }
  say(from, reply);
}

// CN-14
void Machines::on_answer(Instant now, const stack::Endpoint& from, const Introduction& callee) {
  Slot* const found = calling(callee.nonce, from.address);
  if (found == nullptr) return;
  Slot& p = *found;
  std::string problem;
  if (callee.incarnation == config_.self.incarnation)
    problem = fmt::format("{} is this node itself", from.address.to_string());
  else if (callee.link != config_.self.link)
    problem = difference(config_.self.link, callee.link);
  else if (callee.proxies > config_.max_proxies)
    problem = fmt::format("the cluster there has {} proxies and machines.max_proxies is {} here",
                          callee.proxies, config_.max_proxies);
  else
    problem = foreign_address(p.wanted, callee.addresses);
  if (!problem.empty()) {
    refuse_all(p, problem);
    free(p);
    return;
  }
  meet(now, p, callee, p.wanted);
}

void Machines::on_refusal(const stack::Endpoint& from, const Introduction& r) {
  Slot* const found = calling(r.nonce, from.address);
  if (found == nullptr) return;
  std::string why;
  switch (r.reason) {
    case Introduction::Reason::kBusy:
      found->busy = true;
      return;
    case Introduction::Reason::kNone:
      return;
    case Introduction::Reason::kNotAllowed:
      why = "does not let other machines in: set machines.accept in its configuration";
      break;
    case Introduction::Reason::kDifferent:
      why = "has another configuration: " + difference(config_.self.link, r.link);
      break;
    case Introduction::Reason::kTooManyProxies:
      why = fmt::format("takes clusters of at most {} proxies (machines.max_proxies), and this has {}",
                        r.proxies, config_.self.proxies);
      break;
    case Introduction::Reason::kNoPlace:
      why = "knows as many clusters of other machines as it may (machines.slots)";
      break;
    case Introduction::Reason::kNoWay:
      why = fmt::format("cannot reach all of {}: give its link a gateway", list(config_.self.addresses));
      break;
  }
  refuse_all(*found, fmt::format("{} {}", from.address.to_string(), why));
  free(*found);
}

void Machines::on_unreachable(const stack::Endpoint& to, stack::Unreachable reason) {
  for (Slot& p : slots_)
    if (p.state == State::kCalling && p.introduction_port == to.port && contains(p.wanted, to.address))
      p.problems = fmt::format("{}: {}", to.address.to_string(), stack::to_string(reason));
}

void Machines::meet(Instant now, Slot& p, const Introduction& peer, std::vector<Ipv4Address> used) {
  p.state = State::kMeeting;
  p.peer = peer;
  p.since = now;
  p.until = now + kPatienceWithCaller;
  p.problems.clear();
  Event event;
  event.kind = Event::Kind::kMeet;
  event.slot = id(p);
  event.peer = peer;
  event.peer.addresses = std::move(used);
  events_.push_back(std::move(event));
}

// ---------------------------------------------------------------- life

void Machines::on_paths(Instant now, ClusterId slot, unsigned up, unsigned all, const std::string& problems) {
  Slot& p = at(slot);
  CHECK(p.state == State::kMeeting);
  p.problems = problems;
  if (up < all && (up == 0 || now - p.since < kPatienceWithPaths)) return;
  p.state = State::kMet;
  p.unused_since = now;
  connect_waiting(p);
  drop_served();
}

void Machines::part(Slot& p) {
  p.state = State::kParting;
  Event event;
  event.kind = Event::Kind::kPart;
  event.slot = id(p);
  events_.push_back(std::move(event));
}

void Machines::lost(ClusterId slot) {
  Slot& p = at(slot);
  if (p.state != State::kMeeting && p.state != State::kMet) return;
  refuse_all(p, fmt::format("the cluster at {} was lost", list(p.peer.addresses)));
  part(p);
}

// CN-15
void Machines::in_use(Instant now, ClusterId slot, std::uint32_t connections) {
  Slot& p = at(slot);
  if (p.state != State::kMet) return;
  if (connections > 0)
    p.unused_since = now;
  else if (p.called && now - p.unused_since >= kLinger)
    part(p);
}

void Machines::gone(ClusterId slot) {
  Slot& p = at(slot);
  CHECK(p.state == State::kParting);
  free(p);
}

std::string Machines::timeout_text(const Waiting& w) const {
  if (!w.slot) return "its former connections are still being taken down";
  const Slot& p = slots_[*w.slot];
  const std::string why = p.problems.empty() ? "" : " (" + p.problems + ")";
  if (p.state == State::kMeeting)
    return fmt::format("the cluster answers, but no sub-connection comes up{}", why);
  if (p.busy)
    return fmt::format("{} still knows an earlier life of this node: wait for its peer_death_ms",
                       list(p.wanted));
  return fmt::format("no answer from {}, UDP port {}{}", list(p.wanted), p.introduction_port, why);
}

void Machines::on_timer(Instant now) {
  std::erase_if(waiting_, [&](const Waiting& w) {
    if (now < w.request.deadline) return false;
    refuse(w.request, timeout_text(w));
    return true;
  });
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& p = slots_[i];
    const bool wanted =
        std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.slot == i; });
    if (p.state == State::kCalling && !wanted) {
      free(p);
    } else if (p.state == State::kCalling && p.next_call <= now) {
      call(now, p);
    } else if (p.state == State::kMeeting && p.until <= now && !wanted) {
      part(p);
    }
  }
  for (Waiting& w : waiting_)
    if (!w.slot) find_slot(now, w);
  drop_served();
}

std::optional<Machines::Event> Machines::poll_event() {
  return take_first(events_);
}

std::optional<Machines::Datagram> Machines::poll_datagram() {
  return take_first(datagrams_);
}

}  // namespace braid::proxy
