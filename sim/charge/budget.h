// How much a program may compute before it calls out, and how much it did: the half of charging that is
// linked into it. The other half is the compiler plug-in (pass.cpp), which makes the program take what it
// computes from the budget. Between two calls no code of ours runs in the program.
//
// A unit is one cycle of a processor that issues one instruction at a time, in order, from a cache that
// always hits; docs/decisions/0009-compute-time-is-counted-by-the-compiler.md has the cost table.
//
// For one kernel thread: whatever runs charged code in this process (fibres, signal handlers) runs on it.
#pragma once

#include <cstdint>

#include "base/time.h"

// What is left; the program's code subtracts from it. Negative: spent.
extern "C" std::int64_t braid_budget;

namespace braid::sim {

// Enough for anything: nothing calls out.
inline constexpr std::int64_t kUnlimited = INT64_MAX;

// Whether applications are compiled with the plug-in. Where it could not be built they run without; the
// processor's clock then says what they computed (Meter), and no run is like another.
constexpr bool charges_are_counted() {
  return BRAID_CHARGES_COUNTED != 0;
}

// Called by the program's code, wherever in it that is, when it has spent its budget; the code's cost is
// charged, and it runs once the handler has returned. On the stack of that code, with some 3 KiB of it used.
// It may switch to another fibre and return when that one is resumed; all registers but AMX's, and errno, are
// what they were when it returns. It does not throw. It leaves a budget behind, or is called again at the
// next charge. Without a handler the budget becomes unlimited. One thread, not while charged code runs.
using SpentHandler = void (*)();
void set_spent_handler(SpentHandler handler);

// Measures what the program computes between the moments when it is let run and when it comes back: by a page
// fault, by a call, or because its budget is spent. Owned by whoever lets it run.
class Meter {
 public:
  // By the clock, a second of the processor's time is so many units: used where charges are not counted,
  // only.
  explicit Meter(std::int64_t units_per_second) : units_per_second_(units_per_second) {}

  // Just before the program runs: when it has used `budget` units it calls the handler, at the next part of
  // it that is charged. By the clock nothing is called.
  void start(std::int64_t budget);

  // First thing when it came back: the units used since start(). More than the budget by what the last part
  // cost: it is charged whole, before it runs. From here to the next start() the budget is unlimited, because
  // the code that runs now can have functions in common with the program's (templates' instances).
  std::int64_t stop();

 private:
  std::int64_t units_per_second_;
  std::int64_t budget_ = kUnlimited;
  Duration started_;
};

}  // namespace braid::sim
