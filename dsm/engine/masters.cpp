#include "dsm/engine/masters.h"

#include <cstring>

#include "base/check.h"
#include "base/mutant.h"
#include "dsm/engine/diff.h"

namespace braid::dsm {

Masters::Masters(const Parts& parts)
    : config_(parts.config),
      self_(parts.config.cluster),
      table_(parts.table),
      flushes_(parts.flushes),
      outbox_(parts.outbox),
      counts_(parts.counts),
      refusals_(parts.refusals),
      notices_(parts.notices),
      directory_(parts.config),
      kept_(parts.config) {}

// --- Placement

bool Masters::can_place(PageId page, ClusterId home) const {
  const Page& p = table_[page.value()];
  if (p.content == Content::kDirty || p.fetch != Fetch::kNone) return false;
  if (flushes_.flight(page.value()) != Flushes::Flight::kNone) return false;
  return home == self_ || directory_.unused(page.value());
}

void Masters::place(std::uint32_t page, ClusterId home) {
  CHECK(can_place(PageId(page), home));
  Page& p = table_[page];
  p.home = home.value();
  p.placed = true;
  p.untouched = false;
  p.content = table_.here(page) ? Content::kClean : Content::kInvalid;
}

Access Masters::access_when_placed(std::uint32_t page, ClusterId home) const {
  if (home != self_) return Access::kNone;
  return directory_.unshared(page) ? Access::kWrite : Access::kRead;
}

void Masters::set_home(PageId first, std::uint32_t count, ClusterId home) {
  CHECK(inside(first.value(), count, table_.size()));
  CHECK_LT(home.value(), config_.clusters);
  const std::uint32_t end = first.value() + count;
  for (std::uint32_t i = first.value(); i < end; ++i) place(i, home);
  for (std::uint32_t i = first.value(); i < end;) {
    const Access wanted = access_when_placed(i, home);
    std::uint32_t run = 0;  // pages that one call protects
    while (i + run < end && table_[i + run].access != wanted && access_when_placed(i + run, home) == wanted)
      ++run;
    if (run != 0) table_.set_access_later(i, run, wanted);
    i += run != 0 ? run : 1;
  }
  for (std::uint32_t i = first.value(); i < end; ++i) serve_kept(i);
}

// PG-22
void Masters::set_first_touch(PageId first, std::uint32_t count) {
  CHECK(inside(first.value(), count, table_.size()));
  for (std::uint32_t i = first.value(); i < first.value() + count; ++i) {
    place(i, keeper(config_, i));
    Page& p = table_[i];
    // A cluster that made the call earlier may already have a reply.
    p.untouched = table_.here(i) && directory_.unused(i);
    if ((p.untouched || !table_.here(i)) && p.access != Access::kNone) table_.set_access(i, 1, Access::kNone);
    serve_kept(i);
  }
}

// No cluster but `to` has a copy, or changes or an invalidation of it in flight.
void Masters::give(std::uint32_t page, ClusterId to) {
  Page& p = table_[page];
  CHECK(p.access == Access::kNone && p.content == Content::kClean);
  p.home = to.value();
  p.content = Content::kInvalid;
  p.untouched = false;
  directory_.give(page);
  ++counts_.homes_given;
}

void Masters::take(std::uint32_t page, std::uint32_t version) {
  Page& p = table_[page];
  p.home = self_.value();
  p.placed = true;
  p.content = Content::kClean;
  directory_.take(page, version);
  if (p.access != Access::kWrite) table_.set_access(page, 1, Access::kWrite);  // PG-13
  serve_kept(page);
}

// --- Requests

bool Masters::on_page_request(ClusterId from, PageId page, std::uint32_t following) {
  if (following >= kMaxRunPages || !may_request(from, page.value(), 1 + following)) return false;
  for (std::uint32_t i = 0; i <= following; ++i) request(from, PageId(page.value() + i), 0, i == 0);
  return true;
}

bool Masters::on_page_forward(ClusterId from, PageId page, std::uint32_t number) {
  const auto [asks, hops] = forwarded(number);
  if (asks.value() >= config_.clusters || asks == self_ || asks == from) return false;
  if (hops == 0 || hops > kMaxForwardHops) return false;
  if (!may_request(asks, page.value(), 1)) return false;
  request(asks, page, hops, true);
  return true;
}

bool Masters::may_request(ClusterId asks, std::uint32_t first, std::uint32_t count) const {
  if (!inside(first, count, table_.size())) return false;
  const std::size_t waiting = outbox_.pending(asks, Kind::kPageReply) + kept_.unanswered(asks);
  if (waiting + count > Outbox::max_requests(config_)) return false;  // PG-19
  for (std::uint32_t page = first; page < first + count; ++page) {
    if (must_keep(page)) continue;
    if (table_.here(page) ? !directory_.may_request(page, asks) : table_.home(page) == asks) return false;
  }
  return true;
}

void Masters::request(ClusterId asks, PageId page, std::uint32_t hops, bool begins_run) {
  if (must_keep(page.value()))
    kept_.keep({asks, page, hops});
  else if (table_.here(page.value()))
    answer(asks, page.value(), begins_run);
  else
    forward(asks, page.value(), hops);
}

// PG-20, PG-24: this cluster does not know the page's home, or a message in flight may tell it that it is
// the home itself.
bool Masters::must_keep(std::uint32_t page) const {
  const Page& p = table_[page];
  if (table_.here(page)) return false;
  return !p.placed || p.fetch == Fetch::kSent || flushes_.flight(page) == Flushes::Flight::kSent;
}

// PG-24
void Masters::forward(ClusterId asks, std::uint32_t page, std::uint32_t hops) {
  kept_.forward_queued(asks);
  outbox_.push(table_.home(page),
               {.kind = Kind::kPageForward, .id = page, .number = forward_number(asks, hops + 1)});
}

void Masters::forward_sent(const Header& header) {
  kept_.forward_sent(forwarded(header.number).asks);
  ++counts_.forwarded;
}

void Masters::answer(ClusterId asks, std::uint32_t page, bool begins_run) {
  if (table_[page].untouched) {  // PG-22
    outbox_.push(asks,
                 {.kind = Kind::kPageReply, .format = 1, .id = page, .number = directory_.version(page)});
    give(page, asks);
    return;
  }
  directory_.add_reply(page, asks);
  outbox_.push(asks, {.kind = Kind::kPageReply, .id = page, .number = begins_run ? kBeginsRun : 0});
}

void Masters::serve_kept(std::uint32_t page) {
  if (kept_.empty() || must_keep(page)) return;
  kept_.release(PageId(page), [&](const KeptRequest& kept) {
    if (table_.here(page))
      answer(kept.from, page, true);
    else if (table_.home(page) == kept.from)
      refusals_.add(refusal_of(kept.from, {.kind = Kind::kPageRequest, .id = page}, kHeaderBytes));
    else
      forward(kept.from, page, kept.hops);
  });
}

// PG-12: whatever round runs. The reply is the pages at this moment.
std::size_t Masters::write_pages(ClusterId to, std::uint32_t first, std::uint32_t count, Header& header,
                                 MutableBytes room) {
  close_for_writing(first, count);
  const std::size_t bytes = config_.page_length.bytes_of(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    directory_.reply_sent(first + i, to);
    const std::uint32_t version = directory_.version(first + i);
    if (i == 0)
      header.number = version;
    else
      store(&room[bytes + (i - 1) * kVersionBytes], version);
  }
  std::memcpy(room.data(), table_.bytes(first), bytes);
  counts_.pages_sent += count;
  return reply_payload(config_.page_length, count);
}

// A write here after a copy was made must fault; if a page is already closed to writes, it does.
void Masters::close_for_writing(std::uint32_t first, std::uint32_t count) {
  const auto closes = [this](std::uint32_t page) {
    return table_[page].access == Access::kWrite && table_[page].content != Content::kDirty;
  };
  for (std::uint32_t page = first; page < first + count;) {
    std::uint32_t run = 0;
    while (page + run < first + count && closes(page + run)) ++run;
    if (run != 0) table_.set_access(page, run, Access::kRead);
    page += run != 0 ? run : 1;
  }
}

// --- Changes and rounds

// PG-9
bool Masters::on_diff(ClusterId from, const Header& header, ByteView diff) {
  const std::uint32_t page = header.id;
  if (!table_.contains(PageId(page)) || !table_.here(page)) return false;
  if (config_.protocol == Protocol::kEager && header.number != 0) return false;
  if (!directory_.expects_change(page, from)) return false;  // PG-3, PG-18
  const auto format = static_cast<DiffFormat>(header.format);
  if (!apply_diff(config_.page_length, format, diff, table_.bytes(page))) return false;
  ++counts_.diffs_applied;
  directory_.add_change(page, from, header.number);
  advance_rounds(page);
  return true;
}

bool Masters::on_invalidate_ack(ClusterId from, PageId first, const Header& header, ByteView others) {
  const RunVersions versions{header.number, others};
  if (!inside(first.value(), versions.pages(), table_.size())) return false;
  for (std::uint32_t i = 0; i < versions.pages(); ++i)
    if (!directory_.awaits_acknowledgement(first.value() + i, from, versions[i])) return false;
  for (std::uint32_t i = 0; i < versions.pages(); ++i) {
    directory_.acknowledged(first.value() + i, from, header.format != 0);
    advance_rounds(first.value() + i);
  }
  return true;
}

// PG-10, PG-11: ends the running round if all have acknowledged, and begins the next if changes are queued.
void Masters::advance_rounds(std::uint32_t page) {
  for (;;) {
    if (directory_.round_runs(page)) {
      const std::optional<Directory::RoundEnded> ended = directory_.end_round(page);
      if (!ended || !tell_initiators(page, *ended)) return;
    }
    const std::optional<Directory::RoundBegun> begun = directory_.begin_round(page);
    if (!begun) return;
    for (const ClusterId target : begun->targets)
      outbox_.push(target, {.kind = Kind::kInvalidate, .id = page, .number = begun->version});
  }
}

// Ends the flushes of a round. False: the home has moved to the only initiator.
bool Masters::tell_initiators(std::uint32_t page, const Directory::RoundEnded& ended) {
  const ClusterId first = ended.initiators.front();
  const bool moves = ended.initiators.size() == 1 && first != self_ && moves_to(first, page);  // PG-23
  for (const ClusterId initiator : ended.initiators) {
    if (initiator == self_) {
      flushes_.end(page);
      if (!mutant(Mutant::kLoseNotice)) notices_.written(page, ended.version);  // LZ-1
    } else {
      outbox_.push(initiator,
                   {.kind = Kind::kDiffDone, .format = moves, .id = page, .number = ended.version});
    }
  }
  if (moves) give(page, first);
  return !moves;
}

// PG-23: whether the home moves to `writer`, whose round has just ended. If it may move with the next
// round, the page is closed here, so that an access here faults.
bool Masters::moves_to(ClusterId writer, std::uint32_t page) {
  const Page& p = table_[page];
  if (!p.placed) return false;
  const Directory::Streak streak = directory_.only_writer(page, writer);
  if (streak == Directory::Streak::kShort || p.content != Content::kClean) return false;
  const bool unused = p.access == Access::kNone;
  if (!unused) table_.set_access(page, 1, Access::kNone);
  return streak == Directory::Streak::kFull && (unused || config_.migrate_after == 1);
}

void Masters::invalidation_sent(std::uint32_t page, ClusterId to) {
  directory_.invalidation_sent(page, to);
  ++counts_.invalidations_sent;
}

// --- The home's own writes

// PG-13
void Masters::fault(std::uint32_t page, Access wanted) {
  Page& p = table_[page];
  p.untouched = false;       // PG-22
  directory_.touched(page);  // PG-23
  const bool free = p.content == Content::kDirty || directory_.unshared(page);
  if (!free && wanted == Access::kWrite) {
    p.content = Content::kDirty;
    flushes_.add(page, Flushes::Side::kMaster);
  }
  table_.set_access(page, 1, free ? Access::kWrite : wanted);
}

// The home's own writes become visible by a round like any others; without a copy no round is needed.
void Masters::flush(std::uint32_t page) {
  Page& p = table_[page];
  p.content = Content::kClean;
  if (directory_.unshared(page)) return flushes_.nothing_new(page);  // PG-13
  if (p.access == Access::kWrite) table_.set_access(page, 1, Access::kRead);
  flushes_.begin_sent(page);
  directory_.add_own_change(page);
  advance_rounds(page);
}

// --- Observation

void Masters::check_page(std::uint32_t page) const {
  const Page& p = table_[page];
  const bool here = table_.here(page);
  const bool flushes = flushes_.flight(page) == Flushes::Flight::kSent;
  directory_.check_page(page, here, flushes);
  if (!here) {
    CHECK(!p.untouched);
    return;
  }
  CHECK(p.content != Content::kInvalid && p.twin == Page::kNoTwin && p.fetch == Fetch::kNone);
  CHECK(p.access != Access::kWrite || p.content == Content::kDirty || unshared(page));  // PG-13
  CHECK(!p.untouched || (directory_.unused(page) && p.access == Access::kNone));        // PG-22
}

void Masters::check() const {
  directory_.check();
  kept_.check();
}

void Masters::describe_page(std::uint32_t page, StateSink& sink) const {
  if (table_.here(page)) directory_.describe_page(page, sink);
}

void Masters::describe(StateSink& sink) const {
  directory_.describe(sink);
  kept_.describe(sink);
}

}  // namespace braid::dsm
