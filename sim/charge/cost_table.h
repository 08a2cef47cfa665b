// What a statement costs. A unit is one cycle of a processor that issues one instruction at a time, in order,
// and whose cache always hits: what such a processor would do for the statement, and not what the machine at
// hand does.
//
// Part of the compiler plug-in.
#pragma once

#include "sim/charge/gcc.h"

namespace braid::charge {

using Units = HOST_WIDE_INT;

// A jump that stands in no statement: what a loop that does nothing at all costs each time around.
inline constexpr Units kJump = 1;

// Without what units_of_move() adds for it.
Units cost_of(const gimple* statement);

// The statement moves (or compares) bytes in memory and the program knows only when it runs how many: what
// that costs, an expression of the statement's operands. Otherwise NULL_TREE, and cost_of() is all of it.
tree units_of_move(const gimple* statement);

// Whether code may run in the statement that looks at the budget or is charged itself: a call of other code
// than a library's that calls nobody back. What comes after such a statement must not be charged before it.
bool is_boundary(const gimple* statement);

}  // namespace braid::charge
