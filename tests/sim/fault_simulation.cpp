// The seeded fault simulation as a program: many worlds, one world, one world as a trace, and a failing world
// made smaller.
//
//     fault_simulation --seeds 3000 --jobs 2        worlds 1 to 3000; stops at the first that misbehaves
//     fault_simulation --shared-memory --seeds 2000 worlds in which a random shared-memory program runs
//     fault_simulation --seed 17 --trace            one world, every event as a line
//     fault_simulation --seed 17 --shrink           the smallest world that still fails
//     fault_simulation --hours 8 --jobs 2           new seeds until the time is over
//     fault_simulation_mutants --prove              which mutants are caught, within how many worlds
//
// Exit status: 0 all behaved, 1 one did not, 2 wrong options.
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutant.h"
#include "tests/sim/world.h"
#include "tests/sim/world_config.h"

namespace braid::sim {
namespace {

// A world that takes longer never ends: the slowest take seconds, under sanitizers half a minute.
constexpr unsigned kMaxSecondsPerWorld = 120;

struct Options {
  std::uint64_t seed = 0;
  std::uint64_t seeds = 100;
  std::uint64_t first = 1;
  unsigned jobs = 1;
  double hours = 0;
  bool trace = false;
  bool shrink = false;
  std::vector<std::string> settings;
};

// Counters that the processes of a run share.
struct Totals {
  std::atomic<std::uint64_t> next_seed;
  std::atomic<std::uint64_t> seeds;
  std::atomic<std::uint64_t> events;
  std::atomic<std::uint64_t> virtual_ns;
  std::atomic<std::uint64_t> messages;
  std::atomic<std::uint64_t> connections;
  std::atomic<std::uint64_t> datagrams;
  std::atomic<std::uint64_t> datagrams_returned;
  std::atomic<std::uint64_t> peers_lost;
  std::atomic<std::uint64_t> retransmissions;
  std::atomic<std::uint64_t> trains_sent;
  std::atomic<std::uint64_t> trains_received;
  std::atomic<std::uint64_t> paths_fenced;
  std::atomic<std::uint64_t> proxies_fenced;
  std::atomic<std::uint64_t> programs;
  std::atomic<std::uint64_t> frames;
  std::atomic<std::uint64_t> frames_harmed;
  std::atomic<std::uint64_t> failed_seed;  // 0: none
};

std::string g_program;
bool g_shared_memory = false;  // which worlds seeds draw
std::string g_mutant;          // the name of the one that is switched on
// The text to print when a check of the production code stops the process in the middle of a world.
char g_replay[4096];

std::string replay_command(std::uint64_t seed, const std::vector<std::string>& settings) {
  std::string command =
      fmt::format("{}{} --seed {}", g_program, g_shared_memory ? " --shared-memory" : "", seed);
  if (!g_mutant.empty()) command += " --mutant " + g_mutant;
  for (const std::string& s : settings) command += " --set " + s;
  return command;
}

void on_death(int signal) {
  const char* const why = signal == SIGALRM ? "it takes for ever" : "a check failed, see above";
  for (const char* part : {"FAILED: ", why, "\nreplay with: ", static_cast<const char*>(g_replay), "\n"})
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  ::signal(signal, SIG_DFL);
  ::_exit(1);
}

WorldConfig draw(std::uint64_t seed) {
  return g_shared_memory ? WorldConfig::draw_shared_memory(seed) : WorldConfig::draw(seed);
}

Result<WorldConfig> world_of(std::uint64_t seed, const std::vector<std::string>& settings) {
  WorldConfig config = draw(seed);
  for (const std::string& s : settings)
    if (const Result<void> set = config.set(s); !set) return set.error();
  if (const std::string problem = config.problem(); !problem.empty())
    return error("seed {}: {}", seed, problem);
  return config;
}

WorldResult run_world(const WorldConfig& config, const std::vector<std::string>& settings, bool trace) {
  const std::string replay = replay_command(config.seed, settings);
  std::snprintf(g_replay, sizeof g_replay, "%s", replay.c_str());
  ::alarm(kMaxSecondsPerWorld);
  FaultWorld world(config, trace);
  WorldResult result = world.run();
  ::alarm(0);
  return result;
}

void report_failure(const WorldConfig& config, const std::vector<std::string>& settings,
                    const std::string& failure) {
  fmt::print(stderr,
             "FAILED: seed {}: {}\nthe world:\n{}replay with: {}\nthen --trace shows every event, --shrink "
             "makes the world smaller\n",
             config.seed, failure, config.describe(), replay_command(config.seed, settings));
}

int run_one(const Options& o) {
  const Result<WorldConfig> config = world_of(o.seed, o.settings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().text);
    return 2;
  }
  if (o.trace) fmt::print("{}", config.value().describe());
  const WorldResult r = run_world(config.value(), o.settings, o.trace);
  fmt::print(
      "seed {}: {} events in {:.3f} s of virtual time, {} messages, {} ends of connections, trace {:016x}\n",
      o.seed, r.events, r.virtual_time.s(), r.messages, r.connections, r.trace_hash);
  if (r.failure.empty()) return 0;
  report_failure(config.value(), o.settings, r.failure);
  return 1;
}

// ---------------------------------------------------------------- many

void add(Totals& totals, const WorldResult& r) {
  totals.seeds += 1;
  totals.events += r.events;
  totals.virtual_ns += static_cast<std::uint64_t>(r.virtual_time.ns());
  totals.messages += r.messages;
  totals.connections += r.connections;
  totals.datagrams += r.datagrams;
  totals.datagrams_returned += r.datagrams_returned;
  totals.peers_lost += r.peers_lost;
  totals.retransmissions += r.retransmissions;
  totals.trains_sent += r.trains_sent;
  totals.trains_received += r.trains_received;
  totals.paths_fenced += r.paths_fenced;
  totals.proxies_fenced += r.proxies_fenced;
  totals.programs += r.programs;
  totals.frames += r.network.offered;
  totals.frames_harmed += r.network.lost + r.network.cut + r.network.duplicated + r.network.delayed +
                          r.network.corrupted + r.network.queue_full + r.network.ring_full;
}

// One process of a run: takes seeds until there are none, one fails, or the time is over.
int work(const Options& o, Totals& totals, Instant deadline) {
  while (totals.failed_seed == 0 && (o.hours <= 0 || monotonic_now() < deadline)) {
    const std::uint64_t seed = totals.next_seed++;
    if (o.hours <= 0 && seed >= o.first + o.seeds) return 0;
    const Result<WorldConfig> config = world_of(seed, o.settings);
    if (!config) {
      fmt::print(stderr, "{}\n", config.error().text);
      return 2;
    }
    const WorldResult r = run_world(config.value(), o.settings, false);
    add(totals, r);
    if (!r.failure.empty()) {
      std::uint64_t none = 0;
      if (totals.failed_seed.compare_exchange_strong(none, seed))
        report_failure(config.value(), o.settings, r.failure);
      return 1;
    }
  }
  return 0;
}

void print_totals(const Totals& t, Instant began, const char* what) {
  const double seconds = std::max((monotonic_now() - began).s(), 1e-9);
  fmt::print(
      "{}: {} seeds, {:.1f} M events in {:.1f} s ({:.2f} M events/s), {:.1f} s of virtual time, {} frames of "
      "which {} were harmed, {} sent again, {} messages, {} trains of which {} were received whole, {} ends of "
      "connections, {} datagrams and {} that came back, {} peers lost, "
      "{} paths and {} proxies given up for others, {} shared-memory programs run to their end\n",
      what, t.seeds.load(), static_cast<double>(t.events) / 1e6, seconds,
      static_cast<double>(t.events) / 1e6 / seconds, static_cast<double>(t.virtual_ns) / 1e9, t.frames.load(),
      t.frames_harmed.load(), t.retransmissions.load(), t.messages.load(), t.trains_sent.load(),
      t.trains_received.load(), t.connections.load(), t.datagrams.load(), t.datagrams_returned.load(),
      t.peers_lost.load(), t.paths_fenced.load(), t.proxies_fenced.load(), t.programs.load());
  std::fflush(stdout);
}

int run_many(const Options& o) {
  void* const memory =
      ::mmap(nullptr, sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fmt::print(stderr, "no memory for the totals\n");
    return 2;
  }
  auto& totals = *new (memory) Totals{};
  totals.next_seed = o.first;
  const Instant began = monotonic_now();
  const Instant deadline = began + Duration::ns(static_cast<std::int64_t>(o.hours * 3600e9));
  std::fflush(stdout);
  std::vector<pid_t> processes;
  for (unsigned j = 0; j < o.jobs; ++j) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int status = work(o, totals, deadline);
      std::fflush(nullptr);
      ::_exit(status);
    }
    if (child > 0) processes.push_back(child);
  }
  int worst = processes.empty() ? 2 : 0;
  Instant told = began;
  while (!processes.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, o.hours > 0 ? WNOHANG : 0);
    if (ended > 0) {
      std::erase(processes, ended);
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      worst = std::max(worst, code);
      if (code != 0) {
        std::uint64_t none = 0;
        totals.failed_seed.compare_exchange_strong(none, ~std::uint64_t{0});  // the others stop too
      }
      continue;
    }
    ::usleep(200'000);
    if (monotonic_now() - told > 60_s) {
      told = monotonic_now();
      print_totals(totals, began, "so far");
    }
  }
  print_totals(totals, began, worst == 0 ? "all behaved" : "FAILED");
  return worst;
}

