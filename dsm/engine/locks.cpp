#include "dsm/engine/locks.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kFirstSlots = 64;

// Of two clusters; with more of them each has fewer, because the stays of all others come before a cluster's turn.
constexpr int kRoundsOfTwo = 4;

// Every member of a set is a recall in the outbox.
std::size_t most_large_sets(const EngineConfig& c) {
  const std::size_t recalls = c.clusters * Outbox::max_recalls(c);
  return c.locks / c.clusters + 1 + recalls / (ClusterSet::kInline + 1);
}

}  // namespace

Locks::Locks(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages, LockWords& words,
             const ObjectAddresses& addresses)
    : config_(config),
      self_(config.cluster),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      words_(words),
      addresses_(addresses),
      local_(config.locks),
      chains_(config.locks, initial_chain()),
      // What the explorer copies is allocated here.
      at_addresses_(config.addresses == 0 ? 0 : kFirstSlots),
      chains_at_addresses_(config.addresses == 0 ? 0 : kFirstSlots),
      sets_(config.clusters, most_large_sets(config)),
      promised_(config.clusters),
      unanswered_(config.clusters) {
  CHECK_LT(std::max(config.lease_uses, config.local_handoffs), LockWords::kUnbounded);
  for (std::uint32_t i = 0; i < config.locks; ++i) local_[i] = initial(LockId(i));
}

// --- LK-12: open locks. An open lock is in the same state as if its node's calls had come here.

Locks::Local Locks::with_word(Local l, const LockWords::OpenLock& word) const {
  l.holder = word.holder;
  if (word.freed) l.unused = false;
  if (l.next != kNobody) l.uses = most_uses(l) - word.uses_left;
  return l;
}

Locks::Local Locks::now(LockId lock) const {
  const Local* const l = find(lock);
  if (l == nullptr) return initial(lock);
  const auto word = words_.look(lock);
  return word ? with_word(*l, *word) : *l;
}

void Locks::close(LockId lock) {
  const auto word = words_.close(lock);
  if (!word) return;
  Local& l = local(lock);
  l = with_word(l, *word);
}

// In a lease its uses are bounded, so the word counts them; without one the token has not been recalled.
bool Locks::may_open(const Local& l) const {
  return l.token == Token::kHere && l.first == kNobody && (l.next == kNobody || l.lease == Lease::kRunning) &&
         !config_.release_at_unlock;
}

void Locks::open(LockId lock, const Local& l) {
  if (!words_.any() || !may_open(l)) return;
  if (const std::optional<LockId> other = words_.in_place_of(lock)) close(*other);
  words_.open(lock, {.holder = l.holder,
                     .uses_left = l.next == kNobody ? LockWords::kUnbounded : most_uses(l) - l.uses});
}

// LK-11
Locks::Local& Locks::local(LockId lock) {
  if (lock.value() < numbered()) return local_[lock.value()];
  Local* const l = at_addresses_.find(lock.value());
  return l != nullptr ? *l : at_addresses_.add(lock.value(), initial(lock));
}

Locks::Chain& Locks::chain(LockId lock) {
  if (lock.value() < numbered()) return chains_[lock.value()];
  Chain* const c = chains_at_addresses_.find(lock.value());
  return c != nullptr ? *c : chains_at_addresses_.add(lock.value(), initial_chain());
}

void Locks::tidy(LockId lock) {
  if (lock.value() < numbered()) return;
  const Local* const l = at_addresses_.find(lock.value());
  if (l != nullptr && *l == initial(lock)) at_addresses_.remove(lock.value());
}

void Locks::tidy_chain(LockId lock) {
  if (lock.value() < numbered()) return;
  const Chain* const c = chains_at_addresses_.find(lock.value());
  if (c != nullptr && *c == initial_chain()) chains_at_addresses_.remove(lock.value());
}

bool Locks::here(LockId lock) const {
  const Local* const l = find(lock);
  return (l != nullptr ? *l : initial(lock)).token == Token::kHere;
}

