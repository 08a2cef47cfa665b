#include "stack/neighbours.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::stack {

Neighbours::Neighbours(const NeighboursConfig& config, std::span<const LocalLink> links)
    : config_(config), links_(links.begin(), links.end()) {
  CHECK_GT(config.capacity, 0u);
  CHECK_GT(config.reply_queue, 0u);
  CHECK_GT(config.first_retry.ns(), 0);
  CHECK_LE(config.first_retry.ns(), config.last_retry.ns());
  CHECK_GT(config.refresh_before_end.ns(), 0);
  CHECK_LT(config.refresh_before_end.ns(), config.lifetime.ns());
  CHECK_LE(links.size(), kMaxLinks);
  for (const LocalLink& link : links_) CHECK(link.address.is_unicast());
  entries_.reserve(config.capacity);
  replies_.reserve(config.reply_queue);
  update_deadline();
}

bool Neighbours::add_static(LinkId link, Ipv4Address ip, const MacAddress& mac) {
  CHECK(ip.is_unicast());
  const Key key{index_of(link), ip};
  CHECK_NE(ip.value(), links_[key.link].address.value());
  Entry* entry = find(key);
  if (entry == nullptr) entry = insert(key, Eviction::kAllowed);
  if (entry == nullptr) return false;
  *entry = Entry{.key = key, .mac = mac, .state = NeighbourState::kStatic};
  update_deadline();
  return true;
}

// ARP-1
std::optional<MacAddress> Neighbours::lookup(LinkId link, Ipv4Address ip, Instant now) {
  const Key key{index_of(link), ip};
  if (!ip.is_unicast() || ip == links_[key.link].address) return std::nullopt;
  Entry* entry = find(key);
  if (entry == nullptr) {
    entry = insert(key, Eviction::kAllowed);
    if (entry == nullptr) return std::nullopt;
    start_asking(*entry, NeighbourState::kAsking, now);
    update_deadline();
  }
  if (entry->state == NeighbourState::kStatic) return entry->mac;
  entry->wanted = now;
  if (entry->state == NeighbourState::kAsking) return std::nullopt;
  if (now >= expiry(*entry)) {
    start_asking(*entry, NeighbourState::kAsking, now);
    update_deadline();
    return std::nullopt;
  }
  if (!entry->wanted_since_confirmed) {
    entry->wanted_since_confirmed = true;
    next_deadline_ = earlier(next_deadline_, refresh_time(*entry));
  }
  return entry->mac;
}

NeighbourState Neighbours::state(LinkId link, Ipv4Address ip) const {
  const Key key{index_of(link), ip};
  const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  return at == entries_.end() || at->key != key ? NeighbourState::kAbsent : at->state;
}

ArpArrival Neighbours::on_arp(Instant now, LinkId link, const ArpPacket& packet) {
  const std::size_t index = index_of(link);
  if (is_ours(packet.sender_ip)) {
    // Our own broadcast may come back to us over another link of the same LAN.
    if (is_ours(packet.sender_mac)) return ArpArrival::kNotForUs;
    note_conflict(now, {packet.sender_ip, links_[index].mac, packet.sender_mac, true});
    return ArpArrival::kOurAddress;
  }
  // The address of another of our links is answered there: here it would draw its traffic to this one.
  const bool asks_us =
      packet.operation == ArpOperation::kRequest && packet.target_ip == links_[index].address;
  const ArpArrival arrival = learn(now, index, packet, asks_us);
  if (asks_us) queue_reply(now, index, packet);
  update_deadline();
  return arrival;
}

std::optional<OutgoingArp> Neighbours::poll(Instant now, LinkId link) {
  if (now < next_deadline_) return std::nullopt;
  const std::size_t index = index_of(link);
  advance(now);
  std::optional<OutgoingArp> out = take_announcement(index);
  if (!out) out = take_reply(index);
  if (!out) out = take_request(index);
  update_deadline();
  return out;
}

std::size_t Neighbours::index_of(LinkId link) const {
  const auto at = std::ranges::find(links_, link, &LocalLink::link);
  CHECK(at != links_.end());
  return static_cast<std::size_t>(at - links_.begin());
}

bool Neighbours::is_ours(const MacAddress& mac) const {
  return std::ranges::find(links_, mac, &LocalLink::mac) != links_.end();
}

bool Neighbours::is_ours(Ipv4Address ip) const {
  return std::ranges::find(links_, ip, &LocalLink::address) != links_.end();
}

Neighbours::Entry* Neighbours::find(const Key& key) {
  const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  return at == entries_.end() || at->key != key ? nullptr : &*at;
}

Neighbours::Entry* Neighbours::insert(const Key& key, Eviction eviction) {
  if (entries_.size() == config_.capacity && (eviction == Eviction::kForbidden || !evict_one())) {
    ++stats_.no_room;
    return nullptr;
  }
  const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  return &*entries_.insert(at, Entry{.key = key});
}

