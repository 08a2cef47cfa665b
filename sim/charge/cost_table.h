// The cost of a statement. A unit is one cycle of a processor that issues one instruction at a time, in
// order, and whose cache always hits. The instructions that this compiler emits for the statement do not
// matter.
//
// Part of the compiler plug-in.
#pragma once

#include "sim/charge/gcc.h"

namespace braid::charge {

using Units = HOST_WIDE_INT;

// A jump without a statement: the cost of one iteration of an empty loop.
inline constexpr Units kJump = 1;

// Does not include units_of_move().
Units cost_of(const gimple* statement);

// For a statement that moves, sets or compares a number of bytes that is known only at run time: the cost of
// these bytes, as an expression of the statement's operands. Otherwise NULL_TREE, and cost_of() is the whole
// cost.
tree units_of_move(const gimple* statement);

// Whether the statement may run code that reads the budget or is charged itself: any call except of a library
// function without callbacks. Statements after a boundary must not be charged before it.
bool is_boundary(const gimple* statement);

}  // namespace braid::charge
