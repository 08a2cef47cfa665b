#include "dsm/engine/directory.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kSetsOfAPage = 6;

}  // namespace

Directory::Directory(const EngineConfig& config)
    : self_(config.cluster),
      flush_window_(config.flush_window),
      migrate_after_(static_cast<std::int32_t>(config.migrate_after)),
      lazy_(config.protocol == Protocol::kLazy),
      masters_(config.pages),
      sets_(config.clusters, kSetsOfAPage * config.pages),
      changes_from_(config.clusters) {
  listed_.reserve(config.clusters);
}

std::span<const ClusterId> Directory::list(ClusterSet set) {
  listed_.clear();
  sets_.for_each(set, [this](ClusterId c) { listed_.push_back(c); });
  return listed_;
}

void Directory::take(std::uint32_t page, std::uint32_t version) {
  Master& m = masters_[page];
  for (ClusterSet* const set : {&m.copies, &m.initiators, &m.queued, &m.pending, &m.unsent, &m.suspects})
    sets_.clear(*set);
  m = {};
  m.version = version;
}

bool Directory::unshared(std::uint32_t page) const {
  const Master& m = masters_[page];
  return m.copies.empty() && m.initiators.empty() && m.queued.empty();
}

// PG-2
bool Directory::may_request(std::uint32_t page, ClusterId from) const {
  const Master& m = masters_[page];
  return (lazy_ || !sets_.contains(m.copies, from)) && !sets_.contains(m.initiators, from) &&
         !sets_.contains(m.queued, from);
}

void Directory::add_reply(std::uint32_t page, ClusterId to) {
  sets_.remove(masters_[page].suspects, to);  // PG-23
  ++masters_[page].replies;
}

// PG-12
void Directory::reply_sent(std::uint32_t page, ClusterId to) {
  Master& m = masters_[page];
  CHECK_GT(m.replies, 0u);
  --m.replies;
  sets_.add(m.copies, to);
  m.unread = 0;
}

bool Directory::expects_change(std::uint32_t page, ClusterId from) const {
  const Master& m = masters_[page];
  return !sets_.contains(m.initiators, from) && !sets_.contains(m.queued, from) &&
         changes_from_[from.value()] < flush_window_;
}

// PG-9, PG-11
void Directory::add_change(std::uint32_t page, ClusterId from, std::uint32_t copy) {
  Master& m = masters_[page];
  m.incomplete = lazy_ && copy != m.version;
  m.unread = 0;
  ++changes_from_[from.value()];
  sets_.add(mutant(Mutant::kJoinRunningRound) && !m.initiators.empty() ? m.initiators : m.queued, from);
}

void Directory::change_answered(ClusterId to) {
  CHECK_GT(changes_from_[to.value()], 0u);
  --changes_from_[to.value()];
}

// PG-10
std::optional<Directory::RoundBegun> Directory::begin_round(std::uint32_t page) {
  Master& m = masters_[page];
  CHECK(m.initiators.empty());
  if (m.queued.empty()) return std::nullopt;
  m.initiators = std::exchange(m.queued, {});
  ++m.version;
  ++rounds_;
  sets_.clear(m.pending);  // not empty after a mutant's round only
  if (invalidates(m)) m.pending = std::exchange(m.copies, {});
  if (m.initiators.single() || mutant(Mutant::kInitiatorsKeepCopies)) {
    for (const ClusterId initiator : list(m.initiators)) {
      if (!sets_.contains(m.pending, initiator)) continue;
      sets_.remove(m.pending, initiator);  // its copy has all that this round is about
      sets_.add(m.copies, initiator);
    }
  }
  m.unsent = sets_.copy(m.pending);
  return RoundBegun{.targets = list(m.pending), .version = m.version};
}

// LZ-6: whether the round that begins invalidates copies. If there are several initiators, one version cannot tell their
// changes apart.
bool Directory::invalidates(const Master& m) const {
  const std::optional<ClusterId> writer = m.initiators.single();
  if (!lazy_ || !writer) return true;
  if (migrate_after_ == 0 || m.replies != 0) return false;
  if (writer == self_) return m.unread + 1 >= migrate_after_;
  return !m.incomplete && m.suspects.empty() && next_streak(m, writer->value()) >= migrate_after_;
}

