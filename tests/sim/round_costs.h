// The cost model of tests: every cost a round number of cycles.
#pragma once

#include "settings/cost_model.h"

namespace braid::sim {

// A message of few bytes takes 1000 (send) + 500 (network) + 900 (receive) cycles; the clock says how long that is.
inline settings::CostModel round_costs(double cycles_per_second) {
  settings::CostModel m;
  m.name = "round costs";
  m.cycles_per_second = cycles_per_second;
  m.fault = 100;
  m.call = 50;
  m.lock = 20;
  m.barrier = 30;
  m.sync = 20;
  m.protect = 40;
  m.twin = 200;
  m.diff = 300;
  m.diff_byte = 0.5;
  m.page_byte = 0.25;
  m.handler = 150;
  m.hand_over = 60;
  m.hand_over_byte = 0.25;
  m.window_send = 600;
  m.ack_send = 200;
  m.udp_send = 150;
  m.checksum_byte = 0.5;
  m.ip_send = 150;
  m.ni_send = 100;
  m.ni_byte = 0;
  m.ni_receive = 100;
  m.ip_receive = 150;
  m.udp_receive = 150;
  m.window_receive = 400;
  m.ack_receive = 150;
  m.deliver = 100;
  m.deliver_byte = 0.25;
  m.timer = 50;
  m.latency = 500;
  m.wire_byte = 0.1;
  return m;
}

}  // namespace braid::sim
