#include "dsm/engine/copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "dsm/engine/diff.h"

namespace braid::dsm {

Copies::Copies(const Parts& parts)
    : config_(parts.config),
      self_(parts.config.cluster),
      table_(parts.table),
      flushes_(parts.flushes),
      outbox_(parts.outbox),
      nodes_(parts.nodes),
      counts_(parts.counts),
      notices_(parts.notices),
      twins_(parts.config) {}

// --- Faults

bool Copies::fault(std::uint16_t node) {
  const ComputeNode& n = nodes_[node];
  const std::uint32_t page = n.page.value();
  const Page& p = table_[page];
  if (p.access == Access::kNone) {  // no copy, or an invalid one whose changes must reach the home first
    if (p.fetch == Fetch::kNone) ++nodes_[node].counts.fetches;
    want_fetch(page);
    fetch_ahead(node, page);
    return wait_for(node, Wait::kFetch);
  }
  if (p.content == Content::kDirty) {
    // Closed for a flush whose diff is not taken yet: writes from now on are part of it (PG-6).
    table_.set_access(page, 1, Access::kWrite);
    return true;
  }
  return make_dirty(page) || wait_for(node, Wait::kTwin);
}

bool Copies::wait_for(std::uint16_t node, Wait what) {
  nodes_[node].wait = what;
  if (what == Wait::kTwin) twins_.add_waiter(node);
  return false;
}

// A clean copy becomes writable; false when there is no twin for it (PG-8).
bool Copies::make_dirty(std::uint32_t page) {
  if (twins_.empty()) return false;
  table_[page].twin = twins_.take(table_.bytes(page));  // PG-4: before any node may write
  table_[page].content = Content::kDirty;
  flushes_.add(page, Flushes::Side::kCopy);
  table_.set_access(page, 1, Access::kWrite);
  return true;
}

void Copies::drop_twin(std::uint32_t page) {
  Page& p = table_[page];
  twins_.give_back(p.twin);
  p.twin = Page::kNoTwin;
  p.content = p.access == Access::kNone ? Content::kInvalid : Content::kClean;
}

std::optional<std::uint16_t> Copies::pop_twin_waiter() {
  if (twins_.waiters() == 0 || twins_.empty()) return std::nullopt;
  const std::uint16_t node = twins_.pop_waiter();
  nodes_[node].wait = Wait::kNothing;
  return node;
}

bool Copies::twins_are_coming() {
  if (twins_.waiters() <= flushes_.copies_soon_flushed()) return true;
  const std::uint32_t oldest = flushes_.oldest_copy();
  if (oldest == kNoPages) return true;
  flushes_.hasten(oldest);
  return false;
}

// --- Fetches

// PG-5: one fetch serves every node that faults meanwhile.
void Copies::want_fetch(std::uint32_t page) {
  Page& p = table_[page];
  if (p.fetch != Fetch::kNone) return;
  const Flushes::Flight flight = flushes_.flight(page);
  const bool flushed = flight == Flushes::Flight::kNone && p.content == Content::kInvalid;
  if (flushed || (flight == Flushes::Flight::kSent && mutant(Mutant::kAskDuringOwnFlush)))
    ask_home(page);
  else
    p.fetch = Fetch::kWaiting;  // PG-2
}

void Copies::ask_home(std::uint32_t page, std::uint32_t begins_run) {
  Page& p = table_[page];
  p.fetch = Fetch::kQueued;
  p.has_minimum = false;  // everything that the home sends from now on is newer
  outbox_.push(table_.home(page), {.kind = Kind::kPageRequest, .id = page, .number = begins_run});
}

// PG-25: the node missed `page`. If it reads or writes pages a stride apart, the next ones are fetched ahead, more at
// a time during a longer scan.
void Copies::fetch_ahead(std::uint16_t node, std::uint32_t page) {
  if (config_.fetch_ahead == 0) return;
  const Access access = nodes_[node].wanted;
  Scan& scan = nodes_[node].scans.of(access);
  std::uint32_t wanted = scan.missed(page, config_.fetch_ahead, config_.scan_ahead,
                                     access == Access::kWrite ? Scan::kPartOfWrites : 0);
  std::uint32_t begins_run =
      kBeginsRun;  // PG-28: the page that the node waits for does not wait for the others
  for (; wanted > 0 && room_ahead(); --wanted, scan.advance()) {
    if (scan.next() < 0 || scan.next() >= table_.size()) return;
    const auto next = static_cast<std::uint32_t>(scan.next());
    if (can_fetch_ahead(next)) fetch_one_ahead(next, std::exchange(begins_run, 0));
  }
}

bool Copies::room_ahead() const {
  return ahead_ < config_.compute_nodes * config_.most_ahead();
}

bool Copies::can_fetch_ahead(std::uint32_t page) const {
  const Page& p = table_[page];
  return !table_.here(page) && p.placed && p.content == Content::kInvalid && p.fetch == Fetch::kNone &&
         flushes_.flight(page) == Flushes::Flight::kNone;
}

void Copies::fetch_one_ahead(std::uint32_t page, std::uint32_t begins_run) {
  table_[page].ahead = true;
  ++ahead_;
  ++counts_.fetched_ahead;
  ask_home(page, begins_run);
}

// PG-25
void Copies::prefetch(std::uint32_t first, std::uint32_t count) {
  std::uint32_t begins_run = kBeginsRun;
  for (std::uint32_t page = first; page < first + count && room_ahead(); ++page)
    if (can_fetch_ahead(page)) fetch_one_ahead(page, std::exchange(begins_run, 0));
}

void Copies::end_fetch(std::uint32_t page) {
  Page& p = table_[page];
  p.fetch = Fetch::kNone;
  p.has_minimum = false;
  ahead_ -= p.ahead;
  p.ahead = false;
}

bool Copies::waits_for(const ComputeNode& node, std::uint32_t page) const {
  return node.wait == Wait::kFetch && node.page.value() == page;
}

bool Copies::anybody_waits_for(std::uint32_t page) const {
  return std::ranges::any_of(nodes_, [&](const ComputeNode& n) { return waits_for(n, page); });
}

void Copies::wake_waiters(std::uint32_t page) {
  for (ComputeNode& n : nodes_)
    if (waits_for(n, page)) n.wait = Wait::kNothing;
}

// PG-22
Copies::Outcome Copies::on_home_reply(ClusterId from, const Header& header, ByteView payload) {
  if (!table_.contains(PageId(header.id)) || !payload.empty() || from == self_) return Outcome::kRefused;
  const std::uint32_t page = header.id;
  if (table_[page].fetch != Fetch::kSent || stale(page, header.number)) return Outcome::kRefused;
  end_fetch(page);  // its first contents are here since its allocation
  return Outcome::kHomeHere;
}

// PG-15: the version is older than an invalidation that came since the request left.
bool Copies::stale(std::uint32_t page, std::uint32_t version) const {
  return table_[page].has_minimum && older(version, table_[page].version);
}

// PG-28: the pages of a run are judged one by one; those that are neighbours still are installed together.
bool Copies::on_page_reply(ClusterId from, PageId id, const RunOfPages& run) {
  const std::uint32_t first = id.value(), pages = run.pages();
  if (!inside(first, pages, table_.size()) || from == self_) return false;
  for (std::uint32_t page = first; page < first + pages; ++page)
    if (table_[page].fetch != Fetch::kSent) return false;

  const auto is_stale = [&](std::uint32_t i) {
    if (mutant(Mutant::kInstallStaleReply) || (i > 0 && mutant(Mutant::kJudgeRunByFirst))) return false;
    return stale(first + i, run.versions[i]);
  };
  for (std::uint32_t i = 0; i < pages;) {
    table_[first + i].home = from.value();  // PG-24: the sender is the home
    if (is_stale(i)) {
      drop_stale(first + i++);
      continue;
    }
    std::uint32_t end = i + 1;
    for (; end < pages && !is_stale(end); ++end) table_[first + end].home = from.value();
    install(first + i, end - i, run, i);
    i = end;
  }
  return true;
}

void Copies::drop_stale(std::uint32_t page) {
  ++counts_.stale_replies;
  if (anybody_waits_for(page))
    ask_home(page);
  else
    end_fetch(page);  // PG-25: no node needed it
}

// The pages are those of the run from index `at` on.
void Copies::install(std::uint32_t first, std::uint32_t count, const RunOfPages& run, std::uint32_t at) {
  const std::size_t bytes = config_.page_length.bytes_of(count);
  std::memcpy(table_.bytes(first), run.page(at), bytes);  // PG-4: filled before they are opened
  for (std::uint32_t i = 0; i < count; ++i) {
    Page& p = table_[first + i];
    p.version = run.versions[at + i];
    end_fetch(first + i);
    p.content = Content::kClean;
  }
  open_installed(first, count);
  for (std::uint16_t node = 0; node < nodes_.size(); ++node) {
    ComputeNode& n = nodes_[node];
    if (n.wait != Wait::kFetch || n.page.value() - first >= count) continue;
    n.wait = Wait::kNothing;
    if (n.wanted > table_[n.page.value()].access) (void)wait_for(node, Wait::kTwin);
  }
}

// Opens the pages for writing where a node waits to write and there is a twin, the others for reading with one call
// for all neighbours.
void Copies::open_installed(std::uint32_t first, std::uint32_t count) {
  for (const ComputeNode& n : nodes_) {
    const std::uint32_t page = n.page.value();
    const bool writes = n.wait == Wait::kFetch && n.wanted == Access::kWrite && page - first < count;
    if (writes && table_[page].access == Access::kNone) (void)make_dirty(page);
  }
  for (std::uint32_t i = 0; i < count;) {
    std::uint32_t run = 0;
    while (i + run < count && table_[first + i + run].access == Access::kNone) ++run;
    if (run != 0) table_.set_access(first + i, run, Access::kRead);
    i += run != 0 ? run : 1;
  }
}

// --- Flushes

void Copies::flush(std::uint32_t page) {
  Page& p = table_[page];
  CHECK(p.content == Content::kDirty);
  if (p.access == Access::kWrite) table_.set_access(page, 1, Access::kRead);                      // PG-6
  if (std::memcmp(table_.bytes(page), twins_.bytes(p.twin), config_.page_length.bytes()) == 0) {  // PG-7
    drop_twin(page);
    flushes_.nothing_new(page);
    if (p.fetch == Fetch::kWaiting) ask_home(page);
    return;
  }
  flushes_.begin(page);
  outbox_.push(table_.home(page), {.kind = Kind::kDiff, .id = page});
}

// PG-6: the diff is made when it leaves: it needs no room while it waits, and includes what was written
// meanwhile.
std::optional<std::size_t> Copies::write_diff(std::uint32_t page, Header& header, MutableBytes room) {
  const Page& p = table_[page];
  CHECK(p.content == Content::kDirty);
  if (p.access == Access::kWrite) table_.set_access(page, 1, Access::kRead);
  const EncodedDiff diff = encode_diff(config_.page_length, table_.bytes(page), twins_.bytes(p.twin), room);
  if (diff.bytes > room.size()) return std::nullopt;
  drop_twin(page);
  flushes_.sent(page);
  header.format = static_cast<std::uint8_t>(diff.format);
  if (config_.protocol == Protocol::kLazy) header.number = p.version;
  ++counts_.diffs_sent;
  counts_.diff_bytes_sent += diff.bytes;
  return diff.bytes;
}

Copies::Outcome Copies::on_diff_done(ClusterId from, PageId id, const Header& header) {
  if (!table_.contains(id)) return Outcome::kRefused;
  const std::uint32_t page = id.value();
  Page& p = table_[page];
  const bool moves = header.format != 0;
  if (p.home != from.value() || table_.here(page)) return Outcome::kRefused;
  if (flushes_.flight(page) != Flushes::Flight::kSent) return Outcome::kRefused;
  if (moves && p.access == Access::kNone) return Outcome::kRefused;  // PG-23: the new home has a copy
  if (p.access != Access::kNone && older(p.version, header.number) && has_all_before(page, header.number))
    p.version = header.number;
  notices_.written(page, header.number);  // LZ-1
  flushes_.end(page);
  if (!moves && outdated(page, header.number)) {  // LZ-4
    table_.set_access(page, 1, Access::kNone);
    forget_copy(page);
  }
  if (p.fetch == Fetch::kWaiting && p.content == Content::kInvalid) ask_home(page);
  if (!moves) return Outcome::kDone;
  if (p.content == Content::kDirty) {  // writes since the diff are the home's own now (PG-13)
    flushes_.drop(page);
    drop_twin(page);
  }
  return Outcome::kHomeHere;
}

// PG-16: a copy that is still valid was left out of the round, so it is as new as the round. In the lazy protocol
// other writers' rounds may have left it out, too.
bool Copies::has_all_before(std::uint32_t page, std::uint32_t version) const {
  return config_.protocol == Protocol::kEager || table_[page].version + 1 == version ||
         mutant(Mutant::kBelieveOwnCopy);
}

// --- Invalidations

bool Copies::owes_changes(std::uint32_t page) const {
  return flushes_.flight(page) != Flushes::Flight::kNone || table_[page].content == Content::kDirty;
}

bool Copies::outdated(std::uint32_t page, std::uint32_t version) const {
  const Page& p = table_[page];
  return !table_.here(page) && p.access != Access::kNone && older(p.version, version);
}

// PG-14
bool Copies::on_invalidate(ClusterId from, PageId id, std::uint32_t version, ByteView others) {
  const RunVersions versions{version, others};
  const std::uint32_t first = id.value(), pages = versions.pages();
  if (!inside(first, pages, table_.size()) || from == self_) return false;
  for (std::uint32_t page = first; page < first + pages; ++page) {
    // PG-24: the copy in question came from this home, or is in flight from it.
    if (table_.here(page)) return false;
    if (table_.home(page) != from && table_[page].fetch != Fetch::kSent) return false;
  }
  const std::size_t most = config_.clusters * std::size_t{config_.flush_window};
  if (outbox_.pending(from, Kind::kInvalidateAck) + pages > most) return false;

  counts_.invalidations_received += pages;
  for (std::uint32_t i = 0; i < pages; ++i)
    outbox_.push(from, {.kind = Kind::kInvalidateAck,
                        .format = owes_changes(first + i),  // PG-23
                        .id = first + i,
                        .number = versions[i]});
  drop_outdated(first, versions);
  return true;
}

void Copies::drop_outdated(std::uint32_t first, const RunVersions& versions) {
  const std::uint32_t pages = versions.pages();
  for (std::uint32_t i = 0; i < pages; ++i) {
    Page& p = table_[first + i];
    if (p.fetch == Fetch::kSent) {  // the copy in question may be in flight
      if (!p.has_minimum || older(p.version, versions[i])) p.version = versions[i];
      p.has_minimum = true;
    } else if (outdated(first + i, versions[i])) {
      std::uint32_t end = i + 1;  // PG-21: with the following pages in one call
      while (end < pages && outdated(first + end, versions[end])) ++end;
      table_.set_access(first + i, end - i, Access::kNone);
      for (std::uint32_t k = i; k < end; ++k) forget_copy(first + k);
    }
  }
}

// The page has just been closed for good.
void Copies::forget_copy(std::uint32_t page) {
  Page& p = table_[page];
  if (p.content == Content::kClean) {
    p.content = Content::kInvalid;
    return;
  }
  if (mutant(Mutant::kForgetChanges))
    std::memcpy(twins_.bytes(p.twin), table_.bytes(page), config_.page_length.bytes());
  // Dirty: the bytes are kept for the diff, which is sent at once so that a fault here need not wait for
  // a release.
  flushes_.hasten(page);
}

// --- Observation

void Copies::check_page(std::uint32_t page) const {
  const Page& p = table_[page];
  const Flushes::Flight flight = flushes_.flight(page);
  CHECK(!p.ahead || p.fetch != Fetch::kNone);
  if (table_.here(page)) return;
  CHECK_EQ(p.content == Content::kDirty, p.twin != Page::kNoTwin);
  CHECK((p.content != Content::kInvalid || p.access == Access::kNone));
  CHECK((p.content != Content::kClean || p.access == Access::kRead));
  // A dirty page is closed only if its changes are sent without a release.
  CHECK(p.content != Content::kDirty || p.access != Access::kNone || flushes_.hastened(page));
  CHECK(p.fetch == Fetch::kNone || p.access == Access::kNone);
  if (p.fetch == Fetch::kQueued || p.fetch == Fetch::kSent)  // PG-1, PG-2
    CHECK(flight == Flushes::Flight::kNone && p.content == Content::kInvalid);
}

void Copies::check() const {
  std::uint32_t ahead = 0, twins = 0;
  for (std::uint32_t page = 0; page < table_.size(); ++page) {
    ahead += table_[page].ahead;
    twins += table_[page].twin != Page::kNoTwin;
  }
  CHECK_EQ(ahead, ahead_);
  CHECK_LE(ahead_, config_.compute_nodes * config_.most_ahead());
  CHECK_EQ(twins, twins_.taken());
}

void Copies::describe_page(std::uint32_t page, StateSink& sink) const {
  const Page& p = table_[page];
  sink.values(p.fetch, p.ahead, p.has_minimum);
  if (p.twin != Page::kNoTwin) sink.bytes({twins_.bytes(p.twin), config_.page_length.bytes()});
  const bool diff_has_version = config_.protocol == Protocol::kLazy && p.content == Content::kDirty;
  if (!table_.here(page) && (p.access != Access::kNone || p.has_minimum || diff_has_version))
    sink.version(PageId(page), p.version);
}

}  // namespace braid::dsm
