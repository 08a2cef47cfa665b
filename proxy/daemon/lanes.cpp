#include "proxy/daemon/lanes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"

namespace braid::proxy {

// ---------------------------------------------------------------- who serves

void Lanes::set_active(unsigned count) {
  CHECK_GE(count, 1u);
  CHECK_LE(count, proxies());
  active_ = count;
  unbalanced_ = true;
}

unsigned Lanes::server_for(unsigned lane) const {
  std::vector<unsigned> able;
  for (unsigned p = 0; p < active_; ++p)
    if (monitor_.serves(p)) able.push_back(p);
  for (unsigned p = active_; p < proxies() && able.empty(); ++p)
    if (monitor_.serves(p)) able.push_back(p);
  if (able.empty() || std::find(able.begin(), able.end(), lane) != able.end()) return lane;
  return able[lane % able.size()];
}

int Lanes::rebalance() {
  if (!std::exchange(unbalanced_, false)) return 0;
  int moved = 0;
  for (auto& [id, client] : clients_) {
    if (client.detaching) continue;
    for (unsigned i = 0; i < client.lanes.size(); ++i) moved += move(id, client, i) ? 1 : 0;
  }
  return moved;
}

// If it is not where it belongs, and can go there.
bool Lanes::move(ClientId id, Client& client, unsigned index) {
  Lane& lane = client.lanes[index];
  const unsigned wanted = server_for(index % proxies());
  if (lane.moving || lane.server == wanted) return false;
  if (!monitor_.serves(wanted)) {
    unbalanced_ = true;
    return false;
  }
  if (monitor_.serves(lane.server)) {
    Channel* const channel = lane.sender != nullptr ? lane.sender.get() : lane.receiver.get();
    if (channel == nullptr) return false;  // it could have no view of the client, which is expelled
    tell(lane.server, ReleaseLane{channel});
    lane.moving = true;
    ++moving_;
    return true;
  }
  if (monitor_.unsettled(lane.server)) {  // nobody knows yet what it has sent
    unbalanced_ = true;
    return false;
  }
  lane.server = wanted;
  add_sender(id, client, index, true);
  return true;
}

// ---------------------------------------------------------------- clients

void Lanes::add(ClientId id, ClientMemory& memory) {
  Client& client = clients_[id];
  client.memory = &memory;
  client.lanes.resize(std::size_t{memory.geometry().endpoints} * proxies());
  for (unsigned i = 0; i < client.lanes.size(); ++i) client.lanes[i].server = server_for(i % proxies());
  for (unsigned p = 0; p < proxies(); ++p)
    if (monitor_.running(p)) attach_proxy(id, client, p, false);
  for (unsigned i = 0; i < client.lanes.size(); ++i)
    if (client.lanes[i].server != i % proxies()) add_sender(id, client, i, false);
}

bool Lanes::serves(ClientId id) const {
  const auto client = clients_.find(id);
  return client != clients_.end() && !client->second.detaching;
}

void Lanes::detach(ClientId id) {
  Client& client = clients_.at(id);
  client.detaching = true;
  for (unsigned i = 0; i < client.lanes.size(); ++i) {
    const Lane& lane = client.lanes[i];
    if (lane.receiver != nullptr) detach_channel(client, i % proxies(), lane.receiver.get());
    if (lane.sender != nullptr) detach_channel(client, lane.server, lane.sender.get());
  }
}

bool Lanes::detached(ClientId id) const {
  const Client& client = clients_.at(id);
  return client.detaching && client.awaited == 0;
}

Channel* Lanes::receiver(ClientId id, std::uint32_t endpoint, unsigned proxy) const {
  return clients_.at(id).lanes[endpoint * proxies() + proxy].receiver.get();
}

// Gives the proxy its view and its end of each lane that its arrivals come through.
void Lanes::attach_proxy(ClientId id, Client& client, unsigned p, bool resumes) {
  std::byte* const view = client.memory->view(p);
  const ChannelGeometry& geometry = client.memory->geometry();
  tell(p, MapClient{id, view});
  for (unsigned e = 0; e < geometry.endpoints; ++e) {
    Lane& lane = client.lanes[e * proxies() + p];
    lane.receiver = std::make_unique<Channel>(id, geometry, view, e, p, resumes);
    lane.receiver->sends = lane.server == p && !resumes && !monitor_.unsettled(p);
    tell(p, AttachChannel{lane.receiver.get()});
  }
}

void Lanes::add_sender(ClientId id, Client& client, unsigned index, bool resumes) {
  Lane& lane = client.lanes[index];
  if (client.memory->view(lane.server) == nullptr) return;  // none could be had: the client is expelled
  lane.sender = std::make_unique<Channel>(id, client.memory->geometry(), client.memory->view(lane.server),
                                          index / proxies(), index % proxies(), resumes);
  tell(lane.server, AttachChannel{lane.sender.get()});
}

// Its server continues where its former server, or itself before it was stalled, stopped.
void Lanes::serve(ClientId id, Client& client, unsigned index) {
  const Lane& lane = client.lanes[index];
  if (lane.server != index % proxies())
    add_sender(id, client, index, true);
  else if (lane.receiver != nullptr)
    tell(lane.server, ServeLane{lane.receiver.get()});
}

void Lanes::detach_channel(Client& client, unsigned proxy, Channel* channel) {
  ++client.awaited;
  tell(proxy, DetachChannel{channel});
}

// ---------------------------------------------------------------- events of proxies

// Its proxy takes nothing more from the lane, and nothing that it took is in flight.
unsigned Lanes::released(const Channel* channel) {
  Client& client = clients_.at(channel->client);
  const unsigned index = channel->endpoint * proxies() + channel->lane;
  Lane& lane = client.lanes[index];
  const unsigned releaser = lane.server;
  lane.moving = false;
  --moving_;
  unbalanced_ = true;
  if (lane.sender != nullptr) {
    detach_channel(client, releaser, lane.sender.get());
    client.retired.push_back({releaser, std::move(lane.sender)});
  }
  lane.server = server_for(channel->lane);
  if (monitor_.serves(lane.server)) serve(channel->client, client, index);  // else serve_again() does
  return lane.server;
}

void Lanes::detached(const Channel* channel) {
  Client& client = clients_.at(channel->client);
  --client.awaited;
  std::erase_if(client.retired, [&](const Retired& r) { return r.channel.get() == channel; });
  for (Lane& lane : client.lanes) {  // so that fence() does not take it for one that is in use
    if (lane.receiver.get() == channel) lane.receiver.reset();
    if (lane.sender.get() == channel) lane.sender.reset();
  }
}

// ---------------------------------------------------------------- a stalled proxy

Lanes::Channels Lanes::fence(unsigned p) {
  Channels ends;
  for (auto& [id, client] : clients_) fence(p, client, ends);
  return ends;
}

void Lanes::fence(unsigned p, Client& client, Channels& ends) {
  const auto retire = [&](std::unique_ptr<Channel>& channel, bool awaited) {
    if (channel == nullptr) return;
    if (awaited) --client.awaited;
    ends.push_back(std::move(channel));
  };
  for (Retired& retired : client.retired)
    if (retired.proxy == p) retire(retired.channel, true);
  std::erase_if(client.retired, [](const Retired& r) { return r.channel == nullptr; });
  for (unsigned i = 0; i < client.lanes.size(); ++i) {
    Lane& lane = client.lanes[i];
    if (lane.server == p) retire(lane.sender, client.detaching);
    if (i % proxies() == p) retire(lane.receiver, client.detaching);
    if (lane.server == p && std::exchange(lane.moving, false)) --moving_;
  }
}

void Lanes::take_back(unsigned p, ClientId id) {
  attach_proxy(id, clients_.at(id), p, true);
}

void Lanes::serve_again(unsigned p) {
  for (auto& [id, client] : clients_) {
    if (client.detaching || client.memory->view(p) == nullptr) continue;
    for (unsigned i = 0; i < client.lanes.size(); ++i)
      if (client.lanes[i].server == p && !client.lanes[i].moving) serve(id, client, i);
  }
}

std::optional<AddressedCommand> Lanes::poll_command() {
  return take_first(commands_);
}

}  // namespace braid::proxy
