#include "settings/engine.h"

#include <fmt/core.h>
#include <bit>
#include <type_traits>

#include "settings/limits.h"

namespace braid::settings {
namespace {

using E = EngineSettings;
using C = dsm::EngineConfig;

// A constant of the engine as a setting; auto where the setting is not given.
template <auto Member>
constexpr Setting constant(Setting s) {
  s.automatic = E::kAuto;
  s.scope = Scope::kSimulated;
  return declare<Member>(s);
}
template <auto Member>
constexpr Setting choice(Setting s) {
  s.scope = Scope::kSimulated;
  return declare<Member>(s);
}

constexpr std::uint64_t kMany = 1'000'000;

constexpr Setting length_of_a_page(Setting s) {
  s.automatic = E::kAuto;
  return declare<&E::page_bytes>(s);
}

constexpr Setting kSettings[] = {
    length_of_a_page(
        {.name = "page_bytes",
         .option = "--page-bytes",
         .unit = "bytes",
         .help =
             "length of a page of shared memory, which is fetched and protected as a whole: 4096, 8192, 16384, 32768 or 65536, in "
             "simulations also 1024 or 2048, for programs with access checks; settings that count pages count pages of this length",
         .reason = "4096: what the kernel protects, and the least false sharing",
         .least = kMinSimulatedPageBytes,
         .most = kMaxPageBytes}),
    constant<&E::flush_window>(
        {.name = "flush_window",
         .unit = "pages",
         .help = "pages of a cluster's releases that are on their way home at once",
         .reason = "64: bounds the engine's queues. mgs 1 (assumed): one page after the other",
         .least = 1,
         .most = 4096}),
    constant<&E::local_handoffs>(
        {.name = "local_handoffs",
         .help = "how often a lock passes between nodes of a cluster while another cluster waits for it",
         .reason = "16. mgs 0 (assumed): the other cluster comes first",
         .most = kMany}),
    constant<&E::lease_uses>(
        {.name = "lease_uses",
         .help =
             "how often nodes of a cluster may take a lock again while another cluster waits for it, until "
             "that has answered a probe; 0: such a lock leaves at once",
         .reason = "1024: many empty sections take as long as a hand-over. mgs 0: it had no leases",
         .most = kMany}),
    constant<&E::lease_rounds>(
        {.name = "lease_rounds",
         .help = "the most probes of a lease; 0: 4 divided by the number of the other clusters, at least 1",
         .reason = "0 (docs/decisions/0025)",
         .most = 255}),
    constant<&E::lease_us>(
        {.name = "lease_us",
         .unit = "us",
         .help =
             "how long a lock may stay in a cluster whose nodes want it again as soon as it has left, while they use it; "
             "0: no longer than the rounds above",
         .reason = "0: as all figures of the study were made. Live programs have 2000, with 16384 lease_uses "
                   "(docs/decisions/0050)",
         .most = kMany}),
    constant<&E::twins>(
        {.name = "twins",
         .unit = "pages",
         .help = "pages of other clusters that a cluster can have written and not sent home",
         .reason = "16384: 64 MiB of pages of 4 KiB, used as they are needed; each compute node needs two",
         .least = 128,
         .most = kMany}),
    constant<&E::migrate_after>(
        {.name = "migrate_after",
         .unit = "rounds",
         .help = "rounds with one writer after which a page's home moves to it; 0: never",
         .reason =
             "2: the first closes the page at its home to see whether it is used there; lazy 4, as a move "
             "costs the others their copies. mgs 0 (assumed): homes stay",
         .most = kMany}),
    constant<&E::fetch_ahead>(
        {.name = "fetch_ahead",
         .unit = "pages",
         .help =
             "pages that a node which reads or writes pages a constant stride apart fetches ahead; 0: none",
         .reason =
             "32: as many as a round trip brings. mgs 0 (assumed): a page is fetched when a node faults",
         .most = 1024}),
    constant<&E::scan_ahead>(
        {.name = "scan_ahead",
         .unit = "pages",
         .help =
             "the same in a long scan, of four times as many pages; no more than fetch_ahead: as in a short one",
         .reason = "128: keeps runs on their way while others are read. mgs 0 (assumed)",
         .most = 1024}),
    constant<&E::run_pages>({.name = "run_pages",
                             .unit = "pages",
                             .help = "consecutive pages that share a request or a reply; 1: none do",
                             .reason = "16: 64 KiB of pages of 4 KiB. mgs 1 (assumed)",
                             .least = 1,
                             .most = 64}),
    choice<&E::pack>(
        {.name = "pack",
         .help = "messages that are ready for a cluster leave as one",
         .reason =
             "yes: it saves what a message costs. mgs no: each message is an Active Message of its own"}),
    choice<&E::release_at_unlock>(
        {.name = "release_at_unlock",
         .help =
             "a node that unlocks waits until its cluster's writes are visible everywhere; lazy: to all that acquire next",
         .reason =
             "no: they become visible when the lock leaves the cluster. mgs yes (assumed): release consistency "
             "without a difference between nodes of this cluster and others"}),
    constant<&E::barrier_fan_out>(
        {.name = "barrier_fan_out",
         .unit = "clusters",
         .help = "children of a cluster in a barrier's tree",
         .reason = "8: a message takes eight times as long to arrive as to be handled",
         .least = 1,
         .most = 63})};

// Calls use(setting, constant) for each number.
template <class Use>
void for_each_number(Use&& use) {
  use(&E::flush_window, &C::flush_window);
  use(&E::local_handoffs, &C::local_handoffs);
  use(&E::lease_uses, &C::lease_uses);
  use(&E::lease_rounds, &C::lease_rounds);
  use(&E::twins, &C::twins);
  use(&E::migrate_after, &C::migrate_after);
  use(&E::fetch_ahead, &C::fetch_ahead);
  use(&E::scan_ahead, &C::scan_ahead);
  use(&E::run_pages, &C::run_pages);
  use(&E::barrier_fan_out, &C::barrier_fan_out);
}
template <class Use>
void for_each_choice(Use&& use) {
  use(&E::pack, &C::pack);
  use(&E::release_at_unlock, &C::release_at_unlock);
}

std::optional<Conflict> page_is_a_power(const E& e) {
  if (e.page_bytes == E::kAuto || dsm::PageLength::valid(e.page_bytes)) return std::nullopt;
  return Conflict{{"page_bytes"},
                  fmt::format("{} is not a power of two; take {} or {}", e.page_bytes,
                              std::bit_floor(e.page_bytes), std::bit_ceil(e.page_bytes))};
}

constexpr Relation kRelations[] = {relation<E, page_is_a_power>("page_bytes is a power of two")};

}  // namespace

constinit const Schema kEngineSchema = {.settings = kSettings, .relations = kRelations};

std::string window_problem(std::uint32_t window_kib, dsm::PageLength length) {
  const std::uint32_t least = least_window_kib(length);
  if (window_kib >= least) return {};
  return fmt::format("{} KiB do not carry a page of {} bytes in one message; take at least {}", window_kib,
                     length.bytes(), least);
}

void EngineSettings::apply_to(dsm::EngineConfig& engine) const {
  if (page_bytes != kAuto) engine.page_length = page_length();
  for_each_number([&](auto from, auto to) {
    if (this->*from != kAuto)
      engine.*to = static_cast<std::remove_reference_t<decltype(engine.*to)>>(this->*from);
  });
  if (lease_us != kAuto) engine.lease_time = Duration::us(lease_us);
  for_each_choice([&](auto from, auto to) {
    if (this->*from != Choice::kAuto) engine.*to = this->*from == Choice::kYes;
  });
}

EngineSettings EngineSettings::of(const dsm::EngineConfig& engine) {
  EngineSettings all;
  all.page_bytes = static_cast<std::uint32_t>(engine.page_length.bytes());
  for_each_number([&](auto to, auto from) { all.*to = engine.*from; });
  all.lease_us = static_cast<std::uint32_t>(engine.lease_time.ns() / 1000);
  for_each_choice([&](auto to, auto from) { all.*to = engine.*from ? Choice::kYes : Choice::kNo; });
  return all;
}

}  // namespace braid::settings
