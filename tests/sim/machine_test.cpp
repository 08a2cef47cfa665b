// The machine in virtual time, its programs being scripts.
#include "sim/simulated_machine.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "sim/idle_message.h"
#include "tests/dsm/page_bytes.h"
#include "tests/sim/round_costs.h"
#include "tests/sim/scripted_shell.h"

namespace braid::sim {
namespace {

settings::CostModel model() {
  return round_costs(20e6);
}

constexpr std::uint32_t kHeapPages = 64;

MachineConfig config(unsigned clusters, unsigned compute, unsigned proxies = 1) {
  MachineConfig c;
  c.iccs.clusters = static_cast<std::uint16_t>(clusters);
  c.iccs.proxies = static_cast<std::uint16_t>(proxies);
  c.iccs.transport.min_rto_us = 20'000;
  c.iccs.transport.max_rto_us = 200'000;
  c.iccs.transport.congestion = stack::CongestionControl::kNone;
  c.compute = static_cast<std::uint16_t>(compute);
  c.heap_pages = kHeapPages;
  return c;
}

struct Outcome {
  std::vector<std::unique_ptr<ScriptedShell>> shells;
  Result<MachineFigures> figures = MachineFigures{};
};

// scripts[cluster * compute + node].
Outcome run(const MachineConfig& c, std::vector<Script> scripts,
            dsm::Homes homes = {dsm::Homes::Kind::kCyclic, {}}, SimulatedMachine::Trace trace = {},
            const settings::CostModel& costs = model()) {
  Outcome r;
  std::vector<Shell*> shells;
  for (unsigned k = 0; k < c.iccs.clusters; ++k) {
    std::vector<Script> own(scripts.begin() + k * c.compute, scripts.begin() + (k + 1) * c.compute);
    r.shells.push_back(std::make_unique<ScriptedShell>(std::move(own), kHeapPages, 16, homes));
    shells.push_back(r.shells.back().get());
  }
  for (const auto& shell : r.shells) shell->pass_on_to(shells);
  SimulatedMachine machine(c, costs, shells, std::move(trace));
  r.figures = machine.run();
  return r;
}

TEST(Machine, WritesBeforeABarrierAreReadAfterIt) {
  const Outcome r = run(config(2, 1), {{write_word(0, 7), write_word(4096, 8), barrier(), read_word(8)},
                                       {write_word(8, 9), barrier(), read_word(0), read_word(4096)}});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.shells[1]->read_by(0), (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(r.shells[0]->read_by(0), (std::vector<std::uint64_t>{9}));
  EXPECT_GT(r.figures->messages.count, 0u);
  EXPECT_GT(r.figures->parallel, Duration());
}

TEST(Machine, OnlyComputingTakesCyclesOfTheProgram) {
  const Outcome r = run(config(1, 2), {{compute(1000), compute(500)}, {compute(200)}});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.figures->nodes[0].computing, model().time(1500));
  EXPECT_EQ(r.figures->nodes[1].computing, model().time(200));
}

TEST(Machine, LockAdmitsOneNodeAtATime) {
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

TEST(Machine, DeadlockIsReported) {
  const Outcome r = run(config(2, 1), {{lock(1), lock(2)}, {lock(2), compute(100000), lock(1)}});
  ASSERT_FALSE(r.figures.ok());
  EXPECT_NE(r.figures.error().text.find("all compute nodes wait"), std::string::npos)
      << r.figures.error().text;
  EXPECT_NE(r.figures.error().text.find("compute node 0 waits for lock 2"), std::string::npos)
      << r.figures.error().text;
}

TEST(Machine, MistakeOfTheProgramIsNamed) {
  const auto told = [](const Script& script) {
    const Outcome r = run(config(2, 1), {{}, script});
    return r.figures.ok() ? "" : r.figures.error().text;
  };
  EXPECT_EQ(told({lock(4), unlock(5)}), "compute node 1 unlocks lock 5, which it does not have");
  EXPECT_EQ(told({lock(5), lock(5)}),
            "compute node 1 locks lock 5, which it has already: locks are not recursive");
  EXPECT_EQ(told({lock(3), call({.op = dsm::SyncOp::kConditionWait, .id = 2, .lock = dsm::LockId(4)})}),
            "compute node 1 waits for condition 2 with lock 4, which it does not have");
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

TEST(Machine, SameConfigurationGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Script> scripts = random_scripts(seed, 6);
    const Outcome a = run(config(3, 2, 2), scripts);
    const Outcome b = run(config(3, 2, 2), scripts);
    ASSERT_TRUE(a.figures.ok()) << a.figures.error().text;
    EXPECT_EQ(a.figures->trace_hash, b.figures->trace_hash) << "seed " << seed;
    EXPECT_EQ(a.figures->parallel, b.figures->parallel);
  }
}

TEST(Machine, WindowsAndStrictOrderGiveTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Mode mode : {Mode::kReal, Mode::kNoDelay, Mode::kNoContention}) {
      MachineConfig c = config(3, 2, 2);
      c.iccs.mode = mode;
      c.iccs.fixed_delay = 100_us;
      c.iccs.seed = seed;
      c.jitter = seed % 2 == 0 ? 0 : 500;
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

// Three clusters that compute for long, one of which asks for something before the others do.
TEST(Machine, ClustersThatComputeHaveTheBatonOneAfterTheOther) {
  std::vector<Script> scripts;
  for (int n = 0; n < 6; ++n) {
    Script s;
    for (int i = 0; i < 200; ++i) s.push_back(compute(5000));
    if (n == 3) s.insert(s.begin() + 100, {lock(1), unlock(1)});
    scripts.push_back(s);
  }
  const Outcome r = run(config(3, 2), scripts);
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  std::uint64_t passed_on = 0;
  for (const auto& shell : r.shells) passed_on += shell->passed_on();
  EXPECT_GT(passed_on, r.figures->hand_overs / 2);
  EXPECT_LT(passed_on, r.figures->hand_overs);
  MachineConfig c = config(3, 2);
  c.strict = true;
  EXPECT_EQ(run(c, scripts).figures->trace_hash, r.figures->trace_hash);
}

// Four nodes write a word each of every page, and read all words after a barrier.
std::vector<Script> scattered_scripts() {
  std::vector<Script> scripts(4);
  for (unsigned n = 0; n < 4; ++n) {
    for (std::uint32_t page = 0; page < 16; ++page)
      scripts[n].push_back(write_word(page * 4096 + 8 * n, 100 * page + n));
    scripts[n].push_back(barrier());
    for (std::uint32_t page = 0; page < 16; ++page)
      for (unsigned of = 0; of < 4; ++of) scripts[n].push_back(read_word(page * 4096 + 8 * of));
  }
  return scripts;
}

struct Traffic {
  explicit Traffic(const Outcome& r) {
    for (const ProxyFigures& p : r.figures->proxies) {
      messages += p.messages;
      records += p.records;
    }
  }
  std::uint64_t messages = 0;
  std::uint64_t records = 0;
};

// The engine packs its messages (PG-26), which leaves trains nothing to do. Without that its messages share records.
TEST(Machine, MessagesOfAnEngineThatDoesNotPackShareRecords) {  // CV-11
  MachineConfig c = config(2, 2);
  const Outcome packs = run(c, scattered_scripts());
  c.engine.pack = settings::Choice::kNo;
  const Outcome with = run(c, scattered_scripts());
  c.iccs.transport.train_messages = 1;
  const Outcome without = run(c, scattered_scripts());
  for (const Outcome* const r : {&packs, &with, &without}) {
    ASSERT_TRUE(r->figures.ok()) << r->figures.error().text;
    EXPECT_EQ(r->figures->retransmissions, 0u);
    for (unsigned k = 0; k < 2; ++k) {
      for (unsigned n = 0; n < 2; ++n) {
        ASSERT_EQ(r->shells[k]->read_by(n).size(), 64u);
        for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(r->shells[k]->read_by(n)[i], 100 * (i / 4) + i % 4);
      }
    }
  }
  EXPECT_EQ(Traffic(packs).records, Traffic(packs).messages);
  EXPECT_EQ(Traffic(without).records, Traffic(without).messages);
  EXPECT_LT(Traffic(with).records, Traffic(with).messages * 9 / 10);
  EXPECT_LT(with.figures->parallel, without.figures->parallel);
}

TEST(Machine, TrainsGiveTheSameTraceInWindowsAndInStrictOrder) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const unsigned proxies : {1u, 2u}) {
      MachineConfig c = config(2, 2, proxies);
      c.engine.pack = settings::Choice::kNo;
      c.iccs.seed = seed;
      c.iccs.dispatch = convergence::Dispatch::kFixed;
      c.jitter = 500;
      const auto traced = [&](const std::vector<Script>& scripts) {
        const Outcome r = run(c, scripts);
        EXPECT_TRUE(r.figures.ok()) << r.figures.error().text;
        return std::pair(r.figures->trace_hash, Traffic(r).messages - Traffic(r).records);
      };
      for (const std::vector<Script>& scripts : {scattered_scripts(), random_scripts(seed, 4)}) {
        c.strict = false;
        const auto windows = traced(scripts);
        EXPECT_EQ(traced(scripts), windows) << "the same run once more, seed " << seed;
        c.strict = true;
        EXPECT_EQ(traced(scripts), windows) << "seed " << seed;
        EXPECT_GT(windows.second, 0u);
      }
    }
  }
}

TEST(Machine, TheSeedDrawsTheJitter) {
  // No node waits for another, so a node's waiting time is the cost and the jitter of its calls.
  const auto waits = [](std::uint32_t jitter, std::uint64_t seed) {
    MachineConfig c = config(1, 2);
    c.jitter = jitter;
    c.iccs.seed = seed;
    Script script;
    for (int i = 0; i < 200; ++i) script.push_back(call({.op = dsm::SyncOp::kWordAdd, .id = 1, .first = 1}));
    const Outcome r = run(c, {script, {}});
    EXPECT_TRUE(r.figures.ok()) << r.figures.error().text;
    return r.figures->nodes[0].syncs;
  };
  const Duration none = waits(0, 1);
  EXPECT_EQ(waits(0, 2), none);
  const Duration some = waits(100, 1);
  EXPECT_EQ(waits(100, 1), some);
  EXPECT_NE(waits(100, 2), some);
  // 200 draws between 0 and 100 cycles: 50 each in the mean, whose standard deviation is 2.
  const double mean = model().cycles(some - none) / 200;
  EXPECT_GT(mean, 40);
  EXPECT_LT(mean, 60);
}

TEST(Machine, NodesThatEndEarlyWaitForTheLast) {
  const Outcome r = run(config(2, 3), std::vector<Script>(6, Script{compute(10)}));
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  for (const NodeFigures& node : r.figures->nodes) {
    EXPECT_GE(node.computing, model().time(10));
    EXPECT_LT(node.computing, model().time(11)) << "waiting for another cluster to end is no computing";
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

TEST(Machine, LossOnlyCostsTime) {
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

// Nodes of eight clusters take one lock after the other and change the same pages, so that messages queue at the
// proxies and round trips vary tenfold.
TEST(Machine, QueueingPeersCauseNoRetransmission) {  // SW-12
  std::vector<Script> scripts;
  for (int n = 0; n < 8; ++n) {
    Script s;
    for (int i = 0; i < 12; ++i) {
      const auto lock_id = static_cast<std::uint32_t>((i + n) % 3);
      s.push_back(lock(lock_id));
      s.push_back(add_word(64 * lock_id, 1));
      s.push_back(compute(40));
      s.push_back(unlock(lock_id));
      if (i % 4 == 3) s.push_back(barrier());
    }
    scripts.push_back(std::move(s));
  }
  const Outcome r = run(config(8, 1), scripts);
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.figures->frames_lost, 0u);
  EXPECT_EQ(r.figures->retransmissions, 0u);
}

TEST(Machine, RetransmissionsOfReorderedPacketsAreCountedAsSpurious) {  // SW-12
  MachineConfig c = config(3, 2);
  c.iccs.faults.reorder = 0.3;
  const Outcome r = run(c, random_scripts(11, 6));
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  EXPECT_EQ(r.figures->frames_lost, 0u);
  EXPECT_GT(r.figures->spurious_retransmissions, 0u);
  EXPECT_LE(r.figures->spurious_retransmissions, r.figures->retransmissions);
}

// With its result, or with an error that says what was lost.
TEST(Machine, EveryRunEndsAtAnyLossRate) {
  for (const double loss : {0.9, 0.95, 1.0}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      MachineConfig c = config(2, 1);
      c.iccs.faults.loss = loss;
      c.iccs.seed = seed;
      const Outcome r = run(c, {{write_word(0, 7), barrier(), read_word(8)}, {write_word(8, 9), barrier()}});
      if (r.figures.ok())
        EXPECT_EQ(r.shells[0]->read_by(0), (std::vector<std::uint64_t>{9})) << "seed " << seed;
      else
        EXPECT_NE(r.figures.error().text.find("cluster"), std::string::npos) << r.figures.error().text;
    }
  }
}

TEST(Machine, WriteToARemotePagePaysForATwin) {
  const auto waits_for_pages = [](double twin_cycles) {
    settings::CostModel costs = model();
    costs.twin = twin_cycles;
    const Outcome r =
        run(config(2, 1), {{}, {write_word(0, 1)}}, {dsm::Homes::Kind::kCluster, ClusterId(0)}, {}, costs);
    EXPECT_TRUE(r.figures.ok()) << r.figures.error().text;
    return r.figures->nodes[1].faults;
  };
  EXPECT_EQ(waits_for_pages(2000) - waits_for_pages(200), model().time(1800));
}

// --- The system alone

// Cluster 0 sends as long as there is room, and goes on when it is told of more.
class Flood final : public Iccs::Sink {
 public:
  Flood(unsigned messages, std::uint32_t bytes) : left_(messages), message_(bytes) {}
  Handled on_message(Instant now, ClusterId, ClusterId, ByteView) override {
    ++arrived;
    return {now, 0};
  }
  void on_room(Instant now, ClusterId) override { send(now); }
  void on_delivered(const MessageReport&) override {}
  void on_lost(Instant, ClusterId, ClusterId, const char* why) override { ADD_FAILURE() << why; }
  void send(Instant now) {
    while (left_ > 0 && iccs->send(now, ClusterId(0), 0, ClusterId(1), message_)) --left_;
  }
  Iccs* iccs = nullptr;
  unsigned arrived = 0;

 private:
  unsigned left_;
  std::vector<std::byte> message_;
};

TEST(Iccs, SenderWithoutRoomIsNotifiedWhenThereIsRoom) {
  IccsConfig c = config(2, 1, 2).iccs;
  c.window_bytes = 16384;
  Events events(2);
  Flood flood(2000, 3000);
  Iccs iccs(c, model(), events, flood);
  flood.iccs = &iccs;
  ASSERT_TRUE(iccs.establish().ok());
  flood.send(events.now());
  const Instant deadline = events.now() + 100_s;
  while (flood.arrived < 2000 && events.now() < deadline) iccs.on_event(events.pop());
  EXPECT_EQ(flood.arrived, 2000u);
  EXPECT_EQ(iccs.in_flight(), 0u);
  const Instant rest = events.now() + 1_s;
  while (events.now() < rest) iccs.on_event(events.pop());
  EXPECT_TRUE(iccs.at_rest());
}

// Cluster 0 fills its proxies' channels with messages for all others.
class FloodOfAll final : public Iccs::Sink {
 public:
  explicit FloodOfAll(std::uint16_t clusters) : left_(clusters, 2000) { left_[0] = 0; }
  Handled on_message(Instant now, ClusterId, ClusterId, ByteView) override {
    ++arrived;
    return {now, 0};
  }
  void on_room(Instant now, ClusterId) override {
    if (told.empty() || told.back().first != now) told.emplace_back(now, 0);
    ++told.back().second;
    send(now);
  }
  void on_delivered(const MessageReport&) override {}
  void on_lost(Instant, ClusterId, ClusterId, const char* why) override { ADD_FAILURE() << why; }
  void send(Instant now) {
    std::uint16_t wait = 0;
    for (std::uint16_t to = 1; to < left_.size(); ++to) {
      while (left_[to] > 0 && iccs->send(now, ClusterId(0), 0, ClusterId(to), message_)) --left_[to];
      if (left_[to] > 0) ++wait;
    }
    most_waiting = std::max(most_waiting, wait);
  }
  Iccs* iccs = nullptr;
  unsigned arrived = 0;
  std::uint16_t most_waiting = 0;
  std::vector<std::pair<Instant, unsigned>> told;  // when, and how often then

 private:
  std::vector<unsigned> left_;
  std::vector<std::byte> message_ = std::vector<std::byte>(64);
};

// Each call costs the time of a message's handler.
TEST(Iccs, RoomInAChannelIsToldOnceForAllThatWaitForIt) {
  constexpr std::uint16_t kClusters = 8;
  IccsConfig c = config(kClusters, 1).iccs;
  Events events(kClusters);
  FloodOfAll flood(kClusters);
  Iccs iccs(c, model(), events, flood);
  flood.iccs = &iccs;
  ASSERT_TRUE(iccs.establish().ok());
  flood.send(events.now());
  const Instant deadline = events.now() + 100_s;
  while (flood.arrived < 2000u * (kClusters - 1) && events.now() < deadline) iccs.on_event(events.pop());
  EXPECT_EQ(flood.arrived, 2000u * (kClusters - 1));
  EXPECT_EQ(flood.most_waiting, kClusters - 1) << "nobody waited, so nobody was told";
  EXPECT_FALSE(flood.told.empty());
  for (const auto& [now, calls] : flood.told) ASSERT_EQ(calls, 1u);
}

TEST(Iccs, StagesHaveTheNamesOfTheirCosts) {
  for (const char* const stage : kStageNames) {
    const std::span<const settings::Setting> costs = settings::cost_settings();
    EXPECT_TRUE(std::any_of(costs.begin(), costs.end(), [&](const settings::Setting& cost) {
      return cost.name == stage;
    })) << stage;
  }
}

// --- One message on an idle system

Duration latency(std::uint32_t bytes) {
  IccsConfig c = config(2, 1).iccs;
  c.transport.fragmentation = stack::Fragmentation::kIp;
  return idle_latency(c, model(), bytes);
}

// Figure 6 of the paper.
TEST(IdleMessage, TakesLongerByAStepAtEachFurtherFragment) {
  // Most of what a further fragment costs is hidden: one is being received while the next is sent.
  const Duration fragment = (latency(1000) - latency(996)) * 10;
  std::vector<std::uint32_t> steps;
  Duration before = latency(0);
  for (std::uint32_t bytes = 0; bytes <= 4000; bytes += 4) {
    const Duration after = latency(bytes + 4);
    EXPECT_GE(after, before) << "never shorter: " << bytes;
    if (after - before >= fragment) steps.push_back(bytes);
    before = after;
  }
  // 1480 bytes of each fragment are payload, and of the datagram 8 + 48 + 20 are headers.
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_NEAR(steps[0], 1480 - 76, 4);
  EXPECT_NEAR(steps[1], 2960 - 76, 4);
}

// Figure 7 of the paper.
TEST(IdleMessage, StagesAddUpToItsLatency) {
  const MessageTimes t = idle_message(config(2, 1).iccs, model(), 100).times;
  EXPECT_EQ(t.served, t.handed) << "nobody is before it";
  EXPECT_EQ(t.taken, t.arrived);
  // A datagram of 100 bytes, the record's header, the packet's and UDP's own.
  const double datagram = 100 + 20 + 48 + 8;
  EXPECT_EQ(t.left - t.served, model().time(600 + 150 + 0.5 * datagram + 150 + 100));
  const double wire = 14 + 20 + datagram + 24;
  EXPECT_NEAR(static_cast<double>((t.arrived - t.left).ns()),
              static_cast<double>(model().time(500 + 0.1 * wire).ns()), 1000);
  EXPECT_EQ(t.delivered - t.taken, model().time(100 + 150 + 150 + 0.5 * datagram + 400 + 100 + 0.25 * 100));
}

// --- Mutants of the model show in its figures

Outcome with(ModelMutant mutant) {
  MachineConfig c = config(4, 2);
  c.iccs.mutant = mutant;
  Outcome r = run(c, random_scripts(3, 8));
  EXPECT_TRUE(r.figures.ok()) << r.figures.error().text;
  return r;
}

TEST(ModelMutant, ForgottenChecksumShortensServiceOnly) {
  const Outcome right = with(ModelMutant::kNone);
  const Outcome wrong = with(ModelMutant::kForgetsChecksums);
  const auto mean = [](const Outcome& r, Duration MessageFigures::*part) {
    return (r.figures->messages.*part).us() / static_cast<double>(r.figures->messages.count);
  };
  EXPECT_LT(mean(wrong, &MessageFigures::send), 0.95 * mean(right, &MessageFigures::send));
  EXPECT_LT(mean(wrong, &MessageFigures::receive), 0.95 * mean(right, &MessageFigures::receive));
  EXPECT_NEAR(mean(wrong, &MessageFigures::network) / mean(right, &MessageFigures::network), 1, 0.02);
}

TEST(ModelMutant, LastInFirstOutMakesTheLongestWaitLonger) {
  // The sum over some programs: in a single one the longest wait is one message's.
  const auto longest_wait = [](ModelMutant mutant) {
    MachineConfig c = config(4, 4);
    c.iccs.mutant = mutant;
    Duration sum;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      Duration longest;
      const Outcome r =
          run(c, random_scripts(seed, 16), {dsm::Homes::Kind::kCyclic, {}}, [&](const MessageReport& m) {
            longest = std::max({longest, m.times.served - m.times.handed, m.times.taken - m.times.arrived});
          });
      EXPECT_TRUE(r.figures.ok()) << r.figures.error().text;
      sum += longest;
    }
    return sum;
  };
  EXPECT_GT(longest_wait(ModelMutant::kLastInFirstOut).ns(), longest_wait(ModelMutant::kNone).ns() * 3 / 2);
}

TEST(Machine, QueueLengthAgreesWithLittlesLaw) {
  const Outcome r = run(config(3, 2), random_scripts(5, 6));
  ASSERT_TRUE(r.figures.ok());
  Duration stay;
  for (const ProxyFigures& p : r.figures->proxies) {
    EXPECT_EQ(p.queue.covered(), r.figures->parallel);
    EXPECT_GE(p.queue.mean() * p.queue.covered().s(), p.stay.s())
        << "credits and acknowledgements queue, too";
    EXPECT_LE(p.busy, r.figures->parallel);
    EXPECT_GE(p.queue.most(), 1u);
    stay += p.stay;
  }
  // The proxies' count of who is there, and the messages' own times.
  const MessageFigures& m = r.figures->messages;
  const Duration at_proxies = m.wait_to_send + m.send + m.wait_to_receive + m.receive;
  EXPECT_NEAR(stay.s() / at_proxies.s(), 1, 0.02);
}

TEST(Machine, FiguresTellWhatComesAfterTheirReset) {
  // Other pages before than after: three that are fetched, then one.
  const auto script = [](std::uint32_t own) {
    Script s = {lock(5), compute(100'000), unlock(5)};
    for (std::uint32_t page = 0; page < 6; ++page) s.push_back(read_word(page * 4096));
    for (const Act& act :
         {barrier(), reset_figures(), barrier(), compute(5000), write_word(own, 1), barrier(), compute(2000)})
      s.push_back(act);
    return s;
  };
  const Outcome r = run(config(2, 1), {script(10 * 4096), script(10 * 4096 + 8)});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  const MachineFigures& f = *r.figures;
  std::uint64_t faults = 0;
  for (unsigned k = 0; k < 2; ++k) {
    EXPECT_EQ(f.node_counts[k].lock_calls, 0u);
    EXPECT_EQ(f.node_counts[k].read_faults, 0u);
    EXPECT_EQ(f.nodes[k].locks, Duration());
    EXPECT_NEAR(f.nodes[k].computing.s(), model().time(7000).s(), 1e-6)
        << "but for a message that it handles";
    EXPECT_TRUE(f.waits[k].locks().empty());
    EXPECT_EQ(f.proxies[k].queue.covered(), f.parallel);
    EXPECT_EQ(f.nodes[k].computing + f.nodes[k].faults + f.nodes[k].barriers + f.nodes[k].syncs, f.parallel);
    faults += f.node_counts[k].write_faults;
  }
  EXPECT_EQ(faults, 1u) << "the page's home writes it without";
  EXPECT_GE(f.parallel, model().time(7000));
  EXPECT_LT(f.parallel, model().time(60'000)) << "what came before took more than 200,000 cycles";
  EXPECT_GT(f.whole, model().time(200'000)) << "the run's time is the whole run's";
  EXPECT_EQ(f.messages.count, f.received[0] + f.received[1]);
  EXPECT_GT(f.messages.count, 0u);
  EXPECT_EQ(f.sent.entries().size(), 3u) << "phases: until the second barrier, until the third, after it";
}

TEST(Machine, BusyTimeOfAProxyIsTheSumOfItsStages) {
  for (const double speed : {1.0, 2.0}) {
    MachineConfig c = config(3, 2, 2);
    c.iccs.proxy_speed = speed;
    const Outcome r = run(c, random_scripts(5, 6));
    ASSERT_TRUE(r.figures.ok());
    for (const ProxyFigures& p : r.figures->proxies) {
      const auto stage = [&](Stage s) { return p.stages[static_cast<std::size_t>(s)] * speed; };
      // ni_byte is 0 in this model, and everything goes by IP.
      EXPECT_NEAR(stage(Stage::kNiSend), 100.0 * static_cast<double>(p.frames_sent), 1e-6);
      EXPECT_NEAR(stage(Stage::kIpSend), 150.0 * static_cast<double>(p.frames_sent), 1e-6);
      EXPECT_NEAR(stage(Stage::kNiReceive), 100.0 * static_cast<double>(p.frames_received), 1e-6);
      EXPECT_NEAR(stage(Stage::kIpReceive), 150.0 * static_cast<double>(p.frames_received), 1e-6);
      EXPECT_NEAR(stage(Stage::kTimer), 50.0 * static_cast<double>(p.timers), 1e-6);
      EXPECT_NEAR(stage(Stage::kWindowSend) / 600 + stage(Stage::kAckSend) / 200,
                  static_cast<double>(p.frames_sent), 1e-6);
      double all = 0;
      for (const double cycles : p.stages) all += cycles;
      EXPECT_NEAR(all / model().cycles(p.busy), 1, 1e-4) << "but for whole nanoseconds";
    }
  }
}

TEST(Machine, ProxiesThatShareALinkWaitForIt) {
  settings::CostModel slow = model();
  slow.wire_byte = 20;
  unsigned long_ones = 0;
  Duration waited;
  const auto way = [&](const MessageReport& m) {
    waited += m.times.on_link - m.times.left;
    EXPECT_LE(m.times.left, m.times.on_link);
    // Of several packets it is the last one's way.
    if (m.bytes < 1000)
      EXPECT_GE(m.times.arrived - m.times.on_link, model().time(500 + 20.0 * m.bytes));
    else
      ++long_ones;
  };
  const Outcome r = run(config(3, 2), random_scripts(5, 6), {dsm::Homes::Kind::kCyclic, {}}, way, slow);
  ASSERT_TRUE(r.figures.ok());
  ASSERT_EQ(r.figures->links.size(), 3u);
  const MessageFigures& m = r.figures->messages;
  EXPECT_GT(m.count, 2 * long_ones);
  EXPECT_GT(m.wait_for_link, Duration());
  EXPECT_EQ(m.wait_for_link, waited);
  EXPECT_LT(m.wait_for_link, m.network);
  std::uint64_t sent = 0, carried = 0;
  for (const ProxyFigures& p : r.figures->proxies) sent += p.frames_sent;
  for (const LinkFigures& link : r.figures->links) {
    carried += link.frames;
    const double wire_bytes = static_cast<double>(link.bytes + 24 * link.frames);
    EXPECT_NEAR(model().cycles(link.busy) / (20 * wire_bytes), 1, 1e-3);
    EXPECT_GT(link.waited, Duration());
    EXPECT_LT(link.busy, r.figures->parallel);
  }
  EXPECT_NEAR(static_cast<double>(carried), static_cast<double>(sent), 6) << "but for those at the ends";

  // A proxy alone on a link that is faster than its stages never waits.
  const Outcome fast = run(config(3, 2), random_scripts(5, 6));
  ASSERT_TRUE(fast.figures.ok());
  EXPECT_EQ(fast.figures->messages.wait_for_link, Duration());
  for (const LinkFigures& link : fast.figures->links) EXPECT_EQ(link.waited, Duration());
}

TEST(Machine, ReceivedMessagesAreTheDeliveredOnes) {
  std::vector<std::uint64_t> traced(3);
  const Outcome r = run(config(3, 2), random_scripts(5, 6), {dsm::Homes::Kind::kCluster, ClusterId(2)},
                        [&](const MessageReport& m) { ++traced[m.to.value()]; });
  ASSERT_TRUE(r.figures.ok());
  EXPECT_EQ(r.figures->received, traced);
  std::uint64_t received = 0, sent = 0;
  for (const std::uint64_t of_one : r.figures->received) received += of_one;
  for (const NodeFigures& node : r.figures->nodes) sent += node.messages;
  EXPECT_EQ(received, r.figures->messages.count);
  EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(received), 8) << "but for those at the ends";
}

TEST(Machine, MessagesDelayComputingNodes) {
  // Cluster 1 keeps the pages that cluster 0 asks for one after the other.
  Script asks;
  for (std::uint32_t page = 0; page < 8; ++page) {
    asks.push_back(read_word(page * 4096));
    asks.push_back(compute(20'000));
  }
  const Outcome r = run(config(2, 1), {asks, {compute(400'000)}}, {dsm::Homes::Kind::kCluster, ClusterId(1)});
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  const NodeFigures& held = r.figures->nodes[1];
  EXPECT_GE(held.held_up, model().time(8 * 150)) << "a handler for each of eight requests at least";
  EXPECT_LE(held.held_up, held.handling);
  EXPECT_NEAR(model().cycles(held.computing - held.held_up), 400'000, 8) << "rounded once for each";
}

// --- Two nodes write to one page

// One writes and makes it visible again and again, the other one wants to write once, at `offset`; all that
// it takes to open a page for writing costs `twin` and as much for the bytes.
struct Sharing {
  unsigned compute;         // nodes of each of three clusters
  unsigned writer, wanter;  // compute nodes of the machine
  unsigned home;
};

void expect_one_fault_for_each_access(const Sharing& s, double twin, std::int64_t offset) {
  constexpr unsigned kTimes = 30;
  std::vector<Script> scripts(std::size_t{3} * s.compute);
  for (unsigned i = 0; i < kTimes; ++i) {
    scripts[s.writer].push_back(add_word(0, 1));
    scripts[s.writer].push_back(call({.op = dsm::SyncOp::kWordAdd, .id = 0, .first = 1, .releases = true}));
  }
  scripts[s.wanter] = {compute(20'000 + offset), write_word(8, 77)};
  for (Script& script : scripts) {
    for (const Act& act : {barrier(), read_word(0), read_word(8)}) script.push_back(act);
  }
  settings::CostModel costs = model();
  costs.twin = twin;
  costs.page_byte = twin / static_cast<double>(dsm::kPageBytes);
  const Outcome r =
      run(config(3, s.compute), scripts,
          {dsm::Homes::Kind::kCluster, ClusterId(static_cast<std::uint16_t>(s.home))}, {}, costs);
  ASSERT_TRUE(r.figures.ok()) << r.figures.error().text;
  for (unsigned n = 0; n < 3 * s.compute; ++n) {
    const ScriptedShell& shell = *r.shells[n / s.compute];
    EXPECT_LE(shell.max_faults(), 1u) << "cluster " << n / s.compute;
    EXPECT_EQ(shell.read_by(n % s.compute), (std::vector<std::uint64_t>{kTimes, 77}));
  }
}

// However long opening a page takes, and whenever somebody else's changes close it.
TEST(FalseSharing, OpenedPageStaysOpenUntilItsAccessIsMade) {
  for (const Sharing s : {Sharing{1, 0, 1, 2}, Sharing{1, 0, 1, 0}, Sharing{1, 0, 1, 1}, Sharing{2, 0, 2, 2},
                          Sharing{2, 0, 1, 0}, Sharing{2, 0, 1, 1}, Sharing{2, 1, 0, 2}}) {
    for (double twin = 200; twin < 20'000; twin *= 4) {
      for (std::int64_t offset = 0; offset < 16'000; offset += 3'100) {
        SCOPED_TRACE(fmt::format("{} nodes each, {} writes, {} wants to, home {}, twin {}, offset {}",
                                 s.compute, s.writer, s.wanter, s.home, twin, offset));
        expect_one_fault_for_each_access(s, twin, offset);
        if (HasFailure()) return;
      }
    }
  }
}

// All words in two pages, each under a lock of its own.
TEST(FalseSharing, WindowsAndStrictOrderGiveTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Prng random(seed);
    std::vector<Script> scripts(6);
    std::vector<std::uint64_t> sums(16);
    for (Script& s : scripts) {
      for (int i = 0; i < 12; ++i) {
        const auto word = static_cast<std::uint32_t>(random.below(16));
        const std::uint64_t added = 1 + random.below(100);
        sums[word] += added;
        for (const Act& act : {compute(static_cast<std::int64_t>(random.below(2000))), lock(word),
                               add_word(word / 8 * 4096 + 8 * word, added), unlock(word)})
          s.push_back(act);
      }
      s.push_back(barrier());
      for (std::uint32_t word = 0; word < 16; ++word) s.push_back(read_word(word / 8 * 4096 + 8 * word));
    }
    settings::CostModel costs = model();
    costs.twin = 5000;
    MachineConfig c = config(3, 2, 2);
    const Outcome windows = run(c, scripts, {dsm::Homes::Kind::kCyclic, {}}, {}, costs);
    c.strict = true;
    const Outcome strict = run(c, scripts, {dsm::Homes::Kind::kCyclic, {}}, {}, costs);
    ASSERT_TRUE(windows.figures.ok() && strict.figures.ok()) << "seed " << seed;
    EXPECT_EQ(windows.figures->trace_hash, strict.figures->trace_hash) << "seed " << seed;
    for (unsigned k = 0; k < 3; ++k) {
      EXPECT_EQ(windows.shells[k]->read_by(0), sums) << "seed " << seed;
      EXPECT_EQ(strict.shells[k]->read_by(1), sums) << "seed " << seed;
      EXPECT_LE(windows.shells[k]->max_faults(), 1u) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace braid::sim
