#include "dsm/engine/locks.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {
namespace {

std::uint64_t bit(ClusterId cluster) {
  return std::uint64_t{1} << cluster.value();
}

}  // namespace

Locks::Locks(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages)
    : config_(config),
      self_(config.cluster),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      local_(config.locks),
      last_(config.locks, self_.value()),
      recalls_(config.locks),
      promised_(config.clusters),
      unanswered_(config.clusters) {
  // LK-1: the first cluster of every chain.
  for (std::uint32_t i = self_.value(); i < config.locks; i += config.clusters)
    local_[i].token = Token::kHere;
}

bool Locks::lock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  Local& l = local_[lock.value()];
  CHECK_NE(l.holder, node);                              // not recursive
  if (l.token == Token::kHere && l.holder == kNobody) {  // LK-2
    l.holder = node;
    if (l.next != kNobody) ++l.uses;  // in a lease
    return true;
  }
  ComputeNode& n = nodes_[node];
  n.wait = Wait::kLock;
  n.sync = lock.value();
  n.next = kNobody;
  (l.first == kNobody ? l.first : nodes_[l.last].next) = node;
  l.last = node;
  if (l.token == Token::kElsewhere) ask(lock);
  return false;
}

void Locks::unlock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  Local& l = local_[lock.value()];
  CHECK_EQ(l.holder, node);
  l.holder = kNobody;
  l.unused = false;
  if (l.next == kNobody) {
    if (l.first != kNobody) pass_on(l);  // LK-2
    return;
  }
  if (l.first == kNobody && takes_lease(l)) begin_lease(lock);
  const bool used_up = l.uses >= most_uses(l) && !mutant(Mutant::kTokenStarves);
  if (used_up || (l.first == kNobody && l.lease != Lease::kRunning)) return give_up(lock);
  if (l.first == kNobody) return;  // free, for the lease
  ++l.uses;
  pass_on(l);
}

// LK-5
std::uint32_t Locks::most_uses(const Local& l) const {
  return l.lease == Lease::kRunning ? std::max(config_.lease_uses, config_.local_handoffs)
                                    : config_.local_handoffs;
}

// LK-2: the node that has waited longest.
void Locks::pass_on(Local& l) {
  const std::uint16_t node = l.first;
  l.first = nodes_[node].next;
  if (l.first == kNobody) l.last = kNobody;
  l.holder = node;
  nodes_[node].wait = Wait::kNothing;
}

void Locks::move(Local& l, Token to) {
  const auto moving = [](Token t) {
    return t == Token::kWanted || t == Token::kAsked || t == Token::kLeaving;
  };
  moving_ += moving(to);
  moving_ -= moving(l.token);
  l.token = to;
}

void Locks::ask(LockId lock) {
  move(local_[lock.value()], Token::kWanted);
  outbox_.push(manager(lock), {.kind = Kind::kLockRequest, .id = lock.value()});
}

// LK-8
bool Locks::takes_lease(Local& l) {
  if (l.lease != Lease::kUnused || config_.lease_uses == 0) return false;
  l.lease = Lease::kOver;
  if (l.skips != 0) {
    --l.skips;
    return false;
  }
  return l.probed != kNobody || unanswered_[l.next] < config_.compute_nodes;
}

// LK-8: the reply to an earlier probe, of an earlier stay, will do.
void Locks::begin_lease(LockId lock) {
  Local& l = local_[lock.value()];
  l.lease = Lease::kRunning;
  l.lease_began = l.uses;
  if (l.probed != kNobody) return;
  l.probed = l.next;
  ++unanswered_[l.next];
  ++probes_;
  outbox_.push(ClusterId(l.next), {.kind = Kind::kLockProbe, .id = lock.value()});
}

void Locks::end_lease(Local& l) {
  l.lease = Lease::kOver;
  const bool used = l.uses - l.lease_began >= kUsefulLease;
  l.lease_began = 0;
  l.skips = l.skipped_last =
      used ? std::uint8_t{0}
           : static_cast<std::uint8_t>(std::min(2 * l.skipped_last + 1, int{kMaxSkippedLeases}));
}

// LK-3: writes under the lock, and before it, become visible first. There are none under a lock that no node has had.
void Locks::give_up(LockId lock) {
  Local& l = local_[lock.value()];
  if (l.lease == Lease::kRunning) end_lease(l);
  move(l, Token::kLeaving);
  if (l.unused || mutant(Mutant::kTokenLeavesEarly)) return released(lock);
  pages_.begin_release({.what = ReleaseFor::What::kLock, .id = lock.value()});
}

// LK-9: past the manager.
void Locks::released(LockId lock) {
  Local& l = local_[lock.value()];
  CHECK(l.token == Token::kLeaving);
  const ClusterId next(l.next);
  move(l, mutant(Mutant::kTokenStaysToo) ? Token::kHere : Token::kElsewhere);
  l.next = kNobody;
  l.lease = Lease::kUnused;
  l.unused = true;
  l.uses = 0;
  if (!mutant(Mutant::kLoseGrant) || next == manager(lock))
    outbox_.push(next, {.kind = Kind::kLockGrant, .id = lock.value()});
  if (l.first != kNobody) ask(lock);  // LK-6
}

void Locks::sent(ClusterId to, const Header& header) {
  if (header.kind == Kind::kLockRequest) move(local_[header.id], Token::kAsked);
  if (header.kind == Kind::kLockRecall) recalls_[header.id] &= ~bit(to);
  if (header.kind == Kind::kLockGrant) {
    CHECK_GT(promised_[to.value()], 0u);
    --promised_[to.value()];
  }
}

