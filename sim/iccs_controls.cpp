#include "sim/iccs_controls.h"

#include <algorithm>

namespace braid::sim {

namespace {

// How often a control plane looks after its proxies where something may happen to them, and after a peer that
// it does not hear. Below the gap after which it takes itself for late (proxy/daemon).
constexpr Duration kControlPeriod = 20_ms;

}  // namespace

void IccsControls::wake(ClusterId cluster, Instant at) {
  Instant& due = controls_[cluster.value()].due;
  if (due <= at) return;
  due = at;
  events_.push(at, {EventKind::kControl, 0, cluster.value(), 0});
}

void IccsControls::watch() {
  watching_ = true;
  for (std::uint16_t k = 0; k < controls_.size(); ++k) wake(ClusterId(k), events_.now());
}

void IccsControls::on_worked(ProxyRun& proxy) {
  proxy::Worker& worker = proxy.worker();
  if (worker.has_events() || (controls_[proxy.cluster().value()].waits && worker.caught_up()))
    wake(proxy.cluster(), events_.now());
}

std::optional<VirtualNode::Lost> IccsControls::on_event(ClusterId cluster) {
  if (controls_[cluster.value()].due != events_.now()) return {};
  return take_turn(cluster);
}

std::optional<VirtualNode::Lost> IccsControls::take_turn(ClusterId cluster) {
  Control& control = controls_[cluster.value()];
  control.due = Instant::never();
  const Instant now = events_.now();
  proxy::Node& node = nodes_[cluster.value()]->node();
  for (unsigned p = 0; p < proxies_each(); ++p)
    if (!proxy(cluster, p).is_stopped()) node.worker(p).beat();
  const bool worked = node.do_control(now) > 0;
  control.waits = false;
  for (unsigned p = 0; p < proxies_each(); ++p) {
    if (node.worker(p).caught_up()) continue;
    control.waits = true;
    proxy(cluster, p).poke();
  }
  Instant next = node.next_deadline();
  if (watching_) next = earlier(next, now + kControlPeriod);
  // Its work may have been the first of several steps.
  if (worked) next = earlier(next, now + 1_ns);
  if (next != Instant::never()) wake(cluster, std::max(next, now + 1_ns));
  return nodes_[cluster.value()]->lost();
}

}  // namespace braid::sim
