#include "bench/transport/veth.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "proxy/nic/ethdev.h"
#include "proxy/xdp/xdp_wire.h"

namespace braid::bench {
namespace {

constexpr std::uint32_t kMtu = 1500;
constexpr const char* kInterface = "braid0";

StackEnds xdp_ends() {
  return {{stack::Ipv4Address(10, 98, 77, 1), stack::MacAddress(2, 0x62, 0x72, 0x64, 0, 1)},
          {stack::Ipv4Address(10, 98, 77, 2), stack::MacAddress(2, 0x62, 0x72, 0x64, 0, 2)}};
}
StackEnds packet_ends() {
  StackEnds ends = xdp_ends();
  ends.near.address = stack::Ipv4Address(10, 98, 78, 1);
  ends.far.address = stack::Ipv4Address(10, 98, 78, 2);
  return ends;
}

void fail(const std::string& what) {
  fmt::print(stderr, "transport_bench: {}\n", what);
  std::exit(1);
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0)
    fail(fmt::format("'{}' failed; --veth needs root and ip (iproute2)", command));
}

// The calling thread, and what it starts, works there until this goes.
class Inside {
 public:
  explicit Inside(const std::string& space)
      : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const int there = ::open(("/var/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(home_ >= 0 && there >= 0 && ::setns(there, CLONE_NEWNET) == 0);
    ::close(there);
  }
  ~Inside() {
    CHECK(::setns(home_, CLONE_NEWNET) == 0);
    ::close(home_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const int home_;
};

}  // namespace

VethPair::VethPair() : name_(fmt::format("braid-bench-{}", ::getpid())) {
  for (const bool near : {true, false}) run("ip netns add " + space(near));
  run(fmt::format("ip link add {0} netns {1} type veth peer name {0} netns {2}", kInterface, space(true),
                  space(false)));
  const StackEnds ends = xdp_ends();
  for (const bool near : {true, false}) {
    const StackEnd& end = near ? ends.near : ends.far;
    run(fmt::format(
        "ip -n {0} link set {1} address {2} && ip -n {0} address add {3}/24 dev {1} && ip -n {0} link set {1} up",
        space(near), kInterface, end.mac.to_string(), end.address.to_string()));
  }
}

VethPair::~VethPair() {
  for (const bool near : {true, false}) run("ip netns del " + space(near));
}

void VethPair::add_systems(bool near, std::vector<NamedSystem>& systems, std::shared_ptr<void>& ports) const {
  const Inside inside(space(near));
  const StackEnds ends = xdp_ends();
  proxy::KernelWireOptions options;
  options.own = ends.of(near).address;
  options.first_port = kStackPort;
  options.mtu_bytes = kMtu;
  options.peers = {ends.of(!near).address};
  auto wire = proxy::open_xdp_wire(options, nullptr);
  if (!wire) fail(wire.error().text);
  systems.push_back({"af_xdp stack", make_bare_stack(std::move(wire->queues[0]), near, kMtu, ends)});
  proxy::EthdevOptions devices;
  devices.vdevs = {proxy::af_packet_vdev(0, kInterface, 1)};
  auto opened = proxy::EthdevPorts::start(devices);
  if (!opened) fail(opened.error().text);
  systems.push_back({"af_packet stack", make_bare_stack((*opened)->queue(0, 0), near, kMtu, packet_ends())});
  ports = std::shared_ptr<proxy::EthdevPorts>(std::move(*opened));
}

}  // namespace braid::bench
