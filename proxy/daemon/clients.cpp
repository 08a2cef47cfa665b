#include "proxy/daemon/clients.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/take_first.h"

namespace braid::proxy {
namespace {

using convergence::Ports;

// The most memory of all clients together: they must not exhaust the host's.
std::uint64_t half_of_the_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

}  // namespace

Clients::Clients(const Limits& limits, MakeRegion make_region)
    : limits_(limits), make_region_(std::move(make_region)) {
  if (limits_.memory_bytes == 0) limits_.memory_bytes = half_of_the_memory();
}

ClientId Clients::add() {
  const ClientId id = next_++;
  clients_.try_emplace(id);
  return id;
}

Clients::Client* Clients::find(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

ClientMemory* Clients::memory(ClientId id) {
  const Client* const client = find(id);
  return client == nullptr || client->gone ? nullptr : client->memory.get();
}

Result<ClientMemory*> Clients::attach(Client& client, const control::Attach& request, unsigned proxies) {
  if (client.memory != nullptr) return error("attached already");
  Result<ChannelGeometry> geometry = channel_geometry(request, proxies, limits_.channel, limits_.train);
  if (!geometry) return geometry.error();
  const std::uint64_t total = geometry->total_bytes();
  std::uint64_t held = 0;
  for (const auto& [id, other] : clients_)
    held += other.memory != nullptr ? other.memory->geometry().total_bytes() : 0;
  if (held + total > limits_.memory_bytes)
    return error(
        "no {} MiB for the channels: this node's clients hold {} of at most {} MiB (half of the machine's "
        "memory)",
        total >> 20, held >> 20, limits_.memory_bytes >> 20);
  Result<std::unique_ptr<ClientMemory>> memory = ClientMemory::create(*geometry, proxies, make_region_);
  if (!memory) return memory.error();
  client.memory = std::move(memory).value();
  return client.memory.get();
}

void Clients::gone(ClientId id) {
  clients_.at(id).gone = true;
  std::erase_if(messages_, [&](const ClientMessage& m) { return m.client == id; });
}

// ---------------------------------------------------------------- what they are told

void Clients::answer(ClientId id, control::Kind kind, std::uint32_t serial, const control::Message& body,
                     int fd) {
  if (const Client* const client = find(id); client == nullptr || client->gone) return;
  ClientMessage m{id, body, fd};
  m.message.kind = kind;
  m.message.serial = serial;
  messages_.push_back(m);
}

void Clients::refuse(ClientId id, std::uint32_t serial, const std::string& text) {
  control::Message m;
  const std::size_t n = std::min(text.size(), sizeof m.refused.text - 1);
  std::memcpy(m.refused.text, text.data(), n);
  answer(id, control::Kind::kRefused, serial, m);
}

std::optional<ClientMessage> Clients::poll_message() {
  return take_first(messages_);
}

std::optional<ClientMessage> Clients::poll_message(ClientId id) {
  const auto found = std::find_if(messages_.begin(), messages_.end(),
                                  [&](const ClientMessage& m) { return m.client == id; });
  if (found == messages_.end()) return std::nullopt;
  const ClientMessage m = *found;
  messages_.erase(found);
  return m;
}

void Clients::expel(ClientId id) {
  if (const Client* const client = find(id); client != nullptr && !client->gone) expelled_.push_back(id);
}

std::optional<ClientId> Clients::poll_expelled() {
  return take_first(expelled_);
}

// ---------------------------------------------------------------- connections' share

std::optional<Ports::Grant> Clients::grant(ClientId id, std::uint32_t endpoint, std::uint32_t window_bytes) {
  ClientMemory* const memory = this->memory(id);
  if (memory == nullptr) return std::nullopt;
  return memory->windows().grant(endpoint, window_bytes);
}

void Clients::give_back(ClientId id, std::uint32_t endpoint, const Ports::Grant& grant,
                        std::uint32_t window_bytes) {
  if (const Client* const client = find(id); client != nullptr && client->memory != nullptr)
    client->memory->windows().give_back(endpoint, grant, window_bytes);
}

}  // namespace braid::proxy
