#include "sim/races/detector.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string_view>

#include "base/bytes.h"
#include "base/system_error.h"
#include "dsm/program/heap.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/stack_trace.h"
#include "sim/races/call_places.h"

// The first byte of the program in memory; the linker's.
extern "C" const char __executable_start;  // NOLINT

namespace braid::sim {

namespace {

constexpr std::size_t kGranule = 8;
constexpr std::size_t kMaxSites = 4096;
constexpr std::size_t kSiteCalls = 12;
constexpr std::uint32_t kMaxPairs = 4096;
// Different calls of the program that synchronise; those of further ones are not known. A power of two.
constexpr std::uint32_t kPlaces = 1u << 14;
constexpr std::size_t kPlaceCalls = CallPlaces::kCalls;
// Of each compute node; older ones are forgotten. A power of two.
constexpr std::uint32_t kSteps = 1u << 14;
// 4 GiB of accesses; memory is taken as they are made.
constexpr std::uint32_t kMaxAccesses = 1u << 28;

// The objects of each kind, in the order of RaceDetector::Object.
constexpr unsigned kObjects[] = {
    dsm::kNumberedLocks, dsm::kFlags, dsm::kSemaphores, dsm::kWords, dsm::kBarriers, dsm::kBarriers, 2, 2, 0};
// Those at addresses; further ones share a row. A power of two.
constexpr std::uint32_t kMostNamed = 1u << 20;
constexpr std::uint32_t kNameSlots = 2 * kMostNamed;

unsigned objects(unsigned clusters) {
  unsigned all = clusters;
  for (const unsigned count : kObjects) all += count;
  return all;
}

std::uintptr_t program() {
  return reinterpret_cast<std::uintptr_t>(&__executable_start);
}

// 0: the code is not the program's own, but a shared library's.
std::uint32_t relative(std::uintptr_t pc) {
  const std::uintptr_t offset = pc - program();
  return offset <= UINT32_MAX ? static_cast<std::uint32_t>(offset) : 0;
}

const char* name(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
      return "read";
    case AccessKind::kWrite:
      return "write";
    case AccessKind::kAtomic:
      return "atomic access";
  }
  return "";
}

const char* name(RaceDetector::Action action) {
  using Action = RaceDetector::Action;
  switch (action) {
    case Action::kNone:
      return "";
    case Action::kLocked:
      return "locked";
    case Action::kUnlocked:
      return "unlocked";
    case Action::kPassed:
      return "passed";
    case Action::kSet:
      return "set";
    case Action::kWaitedFor:
      return "waited for";
    case Action::kPosted:
      return "posted";
    case Action::kTookOneOf:
      return "took one of";
    case Action::kRead:
      return "read";
    case Action::kWrote:
      return "wrote";
    case Action::kChanged:
      return "changed";
    case Action::kBegan:
      return "began";
    case Action::kEnded:
      return "ended";
  }
  return "";
}

// The variable's name is added where the object is in the program's globals: "the lock at 0x404040 (table_lock)".
std::string with_variable(std::string name, std::uintptr_t address) {
  if (!dsm::in_globals(address)) return name;
  const dsm::DataSymbol variable = dsm::data_symbol(address);
  if (!variable.name.empty()) name += fmt::format(" ({})", variable.name);
  return name;
}

std::string name(RaceDetector::Thing thing, std::uint32_t id) {
  using Thing = RaceDetector::Thing;
  const auto object = [&](const char* kind, std::uint32_t numbered) {
    return with_variable(dsm::name_of_object(kind, id, numbered), dsm::address_of_object(id, numbered));
  };
  switch (thing) {
    case Thing::kLock:
      return with_variable(dsm::name_of_lock(dsm::LockId(id)), dsm::address_of_lock(dsm::LockId(id)));
    case Thing::kCondition:
      return object("condition", dsm::kConditions);
    case Thing::kFlag:
      return object("flag", dsm::kFlags);
    case Thing::kSemaphore:
      return object("semaphore", dsm::kSemaphores);
    case Thing::kWord:
      return object("word", dsm::kWords);
    case Thing::kBarrier:
      return object("barrier", dsm::kBarriers);
    case Thing::kGathering:
      return object("barrier", 0);
    case Thing::kClusters:
      return "a barrier of the clusters";
    case Thing::kParallel:
      return "parallel()";
    case Thing::kRunOnCluster:
      return "run_on_cluster()";
  }
  return "";
}

void set(RaceText& text, std::string_view all) {
  text.fill(0);
  all.copy(text.data(), text.size() - 1);
}

}  // namespace

