#include "settings/cost_model.h"

#include <array>
#include <cmath>

namespace braid::settings {
namespace {

using M = CostModel;
constexpr double kMaxCycles = 1e9;

template <auto Member>
constexpr Setting cost(std::string_view name, std::string_view help) {
  return declare<Member>({.name = name,
                          .unit = "cycles",
                          .help = help,
                          .max_number = kMaxCycles,
                          .allowed = "cycles, 0 to 1e9",
                          .required = true,
                          .sourced = true});
}

// Of a divisor.
constexpr Setting positive(Setting s) {
  s.least_number = 1e-9;
  s.allowed = "cycles, more than 0, up to 1e9";
  return s;
}

constexpr Setting kCosts[] = {
    positive(cost<&M::unit>("unit", "one unit of the compiler's charges for a program's computing")),
    cost<&M::check>("check", "checking an access, in programs with access checks (whole units)"),
    cost<&M::fault>("fault", "from an access that faults until the page protocol handles it"),
    cost<&M::call>("call", "from a program's call until the page protocol handles it"),
    cost<&M::lock>("lock", "acquiring or releasing a lock inside the cluster"),
    cost<&M::barrier>("barrier", "arriving at a barrier"),
    cost<&M::sync>("sync", "an operation on a word, flag, semaphore or condition; an allocation"),
    cost<&M::protect>("protect", "changing the protection of a run of pages"),
    cost<&M::twin>("twin", "copying a page of 4 KiB before it is written"),
    cost<&M::diff>("diff", "comparing a page of 4 KiB with its twin"),
    cost<&M::diff_byte>("diff_byte", "finding or applying one byte of a diff"),
    cost<&M::page_byte>("page_byte", "copying one byte of a page out or in"),
    cost<&M::handler>("handler", "taking an arrived message, without the work that it causes"),
    cost<&M::hand_over>("hand_over", "handing a message from a compute node to a proxy"),
    cost<&M::hand_over_byte>("hand_over_byte", "handing over one byte of it"),
    cost<&M::window_send>("window_send", "sending a packet with records through the sliding window"),
    cost<&M::ack_send>("ack_send", "sending a packet without records"),
    cost<&M::udp_send>("udp_send", "sending a datagram, without its checksum"),
    cost<&M::checksum_byte>("checksum_byte", "the checksum of one byte of a datagram, sent or received"),
    cost<&M::ip_send>("ip_send", "sending a fragment, or a datagram that needs none"),
    cost<&M::ni_send>("ni_send", "sending a frame"),
    cost<&M::ni_byte>("ni_byte", "one byte of a frame, sent or received"),
    cost<&M::ni_receive>("ni_receive", "receiving a frame"),
    cost<&M::ip_receive>("ip_receive", "the IP part of a received frame"),
    cost<&M::udp_receive>("udp_receive", "receiving a datagram, without its checksum"),
    cost<&M::window_receive>("window_receive", "receiving a packet with records"),
    cost<&M::ack_receive>("ack_receive", "receiving a packet without records"),
    cost<&M::deliver>("deliver", "delivering a record into its connection's memory"),
    cost<&M::deliver_byte>("deliver_byte", "delivering one byte of it"),
    cost<&M::timer>("timer", "handling the timers when one has expired"),
    cost<&M::latency>("latency", "from the last bit sent to the last bit received"),
    cost<&M::wire_byte>("wire_byte", "one byte on the wire")};
constinit const Schema kCostSchema = {.settings = kCosts};

// A run need not have them.
constexpr auto kRunCosts = [] {
  std::array<Setting, std::size(kCosts)> all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = kCosts[i];
    all[i].required = all[i].sourced = false;
    all[i].automatic_number = Costs::kAuto;
    all[i].allowed = "";
    all[i].scope = Scope::kSimulated;
  }
  return all;
}();

constexpr Setting kModel[] = {
    declare<&M::name>({.name = "name",
                       .help = "the model's name",
                       .allowed = "a name",
                       .fits = [](const std::string& text) { return !text.empty(); },
                       .required = true}),
    {.name = "clock_mhz",
     .unit = "MHz",
     .help = "clock of a compute node: cycles in a microsecond",
     .least_number = 1e-3,
     .max_number = 1e6,
     .required = true,
     .kind = Kind::kNumber,
     .get = [](const void* o) { return text_of_number(static_cast<const M*>(o)->cycles_per_second / 1e6); },
     .set =
         [](void* o, const std::string& text) {
           static_cast<M*>(o)->cycles_per_second = std::round(number_of_text(text) * 1e6);
         }},
    declare<&M::source>({.name = "source", .help = "where the model is from"})};

// The costs are members of the model itself.
constexpr Section kModelSections[] = {
    section<&M::protocol>("protocol", "The model's transport; settings of a run win", kTransportSchema),
    section<&M::engine>("engine", "The model's page engine; settings of a run win", kEngineSchema),
    {.name = "cycles",
     .title = "What things cost",
     .schema = &kCostSchema,
     .at = [](void* o) -> void* { return static_cast<Costs*>(static_cast<M*>(o)); },
     .required = true}};

constexpr NamedNumbers kModelNamed[] = {{.name = "units",
                                         .help = "the cost of a unit in each program, by the program's name",
                                         .value = positive({.name = "unit",
                                                            .unit = "cycles",
                                                            .help = "one unit of this program's computing",
                                                            .max_number = kMaxCycles,
                                                            .sourced = true,
                                                            .kind = Kind::kNumber}),
                                         .insert = [](void* o, const std::string& program, double cycles) {
                                           static_cast<M*>(o)->units[program] = cycles;
                                         }}};

std::optional<Conflict> packets_have_a_length(const M& model) {
  if (model.protocol.mtu_bytes != 0) return std::nullopt;
  return Conflict{{"protocol.mtu_bytes"}, "auto is not possible in a model; allowed: 576 to 9000"};
}
constexpr Relation kModelRelations[] = {
    relation<M, packets_have_a_length>("protocol.mtu_bytes is a number, not auto")};

}  // namespace

constinit const Schema kCostModelSchema = {
    .settings = kModel, .sections = kModelSections, .named = kModelNamed, .relations = kModelRelations};

constinit const Schema kRunCostSchema = {.settings = kRunCosts};

Costs Costs::automatic() {
  Costs all;
  for (const Setting& cost : kRunCosts) cost.set(&all, text_of_number(kAuto));
  return all;
}

void Costs::apply_to(Costs& costs) const {
  for (const Setting& cost : kRunCosts)
    if (const std::string text = cost.get(this); number_of_text(text) != kAuto) cost.set(&costs, text);
}

std::span<const Setting> cost_settings() {
  return kCosts;
}

}  // namespace braid::settings
