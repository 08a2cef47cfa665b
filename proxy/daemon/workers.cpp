#include "proxy/daemon/workers.h"

#include <algorithm>
#include <utility>

#include "base/ethernet.h"

namespace braid::proxy {

Result<std::unique_ptr<Workers>> Workers::create(const std::vector<stack::StackConfig>& stacks, Links& links,
                                                 NodeCounters& counters, ProxyStates& states, Instant now,
                                                 std::uint32_t max_ports, const Protocols& protocols) {
  std::unique_ptr<Workers> workers(new Workers);
  for (const stack::StackConfig& stack : stacks) {
    Result<std::vector<LinkQueue>> queues = links.take_queues(stack);
    if (!queues) return queues.error();
    workers->workers_.push_back(std::make_unique<Worker>(stack, std::move(queues).value(),
                                                         counters.proxy[stack.local.proxy.value()], states,
                                                         now, max_ports, protocols));
  }
  workers->put_off_.resize(stacks.size());
  workers->connect(stacks[0].mtu_bytes + kEthernetHeaderBytes);
  return workers;
}

// Every ordered pair has a ring for frames and one for messages.
void Workers::connect(std::uint32_t frame_bytes) {
  const unsigned proxies = count();
  const auto between = [&](unsigned from, unsigned to) {
    return from * (proxies - 1) + (to < from ? to : to - 1);
  };
  for (unsigned from = 0; from < proxies; ++from) {
    for (unsigned to = 0; to < proxies; ++to) {
      if (from == to) continue;
      handoffs_.push_back(std::make_unique<Handoff>(frame_bytes));
      workers_[from]->connect_handoff(to, handoffs_.back().get());
      workers_[to]->add_handoff_source(handoffs_.back().get());
      relays_.push_back(std::make_unique<Relay>());
    }
  }
  for (unsigned from = 0; from < proxies; ++from)
    for (unsigned to = 0; to < proxies; ++to)
      if (from != to)
        workers_[from]->connect_relay(to, relays_[between(from, to)].get(), relays_[between(to, from)].get());
}

void Workers::tell(unsigned proxy, const WorkerCommand& command) {
  if (!put_off_[proxy].empty() || !workers_[proxy]->command(command)) put_off_[proxy].push_back(command);
}

void Workers::flush() {
  for (unsigned p = 0; p < count(); ++p)
    while (!put_off_[p].empty() && workers_[p]->command(put_off_[p].front())) put_off_[p].pop_front();
}

bool Workers::caught_up(unsigned proxy) const {
  return put_off_[proxy].empty() && workers_[proxy]->caught_up();
}

bool Workers::ready() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->ready(); });
}

bool Workers::refused_peer() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->refused_peer(); });
}

std::uint8_t Workers::other_version() const {
  for (const auto& w : workers_)
    if (w->other_version() != 0) return w->other_version();
  return 0;
}

}  // namespace braid::proxy
