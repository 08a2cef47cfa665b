// Charged code for the tests of the budget.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::sim::testing {

// Defined by the test and compiled without charges, so a boundary.
void observe_budget();

// Observes, computes a little, touches `byte`, computes more, and observes again.
std::int64_t touch_between_observations(volatile char* byte, std::int64_t x);
// Touches the first byte of each of the pages until it finds one that is not 0; returns how many it saw.
std::size_t touch_pages(const volatile char* pages, std::size_t page_bytes);
// Has many live integers and doubles in registers across charges; calls nothing.
double many_live_values(const double* in, std::int64_t rounds);
// The same with 80-bit values on the x87 stack.
long double many_live_long_values(std::int64_t rounds);
// A leaf function without a frame: its variables would be in the red zone.
std::int64_t leaf(const std::int64_t* in, std::int64_t n);
// Sets errno, computes, and returns errno.
int keeps_errno(int value, std::int64_t rounds);
// Calls itself `depth` times, and has numbers on the stack. Charged for shared stacks.
std::int64_t walk(std::int64_t depth, std::int64_t seed);

}  // namespace braid::sim::testing
