// How what was written gets out: the lists of dirty pages, releases, the window of flushes, and the twins.
#include <cstring>

#include "base/check.h"
#include "dsm/engine/pages.h"

namespace braid::dsm {

void Pages::set_access(std::uint32_t first, std::uint32_t count, Access access) {
  memory_.protect(PageId(first), count, access);
  for (std::uint32_t i = first; i < first + count; ++i) pages_[i].access = access;
}

// The page's first write since its last flush began; the caller opens it afterwards.
void Pages::track(std::uint32_t page, Listed which) {
  Page& p = pages_[page];
  p.content = Content::kDirty;
  p.dirty_tag = releases_.began();
  push(which, page);
}

// PG-17. The lists are in the order of the tags, so what this release covers and none before did is at their
// ends.
void Pages::begin_release(ReleaseFor why) {
  for (const Listed which : {Listed::kCopies, Listed::kMasters}) {
    for (std::uint32_t page = list(which).last; page != kNone;) {
      Page& p = pages_[page];
      if (p.dirty_tag != releases_.open()) break;
      const std::uint32_t before = p.previous;
      if (which == Listed::kMasters && unshared(masters_[page])) {  // PG-13
        unlink(page);
        p.content = Content::kClean;
        releases_.finished(p.dirty_tag);
      } else if (p.access == Access::kWrite) {
        close_run(page);
      }
      page = before;
    }
  }
  releases_.seal(why);
}

// Closes the page and its neighbours that the same release closes: a call costs about 20 us while siblings
// run, however many pages it covers.
void Pages::close_run(std::uint32_t page) {
  const auto closes = [this](std::uint32_t i) {
    const Page& p = pages_[i];
    return p.content == Content::kDirty && p.access == Access::kWrite && p.dirty_tag == releases_.open() &&
           !(here(p) && unshared(masters_[i]));
  };
  std::uint32_t first = page, end = page + 1;
  while (first > 0 && closes(first - 1)) --first;
  while (end < pages_.size() && closes(end)) ++end;
  set_access(first, end - first, Access::kRead);
}

void Pages::pump() {
  for (;;) {
    start_flushes();
    if (twin_waiters_.empty()) return;
    if (!free_twins_.empty()) {
      const std::uint16_t node = twin_waiters_.front();
      twin_waiters_.erase(twin_waiters_.begin());
      nodes_[node].wait = Wait::kNothing;
      (void)attempt(node);
      continue;
    }
    // PG-8: as many twins on their way back as nodes that wait for one.
    const std::uint32_t coming = copies_in_flight_ + list(Listed::kUrgent).size;
    if (twin_waiters_.size() <= coming || !flush_early()) return;
  }
}

bool Pages::flush_early() {
  const std::uint32_t oldest = list(Listed::kCopies).first;
  if (oldest == kNone) return false;
  unlink(oldest);
  if (pages_[oldest].flush == Stage::kNone)
    push(Listed::kUrgent, oldest);
  else
    pages_[oldest].flush_again = true;
  return true;
}

// PG-18
void Pages::start_flushes() {
  const auto sealed = [this](std::uint32_t page) { return pages_[page].dirty_tag != releases_.open(); };
  const auto next = [&]() -> std::uint32_t {
    if (list(Listed::kUrgent).first != kNone) return list(Listed::kUrgent).first;
    for (const Listed which : {Listed::kCopies, Listed::kMasters})
      if (list(which).first != kNone && sealed(list(which).first)) return list(which).first;
    return kNone;
  };
  std::uint32_t behind = kNone;
  while (in_flight_ < config_.flush_window) {
    // PG-21: neighbours one after the other, so that what is sent about them can share messages.
    std::uint32_t page = behind;
    if (page == kNone || page == pages_.size() || pages_[page].listed == Listed::kNot || !sealed(page))
      page = next();
    if (page == kNone) return;
    behind = page + 1;
    unlink(page);
    if (pages_[page].flush == Stage::kNone)
      start_flush(page);
    else
      pages_[page].flush_again = true;  // PG-3
  }
}

void Pages::start_flush(std::uint32_t page) {
  Page& p = pages_[page];
  CHECK(p.content == Content::kDirty && p.flush == Stage::kNone);
  if (here(p)) return flush_master(page);
  if (p.access == Access::kWrite) set_access(page, 1, Access::kRead);            // PG-6
  if (std::memcmp(memory_.page(PageId(page)), twin(p.twin), kPageBytes) == 0) {  // PG-7
    drop_twin(page);
    releases_.finished(p.dirty_tag);
    if (p.fetch == Stage::kWaiting) ask_home(page);
    return;
  }
  p.flush = Stage::kQueued;
  ++in_flight_;
  ++copies_in_flight_;
  outbox_.push(ClusterId(p.home), {.kind = Kind::kDiff, .id = page});
}

void Pages::end_flush(std::uint32_t page) {
  Page& p = pages_[page];
  p.flush = Stage::kNone;
  --in_flight_;
  if (!here(p)) --copies_in_flight_;
  releases_.finished(p.flight_tag);
  if (p.flush_again) {
    p.flush_again = false;
    push(Listed::kUrgent, page);
  } else if (p.fetch == Stage::kWaiting && p.content == Content::kInvalid) {
    ask_home(page);
  }
}

void Pages::push(Listed which, std::uint32_t page) {
  Page& p = pages_[page];
  CHECK(p.listed == Listed::kNot && which != Listed::kNot);
  List& l = list(which);
  p.listed = which;
  p.previous = l.last;
  p.following = kNone;
  (l.last == kNone ? l.first : pages_[l.last].following) = page;
  l.last = page;
  ++l.size;
}

void Pages::unlink(std::uint32_t page) {
  Page& p = pages_[page];
  CHECK(p.listed != Listed::kNot);
  List& l = list(p.listed);
  (p.previous == kNone ? l.first : pages_[p.previous].following) = p.following;
  (p.following == kNone ? l.last : pages_[p.following].previous) = p.previous;
  p.previous = p.following = kNone;
  p.listed = Listed::kNot;
  --l.size;
}

}  // namespace braid::dsm
