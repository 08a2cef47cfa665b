// The home's side of a page: the master copy, who has others, and the rounds that call them in.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/mutant.h"
#include "dsm/engine/diff.h"
#include "dsm/engine/pages.h"

namespace braid::dsm {

bool Pages::on_page_request(ClusterId from, PageId page) {
  return request(from, page, 0);
}

bool Pages::on_page_forward(ClusterId from, PageId page, std::uint32_t number) {
  const ClusterId asks(static_cast<std::uint16_t>(number & 0xff));
  const std::uint32_t hops = number >> 8;
  if (asks.value() >= config_.clusters || asks == self_ || asks == from) return false;
  if (hops == 0 || hops > kMostHops) return false;
  return request(asks, page, hops);
}

bool Pages::request(ClusterId asks, PageId page, std::uint32_t hops) {
  if (!in_range(page)) return false;
  Page& p = pages_[page.value()];
  const std::uint32_t waiting = outbox_.pending(asks, Kind::kPageReply) + asked_by_[asks.value()];
  if (waiting >= Outbox::most_requests(config_)) return false;  // PG-19
  if (must_keep(p)) {
    kept_.push_back({asks, page, hops});
    ++asked_by_[asks.value()];
    return true;
  }
  if (!here(p)) {
    if (p.home == asks.value()) return false;  // the home itself does not ask
    forward(asks, page.value(), hops);
    return true;
  }
  // Who has a valid copy, or whose flush we have not acknowledged, does not ask (PG-2).
  Master& m = masters_[page.value()];
  if (((m.copies | m.initiators | m.queued) & bit(asks)) != 0) return false;
  m.suspects &= ~bit(asks);  // PG-23
  answer(asks, page.value());
  return true;
}

// PG-20, PG-24: this cluster has not been told the page's home, or what is in flight may tell it that it is
// the home itself.
bool Pages::must_keep(const Page& p) const {
  return !here(p) && (!p.placed || p.fetch == Stage::kSent || p.flush == Stage::kSent);
}

void Pages::forward(ClusterId asks, std::uint32_t page, std::uint32_t hops) {
  ++asked_by_[asks.value()];
  outbox_.push(ClusterId(pages_[page].home),
               {.kind = Kind::kPageForward, .id = page, .number = asks.value() | (hops + 1) << 8});
}

void Pages::answer(ClusterId asks, std::uint32_t page) {
  if (pages_[page].untouched) {  // PG-22
    outbox_.push(asks, {.kind = Kind::kPageReply, .format = 1, .id = page, .number = masters_[page].version});
    give_home(page, asks);
    return;
  }
  ++masters_[page].replies;
  outbox_.push(asks, {.kind = Kind::kPageReply, .id = page});
}

void Pages::serve_kept(std::uint32_t page) {
  if (kept_.empty() || must_keep(pages_[page])) return;
  std::erase_if(kept_, [&](const KeptRequest& kept) {
    if (kept.page.value() != page) return false;
    --asked_by_[kept.from.value()];
    if (here(pages_[page]))
      answer(kept.from, page);
    else if (pages_[page].home == kept.from.value())
      refusals_.add(refusal_of(kept.from, {.kind = Kind::kPageRequest, .id = page}, kHeaderBytes));
    else
      forward(kept.from, page, kept.hops);
    return true;
  });
}

// PG-23: is `writer`, whose round has just ended, to be the home from now on? If it may be with its next
// round, the page is closed here, so that its use here is noticed.
bool Pages::moves_to(ClusterId writer, std::uint32_t page) {
  Page& p = pages_[page];
  Master& m = masters_[page];
  const auto wanted = static_cast<std::int32_t>(config_.migrate_after);
  if (wanted == 0 || !p.placed) return false;
  m.streak = m.streak >= 0 && m.writer != writer.value() ? 1 : m.streak + 1;
  m.writer = writer.value();
  if (m.streak + 1 < wanted) return false;
  m.streak = std::min(m.streak, wanted);
  const bool idle = p.content == Content::kClean && m.queued == 0 && m.replies == 0;
  if (!idle || m.copies != bit(writer)) return false;
  const bool unused = p.access == Access::kNone;
  if (!unused) set_access(page, 1, Access::kNone);
  return m.streak == wanted && (unused || wanted == 1) &&
         (m.suspects == 0 || mutant(Mutant::kMoveFromSuspects));
}

// Nobody but `to` has a copy, or changes or an invalidation of it in flight.
void Pages::give_home(std::uint32_t page, ClusterId to) {
  Page& p = pages_[page];
  CHECK(p.access == Access::kNone && p.content == Content::kClean);
  p.home = to.value();
  p.content = Content::kInvalid;
  p.untouched = false;
  masters_[page] = {};
  ++counts_.homes_given;
}

// The page's bytes are here already.
void Pages::take_home(std::uint32_t page, std::uint32_t version) {
  Page& p = pages_[page];
  p.home = self_.value();
  p.placed = true;
  p.content = Content::kClean;
  masters_[page] = {.version = version};
  if (p.access != Access::kWrite) set_access(page, 1, Access::kWrite);  // PG-13
  serve_kept(page);
}

// PG-12: whatever round runs. The reply is the page at this moment, and from this moment its receiver has a
// copy.
std::size_t Pages::write_page(ClusterId to, std::uint32_t page, Header& header, MutableBytes room) {
  Page& p = pages_[page];
  Master& m = masters_[page];
  --m.replies;
  // A write here after the copy is taken must be noticed; where it is noticed already, it need not be twice.
  if (p.access == Access::kWrite && p.content != Content::kDirty) set_access(page, 1, Access::kRead);
  m.copies |= bit(to);
  header.number = m.version;
  copy_page(room.data(), memory_.page(PageId(page)));
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
  (mutant(Mutant::kJoinRunningRound) && m.initiators != 0 ? m.initiators : m.queued) |= bit(from);
  advance_rounds(page.value());
  return true;
}

bool Pages::on_invalidate_ack(ClusterId from, PageId first, const Header& header, ByteView others) {
  const RunVersions versions{header.number, others};
  if (!inside(first.value(), versions.pages(), pages_.size())) return false;
  for (std::uint32_t i = 0; i < versions.pages(); ++i) {
    const Master& m = masters_[first.value() + i];
    if ((m.pending & ~m.unsent & bit(from)) == 0 || m.version != versions[i]) return false;
  }
  for (std::uint32_t i = 0; i < versions.pages(); ++i) {
    Master& m = masters_[first.value() + i];
    m.pending &= ~bit(from);
    m.suspects = header.format != 0 ? m.suspects | bit(from) : m.suspects & ~bit(from);  // PG-23
    advance_rounds(first.value() + i);
  }
  return true;
}

// PG-10, PG-11: ends the running round if nobody is left to wait for, and begins the next if somebody waits
// for it.
void Pages::advance_rounds(std::uint32_t page) {
  Master& m = masters_[page];
  for (;;) {
    if (m.pending != 0 && !(mutant(Mutant::kEndRoundEarly) && m.unsent == 0)) return;
    if (m.initiators != 0) {
      const std::uint64_t ended = m.initiators;
      m.initiators = 0;
      --rounds_;
      if (std::has_single_bit(ended) && ended != bit(self_)) {
        const ClusterId writer(static_cast<std::uint16_t>(std::countr_zero(ended)));
        if (moves_to(writer, page)) {
          outbox_.push(writer, {.kind = Kind::kDiffDone, .format = 1, .id = page, .number = m.version});
          return give_home(page, writer);
        }
      } else {
        m.streak = std::min(m.streak, 0);
      }
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
    if (std::has_single_bit(m.initiators) || mutant(Mutant::kInitiatorsKeepCopies))
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
  p.untouched = false;                                                            // PG-22
  masters_[page].streak = -2 * static_cast<std::int32_t>(config_.migrate_after);  // PG-23
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
