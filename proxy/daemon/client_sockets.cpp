#include "proxy/daemon/client_sockets.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "proxy/channel/unix_socket.h"

namespace braid::proxy {

ClientSockets::~ClientSockets() {
  for (const Client& c : clients_) ::close(c.fd);
}

bool ClientSockets::has(ClientId id) const {
  return std::any_of(clients_.begin(), clients_.end(), [&](const Client& c) { return c.id == id; });
}

void ClientSockets::add(int fd, ClientId id) {
  CHECK(!full());
  clients_.push_back({fd, id, false, {}});
}

void ClientSockets::remove(ClientId id) {
  const auto c = std::find_if(clients_.begin(), clients_.end(), [&](const Client& x) { return x.id == id; });
  if (c == clients_.end()) return;
  ::close(c->fd);
  clients_.erase(c);
}

std::optional<ClientId> ClientSockets::first_silent() const {
  const auto c = std::find_if(clients_.begin(), clients_.end(), [](const Client& x) { return !x.has_sent; });
  if (c == clients_.end()) return std::nullopt;
  return c->id;
}

bool ClientSockets::send(const ClientMessage& message) {
  const auto c =
      std::find_if(clients_.begin(), clients_.end(), [&](const Client& x) { return x.id == message.client; });
  if (c == clients_.end()) return true;
  c->unsent.push_back(message);
  send_unsent(*c);
  return c->unsent.size() <= kMaxUnsent;
}

// A client that is gone is found by serve().
void ClientSockets::send_unsent(Client& client) {
  while (!client.unsent.empty()) {
    const ClientMessage& m = client.unsent.front();
    if (send_message(client.fd, m.message, m.fd, false) == Sent::kNoRoom) return;
    client.unsent.pop_front();
  }
}

void ClientSockets::append_to(std::vector<pollfd>& fds) const {
  for (const Client& c : clients_)
    fds.push_back({c.fd, static_cast<short>(c.unsent.empty() ? POLLIN : POLLOUT), 0});
}

std::optional<ClientSockets::Request> ClientSockets::serve(int fd) {
  const auto c = std::find_if(clients_.begin(), clients_.end(), [&](const Client& x) { return x.fd == fd; });
  if (c == clients_.end()) return std::nullopt;
  send_unsent(*c);
  if (!c->unsent.empty()) return std::nullopt;
  pollfd readable{fd, POLLIN, 0};
  if (::poll(&readable, 1, 0) <= 0) return std::nullopt;
  Request request{c->id, control::Message()};
  int passed = -1;
  if (!receive_message(fd, &*request.message, &passed)) {
    request.message.reset();
    return request;
  }
  if (passed >= 0) ::close(passed);  // nobody is asked for one
  c->has_sent = true;
  return request;
}

}  // namespace braid::proxy
