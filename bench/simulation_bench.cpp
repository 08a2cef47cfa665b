// How fast the simulated ICCS is, the programs left out: the time of one core that a message of 64 bytes
// takes, with all its events (frames, acknowledgements, credits, timers), and the memory that a cluster
// takes.
//
// `ring`: every cluster sends to the next one, `all`: to all others in turn; eight messages of each are on
// their way at once.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "sim/iccs.h"

namespace braid::sim {
namespace {

constexpr int kInFlight = 8;  // of each cluster

enum class Traffic { kRing, kAll };

// Every cluster sends the next message when one has arrived there.
class Everybody final : public Iccs::Sink {
 public:
  Everybody(std::uint16_t clusters, Traffic traffic)
      : clusters_(clusters), traffic_(traffic), last_(clusters) {}
  Iccs* iccs = nullptr;
  std::uint64_t delivered = 0;
  Handled on_message(Instant now, ClusterId at, ClusterId, ByteView) override {
    ++delivered;
    send(now, at);
    return {now, 0};
  }
  void on_room(Instant now, ClusterId at) override { send(now, at); }
  void on_delivered(const MessageReport&) override {}
  void on_lost(Instant, ClusterId, ClusterId, const char*) override {}
  void send(Instant now, ClusterId from) {
    unsigned& last = last_[from.value()];
    const unsigned step = traffic_ == Traffic::kRing ? 1 : 1 + last++ % (clusters_ - 1u);
    const ClusterId to(static_cast<std::uint16_t>((from.value() + step) % clusters_));
    (void)iccs->send(now, from, 0, to, message_);
  }

 private:
  const std::uint16_t clusters_;
  const Traffic traffic_;
  std::vector<unsigned> last_;
  const std::vector<std::byte> message_ = std::vector<std::byte>(64);
};

double resident_mb() {
  long pages = 0, resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

IccsConfig config_of(std::uint16_t clusters) {
  IccsConfig config;
  config.clusters = clusters;
  config.proxies = 2;
  config.transport.congestion = stack::CongestionControl::kNone;
  config.transport.min_rto_us = 20'000;
  config.transport.max_rto_us = 1'000'000;
  return config;
}

// A machine in flight.
struct Running {
  Running(const settings::CostModel& model, std::uint16_t clusters, Traffic traffic)
      : events(clusters), everybody(clusters, traffic), iccs(config_of(clusters), model, events, everybody) {
    everybody.iccs = &iccs;
    CHECK(iccs.establish().ok());
    for (int i = 0; i < kInFlight; ++i)
      for (std::uint16_t k = 0; k < clusters; ++k) everybody.send(events.now(), ClusterId(k));
    run(1000);
  }
  void run(std::uint64_t messages) {
    for (const std::uint64_t until = everybody.delivered + messages; everybody.delivered < until;)
      iccs.on_event(events.pop());
  }
  Events events;
  Everybody everybody;
  Iccs iccs;
};

void messages(benchmark::State& state, Traffic traffic) {
  const Result<settings::CostModel> model = settings::CostModel::load(BRAID_MODELS "/alewife-1997.yaml");
  if (!model) return state.SkipWithError(model.error().text.c_str());
  const auto clusters = static_cast<std::uint16_t>(state.range(0));
  Running machine(*model, clusters, traffic);
  const std::uint64_t happened = machine.events.happened();
  const std::uint64_t delivered = machine.everybody.delivered;
  const Instant began = machine.events.now();
  for (auto _ : state) machine.run(1);
  const auto count = static_cast<double>(machine.everybody.delivered - delivered);
  state.counters["events_each"] = static_cast<double>(machine.events.happened() - happened) / count;
  state.counters["virtual_us_each"] = (machine.events.now() - began).us() / count * clusters;
}
BENCHMARK_CAPTURE(messages, ring, Traffic::kRing)->Arg(2)->Arg(4)->Arg(16)->Arg(64)->ArgName("clusters");
BENCHMARK_CAPTURE(messages, all, Traffic::kAll)->Arg(2)->Arg(4)->Arg(16)->Arg(64)->ArgName("clusters");

// --memory CLUSTERS: what a cluster takes after so many messages of all to all that each pair has had some.
int print_memory(std::uint16_t clusters) {
  const Result<settings::CostModel> model = settings::CostModel::load(BRAID_MODELS "/alewife-1997.yaml");
  if (!model) return 1;
  const double before = resident_mb();
  Running machine(*model, clusters, Traffic::kAll);
  machine.run(std::uint64_t{100} * clusters * clusters);
  std::printf("%u clusters: %.2f MB each\n", clusters, (resident_mb() - before) / clusters);
  return 0;
}

// --loop ring|all CLUSTERS MESSAGES: for callgrind; the difference of two lengths is free of set-up.
int run_loop(std::string_view traffic, std::uint16_t clusters, int messages) {
  const Result<settings::CostModel> model = settings::CostModel::load(BRAID_MODELS "/alewife-1997.yaml");
  if (!model) return 1;
  Running machine(*model, clusters, traffic == "ring" ? Traffic::kRing : Traffic::kAll);
  machine.run(static_cast<std::uint64_t>(messages));
  return 0;
}

}  // namespace
}  // namespace braid::sim

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--memory")
    return braid::sim::print_memory(static_cast<std::uint16_t>(std::atoi(argv[2])));
  if (argc == 5 && std::string_view(argv[1]) == "--loop")
    return braid::sim::run_loop(argv[2], static_cast<std::uint16_t>(std::atoi(argv[3])), std::atoi(argv[4]));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