bool Locks::lock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  close(lock);
  Local& l = local(lock);
  CHECK_NE(l.holder, node);                              // not recursive
  if (l.token == Token::kHere && l.holder == kNobody) {  // LK-2
    give_to(l, node);
    if (l.next != kNobody) ++l.uses;  // in a lease
    open(lock, l);
    return true;
  }
  nodes_[node].trying = false;
  enqueue(l, node, lock);
  if (l.token == Token::kElsewhere) ask(lock, false);
  return false;
}

// LK-10
bool Locks::try_lock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  close(lock);
  Local& l = local(lock);
  ComputeNode& n = nodes_[node];
  n.result = 0;
  if (l.token == Token::kHere) {
    if (l.holder != kNobody) {
      open(lock, l);
      return true;
    }
    n.result = 1;
    return this->lock(node, lock);
  }
  if (l.token == Token::kElsewhere) {
    if (idle_ >= Outbox::kMaxIdleRequests) {
      tidy(lock);
      return true;
    }
    enqueue(l, node, lock);
    n.trying = true;
    ask(lock, true);
    return false;
  }
  // An answer is on its way if nodes wait for it, and it is right for this one too if none waits for the lock.
  if (l.first == kNobody) return true;
  for (std::uint16_t other = l.first; other != kNobody; other = nodes_[other].next)
    if (!nodes_[other].trying) return true;
  enqueue(l, node, lock);
  n.trying = true;
  return false;
}

void Locks::enqueue(Local& l, std::uint16_t node, LockId lock) {
  ComputeNode& n = nodes_[node];
  n.wait = Wait::kLock;
  n.sync = lock.value();
  n.next = kNobody;
  idle_ -= l.is_idle();
  (l.first == kNobody ? l.first : nodes_[l.last].next) = node;
  l.last = node;
}

void Locks::unlock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  close(lock);
  Local& l = local(lock);
  CHECK_EQ(l.holder, node);
  l.holder = kNobody;
  l.unused = false;
  if (l.next == kNobody) {
    if (l.first != kNobody) pass_on(l);  // LK-2
    open(lock, l);
    return;
  }
  if (l.first == kNobody && takes_lease(l)) begin_round(lock);
  const bool used_up = l.uses >= most_uses(l) && !mutant(Mutant::kTokenStarves);
  if (used_up || (l.first == kNobody && l.lease != Lease::kRunning)) return give_up(lock);
  if (l.first != kNobody) {
    ++l.uses;
    pass_on(l);
  }  // otherwise it is free, for the lease
  open(lock, l);
}

// LK-14
void Locks::release_and_unlock(std::uint16_t node, LockId lock) {
  CHECK(held_by(lock, node));
  nodes_[node].wait = Wait::kRelease;
  nodes_[node].sync = lock.value();
  pages_.begin_release({.what = ReleaseFor::What::kUnlock, .id = node});
}

void Locks::released_for_unlock(std::uint16_t node) {
  CHECK(nodes_[node].wait == Wait::kRelease);
  nodes_[node].wait = Wait::kNothing;
  unlock(node, LockId(nodes_[node].sync));
}

// LK-5
std::uint32_t Locks::most_uses(const Local& l) const {
  return l.lease == Lease::kRunning ? std::max(config_.lease_uses, config_.local_handoffs)
                                    : config_.local_handoffs;
}

void Locks::give_to(Local& l, std::uint16_t node) {
  l.holder = node;
  if (timed()) l.user = node;
}

// LK-2: the node that has waited longest.
void Locks::pass_on(Local& l) {
  const std::uint16_t node = l.first;
  l.first = nodes_[node].next;
  if (l.first == kNobody) l.last = kNobody;
  give_to(l, node);
  nodes_[node].wait = Wait::kNothing;
  if (!nodes_[node].trying) return;
  nodes_[node].trying = false;
  nodes_[node].result = 1;
}

