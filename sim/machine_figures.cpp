#include "sim/machine_figures.h"

namespace braid::sim {

void MessageFigures::add(const MessageReport& report, bool has_proxies) {
  const MessageTimes& t = report.times;
  ++count;
  bytes += report.bytes;
  whole += t.delivered - t.handed;
  if (!has_proxies) return;
  wait_to_send += t.served - t.handed;
  send += t.left - t.served;
  network += t.arrived - t.left;
  wait_for_link += t.on_link - t.left;
  wait_to_receive += t.taken - t.arrived;
  receive += t.delivered - t.taken;
}

}  // namespace braid::sim
