// How fast the simulated ICCS is: protocol events (a message through one stage, or a timer) in a second of
// one core, the programs left out.
#include <benchmark/benchmark.h>

#include <vector>

#include "sim/iccs.h"

namespace braid::sim {
namespace {

// Every cluster sends to the next one as long as there is room, and again when a message has arrived.
class Everybody final : public Iccs::Sink {
 public:
  explicit Everybody(std::uint16_t clusters) : clusters_(clusters) {}
  Iccs* iccs = nullptr;
  Handled on_message(Instant now, ClusterId at, ClusterId, ByteView) override {
    send(now, at);
    return {now, 0};
  }
  void on_room(Instant now, ClusterId at, ClusterId) override { send(now, at); }
  void on_delivered(const MessageReport&) override {}
  void send(Instant now, ClusterId from) {
    const ClusterId to(static_cast<std::uint16_t>((from.value() + 1) % clusters_));
    if (iccs->may_send(from, to, static_cast<std::uint32_t>(message_.size())))
      iccs->send(now, from, 0, to, message_);
  }

 private:
  const std::uint16_t clusters_;
  const std::vector<std::byte> message_ = std::vector<std::byte>(64);
};

void events_of_clusters(benchmark::State& state) {
  const Result<CostModel> model = CostModel::load(BRAID_MODELS "/alewife-1997.yaml");
  if (!model) return state.SkipWithError(model.error().text.c_str());
  IccsConfig config;
  config.clusters = static_cast<std::uint16_t>(state.range(0));
  config.proxies = 2;
  config.sub_connection.min_rto = 20_ms;
  config.sub_connection.max_rto = 1_s;
  Events events(config.clusters);
  Everybody everybody(config.clusters);
  Iccs iccs(config, *model, events, everybody);
  everybody.iccs = &iccs;
  iccs.establish();
  constexpr int kUnderWay = 8;  // of each cluster
  for (int i = 0; i < kUnderWay; ++i)
    for (std::uint16_t k = 0; k < config.clusters; ++k) everybody.send(events.now(), ClusterId(k));
  const std::uint64_t before = events.happened();
  for (auto _ : state) iccs.on_event(events.pop());
  state.SetItemsProcessed(static_cast<std::int64_t>(events.happened() - before));
}
BENCHMARK(events_of_clusters)->Arg(2)->Arg(4)->Arg(16)->ArgName("clusters");

}  // namespace
}  // namespace braid::sim

BENCHMARK_MAIN();
