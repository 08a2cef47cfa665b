// The side of a cluster that uses a page whose home is elsewhere: faults, fetches, twins, invalidations.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/mutant.h"
#include "dsm/engine/diff.h"
#include "dsm/engine/pages.h"

namespace braid::dsm {

bool Pages::fault(std::uint16_t node, PageId page, Access wanted) {
  CHECK(in_range(page));
  CHECK(wanted != Access::kNone);
  if (!twin_waiters_.empty()) pump();  // nobody overtakes those who wait for a twin already
  nodes_[node].page = page;
  nodes_[node].wanted = wanted;
  return attempt(node);
}

// What the node's fault needs next; true when nothing.
bool Pages::attempt(std::uint16_t node) {
  const ComputeNode& n = nodes_[node];
  const std::uint32_t page = n.page.value();
  Page& p = pages_[page];
  if (p.access >= n.wanted) return true;
  if (here(p)) return master_fault(page, n.wanted);
  if (p.access ==
      Access::kNone) {  // no copy, or one that is invalid and whose changes must reach the home first
    if (p.fetch == Stage::kNone) ++nodes_[node].counts.fetches;
    want_fetch(page);
    if (n.wanted == Access::kRead) fetch_ahead(node, page);
    return wait_for(node, Wait::kFetch);
  }
  if (p.content == Content::kDirty) {
    // Closed for a flush whose diff is not taken yet: what is written now goes with it (PG-6).
    set_access(page, 1, Access::kWrite);
    return true;
  }
  return make_dirty(page) || wait_for(node, Wait::kTwin);
}

bool Pages::wait_for(std::uint16_t node, Wait what) {
  nodes_[node].wait = what;
  if (what == Wait::kTwin) {
    CHECK_LT(twin_waiters_.size(), twin_waiters_.capacity());
    twin_waiters_.push_back(node);
  }
  return false;
}

// PG-5: one fetch serves every node that faults meanwhile.
void Pages::want_fetch(std::uint32_t page) {
  Page& p = pages_[page];
  if (p.fetch != Stage::kNone) return;
  const bool flushed = p.flush == Stage::kNone && p.content == Content::kInvalid;
  if (flushed || (p.flush == Stage::kSent && mutant(Mutant::kAskDuringOwnFlush)))
    ask_home(page);
  else
    p.fetch = Stage::kWaiting;  // PG-2
}

void Pages::ask_home(std::uint32_t page) {
  Page& p = pages_[page];
  p.fetch = Stage::kQueued;
  p.has_minimum = false;  // whatever the home sends from now on is newer than all that it told us before
  outbox_.push(ClusterId(p.home), {.kind = Kind::kPageRequest, .id = page});
}

// PG-25: the node missed `page`. If it reads one page after the other, those behind it are asked for, more at
// a time the longer it goes on.
void Pages::fetch_ahead(std::uint16_t node, std::uint32_t page) {
  if (config_.fetch_ahead == 0) return;
  ComputeNode& n = nodes_[node];
  const bool sequential = n.scan_window != 0 && page > n.scan_last && page <= n.scan_next;
  n.scan_last = page;
  if (!sequential) {
    n.scan_next = page + 1;
    n.scan_window = 1;
    return;
  }
  n.scan_window = std::min(2 * n.scan_window, config_.fetch_ahead);
  const std::size_t end = std::min<std::size_t>(pages_.size(), std::size_t{page} + 1 + n.scan_window);
  n.scan_next = std::max(n.scan_next, page + 1);
  while (n.scan_next < end && ahead_ < config_.compute_nodes * config_.fetch_ahead) {
    const std::uint32_t next = n.scan_next++;
    Page& p = pages_[next];
    const bool idle = p.content == Content::kInvalid && p.fetch == Stage::kNone && p.flush == Stage::kNone;
    if (here(p) || !p.placed || !idle) continue;
    p.ahead = true;
    ++ahead_;
    ++counts_.fetched_ahead;
    ask_home(next);
  }
}

void Pages::end_fetch(Page& p) {
  p.fetch = Stage::kNone;
  p.has_minimum = false;
  ahead_ -= p.ahead;
  p.ahead = false;
}

bool Pages::on_page_reply(ClusterId from, PageId page, const Header& header, ByteView bytes) {
  const bool moves = header.format != 0;
  if (!in_range(page) || moves != bytes.empty() || from == self_) return false;
  Page& p = pages_[page.value()];
  if (p.fetch != Stage::kSent) return false;
  const bool stale = p.has_minimum && older(header.number, p.version);
  if (moves) {  // PG-22
    if (stale) return false;
    std::memset(memory_.page(page), 0, kPageBytes);
    end_fetch(p);
    take_home(page.value(), header.number);
    for (ComputeNode& n : nodes_)
      if (n.wait == Wait::kFetch && n.page == page) n.wait = Wait::kNothing;
    return true;
  }
  p.home = from.value();                               // PG-24: who answers is the home
  if (stale && !mutant(Mutant::kInstallStaleReply)) {  // PG-15
    ++counts_.stale_replies;
    const bool wanted = std::ranges::any_of(
        nodes_, [&](const ComputeNode& n) { return n.wait == Wait::kFetch && n.page == page; });
    if (wanted) {
      ask_home(page.value());
    } else {  // PG-25: nobody came to need it
      end_fetch(p);
      serve_kept(page.value());
    }
    return true;
  }
  install(page.value(), header.number, bytes);
  serve_kept(page.value());
  return true;
}

void Pages::install(std::uint32_t page, std::uint32_t version, ByteView bytes) {
  Page& p = pages_[page];
  copy_page(memory_.page(PageId(page)), bytes.data());  // PG-4: filled before it is opened
  p.version = version;
  end_fetch(p);
  p.content = Content::kClean;

  const auto waits_here = [page](const ComputeNode& n) {
    return n.wait == Wait::kFetch && n.page.value() == page;
  };
  const bool write = std::ranges::any_of(
      nodes_, [&](const ComputeNode& n) { return waits_here(n) && n.wanted == Access::kWrite; });
  if (!write || !make_dirty(page)) set_access(page, 1, Access::kRead);
  for (std::uint16_t node = 0; node < nodes_.size(); ++node) {
    if (!waits_here(nodes_[node])) continue;
    nodes_[node].wait = Wait::kNothing;
    if (nodes_[node].wanted > p.access) (void)wait_for(node, Wait::kTwin);
  }
}

// A clean copy becomes writable; false when there is no twin for it (PG-8).
bool Pages::make_dirty(std::uint32_t page) {
  if (free_twins_.empty()) return false;
  Page& p = pages_[page];
  p.twin = free_twins_.back();
  free_twins_.pop_back();
  std::memcpy(twin(p.twin), memory_.page(PageId(page)), kPageBytes);  // PG-4: before anybody may write
  track(page, Listed::kCopies);
  set_access(page, 1, Access::kWrite);
  return true;
}

void Pages::drop_twin(std::uint32_t page) {
  Page& p = pages_[page];
  free_twins_.push_back(p.twin);
  p.twin = kNone;
  p.content = p.access == Access::kNone ? Content::kInvalid : Content::kClean;
}

// PG-6: the diff is taken as it leaves; that costs no room while it waits, and takes along what was written
// meanwhile.
std::optional<std::size_t> Pages::write_diff(std::uint32_t page, Header& header, MutableBytes room) {
  Page& p = pages_[page];
  CHECK(p.content == Content::kDirty && p.flush == Stage::kQueued);
  if (p.access == Access::kWrite) set_access(page, 1, Access::kRead);
  const EncodedDiff diff = encode_diff(memory_.page(PageId(page)), twin(p.twin), room);
  if (diff.bytes > room.size()) return std::nullopt;
  drop_twin(page);
  p.flush = Stage::kSent;
  p.flight_tag = p.dirty_tag;
  header.format = static_cast<std::uint8_t>(diff.format);
  ++counts_.diffs_sent;
  counts_.diff_bytes_sent += diff.bytes;
  return diff.bytes;
}

bool Pages::on_diff_done(ClusterId from, PageId page, const Header& header) {
  if (!in_range(page)) return false;
  Page& p = pages_[page.value()];
  const bool moves = header.format != 0;
  if (p.home != from.value() || here(p) || p.flush != Stage::kSent) return false;
  if (moves && p.access == Access::kNone) return false;  // PG-23: who gets the home has the copy
  // PG-16. A copy that is still valid was left out of the round, so it is as new as the round.
  if (p.access != Access::kNone && older(p.version, header.number)) p.version = header.number;
  end_flush(page.value());
  if (moves) {
    if (p.content == Content::kDirty) {  // what was written since the diff is the home's own now (PG-13)
      unlink(page.value());
      drop_twin(page.value());
      releases_.finished(p.dirty_tag);
    }
    take_home(page.value(), header.number);
  } else {
    serve_kept(page.value());
  }
  return true;
}

bool Pages::outdated(std::uint32_t page, std::uint32_t version) const {
  const Page& p = pages_[page];
  return p.access != Access::kNone && older(p.version, version);
}

// PG-14
bool Pages::on_invalidate(ClusterId from, PageId first, std::uint32_t version, ByteView others) {
  const RunVersions versions{version, others};
  const std::uint32_t pages = versions.pages();
  if (!inside(first.value(), pages, pages_.size()) || from == self_) return false;
  for (std::uint32_t i = 0; i < pages; ++i) {
    const Page& p = pages_[first.value() + i];
    // PG-24: the copy that it is about came from this home, or still is on its way from it.
    if (here(p) || (p.home != from.value() && p.fetch != Stage::kSent)) return false;
  }
  const std::size_t most = config_.clusters * std::size_t{config_.flush_window};
  if (outbox_.pending(from, Kind::kInvalidateAck) + pages > most) return false;

  counts_.invalidations_received += pages;
  for (std::uint32_t i = 0; i < pages; ++i) {
    const std::uint32_t page = first.value() + i;
    Page& p = pages_[page];
    const bool owes = p.flush != Stage::kNone || p.content == Content::kDirty;  // PG-23
    outbox_.push(from, {.kind = Kind::kInvalidateAck, .format = owes, .id = page, .number = versions[i]});
    if (p.fetch == Stage::kSent) {  // the copy that it is about may still be on its way
      if (!p.has_minimum || older(p.version, versions[i])) p.version = versions[i];
      p.has_minimum = true;
    } else if (outdated(page, versions[i])) {
      std::uint32_t end = i + 1;  // PG-21: with those behind it in one call
      while (end < pages && outdated(first.value() + end, versions[end])) ++end;
      set_access(page, end - i, Access::kNone);
      for (std::uint32_t k = i; k < end; ++k) forget_copy(first.value() + k);
    }
  }
  return true;
}

// The page has just been closed for good.
void Pages::forget_copy(std::uint32_t page) {
  Page& p = pages_[page];
  if (p.content == Content::kClean) {
    p.content = Content::kInvalid;
    return;
  }
  if (mutant(Mutant::kForgetChanges)) std::memcpy(twin(p.twin), memory_.page(PageId(page)), kPageBytes);
  // Dirty: the bytes stay for the diff, which goes to the home at once so that a fault here need not wait for
  // a release.
  if (p.flush == Stage::kQueued || p.listed == Listed::kUrgent || p.flush_again) return;
  unlink(page);
  if (p.flush == Stage::kSent)
    p.flush_again = true;  // PG-3
  else
    push(Listed::kUrgent, page);
}

}  // namespace braid::dsm