// ---------------------------------------------------------------- making it smaller

// Does this world fail? In a process of its own, because a failed check ends it. One whose nodes cannot start with such
// settings ends where it begins, and is no smaller form of another failure.
bool fails(const WorldConfig& config, const std::vector<std::string>& settings) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(2);
    const WorldResult r = run_world(config, settings, false);
    ::_exit(r.failure.empty() || r.virtual_time == Duration() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) == 1;
}

int shrink(const Options& o) {
  const Result<WorldConfig> begin = world_of(o.seed, o.settings);
  if (!begin) {
    fmt::print(stderr, "{}\n", begin.error().text);
    return 2;
  }
  WorldConfig world = begin.value();
  if (!fails(world, o.settings)) {
    fmt::print("seed {} does not fail\n", o.seed);
    return 0;
  }
  const WorldConfig usual;
  const WorldConfig drawn = draw(o.seed);
  unsigned tried = 0;
  const auto attempt = [&](WorldConfig smaller) {
    ++tried;
    if (!smaller.problem().empty() || !fails(smaller, smaller.differences(drawn))) return false;
    world = smaller;
    return true;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for_each_setting([&](const char* name, double WorldConfig::*member, const char*) {
      // First as if nobody had drawn it, then half of it.
      const double now = world.*member;
      const double least = usual.*member;
      const std::string setting = name;
      const bool is_size = setting == "messages" || setting == "flows" || setting == "clients" ||
                           setting == "endpoints" || setting == "fault_ms" || setting == "max_bytes" ||
                           setting == "restarts" || setting == "kills" || setting == "stops";
      WorldConfig other = world;
      if (!is_size && now != least) {
        other.*member = least;
        if (attempt(other)) {
          fmt::print("{} = {} (was {})\n", name, least, now);
          smaller = true;
        }
      } else if (is_size && now > 1) {
        const bool is_count = setting != "fault_ms" && setting != "max_bytes";
        other.*member = is_count ? static_cast<double>(static_cast<int>(now) / 2) : now / 2;
        if (attempt(other)) {
          fmt::print("{} = {} (was {})\n", name, other.*member, now);
          smaller = true;
        }
      }
      std::fflush(stdout);
    });
  }
  const std::vector<std::string> settings = world.differences(drawn);
  const WorldResult r = run_world(world, settings, false);
  fmt::print("after {} attempts the smallest world that fails:\n{}{}\n{}\nreplay with: {} --trace\n", tried,
             world.describe(), r.failure, unsigned(settings.size()) == 0 ? "(nothing could be left out)" : "",
             replay_command(o.seed, settings));
  return 1;
}

