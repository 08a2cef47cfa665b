#include "proxy/client/connection_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace braid::proxy {

Connection* ConnectionTable::add(std::unique_ptr<Connection> connection) {
  const std::size_t index = index_of(connection->port());
  if (index >= slots_.size()) slots_.resize(2 * index);
  connections_.push_back(std::move(connection));
  return slots_[index].open = connections_.back().get();
}

std::unique_ptr<Connection> ConnectionTable::remove(Connection* connection) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& c) { return c.get() == connection; });
  CHECK(found != connections_.end());
  Slot& slot = slots_[index_of(connection->port())];
  slot.open = nullptr;
  slot.removed = connection->port();
  std::unique_ptr<Connection> removed = std::move(*found);
  connections_.erase(found);
  return removed;
}

}  // namespace braid::proxy