// LK-10: nodes that try it go on without the lock.
void Locks::answer_tries(Local& l) {
  std::uint16_t node = std::exchange(l.first, kNobody);
  l.last = kNobody;
  while (node != kNobody) {
    ComputeNode& n = nodes_[node];
    const std::uint16_t next = n.next;
    if (n.trying) {
      n.trying = false;
      n.wait = Wait::kNothing;
    } else {
      n.next = kNobody;
      (l.first == kNobody ? l.first : nodes_[l.last].next) = node;
      l.last = node;
    }
    node = next;
  }
  idle_ += l.is_idle();
}

void Locks::move(Local& l, Token to) {
  const auto moving = [](Token t) {
    return t == Token::kWanted || t == Token::kAsked || t == Token::kLeaving;
  };
  moving_ += moving(to);
  moving_ -= moving(l.token);
  l.token = to;
}

void Locks::ask(LockId lock, bool tries) {
  Local& l = local(lock);
  move(l, Token::kWanted);
  l.missed = std::find(last_given_.begin(), last_given_.end(), lock.value() + 1) != last_given_.end();
  outbox_.push(manager(lock), {.kind = Kind::kLockRequest, .format = tries, .id = lock.value()});
}

// LK-8
bool Locks::takes_lease(Local& l) {
  if (l.lease != Lease::kUnused || config_.lease_uses == 0) return false;
  l.lease = Lease::kOver;
  if (l.skips != 0) {
    --l.skips;
    return false;
  }
  return may_probe(l);
}

// LK-8: the nodes kept locking.
bool Locks::takes_round(const Local& l, LockId lock) const {
  const bool more = l.rounds < usual_rounds() || (has_time(l) && l.rounds < most_rounds(l)) ||
                    mutant(Mutant::kEndlessLease);
  const bool useful = l.uses - l.round_began >= kUsefulLease || (l.missed && user_will_go_on(l, lock));
  return l.lease == Lease::kRunning && more && useful && may_probe(l);
}

// LK-15
bool Locks::has_time(const Local& l) const {
  return l.missed && time_ - l.came < config_.lease_time;
}

bool Locks::user_waits_for_another_lock(const Local& l, LockId lock) const {
  return l.user != kNobody && nodes_[l.user].wait == Wait::kLock && nodes_[l.user].sync != lock.value();
}

// The last one that had the lock waits for something that is on its way: it has not turned away from what the lock guards.
bool Locks::user_will_go_on(const Local& l, LockId lock) const {
  if (l.user == kNobody) return false;
  const Wait wait = nodes_[l.user].wait;
  return wait == Wait::kFetch || wait == Wait::kTwin || user_waits_for_another_lock(l, lock);
}

bool Locks::may_probe(const Local& l) const {
  return l.probed != kNobody || unanswered_[l.next] < config_.compute_nodes;
}

std::uint8_t Locks::usual_rounds() const {
  if (config_.lease_rounds != 0) return config_.lease_rounds;
  return static_cast<std::uint8_t>(std::max(1, kRoundsOfTwo / std::max(1, config_.clusters - 1)));
}

std::uint8_t Locks::most_rounds(const Local& l) const {
  return l.missed && config_.lease_rounds == 0 ? std::numeric_limits<std::uint8_t>::max() : usual_rounds();
}

// LK-8: the reply to an earlier probe, of an earlier stay, will do.
void Locks::begin_round(LockId lock) {
  Local& l = local(lock);
  l.lease = Lease::kRunning;
  ++l.rounds;
  l.round_began = l.uses;
  if (l.probed != kNobody) return;
  l.probed = l.next;
  ++unanswered_[l.next];
  ++probes_;
  outbox_.push(ClusterId(l.next), {.kind = Kind::kLockProbe, .id = lock.value()});
}

void Locks::end_lease(Local& l) {
  l.lease = Lease::kOver;
  const bool used = l.rounds > 1 || l.uses - l.round_began >= kUsefulLease;
  l.rounds = 0;
  l.round_began = 0;
  const int most = l.missed ? kMaxSkippedLeasesOfMissed : kMaxSkippedLeases;
  l.skips = l.skipped_last =
      used ? std::uint8_t{0} : static_cast<std::uint8_t>(std::min(2 * l.skipped_last + 1, most));
}

