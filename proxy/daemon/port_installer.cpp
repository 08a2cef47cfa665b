#include "proxy/daemon/port_installer.h"

#include <new>

#include "base/take_first.h"

namespace braid::proxy {

void PortInstaller::install(const End& end) {
  if (!lanes_.serves(end.client)) return;
  const ClientMemory& memory = *clients_.find(end.client)->memory;
  PortCell* const cell = new (memory.cell(end.grant.cell)) PortCell;
  cell->consumed.store(0, std::memory_order_relaxed);
  for (auto& credit : cell->credit) credit.store(0, std::memory_order_relaxed);
  cell->corrupted.store(0, std::memory_order_relaxed);
  cell->state.store(PortState::kOpen, std::memory_order_release);
  installed_.add(end);
  for (unsigned p = 0; p < monitor_.proxies(); ++p)
    if (monitor_.running(p) && memory.view(p) != nullptr) install_at(p, end);
}

void PortInstaller::install_at(unsigned proxy, const End& end) {
  const ClientMemory& memory = *clients_.find(end.client)->memory;
  PortEntry port = installed_.entry(end.port, proxy);
  port.peer_incarnation = peers_.association(end.peer).peer;
  port.channel = lanes_.receiver(end.client, end.endpoint, proxy);
  port.window = memory.view(proxy) + end.grant.window_offset;
  port.cell = memory.cell(end.grant.cell, proxy);
  tell(proxy, InstallPort{port});
}

void PortInstaller::mark(const End& end, PortState state) {
  if (const Clients::Client* const client = clients_.find(end.client); client != nullptr && client->memory)
    client->memory->cell(end.grant.cell)->state.store(state, std::memory_order_release);
}

void PortInstaller::remove(PortId port) {
  for (unsigned p = 0; p < monitor_.proxies(); ++p)
    if (monitor_.running(p)) tell(p, RemovePort{port});
  installed_.remove(port);
}

void PortInstaller::drain(PortId port) {
  for (unsigned p = 0; p < monitor_.proxies(); ++p) drain_by(port, p);
}

// The proxies that take over a stalled proxy's lanes send the messages in them. Until the proxy is settled they
// are not known (drain_instead_of() tells them); afterwards it has no lanes.
void PortInstaller::drain_by(PortId port, unsigned proxy) {
  if (!monitor_.running(proxy) && !monitor_.unsettled(proxy)) return;
  drains_.await(port, proxy);
  if (monitor_.serves(proxy)) tell(proxy, DrainPort{port});
}

void PortInstaller::lane_moved(ClientId client, unsigned server) {
  for (const PortId port : drains_.ports()) {
    const End* const end = installed_.find(port);
    if (end != nullptr && end->client == client) drain_by(port, server);
  }
}

void PortInstaller::release_removed() {
  for (unsigned p = 0; p < monitor_.proxies(); ++p)
    if (monitor_.running(p)) installed_.release(p);
}

void PortInstaller::drain_instead_of(unsigned proxy) {
  std::vector<unsigned> running;
  for (unsigned other = 0; other < monitor_.proxies(); ++other)
    if (monitor_.running(other)) running.push_back(other);
  for (const PortId port : drains_.replace(proxy, running))
    for (const unsigned other : running) tell(other, DrainPort{port});
}

void PortInstaller::take_back(unsigned proxy) {
  installed_.release(proxy);
  for (const auto& [port, end] : installed_.all())
    if (lanes_.serves(end.client) && clients_.find(end.client)->memory->view(proxy) != nullptr)
      install_at(proxy, end);
}

std::optional<AddressedCommand> PortInstaller::poll_command() {
  return take_first(commands_);
}

}  // namespace braid::proxy
