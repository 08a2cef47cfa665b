#include "proxy/daemon/control_messages.h"

#include <utility>

namespace braid::proxy {

ControlMessages::ControlMessages(unsigned proxies, std::size_t clusters)
    : given_(proxies), received_(clusters) {}

SendControl ControlMessages::number(ProxyId by, ClusterId to, convergence::ControlMessage message) {
  message.serial = next_serial_++;
  const SendControl command{to, message};
  hand_over(by, command);
  return command;
}

std::vector<SendControl> ControlMessages::take(ProxyId from) {
  std::vector<SendControl> known;
  for (const SendControl& given : std::exchange(given_[from.value()], {}))
    if (next_serial_ - given.message.serial <= 2 * kRepeatable) known.push_back(given);
  return known;
}

void ControlMessages::hand_over(ProxyId to, const SendControl& message) {
  std::deque<SendControl>& given = given_[to.value()];
  given.push_back(message);
  if (given.size() > kRepeatable) given.pop_front();
}

void ControlMessages::peer_lost(ClusterId cluster) {
  received_[cluster.value()].forget();
  for (std::deque<SendControl>& given : given_)
    std::erase_if(given, [&](const SendControl& message) { return message.to == cluster; });
}

}  // namespace braid::proxy
