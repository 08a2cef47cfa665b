// The machine in virtual time, its programs being scripts.
#include "sim/machine.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/sim/scripted_shell.h"

namespace braid::sim {
namespace {

// Round numbers: a message of few bytes takes 1000 (send) + 500 (network) + 900 (receive).
CostModel model() {
  CostModel m;
  m.name = "test";
  m.cycles_per_second = 20e6;
  m.fault = 100;
  m.call = 50;
  m.lock = 20;
  m.barrier = 30;
  m.sync = 20;
  m.protect = 40;
  m.twin = 200;
  m.diff = 300;
  m.diff_byte = 0.5;
  m.page_byte = 0.25;
  m.handler = 150;
  m.hand_over = 60;
  m.hand_over_byte = 0.25;
  m.window_send = 600;
  m.ack_send = 200;
  m.udp_send = 150;
  m.checksum_byte = 0.5;
  m.ip_send = 150;
  m.ni_send = 100;
  m.ni_byte = 0;
  m.ni_receive = 100;
  m.ip_receive = 150;
  m.udp_receive = 150;
  m.window_receive = 400;
  m.ack_receive = 150;
  m.deliver = 100;
  m.deliver_byte = 0.25;
  m.timer = 50;
  m.latency = 500;
  m.wire_byte = 0.1;
  return m;
}

constexpr std::uint32_t kHeapPages = 64;
constexpr std::uint32_t kBarriers = 4;

MachineConfig config(unsigned clusters, unsigned compute, unsigned proxies = 1) {
  MachineConfig c;
  c.iccs.clusters = static_cast<std::uint16_t>(clusters);
  c.iccs.proxies = static_cast<std::uint16_t>(proxies);
  c.iccs.sub_connection.min_rto = 20_ms;
  c.iccs.sub_connection.max_rto = 200_ms;
  c.compute = static_cast<std::uint16_t>(compute);
  c.heap_pages = kHeapPages;
  c.locks = 16;
  c.barriers = kBarriers;
  c.words = 8;
  c.flags = 8;
  c.semaphores = 8;
  c.conditions = 8;
  return c;
}

struct Outcome {
  std::vector<std::unique_ptr<ScriptedShell>> shells;
  Result<MachineFigures> figures = MachineFigures{};
};

// scripts[cluster * compute + node].
Outcome run(const MachineConfig& c, std::vector<Script> scripts,
            dsm::Homes homes = {dsm::Homes::Kind::kCyclic, {}}, Machine::Trace trace = {},
            const CostModel& costs = model()) {
  Outcome r;
  std::vector<Shell*> shells;
  for (unsigned k = 0; k < c.iccs.clusters; ++k) {
    std::vector<Script> own(scripts.begin() + k * c.compute, scripts.begin() + (k + 1) * c.compute);
    r.shells.push_back(std::make_unique<ScriptedShell>(std::move(own), kHeapPages, 16, homes, kBarriers));
    shells.push_back(r.shells.back().get());
  }
  Machine machine(c, costs, shells, std::move(trace));
  r.figures = machine.run();
  return r;
}

TEST(Machine, WhatOneClusterWroteBeforeABarrierTheOtherReadsBehindIt) {
  const Outcome r = run(config(2, 1), {{write_word(0, 7), write_word(4096, 8), barrier(), read_word(8)},
                                       {write_word(8, 9), barrier(), read_word(0), read_word(4096)}});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.shells[1]->read_by(0), (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(r.shells[0]->read_by(0), (std::vector<std::uint64_t>{9}));
  EXPECT_GT(r.figures->messages.count, 0u);
  EXPECT_GT(r.figures->parallel, Duration());
}

TEST(Machine, ComputingTakesItsCyclesAndNothingElseDoes) {
  const Outcome r = run(config(1, 2), {{compute(1000), compute(500)}, {compute(200)}});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.figures->nodes[0].computing, model().time(1500));
  EXPECT_EQ(r.figures->nodes[1].computing, model().time(200));
}

TEST(Machine, ALockAdmitsOneAfterTheOther) {
  std::vector<Script> scripts;
  for (int n = 0; n < 6; ++n) {
    Script s;
    for (int i = 0; i < 10; ++i) {
      s.push_back(lock(3));
      s.push_back(add_word(64, 1));
      s.push_back(compute(10 * (n + 1)));
      s.push_back(unlock(3));
    }
    s.push_back(barrier());
    s.push_back(read_word(64));
    scripts.push_back(s);
  }
  const Outcome r = run(config(3, 2), scripts);
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  for (unsigned k = 0; k < 3; ++k)
    for (unsigned n = 0; n < 2; ++n) EXPECT_EQ(r.shells[k]->read_by(n), (std::vector<std::uint64_t>{60}));
}

TEST(Machine, NodesThatWaitForEachOtherAreToldSo) {
  const Outcome r = run(config(2, 1), {{lock(1), lock(2)}, {lock(2), compute(100000), lock(1)}});
  ASSERT_FALSE(r.figures.ok());
  EXPECT_NE(r.figures.error().text.find("all compute nodes wait"), std::string::npos)
      << r.figures.error().text;
  EXPECT_NE(r.figures.error().text.find("compute node 0 waits for lock 2"), std::string::npos)
      << r.figures.error().text;
}

TEST(Machine, AMistakeOfTheProgramsIsNamed) {
  const Outcome r = run(config(2, 1), {{unlock(5)}, {}});
  ASSERT_FALSE(r.figures.ok());
  EXPECT_EQ(r.figures.error().text, "compute node 0 unlocks lock 5, which it does not have");
}

// A random program without data races: words are touched under their locks, phases are divided by barriers.
std::vector<Script> random_scripts(std::uint64_t seed, unsigned nodes) {
  Prng random(seed);
  std::vector<Script> scripts(nodes);
  for (int phase = 0; phase < 3; ++phase) {
    for (Script& s : scripts) {
      for (int i = 0; i < 12; ++i) {
        s.push_back(compute(static_cast<std::int64_t>(random.below(3000))));
        const auto word = static_cast<std::uint32_t>(random.below(8));
        s.push_back(lock(word));
        s.push_back(add_word(word * 4096 + 8 * word, 1 + random.below(100)));
        if (random.chance(0.5)) s.push_back(compute(static_cast<std::int64_t>(random.below(500))));
        s.push_back(unlock(word));
        if (random.chance(0.2))
          s.push_back(call({.op = dsm::SyncOp::kWordAdd, .id = word, .first = 1, .releases = true}));
      }
      s.push_back(barrier(static_cast<std::uint32_t>(phase)));
    }
  }
  for (Script& s : scripts)
    for (std::uint32_t word = 0; word < 8; ++word) s.push_back(read_word(word * 4096 + 8 * word));
  return scripts;
}

TEST(Machine, TheSameRunIsTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Script> scripts = random_scripts(seed, 6);
    const Outcome a = run(config(3, 2, 2), scripts);
    const Outcome b = run(config(3, 2, 2), scripts);
    ASSERT_TRUE(a.figures.ok()) << a.figures.error().text;
    EXPECT_EQ(a.figures->trace_hash, b.figures->trace_hash) << "seed " << seed;
    EXPECT_EQ(a.figures->parallel, b.figures->parallel);
  }
}

TEST(Machine, WindowsGiveWhatStrictOrderGives) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Mode mode : {Mode::kReal, Mode::kNoDelay, Mode::kNoContention}) {
      MachineConfig c = config(3, 2, 2);
      c.iccs.mode = mode;
      c.iccs.fixed_delay = 100_us;
      const std::vector<Script> scripts = random_scripts(seed, 6);
      const Outcome windows = run(c, scripts);
      c.strict = true;
      const Outcome strict = run(c, scripts);
      ASSERT_TRUE(windows.figures.ok()) << windows.figures.error().text;
      ASSERT_TRUE(strict.figures.ok()) << strict.figures.error().text;
      EXPECT_EQ(windows.figures->trace_hash, strict.figures->trace_hash)
          << "seed " << seed << ", mode " << static_cast<int>(mode);
      EXPECT_LT(windows.figures->hand_overs, strict.figures->hand_overs);
    }
  }
}