bool Directory::awaits_acknowledgement(std::uint32_t page, ClusterId from, std::uint32_t version) const {
  const Master& m = masters_[page];
  return m.version == version && sets_.contains(m.pending, from) && !sets_.contains(m.unsent, from);
}

void Directory::acknowledged(std::uint32_t page, ClusterId from, bool has_changes) {
  Master& m = masters_[page];
  sets_.remove(m.pending, from);
  if (has_changes)
    sets_.add(m.suspects, from);
  else
    sets_.remove(m.suspects, from);
}

// PG-10
std::optional<Directory::RoundEnded> Directory::end_round(std::uint32_t page) {
  Master& m = masters_[page];
  CHECK(!m.initiators.empty());
  if (!m.pending.empty() && !(mutant(Mutant::kEndRoundEarly) && m.unsent.empty())) return std::nullopt;
  const RoundEnded ended{.initiators = list(m.initiators), .version = m.version};
  if (!m.initiators.single() || m.initiators.is(self_)) m.streak = std::min(m.streak, 0);
  if (lazy_ && m.initiators.is(self_) && m.unread < migrate_after_) ++m.unread;
  sets_.clear(m.initiators);
  --rounds_;
  return ended;
}

// PG-23
Directory::Streak Directory::only_writer(std::uint32_t page, ClusterId writer) {
  Master& m = masters_[page];
  if (migrate_after_ == 0) return Streak::kShort;
  m.streak = next_streak(m, writer.value());
  m.writer = writer.value();
  if (m.streak + 1 < migrate_after_) return Streak::kShort;
  m.streak = std::min(m.streak, migrate_after_);
  const bool only_copy = m.copies.is(writer);
  if (!m.queued.empty() || m.replies != 0 || (!only_copy && !lazy_)) return Streak::kShort;
  const bool clear = m.suspects.empty() || mutant(Mutant::kMoveFromSuspects);
  return m.streak == migrate_after_ && clear && only_copy && !m.incomplete ? Streak::kFull : Streak::kNearly;
}

void Directory::check_page(std::uint32_t page, bool here, bool own_change) const {
  const Master& m = masters_[page];
  if (!here) {
    CHECK(unused(page));
    return;
  }
  CHECK(!sets_.contains(m.copies, self_));
  sets_.for_each(m.unsent, [&](ClusterId c) { CHECK(sets_.contains(m.pending, c)); });
  sets_.for_each(m.initiators, [&](ClusterId c) { CHECK(!sets_.contains(m.queued, c)); });
  CHECK_EQ(m.initiators.empty(), m.pending.empty());
  CHECK(!m.initiators.empty() || m.queued.empty());
  CHECK_EQ(sets_.contains(m.initiators, self_) || sets_.contains(m.queued, self_), own_change);
}

void Directory::check() const {
  std::uint32_t rounds = 0;
  for (const Master& m : masters_) rounds += !m.initiators.empty();
  CHECK_EQ(rounds, rounds_);
}

void Directory::describe_set(ClusterSet set, StateSink& sink) const {
  sink.value(sets_.size(set));
  sets_.for_each(set, [&](ClusterId c) { sink.value(c.value()); });
}

void Directory::describe_page(std::uint32_t page, StateSink& sink) const {
  const Master& m = masters_[page];
  for (const ClusterSet set : {m.copies, m.initiators, m.queued, m.pending, m.unsent, m.suspects})
    describe_set(set, sink);
  sink.values(m.replies, m.streak, m.streak > 0 ? m.writer : 0, m.unread, m.incomplete);
  sink.version(PageId(page), m.version);
}

void Directory::describe(StateSink& sink) const {
  for (const std::uint32_t n : changes_from_) sink.value(n);
}

}  // namespace braid::dsm
