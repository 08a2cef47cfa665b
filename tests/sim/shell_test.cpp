// Programs in a shell: their requests to the engine, the order in which nodes run, and how processes end.
#include "sim/shell/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <ostream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/threads.h"
#include "tests/dsm/live_c_program.h"
#include "tests/dsm/page_bytes.h"
#include "tests/sim/shell_machine.h"

extern "C" void braid_budget_spent();  // called by charged code (sim/charge)

#if defined(__SANITIZE_ADDRESS__)
// LeakSanitizer does not scan the stacks of suspended fibres when another one exits.
extern "C" int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return 1;
}
#endif

namespace braid::sim {
namespace {

using dsm::Node;
using dsm::Placement;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Field;
using testing::HasSubstr;
using RecordedRequest = ShellMachine::RecordedRequest;
using Kind = Request::Kind;

// As the compiler plug-in: the cost is charged before the code runs.
void charge(std::int64_t cycles) {
  braid_budget -= cycles;
  if (braid_budget < 0) braid_budget_spent();
}

// A shared list that programs' processes append to and the test reads.
template <class T>
class Log {
 public:
  Log() : shared_(new (map()) Shared) {}
  ~Log() { ::munmap(shared_, sizeof(Shared)); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  void add(const T& what) {
    if (shared_->count < kCapacity) shared_->all[shared_->count] = what;
    ++shared_->count;
  }
  std::vector<T> all() const {
    EXPECT_LE(shared_->count, kCapacity);
    return {shared_->all, shared_->all + std::min(shared_->count, kCapacity)};
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  struct Shared {
    std::size_t count = 0;
    T all[kCapacity];
  };
  static void* map() {
    return ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  Shared* const shared_;
};

// Runs a program that calls init() first and ends with finish(); expects every cluster to end with status 0.
void expect_runs(ShellMachine& machine, const std::function<int()>& program) {
  machine.start([&] {
    dsm::init();
    return dsm::finish(program());
  });
  for (const ShellMachine::Ending& ending : machine.run())
    EXPECT_EQ(ending.exit_status, 0) << "signal " << ending.signal << ": " << ending.text;
  EXPECT_EQ(machine.error(), "");
}

// Runs `program` on one cluster of two nodes and returns how its process ended.
ShellMachine::Ending ending_of(const std::function<int()>& program) {
  ShellMachine machine({.compute = 2});
  machine.start([&] {
    dsm::init();
    return program();
  });
  return machine.run()[0];
}

bool crashed(const ShellMachine::Ending& ending) {
  // A sanitizer exits instead.
  return ending.signal == SIGSEGV || (ending.exit_status > 0 && ending.exit_status != dsm::kFailureStatus);
}

// --- Requests

TEST(Requests, NodeZeroMakesCollectiveCalls) {
  ShellMachine machine({.clusters = 2, .compute = 2});
  expect_runs(machine, [] {
    dsm::allocate_bytes(3 * dsm::kPageBytes + 1, Placement::on(1));
    dsm::parallel([](Node&) {});
    dsm::barrier();
    dsm::run_on_cluster([](unsigned) {});
    return 0;
  });
  std::vector<RecordedRequest> calls = machine.recorded();
  std::erase_if(calls, [](const RecordedRequest& each) {
    const bool call = each.request.kind == Kind::kCollective || each.request.kind == Kind::kRunOnCluster;
    return each.cluster != 1 || !call;
  });
  std::vector<std::pair<Kind, dsm::CallKind>> seen;
  for (const RecordedRequest& each : calls) {
    EXPECT_EQ(each.node, 0u);
    seen.emplace_back(each.request.kind, each.request.call.kind);
  }
  EXPECT_THAT(seen, ElementsAre(std::pair(Kind::kCollective, dsm::CallKind::kJoin),
                                std::pair(Kind::kCollective, dsm::CallKind::kAllocate),
                                std::pair(Kind::kCollective, dsm::CallKind::kParallel),
                                std::pair(Kind::kCollective, dsm::CallKind::kBarrier),
                                std::pair(Kind::kRunOnCluster, dsm::CallKind::kNone),
                                std::pair(Kind::kCollective, dsm::CallKind::kFinish)));
  EXPECT_STREQ(calls[0].request.call.name.data(), ::program_invocation_short_name);
  EXPECT_THAT(calls[0].request.call.numbers,
              ElementsAre(testing::_, 2, 2, 4, 0 /* eager */, dsm::kPageBytes));
  EXPECT_EQ(calls[1].request.pages, 4u);
  EXPECT_EQ(calls[1].request.homes.kind, dsm::Homes::Kind::kCluster);
  EXPECT_EQ(calls[1].request.homes.cluster, ClusterId(1));
  EXPECT_THAT(calls[1].request.call.numbers, ElementsAre(3 * dsm::kPageBytes + 1, 2, 1, 0, 0, 0));
}

TEST(Requests, RequestsCarryTheArgumentsOfCalls) {
  ShellMachine machine({.compute = 1});
  expect_runs(machine, [] {
    bool right = true;
    dsm::parallel([&](Node& node) {
      node.lock(4095);
      node.condition_signal(32767);
      node.unlock(4095);
      node.barrier(3);
      right = right && node.reduce(2.5, dsm::Reduce::kMax, 63) == 2.5;
      right = right && node.reduce<std::int64_t>(-7, dsm::Reduce::kMin, 0) == -7;
      right = right && node.fetch_add(7, -2) == 0;
      right = right && node.compare_exchange(7, -2, 11, dsm::MemoryOrder::kRelaxed) == -2;
      right = right && node.load(7) == 11;
      node.flag_set(8);
      node.semaphore_post(9, 5);
      node.allocate_bytes(2 * dsm::kPageBytes, Placement::first_touch());
    });
    return right ? 0 : 1;
  });
  std::vector<RecordedRequest> calls = machine.recorded();
  std::erase_if(calls, [](const RecordedRequest& a) { return a.request.kind == Kind::kCollective; });
  ASSERT_EQ(calls.size(), 14u);
  const auto is_call = [&](std::size_t i, Kind kind, std::uint32_t id) {
    EXPECT_EQ(calls[i].request.kind, kind) << i;
    EXPECT_EQ(calls[i].request.id, id) << i;
  };
  const auto is_barrier = [&](std::size_t i, std::uint32_t id, dsm::Reduction reduction,
                              std::uint64_t value) {
    is_call(i, Kind::kBarrier, id);
    EXPECT_EQ(calls[i].request.reduction, reduction) << i;
    EXPECT_EQ(calls[i].request.value, value) << i;
  };
  const auto is_sync = [&](std::size_t i, dsm::SyncOp op, std::uint32_t id, std::uint64_t first,
                           std::uint64_t second, bool releases) {
    const dsm::SyncCall& sync = calls[i].request.sync;
    EXPECT_EQ(calls[i].request.kind, Kind::kSync) << i;
    EXPECT_EQ(sync.op, op) << i;
    EXPECT_EQ(sync.id, id) << i;
    EXPECT_EQ(sync.first, first) << i;
    EXPECT_EQ(sync.second, second) << i;
    EXPECT_EQ(sync.releases, releases) << i;
  };
  constexpr std::uint64_t kMinusTwo = ~std::uint64_t{1};
  is_call(0, Kind::kLock, 4095);
  is_sync(1, dsm::SyncOp::kConditionSignal, 32767, 0, 0, false);
  is_call(2, Kind::kUnlock, 4095);
  is_barrier(3, 3, dsm::Reduction::kNone, 0);
  is_barrier(4, 63, dsm::Reduction::kMaxDouble, std::bit_cast<std::uint64_t>(2.5));
  is_barrier(5, 0, dsm::Reduction::kMinInt64, static_cast<std::uint64_t>(-7));
  is_sync(6, dsm::SyncOp::kWordAdd, 7, kMinusTwo, 0, true);
  is_sync(7, dsm::SyncOp::kWordCompareExchange, 7, kMinusTwo, 11, false);
  is_sync(8, dsm::SyncOp::kWordLoad, 7, 0, 0, false);
  is_sync(9, dsm::SyncOp::kFlagSet, 8, 0, 0, true);
  is_sync(10, dsm::SyncOp::kSemaphorePost, 9, 5, 0, true);
  EXPECT_EQ(calls[11].request.kind, Kind::kAllocate);
  EXPECT_EQ(calls[11].request.pages, 2u);
  EXPECT_EQ(calls[11].request.homes.kind, dsm::Homes::Kind::kFirstTouch);
  is_barrier(12, dsm::kOwnBarrier.value(), dsm::Reduction::kNone, 0);
  is_call(13, Kind::kIdle, 0);
}

TEST(Requests, ConditionWaitNamesItsLock) {
  ShellMachine machine({.compute = 2});
  expect_runs(machine, [] {
    bool signalled = false;
    dsm::parallel([&](Node& node) {
      const dsm::LockGuard guard(node, 17);
      if (node.id() == 0) {
        while (!signalled) node.condition_wait(5, 17);
      } else {
        signalled = true;
        node.condition_signal(5);
      }
    });
    return signalled ? 0 : 1;
  });
  const std::vector<RecordedRequest> calls = machine.recorded(Kind::kSync);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].node, 0u);
  EXPECT_EQ(calls[0].request.sync.op, dsm::SyncOp::kConditionWait);
  EXPECT_EQ(calls[0].request.sync.id, 5u);
  EXPECT_EQ(calls[0].request.sync.lock, dsm::LockId(17));
}

// An access that the protections forbid becomes a request with the page and the kind of access; one that they
// allow does not.
TEST(Faults, RequestsNameThePageAndTheAccess) {
  ShellMachine machine({.clusters = 2, .compute = 1});
  expect_runs(machine, [] {
    auto* const bytes = dsm::allocate<volatile char>(8 * dsm::kPageBytes, Placement::on(0));
    bool right = true;
    const auto at = [&](std::size_t page) -> volatile char& {
      return bytes[page * dsm::kPageBytes + 77];
    };
    dsm::parallel([&](Node& node) {
      if (node.id() == 1) {
        right = at(2) == 0;
        right = right && at(2) == 0;
        at(2) = 1;  // the readable page becomes writable
        at(2) = 2;
        at(6) = 3;
      }
      node.barrier();
      if (node.id() == 0) {
        right = at(2) == 2 && at(6) == 3;
        at(6) = 4;
      }
      node.barrier();
      if (node.id() == 1) right = right && at(6) == 4;  // has been invalidated
    });
    return right ? 0 : 1;
  });
  std::vector<std::pair<std::uint32_t, bool>> faults;
  for (const RecordedRequest& each : machine.recorded(Kind::kFault)) {
    if (each.cluster == 1) faults.emplace_back(each.request.page, each.request.write);
  }
  EXPECT_THAT(faults,
              ElementsAre(std::pair(2, false), std::pair(2, true), std::pair(6, true), std::pair(6, false)));
}

// read() and fwrite() of shared memory copy through private memory, so they fault like other accesses.
TEST(Faults, FileTransfersFault) {
  ShellMachine machine({.clusters = 2, .compute = 1});
  expect_runs(machine, [] {
    constexpr std::size_t kBytes = 200'000;
    auto* const bytes = dsm::allocate<char>(kBytes, Placement::on(1));
    bool right = true;
    dsm::parallel([&](Node& node) {
      if (node.id() == 1) {
        for (std::size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(i % 251);
      }
      node.barrier();
      if (node.id() == 0) {
        std::FILE* const file = std::tmpfile();
        right = std::fwrite(bytes, 1, kBytes, file) == kBytes && std::fflush(file) == 0;
        right = right && ::lseek(::fileno(file), 0, SEEK_SET) == 0;
        right = right && ::read(::fileno(file), bytes + 1, kBytes - 1) == kBytes - 1;
        std::fclose(file);
      }
      node.barrier();
      for (std::size_t i = 1; i < kBytes; ++i) right = right && bytes[i] == static_cast<char>((i - 1) % 251);
    });
    return right ? 0 : 1;
  });
}

// --- Which node runs

// Each node charges its own amount `count` times and logs its number after each. Returns the log.
std::vector<unsigned> order_of_charges(const ShellMachineConfig& config,
                                       const std::vector<std::int64_t>& steps, unsigned count) {
  Log<unsigned> log;
  ShellMachine machine(config);
  expect_runs(machine, [&] {
    dsm::parallel([&](Node& node) {
      for (unsigned i = 0; i < count; ++i) {
        charge(steps[node.local()]);
        log.add(node.local());
      }
    });
    return 0;
  });
  return log.all();
}

class Order : public testing::Test {
 protected:
  void SetUp() override {
    if (!charges_are_counted()) GTEST_SKIP() << "clocks are the processor's: the plug-in was not built";
  }
};

const std::vector<std::int64_t> kCharges = {7, 3, 5, 3, 11};

TEST_F(Order, NodesRunByClockAndNumberForAnyWindow) {
  constexpr unsigned kCount = 200;
  std::vector<std::pair<std::int64_t, unsigned>> moments;
  for (unsigned node = 0; node < kCharges.size(); ++node) {
    for (unsigned i = 1; i <= kCount; ++i) moments.emplace_back(i * kCharges[node], node);
  }
  std::sort(moments.begin(), moments.end());
  std::vector<unsigned> expected;
  for (const auto& moment : moments) expected.push_back(moment.second);
  for (const std::int64_t window : {1, 2, 13, 1000, 1'000'000}) {
    EXPECT_THAT(order_of_charges({.compute = 5, .window = window}, kCharges, kCount),
                ElementsAreArray(expected))
        << "window " << window;
  }
}

TEST_F(Order, QuantumLetsANodeRunAhead) {
  constexpr unsigned kCount = 100;
  constexpr std::int64_t kQuantum = 40;
  std::vector<std::int64_t> clock(kCharges.size(), 0);
  std::vector<unsigned> done(kCharges.size(), 0);
  std::vector<unsigned> expected;
  const auto earliest = [&] {
    unsigned first = 0;
    for (unsigned node = 0; node < kCharges.size(); ++node) {
      if (done[node] < kCount && (done[first] == kCount || clock[node] < clock[first])) first = node;
    }
    return first;
  };
  const auto too_far = [&](unsigned node) {
    for (unsigned other = 0; other < kCharges.size(); ++other) {
      const std::int64_t ahead = kQuantum - (other < node ? 1 : 0);
      if (other != node && done[other] < kCount && clock[node] >= clock[other] + ahead) return true;
    }
    return false;
  };
  std::vector<bool> charged(kCharges.size(), false);
  for (unsigned node = 0; expected.size() < kCount * kCharges.size();) {
    if (!charged[node]) {
      charged[node] = true;
      clock[node] += kCharges[node];
      if (too_far(node)) {
        node = earliest();
        continue;
      }
    }
    charged[node] = false;
    expected.push_back(node);
    if (++done[node] == kCount) node = earliest();
  }
  EXPECT_THAT(order_of_charges({.compute = 5, .quantum = kQuantum, .window = 1'000'000}, kCharges, kCount),
              ElementsAreArray(expected));
}

// A clock is the sum of all charges and the cost of all operations.
TEST_F(Order, ClockIsTheSumOfChargesAndOperations) {
  ShellMachine machine({.compute = 2, .window = 50, .operation_cycles = 1000});
  expect_runs(machine, [] {
    dsm::parallel([](Node& node) {
      for (int i = 0; i < (node.local() == 0 ? 30 : 2000); ++i) charge(10);
      node.lock(1 + node.local());
      charge(12);
      node.unlock(1 + node.local());
    });
    return 0;
  });
  std::vector<std::int64_t> clocks[2];
  for (const RecordedRequest& each : machine.recorded()) {
    if (each.request.kind == Kind::kLock || each.request.kind == Kind::kUnlock)
      clocks[each.node].push_back(each.clock);
  }
  // After init() and the start of parallel(), 1000 each.
  EXPECT_THAT(clocks[0], ElementsAre(2300, 3312));
  EXPECT_THAT(clocks[1], ElementsAre(22000, 23012));
  EXPECT_GT(machine.full_windows(), 300u);
}

TEST_F(Order, SecondsReturnsTheCallersClock) {
  Log<double> log;
  ShellMachine machine({.compute = 2, .operation_cycles = 1000, .cycles_per_second = 1'000'000});
  machine.start([&] {
    log.add(dsm::seconds());
    dsm::init();
    dsm::parallel([&](Node& node) {
      if (node.local() == 1) return;
      charge(500'000);
      log.add(dsm::seconds());
      charge(250'000);
      log.add(dsm::seconds());
    });
    log.add(dsm::seconds());
    dsm::finish(0);
    log.add(dsm::seconds());
    return 0;
  });
  EXPECT_EQ(machine.run()[0].exit_status, 0);
  // Then the barrier and the end of parallel() cost 1000 each, and finish() too.
  EXPECT_THAT(log.all(), ElementsAre(0.0, 0.502, 0.752, 0.754, 0.755));
}

TEST(Nodes, MaximumNumberOfNodesRuns) {
  ShellMachine machine({.compute = kMaxComputeNodes});
  expect_runs(machine, [] {
    auto* const sum = dsm::allocate<unsigned>(1);
    std::vector<unsigned> ran(kMaxComputeNodes, 0);
    for (int round = 0; round < 3; ++round) {
      dsm::parallel([&](Node& node) {
        ++ran[node.local()];
        const dsm::LockGuard guard(node, 0);
        *sum += node.id();
      });
    }
    const bool all = std::all_of(ran.begin(), ran.end(), [](unsigned times) { return times == 3; });
    return all && *sum == 3 * (kMaxComputeNodes - 1) * kMaxComputeNodes / 2 ? 0 : 1;
  });
}

TEST(Nodes, ParallelReturnsWhenAllNodesHaveFinished) {
  ShellMachine machine({.clusters = 2, .compute = 3});
  expect_runs(machine, [] {
    bool right = true;
    for (unsigned round = 0; round < 5; ++round) {
      std::vector<unsigned> finished(3, 0);
      dsm::parallel([&](Node& node) {
        charge(100 * ((node.id() + round) % 5));
        finished[node.local()] = 1;
      });
      right = right && std::count(finished.begin(), finished.end(), 1u) == 3;
    }
    return right ? 0 : 1;
  });
}

TEST(Nodes, RunOnClusterRunsEachOwnNodeOnce) {
  ShellMachine machine({.clusters = 2, .compute = 3});
  expect_runs(machine, [] {
    std::vector<unsigned> parts;
    for (unsigned i = 0; i < 1 + 2 * dsm::cluster(); ++i)
      dsm::run_on_cluster([&](unsigned local) { parts.push_back(local); });
    std::vector<unsigned> counts(3, 0);
    for (const unsigned part : parts) ++counts.at(part);
    return counts == std::vector<unsigned>(3, 1 + 2 * dsm::cluster()) ? 0 : 1;
  });
}

TEST(Nodes, CProgramRuns) {
  ShellMachine machine({.clusters = 2, .compute = 2});
  machine.start([] {
    dsm::init();
    return ::braid_c_program();
  });
  for (const ShellMachine::Ending& ending : machine.run())
    EXPECT_EQ(ending.exit_status, 0) << "signal " << ending.signal << ": " << ending.text;
}

// --- The state of a fibre

// The nodes throw and catch in turns: while one handles an exception, others throw and handle theirs.
TEST(Fibres, EachFibreHasItsOwnExceptions) {
  ShellMachine machine({.compute = 4});
  expect_runs(machine, [] {
    unsigned wrong = 0;
    dsm::parallel([&](Node& node) {
      const auto expect = [&](bool right) { wrong += right ? 0 : 1; };
      for (int i = 0; i < 20; ++i) {
        const int mine = static_cast<int>(node.id()) * 1000 + i;
        struct Unwound {
          Node& node;
          unsigned& wrong;
          // During unwinding of this node's exception its count is 1, whatever other nodes do.
          ~Unwound() {
            node.fetch_add(0, 1);
            if (std::uncaught_exceptions() != 1) ++wrong;
          }
        };
        try {
          const Unwound unwound{node, wrong};
          throw mine;
        } catch (int caught) {
          node.fetch_add(0, 1);
          expect(caught == mine);
          try {
            node.lock(node.id());
            throw std::to_string(mine);
          } catch (const std::string& text) {
            node.unlock(node.id());
            expect(text == std::to_string(mine));
            try {
              node.fetch_add(0, 1);
              throw;
            } catch (const std::string& again) {
              expect(again == text);
            }
          }
          expect(std::uncaught_exceptions() == 0);
          node.fetch_add(0, 1);
          try {
            throw;  // rethrows the exception that this node handles
          } catch (int again) {
            expect(again == mine);
          }
        }
        expect(std::current_exception() == nullptr);
      }
    });
    return wrong == 0 ? 0 : 1;
  });
}

TEST(Fibres, EachFibreKeepsItsErrno) {
  ShellMachine machine({.clusters = 2, .compute = 3});
  expect_runs(machine, [] {
    auto* const pages = dsm::allocate<volatile char>(6 * 4096, Placement::on(1));
    unsigned wrong = 0;
    dsm::parallel([&](Node& node) {
      const int mine = 100 + static_cast<int>(node.id());
      for (int i = 0; i < 20; ++i) {
        errno = mine;
        pages[node.id() * 4096] = static_cast<char>(i);  // a fault, after the barrier
        wrong += errno == mine ? 0 : 1;
        node.lock(0);
        wrong += errno == mine ? 0 : 1;
        node.unlock(0);
        if (charges_are_counted()) charge(40);
        wrong += errno == mine ? 0 : 1;
        node.barrier();
      }
    });
    return wrong == 0 ? 0 : 1;
  });
}

// Several nodes wait inside their fault handlers at the same time, and continue in another order than they
// faulted.
TEST(Fibres, FibresWaitInsideFaultHandlersInAnyOrder) {
  ShellMachine machine({.clusters = 2, .compute = 8});
  // Nodes with lower numbers fault first and continue last.
  machine.before_turn = [](unsigned, Control& control) {
    for (unsigned n = 0; n < 8; ++n) {
      if (control.nodes[n].runnable && control.nodes[n].request.kind == Kind::kFault)
        control.nodes[n].clock += 100 * (8 - n);
    }
  };
  expect_runs(machine, [] {
    constexpr std::size_t kPages = 64;
    auto* const words = dsm::allocate<volatile std::uint64_t>(kPages * 512);
    unsigned wrong = 0;
    dsm::parallel([&](Node& node) {
      for (std::uint64_t round = 1; round <= 8; ++round) {
        for (std::size_t page = node.id(); page < kPages; page += node.count()) {
          // Integer and floating-point registers are live across the fault.
          const double before = static_cast<double>(page) + 0.5;
          words[page * 512 + 3] = page * round;
          const double after = static_cast<double>(words[page * 512 + 3]) / static_cast<double>(round) + 0.5;
          wrong += before == after ? 0 : 1;
        }
        node.barrier();
        for (std::size_t page = 0; page < kPages; ++page)
          wrong += words[(page * 5 + node.id()) % kPages * 512 + 3] == (page * 5 + node.id()) % kPages * round
                       ? 0
                       : 1;
        node.barrier();
      }
    });
    return wrong == 0 ? 0 : 1;
  });
}

// --- Protections

// Mappings of the shared heap in this process.
std::size_t mappings_of_heap() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  std::size_t count = 0;
  for (char line[512]; std::fgets(line, sizeof line, maps) != nullptr;)
    count += dsm::in_heap(std::strtoull(line, nullptr, 16), 1u << 20) ? 1 : 0;
  std::fclose(maps);
  return count;
}

TEST(Protections, ProtectionsAreAppliedInOrderWithAdjacentPagesMerged) {
  constexpr std::uint32_t kHalf = kMaxProtectionRuns / 2;
  ShellMachine machine({.compute = 1, .heap_pages = 4 * kHalf});
  bool taken = false;
  machine.before_turn = [&](unsigned, Control& control) {
    const Request& request = control.nodes[0].request;
    if (taken && request.kind == Kind::kFault) {
      // The page engine has already granted the page, so the test opens it again.
      control.protections[control.protection_runs++] = {request.page, 1, dsm::Access::kWrite};
    }
    if (taken || request.kind != Kind::kBarrier) return;
    taken = true;
    ASSERT_EQ(control.protection_runs, 0u);
    for (std::uint32_t page = 0; page < kHalf; ++page)
      control.protections[control.protection_runs++] = {page, 1, dsm::Access::kNone};
    for (std::uint32_t page = 0; page < kHalf; ++page)
      control.protections[control.protection_runs++] = {page, 1, dsm::Access::kRead};
  };
  Log<std::size_t> mappings;
  expect_runs(machine, [&] {
    auto* const bytes = dsm::allocate<volatile char>(2 * kHalf * dsm::kPageBytes);
    mappings.add(mappings_of_heap());
    dsm::parallel([&](Node& node) {
      mappings.add(mappings_of_heap());
      node.barrier();
      mappings.add(mappings_of_heap());
      const bool zeros = bytes[0] == 0 && bytes[(kHalf - 1) * dsm::kPageBytes] == 0;
      bytes[5 * dsm::kPageBytes] = zeros ? 1 : 2;
      mappings.add(mappings_of_heap());
    });
    return bytes[5 * dsm::kPageBytes] - 1;
  });
  // Allocated and not allocated; then also a read-only half; then also a writable page inside that half.
  EXPECT_THAT(mappings.all(), ElementsAre(2, 2, 3, 5));
  const std::vector<RecordedRequest> faults = machine.recorded(Kind::kFault);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].request.page, 5u);
  EXPECT_TRUE(faults[0].request.write);
}

TEST(Protections, ExceededMappingLimitIsReported) {
  std::uint64_t limit = 0;
  std::FILE* const file = std::fopen("/proc/sys/vm/max_map_count", "r");
  ASSERT_NE(file, nullptr);
  const bool read = std::fscanf(file, "%lu", &limit) == 1;
  std::fclose(file);
  if (!read || limit > 100'000) GTEST_SKIP() << "vm.max_map_count is " << limit;
  constexpr std::uint32_t kPages = 200'000;
  ShellMachine machine({.compute = 1, .heap_pages = kPages});
  std::uint32_t next = 0;
  machine.before_turn = [&](unsigned, Control& control) {
    for (; control.protection_runs < kMaxProtectionRuns && next < kPages; next += 2)
      control.protections[control.protection_runs++] = {next, 1, dsm::Access::kRead};
  };
  machine.start([] {
    dsm::init();
    for (int i = 0; i < 40; ++i) dsm::barrier();
    return dsm::finish(0);
  });
  const ShellMachine::Ending ending = machine.run()[0];
  EXPECT_EQ(ending.exit_status, dsm::kFailureStatus);
  EXPECT_THAT(ending.text,
              AllOf(HasSubstr("vm.max_map_count = " + std::to_string(limit)), HasSubstr("sysctl -w")));
}

// --- Failures

TEST(Failures, StartErrorsNameTheCure) {
  const auto error_with = [](const std::function<const char*(const std::string&)>& lookup) {
    const Result<std::unique_ptr<ShellHost>> started =
        ShellHost::start([&](const char* name) { return lookup(name); }, "program");
    return started ? std::string() : started.error().text;
  };
  EXPECT_THAT(error_with([](const std::string&) { return nullptr; }),
              AllOf(HasSubstr(variable::kControlFd),
                    HasSubstr("this program was built for simulation: run it with `braid sim`")));
  EXPECT_THAT(error_with([](const std::string&) { return "7 or so"; }),
              AllOf(HasSubstr("'7 or so', which is not an open descriptor"), HasSubstr("braid sim")));
  EXPECT_THAT(error_with([](const std::string&) { return "999"; }), HasSubstr("'999', which is not an open"));

  const int small = ::memfd_create("small", 0);
  ASSERT_EQ(::ftruncate(small, 100), 0);
  const std::string small_text = std::to_string(small);
  EXPECT_THAT(error_with([&](const std::string& name) {
                return name == variable::kCluster ? nullptr : small_text.c_str();
              }),
              HasSubstr("of 100 bytes where " + std::to_string(sizeof(Control)) + " are needed"));

  const auto with_control = [&](const std::function<void(Control&)>& change, bool has_heap) {
    const int fd = ::memfd_create("control", 0);
    EXPECT_EQ(::ftruncate(fd, sizeof(Control)), 0);
    void* const memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    change(*new (memory) Control);
    const std::string text = std::to_string(fd);
    const std::string error = error_with([&](const std::string& name) -> const char* {
      if (name == variable::kControlFd) return text.c_str();
      if (name == variable::kCluster) return nullptr;
      return has_heap ? small_text.c_str() : nullptr;
    });
    ::munmap(memory, sizeof(Control));
    return error;
  };
  EXPECT_THAT(with_control([](Control& control) { ++control.version; }, true),
              HasSubstr("program and simulator are of different builds: build both again"));
  EXPECT_THAT(with_control([](Control& control) { control.page_bytes = 8192; }, true),
              HasSubstr("8192 bytes in the simulator and 4096 in the program: leave BRAID_PAGE_BYTES"));
  EXPECT_THAT(with_control([](Control& control) { control.heap_pages = 1; }, false),
              AllOf(HasSubstr(variable::kHeapFd), HasSubstr("is not set")));
  EXPECT_THAT(with_control([](Control& control) { control.heap_pages = 1; }, true),
              AllOf(HasSubstr(variable::kHeapFd), HasSubstr("of 100 bytes where 4096 are needed")));
  ::close(small);
}

TEST(Failures, ProgramOutsideASimulationNamesBraidSim) {
  int both[2];
  ASSERT_EQ(::pipe(both), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(both[1], STDERR_FILENO);
    ::execl(BRAID_PROGRAMS "jacobi", "jacobi", nullptr);
    ::_exit(127);
  }
  ::close(both[1]);
  char text[512] = {};
  EXPECT_GT(::read(both[0], text, sizeof text - 1), 0);
  ::close(both[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == dsm::kFailureStatus) << status;
  EXPECT_STREQ(text,
               "braid: BRAID_SIM_CONTROL_FD is not set: this program was built for simulation: run it with "
               "`braid sim`\n");
}

TEST(Failures, MisusedCallsFailAsInALiveRun) {
  const auto message_of = [](const std::function<void(Node&)>& body) {
    const ShellMachine::Ending ending = ending_of([&] {
      dsm::parallel(body);
      return dsm::finish(0);
    });
    EXPECT_EQ(ending.exit_status, dsm::kFailureStatus) << "signal " << ending.signal;
    return ending.text;
  };
  EXPECT_THAT(message_of([](Node& node) {
                if (node.id() != 0) return;
                node.lock(3);
                node.lock(3);
              }),
              HasSubstr("compute node 0 locks lock 3, which it has already: locks are not recursive"));
  EXPECT_THAT(message_of([](Node& node) { node.unlock(4); }),
              HasSubstr("compute node 0 unlocks lock 4, which it does not have"));
  EXPECT_THAT(message_of([](Node& node) { node.condition_wait(2, 4); }),
              HasSubstr("compute node 0 waits for condition 2 with lock 4, which it does not have"));
  EXPECT_THAT(message_of([](Node& node) {
                if (node.id() == 0) node.barrier(5);
                if (node.id() == 1) (void)node.reduce(1, dsm::Reduce::kSum, 5);
              }),
              HasSubstr("barrier 5: compute nodes called different reductions"));
  EXPECT_THAT(message_of([](Node& node) { node.lock(4096); }), HasSubstr("lock 4096 does not exist"));
  EXPECT_THAT(message_of([](Node& node) { node.allocate_bytes(64u << 20); }),
              AllOf(HasSubstr("the shared heap of 4 MiB is full: 67108864 bytes were requested"),
                    HasSubstr("raise --heap-mib of `braid sim`")));
  EXPECT_THAT(message_of([](Node&) { dsm::parallel([](Node&) {}); }),
              HasSubstr("parallel() was called inside parallel()"));
  EXPECT_THAT(message_of([](Node&) { throw std::runtime_error("too much"); }),
              HasSubstr("compute node 0: an exception left the function given to parallel(): too much"));
  EXPECT_THAT(message_of([](Node& node) {
                node.barrier();
                if (node.id() == 1) throw 5;
              }),
              HasSubstr("compute node 1: an exception left the function given to parallel()"));
}

TEST(Failures, CollectiveAllocationReportsAFullHeap) {
  const ShellMachine::Ending ending = ending_of([] {
    dsm::allocate_bytes(1 << 20);
    dsm::allocate_bytes(64u << 20);
    return dsm::finish(0);
  });
  EXPECT_EQ(ending.exit_status, dsm::kFailureStatus);
  EXPECT_THAT(ending.text, HasSubstr("the shared heap of 4 MiB is full: 67108864 bytes were requested, "
                                     "3145728 are free"));
}

TEST(Failures, CallsOnForeignThreadsAreReported) {
  const auto message_of = [](const std::function<void()>& on_thread) {
    const ShellMachine::Ending ending = ending_of([&] {
      std::thread(on_thread).join();
      return dsm::finish(0);
    });
    return ending.text;
  };
  EXPECT_THAT(
      message_of([] { const dsm::AdoptedThread adopted(1); }),
      AllOf(HasSubstr("in simulation a compute node is not a thread"), HasSubstr("run_on_cluster()")));
  EXPECT_THAT(
      message_of([] { Node(0).lock(1); }),
      HasSubstr(
          "compute node 0 was called on a thread of the program's own: in simulation the nodes of a cluster "
          "share one thread"));
  EXPECT_THAT(message_of([] { dsm::seconds(); }), HasSubstr("seconds() was called on a thread"));
  EXPECT_THAT(message_of([] { dsm::allocate_bytes(1); }),
              HasSubstr("by a thread that is not the initial one"));
  EXPECT_THAT(message_of([] { *static_cast<volatile char*>(dsm::application_address(PageId(0))) = 1; }),
              HasSubstr("a thread that is not a compute node accessed shared memory"));
}

TEST(Failures, ChildOfForkEndsAtItsAccessAndItsCallsAndItsParentContinues) {
  ShellMachine machine({.clusters = 2, .compute = 2});
  expect_runs(machine, [] {
    auto* const shared = dsm::allocate<int>(2048);
    bool right = true;
    dsm::parallel([&](Node& node) {
      const auto status_of_child = [](const auto& body) {
        const pid_t child = ::fork();
        if (child == 0) {
          body();
          ::_exit(1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      };
      shared[512 * node.id()] = 42;
      right = right && status_of_child([&] { *static_cast<volatile int*>(shared + 512 * node.id()) = 1; }) ==
                           dsm::kFailureStatus;
      right = right && status_of_child([&] { node.lock(1); }) == dsm::kFailureStatus;
      node.barrier();
      for (unsigned id = 0; id < node.count(); ++id) right = right && shared[512 * id] == 42;
    });
    return right ? 0 : 1;
  });
}

TEST(Failures, CallForAnotherNodeIsReported) {
  const ShellMachine::Ending ending = ending_of([] {
    Node* first = nullptr;
    dsm::parallel([&](Node& node) {
      if (node.id() == 0) first = &node;
      node.barrier();
      if (node.id() == 1) first->lock(1);
    });
    return dsm::finish(0);
  });
  EXPECT_EQ(ending.exit_status, dsm::kFailureStatus);
  EXPECT_THAT(ending.text, HasSubstr("compute node 0 was called by compute node 1"));
}

TEST(Failures, WrongPointersCrash) {
  const ShellMachine::Ending behind = ending_of([] {
    auto* const bytes = dsm::allocate<volatile char>(1);
    bytes[9 * dsm::kPageBytes] = 1;
    return dsm::finish(0);
  });
  EXPECT_TRUE(crashed(behind)) << behind.exit_status << behind.text;
  EXPECT_THAT(behind.text, HasSubstr("an access behind the last allocation of the shared heap"));

  static volatile char* volatile wild = nullptr;
  const ShellMachine::Ending outside = ending_of([] {
    dsm::parallel([](Node& node) {
      node.barrier();
      if (node.id() == 1) *wild = 1;
    });
    return dsm::finish(0);
  });
  EXPECT_TRUE(crashed(outside)) << outside.exit_status << outside.text;
}

// Uses at least 4096 bytes of stack for each level.
[[gnu::noinline]] int overflow(volatile char* outer, int depth) {
  volatile char room[4096];
  room[0] = outer == nullptr ? 0 : outer[0];
  return depth == 0 ? room[0] : overflow(room, depth - 1) + room[1];
}

TEST(Failures, StackOverflowCrashes) {
  const ShellMachine::Ending ending = ending_of([] {
    dsm::parallel([](Node& node) {
      if (node.id() == 1) overflow(nullptr, 1 << 20);
    });
    return dsm::finish(0);
  });
  EXPECT_TRUE(crashed(ending)) << ending.exit_status << ending.text;
  // Two thirds of the stack can be used.
  ShellMachine machine({.compute = 2});
  expect_runs(machine, [] {
    dsm::parallel([](Node& node) {
      if (node.id() == 1) overflow(nullptr, static_cast<int>(Fibre::kStackBytes * 2 / 3 / 4608));
    });
    return 0;
  });
}

// When the process of one cluster ends early, the others end too.
TEST(Ends, EarlyEndOfOneClusterEndsTheRun) {
  const auto endings_of = [](const std::function<int()>& program) {
    ShellMachine machine({.clusters = 3, .compute = 2});
    machine.start([&] {
      dsm::init();
      return program();
    });
    return machine.run();
  };
  const auto expect_others_left = [](const std::vector<ShellMachine::Ending>& endings) {
    EXPECT_EQ(endings[0].exit_status, 0);
    EXPECT_EQ(endings[2].exit_status, 0);
  };
  const std::vector<ShellMachine::Ending> by_exit = endings_of([] {
    dsm::parallel([](Node& node) {
      if (node.id() == 3) std::exit(7);
    });
    return dsm::finish(1);
  });
  EXPECT_EQ(by_exit[1].exit_status, 7);
  expect_others_left(by_exit);

  const std::vector<ShellMachine::Ending> by_return = endings_of([] {
    dsm::parallel([](Node&) {});
    return dsm::cluster() == 1 ? 9 : dsm::finish(1);
  });
  EXPECT_EQ(by_return[1].exit_status, 9);
  expect_others_left(by_return);

  const std::vector<ShellMachine::Ending> by_signal = endings_of([] {
    dsm::parallel([](Node& node) {
      if (node.id() == 3) ::raise(SIGKILL);
    });
    return dsm::finish(1);
  });
  EXPECT_EQ(by_signal[1].signal, SIGKILL);
  expect_others_left(by_signal);
}

TEST(Ends, FinishReturnsTheStatusAndUnmapsTheHeap) {
  ShellMachine machine({.clusters = 2, .compute = 2});
  machine.start([] {
    dsm::init();
    auto* const bytes = dsm::allocate<char>(1);
    dsm::parallel([](Node&) {});
    const int status = dsm::finish(5 + static_cast<int>(dsm::cluster() * 0));
    unsigned char resident = 0;
    const bool mapped = ::mincore(bytes, 1, &resident) == 0;
    return mapped ? 1 : status;
  });
  for (const ShellMachine::Ending& ending : machine.run()) EXPECT_EQ(ending.exit_status, 5) << ending.text;
}

TEST(Ends, DifferentCallsAreReportedAsInALiveRun) {
  ShellMachine machine({.clusters = 2, .compute = 1});
  machine.start([] {
    dsm::init();
    dsm::allocate_bytes(100 + dsm::cluster(), Placement::on(dsm::cluster()));
    return dsm::finish(0);
  });
  machine.run();
  EXPECT_THAT(machine.error(), HasSubstr("cluster 0 allocates 100 bytes (on cluster 0) where cluster 1 "
                                         "allocates 101 bytes (on cluster 1)"));
}

TEST(Ends, ShellsEndWhenTheEngineDies) {
  int lives[2];
  ASSERT_EQ(::pipe(lives), 0);
  const pid_t engine = ::fork();
  if (engine == 0) {
    ::close(lives[0]);
    ShellMachine machine({.clusters = 2, .compute = 1});
    machine.before_turn = [](unsigned cluster, Control& control) {
      if (cluster == 1 && control.asking != Control::kNobody) ::raise(SIGKILL);
    };
    machine.start([] {
      dsm::init();  // the process keeps its end of the pipe open while it lives
      return dsm::finish(0);
    });
    machine.run();
    ::_exit(1);
  }
  ::close(lives[1]);
  ::waitpid(engine, nullptr, 0);
  pollfd watched{lives[0], POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 30'000), 1);  // POLLHUP when the last process has ended
  ::close(lives[0]);
}

// --- The applications, built for simulation

struct App {
  std::string name;
  std::vector<std::string> arguments;
};

void PrintTo(const App& app, std::ostream* out) {
  *out << app.name;
  for (const std::string& argument : app.arguments) *out << " " << argument;
}

class Apps : public testing::TestWithParam<App> {};

TEST_P(Apps, ResultsAreVerified) {
  for (const auto& [clusters, compute] : {std::pair{1, 1}, {1, 4}, {4, 1}, {2, 3}}) {
    ShellMachine machine({.clusters = static_cast<std::uint16_t>(clusters),
                          .compute = static_cast<std::uint16_t>(compute),
                          .heap_pages = 4096});
    std::vector<std::string> command = GetParam().arguments;
    command.insert(command.begin(), BRAID_PROGRAMS + GetParam().name);
    machine.start(command);
    for (const ShellMachine::Ending& ending : machine.run()) {
      EXPECT_EQ(ending.exit_status, 0)
          << clusters << " x " << compute << ": signal " << ending.signal << " " << ending.text;
    }
    EXPECT_EQ(machine.error(), "");
  }
}

TEST_P(Apps, RequestsAndClocksAreEqualInEveryRun) {
  if (!charges_are_counted()) GTEST_SKIP() << "clocks are the processor's: the plug-in was not built";
  std::vector<std::tuple<unsigned, unsigned, std::int64_t, Kind, std::uint32_t, std::uint32_t>> first;
  for (int run = 0; run < 2; ++run) {
    ShellMachine machine({.clusters = 2, .compute = 3, .heap_pages = 4096});
    std::vector<std::string> command = GetParam().arguments;
    command.insert(command.begin(), BRAID_PROGRAMS + GetParam().name);
    machine.start(command);
    machine.run();
    decltype(first) asked;
    for (const RecordedRequest& a : machine.recorded())
      asked.emplace_back(a.cluster, a.node, a.clock, a.request.kind, a.request.page, a.request.id);
    if (run == 0) first = asked;
    EXPECT_GT(asked.size(), 50u);
    EXPECT_TRUE(asked == first);
  }
}

INSTANTIATE_TEST_SUITE_P(, Apps,
                         testing::Values(App{"barnes", {"--bodies", "100", "--iterations", "2"}},
                                         App{"unstructured", {"--nodes", "200", "--edges", "1200"}},
                                         App{"fft", {"--points", "2048"}}, App{"gauss", {"--size", "48"}},
                                         App{"jacobi", {"--size", "64"}},
                                         App{"jacobi", {"--size", "64", "--intra", "tbb"}},
                                         App{"matmul", {"--size", "48"}},
                                         App{"matmul", {"--size", "48", "--intra", "tbb"}},
                                         App{"tsp", {"--cities", "9"}}, App{"water", {"--molecules", "27"}}),
                         [](const testing::TestParamInfo<App>& app) {
                           return app.param.name + (app.param.arguments.back() == "tbb" ? "Tbb" : "");
                         });

}  // namespace
}  // namespace braid::sim