// LK-3: writes under the lock, and before it, become visible first. There are none under a lock that no node has had.
void Locks::give_up(LockId lock) {
  Local& l = local(lock);
  if (l.lease == Lease::kRunning) end_lease(l);
  move(l, Token::kLeaving);
  if (l.unused || mutant(Mutant::kTokenLeavesEarly)) return released(lock);
  pages_.begin_release({.what = ReleaseFor::What::kLock, .id = lock.value()});
}

// LK-9: past the manager.
void Locks::released(LockId lock) {
  Local& l = local(lock);
  CHECK(l.token == Token::kLeaving);
  const ClusterId next(l.next);
  move(l, mutant(Mutant::kTokenStaysToo) ? Token::kHere : Token::kElsewhere);
  l.next = kNobody;
  l.lease = Lease::kUnused;
  l.unused = true;
  l.missed = false;
  l.user = kNobody;
  l.came = {};
  l.uses = 0;
  if (timed()) {
    last_given_[given_] = lock.value() + 1;
    given_ = (given_ + 1) % kLastGiven;
  }
  if (!mutant(Mutant::kLoseGrant) || next == manager(lock))
    outbox_.push(next, {.kind = Kind::kLockGrant, .id = lock.value()});
  if (l.first != kNobody) ask(lock, false);  // LK-6
  tidy(lock);
}

void Locks::sent(ClusterId to, const Header& header) {
  const LockId lock(header.id);
  if (header.kind == Kind::kLockRequest) move(local(lock), Token::kAsked);
  if (header.kind == Kind::kLockRecall) {
    sets_.remove(chain(lock).recalls, to);
    tidy_chain(lock);
  }
  if (header.kind == Kind::kLockGrant) {
    CHECK_GT(promised_[to.value()], 0u);
    --promised_[to.value()];
  }
}

bool Locks::on_grant(ClusterId from, LockId lock) {
  if (!known(lock) || from == self_ || find(lock) == nullptr) return false;
  Local& l = local(lock);
  if (l.token != Token::kAsked) return false;
  idle_ -= l.is_idle();
  move(l, Token::kHere);
  if (l.missed) l.came = time_;
  if (l.first != kNobody) {
    pass_on(l);
    answer_tries(l);
    open(lock, l);
  } else if (l.next != kNobody) {  // LK-10: only tries have asked for it, and it is wanted elsewhere
    if (takes_lease(l)) {
      begin_round(lock);
      open(lock, l);
    } else {
      give_up(lock);
    }
  } else {
    tidy(lock);
  }
  return true;
}

bool Locks::on_recall(ClusterId from, LockId lock, std::uint32_t next, bool tries) {
  if (!known(lock) || from != manager(lock)) return false;
  if (next >= config_.clusters || next == self_.value()) return false;
  close(lock);
  const ClusterId to(static_cast<std::uint16_t>(next));
  const Local* const found = find(lock);
  const Local before = found != nullptr ? *found : initial(lock);
  if (before.next != kNobody || (before.token != Token::kAsked && before.token != Token::kHere)) return false;
  // A cluster has no more requests in progress, and each of them has one predecessor.
  if (promised_[next] >= Outbox::max_tokens(config_)) return false;
  const bool busy = tries && !(before.token == Token::kHere && before.holder == kNobody);
  if (busy && outbox_.pending(to, Kind::kLockBusy) >= config_.compute_nodes) return false;
  Local& l = local(lock);
  if (l.token == Token::kAsked && mutant(Mutant::kForgetEarlyRecall)) return true;
  if (busy && !mutant(Mutant::kTryWaits))  // LK-10
    outbox_.push(to, {.kind = Kind::kLockBusy, .id = lock.value()});
  ++promised_[next];
  l.next = to.value();  // LK-4: whether or not the token is here yet
  if (l.token != Token::kHere) return true;
  const bool kept = has_time(l) && !user_waits_for_another_lock(l, lock);  // LK-15
  if (!l.unused && !kept) l.lease = Lease::kOver;  // LK-8: it has been here for a while
  if (l.holder != kNobody) return true;
  if (!kept || !takes_lease(l)) {
    give_up(lock);
    return true;
  }
  begin_round(lock);
  open(lock, l);
  return true;
}