// Of a call: the program's own is among them. All 0: the slot is free.
struct RaceDetector::Place {
  std::uint32_t calls[kPlaceCalls] = {};
};

// Kept at its clock modulo kSteps.
struct RaceDetector::PastStep {
  std::uint32_t clock;  // of the node, after it
  std::uint32_t id;
  std::uint32_t place;
  Action action;
  Thing thing;
};

struct RaceDetector::Site {
  std::size_t first = 0;  // offset in the heap
  std::size_t bytes = 0;
  std::uint32_t calls[kSiteCalls] = {};
};

// 0: the slot is free.
struct RaceDetector::Name {
  std::uint64_t object;
  std::uint32_t row;
};

struct RaceDetector::State {
  RaceReport report;
  std::uint32_t named;  // rows of objects at addresses
  std::uint32_t sites;
  std::uint32_t used;  // accesses, from 1
  std::uint32_t free;  // the first of the list
  std::uint32_t pairs;
  std::uint32_t texts;
  std::uint32_t places;
  std::uint64_t pair[kMaxPairs];  // of code addresses
  std::uint64_t text[kMaxPairs];  // hashes of two places' texts
};

Result<std::unique_ptr<RaceDetector>> RaceDetector::map(int fd, const dsm::Shape& shape) {
  std::unique_ptr<RaceDetector> detector(new RaceDetector(shape));
  const std::size_t bytes = detector->divide(nullptr);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return error("--check-races: cannot have a table of {} MiB: {}", bytes >> 20, cause_and_cure(errno));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED)
    return error("--check-races: cannot map a table of {} MiB: {}", bytes >> 20, cause_and_cure(errno));
  detector->divide(static_cast<std::byte*>(memory));
  // A node's own clock begins at 1, so that others have not seen its first accesses.
  for (unsigned local = 0; local < shape.compute; ++local) {
    const unsigned node = unsigned{shape.cluster} * shape.compute + local;
    detector->clocks_of(node)[node] = 1;
  }
  return detector;
}

RaceDetector::RaceDetector(const dsm::Shape& shape)
    : shape_(shape), nodes_(unsigned{shape.clusters} * shape.compute) {}

std::size_t RaceDetector::divide(std::byte* memory) {
  std::size_t used = 0;
  const auto part = [&]<class T>(T*& first, std::size_t count) {
    if (memory != nullptr) first = reinterpret_cast<T*>(memory + used);  // NOLINT
    used += round_up(count * sizeof(T), 64);
  };
  part(state_, 1);
  part(clocks_, (std::size_t{nodes_} + objects(shape_.clusters) + kMostNamed) * nodes_);
  part(names_, kNameSlots);
  part(sites_, kMaxSites);
  part(places_, kPlaces);
  part(steps_, std::size_t{nodes_} * kSteps);
  part(index_, shape_.heap_bytes() / kGranule);
  part(accesses_, kMaxAccesses);
  return used;
}

std::uint32_t* RaceDetector::clocks_of(Object object, unsigned id) const {
  if (object != Object::kCluster && id >= kObjects[static_cast<unsigned>(object)])
    return clocks_of(nodes_ + objects(shape_.clusters) + row_of(object, id));
  unsigned row = nodes_ + id;
  for (unsigned kind = 0; kind < static_cast<unsigned>(object); ++kind) row += kObjects[kind];
  return clocks_of(row);
}

