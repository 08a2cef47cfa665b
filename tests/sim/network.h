// The network of a simulated world: NIC queues that the production workers drive, a line in each direction
// between every two nodes, and the frames that are in flight.
//
// Every NIC hangs on one switch, which looks at the destination's MAC. What a NicQueue commits goes over the
// line to each receiver at once; the world is told by an event when a frame arrives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"
#include "proxy/nic/nic_queue.h"
#include "sim/frame_pool.h"
#include "sim/links.h"
#include "sim/virtual_nic.h"
#include "tests/sim/world_config.h"

namespace braid::sim {

// Counts of frames, over all lines.
struct NetworkCounts {
  std::uint64_t offered = 0;
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t delayed = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t queue_full = 0;
  std::uint64_t ring_full = 0;
  std::uint64_t clogged = 0;
  std::uint64_t misrouted = 0;
};

// Told by the network: a frame will arrive.
class NetworkEvents {
 public:
  virtual ~NetworkEvents() = default;
  virtual Instant now() const = 0;
  virtual void arrives(Instant at, unsigned node, unsigned link, FrameRef frame) = 0;
  virtual void traced(unsigned from, unsigned to, unsigned link, const char* fate, ByteView frame) = 0;
};

class Network final : private VirtualNic::Wire {
 public:
  static constexpr unsigned kMaxLinks = 2;

  Network(const WorldConfig& config, unsigned links, NetworkEvents& events);

  // A proxy's queue of its node's NIC. Made anew with each life of the node.
  std::unique_ptr<proxy::NicQueue> make_nic(unsigned node, unsigned link, unsigned proxy);

  // A frame is due at a node: into the queue that steering picks, whose proxy is returned; -1: it is lost.
  int land(unsigned node, unsigned link, FrameRef frame);

  // One node receives nothing from another over a link until then.
  void cut(unsigned from, unsigned to, unsigned link, Instant until) {
    links_.cut_link(from, to, link, until);
  }
  // Two proxies of two nodes do not receive from each other until then, over any link.
  void cut_path(const ProxyAddress& proxy, const ProxyAddress& peer, Instant until) {
    links_.cut_path(proxy, peer, until);
    links_.cut_path(peer, proxy, until);
  }
  // An intruder sends that frame to `to`, over the line from `from`.
  void inject(unsigned from, unsigned to, unsigned link, ByteView frame);
  void set_link(unsigned node, unsigned link, bool up) {
    if (up)
      links_.mend_ni(node, link);
    else
      links_.cut_ni(node, link, Instant::never());
  }
  bool link_up(unsigned node, unsigned link) const { return links_.is_ni_up(events_.now(), node, link); }
  // From now on nothing goes wrong, other than that a queue can be full.
  void stop_faults();

  const NetworkCounts& counts() const { return counts_; }
  std::uint32_t frames_in_flight() const { return pool_.in_use(); }

 private:
  void transmit(const VirtualNic& from, std::span<const FrameRef> frames) override;
  bool link_up(const VirtualNic& at) const override { return link_up(at.cluster(), at.ni()); }
  void on_detach(const VirtualNic& nic) override { queues_[nic.cluster()][nic.ni()][nic.proxy()] = nullptr; }
  void route(const NetworkEnd& from, FrameRef frame);
  void send(const NetworkEnd& from, unsigned to, FrameRef frame);
  // Loses the frame that lose_frame names.
  bool is_chosen(ByteView frame);
  void count(const Passage& passage);

  const WorldConfig& config_;
  NetworkEvents& events_;
  const unsigned nodes_;
  FramePool pool_;
  Links links_;
  std::vector<std::array<std::array<VirtualNic*, 32>, kMaxLinks>> queues_;  // by node, link and proxy
  std::uint64_t data_frames_ = 0;                                           // offered so far, for lose_frame
  Prng steering_;
  NetworkCounts counts_;
};

}  // namespace braid::sim