// It may have been overtaken by the token, and may then end a later try, which is as good as lost.
bool Locks::on_busy(ClusterId from, LockId lock) {
  if (!known(lock) || from == self_) return false;
  const Local* const found = find(lock);
  if (found != nullptr && found->is_requested() && found->first != kNobody) answer_tries(local(lock));
  return true;
}

bool Locks::on_probe(ClusterId from, LockId lock) {
  if (!known(lock) || from == self_) return false;
  if (outbox_.pending(from, Kind::kLockProbeReply) >= config_.compute_nodes) return false;
  outbox_.push(from, {.kind = Kind::kLockProbeReply, .id = lock.value()});
  return true;
}

bool Locks::on_probe_reply(ClusterId from, LockId lock) {
  if (!known(lock) || find(lock) == nullptr) return false;
  close(lock);
  Local& l = local(lock);
  if (l.probed != from.value()) return false;
  l.probed = kNobody;
  --unanswered_[from.value()];
  --probes_;
  if (l.lease != Lease::kRunning) {  // the token has left, or a later stay has no lease
    tidy(lock);
    return true;
  }
  if (takes_round(l, lock)) {
    begin_round(lock);
    open(lock, l);
    return true;
  }
  end_lease(l);
  if (l.holder == kNobody) give_up(lock);
  return true;
}

// --- The manager. LK-1: it hears of each request, and of nothing else. The end of the chain has no next cluster yet.

bool Locks::on_request(ClusterId from, LockId lock, bool tries) {
  if (!known(lock) || manager(lock) != self_) return false;
  Chain& c = chain(lock);
  const ClusterId end(c.last);
  // LK-7: a cluster that has been recalled may request the token again.
  bool valid = end != from && !sets_.contains(c.recalls, from);
  // It cannot have so many requests in progress: see on_recall().
  if (end == self_ && promised_[from.value()] >= Outbox::max_tokens(config_)) valid = false;
  if (lock.value() >= numbered() && outbox_.pending(end, Kind::kLockRecall) >= Outbox::max_recalls(config_))
    valid = false;
  if (valid) {
    sets_.add(c.recalls, end);
    outbox_.push(end,
                 {.kind = Kind::kLockRecall, .format = tries, .id = lock.value(), .number = from.value()});
    c.last = from.value();
  }
  tidy_chain(lock);
  return valid;
}

void Locks::describe_local(StateSink& sink, const Local& l) const {
  sink.values(l.token, l.lease, l.unused, l.missed, l.skips, l.skipped_last, l.rounds, l.next, l.probed,
              l.holder, l.user, has_time(l), l.uses, l.round_began);
  for (std::uint16_t n = l.first; n != kNobody; n = nodes_[n].next) sink.values(n, nodes_[n].trying);
  sink.value(kNobody);
}

void Locks::describe_chain(StateSink& sink, const Chain& c) const {
  sink.values(c.last, sets_.size(c.recalls));
  sets_.for_each(c.recalls, [&](ClusterId cluster) { sink.value(cluster.value()); });
}

void Locks::describe(StateSink& sink) const {
  for (std::size_t i = 0; timed() && i < kLastGiven; ++i) sink.value(last_given_[(given_ + i) % kLastGiven]);
  for (std::uint32_t i = 0; i < numbered(); ++i) {
    describe_local(sink, now(LockId(i)));
    describe_chain(sink, chains_[i]);
  }
  for (const std::uint32_t id : at_addresses_.numbers()) {
    sink.value(id);
    describe_local(sink, now(LockId(id)));
  }
  for (const std::uint32_t id : chains_at_addresses_.numbers()) {
    const Chain& c = *chains_at_addresses_.find(id);
    sink.value(id);
    describe_chain(sink, c);
  }
}

