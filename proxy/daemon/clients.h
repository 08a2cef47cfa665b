// The clients of a node: which are attached, the memory that each has, and the messages for them.
//
// Owned by the control plane.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "convergence/ports.h"
#include "proxy/channel/control.h"
#include "proxy/daemon/client_memory.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

// A message for a client, and a descriptor to pass with it (owned by the node, -1: none).
struct ClientMessage {
  ClientId client;
  control::Message message;
  int fd = -1;
};

class Clients final : public convergence::Ports::Resources {
 public:
  struct Client {
    bool gone = false;                     // its socket is closed: it is told nothing more
    std::unique_ptr<ClientMemory> memory;  // nullptr: it has not attached
  };
  struct Limits {
    settings::ChannelConfig channel;
    std::uint64_t memory_bytes = 0;  // of all clients together; 0: half of the machine's
    TrainLimits train{};
  };

  Clients(const Limits& limits, MakeRegion make_region);

  ClientId add();
  // nullptr: there is none, or it is gone entirely.
  Client* find(ClientId client);
  // nullptr also if it is gone, or has not attached.
  ClientMemory* memory(ClientId client);
  const std::map<ClientId, Client>& all() const { return clients_; }
  // Its memory, of the layout that it asks for. An error is for the client.
  Result<ClientMemory*> attach(Client& client, const control::Attach& request, unsigned proxies);
  // It closed its socket, or died: it is told nothing more.
  void gone(ClientId client);
  void erase(ClientId client) { clients_.erase(client); }

  // Sends an answer to a client; nothing if the client is gone.
  void answer(ClientId client, control::Kind kind, std::uint32_t serial, const control::Message& body = {},
              int fd = -1);
  void refuse(ClientId client, std::uint32_t serial, const std::string& text);
  std::optional<ClientMessage> poll_message();
  // The next one for that client, past those for others.
  std::optional<ClientMessage> poll_message(ClientId client);
  // It broke a rule, or cannot be served any more: its socket is to be closed.
  void expel(ClientId client);
  std::optional<ClientId> poll_expelled();

  // convergence::Ports::Resources
  std::optional<convergence::Ports::Grant> grant(ClientId client, std::uint32_t endpoint,
                                                 std::uint32_t window_bytes) override;
  void give_back(ClientId client, std::uint32_t endpoint, const convergence::Ports::Grant& grant,
                 std::uint32_t window_bytes) override;

 private:
  Limits limits_;
  MakeRegion make_region_;
  ClientId next_ = 1;
  std::map<ClientId, Client> clients_;
  std::deque<ClientMessage> messages_;
  std::deque<ClientId> expelled_;
};

}  // namespace braid::proxy
