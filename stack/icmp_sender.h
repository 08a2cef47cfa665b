// Answers echo requests and reports errors by ICMP: what is sent, and how often.
//
// Pure; owned by the stack, whose IpSender queues the messages. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "stack/interface.h"
#include "stack/ip_sender.h"
#include "stack/rate_limit.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

class IcmpSender {
 public:
  struct Counters {
    std::uint64_t echoes_answered = 0;
    std::uint64_t echoes_dropped = 0;  // for want of room or of a next hop
    std::uint64_t errors_sent = 0;
    std::uint64_t errors_withheld = 0;  // too many, or for want of room or of a next hop
  };

  // `links` and `sender` outlive it.
  IcmpSender(std::span<const Interface> links, IpSender& sender, std::uint32_t errors_per_second,
             std::uint32_t errors_at_once)
      : links_(links), sender_(sender), errors_(errors_per_second, errors_at_once) {}

  // Queues the reply to an echo request that arrived in `request` by this link. IC-1
  void answer_echo(Instant now, LinkId link, const Ipv4Packet& request, const IcmpMessage& echo);
  // Queues an error about a packet that came to this node alone from one host, unless that packet is an
  // error. IC-2
  void report_error(Instant now, LinkId link, const Ipv4Packet& about, IcmpType type, std::uint8_t code);

  const Counters& counters() const { return counters_; }

 private:
  std::span<const Interface> links_;
  IpSender& sender_;
  RateLimit errors_;
  Counters counters_;
};

}  // namespace braid::stack
