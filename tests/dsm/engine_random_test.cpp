// Random programs over engines whose messages arrive in any order. A schedule chooses the next event: a
// node's step, the sending or the arrival of a message. The seed determines all of it.
//
//   BRAID_ENGINE_SEED=n     runs that seed alone and prints its events
//   BRAID_ENGINE_SEEDS=n    runs seeds 1 .. n
//
// Most machines have two to four clusters, so that seeds find what few messages can do wrong; those of ManyClusters have
// more than a set of clusters or a node of a tree holds without bits and children.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "engine_machine.h"
#include "random_program.h"

namespace braid::dsm {
namespace {

// AddressSanitizer makes them ten times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kSeeds = 500;
constexpr std::uint64_t kSeedsOfMany = 10;
#else
constexpr std::uint64_t kSeeds = 8000;
constexpr std::uint64_t kSeedsOfMany = 120;
#endif
// Measured: 9,000 at most; more is a machine that is stuck. A hundred clusters that try a word take a few millions.
constexpr std::uint32_t kMaxSteps = 2'000'000, kMaxStepsOfMany = 40'000'000;

void print_event(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
}

enum class Clusters { kFew, kMany };

constexpr Duration kTurn = 2_ns;

EngineConfig draw_config(Prng& random, Clusters clusters) {
  EngineConfig config = RandomProgram::draw_config(random);
  const std::size_t longest = clusters == Clusters::kFew ? PageLength::kMostBytes : 2048;
  if (random.chance(0.3)) {
    const auto log2 = static_cast<std::uint64_t>(std::countr_zero(longest / PageLength::kLeastBytes));
    config.page_length = PageLength(PageLength::kLeastBytes << random.below(log2 + 1));
    config.addresses = config.pages * addresses_per_page(config.page_length);
  }
  if (clusters == Clusters::kFew) return config;
  config.clusters =
      static_cast<std::uint16_t>(random.chance(0.1) ? 65 + random.below(70) : 5 + random.below(20));
  config.compute_nodes = 1;
  return config;
}

class AnyOrder final : private ProgramMachine {
 public:
  AnyOrder(std::uint64_t seed, bool verbose, Clusters clusters)
      : random_(seed),
        told_(verbose),
        config_(draw_config(random_, clusters)),
        check_each_(clusters == Clusters::kFew ? 4 : 16 * config_.clusters),
        machine_(config_),
        program_(Prng(random_.next()), config_, *this, verbose ? print_event : RandomProgram::Tell()) {
    // Some schedules hold messages back, some deliver at once.
    step_weight_ = 1 + static_cast<std::uint32_t>(random_.below(8));
    send_weight_ = 1 + static_cast<std::uint32_t>(random_.below(8));
    arrive_weight_ = 1 + static_cast<std::uint32_t>(random_.below(8));
    // And some delay one kind of message, or all messages to one cluster, so that many others overtake them.
    if (random_.chance(0.6)) slow_kind_ = static_cast<std::uint32_t>(1 + random_.below(kKinds - 1));
    if (random_.chance(0.2)) slow_to_ = static_cast<std::uint32_t>(random_.below(config_.clusters));
  }

  // The failure, if there was one.
  std::optional<std::string> run() {
    std::uint32_t steps = 0;
    while (!program_.finished() && !program_.failure()) {
      if (++steps > (config_.clusters <= 4 ? kMaxSteps : kMaxStepsOfMany))
        return "stuck:" + program_.unfinished() + "\non the wire " + machine_.on_wire();
      turn();
      if (steps % check_each_ == 0) machine_.check();
    }
    while (!program_.failure() && !idle()) turn();  // what is still in flight
    if (program_.failure()) return program_.failure();
    machine_.check();
    if (!machine_.quiet()) return "not quiet at the end";
    if (machine_.bad_messages() != 0) return "an engine refused a message of another engine";
    return std::nullopt;
  }

 private:
  Engine& engine(std::uint16_t cluster) override { return machine_.engine(cluster); }
  bool may(std::uint16_t cluster, std::size_t address, Access wanted) const override {
    return machine_.may(cluster, address, wanted);
  }
  std::uint8_t peek(std::uint16_t cluster, std::size_t address) override {
    return machine_.peek(cluster, address);
  }
  void poke(std::uint16_t cluster, std::size_t address, std::uint8_t value) override {
    machine_.poke(cluster, address, value);
  }

