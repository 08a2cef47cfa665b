#include "sim/virtual_node.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/check.h"
#include "sim/virtual_config.h"
#include "sim/virtual_service.h"

namespace braid::sim {

namespace {

constexpr PortId kPort{1};
constexpr std::uint32_t kSendBytes = 256u << 10;
// Few, so that the ring stays in the host's caches; a full ring makes its sender wait.
constexpr std::uint32_t kSendDescriptors = 256;
// Arrivals are taken as soon as their stages end, so there are never many.
constexpr std::uint32_t kArrivalDescriptors = 1024;

proxy::NodeConfig node_config(const VirtualNodesConfig& config, unsigned cluster) {
  VirtualClusters clusters;
  clusters.proxies.assign(config.clusters, config.proxies);
  clusters.nis = config.nis;
  clusters.transport = config.transport;
  proxy::NodeConfig n = virtual_node_config(clusters, cluster);
  n.seed = config.seed * 1'000'003 + cluster * 64 + 1;
  n.channel.max_ports = std::bit_ceil(std::max<std::uint32_t>(256, 4u * config.clusters));
  n.channel.send_descriptors = kSendDescriptors;
  n.channel.arrival_descriptors = kArrivalDescriptors;
  return n;
}

// The set-up of a simulated node cannot fail for outside reasons.
template <class T>
T must(Result<T> result) {
  if (!result) check_failed(__FILE__, __LINE__, "set-up in virtual time", result.error().text);
  return std::move(result).value();
}

}  // namespace

// The client's access to its node's control plane. It can make all requests first and take the answers later.
class VirtualNode::Service final : public VirtualService {
 public:
  explicit Service(VirtualNode& owner) : VirtualService(*owner.node_), owner_(owner) {}

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override {
    if (request.kind != proxy::control::Kind::kConnect) return VirtualService::call(request, timeout, fd);
    const auto asked = asked_.find(request.connect.cluster);
    CHECK(asked != asked_.end());
    return wait_for(asked->second, timeout, fd);
  }
  int turn() override { return 0; }  // only the driver lets time pass
  Instant now() override { return owner_.driver_.clock(); }

  // Requests a connection; call() returns the answer when the client later makes the same request.
  void ask_for(unsigned cluster, const proxy::ConnectionOptions& options) {
    proxy::control::Message request;
    request.kind = proxy::control::Kind::kConnect;
    request.connect = {cluster,
                       kPort.value(),
                       0,
                       options.window_bytes,
                       options.ordered ? 1u : 0u,
                       static_cast<std::uint32_t>(kSetUpLimit.ns() / 1'000'000),
                       options.protocol.value()};
    asked_[cluster] = post(request);
    unanswered_.push_back(asked_[cluster]);
  }
  bool has_answer_of(ClusterId cluster) { return has_answer(asked_.at(cluster.value())); }
  bool has_answers() {
    while (!unanswered_.empty() && has_answer(unanswered_.back())) unanswered_.pop_back();
    return unanswered_.empty();
  }

 private:
  proxy::Node* node() override { return owner_.node_.get(); }
  void on_posted() override { owner_.driver_.asked(); }
  bool step() override {
    owner_.driver_.step();
    return true;
  }

