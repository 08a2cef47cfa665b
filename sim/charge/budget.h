// The budget of a charged program: how much it may compute before it calls a handler, and how much it has
// computed. This library is linked into the program. The compiler plug-in (pass.cpp) inserts the code that
// subtracts the cost of the program's statements from the budget.
//
// A unit is one cycle of a processor that issues one instruction at a time, in order, from a cache that
// always hits; docs/decisions/0009-compute-time-is-counted-by-the-compiler.md has the cost table.
//
// One thread: all charged code of this process (fibres, signal handlers) runs on the same kernel thread.
#pragma once

#include <cstdint>

#include "base/time.h"

// The units that are left; the program's code subtracts from it. Negative: spent.
extern "C" std::int64_t braid_budget;

// Where code that is charged for shared stacks (pass.cpp) runs on [low, low + bytes), the handler runs on the stack that begins at
// `top`, and nothing at all is written to that of the code: whether the handler is called makes no difference to its pages.
// Zeros: the handler runs on the stack of the code. Initial-exec, for budget_spent.S.
struct BraidSpentStack {
  std::uintptr_t low = 0;
  std::uintptr_t bytes = 0;
  std::uintptr_t top = 0;
  // For budget_spent.S.
  std::uintptr_t rax = 0;
  std::uintptr_t next = 0;
};
extern "C" thread_local BraidSpentStack braid_spent_stack __attribute__((tls_model("initial-exec")));

// Of programs with access checks (access_rights.h). Whether this is one; known before its constructors run.
extern "C" bool braid_has_access_checks;
// What a check costs, in units: checked code subtracts it from the budget.
extern "C" std::int64_t braid_check_units;

namespace braid::sim {

// With this budget the handler is never called.
inline constexpr std::int64_t kUnlimited = INT64_MAX;

// Whether applications are compiled with the plug-in. Where it could not be built, Meter measures the
// processor's time instead, and runs differ.
constexpr bool charges_are_counted() {
  return BRAID_CHARGES_COUNTED != 0;
}

// The program's code calls it, at any charge, when the budget is spent; the charged code runs after the
// handler has returned. The handler runs on the stack of that code and uses some 3 KiB of it for registers.
// It may switch to another fibre and return when its own is resumed; all registers except AMX's, and errno,
// are preserved. It does not throw. It sets a new budget; otherwise it is called again at the next charge.
// Without a handler the budget becomes unlimited.
using SpentHandler = void (*)();
// nullptr: no handler. On the program's thread, not while charged code runs.
void set_spent_handler(SpentHandler handler);

// Checked code calls it where a check finds its access closed, under the conditions of SpentHandler; afterwards it checks again. The
// handler opens the access, or ends the process. Without a handler the access is made, and faults.
using AccessHandler = void (*)(std::uintptr_t address, bool write);
void set_access_handler(AccessHandler handler);
void call_access_handler(std::uintptr_t address, bool write);

// Measures what the program computes from the moment when it is resumed until it is interrupted: by a page
// fault, by a call, or because its budget is spent. Owned by the code that resumes the program.
class Meter {
 public:
  // `units_per_second`: of the processor's time. Used only where charges are not counted.
  explicit constexpr Meter(std::int64_t units_per_second) : units_per_second_(units_per_second) {}

  // Called just before the program runs. When the program has used more than `budget` units, its next charge
  // calls the handler. Where charges are not counted the handler is never called.
  void start(std::int64_t budget);

  // Called first when the program has been interrupted. Returns the units used since start(), which exceed
  // the budget by at most the last charge: code is charged whole, before it runs. Until the next start() the
  // budget is unlimited, because the host's code can share functions with the program (template instances).
  std::int64_t stop();

 private:
  std::int64_t units_per_second_;
  std::int64_t budget_ = kUnlimited;
  Duration started_;
};

}  // namespace braid::sim
