// main() of the kernels and observe(), compiled without the plug-in.
#include <cinttypes>
#include <cstdio>

#include "sim/charge/budget.h"
#include "tests/sim/charge_kernels.h"

void observe(const char* what, std::int64_t value) {
  static std::int64_t before = braid_budget;
  std::printf("%s = %" PRId64 "\n", what, value);
  std::printf("units %s %" PRId64 "\n", what, before - braid_budget);
  before = braid_budget;
}

std::int64_t opaque(std::int64_t n) {
  return n;
}

int main() {
  braid_budget = braid::sim::kUnlimited;
  c_kernels();
  cpp_kernels();
}
