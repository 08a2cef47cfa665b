// The two sides of a run: the near one measures, the far one serves the system whose turn it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "bench/round_trips.h"
#include "bench/transport/report.h"
#include "bench/transport/system.h"

namespace braid::bench {

struct NamedSystem {
  std::string name;
  std::unique_ptr<System> system;
};

class NearSide {
 public:
  // `trips`: round trips of a measurement. `far_is_busy`: another process computes on the far side's core.
  NearSide(int trips, bool far_is_busy, Shared& shared, std::vector<NamedSystem>& systems)
      : trips_(trips), far_is_busy_(far_is_busy), shared_(shared), systems_(systems) {}

  // Measures every system once in each of the `tests`; one way for `milliseconds`.
  void round(Figures& figures, std::span<const Test> tests, int milliseconds);
  // By system: of all rounds.
  const std::map<std::string, Operation>& trip_times() const { return trip_times_; }
  // Ends the far side.
  void stop() { shared_.step.store(kStop); }

 private:
  double measure(std::size_t index, Test test, int milliseconds);
  double trip_us(System& system, Operation& times);
  double million_per_s(System& system, std::uint32_t bytes, Duration time);
  void begin(std::size_t index, Test test);
  void end();

  const int trips_;
  const bool far_is_busy_;
  Shared& shared_;
  std::vector<NamedSystem>& systems_;
  std::uint64_t step_ = 0;
  std::map<std::string, Operation> trip_times_;
};

// Serves until the near side stops.
void run_far_side(Shared& shared, std::vector<NamedSystem>& systems);

}  // namespace braid::bench