bool Neighbours::evict_one() {
  auto victim = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->state == NeighbourState::kStatic) continue;
    if (victim == entries_.end() || at->wanted < victim->wanted) victim = at;
  }
  if (victim == entries_.end()) return false;
  entries_.erase(victim);
  ++stats_.evicted;
  return true;
}

void Neighbours::start_asking(Entry& entry, NeighbourState state, Instant now) {
  entry.state = state;
  entry.retry = config_.first_retry;
  begin_round(entry, now);
}

void Neighbours::begin_round(Entry& entry, Instant now) {
  entry.to_ask = true;
  entry.asked = now;
  entry.next_round = now + entry.retry;
  entry.retry = std::min(entry.retry * 2, config_.last_retry);
}

void Neighbours::confirm(Entry& entry, const MacAddress& mac, Instant now) {
  entry.mac = mac;
  entry.state = NeighbourState::kKnown;
  entry.confirmed = now;
  entry.wanted_since_confirmed = false;
  entry.to_ask = false;
}

void Neighbours::move(Entry& entry, const MacAddress& mac, Instant now) {
  confirm(entry, mac, now);
  entry.held_until = now + config_.hold;
  ++stats_.moved;
}

// ARP-4
ArpArrival Neighbours::contest(Entry& entry, const MacAddress& claimant, Instant now) {
  if (mutant(Mutant::kBelieveAnnouncements)) {
    confirm(entry, claimant, now);
    return ArpArrival::kMoved;
  }
  if (now < entry.held_until) {
    note_conflict(now, {entry.key.ip, entry.mac, claimant, false});
    return ArpArrival::kContested;
  }
  start_asking(entry, NeighbourState::kContested, now);
  entry.claimant = claimant;
  entry.contest_ends = now + config_.contest;
  return ArpArrival::kContested;
}

// ARP-5
void Neighbours::doubt(LinkId link, Ipv4Address ip, Instant now) {
  Entry* const entry = find({index_of(link), ip});
  if (entry == nullptr || now < entry->held_until || mutant(Mutant::kBelieveAnnouncements)) return;
  switch (entry->state) {
    case NeighbourState::kAbsent:
    case NeighbourState::kAsking:
    case NeighbourState::kContested:  // which ends sooner
    case NeighbourState::kStatic:
      return;
    case NeighbourState::kKnown:
    case NeighbourState::kRefreshing:
      start_asking(*entry, NeighbourState::kDoubted, now);
      break;
    case NeighbourState::kDoubted:
      break;
  }
  entry->doubted = now;
  update_deadline();
}

void Neighbours::note_conflict(Instant now, const AddressConflict& conflict) {
  ++stats_.address_conflicts;
  if (now < next_conflict_) return;
  conflict_ = conflict;
  next_conflict_ = now + config_.conflict_interval;
}

std::optional<AddressConflict> Neighbours::take_conflict() {
  return std::exchange(conflict_, std::nullopt);
}

// ARP-3
ArpArrival Neighbours::learn(Instant now, std::size_t link, const ArpPacket& packet, bool asks_us) {
  if (!packet.sender_ip.is_unicast()) return ArpArrival::kNotForUs;  // a probe
  const Key key{link, packet.sender_ip};
  Entry* entry = find(key);
  if (entry == nullptr) {
    // A host that asks for us will be sent to soon. An unsolicited reply is ignored.
    if (!asks_us) return ArpArrival::kNotForUs;
    entry = insert(key, Eviction::kForbidden);
    if (entry == nullptr) return ArpArrival::kTableFull;
  }
  const bool same = entry->mac == packet.sender_mac;
  switch (entry->state) {
    case NeighbourState::kStatic:
      if (same) return ArpArrival::kConfirmed;
      note_conflict(now, {key.ip, entry->mac, packet.sender_mac, false});
      return ArpArrival::kStaticKept;
    case NeighbourState::kAbsent:
    case NeighbourState::kAsking:
      confirm(*entry, packet.sender_mac, now);
      return ArpArrival::kLearned;
    case NeighbourState::kKnown:
    case NeighbourState::kRefreshing:
      if (!same) return contest(*entry, packet.sender_mac, now);
      confirm(*entry, packet.sender_mac, now);
      return ArpArrival::kConfirmed;
    case NeighbourState::kContested:
      if (!same) return ArpArrival::kContested;
      note_conflict(now, {key.ip, entry->mac, entry->claimant, false});
      confirm(*entry, packet.sender_mac, now);
      entry->held_until = now + config_.hold;
      return ArpArrival::kConfirmed;
    case NeighbourState::kDoubted:
      // The known station may answer and be the wrong one, so its answer does not end the doubt.
      if (!same) break;
      entry->confirmed = now;
      return ArpArrival::kConfirmed;
  }
  move(*entry, packet.sender_mac, now);
  return ArpArrival::kMoved;
}