TEST(Machine, EveryModeGivesTheSameResult) {
  const std::vector<Script> scripts = random_scripts(7, 6);
  std::vector<std::vector<std::uint64_t>> read;
  for (const Mode mode : {Mode::kReal, Mode::kNoDelay, Mode::kNoContention}) {
    MachineConfig c = config(3, 2);
    c.iccs.mode = mode;
    c.iccs.fixed_delay = 100_us;
    const Outcome r = run(c, scripts);
    ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
    read.push_back(r.shells[2]->read_by(1));
  }
  EXPECT_EQ(read[0], read[1]);
  EXPECT_EQ(read[0], read[2]);
}

TEST(Machine, LossCostsTimeAndNothingElse) {
  const std::vector<Script> scripts = random_scripts(11, 6);
  MachineConfig c = config(3, 2);
  const Outcome good = run(c, scripts);
  c.iccs.faults.loss = 0.05;
  const Outcome bad = run(c, scripts);
  ASSERT_TRUE(bad.figures.ok()) << bad.figures.error().text;
  EXPECT_GT(bad.figures->frames_lost, 0u);
  EXPECT_GT(bad.figures->retransmissions, 0u);
  EXPECT_GT(bad.figures->parallel, good.figures->parallel);
  EXPECT_EQ(bad.shells[0]->read_by(0), good.shells[0]->read_by(0));
}

}  // namespace
}  // namespace braid::sim