bool Locks::on_grant(ClusterId from, LockId lock) {
  if (!known(lock) || from == self_) return false;
  Local& l = local_[lock.value()];
  if (l.token != Token::kAsked) return false;
  move(l, Token::kHere);
  CHECK_NE(l.first, kNobody);  // the requesting node still waits
  pass_on(l);
  return true;
}

bool Locks::on_recall(ClusterId from, LockId lock, std::uint32_t next) {
  if (!known(lock) || from != manager(lock)) return false;
  if (next >= config_.clusters || next == self_.value()) return false;
  Local& l = local_[lock.value()];
  if (l.next != kNobody || (l.token != Token::kAsked && l.token != Token::kHere)) return false;
  // A cluster has no more requests in progress, and each of them has one predecessor.
  if (promised_[next] >= config_.compute_nodes) return false;
  if (l.token == Token::kAsked && mutant(Mutant::kForgetEarlyRecall)) return true;
  ++promised_[next];
  l.next = static_cast<std::uint16_t>(next);  // LK-4: whether or not the token is here yet
  if (l.token != Token::kHere) return true;
  if (!l.unused) l.lease = Lease::kOver;  // LK-8: it has been here for a while
  if (l.holder == kNobody) give_up(lock);
  return true;
}

bool Locks::on_probe(ClusterId from, LockId lock) {
  if (!known(lock) || from == self_) return false;
  if (outbox_.pending(from, Kind::kLockProbeReply) >= config_.compute_nodes) return false;
  outbox_.push(from, {.kind = Kind::kLockProbeReply, .id = lock.value()});
  return true;
}

bool Locks::on_probe_reply(ClusterId from, LockId lock) {
  if (!known(lock)) return false;
  Local& l = local_[lock.value()];
  if (l.probed != from.value()) return false;
  l.probed = kNobody;
  --unanswered_[from.value()];
  --probes_;
  if (l.lease != Lease::kRunning) return true;  // the token has left, or a later stay has no lease
  end_lease(l);
  if (l.holder == kNobody) give_up(lock);
  return true;
}

// --- The manager. LK-1: it hears of each request, and of nothing else. The end of the chain has no next cluster yet.

bool Locks::on_request(ClusterId from, LockId lock) {
  if (!known(lock) || manager(lock) != self_) return false;
  std::uint16_t& last = last_[lock.value()];
  std::uint64_t& recalls = recalls_[lock.value()];
  // LK-7: a cluster that has been recalled may request the token again.
  if (last == from.value() || (recalls & bit(from)) != 0) return false;
  // It cannot have so many requests in progress: see on_recall().
  if (last == self_.value() && promised_[from.value()] >= config_.compute_nodes) return false;
  const ClusterId end(last);
  recalls |= bit(end);
  outbox_.push(end, {.kind = Kind::kLockRecall, .id = lock.value(), .number = from.value()});
  last = from.value();
  return true;
}

void Locks::describe(StateSink& sink) const {
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const Local& l = local_[i];
    sink.values(l.token, l.lease, l.unused, l.skips, l.skipped_last, l.next, l.probed, l.holder, l.uses,
                l.lease_began);
    for (std::uint16_t n = l.first; n != kNobody; n = nodes_[n].next) sink.value(n);
    sink.value(kNobody);
    sink.values(last_[i], recalls_[i]);
  }
}

std::string Locks::explain(LockId lock) const {
  const Local& l = local_[lock.value()];
  if (l.holder != kNobody) return fmt::format("which compute node {} has", global_node(config_, l.holder));
  if (l.token == Token::kLeaving) return fmt::format("whose token is leaving for cluster {}", l.next);
  if (manager(lock) != self_) return fmt::format("whose manager is cluster {}", manager(lock).value());
  return fmt::format("which cluster {} was the last to request", last_[lock.value()]);
}

std::string Locks::locks_of(std::uint16_t node) const {
  std::string all;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    if (local_[i].holder == node) all += fmt::format("{}{}", all.empty() ? "" : ", ", i);
  }
  return all;
}

void Locks::check() const {
  std::uint32_t moving = 0, probes = 0;
  for (const Local& l : local_) {
    const bool requested = l.token == Token::kWanted || l.token == Token::kAsked;
    moving += requested || l.token == Token::kLeaving;
    probes += l.probed != kNobody;
    CHECK_EQ(l.first == kNobody, l.last == kNobody);
    CHECK(l.holder == kNobody || l.token == Token::kHere);
    CHECK(l.lease != Lease::kRunning ||
          (l.token == Token::kHere && l.next != kNobody && l.probed != kNobody));
    // A free token here is not requested by a node of this cluster, and it is recalled only during a lease.
    if (l.token == Token::kHere && l.holder == kNobody)
      CHECK(l.first == kNobody && (l.next == kNobody || l.lease == Lease::kRunning));
    if (l.token == Token::kElsewhere) CHECK(l.first == kNobody && l.next == kNobody);
    if (l.token == Token::kLeaving) CHECK_NE(l.next, kNobody);
    if (requested) CHECK_NE(l.first, kNobody);
    CHECK_LE(l.uses, std::max(config_.lease_uses, config_.local_handoffs));
  }
  CHECK_EQ(moving, moving_);
  CHECK_EQ(probes, probes_);
  std::uint32_t unanswered = 0;
  for (const std::uint32_t of_one : unanswered_) unanswered += of_one;
  CHECK_EQ(unanswered, probes_);
}

}  // namespace braid::dsm