unsigned RaceDetector::row_of(Object object, unsigned id) const {
  const std::uint64_t name = (std::uint64_t{static_cast<unsigned>(object)} + 1) << 32 | id;
  std::uint32_t slot = static_cast<std::uint32_t>(name * 0x9e37'79b9'7f4a'7c15u >> 40) & (kNameSlots - 1);
  for (; names_[slot].object != 0; slot = (slot + 1) & (kNameSlots - 1))
    if (names_[slot].object == name) return names_[slot].row;
  if (state_->named + 1 == kMostNamed) {
    state_->report.totals.is_incomplete = true;
    return state_->named;
  }
  names_[slot] = {name, state_->named++};
  return names_[slot].row;
}

void RaceDetector::release(unsigned node, Object object, unsigned id, const Step* step) {
  std::uint32_t* const own = clocks_of(node);
  std::uint32_t* const to = clocks_of(object, id);
  for (unsigned n = 0; n < nodes_; ++n) to[n] = std::max(to[n], own[n]);
  ++own[node];
  if (step != nullptr) note(node, *step);
}

void RaceDetector::acquire(unsigned node, Object object, unsigned id, const Step* step) {
  std::uint32_t* const own = clocks_of(node);
  const std::uint32_t* const from = clocks_of(object, id);
  for (unsigned n = 0; n < nodes_; ++n) own[n] = std::max(own[n], from[n]);
  if (step == nullptr) return;
  ++own[node];
  note(node, *step);
}

// ---------------------------------------------------------------- steps

void RaceDetector::note(unsigned node, const Step& step) {
  const std::uint32_t clock = clocks_of(node)[node];
  steps_[std::size_t{node} * kSteps + clock % kSteps] = {clock, step.id, step.place, step.action, step.thing};
}

const RaceDetector::PastStep* RaceDetector::step_before(unsigned node, std::uint32_t clock) const {
  const PastStep* const steps = steps_ + std::size_t{node} * kSteps;
  for (std::uint32_t back = 0; back < std::min(clock, kSteps); ++back) {
    const PastStep& step = steps[(clock - back) % kSteps];
    if (step.clock == clock - back) return &step;
    if (step.clock > clock) return nullptr;  // a later one has its slot
  }
  return nullptr;
}

const RaceDetector::PastStep* RaceDetector::step_after(unsigned node, std::uint32_t clock) const {
  const PastStep* const steps = steps_ + std::size_t{node} * kSteps;
  const std::uint32_t now = clocks_of(node)[node];
  for (std::uint32_t next = clock + 1; next <= now && next - clock < kSteps; ++next) {
    const PastStep& step = steps[next % kSteps];
    if (step.clock == next) return &step;
    if (step.clock > next) return nullptr;
  }
  return nullptr;
}

std::uint32_t RaceDetector::place_of(std::span<const std::uintptr_t> calls) {
  Place place;
  std::transform(calls.begin(), calls.begin() + static_cast<long>(std::min(calls.size(), kPlaceCalls)),
                 place.calls, relative);
  const auto is_free = [](const Place& p) {
    return std::ranges::all_of(p.calls, [](std::uint32_t call) { return call == 0; });
  };
  if (is_free(place)) return 0;
  std::uint64_t hash = 0;
  for (const std::uint32_t call : place.calls) hash = (hash ^ call) * 0x9e37'79b9'7f4a'7c15u;
  std::uint32_t slot = static_cast<std::uint32_t>(hash >> 40) & (kPlaces - 1);
  // Slot 0 stays free, and so does a quarter of the others.
  for (;; slot = (slot + 1) & (kPlaces - 1)) {
    if (slot == 0) continue;
    if (std::ranges::equal(places_[slot].calls, place.calls)) return slot;
    if (is_free(places_[slot])) break;
  }
  if (state_->places >= kPlaces / 4 * 3) return 0;
  ++state_->places;
  places_[slot] = place;
  return slot;
}

// ---------------------------------------------------------------- accesses

void RaceDetector::allocated(PageId first, std::size_t bytes, std::span<const std::uintptr_t> calls) {
  if (state_->sites == kMaxSites) return;
  Site& site = sites_[state_->sites++];
  site.first = dsm::page_length().bytes_of(first.value());
  site.bytes = bytes;
  std::transform(calls.begin(), calls.begin() + static_cast<long>(std::min(calls.size(), kSiteCalls)),
                 site.calls, relative);
}

namespace {

// From the heap's beginning, in the order of its pages.
std::size_t offset_of(std::uintptr_t address) {
  return dsm::page_length().bytes_of(dsm::page_of(address).value()) +
         dsm::page_length().offset_in_page(address);
}

}  // namespace

void RaceDetector::begin_again(std::uintptr_t address, std::size_t bytes) {
  const std::size_t first = offset_of(address) / kGranule;
  for (std::size_t granule = first; granule < first + bytes / kGranule; ++granule) {
    std::uint32_t& list = index_[granule];
    while (list != 0) drop(list);
  }
}

void RaceDetector::access(unsigned node, std::uintptr_t address, std::size_t bytes, AccessKind kind,
                          std::uintptr_t pc) {
  ++state_->report.totals.checks;
  Access access = {.clock = clocks_of(node)[node],
                   .pc = relative(pc),
                   .node = static_cast<std::uint16_t>(node),
                   .kind = kind};
  for (std::size_t at = offset_of(address); bytes > 0;) {
    const std::size_t first = at % kGranule;
    const std::size_t count = std::min(bytes, kGranule - first);
    access.bytes = static_cast<std::uint8_t>(((1u << count) - 1) << first);
    access_granule(at / kGranule, access);
    at += count;
    bytes -= count;
  }
}

// An earlier access is dropped where this one stands for it: any later access that races with it races with this one,
// too.
void RaceDetector::access_granule(std::size_t granule, const Access& access) {
  std::uint32_t* link = &index_[granule];
  while (*link != 0) {
    Access& earlier = accesses_[*link];
    const bool overlaps = (earlier.bytes & access.bytes) != 0;
    if (!overlaps) {
      link = &earlier.next;
      continue;
    }
    const bool as_strong = earlier.kind == AccessKind::kWrite || earlier.kind == access.kind;
    if (as_strong && earlier.node == access.node && earlier.clock == access.clock &&
        (earlier.bytes & access.bytes) == access.bytes)
      return;
    if (happened_before(earlier, access.node)) {
      if (access.kind == AccessKind::kWrite || access.kind == earlier.kind)
        earlier.bytes = static_cast<std::uint8_t>(earlier.bytes & ~access.bytes);
      if (earlier.bytes == 0) {
        drop(*link);
        continue;
      }
    } else if (conflict(earlier, access)) {
      found(earlier, access, granule);
    }
    link = &earlier.next;
  }
  const std::uint32_t slot = take();
  if (slot == 0) return;
  accesses_[slot] = access;
  accesses_[slot].next = index_[granule];
  index_[granule] = slot;
}

// Reads are none; atomic accesses are indivisible inside a cluster only.
bool RaceDetector::conflict(const Access& a, const Access& b) const {
  if (a.kind != b.kind) return true;
  return a.kind == AccessKind::kWrite ||
         (a.kind == AccessKind::kAtomic && a.node / shape_.compute != b.node / shape_.compute);
}

std::uint32_t RaceDetector::take() {
  if (state_->free != 0) {
    const std::uint32_t slot = state_->free;
    state_->free = accesses_[slot].next;
    return slot;
  }
  if (state_->used + 1 == kMaxAccesses) {
    state_->report.totals.is_incomplete = true;
    return 0;
  }
  return ++state_->used;
}

void RaceDetector::drop(std::uint32_t& list) {
  const std::uint32_t first = list;
  list = accesses_[first].next;
  accesses_[first].next = state_->free;
  state_->free = first;
}

// ---------------------------------------------------------------- the report

namespace {

// Of calls at most as many as an allocation has; 0: a call that is not the program's.
std::string place(std::span<const std::uint32_t> calls) {
  std::uintptr_t all[kSiteCalls];
  std::size_t count = 0;
  for (const std::uint32_t pc : calls) {
    if (pc != 0) all[count++] = program() + pc;
  }
  const std::string text = dsm::place_in_program({all, count});
  return text.empty() ? "code without debugging information" : text;
}

std::string tell(const RaceSide& side) {
  std::string text = fmt::format("{} by compute node {}.{} in {}\n", side.kind.data(), side.cluster,
                                 side.node, side.where.data());
  const auto add = [&](const char* when, const RaceStep& step) {
    if (step.what[0] != 0)
      text += fmt::format("braid:     {}: {} in {}\n", when, step.what.data(), step.where.data());
  };
  add("last before it", side.before);
  add("first after it", side.after);
  return text;
}

}  // namespace

std::string RaceDetector::place(const Access& access) const {
  return sim::place({&access.pc, 1});
}

void RaceDetector::describe(RaceSide& side, const Access& access) const {
  set(side.kind, name(access.kind));
  side.cluster = static_cast<std::uint16_t>(access.node / shape_.compute);
  side.node = static_cast<std::uint16_t>(access.node % shape_.compute);
  set(side.where, place(access));
  describe(side.before, step_before(access.node, access.clock));
  describe(side.after, step_after(access.node, access.clock));
}

void RaceDetector::describe(RaceStep& text, const PastStep* step) const {
  if (step == nullptr) return;
  set(text.what, fmt::format("{} {}", name(step->action), name(step->thing, step->id)));
  set(text.where, sim::place(places_[step->place].calls));
}

std::string RaceDetector::describe_allocation(std::size_t offset) const {
  for (const Site* site = sites_; site != sites_ + state_->sites; ++site) {
    if (offset - site->first >= site->bytes) continue;
    return fmt::format("at byte {} of the {} bytes that were allocated in {}", offset - site->first,
                       site->bytes, sim::place(site->calls));
  }
  return fmt::format("at byte {} of the shared heap", offset);
}

void RaceDetector::found(const Access& earlier, const Access& later, std::size_t granule) {
  // A pair of places is reported once: by code addresses, which is quick, then by text, because the compiler may have
  // made several instructions of a line.
  const std::uint64_t pair =
      std::uint64_t{std::min(earlier.pc, later.pc)} << 32 | std::max(earlier.pc, later.pc);
  const auto is_known = [](std::uint64_t* all, std::uint32_t& count, std::uint64_t one) {
    if (std::find(all, all + count, one) != all + count) return true;
    if (count == kMaxPairs) return true;
    all[count++] = one;
    return false;
  };
  if (is_known(state_->pair, state_->pairs, pair)) return;
  const int error_number = errno;
  const std::string first = fmt::format("{} {}", name(earlier.kind), place(earlier));
  const std::string second = fmt::format("{} {}", name(later.kind), place(later));
  const std::uint64_t text =
      std::hash<std::string>()(std::min(first, second) + "\n" + std::max(first, second));
  if (!is_known(state_->text, state_->texts, text)) {
    ++state_->report.totals.races;
    if (state_->report.totals.shown < kMostShownRaces) {
      Race& race = state_->report.races[state_->report.totals.shown++];
      const unsigned byte =
          static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(earlier.bytes & later.bytes)));
      describe(race.later, later);
      describe(race.earlier, earlier);
      set(race.memory, describe_allocation(granule * kGranule + byte));
      fmt::print(stderr,
                 "braid: data race: {}braid:   and, not ordered by any synchronisation, {}braid:   {}\n",
                 tell(race.later), tell(race.earlier), race.memory.data());
    }
  }
  errno = error_number;
}

}  // namespace braid::sim
