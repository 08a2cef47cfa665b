// Where pages come from and where they live; what is common to both sides of the protocol.
#include "dsm/engine/pages.h"

#include <bit>

#include "base/check.h"

namespace braid::dsm {

Pages::Pages(const EngineConfig& config, PageMemory& memory, Outbox& outbox, ComputeNodes& nodes,
             ClusterCounts& counts, Refusals& refusals)
    : config_(config),
      self_(config.cluster),
      memory_(memory),
      outbox_(outbox),
      nodes_(nodes),
      counts_(counts),
      refusals_(refusals),
      releases_(config),
      pages_(config.pages),
      masters_(config.pages),
      twins_(new std::byte[std::size_t{config.twins} * kPageBytes]),
      diffs_from_(config.clusters),
      asked_by_(config.clusters) {
  CHECK_GT(config.pages, 0u);
  CHECK_GT(config.flush_window, 0u);
  CHECK_GT(config.twins, 0u);
  free_twins_.reserve(config.twins);
  for (std::uint32_t t = config.twins; t-- > 0;) free_twins_.push_back(t);
  twin_waiters_.reserve(config.compute_nodes);
  kept_.reserve(config.clusters * Outbox::most_requests(config));
  for (std::uint32_t i = 0; i < config.pages; ++i) {
    pages_[i].home = keeper(config, i).value();
    if (here(pages_[i])) pages_[i].content = Content::kClean;
  }
  // One call for all, whatever the homes: a home's own first touch opens a page there. Opening every second
  // page here would split the heap into as many mappings as pages.
  memory_.protect(PageId(0), config.pages, Access::kNone);
}

bool Pages::can_place(PageId page, ClusterId home) const {
  const Page& p = pages_[page.value()];
  const Master& m = masters_[page.value()];
  if (p.content == Content::kDirty || p.fetch != Stage::kNone || p.flush != Stage::kNone) return false;
  return home == self_ || (unshared(m) && m.replies == 0);
}

void Pages::set_home(PageId first, std::uint32_t count, ClusterId home) {
  CHECK(inside(first.value(), count, pages_.size()));
  CHECK_LT(home.value(), config_.clusters);
  const auto wanted = [&](std::uint32_t i) {
    if (home != self_) return Access::kNone;
    return unshared(masters_[i]) ? Access::kWrite : Access::kRead;
  };
  const std::uint32_t end = first.value() + count;
  for (std::uint32_t i = first.value(); i < end; ++i) {
    place(i, home);
  }
  for (std::uint32_t i = first.value(); i < end;) {
    std::uint32_t run = 1;
    if (pages_[i].access != wanted(i)) {
      while (i + run < end && wanted(i + run) == wanted(i) && pages_[i + run].access != wanted(i)) ++run;
      set_access(i, run, wanted(i));
    }
    i += run;
  }
  for (std::uint32_t i = first.value(); i < end; ++i) serve_kept(i);
}

void Pages::place(std::uint32_t page, ClusterId home) {
  Page& p = pages_[page];
  CHECK(can_place(PageId(page), home));
  p.home = home.value();
  p.placed = true;
  p.untouched = false;
  p.content = here(p) ? Content::kClean : Content::kInvalid;
}

// PG-22
void Pages::set_first_touch(PageId first, std::uint32_t count) {
  CHECK(inside(first.value(), count, pages_.size()));
  for (std::uint32_t i = first.value(); i < first.value() + count; ++i) {
    place(i, keeper(config_, i));
    Page& p = pages_[i];
    // A cluster that made the call earlier may have been answered already.
    const Master& m = masters_[i];
    p.untouched = here(p) && unshared(m) && m.replies == 0;
    if ((p.untouched || !here(p)) && p.access != Access::kNone) set_access(i, 1, Access::kNone);
    serve_kept(i);
  }
}

std::optional<std::size_t> Pages::write(ClusterId to, Header& header, MutableBytes payload) {
  switch (header.kind) {
    case Kind::kPageRequest:
      pages_[header.id].fetch = Stage::kSent;
      return 0;
    case Kind::kPageReply:
      return header.format != 0 ? 0 : write_page(to, header.id, header, payload);
    case Kind::kPageForward:
      --asked_by_[header.number & 0xff];
      ++counts_.forwarded;
      return 0;
    case Kind::kDiff:
      return write_diff(header.id, header, payload);
    case Kind::kDiffDone:
      CHECK_GT(diffs_from_[to.value()], 0u);
      --diffs_from_[to.value()];
      return 0;
    case Kind::kInvalidate:
    case Kind::kInvalidateAck:
      return write_run(to, header, payload);
    case Kind::kLockRequest:
    case Kind::kLockGrant:
    case Kind::kLockRecall:
    case Kind::kLockReturn:
    case Kind::kBarrierArrive:
    case Kind::kBarrierDepart:
    case Kind::kSyncCall:
    case Kind::kSyncResult:
    case Kind::kAllocate:
    case Kind::kAllocated:
    case Kind::kRegion:
    case Kind::kRegionKnown:
      break;
  }
  CHECK(false);  // not a page's message
}

// PG-21: what stands in the queue for the pages behind this one goes along.
std::size_t Pages::write_run(ClusterId to, const Header& header, MutableBytes room) {
  std::uint32_t pages = 0;
  const auto left = [&] {
    if (header.kind == Kind::kInvalidate) {
      masters_[header.id + pages].unsent &= ~bit(to);
      ++counts_.invalidations_sent;
    }
    ++pages;
  };
  left();
  while (pages < kMostRunPages && !outbox_.empty(to)) {
    const Header& behind = outbox_.front(to);
    if (behind.kind != header.kind || behind.format != header.format || behind.id != header.id + pages) break;
    store(&room[(pages - 1) * sizeof behind.number], behind.number);
    (void)outbox_.pop(to);
    left();
  }
  return (pages - 1) * sizeof header.number;
}

bool Pages::quiet() const {
  return in_flight_ == 0 && ahead_ == 0 && rounds_ == 0 && twin_waiters_.empty() && kept_.empty() &&
         releases_.in_progress() == 0 && lists_[static_cast<std::size_t>(Listed::kUrgent)].size == 0;
}

void Pages::describe_page(std::uint32_t page, StateSink& sink) const {
  const Page& p = pages_[page];
  sink.values(p.home, p.placed, p.untouched, p.ahead, p.access, p.content, p.fetch, p.flush, p.listed,
              p.flush_again, p.has_minimum);
  if (p.content == Content::kDirty) sink.value(releases_.age(p.dirty_tag));
  if (p.flush == Stage::kSent) sink.value(releases_.age(p.flight_tag));
  if (p.content != Content::kInvalid) sink.bytes({memory_.page(PageId(page)), kPageBytes});
  if (p.twin != kNone) sink.bytes({twin(p.twin), kPageBytes});
  if (here(p)) {
    const Master& m = masters_[page];
    sink.values(m.copies, m.initiators, m.queued, m.pending, m.unsent, m.suspects, m.replies, m.streak,
                m.streak > 0 ? m.writer : 0);
    sink.version(PageId(page), m.version);
  } else if (p.access != Access::kNone || p.has_minimum) {
    sink.version(PageId(page), p.version);
  }
}

void Pages::describe(StateSink& sink) const {
  for (std::uint32_t i = 0; i < pages_.size(); ++i) describe_page(i, sink);
  for (const List& l : lists_) {
    for (std::uint32_t page = l.first; page != kNone; page = pages_[page].following) sink.value(page);
    sink.value(kNone);
  }
  sink.value(twin_waiters_.size());
  for (const std::uint16_t node : twin_waiters_) sink.value(node);
  for (std::size_t c = 0; c < config_.clusters; ++c) sink.values(diffs_from_[c], asked_by_[c]);
  sink.value(kept_.size());
  for (const KeptRequest& r : kept_) sink.values(r.from.value(), r.page.value(), r.hops);
  releases_.describe(sink);
}

void Pages::check_page(std::uint32_t page) const {
  const Page& p = pages_[page];
  const Master& m = masters_[page];
  const bool dirty = p.content == Content::kDirty;
  if (here(p)) {
    CHECK(p.content != Content::kInvalid && p.twin == kNone && p.fetch == Stage::kNone);
    CHECK(p.access != Access::kWrite || dirty || unshared(m));  // PG-13
    CHECK_EQ(dirty, p.listed != Listed::kNot || p.flush_again);
    CHECK(p.listed != Listed::kCopies);
    CHECK_EQ(m.copies & bit(self_), 0u);
    CHECK_EQ(m.unsent & ~m.pending, 0u);
    CHECK(!p.untouched || (unshared(m) && m.replies == 0 && p.access == Access::kNone));  // PG-22
    CHECK_EQ(m.initiators & m.queued, 0u);
    CHECK((m.initiators != 0) == (m.pending != 0));
    CHECK(m.initiators != 0 || m.queued == 0);
    CHECK_EQ(((m.initiators | m.queued) & bit(self_)) != 0, p.flush == Stage::kSent);
    return;
  }
  CHECK(m.copies == 0 && m.initiators == 0 && m.queued == 0 && m.replies == 0 && !p.untouched);
  CHECK_EQ(dirty, p.twin != kNone);
  switch (p.content) {
    case Content::kInvalid:
      CHECK(p.access == Access::kNone);
      break;
    case Content::kClean:
      CHECK(p.access == Access::kRead);
      break;
    case Content::kDirty:
      // Its changes have a way out: a release's, or their own.
      CHECK_EQ(p.flush != Stage::kQueued, p.listed != Listed::kNot || p.flush_again);
      CHECK(p.access != Access::kNone || p.listed == Listed::kUrgent || p.flush_again ||
            p.flush == Stage::kQueued);
      break;
  }
  CHECK(p.fetch == Stage::kNone || p.access == Access::kNone);
  if (p.fetch == Stage::kQueued || p.fetch == Stage::kSent)  // PG-1, PG-2
    CHECK(p.flush == Stage::kNone && p.content == Content::kInvalid);
  CHECK(p.flush != Stage::kQueued || dirty);
  CHECK(!p.flush_again || (dirty && p.flush == Stage::kSent && p.listed == Listed::kNot));  // PG-3
  CHECK(p.listed == Listed::kNot || dirty);
  CHECK(p.listed != Listed::kUrgent || p.flush == Stage::kNone);
}

void Pages::check() const {
  std::uint32_t ahead = 0, flights = 0, copy_flights = 0, twins = 0, rounds = 0;
  std::uint64_t write_sets = 0;
  std::uint32_t listed[4] = {};
  for (std::uint32_t i = 0; i < pages_.size(); ++i) {
    check_page(i);
    const Page& p = pages_[i];
    const bool flying = p.flush != Stage::kNone;
    flights += flying;
    copy_flights += flying && !here(p);
    CHECK(!p.ahead || p.fetch != Stage::kNone);
    ahead += p.ahead;
    twins += p.twin != kNone;
    rounds += masters_[i].initiators != 0;
    write_sets += p.content == Content::kDirty;
    write_sets += p.flush == Stage::kSent;
    ++listed[static_cast<std::size_t>(p.listed)];
  }
  CHECK_EQ(flights, in_flight_);
  CHECK_LE(in_flight_, config_.flush_window);
  CHECK_EQ(copy_flights, copies_in_flight_);
  CHECK_EQ(ahead, ahead_);
  CHECK_LE(ahead_, config_.compute_nodes * config_.fetch_ahead);
  CHECK_EQ(rounds, rounds_);
  CHECK_EQ(twins + free_twins_.size(), config_.twins);
  CHECK_EQ(write_sets, releases_.unacknowledged());
  for (std::size_t which = 1; which < 4; ++which) CHECK_EQ(listed[which], lists_[which].size);
  CHECK_LE(twin_waiters_.size(), nodes_.size());
  CHECK_LE(kept_.size(), config_.clusters * Outbox::most_requests(config_));  // PG-19
}

}  // namespace braid::dsm
