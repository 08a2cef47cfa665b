#include "dsm/engine/directory.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::dsm {

Directory::Directory(const EngineConfig& config)
    : self_(config.cluster),
      flush_window_(config.flush_window),
      migrate_after_(static_cast<std::int32_t>(config.migrate_after)),
      lazy_(config.protocol == Protocol::kLazy),
      masters_(config.pages),
      changes_from_(config.clusters) {}

bool Directory::unshared(std::uint32_t page) const {
  const Master& m = masters_[page];
  return m.copies == 0 && m.initiators == 0 && m.queued == 0;
}

// PG-2
bool Directory::may_request(std::uint32_t page, ClusterId from) const {
  const Master& m = masters_[page];
  return (((lazy_ ? 0 : m.copies) | m.initiators | m.queued) & bit_of(from)) == 0;
}

void Directory::add_reply(std::uint32_t page, ClusterId to) {
  masters_[page].suspects &= ~bit_of(to);  // PG-23
  ++masters_[page].replies;
}

// PG-12
void Directory::reply_sent(std::uint32_t page, ClusterId to) {
  Master& m = masters_[page];
  CHECK_GT(m.replies, 0u);
  --m.replies;
  m.copies |= bit_of(to);
  m.unread = 0;
}

bool Directory::expects_change(std::uint32_t page, ClusterId from) const {
  const Master& m = masters_[page];
  return ((m.initiators | m.queued) & bit_of(from)) == 0 && changes_from_[from.value()] < flush_window_;
}

// PG-9, PG-11
void Directory::add_change(std::uint32_t page, ClusterId from, std::uint32_t copy) {
  Master& m = masters_[page];
  m.incomplete = lazy_ && copy != m.version;
  m.unread = 0;
  ++changes_from_[from.value()];
  (mutant(Mutant::kJoinRunningRound) && m.initiators != 0 ? m.initiators : m.queued) |= bit_of(from);
}

void Directory::change_answered(ClusterId to) {
  CHECK_GT(changes_from_[to.value()], 0u);
  --changes_from_[to.value()];
}

// PG-10
std::optional<Directory::RoundBegun> Directory::begin_round(std::uint32_t page) {
  Master& m = masters_[page];
  CHECK_EQ(m.initiators, 0u);
  if (m.queued == 0) return std::nullopt;
  m.initiators = m.queued;
  m.queued = 0;
  ++m.version;
  ++rounds_;
  std::uint64_t targets = invalidates(m) ? m.copies : 0;
  if (std::has_single_bit(m.initiators) || mutant(Mutant::kInitiatorsKeepCopies))
    targets &= ~m.initiators;  // its copy has all that this round is about
  m.copies &= ~targets;
  m.pending = m.unsent = targets;
  return RoundBegun{.targets = targets, .version = m.version};
}

// LZ-6: whether the round that begins invalidates copies. If there are several initiators, one version cannot tell their
// changes apart.
bool Directory::invalidates(const Master& m) const {
  if (!lazy_ || !std::has_single_bit(m.initiators)) return true;
  if (migrate_after_ == 0 || m.replies != 0) return false;
  if (m.initiators == bit_of(self_)) return m.unread + 1 >= migrate_after_;
  const auto writer = static_cast<std::uint16_t>(std::countr_zero(m.initiators));
  return !m.incomplete && m.suspects == 0 && next_streak(m, writer) >= migrate_after_;
}

bool Directory::awaits_acknowledgement(std::uint32_t page, ClusterId from, std::uint32_t version) const {
  const Master& m = masters_[page];
  return (m.pending & ~m.unsent & bit_of(from)) != 0 && m.version == version;
}

void Directory::acknowledged(std::uint32_t page, ClusterId from, bool has_changes) {
  Master& m = masters_[page];
  m.pending &= ~bit_of(from);
  m.suspects = has_changes ? m.suspects | bit_of(from) : m.suspects & ~bit_of(from);
}

// PG-10
std::optional<Directory::RoundEnded> Directory::end_round(std::uint32_t page) {
  Master& m = masters_[page];
  CHECK_NE(m.initiators, 0u);
  if (m.pending != 0 && !(mutant(Mutant::kEndRoundEarly) && m.unsent == 0)) return std::nullopt;
  const RoundEnded ended{.initiators = m.initiators, .version = m.version};
  m.initiators = 0;
  --rounds_;
  if (!std::has_single_bit(ended.initiators) || ended.initiators == bit_of(self_))
    m.streak = std::min(m.streak, 0);
  if (lazy_ && ended.initiators == bit_of(self_) && m.unread < migrate_after_) ++m.unread;
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
  const bool only_copy = m.copies == bit_of(writer);
  if (m.queued != 0 || m.replies != 0 || (!only_copy && !lazy_)) return Streak::kShort;
  const bool clear = m.suspects == 0 || mutant(Mutant::kMoveFromSuspects);
  return m.streak == migrate_after_ && clear && only_copy && !m.incomplete ? Streak::kFull : Streak::kNearly;
}

void Directory::check_page(std::uint32_t page, bool here, bool own_change) const {
  const Master& m = masters_[page];
  if (!here) {
    CHECK(unused(page));
    return;
  }
  CHECK_EQ(m.copies & bit_of(self_), 0u);
  CHECK_EQ(m.unsent & ~m.pending, 0u);
  CHECK_EQ(m.initiators & m.queued, 0u);
  CHECK((m.initiators != 0) == (m.pending != 0));
  CHECK(m.initiators != 0 || m.queued == 0);
  CHECK_EQ(((m.initiators | m.queued) & bit_of(self_)) != 0, own_change);
}

void Directory::check() const {
  std::uint32_t rounds = 0;
  for (const Master& m : masters_) rounds += m.initiators != 0;
  CHECK_EQ(rounds, rounds_);
}

void Directory::describe_page(std::uint32_t page, StateSink& sink) const {
  const Master& m = masters_[page];
  sink.values(m.copies, m.initiators, m.queued, m.pending, m.unsent, m.suspects, m.replies, m.streak,
              m.streak > 0 ? m.writer : 0, m.unread, m.incomplete);
  sink.version(PageId(page), m.version);
}

void Directory::describe(StateSink& sink) const {
  for (const std::uint32_t n : changes_from_) sink.value(n);
}

}  // namespace braid::dsm
