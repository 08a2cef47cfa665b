#include "stack/ip_receiver.h"

#include "stack/wire/ethernet.h"
#include "stack/wire/udp.h"

namespace braid::stack {

IpReceiver::IpReceiver(std::span<const Interface> links, const UdpPorts& ports,
                       const ReassemblyConfig& reassembly)
    : links_(links), ports_(ports), reassembly_(reassembly) {
  filters_.reserve(links.size());
  for (const Interface& own : links) filters_.emplace_back(own.mac, own.address, ports.own_port());
}

// SC-9
IpArrival IpReceiver::receive(Instant now, LinkId link, ByteView bytes) {
  IpArrival arrival;
  EthernetFrame frame;
  if (parse_ethernet(bytes, frame) != EthernetParse::kOk) {
    ++counters_.bad_frames;
    return arrival;
  }
  const bool to_us = frame.destination == links_[link.value()].mac;
  if (!to_us && !frame.destination.is_broadcast()) {
    ++counters_.bad_frames;
  } else if (frame.type == EtherType::kIpv4) {
    // RFC 1122, 3.3.6: what comes to everybody on the link is for one host only by mistake.
    if (to_us)
      receive_ipv4(now, link, frame.payload, arrival);
    else
      ++counters_.broadcasts;
  } else if (frame.type == EtherType::kArp) {
    arrival.what = receive_arp(frame.payload);
  } else {
    ++counters_.bad_frames;
  }
  return arrival;
}

IpReceiver::What IpReceiver::receive_arp(ByteView payload) {
  ArpPacket packet;
  if (parse_arp(payload, packet) != ArpParse::kOk) {
    ++counters_.bad_frames;
    return {};
  }
  return packet;
}

void IpReceiver::receive_ipv4(Instant now, LinkId link, ByteView payload, IpArrival& arrival) {
  Ipv4Packet ip;
  switch (parse_ipv4(payload, ip)) {
    case Ipv4Parse::kOk:
      if (is_for_us(links_[link.value()], ip)) arrival.what = classify(link, ip);
      return;
    case Ipv4Parse::kFragment: {
      // Judged before it takes memory.
      Ipv4Packet whole;
      if (!is_for_us(links_[link.value()], ip) || !reassemble(now, ip, whole)) return;
      arrival.reassembled = true;
      arrival.what = classify(link, whole);
      return;
    }
    case Ipv4Parse::kTruncated:
    case Ipv4Parse::kBadVersion:
    case Ipv4Parse::kBadHeaderLength:
    case Ipv4Parse::kBadTotalLength:
    case Ipv4Parse::kBadChecksum:
    case Ipv4Parse::kTimeToLiveIsOver:
    case Ipv4Parse::kBadFragment:
      ++counters_.bad_ip;
      return;
  }
}

// IP-1. An address is its link's alone (IP-5).
bool IpReceiver::is_for_us(const Interface& own, const Ipv4Packet& ip) {
  if (ip.destination != own.address) {
    const bool to_many = !ip.destination.is_unicast() || is_subnet_broadcast(own, ip.destination);
    ++(to_many ? counters_.broadcasts : counters_.not_for_us);
    return false;
  }
  if (is_martian(own, ip.source)) {
    ++counters_.martians;
    return false;
  }
  return true;
}

// IP-2. True: `whole` is the packet that this fragment completed.
bool IpReceiver::reassemble(Instant now, const Ipv4Packet& fragment, Ipv4Packet& whole) {
  ++counters_.fragments_received;
  switch (reassembly_.add(now, fragment, whole)) {
    case FragmentFate::kKept:
      return false;
    case FragmentFate::kDuplicate:
    case FragmentFate::kOverlap:
    case FragmentFate::kGivenUp:
      ++counters_.fragments_dropped;
      return false;
    case FragmentFate::kComplete:
      break;
  }
  ++counters_.packets_reassembled;
  return true;
}

// A whole packet for this node.
IpReceiver::What IpReceiver::classify(LinkId link, const Ipv4Packet& ip) {
  if (ip.protocol == IpProtocol::kUdp) return classify_udp(ip);
  if (ip.protocol == IpProtocol::kIcmp) return classify_icmp(link, ip);
  ++counters_.bad_frames;
  return Undeliverable{ip, Unreachable::kProtocol};
}

// The port says which proxy's it is; that one's stack verifies the rest. UDP-2
IpReceiver::What IpReceiver::classify_udp(const Ipv4Packet& ip) {
  if (ip.payload.size() < kUdpHeaderBytes) {
    ++counters_.bad_udp;
    return {};
  }
  const std::optional<unsigned> listener = ports_.listener(load_be<std::uint16_t>(ip.payload.data() + 2));
  const unsigned owner = listener.value_or(kDatagramProxy);
  if (owner != ports_.own_proxy()) return Misdirected{ip, owner};
  return listener ? classify_proxy_packet(ip) : classify_datagram(ip);
}

// UDP-1: peers always compute a checksum.
IpReceiver::What IpReceiver::classify_proxy_packet(const Ipv4Packet& ip) {
  UdpDatagram udp;
  if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk || !udp.has_checksum) {
    ++counters_.bad_udp;
    return {};
  }
  return ProxyPacket{{ip.source, udp.source_port}, udp.payload};
}

IpReceiver::What IpReceiver::classify_datagram(const Ipv4Packet& ip) {
  UdpDatagram udp;
  if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk) {
    ++counters_.bad_udp;
    return {};
  }
  if (!ports_.is_bound(udp.destination_port)) {
    ++counters_.closed_ports;
    return Undeliverable{ip, Unreachable::kPort};
  }
  ++counters_.datagrams_received;
  return PlainDatagram{{ip.source, udp.source_port}, udp.destination_port, udp.payload};
}

IpReceiver::What IpReceiver::classify_icmp(LinkId link, const Ipv4Packet& ip) {
  IcmpMessage icmp;
  if (parse_icmp(ip.payload, icmp) != IcmpParse::kOk) {
    ++counters_.bad_icmp;
    return {};
  }
  if (icmp.type == IcmpType::kEcho) return EchoRequest{ip, icmp};
  if (icmp.type == IcmpType::kUnreachable) return classify_unreachable(link, ip, icmp);
  ++counters_.icmp_ignored;
  return {};
}

// IC-3
IpReceiver::What IpReceiver::classify_unreachable(LinkId link, const Ipv4Packet& ip,
                                                  const IcmpMessage& icmp) {
  IcmpQuote quote;
  if (!parse_icmp_quote(icmp.body, quote)) {
    ++counters_.bad_icmp;
    return {};
  }
  if (quote.source != links_[link.value()].address || quote.protocol != IpProtocol::kUdp) {
    ++counters_.icmp_ignored;  // about a packet of another incarnation of this address, or forged
    return {};
  }
  const std::optional<unsigned> sender = ports_.owner(quote.source_port);
  const unsigned owner = sender.value_or(kDatagramProxy);
  if (owner != ports_.own_proxy()) return Misdirected{ip, owner};
  if (!sender && !ports_.is_bound(quote.source_port)) {
    ++counters_.icmp_ignored;
    return {};
  }
  return UnreachableReport{.destination = {quote.destination, quote.destination_port},
                           .port = sender ? std::nullopt : std::optional(quote.source_port),
                           .reason = Unreachable{icmp.code},
                           .mtu_bytes = static_cast<std::uint16_t>(icmp.rest)};
}

}  // namespace braid::stack