  bool idle() {
    for (std::uint16_t c = 0; c < config_.clusters; ++c)
      if (!machine_.engine(c).output_clusters().empty()) return false;
    return machine_.wire.empty();
  }

  // Any cluster of a small machine; of a large one, one for which there is output, if there is any.
  std::uint16_t any_destination(std::uint16_t from) {
    if (config_.clusters <= 4) return static_cast<std::uint16_t>(random_.below(config_.clusters));
    const ClusterBits& ready = machine_.engine(from).output_clusters();
    if (ready.empty()) return from;
    std::uint64_t skipped = random_.below(ready.size());
    std::uint16_t to = from;
    ready.for_each([&](ClusterId c) {
      if (skipped-- == 0) to = c.value();
    });
    return to;
  }

  void turn() {
    ++turns_;
    const std::uint64_t choice = random_.below(step_weight_ + send_weight_ + arrive_weight_);
    if (choice < step_weight_) {
      program_.step(random_.below(program_.nodes()));
    } else if (choice < step_weight_ + send_weight_) {
      const auto from = static_cast<std::uint16_t>(random_.below(config_.clusters));
      const auto to = any_destination(from);
      if (from != to && machine_.transmit(from, to) && told_) tell("sent", machine_.wire.back());
    } else if (!machine_.wire.empty()) {
      const std::size_t i = random_.below(machine_.wire.size());
      const InFlight& m = machine_.wire[i];
      const bool slow = static_cast<std::uint32_t>(m.kind()) == slow_kind_ || m.to == slow_to_;
      if (slow && random_.chance(0.95)) return;
      if (told_) tell("arrives", m);
      machine_.engine(m.to).set_time(Instant::from_ns(turns_ * kTurn.ns()));
      machine_.deliver(i);
    }
  }
  void tell(const char* what, const InFlight& m) {
    print_event(fmt::format("{} -> {}: kind {} id {} number {} {}", m.from, m.to, static_cast<int>(m.kind()),
                            m.id(), m.number(), what));
  }

  Prng random_;
  const bool told_;
  const EngineConfig config_;
  const std::uint32_t check_each_;
  EngineMachine machine_;
  RandomProgram program_;
  std::uint32_t step_weight_ = 1, send_weight_ = 1, arrive_weight_ = 1;
  std::uint32_t slow_kind_ = 0;
  std::uint32_t slow_to_ = ~0U;
  std::int64_t turns_ = 0;
};

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

std::uint64_t running_seed = 0;

std::string replay() {
  return fmt::format("replay: BRAID_ENGINE_SEED={} dsm_engine_random_test --gtest_filter='EngineRandom.{}'",
                     running_seed, testing::UnitTest::GetInstance()->current_test_info()->name());
}

// A failed CHECK ends the process: it must say which seed that was.
void name_the_seed(int) {
  std::fprintf(stderr, "%s\n", replay().c_str());
}

void run_seeds(Clusters clusters, std::uint64_t seeds) {
  const auto one = from_environment("BRAID_ENGINE_SEED");
  const std::uint64_t last = one ? *one : from_environment("BRAID_ENGINE_SEEDS").value_or(seeds);
  std::signal(SIGABRT, name_the_seed);
  for (std::uint64_t seed = one.value_or(1); seed <= last; ++seed) {
    running_seed = seed;
    AnyOrder schedule(seed, one.has_value(), clusters);
    const auto failure = schedule.run();
    ASSERT_FALSE(failure || testing::Test::HasFailure()) << failure.value_or("see above") << "\n" << replay();
  }
}

TEST(EngineRandom, RaceFreeProgramsReadTheLastWriteInAnyMessageOrder) {
  run_seeds(Clusters::kFew, kSeeds);
}

TEST(EngineRandom, RaceFreeProgramsOfManyClustersReadTheLastWrite) {
  run_seeds(Clusters::kMany, kSeedsOfMany);
}

}  // namespace
}  // namespace braid::dsm
