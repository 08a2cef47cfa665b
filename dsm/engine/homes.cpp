// The home's side of a page: the master copy, who has others, and the rounds that call them in.
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/planted.h"
#include "dsm/engine/diff.h"
#include "dsm/engine/pages.h"

namespace braid::dsm {

bool Pages::on_page_request(ClusterId from, PageId page) {
  if (!in_range(page)) return false;
  const Page& p = pages_[page.value()];
  const std::uint32_t waiting = outbox_.pending(from, Kind::kPageReply) + early_from_[from.value()];
  if (waiting >= config_.compute_nodes) return false;  // PG-19: more than it has compute nodes
  if (!here(p)) {
    if (p.placed) return false;
    early_requests_.push_back({from, page});  // PG-20
    ++early_from_[from.value()];
    return true;
  }
  // Who has a valid copy, or whose flush we have not acknowledged, does not ask (PG-2).
  const Master& m = masters_[page.value()];
  if (((m.copies | m.initiators | m.queued) & bit(from)) != 0) return false;
  outbox_.push(from, {.kind = Kind::kPageReply, .id = page.value()});
  return true;
}

// PG-12: whatever round runs. The reply is the page at this moment, and from this moment its receiver has a
// copy.
std::size_t Pages::write_page(ClusterId to, std::uint32_t page, Header& header, MutableBytes room) {
  Page& p = pages_[page];
  Master& m = masters_[page];
  // A write here after the copy is taken must be noticed; where it is noticed already, it need not be twice.
  if (p.access == Access::kWrite && p.content != Content::kDirty) set_access(page, 1, Access::kRead);
  m.copies |= bit(to);
  header.number = m.version;
  std::memcpy(room.data(), memory_.page(PageId(page)), kPageBytes);
  ++counts_.pages_sent;
  return kPageBytes;
}

// PG-9
bool Pages::on_diff(ClusterId from, PageId page, std::uint8_t format, ByteView diff) {
  if (!in_range(page) || !here(pages_[page.value()])) return false;
  Master& m = masters_[page.value()];
  if (((m.initiators | m.queued) & bit(from)) != 0) return false;       // PG-3
  if (diffs_from_[from.value()] >= config_.flush_window) return false;  // PG-18
  if (!apply_diff(static_cast<DiffFormat>(format), diff, memory_.page(page))) return false;
  ++counts_.diffs_applied;
  ++diffs_from_[from.value()];
  (planted(Mistake::kJoinRunningRound) && m.initiators != 0 ? m.initiators : m.queued) |= bit(from);
  advance_rounds(page.value());
  return true;
}

bool Pages::on_invalidate_ack(ClusterId from, PageId first, std::uint32_t version, ByteView others) {
  const RunVersions versions{version, others};
  if (!inside(first.value(), versions.pages(), pages_.size())) return false;
  for (std::uint32_t i = 0; i < versions.pages(); ++i) {
    const Master& m = masters_[first.value() + i];
    if ((m.pending & ~m.unsent & bit(from)) == 0 || m.version != versions[i]) return false;
  }
  for (std::uint32_t i = 0; i < versions.pages(); ++i) {
    masters_[first.value() + i].pending &= ~bit(from);
    advance_rounds(first.value() + i);
  }
  return true;
}

// PG-10, PG-11: ends the running round if nobody is left to wait for, and begins the next if somebody waits
// for it.
void Pages::advance_rounds(std::uint32_t page) {
  Master& m = masters_[page];
  for (;;) {
    if (m.pending != 0 && !(planted(Mistake::kEndRoundEarly) && m.unsent == 0)) return;
    if (m.initiators != 0) {
      const std::uint64_t ended = m.initiators;
      m.initiators = 0;
      --rounds_;
      for (std::uint64_t rest = ended; rest != 0; rest &= rest - 1) {
        const ClusterId initiator(static_cast<std::uint16_t>(std::countr_zero(rest)));
        if (initiator == self_)
          end_flush(page);
        else
          outbox_.push(initiator, {.kind = Kind::kDiffDone, .id = page, .number = m.version});
      }
    }
    if (m.queued == 0) return;
    m.initiators = m.queued;
    m.queued = 0;
    ++m.version;
    ++rounds_;
    std::uint64_t targets = m.copies;
    if (std::has_single_bit(m.initiators) || planted(Mistake::kInitiatorsKeepCopies))
      targets &= ~m.initiators;  // its copy has all that this round is about
    m.copies &= ~targets;
    m.pending = m.unsent = targets;
    for (std::uint64_t rest = targets; rest != 0; rest &= rest - 1) {
      const ClusterId target(static_cast<std::uint16_t>(std::countr_zero(rest)));
      outbox_.push(target, {.kind = Kind::kInvalidate, .id = page, .number = m.version});
    }
  }
}

// PG-13
bool Pages::master_fault(std::uint32_t page, Access wanted) {
  Page& p = pages_[page];
  if (p.content == Content::kDirty || unshared(masters_[page])) {
    set_access(page, 1, Access::kWrite);
  } else if (wanted == Access::kRead) {
    set_access(page, 1, Access::kRead);
  } else {
    track(page, Listed::kMasters);
    set_access(page, 1, Access::kWrite);
  }
  return true;
}

// The home's own writes become visible by a round like everybody's; while nobody has a copy there is nothing
// to do.
void Pages::flush_master(std::uint32_t page) {
  Page& p = pages_[page];
  Master& m = masters_[page];
  p.content = Content::kClean;
  if (unshared(m)) {  // PG-13
    releases_.finished(p.dirty_tag);
    return;
  }
  if (p.access == Access::kWrite) set_access(page, 1, Access::kRead);
  p.flush = Stage::kSent;
  p.flight_tag = p.dirty_tag;
  ++in_flight_;
  m.queued |= bit(self_);
  advance_rounds(page);
}

}  // namespace braid::dsm
