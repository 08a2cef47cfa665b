// The time that a program spends before init(), where that is part of the run: where main() runs once (main_once.cpp).
#pragma once

#include <cstdint>

namespace braid::sim {

struct BeforeInit {
  // The clock of compute node 0, in seconds since the run began.
  double (*seconds)() = nullptr;
  // It computes for so many units, or sleeps.
  void (*pass)(std::int64_t units) = nullptr;
  // The units that the program has computed (sim/charge/budget.h), with those of the process from which this one was
  // cloned; 0 if it was not cloned and has made no clones. Called by init(), which goes on with the clock.
  std::int64_t (*end)() = nullptr;
};

// Set before main(); without functions the time before init() is 0.
extern BeforeInit before_init;

}  // namespace braid::sim
