#include "dsm/engine/pages.h"

#include "base/check.h"

namespace braid::dsm {

Pages::Pages(const EngineConfig& config, PageMemory& memory, Outbox& outbox, ComputeNodes& nodes,
             ClusterCounts& counts, Refusals& refusals, WriteNotices& notices)
    : config_(config),
      outbox_(outbox),
      nodes_(nodes),
      table_(config_, memory),
      flushes_(config_),
      copies_({config_, table_, flushes_, outbox, nodes, counts, notices}),
      masters_({config_, table_, flushes_, outbox, counts, refusals, notices}),
      notices_(notices) {}

// --- Faults

bool Pages::fault(std::uint16_t node, PageId page, Access wanted) {
  CHECK(table_.contains(page));
  CHECK(wanted != Access::kNone);
  if (copies_.nodes_wait_for_twins()) pump();  // nodes that wait for a twin are served first
  nodes_[node].page = page;
  nodes_[node].wanted = wanted;
  return attempt(node);
}

// Starts the next operation that the node's fault needs; true if it needs none.
bool Pages::attempt(std::uint16_t node) {
  const std::uint32_t page = nodes_[node].page.value();
  if (table_[page].access >= nodes_[node].wanted) return true;
  if (!table_.here(page)) return copies_.fault(node);
  masters_.fault(page, nodes_[node].wanted);
  return true;
}

// --- Releases and flushes

// PG-17
void Pages::begin_release(ReleaseFor why) {
  flushes_.for_each_since_release([this](std::uint32_t page) {
    if (table_.here(page) && masters_.unshared(page)) {  // PG-13
      table_[page].content = Content::kClean;
      flushes_.drop(page);
    } else if (table_[page].access == Access::kWrite) {
      close_run(page);
    }
  });
  flushes_.seal(why);
}

// Closes the page and its neighbours that the same release closes: a call costs about 20 us while siblings
// run, however many pages it covers.
void Pages::close_run(std::uint32_t page) {
  const auto closes = [this](std::uint32_t i) {
    const Page& p = table_[i];
    return p.content == Content::kDirty && p.access == Access::kWrite && flushes_.added_since_release(i) &&
           !(table_.here(i) && masters_.unshared(i));
  };
  std::uint32_t first = page, end = page + 1;
  while (first > 0 && closes(first - 1)) --first;
  while (end < table_.size() && closes(end)) ++end;
  table_.set_access(first, end - first, Access::kRead);
}

void Pages::pump() {
  for (;;) {
    start_flushes();
    if (const std::optional<std::uint16_t> node = copies_.pop_twin_waiter())
      (void)attempt(*node);
    else if (copies_.twins_are_coming())
      return;
  }
}

// PG-21: neighbours one after the other, so that what is sent about them can share messages.
void Pages::start_flushes() {
  for (std::uint32_t page = flushes_.next(); page != kNoPages; page = flushes_.next(page + 1)) {
    if (table_.here(page))
      masters_.flush(page);
    else
      copies_.flush(page);
  }
}

// --- Messages

bool Pages::on_message(ClusterId from, const Header& h, ByteView payload) {
  const PageId page(h.id);
  switch (h.kind) {
    case Kind::kPageRequest:
      return masters_.on_page_request(from, page, h.number);
    case Kind::kPageForward:
      return masters_.on_page_forward(from, page, h.number);
    case Kind::kPageReply:
      return on_page_reply(from, h, payload);
    case Kind::kDiff:
      return masters_.on_diff(from, h, payload);
    case Kind::kDiffDone:
      return follow(copies_.on_diff_done(from, page, h), h);
    case Kind::kInvalidate:
      return copies_.on_invalidate(from, page, h.number, payload);
    case Kind::kInvalidateAck:
      return masters_.on_invalidate_ack(from, page, h, payload);
    case Kind::kWriteNotice:
      return on_notices(from, h, payload);
    case Kind::kLockRequest:
    case Kind::kLockGrant:
    case Kind::kLockRecall:
    case Kind::kLockProbe:
    case Kind::kLockProbeReply:
    case Kind::kLockBusy:
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

// LZ-2, LZ-4. A home's own page is never out of date.
bool Pages::on_notices(ClusterId from, const Header& h, ByteView others) {
  const RunVersions versions{h.number, others};
  if (!contains(h.id, versions.pages())) return false;
  for (std::uint32_t i = 0; i < versions.pages(); ++i)
    notices_.heard(h.id + i, versions[i], from, h.format != 0);
  copies_.on_notices(h.id, versions);
  return true;
}

bool Pages::on_page_reply(ClusterId from, const Header& h, ByteView payload) {
  if (h.format != 0) return follow(copies_.on_home_reply(from, h, payload), h);
  if (payload.empty()) return false;
  const RunOfPages run(table_.page_length(), h.number, payload);
  if (!copies_.on_page_reply(from, PageId(h.id), run)) return false;
  for (std::uint32_t page = h.id; page < h.id + run.pages(); ++page)
    if (table_[page].fetch == Fetch::kNone) masters_.serve_kept(page);  // PG-24
  return true;
}

// Applies the answer to a fetch or a flush to the page's home.
bool Pages::follow(Copies::Outcome outcome, const Header& header) {
  switch (outcome) {
    case Copies::Outcome::kRefused:
      return false;
    case Copies::Outcome::kDone:
      masters_.serve_kept(header.id);  // PG-24
      return true;
    case Copies::Outcome::kHomeHere:
      masters_.take(header.id, header.number);
      copies_.wake_waiters(header.id);
      return true;
  }
  return false;
}

std::optional<std::size_t> Pages::write(ClusterId to, Header& header, MutableBytes payload) {
  switch (header.kind) {
    case Kind::kPageRequest:
      return write_requests(to, header);
    case Kind::kPageReply:
      return header.format != 0 ? 0 : write_pages(to, header, payload);
    case Kind::kPageForward:
      masters_.forward_sent(header);
      return 0;
    case Kind::kDiff:
      return copies_.write_diff(header.id, header, payload);
    case Kind::kDiffDone:
      masters_.diff_done_sent(to);
      return 0;
    case Kind::kInvalidate:
    case Kind::kInvalidateAck:
      return write_run(to, header, payload);
    case Kind::kWriteNotice:
    case Kind::kLockRequest:
    case Kind::kLockGrant:
    case Kind::kLockRecall:
    case Kind::kLockProbe:
    case Kind::kLockProbeReply:
    case Kind::kLockBusy:
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

// Whether the next descriptor for `to` is the same for the page behind a run of so many pages.
bool Pages::run_continues(ClusterId to, const Header& first, std::uint32_t pages) const {
  if (outbox_.empty(to)) return false;
  const Header& behind = outbox_.front(to);
  if (behind.kind != first.kind || behind.format != first.format || behind.id != first.id + pages)
    return false;
  const bool marked = behind.kind == Kind::kPageRequest || behind.kind == Kind::kPageReply;
  return !marked || behind.number != kBeginsRun;
}

// PG-28
std::size_t Pages::write_requests(ClusterId to, Header& header) {
  std::uint32_t pages = 1;
  for (; pages < config_.run_pages && run_continues(to, header, pages); ++pages) (void)outbox_.pop(to);
  for (std::uint32_t i = 0; i < pages; ++i) copies_.request_sent(header.id + i);
  header.number = pages - 1;
  return 0;
}

// PG-28: the message includes the following pages that are queued, as far as they fit.
std::size_t Pages::write_pages(ClusterId to, Header& header, MutableBytes room) {
  std::uint32_t pages = 1;
  while (pages < config_.run_pages && reply_payload(config_.page_length, pages + 1) <= room.size() &&
         run_continues(to, header, pages)) {
    (void)outbox_.pop(to);
    ++pages;
  }
  return masters_.write_pages(to, header.id, pages, header, room);
}

// PG-21: the message includes what is queued for the following pages.
std::size_t Pages::write_run(ClusterId to, const Header& header, MutableBytes room) {
  std::uint32_t pages = 0;
  const auto left = [&] {
    if (header.kind == Kind::kInvalidate) masters_.invalidation_sent(header.id + pages, to);
    ++pages;
  };
  left();
  while (pages < kMaxRunPages && run_continues(to, header, pages)) {
    store(&room[(pages - 1) * kVersionBytes], outbox_.pop(to).number);
    left();
  }
  return (pages - 1) * kVersionBytes;
}

// --- Observation

void Pages::describe(StateSink& sink) const {
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    const Page& p = table_[i];
    const bool dirty = p.content == Content::kDirty;
    sink.values(p.home, p.placed, p.untouched, p.access, p.content);
    if (p.content != Content::kInvalid) sink.bytes({table_.bytes(i), table_.page_length().bytes()});
    flushes_.describe_page(i, dirty, sink);
    copies_.describe_page(i, sink);
    masters_.describe_page(i, sink);
  }
  flushes_.describe(sink);
  copies_.describe(sink);
  masters_.describe(sink);
}

void Pages::check() const {
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    const auto side = table_.here(i) ? Flushes::Side::kMaster : Flushes::Side::kCopy;
    flushes_.check_page(i, side, table_[i].content == Content::kDirty);
    copies_.check_page(i);
    masters_.check_page(i);
  }
  flushes_.check();
  copies_.check();
  masters_.check();
}

}  // namespace braid::dsm