void Neighbours::queue_reply(Instant now, std::size_t link, const ArpPacket& request) {
  if (replies_.size() == config_.reply_queue) {
    ++stats_.replies_dropped;
    return;
  }
  replies_.push_back(Reply{.link = link, .since = now, .mac = request.sender_mac, .ip = request.sender_ip});
}

std::optional<OutgoingArp> Neighbours::take_reply(std::size_t link) {
  const auto at = std::ranges::find(replies_, link, &Reply::link);
  if (at == replies_.end()) return std::nullopt;
  const OutgoingArp out{.destination = at->mac,
                        .packet = {.operation = ArpOperation::kReply,
                                   .sender_mac = links_[link].mac,
                                   .sender_ip = links_[link].address,
                                   .target_mac = at->mac,
                                   .target_ip = at->ip}};
  replies_.erase(at);
  ++stats_.replies_sent;
  return out;
}

std::optional<OutgoingArp> Neighbours::take_announcement(std::size_t link) {
  LocalLink& local = links_[link];
  if (!local.announce) return std::nullopt;
  local.announce = false;
  ++stats_.announcements_sent;
  return OutgoingArp{.destination = MacAddress::broadcast(),
                     .packet = {.operation = ArpOperation::kRequest,
                                .sender_mac = local.mac,
                                .sender_ip = local.address,
                                .target_mac = MacAddress(),
                                .target_ip = local.address}};
}

std::optional<OutgoingArp> Neighbours::take_request(std::size_t link) {
  const auto at =
      std::ranges::find_if(entries_, [&](const Entry& e) { return e.to_ask && e.key.link == link; });
  if (at == entries_.end()) return std::nullopt;
  at->to_ask = false;
  ++stats_.requests_sent;
  const bool everybody = at->state == NeighbourState::kAsking || at->state == NeighbourState::kDoubted;
  return OutgoingArp{.destination = everybody ? MacAddress::broadcast() : at->mac,
                     .packet = {.operation = ArpOperation::kRequest,
                                .sender_mac = links_[link].mac,
                                .sender_ip = links_[link].address,
                                .target_mac = MacAddress(),
                                .target_ip = at->key.ip}};
}

bool Neighbours::advance(Entry& entry, Instant now) {
  switch (entry.state) {
    case NeighbourState::kAbsent:
    case NeighbourState::kStatic:
      return true;
    case NeighbourState::kAsking:
      if (now < entry.next_round) return true;
      if (now - entry.wanted >= config_.forget_after) return false;
      begin_round(entry, now);
      return true;
    case NeighbourState::kContested:
      if (now >= entry.contest_ends)
        move(entry, entry.claimant, now);
      else if (now >= entry.next_round)
        begin_round(entry, now);
      return true;
    case NeighbourState::kDoubted:
      if (now - entry.doubted < config_.hold) break;
      entry.state = NeighbourState::kKnown;
      entry.to_ask = false;
      break;
    case NeighbourState::kKnown:
    case NeighbourState::kRefreshing:
      break;
  }
  if (now >= expiry(entry)) {
    if (!entry.wanted_since_confirmed || now - entry.wanted >= config_.forget_after) return false;
    start_asking(entry, NeighbourState::kAsking, now);
  } else if (entry.state == NeighbourState::kKnown) {
    if (entry.wanted_since_confirmed && now >= refresh_time(entry)) {
      start_asking(entry, NeighbourState::kRefreshing, now);
    }
  } else if (now >= entry.next_round) {
    begin_round(entry, now);
  }
  return true;
}

void Neighbours::advance(Instant now) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    entry = advance(*entry, now) ? entry + 1 : entries_.erase(entry);
  }
}

Instant Neighbours::deadline_of(const Entry& entry) const {
  const Instant ask = entry.to_ask ? entry.asked : entry.next_round;
  switch (entry.state) {
    case NeighbourState::kAbsent:
    case NeighbourState::kStatic:
      break;
    case NeighbourState::kAsking:
      return ask;
    case NeighbourState::kKnown:
      return entry.wanted_since_confirmed ? refresh_time(entry) : expiry(entry);
    case NeighbourState::kRefreshing:
      return earlier(ask, expiry(entry));
    case NeighbourState::kContested:
      return earlier(ask, entry.contest_ends);
    case NeighbourState::kDoubted:
      return earlier(ask, earlier(expiry(entry), entry.doubted + config_.hold));
  }
  return Instant::never();
}

void Neighbours::update_deadline() {
  next_deadline_ = replies_.empty() ? Instant::never() : replies_.front().since;
  if (std::ranges::find(links_, true, &LocalLink::announce) != links_.end()) next_deadline_ = Instant();
  for (const Entry& entry : entries_) next_deadline_ = earlier(next_deadline_, deadline_of(entry));
  check();
}

void Neighbours::check() const {
  CHECK_LE(entries_.size(), config_.capacity);
  CHECK_LE(replies_.size(), config_.reply_queue);
  CHECK(std::ranges::adjacent_find(entries_, std::ranges::greater_equal{}, &Entry::key) == entries_.end());
}

}  // namespace braid::stack
