#include "tests/sim/shared_memory.h"
#include "tests/dsm/page_bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/faults.h"

namespace braid::sim {
namespace {

// Longer than a world's faults last and its nodes take to come up, by clocks that may jump by seconds, many
// times, meanwhile.
constexpr Duration kJoinTimeout = 1000_s;
constexpr std::uint32_t kWindowKib = 64;
constexpr int kMaxArrivals = 16;
constexpr unsigned kMaxSteps = 8;

}  // namespace

class SharedMemory::Arrivals final : public dsm::Network::Sink {
 public:
  Arrivals(const Stage& stage, dsm::Engine& engine) : stage_(stage), engine_(engine) {}
  void on_message(ClusterId from, ByteView message) override {
    engine_.set_time(stage_.now());
    engine_.on_message(from, message);
  }

 private:
  const Stage& stage_;
  dsm::Engine& engine_;
};

SharedMemory::SharedMemory(Stage& stage, std::uint64_t seed, Duration pace, bool told)
    : stage_(stage), random_(seed), pace_(pace), config_(dsm::RandomProgram::draw_config(random_)) {
  config_.clusters = static_cast<std::uint16_t>(stage.clusters());
  dispatch_ = random_.chance(0.5) ? convergence::Dispatch::kFixed : convergence::Dispatch::kRoundRobin;
  for (std::uint16_t c = 0; c < config_.clusters; ++c) {
    config_.cluster = ClusterId(c);
    Cluster cluster;
    cluster.memory = std::make_unique<dsm::ArrayMemory>(config_.pages);
    cluster.engine = std::make_unique<dsm::Engine>(config_, *cluster.memory);
    clusters_.push_back(std::move(cluster));
    stage_.call_at(stage_.now() + exponential(random_, pace_), c);
  }
  dsm::RandomProgram::Tell tell;
  if (told) tell = [this](const std::string& what) { stage_.tell(what); };
  program_.emplace(Prng(random_.next()), config_, static_cast<dsm::ProgramMachine&>(*this), tell);
}

SharedMemory::~SharedMemory() = default;

bool SharedMemory::may(std::uint16_t cluster, std::size_t address, dsm::Access wanted) const {
  return clusters_[cluster].memory->access(static_cast<std::uint32_t>(address / dsm::kPageBytes)) >= wanted;
}

std::uint8_t SharedMemory::peek(std::uint16_t cluster, std::size_t address) {
  CHECK(may(cluster, address, dsm::Access::kRead));
  return std::to_integer<std::uint8_t>(clusters_[cluster].memory->at(address));
}

void SharedMemory::poke(std::uint16_t cluster, std::size_t address, std::uint8_t value) {
  CHECK(may(cluster, address, dsm::Access::kWrite));
  clusters_[cluster].memory->at(address) = std::byte{value};
}

void SharedMemory::turn(unsigned cluster) {
  Cluster& c = clusters_[cluster];
  if (over_ || c.joining) return;
  if (c.network == nullptr) join(cluster);
  bool worked = false;
  if (c.network != nullptr && !over_ && complete(c)) {
    worked = take_arrivals(cluster);
    worked = step_nodes(cluster) || worked;
    worked = send(cluster) || worked;
    if (worked) stage_.wake_proxies(cluster);
    look_after(cluster);
  }
  if (over_) return;
  stage_.call_at(stage_.now() + std::max(exponential(random_, worked ? pace_ : pace_ * 8), 1_us), cluster);
}

// The way of the live runtime; while a call waits for the daemons the rest of the world goes on.
void SharedMemory::join(unsigned cluster) {
  Cluster& c = clusters_[cluster];
  dsm::Environment environment;
  environment.cluster = static_cast<std::uint16_t>(cluster);
  environment.clusters = config_.clusters;
  environment.compute = config_.compute_nodes;
  environment.dispatch = dispatch_;
  environment.window_kib = kWindowKib;
  environment.connect_timeout = kJoinTimeout;
  std::unique_ptr<proxy::Service> service = stage_.service(cluster);
  if (service == nullptr) return;  // and tries again
  c.joining = true;
  Result<std::unique_ptr<proxy::Client>> client =
      proxy::Client::attach(std::move(service), dsm::ServiceNetwork::client_options(environment));
  if (client) {
    Result<std::unique_ptr<dsm::ServiceNetwork>> network = dsm::ServiceNetwork::begin(
        std::move(client).value(), environment, stage_.now() + environment.connect_timeout);
    if (network)
      c.network = std::move(network).value();
    else
      give_up(fmt::format("cluster {} cannot join: {}", cluster, network.error().text));
  } else {
    stage_.tell(fmt::format("cluster {} cannot attach: {}", cluster, client.error().text));
  }
  c.joining = false;
}

bool SharedMemory::complete(Cluster& c) {
  if (!c.complete) {
    const Result<bool> all = c.network->complete(Duration());
    c.complete = all && all.value();
  }
  return c.complete;
}

// Where clusters may have lost each other that is an end too.
void SharedMemory::give_up(const std::string& why) {
  if (over_) return;
  bool may_lose = false;
  for (unsigned a = 0; a < config_.clusters; ++a)
    for (unsigned b = 0; b < config_.clusters; ++b) may_lose = may_lose || (a != b && stage_.may_lose(a, b));
  if (may_lose)
    stage_.tell(why);
  else
    stage_.fail(why);
  given_up_ = over_ = true;
}

bool SharedMemory::take_arrivals(unsigned cluster) {
  Cluster& c = clusters_[cluster];
  Arrivals arrivals(stage_, *c.engine);
  const int taken = c.network->poll(arrivals, kMaxArrivals);
  c.engine->check();
  return taken > 0;
}

bool SharedMemory::step_nodes(unsigned cluster) {
  bool any = false;
  for (std::uint64_t steps = random_.below(kMaxSteps + 1); steps > 0; --steps) {
    const std::size_t node = random_.below(program_->nodes());
    if (program_->cluster(node) != cluster) continue;
    program_->step(node);
    any = true;
  }
  if (program_->failure()) stage_.fail(*program_->failure());
  return any && !program_->finished();
}

bool SharedMemory::send(unsigned cluster) {
  Cluster& c = clusters_[cluster];
  bool sent = false;
  for (std::uint16_t to = 0; to < config_.clusters; ++to) {
    while (to != cluster && c.engine->has_output(ClusterId(to))) {
      const auto compute_node = static_cast<unsigned>(random_.below(config_.compute_nodes));
      const MutableBytes room = c.network->reserve(
          ClusterId(to), static_cast<std::uint32_t>(c.engine->room_wanted(ClusterId(to))), compute_node);
      if (room.empty()) break;
      const std::size_t bytes = c.engine->poll_transmit(ClusterId(to), room);
      CHECK_GT(bytes, 0u);
      c.network->commit(ClusterId(to), static_cast<std::uint32_t>(bytes));
      sent = true;
    }
  }
  c.network->flush();
  c.engine->check();
  return sent;
}

void SharedMemory::look_after(unsigned cluster) {
  for (std::uint16_t peer = 0; peer < config_.clusters && !over_; ++peer) {
    if (peer == cluster) continue;
    const char* const trouble = clusters_[cluster].network->trouble(ClusterId(peer));
    if (trouble != nullptr)
      give_up(fmt::format("cluster {} has lost cluster {}: {}", cluster, peer, trouble));
  }
  if (over_ || !program_->finished()) return;
  for (Cluster& c : clusters_)
    if (!c.engine->quiet() || !c.engine->output_clusters().empty()) return;
  end();
}

void SharedMemory::end() {
  over_ = true;
  for (std::uint16_t c = 0; c < config_.clusters; ++c) {
    const dsm::ClusterCounts& counts = clusters_[c].engine->counts();
    if (counts.bad_messages > 0)
      stage_.fail(fmt::format("cluster {} refused {} messages of honest clusters", c, counts.bad_messages));
  }
  stage_.tell("the program has ended");
}

std::string SharedMemory::unfinished() const {
  if (over_) return "";
  std::string text;
  for (unsigned c = 0; c < clusters_.size(); ++c)
    if (!clusters_[c].complete) text += fmt::format("\n  cluster {} has not joined", c);
  return text + program_->unfinished();
}

}  // namespace braid::sim
