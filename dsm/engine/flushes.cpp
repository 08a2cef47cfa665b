#include "dsm/engine/flushes.h"

namespace braid::dsm {

Flushes::Flushes(const EngineConfig& config)
    : window_(config.flush_window), releases_(config), states_(config.pages) {
  CHECK_GT(config.flush_window, 0u);
}

void Flushes::add(std::uint32_t page, Side side) {
  states_[page].side = side;
  states_[page].dirty_tag = releases_.began();
  push(side == Side::kCopy ? Listed::kCopies : Listed::kMasters, page);
}

void Flushes::drop(std::uint32_t page) {
  unlink(page);
  releases_.finished(states_[page].dirty_tag);
}

// The first page that may be flushed: an urgent one, else one that a release covers.
std::uint32_t Flushes::first() const {
  if (list(Listed::kUrgent).first != kNoPages) return list(Listed::kUrgent).first;
  for (const Listed which : {Listed::kCopies, Listed::kMasters}) {
    const std::uint32_t page = list(which).first;
    if (page != kNoPages && !added_since_release(page)) return page;
  }
  return kNoPages;
}

// PG-18
std::uint32_t Flushes::next(std::uint32_t neighbour) {
  while (in_flight_ < window_) {
    const bool covered = neighbour < states_.size() && states_[neighbour].listed != Listed::kNot &&
                         !added_since_release(neighbour);
    const std::uint32_t page = covered ? neighbour : first();
    if (page == kNoPages) return kNoPages;
    unlink(page);
    if (states_[page].flight == Flight::kNone) return page;
    states_[page].second = true;  // PG-3
    neighbour = page + 1;
  }
  return kNoPages;
}

bool Flushes::hastened(std::uint32_t page) const {
  const State& s = states_[page];
  return s.listed == Listed::kUrgent || s.second || s.flight == Flight::kQueued;
}

void Flushes::hasten(std::uint32_t page) {
  const State& s = states_[page];
  if (hastened(page)) return;
  unlink(page);
  if (s.flight == Flight::kNone)
    push(Listed::kUrgent, page);
  else
    states_[page].second = true;  // PG-3
}

void Flushes::begin(std::uint32_t page) {
  State& s = states_[page];
  CHECK(s.flight == Flight::kNone && s.listed == Listed::kNot);
  s.flight = Flight::kQueued;
  ++in_flight_;
  copies_in_flight_ += s.side == Side::kCopy;
}

void Flushes::begin_sent(std::uint32_t page) {
  begin(page);
  sent(page);
}

void Flushes::sent(std::uint32_t page) {
  State& s = states_[page];
  CHECK(s.flight == Flight::kQueued);
  s.flight = Flight::kSent;
  s.flight_tag = s.dirty_tag;
}

void Flushes::end(std::uint32_t page) {
  State& s = states_[page];
  CHECK(s.flight == Flight::kSent);
  s.flight = Flight::kNone;
  --in_flight_;
  copies_in_flight_ -= s.side == Side::kCopy;
  releases_.finished(s.flight_tag);
  if (!s.second) return;
  s.second = false;
  push(Listed::kUrgent, page);
}

void Flushes::push(Listed which, std::uint32_t page) {
  State& s = states_[page];
  CHECK(s.listed == Listed::kNot && which != Listed::kNot);
  List& l = list(which);
  s.listed = which;
  s.previous = l.last;
  s.following = kNoPages;
  (l.last == kNoPages ? l.first : states_[l.last].following) = page;
  l.last = page;
  ++l.size;
}

void Flushes::unlink(std::uint32_t page) {
  State& s = states_[page];
  CHECK(s.listed != Listed::kNot);
  List& l = list(s.listed);
  (s.previous == kNoPages ? l.first : states_[s.previous].following) = s.following;
  (s.following == kNoPages ? l.last : states_[s.following].previous) = s.previous;
  s.listed = Listed::kNot;
  --l.size;
}

bool Flushes::quiet() const {
  return in_flight_ == 0 && releases_.in_progress() == 0 && list(Listed::kUrgent).size == 0;
}

void Flushes::check_page(std::uint32_t page, Side side, bool dirty) const {
  const State& s = states_[page];
  const bool waits = s.listed != Listed::kNot || s.second;
  // A dirty page's changes have a way out: a release, a flush of their own, or the flush that is queued.
  CHECK_EQ(dirty, waits || s.flight == Flight::kQueued);
  CHECK(!(waits && s.flight == Flight::kQueued));
  CHECK(!s.second || (s.flight == Flight::kSent && s.listed == Listed::kNot));  // PG-3
  CHECK(s.listed != Listed::kUrgent || s.flight == Flight::kNone);
  CHECK(s.listed != Listed::kCopies || side == Side::kCopy);
  CHECK(s.listed != Listed::kMasters || side == Side::kMaster);
  CHECK((!dirty && s.flight == Flight::kNone) || s.side == side);
}

void Flushes::check() const {
  std::uint32_t in_flight = 0, copies = 0;
  std::uint64_t write_sets = 0;  // each is counted by the release that covers it
  std::array<std::uint32_t, 4> listed = {};
  for (const State& s : states_) {
    const bool flies = s.flight != Flight::kNone;
    in_flight += flies;
    copies += flies && s.side == Side::kCopy;
    write_sets += s.listed != Listed::kNot || s.second || s.flight == Flight::kQueued;
    write_sets += s.flight == Flight::kSent;
    ++listed[static_cast<std::size_t>(s.listed)];
  }
  CHECK_EQ(in_flight, in_flight_);
  CHECK_LE(in_flight_, window_);
  CHECK_EQ(copies, copies_in_flight_);
  CHECK_EQ(write_sets, releases_.unacknowledged());
  for (std::size_t which = 1; which < lists_.size(); ++which) CHECK_EQ(listed[which], lists_[which].size);
}

void Flushes::describe_page(std::uint32_t page, bool dirty, StateSink& sink) const {
  const State& s = states_[page];
  sink.values(s.flight, s.listed, s.second);
  if (dirty) sink.value(releases_.age(s.dirty_tag));
  if (s.flight == Flight::kSent) sink.value(releases_.age(s.flight_tag));
}

void Flushes::describe(StateSink& sink) const {
  for (const List& l : lists_) {
    for (std::uint32_t page = l.first; page != kNoPages; page = states_[page].following) sink.value(page);
    sink.value(kNoPages);
  }
  releases_.describe(sink);
}

}  // namespace braid::dsm
