#include "tests/sim/fault_service.h"

namespace braid::sim {

namespace {

// While a client waits it lets the world go on for so long at a time.
constexpr Duration kWaitStep = 10_us;

}  // namespace

FaultService::FaultService(FaultDriver& driver, FaultNodes& nodes, unsigned node)
    : VirtualService(*nodes.node(node)),
      driver_(driver),
      nodes_(nodes),
      index_(node),
      life_(nodes.life(node)) {}

FaultService::~FaultService() {
  proxy::Node* const here = node();
  if (here == nullptr) return;
  here->client_gone(client());
  nodes_.wake_control(index_, driver_.now());
  nodes_.wake_proxies(index_);
}

Result<proxy::control::Message> FaultService::call(const proxy::control::Message& request, Duration timeout,
                                                   int* fd) {
  const FaultDriver::Waiting waiting(driver_);
  return VirtualService::call(request, timeout, fd);
}

int FaultService::turn() {
  if (!in_loop) return 0;
  nodes_.wake_proxies(index_);
  driver_.run_until(driver_.now() + kWaitStep);
  return 1;  // virtual time went on: nothing to yield to
}

}  // namespace braid::sim
