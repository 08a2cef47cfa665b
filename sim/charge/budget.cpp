#include "sim/charge/budget.h"

#include <cpuid.h>

#include <cerrno>

#include "base/check.h"
#include "base/clock.h"

std::int64_t braid_budget = INT64_MAX;
constinit thread_local BraidSpentStack braid_spent_stack;
bool braid_has_access_checks = false;
std::int64_t braid_check_units = 0;

// For braid_budget_spent (budget_spent.S).
extern "C" {
// The XSAVE components that it saves; 0: it uses FXSAVE.
std::uint32_t braid_kept_state = 0;
// Whether the processor tells which of them are in use.
std::uint32_t braid_tells_use = 0;
void braid_call_spent_handler();
}

namespace braid::sim {
namespace {

SpentHandler spent_handler = nullptr;
AccessHandler access_handler = nullptr;

// XSAVE components of x87, SSE, AVX and AVX-512. Compiled code does not use AMX (8 KiB of tiles) by itself.
constexpr std::uint32_t kSaved = 0xe7;
// The bytes of stack that budget_spent.S reserves: the highest end of these components in XSAVE's standard
// format on any processor so far.
constexpr std::uint32_t kSaveBytes = 2688;

// The components of kSaved that this processor and system have.
std::uint32_t kept_state() {
  std::uint32_t a, b, c, d;
  __cpuid(1, a, b, c, d);
  if ((c & bit_OSXSAVE) == 0) return 0;
  std::uint32_t low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const std::uint32_t kept = low & kSaved;
  for (std::uint32_t part = 2; part < 32; ++part) {
    if ((kept >> part & 1) == 0) continue;
    __cpuid_count(0xd, part, a, b, c, d);
    CHECK_LE(b + a, kSaveBytes);  // offset and size
  }
  return kept;
}

// Asked with 1, XGETBV tells it: what is not in use has its initial value. Opmask registers of 64 bits are AVX512BW's.
bool tells_use() {
  constexpr std::uint32_t kOpmask = 0x20;
  if (braid_kept_state == 0) return false;
  if ((braid_kept_state & kOpmask) != 0 && !__builtin_cpu_supports("avx512bw")) return false;
  std::uint32_t a, b, c, d;
  __cpuid_count(0xd, 1, a, b, c, d);
  return (a & 4) != 0;
}

}  // namespace

void set_spent_handler(SpentHandler handler) {
  braid_kept_state = kept_state();
  braid_tells_use = tells_use() ? 1 : 0;
  spent_handler = handler;
}

void set_access_handler(AccessHandler handler) {
  access_handler = handler;
}

void call_access_handler(std::uintptr_t address, bool write) {
  if (access_handler == nullptr) {
    (void)*reinterpret_cast<const volatile char*>(address);  // NOLINT
    return;
  }
  const int kept = errno;  // as in braid_call_spent_handler()
  access_handler(address, write);
  errno = kept;
}

void Meter::start(std::int64_t budget) {
  if constexpr (charges_are_counted()) {
    budget_ = budget;
    braid_budget = budget;
  } else {
    started_ = thread_cpu_time();
  }
}

std::int64_t Meter::stop() {
  if constexpr (charges_are_counted()) {
    const std::int64_t used = budget_ - braid_budget;
    braid_budget = kUnlimited;
    return used;
  } else {
    const double seconds = (thread_cpu_time() - started_).s();
    return static_cast<std::int64_t>(seconds * static_cast<double>(units_per_second_));
  }
}

}  // namespace braid::sim

void braid_call_spent_handler() {
  if (braid::sim::spent_handler == nullptr) {
    braid_budget = braid::sim::kUnlimited;
    return;
  }
  const int kept = errno;  // the handler may switch to fibres that share this errno
  braid::sim::spent_handler();
  errno = kept;
}
