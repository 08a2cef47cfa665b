// Teams of compute nodes on oneTBB (apps/common/team.h).
#include "apps/common/team.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "tests/dsm/live_machine.h"

namespace braid {
namespace {

using dsm::Range;

TEST(TbbTeam, AllComputeNodesOfAClusterUseSharedMemoryConcurrently) {
  for (const unsigned clusters : {1u, 2u, 3u}) {
    constexpr unsigned kCompute = 4;
    dsm::expect_runs({.clusters = clusters, .compute = kCompute}, [&] {
      constexpr std::size_t kThings = 6000;
      auto* const things = dsm::allocate<std::uint64_t>(kThings);
      std::atomic<bool> all_at_once = true;
      std::optional<apps::TbbTeam> team(std::in_place);
      for (std::uint64_t round = 1; round <= 3; ++round) {
        std::atomic<unsigned> slots = 0;  // that have been seen inside the loop, a bit each
        team->divide(kThings, [&](Range part) {
          slots.fetch_or(1u << tbb::this_task_arena::current_thread_index());
          // Until all have arrived; ten seconds at most.
          for (int looks = 0; slots != (1u << kCompute) - 1; ++looks) {
            if (looks > 10'000) {
              all_at_once = false;
              break;
            }
            ::usleep(1000);
          }
          for (const std::size_t i : part) things[i] += i * round;
        });
        team->barrier();
      }
      team.reset();
      unsigned wrong = 0;
      for (std::size_t i = 0; i < kThings; ++i) {
        if (things[i] != i * 6) ++wrong;
      }
      return dsm::finish(wrong == 0 && all_at_once ? 0 : 1);
    });
  }
}

}  // namespace
}  // namespace braid
