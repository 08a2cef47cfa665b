// Charged code whose charges are looked at from inside and outside.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::sim::testing {

// Tells nothing and returns; compiled without charges, so a boundary.
void observe_budget();

// Observes, computes a little, touches `byte`, computes more, and observes again.
std::int64_t touch_between_observations(volatile char* byte, std::int64_t x);
// Touches the first byte of each of the pages until it finds one that is not 0; returns how many it saw.
std::size_t touch_pages(const volatile char* pages, std::size_t page_bytes);
// Computes with registers full of values across charges, integers and doubles; calls nothing.
double full_of_values(const double* in, std::int64_t rounds);
// The same kind of thing with values of 80 bits on the x87's stack.
long double full_of_long_values(std::int64_t rounds);
// Has no frame of its own: all that it keeps would lie below the stack's end.
std::int64_t leaf(const std::int64_t* in, std::int64_t n);
// Sets errno, computes, and returns errno.
int keeps_errno(int value, std::int64_t rounds);

}  // namespace braid::sim::testing
