// The connections of one endpoint: owns them, and finds them by their port.
//
// The low 16 bits of a port are its index among the client's connections; the rest tells one use of an index
// from the next. Owned by the endpoint's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "proxy/client/connection.h"

namespace braid::proxy {

class ConnectionTable {
 public:
  // nullptr: no open connection has this port.
  Connection* find(PortId port) const {
    const std::size_t index = index_of(port);
    Connection* const connection = index < slots_.size() ? slots_[index].open : nullptr;
    return connection != nullptr && connection->port() == port ? connection : nullptr;
  }
  Connection* add(std::unique_ptr<Connection> connection);
  // `connection` is in the table.
  std::unique_ptr<Connection> remove(Connection* connection);
  // `port` belonged to the connection that was removed last from its index: arrivals for it may still come.
  bool was_removed(PortId port) const {
    const std::size_t index = index_of(port);
    return index < slots_.size() && slots_[index].removed == port;
  }
  // In the order in which they were added.
  const std::vector<std::unique_ptr<Connection>>& all() const { return connections_; }

 private:
  struct Slot {
    Connection* open = nullptr;
    PortId removed;
  };
  static std::size_t index_of(PortId port) { return port.value() & 0xffff; }

  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Slot> slots_ = std::vector<Slot>(64);  // by index; doubled when a greater index comes
};

}  // namespace braid::proxy
