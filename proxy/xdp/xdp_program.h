// The program that an interface runs for every arriving frame (XDP): datagrams to the cluster's proxies go to the AF_XDP
// socket of the receive queue that they came by; everything else goes on to the kernel, which keeps its address, its
// neighbours and its other traffic.
//
// It is written as instructions here, so no compiler for it is needed. It is attached by a link that its process holds,
// so the kernel removes it with the process, however that ends.
//
// Owned by the thread that sets up.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

// Whole UDP datagrams over IPv4 without options, in untagged frames, to this address and one of these ports.
struct XdpFilter {
  stack::Ipv4Address address;
  std::uint16_t first_port = 0;
  unsigned ports = 1;
};

// `socket_map`: descriptor of an XSKMAP by receive queue. A datagram that came by a queue without a socket goes to the kernel.
std::vector<bpf_insn> xdp_instructions(const XdpFilter& filter, int socket_map);

class XdpProgram {
 public:
  // By which `ip link` and `bpftool` show it.
  static constexpr const char* kName = "braid_xdp";

  // Loads it for an interface of so many receive queues. An error names what the kernel lacks or refuses, and the cure.
  static Result<std::unique_ptr<XdpProgram>> load(const XdpFilter& filter, unsigned queues);
  // Detaches it.
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;

  // What comes by this receive queue goes to that AF_XDP socket, which is bound to it.
  Result<void> serve(unsigned queue, int socket);
  // Once. In the driver if it can, else behind it (generic XDP). A program of this name that nobody holds is one that was
  // left behind, and is removed; any other is named in the error.
  Result<void> attach(const std::string& interface);

  int descriptor() const { return program_; }

 private:
  XdpProgram(int map, int program) : map_(map), program_(program) {}

  const int map_;
  const int program_;
  int link_ = -1;
};

}  // namespace braid::proxy
