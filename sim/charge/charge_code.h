// The assembly of a charge (budget.h), as the compiler plug-in inserts it.
#pragma once

namespace braid::charge {

// Subtracts %0 from the budget. The call is in another subsection, so the usual path is two instructions, the second a branch
// that is not taken. It pushes a return address, so the program is compiled without a red zone.
inline constexpr const char* kCharge =
    "subq %0, braid_budget(%%rip)\n"
    "\tjs 771f\n"
    "772:\n"
    "\t.subsection 1\n"
    "771:\tcall braid_budget_spent\n"
    "\tjmp 772b\n"
    "\t.previous";

}  // namespace braid::charge
