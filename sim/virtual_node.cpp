#include "sim/virtual_node.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace braid::sim {

namespace {

constexpr PortId kPort{1};
constexpr std::uint32_t kSendBytes = 256u << 10;
// Few, so that the ring stays in the host's caches; one that is full makes its sender wait.
constexpr std::uint32_t kSendDescriptors = 256;
// Arrivals are taken as soon as their stages are over: there are never many.
constexpr std::uint32_t kArrivalDescriptors = 1024;

std::string address_of(unsigned cluster, unsigned ni) {
  return fmt::format("10.{}.{}.{}", 64 + (cluster >> 8), cluster & 0xff, ni + 1);
}
std::string mac_of(unsigned cluster, unsigned ni) {
  return fmt::format("02:62:72:{:02x}:{:02x}:{:02x}", cluster >> 8, cluster & 0xff, ni);
}

proxy::NodeConfig node_config(const VirtualNodesConfig& config, unsigned cluster) {
  proxy::NodeConfig n;
  n.cluster = static_cast<std::uint16_t>(cluster);
  n.clusters = config.clusters;
  n.proxies = config.proxies;
  n.address = address_of(cluster, 0);
  n.mac = mac_of(cluster, 0);
  n.udp_port = kUdpPortBase;
  n.seed = config.seed * 1'000'003 + cluster * 64 + 1;
  n.listen_address = "@none";  // its client is in this process
  n.channel.max_ports = std::bit_ceil(std::max<std::uint32_t>(256, 4u * config.clusters));
  n.channel.send_descriptors = kSendDescriptors;
  n.channel.arrival_descriptors = kArrivalDescriptors;
  n.transport = config.transport;
  for (unsigned ni = 0; ni < config.nis; ++ni) {
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;
    link.device = "simulated";
    link.address = address_of(cluster, ni);
    link.mac = mac_of(cluster, ni);
    n.links.push_back(link);
  }
  for (unsigned peer = 0; peer < config.clusters; ++peer) {
    if (peer == cluster) continue;
    proxy::PeerConfig p;
    p.cluster = static_cast<std::uint16_t>(peer);
    p.proxies = config.proxies;
    p.address = address_of(peer, 0);
    p.mac = mac_of(peer, 0);
    p.udp_port = kUdpPortBase;
    for (std::uint16_t ni = 1; ni < config.nis; ++ni)
      p.more_nis.push_back({address_of(peer, ni), mac_of(peer, ni), ni});
    n.peers.push_back(p);
  }
  return n;
}

// A set-up of one simulated node: nothing outside can make it fail.
template <class T>
T must(Result<T> result) {
  if (!result) check_failed(__FILE__, __LINE__, "set-up in virtual time", result.error().text);
  return std::move(result).value();
}

}  // namespace

std::optional<Station> station_of(ByteView frame) {
  if (frame.size() < 6) return std::nullopt;
  const auto octet = [&](std::size_t i) { return std::to_integer<unsigned>(frame[i]); };
  if (octet(0) != 0x02 || octet(1) != 0x62 || octet(2) != 0x72) return std::nullopt;
  return Station{octet(3) << 8 | octet(4), octet(5)};
}

// The client's way to its node's control plane. A call steps the driver until the answer has come.
class VirtualNode::Service final : public proxy::Service {
 public:
  explicit Service(VirtualNode& owner) : owner_(owner), client_(owner.node_->add_client()) {}

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override {
    if (request.kind == proxy::control::Kind::kConnect) {
      const auto asked = asked_.find(request.connect.cluster);
      CHECK(asked != asked_.end());
      return answer(asked->second, timeout, fd);
    }
    return answer(post(request), timeout, fd);
  }
  std::byte* memory() override { return owner_.node_->client_memory(client_); }
  bool next_event(unsigned endpoint, proxy::control::Message* event) override {
    collect();
    const auto found = std::find_if(events_.begin(), events_.end(), [&](const proxy::control::Message& m) {
      return m.kind == proxy::control::Kind::kOpened && m.opened.endpoint == endpoint;
    });
    if (found == events_.end()) return false;
    *event = *found;
    events_.erase(found);
    return true;
  }
  void wait_for_event(Duration) override { owner_.driver_.step(); }
  int turn() override { return 0; }  // only the driver lets time pass
  bool alive() override { return owner_.node_->has_client(client_); }
  Instant now() override { return owner_.driver_.clock(); }

  // Asks for a connection; call() has the answer for whoever asks for the same later.
  void ask_for(unsigned cluster, const proxy::ConnectionOptions& options) {
    proxy::control::Message request;
    request.kind = proxy::control::Kind::kConnect;
    request.connect = {cluster,
                       kPort.value(),
                       0,
                       options.window_bytes,
                       options.ordered ? 1u : 0u,
                       static_cast<std::uint32_t>(kSetUpLimit.ns() / 1'000'000)};
    asked_[cluster] = post(request);
  }
  bool has_answers() {
    collect();
    return std::all_of(asked_.begin(), asked_.end(),
                       [&](const auto& asked) { return answers_.contains(asked.second); });
  }

 private:
  struct Answer {
    proxy::control::Message message;
    int fd = -1;
  };
  std::uint32_t post(proxy::control::Message request) {
    request.serial = ++serial_;
    owner_.node_->on_request(now(), client_, request);
    owner_.driver_.asked();
    return request.serial;
  }
  void collect() {
    while (const std::optional<proxy::Node::Outbound> out = owner_.node_->poll_outbound(client_)) {
      if (out->message.serial == 0)
        events_.push_back(out->message);
      else
        answers_[out->message.serial] = {out->message, out->fd};
    }
  }
  Result<proxy::control::Message> answer(std::uint32_t serial, Duration timeout, int* fd) {
    const Instant deadline = now() + timeout;
    for (;;) {
      collect();
      if (const auto found = answers_.find(serial); found != answers_.end()) {
        const Answer got = found->second;
        answers_.erase(found);
        if (got.message.kind == proxy::control::Kind::kRefused) return error("{}", got.message.refused.text);
        if (fd != nullptr && got.fd >= 0) *fd = ::dup(got.fd);
        return got.message;
      }
      if (now() >= deadline) return error("no answer within {:.1f} s of virtual time", timeout.s());
      owner_.driver_.step();
    }
  }

  VirtualNode& owner_;
  proxy::Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::map<std::uint32_t, std::uint32_t> asked_;  // by cluster: the serial
  std::map<std::uint32_t, Answer> answers_;
  std::deque<proxy::control::Message> events_;
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

proxy::ConnectionOptions connection_options(const VirtualNodesConfig& config) {
  proxy::ConnectionOptions options;
  options.ordered = false;  // as the page protocol has it
  options.window_bytes = config.window_bytes;
  options.dispatch = config.dispatch;
  return options;
}

}  // namespace

void VirtualNode::attach() {
  auto service = std::make_unique<Service>(*this);
  service_ = service.get();
  proxy::ClientOptions options;
  options.receive_bytes = config_.window_bytes * (config_.clusters - 1u);
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

std::optional<VirtualNode::Lost> VirtualNode::lost() const {
  for (std::uint16_t k = 0; k < connections_.size(); ++k) {
    const proxy::Connection* const to = connections_[k];
    if (to != nullptr && to->state() != proxy::ConnectionState::kOpen)
      return Lost{ClusterId(k), proxy::to_string(to->state())};
  }
  return {};
}

}  // namespace braid::sim
