// The library that charged programs link: the call of the handler when the budget is spent, and the budget
// that a page fault's handler sees.
#include "sim/charge/budget.h"

#include <cpuid.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "tests/sim/charge_probes.h"

extern "C" {
void braid_budget_spent();
void braid_test_on_stack(void (*function)(), void* top);
void braid_test_registers(std::uint64_t* registers, const void* before, void* after, std::uint64_t parts);
extern std::uint32_t braid_kept_state;
}

namespace braid::sim::testing {
namespace {

std::function<void()> on_spent;
std::function<void()> on_observation;

// Sets and removes the handler, and resets the budget, for each test.
class ChargeBudget : public ::testing::Test {
 protected:
  ChargeBudget() {
    set_spent_handler([] { on_spent(); });
    on_spent = [] { FAIL() << "the budget must not be spent here"; };
    on_observation = [] {};
    braid_budget = kUnlimited;
  }
  ~ChargeBudget() override {
    set_spent_handler(nullptr);
    braid_budget = kUnlimited;
  }
};

// Changes every register that a called function may change.
[[gnu::noinline]] void clobber_registers() {
  const std::uint32_t mxcsr = 0x1f80;
  asm volatile("fninit; fldpi; fld1; ldmxcsr %0" : : "m"(mxcsr));
  if (__builtin_cpu_supports("avx512f")) {
    asm volatile("vzeroall; vpternlogd $0xff, %%zmm17, %%zmm17, %%zmm17; kxnorw %%k0, %%k0, %%k3"
                 :
                 :
                 : "memory");
  } else if (__builtin_cpu_supports("avx")) {
    asm volatile("vzeroall" : : : "memory");
  }
  asm volatile(
      "pxor %%xmm0, %%xmm0; pcmpeqd %%xmm15, %%xmm15; mov $-1, %%rax; mov %%rax, %%rcx; mov %%rax, %%rdx;"
      "mov %%rax, %%rsi; mov %%rax, %%rdi; mov %%rax, %%r8; mov %%rax, %%r9; mov %%rax, %%r10; "
      "mov %%rax, %%r11;"
      "emms; xor %%eax, %%eax"
      :
      :
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
  errno = EOWNERDEAD;
}

// --- Registers.

constexpr std::uint64_t kLegacy = 3;     // x87 and SSE
constexpr std::size_t kHeader = 512;     // offset of the XSAVE header
constexpr std::uint64_t kFlags = 0xcd5;  // carry, parity, adjust, zero, sign, direction and overflow, all set

struct Part {
  const char* name;
  unsigned component;
  std::size_t offset;
  std::size_t bytes;
};

std::uint64_t all_parts() {
  std::uint32_t a, b, c, d;
  __cpuid(1, a, b, c, d);
  if ((c & bit_OSXSAVE) == 0) return 0;
  std::uint32_t low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low & 0xe7;
}

// The components whose contents are plain bytes.
std::vector<Part> parts_of(std::uint64_t mask) {
  std::vector<Part> parts;
  for (std::size_t k = 0; k < 8; ++k) parts.push_back({"x87", 0, 32 + 16 * k, 10});
  parts.push_back({"xmm", 1, 160, 256});
  for (unsigned k = 2; k < 8; ++k) {
    if ((mask >> k & 1) == 0) continue;
    std::uint32_t bytes, offset, c, d;
    __cpuid_count(0xd, k, bytes, offset, c, d);
    parts.push_back({"extended", k, offset, bytes});
  }
  return parts;
}

struct X87 {
  std::uint16_t control;
  std::uint16_t status;
  unsigned char tags;  // a bit for each register that has a value
};
constexpr X87 kFiveValues = {.control = 0x0f7f, .status = 3 << 11, .tags = 0xf8};  // it rounds to zero
constexpr X87 kInitialX87 = {.control = 0x037f, .status = 0, .tags = 0};

// Of the parts `mask` only those of `used` are in use before: all others have their initial values.
void expect_registers_kept(std::uint64_t mask, std::uint64_t seed, std::uint64_t used = ~std::uint64_t{0},
                           X87 x87 = kFiveValues) {
  SCOPED_TRACE("parts " + std::to_string(mask) + ", in use " + std::to_string(used & mask) +
               ", x87's status " + std::to_string(x87.status) + ", seed " + std::to_string(seed));
  Prng random(seed);
  alignas(64) std::array<unsigned char, 4096> before{}, after{};
  if ((used & 1) == 0) x87 = kInitialX87;
  const std::uint32_t mxcsr = 0xdf80;  // rounds up, flushes to zero
  std::memcpy(&before[0], &x87.control, 2);
  std::memcpy(&before[2], &x87.status, 2);
  before[4] = x87.tags;
  std::memcpy(&before[24], &mxcsr, 4);
  const std::uint64_t in_use = used & mask;
  std::memcpy(&before[kHeader], &in_use, 8);
  const std::vector<Part> parts = parts_of(mask);
  for (const Part& part : parts)
    for (std::size_t i = 0; i < part.bytes; ++i)
      if ((in_use >> part.component & 1) != 0)
        before[part.offset + i] = static_cast<unsigned char>(random.next());
  // Opmask registers of 16 bits read back as 16 bits.
  std::array<std::uint64_t, 16> general;
  for (std::uint64_t& value : general) value = random.next();
  general[15] = kFlags;
  const std::array<std::uint64_t, 16> expected = general;

  braid_test_registers(general.data(), before.data(), after.data(), mask);
  braid_budget = kUnlimited;

  EXPECT_EQ(general[15] & kFlags, kFlags);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(general[i], expected[i]) << "general register " << i;
  EXPECT_EQ(std::memcmp(&after[0], &before[0], 5), 0) << "x87's control, status or tags";
  EXPECT_EQ(std::memcmp(&after[24], &before[24], 4), 0) << "mxcsr";
  for (const Part& part : parts) {
    if (part.component == 0 && x87.tags == 0) continue;
    EXPECT_EQ(std::memcmp(&after[part.offset], &before[part.offset], part.bytes), 0)
        << part.name << " at " << part.offset;
  }
}

TEST_F(ChargeBudget, SpentHandlerPreservesEveryRegister) {
  if (all_parts() == 0) GTEST_SKIP() << "this processor, or its system, has no XSAVE for the comparison";
  int calls = 0;
  on_spent = [&calls] {
    ++calls;
    clobber_registers();
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) expect_registers_kept(all_parts(), seed);
  EXPECT_EQ(calls, 20);
}

// Most code uses few of the components, and what the handler does with the others must not be seen.
TEST_F(ChargeBudget, SpentHandlerPreservesWhatIsInUseAndWhatIsNot) {
  if (all_parts() == 0) GTEST_SKIP() << "this processor, or its system, has no XSAVE for the comparison";
  constexpr X87 kUsual = {.control = 0x037f, .status = 3 << 11, .tags = 0xf8};
  constexpr X87 kNoValue = {
      .control = 0x037f, .status = 0x4120, .tags = 0};  // flags of a comparison, and inexact
  constexpr X87 kTraps = {.control = 0x0f40, .status = 0, .tags = 0};
  for (const bool clobbers : {false, true}) {
    on_spent = [clobbers] {
      if (clobbers) clobber_registers();
    };
    for (std::uint64_t used = 0; used < 0x100; ++used) {
      if ((used & ~all_parts()) != 0) continue;
      for (const X87& x87 : {kFiveValues, kUsual, kNoValue, kTraps})
        expect_registers_kept(all_parts(), used + 1, used | 2, x87);
    }
  }
}

TEST_F(ChargeBudget, FxsavePreservesLegacyRegisters) {
  if (all_parts() == 0) GTEST_SKIP() << "this processor, or its system, has no XSAVE for the comparison";
  on_spent = clobber_registers;
  braid_kept_state = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) expect_registers_kept(kLegacy, seed);
}

// --- Programs that are interrupted many times.

// Runs `f` with budgets of `quantum` units; each time one is spent the handler changes the registers.
template <class F>
auto interrupted_every(std::int64_t quantum, F&& f) {
  on_spent = [quantum] {
    clobber_registers();
    braid_budget = quantum;
  };
  braid_budget = quantum;
  const auto result = f();
  braid_budget = kUnlimited;
  return result;
}

TEST_F(ChargeBudget, InterruptedCodeComputesTheSameResults) {
  const std::array<double, 8> in{0.1, 0.7, 1.3, 2.9, 3.1, 4.7, 5.3, 6.1};
  std::array<std::int64_t, 500> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(i * i * 2654435761u >> 7);
  const double values = many_live_values(in.data(), 3000);
  const long double long_values = many_live_long_values(3000);
  const std::int64_t preserved = leaf(numbers.data(), 500);
  for (const std::int64_t quantum : {0, 1, 17, 1000}) {
    EXPECT_EQ(interrupted_every(quantum, [&] { return many_live_values(in.data(), 3000); }), values)
        << quantum;
    EXPECT_EQ(interrupted_every(quantum, [&] { return many_live_long_values(3000); }), long_values)
        << quantum;
    EXPECT_EQ(interrupted_every(quantum, [&] { return leaf(numbers.data(), 500); }), preserved) << quantum;
    EXPECT_EQ(interrupted_every(quantum, [&] { return keeps_errno(ENOTTY, 100); }), ENOTTY) << quantum;
  }
}

alignas(64) std::array<unsigned char, 32 * 1024> shared_stack;
alignas(64) std::array<unsigned char, 64 * 1024> other_stack;
std::int64_t walked = 0;
// Sanitizers would write to the stack themselves.
[[gnu::no_sanitize("address", "thread", "undefined")]] void walk_once() {
  walked = walk(60, 77);
}

// Whether the handler is called must make no difference to a stack in shared memory.
TEST_F(ChargeBudget, InterruptedCodeOnASharedStackLeavesTheSameBytesThere) {
  braid_spent_stack = {.low = reinterpret_cast<std::uintptr_t>(shared_stack.data()),
                       .bytes = shared_stack.size(),
                       .top = reinterpret_cast<std::uintptr_t>(other_stack.data() + other_stack.size())};
  const auto walk_there = [] {
    shared_stack.fill(0x5a);
    braid_test_on_stack(walk_once, shared_stack.data() + shared_stack.size());
  };
  walk_there();
  const std::int64_t expected = walked;
  const auto bytes = shared_stack;
  EXPECT_NE(bytes.back(), 0x5a) << "it ran on another stack";
  for (const std::int64_t quantum : {0, 1, 17}) {
    int calls = 0;
    on_spent = [&calls, quantum] {
      ++calls;
      clobber_registers();
      braid_budget = quantum;
    };
    braid_budget = quantum;
    walk_there();
    braid_budget = kUnlimited;
    EXPECT_GT(calls, 60);
    EXPECT_EQ(walked, expected) << quantum;
    EXPECT_TRUE(shared_stack == bytes) << quantum;
  }
  braid_spent_stack = {};
}

// A program on a stack of its own that is suspended when its budget is spent.
class Fibre {
 public:
  explicit Fibre(std::function<void()> program) : program_(std::move(program)) {
    ::getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.data();
    inside_.uc_stack.ss_size = stack_.size();
    inside_.uc_link = &outside_;
    current_ = this;
    ::makecontext(
        &inside_, [] { current_->begin(); }, 0);
  }
  // Returns the units used, or -1 if the program has ended.
  std::int64_t run(std::int64_t budget) {
    if (done_) return -1;
    current_ = this;
    meter_.start(budget);
    ::swapcontext(&outside_, &inside_);
    return meter_.stop();
  }
  static void suspend() {
    Fibre& me = *current_;
    ::swapcontext(&me.inside_, &me.outside_);
  }

