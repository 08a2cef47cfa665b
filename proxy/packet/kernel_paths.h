// What the kernel knows of the ways from one of its interfaces to the peers: by which station each is reached now (routes and
// neighbours, by rtnetlink), whether the link is up, and what ICMP reported about datagrams that left here.
//
// A thread asks when the kernel tells of a change, and once a second at least while something is unknown. It has the kernel
// resolve and confirm what it does not know, since the kernel sends nothing there itself.
//
// ICMP errors come back to a UDP socket of the kernel's for each of our ports. It also keeps these from other processes,
// and swallows what the kernel gets of the proxies' datagrams, which it would answer by ICMP errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/result.h"
#include "base/time.h"
#include "proxy/nic/nic_queue.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

struct KernelPathsOptions {
  std::string interface;
  stack::Ipv4Address own;
  std::uint16_t first_port = 0;
  unsigned ports = 1;
  std::vector<stack::Ipv4Address> peers;  // each once
};

class KernelPaths {
 public:
  // Blocks until the kernel knows all stations, and for `patience` at most. An error: a port is taken, or a peer is not
  // reached by the interface.
  static Result<std::shared_ptr<KernelPaths>> start(const KernelPathsOptions& options, Duration patience);
  // Ends the thread.
  ~KernelPaths();
  KernelPaths(const KernelPaths&) = delete;
  KernelPaths& operator=(const KernelPaths&) = delete;

  // The station to send to, as the kernel has it now; nullopt: it has none, or this is no peer. Any thread.
  std::optional<stack::MacAddress> station_of(stack::Ipv4Address peer) const {
    for (const Peer& p : peers_) {
      if (p.address != peer) continue;
      const std::uint64_t station = p.station.load(std::memory_order_relaxed);
      if (station == kUnknown) return std::nullopt;
      return stack::MacAddress::load(reinterpret_cast<const std::byte*>(&station));
    }
    return std::nullopt;
  }
  // Writes the station of the packet's destination into a frame. False: it cannot leave. Any thread.
  bool address(const TxFrame& frame) const;
  // Any thread.
  bool link_up() const { return link_up_.load(std::memory_order_relaxed); }
  // Of datagrams from port first_port + i. Any thread.
  std::uint64_t icmp_errors(unsigned port) const { return errors_[port].count.get(); }

 private:
  static constexpr std::uint64_t kUnknown = 0;  // no station has this address
  struct Peer {
    stack::Ipv4Address address;
    std::atomic<std::uint64_t> station{kUnknown};  // the bytes of its address, then zeros
  };
  // Datagrams from one of our ports that did not arrive.
  struct Errors {
    int socket;
    Counter count;
  };
  explicit KernelPaths(const KernelPathsOptions& options);
  Result<void> open();
  Result<void> refuse_other_routes();
  void refresh();
  bool all_known() const;
  void run();

  const KernelPathsOptions options_;
  int index_ = 0;      // of the interface
  int requests_ = -1;  // rtnetlink
  int changes_ = -1;   // rtnetlink, notifications
  int stop_ = -1;      // an eventfd
  std::deque<Peer> peers_;
  std::deque<Errors> errors_;  // by port
  std::atomic<bool> link_up_{true};
  std::thread thread_;
};

}  // namespace braid::proxy
