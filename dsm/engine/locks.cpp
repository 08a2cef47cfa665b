#include "dsm/engine/locks.h"

#include <fmt/core.h>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {

Locks::Locks(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages)
    : config_(config),
      self_(config.cluster),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      local_(config.locks),
      managed_(config.locks),
      // Each waiting cluster has a compute node that waits, and a node waits for one lock.
      waiting_(std::size_t{config.clusters} * config.compute_nodes),
      asked_by_(config.clusters) {
  for (std::uint32_t i = 0; i < waiting_.size(); ++i) {
    waiting_[i].next = free_;
    free_ = i;
  }
}

bool Locks::lock(std::uint16_t node, LockId lock) {
  CHECK(known(lock));
  Local& l = local_[lock.value()];
  CHECK_NE(l.holder, node);                              // not recursive
  if (l.token == Token::kHere && l.holder == kNobody) {  // LK-2
    l.holder = node;
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
  const bool stays = !l.recalled || l.handoffs < config_.local_handoffs;
  if (l.first != kNobody && stays) {  // LK-2, LK-5
    if (l.recalled) ++l.handoffs;
    pass_on(l);
  } else if (l.recalled) {
    give_up(lock);
  }
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

// LK-3: writes under the lock, and before it, become visible first.
void Locks::give_up(LockId lock) {
  move(local_[lock.value()], Token::kLeaving);
  if (mutant(Mutant::kTokenLeavesEarly)) return released(lock);
  pages_.begin_release({.what = ReleaseFor::What::kLock, .id = lock.value()});
}

void Locks::released(LockId lock) {
  Local& l = local_[lock.value()];
  CHECK(l.token == Token::kLeaving);
  move(l, Token::kElsewhere);
  l.recalled = false;
  l.handoffs = 0;
  outbox_.push(manager(lock), {.kind = Kind::kLockReturn, .id = lock.value()});
  if (l.first != kNobody) ask(lock);  // LK-6
}

void Locks::sent(ClusterId to, const Header& header) {
  switch (header.kind) {
    case Kind::kLockRequest:
      move(local_[header.id], Token::kAsked);
      return;
    case Kind::kLockGrant:
      CHECK_GT(asked_by_[to.value()], 0u);
      --asked_by_[to.value()];
      return;
    case Kind::kLockRecall:
      managed_[header.id].recall = Managed::Recall::kSent;
      return;
    default:
      return;  // LockReturn: no state depends on its sending
  }
}

bool Locks::on_grant(ClusterId from, LockId lock, bool recalled) {
  if (!known(lock) || from != manager(lock)) return false;
  Local& l = local_[lock.value()];
  if (l.token != Token::kAsked || (recalled && l.recalled)) return false;
  l.recalled = l.recalled || recalled;
  move(l, Token::kHere);
  CHECK_NE(l.first, kNobody);  // the requesting node still waits
  pass_on(l);
  return true;
}

bool Locks::on_recall(ClusterId from, LockId lock) {
  if (!known(lock) || from != manager(lock)) return false;
  Local& l = local_[lock.value()];
  if (l.recalled || (l.token != Token::kAsked && l.token != Token::kHere)) return false;
  if (l.token == Token::kAsked && mutant(Mutant::kForgetEarlyRecall)) return true;
  l.recalled = true;  // LK-4: whether or not the token is here yet
  if (l.token == Token::kHere && l.holder == kNobody) give_up(lock);
  return true;
}

// --- The manager. LK-1: one holder, and the clusters that wait get the token in the order of their requests.

bool Locks::on_request(ClusterId from, LockId lock) {
  if (!known(lock) || manager(lock) != self_) return false;
  Managed& m = managed_[lock.value()];
  // LK-7: the request of the holder may overtake its return, but only after a recall.
  if (m.holder == from.value() && m.recall != Managed::Recall::kSent) return false;
  if (asked_by_[from.value()] >= config_.compute_nodes) return false;
  for (std::uint32_t w = m.first; w != kEnd; w = waiting_[w].next)
    if (waiting_[w].cluster == from.value()) return false;
  ++asked_by_[from.value()];
  if (m.holder == kNobody) {
    grant(lock, from.value());
    return true;
  }
  CHECK_NE(free_, kEnd);
  const std::uint32_t w = free_;
  free_ = waiting_[w].next;
  waiting_[w] = {.cluster = from.value(), .next = kEnd};
  (m.first == kEnd ? m.first : waiting_[m.last].next) = w;
  m.last = w;
  if (m.recall == Managed::Recall::kNone) recall(lock);
  return true;
}

bool Locks::on_return(ClusterId from, LockId lock) {
  if (!known(lock) || manager(lock) != self_) return false;
  Managed& m = managed_[lock.value()];
  if (m.holder != from.value() || m.recall != Managed::Recall::kSent) return false;
  m.holder = kNobody;
  m.recall = Managed::Recall::kNone;
  CHECK_NE(m.first, kEnd);  // the cluster for which it was recalled
  const std::uint32_t w = m.first;
  m.first = waiting_[w].next;
  if (m.first == kEnd) m.last = kEnd;
  waiting_[w].next = free_;
  free_ = w;
  grant(lock, waiting_[w].cluster);
  return true;
}

void Locks::grant(LockId lock, std::uint16_t cluster) {
  Managed& m = managed_[lock.value()];
  m.holder = cluster;
  const bool recalled = m.first != kEnd;  // LK-4: others wait already, so the recall goes with the grant
  m.recall = recalled ? Managed::Recall::kSent : Managed::Recall::kNone;
  outbox_.push(ClusterId(cluster), {.kind = Kind::kLockGrant, .format = recalled, .id = lock.value()});
}

void Locks::recall(LockId lock) {
  Managed& m = managed_[lock.value()];
  m.recall = Managed::Recall::kQueued;
  outbox_.push(ClusterId(m.holder), {.kind = Kind::kLockRecall, .id = lock.value()});
}

void Locks::describe(StateSink& sink) const {
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const Local& l = local_[i];
    sink.values(l.token, l.recalled, l.holder, l.handoffs);
    for (std::uint16_t n = l.first; n != kNobody; n = nodes_[n].next) sink.value(n);
    sink.value(kNobody);
    const Managed& m = managed_[i];
    sink.values(m.holder, m.recall);
    for (std::uint32_t w = m.first; w != kEnd; w = waiting_[w].next) sink.value(waiting_[w].cluster);
    sink.value(kEnd);
  }
  for (const std::uint32_t asked : asked_by_) sink.value(asked);
}

std::string Locks::explain(LockId lock) const {
  const Local& l = local_[lock.value()];
  if (l.holder != kNobody) return fmt::format("which compute node {} has", global_node(config_, l.holder));
  if (l.token == Token::kLeaving) return "whose token is leaving this cluster";
  if (manager(lock) != self_) return fmt::format("whose manager is cluster {}", manager(lock).value());
  const std::uint16_t holder = managed_[lock.value()].holder;
  if (holder == kNobody) return "whose token is returning to its manager";
  return fmt::format("whose token is in cluster {}", holder);
}

std::string Locks::locks_of(std::uint16_t node) const {
  std::string all;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    if (local_[i].holder == node) all += fmt::format("{}{}", all.empty() ? "" : ", ", i);
  }
  return all;
}

void Locks::check() const {
  std::uint32_t moving = 0;
  for (std::uint32_t i = 0; i < local_.size(); ++i) {
    const Local& l = local_[i];
    moving += l.token == Token::kWanted || l.token == Token::kAsked || l.token == Token::kLeaving;
    CHECK_EQ(l.first == kNobody, l.last == kNobody);
    CHECK(l.holder == kNobody || l.token == Token::kHere);
    // A free token here is neither requested by a node of this cluster nor recalled.
    if (l.token == Token::kHere && l.holder == kNobody) CHECK(l.first == kNobody && !l.recalled);
    if (l.token == Token::kElsewhere) CHECK(l.first == kNobody && !l.recalled);
    if (l.token == Token::kWanted || l.token == Token::kAsked) CHECK_NE(l.first, kNobody);
    CHECK_LE(l.handoffs, config_.local_handoffs);
    const Managed& m = managed_[i];
    CHECK_EQ(m.first == kEnd, m.last == kEnd);
    CHECK_EQ(m.first != kEnd,
             m.recall != Managed::Recall::kNone);  // LK-7: while clusters wait, the token is recalled
  }
  CHECK_EQ(moving, moving_);
}

}  // namespace braid::dsm