  VirtualNode& owner_;
  std::map<std::uint32_t, std::uint32_t> asked_;  // by cluster: the serial number of the request
  std::vector<std::uint32_t> unanswered_;         // serial numbers; some may have been answered since
};

VirtualNode::VirtualNode(const VirtualNodesConfig& config, unsigned cluster, Instant now, Driver driver,
                         const proxy::Node::MakeQueue& make_queue)
    : config_(config), cluster_(cluster), driver_(std::move(driver)), connections_(config.clusters) {
  proxy::NodeSurroundings surroundings;
  surroundings.make_queue = make_queue;
  surroundings.make_region = proxy::make_plain_region;
  node_ = must(proxy::Node::create(node_config(config, cluster), now, surroundings));
}

VirtualNode::~VirtualNode() = default;

namespace {

bool at_first_use(const VirtualNodesConfig& config) {
  return settings::connects_at_first_use(config.transport, config.clusters);
}

// Room for a window of each connection; of two with each cluster where both may request one.
std::uint32_t receive_bytes(const VirtualNodesConfig& config) {
  const std::uint64_t windows = (at_first_use(config) ? 2u : 1u) * (config.clusters - 1u);
  return static_cast<std::uint32_t>(std::min(config.window_bytes * windows, proxy::kMaxReceiveBytes));
}

proxy::ConnectionOptions connection_options(const VirtualNodesConfig& config) {
  proxy::ConnectionOptions options;
  options.ordered = false;  // as the page protocol requires
  options.protocol = stack::kSharedMemory;
  options.window_bytes = config.window_bytes;
  options.dispatch = config.dispatch;
  return options;
}

}  // namespace

bool VirtualNode::connects_at_first_use() const {
  return at_first_use(config_);
}

void VirtualNode::attach() {
  auto service = std::make_unique<Service>(*this);
  service_ = service.get();
  proxy::ClientOptions options;
  options.receive_bytes = receive_bytes(config_);
  options.send_bytes = kSendBytes;
  client_ = must(proxy::Client::attach(std::move(service), options));
  const Result<void> listening = endpoint().listen(kPort, connection_options(config_));
  if (!listening) check_failed(__FILE__, __LINE__, "listen", listening.error().text);
}

void VirtualNode::ask_for_connections() {
  for (unsigned k = 0; k < cluster_; ++k) service_->ask_for(k, connection_options(config_));
}

bool VirtualNode::has_answers() const {
  return service_->has_answers();
}

Result<void> VirtualNode::take_connections() {
  for (std::uint16_t k = 0; k < cluster_; ++k) {
    const Result<proxy::Connection*> made =
        endpoint().connect(ClusterId(k), kPort, connection_options(config_), kSetUpLimit);
    if (!made) return error("cluster {}: {}", cluster_, made.error().text);
    connections_[k] = *made;
  }
  return {};
}

Result<void> VirtualNode::accept_connections() {
  for (unsigned left = config_.clusters - 1u - cluster_; left > 0; --left) {
    const Result<proxy::Connection*> accepted = endpoint().accept(kSetUpLimit);
    if (!accepted) return error("cluster {}: {}", cluster_, accepted.error().text);
    connections_[(*accepted)->peer().value()] = *accepted;
  }
  return {};
}

proxy::Connection* VirtualNode::connection(ClusterId to) {
  if (proxy::Connection* const made = connections_[to.value()]) return made;
  if (std::find(requested_.begin(), requested_.end(), to) == requested_.end()) {
    requested_.push_back(to);
    service_->ask_for(to.value(), connection_options(config_));
  }
  return nullptr;
}

bool VirtualNode::take_new_connections() {
  if (client_ == nullptr || !at_first_use(config_)) return false;
  bool any = false;
  const auto take = [&](ClusterId peer, proxy::Connection* made) {
    proxy::Connection*& way = connections_[peer.value()];
    if (way != nullptr) return;
    way = made;
    any = true;
  };
  while (proxy::Connection* const accepted = endpoint().try_accept()) take(accepted->peer(), accepted);
  std::erase_if(requested_, [&](ClusterId to) {
    if (!service_->has_answer_of(to)) return false;
    const Result<proxy::Connection*> made =
        endpoint().connect(to, kPort, connection_options(config_), kSetUpLimit);
    if (made)
      take(to, *made);
    else if (connections_[to.value()] == nullptr)
      refused_ = Lost{to, made.error().text};
    return true;
  });
  return any;
}

std::optional<VirtualNode::Lost> VirtualNode::lost() const {
  if (refused_) return refused_;
  for (std::uint16_t k = 0; k < connections_.size(); ++k) {
    const proxy::Connection* const to = connections_[k];
    if (to != nullptr && to->state() != proxy::ConnectionState::kOpen)
      return Lost{ClusterId(k), std::string(proxy::to_string(to->state()))};
  }
  return {};
}

Result<void> connect_all(std::span<const std::unique_ptr<VirtualNode>> nodes,
                         const std::function<Instant()>& clock, const std::function<void()>& step) {
  const auto all = [&](const char* what, auto&& done) -> Result<void> {
    const Instant deadline = clock() + kSetUpLimit;
    // A node that is done stays done, so the ones before this one are not asked again.
    for (std::size_t k = 0; k < nodes.size();) {
      if (done(*nodes[k]))
        ++k;
      else if (clock() < deadline)
        step();
      else
        return error("cluster {} {} within {:.0f} s of virtual time", k, what, kSetUpLimit.s());
    }
    return {};
  };
  if (!nodes.empty() && nodes[0]->connects_at_first_use()) {
    for (const auto& node : nodes) node->attach();
    return {};
  }
  Result<void> done = all("did not reach all others", [](VirtualNode& n) { return n.node().ready(); });
  if (!done) return done;
  for (const auto& node : nodes) node->attach();
  for (const auto& node : nodes) node->ask_for_connections();
  done = all("got no answers", [](VirtualNode& n) { return n.has_answers(); });
  for (std::size_t k = 0; done && k < nodes.size(); ++k) done = nodes[k]->take_connections();
  for (std::size_t k = 0; done && k < nodes.size(); ++k) done = nodes[k]->accept_connections();
  return done;
}

}  // namespace braid::sim