std::string Locks::explain(LockId lock) const {
  const Local l = now(lock);
  std::string text = name(lock) + ", ";
  if (l.holder != kNobody)
    return text + fmt::format("which compute node {} has", global_node(config_, l.holder));
  if (l.token == Token::kLeaving) return text + fmt::format("whose token is leaving for cluster {}", l.next);
  if (manager(lock) != self_) return text + fmt::format("whose manager is cluster {}", manager(lock).value());
  const Chain* const c =
      lock.value() < numbered() ? &chains_[lock.value()] : chains_at_addresses_.find(lock.value());
  return text +
         fmt::format("which cluster {} was the last to request", c != nullptr ? c->last : self_.value());
}

std::string Locks::locks_of(std::uint16_t node) const {
  std::string all;
  const auto add = [&](std::uint32_t id) {
    if (!held_by(LockId(id), node)) return;
    if (!all.empty()) all += ", ";
    all += id < numbered() ? std::to_string(id) : name(LockId(id));
  };
  for (std::uint32_t i = 0; i < numbered(); ++i) add(i);
  for (const std::uint32_t id : at_addresses_.numbers()) add(id);
  return all;
}

void Locks::check_local(const Local& l) const {
  CHECK_EQ(l.first == kNobody, l.last == kNobody);
  CHECK(l.holder == kNobody || l.token == Token::kHere);
  CHECK(l.lease != Lease::kRunning || (l.token == Token::kHere && l.next != kNobody && l.probed != kNobody));
  // A free token here is not requested by a node of this cluster, and it is recalled only during a lease.
  if (l.token == Token::kHere && l.holder == kNobody)
    CHECK(l.first == kNobody && (l.next == kNobody || l.lease == Lease::kRunning));
  if (l.token == Token::kElsewhere) CHECK(l.first == kNobody && l.next == kNobody);
  if (l.token == Token::kLeaving) CHECK_NE(l.next, kNobody);
  for (std::uint16_t n = l.first; n != kNobody; n = nodes_[n].next)
    CHECK(!nodes_[n].trying || l.is_requested());
  CHECK_LE(l.uses, std::max(config_.lease_uses, config_.local_handoffs));
  CHECK_LE(l.rounds, most_rounds(l));
  CHECK_EQ(l.rounds != 0, l.lease == Lease::kRunning);
}

void Locks::check() const {
  std::uint32_t moving = 0, probes = 0, idle = 0;
  const auto add = [&](const Local& l) {
    check_local(l);
    moving += l.is_requested() || l.token == Token::kLeaving;
    probes += l.probed != kNobody;
    idle += l.is_idle();
  };
  const auto add_lock = [&](std::uint32_t id) {
    const Local l = now(LockId(id));
    add(l);
    CHECK(!words_.look(LockId(id)) || may_open(l));
    return l;
  };
  for (std::uint32_t i = 0; i < numbered(); ++i) (void)add_lock(i);
  at_addresses_.for_each([&](std::uint32_t id, const Local&) {
    const Local l = add_lock(id);
    CHECK(!(l == initial(LockId(id))) || l.holder != kNobody);
  });
  chains_at_addresses_.for_each([&](std::uint32_t, const Chain& c) { CHECK(!(c == initial_chain())); });
  CHECK_EQ(idle, idle_);
  CHECK_LE(idle, Outbox::kMaxIdleRequests + config_.compute_nodes);
  CHECK_EQ(moving, moving_);
  CHECK_EQ(probes, probes_);
  std::uint32_t unanswered = 0;
  for (const std::uint32_t of_one : unanswered_) unanswered += of_one;
  CHECK_EQ(unanswered, probes_);
}

}  // namespace braid::dsm
