// The sockets of the processes that are attached to a braidd, and the messages that wait for room in them.
//
// A client that does not read delays only itself: its messages queue here, and its requests are not read while any
// waits. A client with more than kMaxUnsent waiting has stopped reading: the driver disconnects it. A client that has
// never sent a request may be disconnected to make room for another.
//
// Owned by the control plane's thread. remove() and the destructor close sockets. Nothing here waits.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "proxy/channel/control.h"
#include "proxy/daemon/clients.h"

namespace braid::proxy {

class ClientSockets {
 public:
  // Two descriptors for each; the usual limit of a process is 1024.
  static constexpr std::size_t kMaxClients = 256;
  // Answers and events that wait for one client. Its requests are not read meanwhile, so only accepted connections
  // can add to them.
  static constexpr std::size_t kMaxUnsent = 4096;

  ClientSockets() = default;
  ~ClientSockets();
  ClientSockets(const ClientSockets&) = delete;
  ClientSockets& operator=(const ClientSockets&) = delete;

  bool empty() const { return clients_.empty(); }
  bool full() const { return clients_.size() >= kMaxClients; }
  bool has(ClientId id) const;
  // Takes the socket over. There is room.
  void add(int fd, ClientId id);
  // Closes the socket; what was not sent is dropped. Nothing happens if there is no such client.
  void remove(ClientId id);
  // The one that connected first of those that have never sent a request.
  std::optional<ClientId> first_silent() const;

  // Sends the message as soon as its socket has room, or drops it if there is no such client. False: the client has
  // stopped reading.
  [[nodiscard]] bool send(const ClientMessage& message);

  // Appends what poll() should wait for at each client: room if messages wait, else a request.
  void append_to(std::vector<pollfd>& fds) const;

  struct Request {
    ClientId client;
    std::optional<control::Message> message;  // nullopt: it is gone, or sent something that is not a message
  };
  // poll() reports this socket: sends what waits, then takes a request. nullopt: there is none yet.
  std::optional<Request> serve(int fd);

 private:
  struct Client {
    int fd;
    ClientId id;
    bool has_sent = false;
    std::deque<ClientMessage> unsent;
  };
  static void send_unsent(Client& client);

  std::vector<Client> clients_;
};

}  // namespace braid::proxy
