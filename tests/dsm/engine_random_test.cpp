// Random programs over engines whose messages arrive in any order. A schedule chooses the next event: a
// node's step, the sending or the arrival of a message. The seed determines all of it.
//
//   BRAID_ENGINE_SEED=n     runs that seed alone and prints its events
//   BRAID_ENGINE_SEEDS=n    runs seeds 1 .. n
#include <fmt/core.h>
#include <gtest/gtest.h>

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
#else
constexpr std::uint64_t kSeeds = 8000;
#endif
constexpr std::uint32_t kMaxSteps = 2'000'000;  // measured: 9,000 at most; more is a machine that is stuck

void print_event(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
}

class AnyOrder final : private ProgramMachine {
 public:
  AnyOrder(std::uint64_t seed, bool verbose)
      : random_(seed),
        told_(verbose),
        config_(RandomProgram::draw_config(random_)),
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
      if (++steps > kMaxSteps)
        return "stuck:" + program_.unfinished() + "\non the wire " + machine_.on_wire();
      turn();
      if (steps % 4 == 0) machine_.check();
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
      if (machine_.engine(c).output_clusters() != 0) return false;
    return machine_.wire.empty();
  }

  void turn() {
    const std::uint64_t choice = random_.below(step_weight_ + send_weight_ + arrive_weight_);
    if (choice < step_weight_) {
      program_.step(random_.below(program_.nodes()));
    } else if (choice < step_weight_ + send_weight_) {
      const auto from = static_cast<std::uint16_t>(random_.below(config_.clusters));
      const auto to = static_cast<std::uint16_t>(random_.below(config_.clusters));
      if (from != to && machine_.transmit(from, to) && told_) tell("sent", machine_.wire.back());
    } else if (!machine_.wire.empty()) {
      const std::size_t i = random_.below(machine_.wire.size());
      const InFlight& m = machine_.wire[i];
      const bool slow = static_cast<std::uint32_t>(m.kind()) == slow_kind_ || m.to == slow_to_;
      if (slow && random_.chance(0.95)) return;
      if (told_) tell("arrives", m);
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
  EngineMachine machine_;
  RandomProgram program_;
  std::uint32_t step_weight_ = 1, send_weight_ = 1, arrive_weight_ = 1;
  std::uint32_t slow_kind_ = 0;
  std::uint32_t slow_to_ = ~0U;
};

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

std::uint64_t running_seed = 0;

std::string replay() {
  return fmt::format("replay: BRAID_ENGINE_SEED={} dsm_engine_random_test --gtest_filter='EngineRandom.*'",
                     running_seed);
}

// A failed CHECK ends the process: it must say which seed that was.
void name_the_seed(int) {
  std::fprintf(stderr, "%s\n", replay().c_str());
}

TEST(EngineRandom, RaceFreeProgramsReadTheLastWriteInAnyMessageOrder) {
  const auto one = from_environment("BRAID_ENGINE_SEED");
  const std::uint64_t last = one ? *one : from_environment("BRAID_ENGINE_SEEDS").value_or(kSeeds);
  std::signal(SIGABRT, name_the_seed);
  for (std::uint64_t seed = one.value_or(1); seed <= last; ++seed) {
    running_seed = seed;
    AnyOrder schedule(seed, one.has_value());
    const auto failure = schedule.run();
    ASSERT_FALSE(failure || HasFailure()) << failure.value_or("see above") << "\n" << replay();
  }
}

}  // namespace
}  // namespace braid::dsm