// ---------------------------------------------------------------- mutants

#ifdef BRAID_MUTANTS
struct NamedMutant {
  const char* name;
  Mutant mutant;
};
constexpr NamedMutant kMutants[] = {
    {"forget-acknowledgement", Mutant::kForgetAcknowledgement},
    {"accept-old-epoch", Mutant::kAcceptOldEpoch},
    {"misorder-after-failover", Mutant::kMisorderAfterFailover},
    {"leak-credit", Mutant::kLeakCredit},
    {"drop-tail-probe", Mutant::kDropTailProbe},
    {"believe-announcements", Mutant::kBelieveAnnouncements},
    {"forgive-all-silence", Mutant::kForgiveAllSilence},
    {"lose-train-message", Mutant::kLoseTrainMessage},
    {"repeat-train-message", Mutant::kRepeatTrainMessage},
    {"grant-too-much", Mutant::kGrantTooMuch},
    {"forget-protocol", Mutant::kForgetProtocol},
    {"confuse-protocols", Mutant::kConfuseProtocols},
    {"deliver-duplicates", Mutant::kDeliverDuplicates},
};

bool activate_mutant(const std::string& name) {
  for (const NamedMutant& p : kMutants) {
    if (name != p.name) continue;
    active_mutant = p.mutant;
    return true;
  }
  return false;
}