 private:
  void begin() {
    program_();
    done_ = true;
  }
  static inline Fibre* current_ = nullptr;
  std::function<void()> program_;
  Meter meter_{1};
  bool done_ = false;
  std::vector<char> stack_ = std::vector<char>(128 * 1024);
  ucontext_t inside_, outside_;
};

TEST_F(ChargeBudget, InterleavedFibresUseTheSameUnitsAsAlone) {
  const std::array<double, 8> in{0.1, 0.7, 1.3, 2.9, 3.1, 4.7, 5.3, 6.1};
  Meter meter(1);
  meter.start(kUnlimited);
  const double expected = many_live_values(in.data(), 1000);
  const std::int64_t alone = meter.stop();
  EXPECT_GT(alone, 1000 * 10);

  on_spent = [] {
    clobber_registers();
    Fibre::suspend();
  };
  std::array<double, 3> results{};
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::array<std::int64_t, 3> used{};
  for (double& result : results)
    fibres.push_back(std::make_unique<Fibre>([&result, &in] { result = many_live_values(in.data(), 1000); }));
  for (bool running = true; running;) {
    running = false;
    for (std::size_t k = 0; k < fibres.size(); ++k) {
      const std::int64_t units = fibres[k]->run(100 + 31 * static_cast<std::int64_t>(k));
      if (units < 0) continue;
      running = true;
      used[k] += units;
    }
  }
  for (std::size_t k = 0; k < fibres.size(); ++k) {
    EXPECT_EQ(results[k], expected);
    EXPECT_EQ(used[k], alone);
  }
}

TEST_F(ChargeBudget, BudgetIsUnlimitedWithoutHandler) {
  set_spent_handler(nullptr);
  const std::array<double, 8> in{};
  braid_budget = 10;
  many_live_values(in.data(), 100);
  EXPECT_GT(braid_budget, kUnlimited - 100'000);
}

TEST_F(ChargeBudget, StoppedMeterMakesTheBudgetUnlimited) {
  const std::array<double, 8> in{};
  Meter meter(1);
  meter.start(1);
  EXPECT_EQ(meter.stop(), 0);
  many_live_values(in.data(), 100);  // on_spent would fail the test
}

// --- Page faults.

constexpr std::size_t kPage = 4096;
std::vector<std::int64_t> at_faults;

void open_page(int, siginfo_t* info, void*) {
  at_faults.push_back(braid_budget);
  const auto page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(kPage - 1);
  ::mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
}

class ChargeAtFaults : public ChargeBudget {
 protected:
  ChargeAtFaults() {
    at_faults.clear();
    at_faults.reserve(64);
    struct sigaction action {};
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &previous_);
    pages_ = static_cast<char*>(
        ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~ChargeAtFaults() override {
    ::munmap(pages_, kPages * kPage);
    ::sigaction(SIGSEGV, &previous_, nullptr);
  }
  void close() { ::mprotect(pages_, kPages * kPage, PROT_NONE); }

  static constexpr std::size_t kPages = 16;
  char* pages_;
  struct sigaction previous_;
};

TEST_F(ChargeAtFaults, FaultSeesChargesUpToTheNextBoundaryOnly) {
  close();
  std::vector<std::int64_t> observed;
  on_observation = [&observed] { observed.push_back(braid_budget); };
  touch_between_observations(pages_, 1234);
  ASSERT_EQ(observed.size(), 2u);
  ASSERT_EQ(at_faults.size(), 1u);
  EXPECT_LT(at_faults[0], observed[0]);
  EXPECT_EQ(at_faults[0], observed[1]);
}

TEST_F(ChargeAtFaults, FaultSeesEachIterationChargedAtItsStart) {
  pages_[(kPages - 1) * kPage] = 1;
  close();
  EXPECT_EQ(touch_pages(pages_, kPage), kPages - 1);
  ASSERT_EQ(at_faults.size(), kPages);
  const std::int64_t round = at_faults[0] - at_faults[1];
  EXPECT_GT(round, 0);
  for (std::size_t i = 1; i < kPages; ++i) EXPECT_EQ(at_faults[i - 1] - at_faults[i], round) << i;
}

}  // namespace

void observe_budget() {
  on_observation();
}

}  // namespace braid::sim::testing
