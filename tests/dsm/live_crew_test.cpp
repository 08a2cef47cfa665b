// The compute nodes' threads, and their counts for a watchdog.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "dsm/live/crew.h"
#include "dsm/live/environment.h"
#include "dsm/live/pulse_writer.h"
#include "dsm/live/this_thread.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

TEST(Crew, RunsAJobOncePerNodeOnAThreadOfItsOwn) {
  constexpr unsigned kNodes = 5;
  PulseWriter pulse;
  Crew crew(kNodes, pulse);
  std::vector<std::thread::id> threads(kNodes);
  std::vector<int> locals(kNodes, -2);
  std::vector<int> runs(kNodes);
  crew.run([&](unsigned local) {
    threads[local] = std::this_thread::get_id();
    locals[local] = this_thread.local;
    ++runs[local];
  });
  EXPECT_THAT(runs, testing::Each(1));
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), kNodes);
  for (unsigned local = 1; local < kNodes; ++local) EXPECT_EQ(locals[local], static_cast<int>(local));
}

TEST(Crew, ReturnsOnlyWhenEveryNodeHasReturned) {
  PulseWriter pulse;
  Crew crew(3, pulse);
  for (int round = 1; round <= 500; ++round) {
    std::atomic<int> returned{0};
    crew.run([&](unsigned) { ++returned; });
    ASSERT_EQ(returned, 3) << "round " << round;
  }
}

TEST(Crew, EachNodeHasTheSameThreadForEveryJob) {
  PulseWriter pulse;
  Crew crew(2, pulse);
  std::thread::id first, second;
  crew.run([&](unsigned local) {
    if (local == 1) first = std::this_thread::get_id();
  });
  crew.run([&](unsigned local) {
    if (local == 1) second = std::this_thread::get_id();
  });
  EXPECT_EQ(first, second);
}

TEST(Crew, EndsWithoutAJob) {
  PulseWriter pulse;
  const Crew crew(4, pulse);
}

TEST(Crew, CrewOfOneRunsOnTheCallersThread) {
  PulseWriter pulse;
  Crew crew(1, pulse);
  std::thread::id where;
  crew.run([&](unsigned local) {
    EXPECT_EQ(local, 0u);
    where = std::this_thread::get_id();
  });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(Crew, ThreadsCountAsComputingWhileTheyRunAJob) {
  PulseWriter pulse;
  Crew crew(3, pulse);
  EXPECT_EQ(pulse.read().busy, 0);
  std::atomic<bool> seen{false};
  crew.run([&](unsigned local) {
    if (local != 0) {
      while (!seen) std::this_thread::yield();
      return;
    }
    // Node 0 is the caller's thread, which counts for itself.
    while (pulse.read().busy != 2) std::this_thread::yield();
    seen = true;
  });
  while (pulse.read().busy != 0) std::this_thread::yield();
}

// --- PulseWriter

TEST(PulseWriter, CountsComputingThreadsAndEndedWaits) {
  PulseWriter pulse;
  EXPECT_EQ(pulse.read().counts, 0u);
  pulse.publish();
  EXPECT_EQ(pulse.read().counts, 1u);
  {
    const PulseWriter::Computing computing(pulse);
    EXPECT_EQ(pulse.read().busy, 1);
    {
      const PulseWriter::Waiting waiting(pulse);
      EXPECT_EQ(pulse.read().busy, 0);
      EXPECT_EQ(pulse.read().progress, 0u);
    }
    EXPECT_EQ(pulse.read().busy, 1) << "it computes again";
    EXPECT_EQ(pulse.read().progress, 1u);
  }
  EXPECT_EQ(pulse.read().busy, 0);
}

TEST(PulseWriter, ThreadThatDidNotComputeIsNotCountedAfterItsWait) {
  PulseWriter pulse;
  { const PulseWriter::Waiting waiting(pulse); }
  EXPECT_EQ(pulse.read().busy, 0);
  EXPECT_EQ(pulse.read().progress, 1u);
}

TEST(PulseWriter, TheWatcherSeesTheCountsUntilTheWriterEnds) {
  const int fd = ::memfd_create("pulse", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, sizeof(Pulse)), 0);
  const auto* const watched =
      static_cast<const Pulse*>(::mmap(nullptr, sizeof(Pulse), PROT_READ, MAP_SHARED, fd, 0));
  {
    PulseWriter pulse;
    ASSERT_TRUE(pulse.map(fd));
    EXPECT_EQ(watched->counts, 0u);
    pulse.publish();
    const PulseWriter::Computing computing(pulse);
    EXPECT_EQ(watched->counts, 1u);
    EXPECT_EQ(watched->busy, 1);
  }
  EXPECT_EQ(watched->counts, 0u) << "nothing can be told of it any more";
  ::close(fd);
}

TEST(PulseWriter, DescriptorThatCannotBeMappedIsNamed) {
  PulseWriter pulse;
  const Result<void> mapped = pulse.map(12345);
  ASSERT_FALSE(mapped);
  EXPECT_THAT(mapped.error().text, HasSubstr("BRAID_PULSE_FD is 12345, which cannot be mapped: "));
}

}  // namespace
}  // namespace braid::dsm
