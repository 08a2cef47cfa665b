#include "proxy/daemon/machines_driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/take_first.h"
#include "proxy/daemon/stack_configs.h"

namespace braid::proxy {

MachinesDriver::MachinesDriver(const NodeConfig& config, std::vector<stack::Interface> links,
                               std::uint64_t seed, Peers& peers, convergence::Ports& ports, Clients& clients)
    : config_(config),
      links_(std::move(links)),
      machines_(machines_config(config, links_, seed)),
      peers_(peers),
      ports_(ports),
      clients_(clients) {}

void MachinesDriver::observe(Instant now) {
  for (const ClusterId slot : machines_.occupied()) {
    if (machines_.is_connecting(slot)) {
      const Peers::Count paths = peers_.count_paths(slot);
      machines_.on_paths(now, slot, paths.up, paths.all, peers_.problems(slot));
    }
    machines_.in_use(now, slot, ports_.held_with(slot));
  }
}

void MachinesDriver::on_datagram(Instant now, const PlainDatagram& d) {
  if (d.port != config_.machines.udp_port) return;
  if (d.unreachable)
    machines_.on_unreachable(d.peer, *d.unreachable);
  else
    machines_.on_datagram(now, d.peer, ByteView(d.data).first(d.bytes));
}

int MachinesDriver::run(Instant now) {
  int work = 0;
  machines_.on_timer(now);
  for (; const std::optional<Machines::Event> event = machines_.poll_event(); ++work) carry_out(now, *event);
  for (const ClusterId slot : peers_.drained()) work += free(slot) ? 1 : 0;
  return work;
}

void MachinesDriver::carry_out(Instant now, const Machines::Event& event) {
  const Machines::Request& r = event.request;
  switch (event.kind) {
    case Machines::Event::Kind::kConnectPaths:
      return connect_paths(event.slot, event.peer);
    case Machines::Event::Kind::kConnect:
      return ports_.connect(now, r.client, r.serial, r.endpoint, event.slot, r.port, r.window_bytes,
                            r.ordered, r.deadline - now, r.protocol);
    case Machines::Event::Kind::kRefused:
      return clients_.refuse(r.client, r.serial, event.text);
    case Machines::Event::Kind::kDrain:
      return drain(event.slot);
  }
}

void MachinesDriver::connect_paths(ClusterId slot, const Introduction& peer) {
  peers_.connect(paths_to_machine(config_, slot, peer, links_, peers_.own_incarnation(slot)));
  events_.push_back(
      fmt::format("the cluster at {} is known as cluster {}", machines_.name(slot), slot.value()));
}

void MachinesDriver::drain(ClusterId slot) {
  peers_.drain(slot);
  events_.push_back(
      fmt::format("the cluster at {}, known as cluster {}, is left", machines_.name(slot), slot.value()));
}

// CN-15. No proxy has a message for the slot's cluster any more. While clients have not closed their ends of the
// connections that were lost with it, ports of the slot still belong to that cluster. True if nothing is left.
bool MachinesDriver::free(ClusterId slot) {
  if (ports_.held_with(slot) > 0) return false;
  peers_.forget(slot);
  machines_.gone(slot);
  return true;
}

std::optional<PlainDatagram> MachinesDriver::poll_datagram() {
  static_assert(kIntroductionBytes <= PlainDatagram::kMaxBytes);
  const std::optional<Machines::Datagram> introduction = machines_.poll_datagram();
  if (!introduction) return std::nullopt;
  PlainDatagram d;
  d.port = config_.machines.udp_port;
  d.peer = introduction->to;
  d.bytes = kIntroductionBytes;
  std::copy(introduction->bytes.begin(), introduction->bytes.end(), d.data.begin());
  return d;
}

std::optional<std::string> MachinesDriver::poll_event() {
  return take_first(events_);
}

}  // namespace braid::proxy
