#include "proxy/daemon/relays.h"

#include "base/check.h"
#include "proxy/daemon/proxy_channel.h"

namespace braid::proxy {
namespace {

// The return ring has room for the messages of this generation and of the one before.
constexpr std::uint32_t kMaxLent = 2 * Relay::kMessages - 1;

bool is_before(std::uint32_t generation, std::uint32_t other) {
  return static_cast<std::int32_t>(generation - other) < 0;
}

}  // namespace

Relays::Relays(const ProxyStates& states) : states_(states), slots_(kMaxBorrowed) {
  for (Slot& slot : slots_) free_.push_back(&slot);
}

void Relays::connect(unsigned other, Relay* lend, Relay* borrow) {
  peers_[other].lend = lend;
  peers_[other].borrow = borrow;
  connected_ |= 1u << other;
  peers_[other].lent.reserve(kMaxLent);
}

// ---------------------------------------------------------------- lending

bool Relays::lend(Outgoing& m) {
  for (unsigned p = 0; p < peers_.size(); ++p) {
    Peer& peer = peers_[p];
    if (peer.lend == nullptr || states_[p].fenced.load(std::memory_order_relaxed) ||
        !states_[p].reaches_cluster(m.to) || peer.outstanding == kMaxLent)
      continue;
    RelayedMessage item;
    item.record = m.record;
    item.lengths = m.lengths;
    item.to = m.to;
    item.bytes = m.bytes;
    if (m.channel != nullptr) {
      item.client = m.channel->client;
      item.offset = static_cast<std::uint64_t>(m.data - m.channel->memory);
    } else {
      std::copy_n(m.data, m.bytes, item.own.begin());
    }
    item.lent = &m;
    item.generation = peer.generation;
    item.lender_generation = generation_;
    if (!peer.lend->there.push(item)) continue;
    woken_ |= 1u << p;
    m.loan = Outgoing::Lent{ProxyId(static_cast<std::uint8_t>(p)), peer.generation};
    peer.lent.push_back(&m);
    ++peer.outstanding;
    return true;
  }
  return false;
}

std::optional<Relays::Returned> Relays::take_returned(unsigned from) {
  Peer& peer = peers_[from];
  for (RelayReturn r; peer.lend->back.pop(r);) {
    // It was lent before one of the two was fenced: reclaim() has it, or restart() dropped it.
    if (r.lender_generation != generation_ || r.generation != peer.generation) continue;
    CHECK(r.lent->lent() != nullptr && r.lent->lent()->to.value() == from);
    r.lent->loan = {};
    std::erase(peer.lent, r.lent);
    --peer.outstanding;
    return Returned{r.lent, r.outcome};
  }
  return std::nullopt;
}

bool Relays::any_lent(ClusterId to) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return std::any_of(peer.lent.begin(), peer.lent.end(), [&](const Outgoing* m) { return m->to == to; });
  });
}

// ---------------------------------------------------------------- borrowing

Outgoing* Relays::take_borrowed(unsigned from) {
  Peer& peer = peers_[from];
  while (!free_.empty() && peer.borrow->there.read_available() > 0) {
    const RelayedMessage item = peer.borrow->there.front();
    peer.borrow->there.pop();
    if (Outgoing* const message = accept(from, item)) return message;
  }
  return nullptr;
}

Outgoing* Relays::accept(unsigned from, const RelayedMessage& item) {
  Peer& peer = peers_[from];
  if (item.generation != generation_ || is_before(item.lender_generation, peer.generation)) return nullptr;
  Slot& m = *free_.back();
  free_.pop_back();
  ++peer.borrowed;
  m.record = item.record;
  m.lengths = item.lengths;
  m.to = item.to;
  m.bytes = item.bytes;
  m.loan = Outgoing::Borrowed{ProxyId(static_cast<std::uint8_t>(from)), item.lender_generation, item.lent};
  if (item.client == 0) {
    m.room = item.own;
    m.data = m.room.data();
    return &m;
  }
  const auto memory = std::find_if(memories_.begin(), memories_.end(),
                                   [&](const Memory& x) { return x.client == item.client; });
  if (memory == memories_.end()) {  // it is being attached, or detached
    give_back(m, RelayReturn::Outcome::kNoWay);
    return nullptr;
  }
  m.data = memory->at + item.offset;
  return &m;
}

void Relays::give_back(Outgoing& m, RelayReturn::Outcome outcome) {
  const Outgoing::Borrowed loan = *m.borrowed();
  Peer& peer = peers_[loan.from.value()];
  if (is_before(loan.generation, peer.generation)) {
    --peer.dropped;
  } else {
    --peer.borrowed;
    RelayReturn r;
    r.lent = loan.original;
    r.outcome = outcome;
    r.generation = generation_;
    r.lender_generation = loan.generation;
    CHECK(peer.borrow->back.push(r));  // it has room for all that may be lent
    woken_ |= 1u << loan.from.value();
  }
  m.loan = {};
  free_.push_back(static_cast<Slot*>(&m));
}

// ---------------------------------------------------------------- proxies that were fenced

void Relays::forget(unsigned proxy) {
  Peer& peer = peers_[proxy];
  ++peer.generation;
  peer.dropped += std::exchange(peer.borrowed, 0);
  peer.outstanding = 0;
  peer.forgetting = true;
}

std::vector<Outgoing*> Relays::reclaim(unsigned proxy) {
  Peer& peer = peers_[proxy];
  std::vector<Outgoing*> reclaimed;
  std::erase_if(peer.lent, [&](Outgoing* m) {
    if (m->lent()->generation == peer.generation) return false;
    m->loan = {};
    m->record.maybe_duplicate = true;
    reclaimed.push_back(m);
    return true;
  });
  return reclaimed;
}

void Relays::restart() {
  ++generation_;
  memories_.clear();
  free_.clear();
  for (Slot& slot : slots_) {
    slot.loan = {};
    free_.push_back(&slot);
  }
  for (Peer& peer : peers_) {
    if (peer.lend == nullptr) continue;
    peer.borrow->there.consume_all([](const RelayedMessage&) {});
    peer.lend->back.consume_all([](const RelayReturn&) {});
    peer.lent.clear();
    peer.outstanding = peer.borrowed = peer.dropped = 0;
    peer.forgetting = false;
  }
}

void Relays::set_generations(const ProxyGenerations& generations) {
  for (std::size_t p = 0; p < peers_.size(); ++p) peers_[p].generation = generations[p];
}

}  // namespace braid::proxy