// Every mutant must be caught within `limit` worlds, and none of the worlds that catch one may fail without
// it.
int prove(std::uint64_t first, std::uint64_t limit) {
  int status = 0;
  for (const NamedMutant& p : kMutants) {
    active_mutant = p.mutant;
    std::uint64_t seed = first;
    while (seed < first + limit && !fails(draw(seed), {})) ++seed;
    active_mutant = Mutant::kNone;
    if (seed == first + limit) {
      fmt::print("{}: NOT caught within {} worlds\n", p.name, limit);
      status = 1;
    } else if (fails(draw(seed), {})) {
      fmt::print("{}: seed {} fails without it too, so it proves nothing\n", p.name, seed);
      status = 1;
    } else {
      fmt::print("{}: caught within {} worlds (--seed {} --mutant {})\n", p.name, seed - first + 1, seed,
                 p.name);
    }
    std::fflush(stdout);
  }
  return status;
}
#endif

}  // namespace
}  // namespace braid::sim

int main(int argc, char** argv) {
  using namespace braid::sim;
  Options o;
  CLI::App app("Runs the production stack, proxies and clients over a bad network in virtual time");
  auto* const one = app.add_option("--seed", o.seed, "one world");
  app.add_option("--seeds", o.seeds, "so many worlds");
  app.add_option("--first", o.first, "beginning with this seed")->check(CLI::PositiveNumber);
  app.add_option("--jobs", o.jobs, "processes")->check(CLI::Range(1, 256));
  app.add_option("--hours", o.hours, "new seeds for so long");
  app.add_flag("--trace", o.trace, "print every event (with --seed)")->needs(one);
  app.add_flag("--shrink", o.shrink, "look for the smallest world that fails (with --seed)")->needs(one);
  app.add_flag("--shared-memory", g_shared_memory, "worlds in which a random shared-memory program runs");
  app.add_option("--set", o.settings, "name=value: a part of the world that is not drawn");
#ifdef BRAID_MUTANTS
  bool proving = false;
  std::uint64_t limit = 1000;
  app.add_option("--mutant", g_mutant, "switch this mutant on");
  app.add_flag("--prove", proving, "see that every mutant is caught");
  app.add_option("--limit", limit, "within so many worlds (with --prove)");
#endif
  CLI11_PARSE(app, argc, argv);
  g_program = argv[0];
  ::signal(SIGABRT, on_death);
  ::signal(SIGALRM, on_death);
#ifdef BRAID_MUTANTS
  if (proving) return prove(o.first, limit);
  if (!g_mutant.empty() && !activate_mutant(g_mutant)) {
    fmt::print(stderr, "no mutant is called '{}'\n", g_mutant);
    return 2;
  }
#endif
  if (o.shrink) return shrink(o);
  return *one ? run_one(o) : run_many(o);
}
