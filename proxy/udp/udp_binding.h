// The socket of a queue, which follows its host: when the address that it is bound to is gone, it is bound to the one that the
// kernel would send from instead. Its descriptor stays the same.
//
// Owned by one proxy's thread.
#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/result.h"
#include "proxy/udp/udp_frames.h"

namespace braid::proxy {

struct UdpBindingOptions {
  UdpEnd own;
  // What the kernel should keep in each direction while the proxy does not run.
  std::uint32_t buffer_bytes = 4u << 20;
  bool joins = true;  // the kernel may give datagrams joined (UDP_GRO)
};

class UdpBinding {
 public:
  // An error names the address and the cure.
  static Result<UdpBinding> open(const UdpBindingOptions& options);
  UdpBinding(UdpBinding&& other) noexcept;
  ~UdpBinding();

  int socket() const { return socket_; }

  enum class Follow : std::uint8_t {
    kNotNeeded,  // the host has the address
    kGone,       // it has not, and no other that leads to `peer`
    kBound,      // it has another: the descriptor is another socket now
  };
  // The kernel has refused to send to `peer`: perhaps because the address is gone.
  Follow follow(const UdpEnd& peer);
  // How often another address was taken.
  std::uint64_t moves() const { return moves_.get(); }
  // What arrived and found no room.
  std::uint64_t receive_drops() const;

 private:
  UdpBinding(const UdpBindingOptions& options, int socket) : options_(options), socket_(socket) {}

  UdpBindingOptions options_;  // `own`: what it is bound to now
  int socket_;
  std::uint64_t drops_before_ = 0;  // of sockets before
  Counter moves_;
};

}  // namespace braid::proxy
