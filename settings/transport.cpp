#include "settings/transport.h"

#include <fmt/core.h>

#include "settings/limits.h"
#include "settings/words.h"
#include "stack/wire/segment.h"

namespace braid::settings {

template <>
struct Words<Connect> {
  using E = Connect;
  static constexpr Word<E> kAll[] = {
      {"auto", E::kAuto}, {"at-start", E::kAtStart}, {"at-first-use", E::kAtFirstUse}};
};

namespace {

using T = TransportConfig;
constexpr Setting kTransport[] = {
    declare<&T::mtu_bytes>(
        {.name = "mtu_bytes",
         .option = "--mtu",
         .unit = "bytes",
         .help =
             "longest IP packet, bytes; at most 1500 with --wire dpdk, 3826 with af_xdp; auto: 9000 (shm, "
             "udp, af_packet), 1500 (dpdk), 3826 (af_xdp), in simulations the value of the model",
         .reason = "the most that the wire carries; on shm a page fits in one packet",
         .least = kMinMtuBytes,
         .most = kMaxMtuBytes,
         .automatic = 0,
         .agreed = true}),
    declare<&T::fragmentation>(
        {.name = "fragmentation",
         .option = "--fragmentation",
         .help =
             "which layer cuts messages that are longer than a packet: the transport, or IP as in the paper",
         .reason = "with the transport a lost frame costs one packet; with IP it costs up to eight",
         .agreed = true}),
    declare<&T::window_packets>(
        {.name = "window_packets",
         .option = "--window-packets",
         .unit = "packets",
         .help = "the most packets in flight between two proxies",
         .reason = "256 packets of 1500 bytes are three times what 10 Gb/s carries in 100 us",
         .least = 1,
         .most = kMaxWindowPackets,
         .agreed = true}),
    declare<&T::congestion>(
        {.name = "congestion",
         .option = "--congestion",
         .help =
             "what limits packets in flight below the window: nothing (none), or the measured delay (delay)",
         .reason = "a queue that grows on the path slows the sender down before frames are lost"}),
    declare<&T::peer>(
        {.name = "peer",
         .option = "--peer",
         .help =
             "which proxy of a peer a proxy sends to: the one with its number (aligned), or each in turn (round-robin)",
         .reason = "it needs the fewest sub-connections"}),
    declare<&T::all_pairs>(
        {.name = "all_pairs",
         .option = "--all-pairs",
         .help = "make a sub-connection for every pair of proxies, not only for those with the same number",
         .reason = "a sub-connection costs memory and keep-alives",
         .agreed = true}),
    declare<&T::connect>(
        {.name = "connect",
         .option = "--connect",
         .help =
             "when the sub-connections with other clusters are made, and in simulations the connections of the program: at the "
             "start of the node (at-start), or when the first message is to be sent (at-first-use); auto: at-start up to 64 "
             "clusters",
         .reason =
             "of few clusters a wrong set-up shows at the start, of many most pairs have nothing to say to each other"}),
    declare<&T::path_death_ms>(
        {.name = "path_death_ms",
         .option = "--path-death",
         .unit = "ms",
         .help =
             "silence after which a path between two proxies is given up, ms; other paths carry its messages "
             "(a path that has carried none for four times as long: half of peer_death_ms)",
         .reason = "longer than any pause of a scheduler",
         .least = 1,
         .most = kMaxPeerDeathMs}),
    declare<&T::peer_death_ms>({.name = "peer_death_ms",
                                .option = "--peer-death",
                                .unit = "ms",
                                .help = "silence after which a cluster is declared dead and the run ends, ms",
                                .reason = "much longer than path_death_ms, because the run ends",
                                .least = 1,
                                .most = kMaxPeerDeathMs,
                                .beyond = ", because packets' timestamps repeat after twice that time"}),
    declare<&T::min_rto_us>({.name = "min_rto_us",
                             .unit = "us",
                             .help = "shortest retransmission timeout, us",
                             .reason = "above the scheduling noise of a machine with more threads than cores",
                             .least = 1,
                             .most = 10'000'000}),
    declare<&T::max_rto_us>({.name = "max_rto_us",
                             .unit = "us",
                             .help = "longest retransmission timeout, us",
                             .reason = "several retransmissions fit before a path is given up",
                             .least = 1,
                             .most = 60'000'000}),
    declare<&T::ack_every>({.name = "ack_every",
                            .unit = "packets",
                            .help = "packets after which an acknowledgement is sent at once",
                            .reason = "a proxy receives bursts of about this size",
                            .least = 1,
                            .most = kMaxWindowPackets}),
    declare<&T::ack_delay_us>(
        {.name = "ack_delay_us",
         .unit = "us",
         .help = "how long an acknowledgement waits for a packet that can carry it, us",
         .reason = "about the time of an answer; the loss of a last packet is noticed this much later",
         .most = 1'000'000}),
    declare<&T::train_messages>(
        {.name = "train_messages",
         .option = "--train-messages",
         .unit = "messages",
         .help = "the most small messages of a connection that share a record when they are sent at once",
         .reason = "they share what a record costs; more of them gain little",
         .least = 1,
         .most = stack::kMaxTrainMessages})};

std::optional<Conflict> rto_bounds(const T& t) {
  if (t.min_rto_us <= t.max_rto_us) return std::nullopt;
  return Conflict{
      {"min_rto_us", "max_rto_us"},
      fmt::format("min_rto_us ({}) is longer than max_rto_us ({}); lower the one or raise the other",
                  t.min_rto_us, t.max_rto_us)};
}

std::optional<Conflict> ack_before_rto(const T& t) {
  if (t.ack_delay_us < t.min_rto_us) return std::nullopt;
  return Conflict{
      {"ack_delay_us", "min_rto_us"},
      fmt::format("ack_delay_us ({}) must be shorter than min_rto_us ({}), or packets are retransmitted "
                  "while their acknowledgement waits; lower the one or raise the other",
                  t.ack_delay_us, t.min_rto_us)};
}

// stack/sub_connection.cpp probes a silent path four times before it gives it up. Backing off may last
// longer: the probes go on meanwhile, so a slow machine may have a max_rto_us beyond path_death_ms.
std::optional<Conflict> probes_before_death(const T& t) {
  if (std::uint64_t{t.path_death_ms} * 1000 >= std::uint64_t{4} * t.min_rto_us) return std::nullopt;
  return Conflict{
      {"path_death_ms", "min_rto_us"},
      fmt::format("path_death_ms ({} ms) must be at least four times min_rto_us ({} us): a path is "
                  "probed four times before it is given up, and each probe may take that long; raise "
                  "the one or lower the other",
                  t.path_death_ms, t.min_rto_us)};
}

std::optional<Conflict> paths_before_peer(const T& t) {
  if (t.peer_death_ms > t.path_death_ms) return std::nullopt;
  return Conflict{
      {"peer_death_ms", "path_death_ms"},
      fmt::format("peer_death_ms ({}) must be longer than path_death_ms ({}): a peer is dead when all "
                  "its paths are; raise the one or lower the other",
                  t.peer_death_ms, t.path_death_ms)};
}

constexpr Relation kTransportRelations[] = {
    relation<T, rto_bounds>("min_rto_us is at most max_rto_us"),
    relation<T, ack_before_rto>("ack_delay_us is shorter than min_rto_us"),
    relation<T, probes_before_death>("path_death_ms is at least four times min_rto_us"),
    relation<T, paths_before_peer>("peer_death_ms is longer than path_death_ms")};

using F = FaultConfig;
constexpr Setting probability(Setting s) {
  s.allowed = "a probability, 0 to 1";
  s.beyond = " (0.01 is one per cent)";
  s.max_number = 1;
  return s;
}
constexpr Setting kFaults[] = {
    probability(declare<&F::loss>(
        {.name = "loss", .option = "--loss", .help = "probability that an arriving frame is lost"})),
    probability(declare<&F::duplicate>(
        {.name = "duplicate", .option = "--duplicate", .help = "probability that a frame arrives twice"})),
    probability(declare<&F::reorder>({.name = "reorder",
                                      .option = "--reorder",
                                      .help = "probability that later frames overtake a frame"})),
    probability(declare<&F::corrupt>({.name = "corrupt",
                                      .option = "--corrupt",
                                      .help = "probability that one bit of a frame is flipped"})),
    declare<&F::flip_past_checksum_every>(
        {.name = "flip_past_checksum_every",
         .option = "--flip-past-checksum",
         .unit = "frames",
         .help =
             "flip a bit of every n-th long frame and repair its checksum, so that results become wrong; 0: never",
         .scope = Scope::kLive}),
    declare<&F::drop_all_after>(
        {.name = "drop_all_after",
         .option = "--drop-all-after",
         .unit = "frames",
         .help = "lose every frame of a queue after this number, as if the link were cut; 0: never",
         .scope = Scope::kLive}),
    declare<&F::delay_ms>(
        {.name = "delay_ms",
         .option = "--delay",
         .unit = "ms",
         .help = "hold every arriving frame back for this time, ms, as on a long path; round trips take "
                 "twice as long; 0: none",
         .most = 1000,
         .scope = Scope::kLive}),
    declare<&F::seed>(
        {.name = "seed",
         .option = "--seed",
         .help =
             "seed of the faults, and of the jitter in simulations; the same seed gives the same faults"})};

using I = IdleConfig;
constexpr Setting kIdle[] = {
    declare<&I::spins>(
        {.name = "spins",
         .unit = "turns",
         .help =
             "turns without work before a proxy yields its core; auto: 0 when there are more threads than "
             "cores, else 200",
         .reason =
             "four threads that spin on two cores take milliseconds for what takes microseconds with yields",
         .most = 1'000'000,
         .automatic = I::kAutomaticSpins,
         .scope = Scope::kLive}),
    declare<&I::yields>({.name = "yields",
                         .unit = "turns",
                         .help = "turns with a yield before a proxy sleeps",
                         .most = 1'000'000,
                         .scope = Scope::kLive}),
    declare<&I::wakeups>(
        {.name = "wakeups",
         .help = "an idle proxy sleeps until it is woken; false: it polls, and sleeps sleep_min_us to "
                 "sleep_max_us in between, as it does where it cannot be woken",
         .reason = "a proxy that polls takes a twentieth of a core, and is late by up to sleep_max_us",
         .scope = Scope::kLive}),
    declare<&I::sleep_min_us>(
        {.name = "sleep_min_us",
         .unit = "us",
         .help = "first sleep of a proxy without work, us; each further sleep is twice as long",
         .least = 1,
         .most = 1'000'000,
         .scope = Scope::kLive}),
    declare<&I::sleep_max_us>({.name = "sleep_max_us",
                               .unit = "us",
                               .help = "longest sleep of a proxy, us",
                               .least = 1,
                               .most = 1'000'000,
                               .scope = Scope::kLive})};

std::optional<Conflict> sleep_bounds(const I& i) {
  if (i.sleep_min_us <= i.sleep_max_us) return std::nullopt;
  return Conflict{
      {"sleep_min_us", "sleep_max_us"},
      fmt::format("sleep_min_us ({}) is longer than sleep_max_us ({}); lower the one or raise the other",
                  i.sleep_min_us, i.sleep_max_us)};
}
constexpr Relation kIdleRelations[] = {relation<I, sleep_bounds>("sleep_min_us is at most sleep_max_us")};

}  // namespace

constinit const Schema kTransportSchema = {.settings = kTransport, .relations = kTransportRelations};
constinit const Schema kFaultSchema = {.settings = kFaults};
constinit const Schema kIdleSchema = {.settings = kIdle, .relations = kIdleRelations};

}  // namespace braid::settings
