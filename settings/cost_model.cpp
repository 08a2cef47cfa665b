#include "settings/cost_model.h"

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
                          .most_number = kMaxCycles,
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
    positive(cost<&M::unit>("unit", "a unit of what the compiler's charges count")),
    cost<&M::fault>("fault", "from an access that is forbidden until the page protocol has it"),
    cost<&M::call>("call", "from a call until the page protocol has it"),
    cost<&M::lock>("lock", "a lock inside the cluster, taken or given back"),
    cost<&M::barrier>("barrier", "coming to a barrier"),
    cost<&M::sync>("sync", "a word, flag, semaphore or condition; an allocation"),
    cost<&M::protect>("protect", "a change of the protection of a run of pages"),
    cost<&M::twin>("twin", "a copy of a page before it is written"),
    cost<&M::diff>("diff", "comparing a page with its twin"),
    cost<&M::diff_byte>("diff_byte", "a byte of a diff, found or applied"),
    cost<&M::page_byte>("page_byte", "a byte of a page, copied out or in"),
    cost<&M::handler>("handler", "a message that has arrived, beside what it does"),
    cost<&M::hand_over>("hand_over", "a message, from a compute node to a proxy"),
    cost<&M::hand_over_byte>("hand_over_byte", "a byte of it"),
    cost<&M::window_send>("window_send", "a packet with records, through the sliding window"),
    cost<&M::ack_send>("ack_send", "a packet without records"),
    cost<&M::udp_send>("udp_send", "a datagram, beside its checksum"),
    cost<&M::checksum_byte>("checksum_byte", "a byte of a datagram, sent or received"),
    cost<&M::ip_send>("ip_send", "a fragment, or a datagram that needs none"),
    cost<&M::ni_send>("ni_send", "a frame"),
    cost<&M::ni_byte>("ni_byte", "a byte of a frame, sent or received"),
    cost<&M::ni_receive>("ni_receive", "a frame"),
    cost<&M::ip_receive>("ip_receive", "a frame"),
    cost<&M::udp_receive>("udp_receive", "a datagram, beside its checksum"),
    cost<&M::window_receive>("window_receive", "a packet with records"),
    cost<&M::ack_receive>("ack_receive", "a packet without records"),
    cost<&M::deliver>("deliver", "a record, to where its connection has it"),
    cost<&M::deliver_byte>("deliver_byte", "a byte of it"),
    cost<&M::timer>("timer", "looking after timers when one has run out"),
    cost<&M::latency>("latency", "from the last bit sent to the last bit received"),
    cost<&M::wire_byte>("wire_byte", "a byte on the wire")};
constinit const Schema kCostSchema = {.settings = kCosts};

constexpr Setting kModel[] = {
    declare<&M::name>({.name = "name",
                       .help = "of the model",
                       .allowed = "a name",
                       .fits = [](const std::string& text) { return !text.empty(); },
                       .required = true}),
    {.name = "clock_mhz",
     .unit = "MHz",
     .help = "cycles of a compute node in a microsecond",
     .least_number = 1e-3,
     .most_number = 1e6,
     .required = true,
     .kind = Kind::kNumber,
     .get = [](const void* o) { return text_of_number(static_cast<const M*>(o)->cycles_per_second / 1e6); },
     .set =
         [](void* o, const std::string& text) {
           static_cast<M*>(o)->cycles_per_second = std::round(number_of_text(text) * 1e6);
         }},
    declare<&M::source>({.name = "source", .help = "where the whole is from"})};

// The costs are members of the model itself.
constexpr Section kModelSections[] = {
    section<&M::protocol>("protocol", "What the transport is like, unless a run says otherwise",
                          kTransportSchema),
    {.name = "cycles",
     .title = "What things cost",
     .schema = &kCostSchema,
     .at = [](void* o) { return o; },
     .required = true}};

constexpr NamedNumbers kModelNamed[] = {{.name = "units",
                                         .help = "names of programs are expected, and what a unit is in each",
                                         .value = positive({.name = "unit",
                                                            .unit = "cycles",
                                                            .help = "a unit of what this program computes",
                                                            .most_number = kMaxCycles,
                                                            .sourced = true,
                                                            .kind = Kind::kNumber}),
                                         .insert = [](void* o, const std::string& program, double cycles) {
                                           static_cast<M*>(o)->units[program] = cycles;
                                         }}};

std::optional<Conflict> packets_have_a_length(const M& model) {
  if (model.protocol.mtu_bytes != 0) return std::nullopt;
  return Conflict{{"protocol.mtu_bytes"}, "a model must say it; allowed: 576 to 9000"};
}
constexpr Relation kModelRelations[] = {relation<M, packets_have_a_length>("protocol.mtu_bytes is a number")};

}  // namespace

constinit const Schema kCostModelSchema = {
    .settings = kModel, .sections = kModelSections, .named = kModelNamed, .relations = kModelRelations};

std::span<const Setting> cost_settings() {
  return kCosts;
}

}  // namespace braid::settings
