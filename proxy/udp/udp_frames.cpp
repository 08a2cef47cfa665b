#include "proxy/udp/udp_frames.h"

#include "base/check.h"
#include "base/ethernet.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::proxy {

stack::MacAddress station_of(stack::Ipv4Address address) {
  std::array<std::byte, stack::MacAddress::kBytes> bytes{std::byte{0x02}, std::byte{0x62}};
  address.store(bytes.data() + 2);
  return stack::MacAddress::load(bytes.data());
}

std::optional<DepartingDatagram> UdpFrames::departure(ByteView frame) const {
  stack::EthernetFrame ethernet;
  if (parse_ethernet(frame, ethernet) != stack::EthernetParse::kOk ||
      ethernet.type != stack::EtherType::kIpv4)
    return std::nullopt;
  stack::Ipv4Packet ip;
  stack::UdpDatagram udp;
  if (parse_ipv4(ethernet.payload, ip, stack::ChecksumBy::kHardware) != stack::Ipv4Parse::kOk ||
      ip.protocol != stack::IpProtocol::kUdp || ip.source != own_.address ||
      parse_udp(ip.payload, ip.source, ip.destination, udp, stack::ChecksumBy::kHardware) !=
          stack::UdpParse::kOk ||
      udp.source_port != own_.port)
    return std::nullopt;
  return DepartingDatagram{{ip.destination, udp.destination_port}, udp.payload};
}

MutableBytes UdpFrames::arrival(const UdpEnd& from, MutableBytes payload) {
  CHECK_LE(payload.size(), stack::kUdpMaxPayloadBytes);
  std::byte* const frame = payload.data() - kHeaderBytes;
  // The kernel has verified the sender's checksum; the stack verifies the one that stands here.
  header_of(from).write(frame, payload.size(), stack::checksum_add(0, payload));
  return {frame, kHeaderBytes + payload.size()};
}

const stack::FlowHeader& UdpFrames::header_of(const UdpEnd& from) {
  const std::uint32_t mixed = (from.address.value() ^ from.port * 0x9e37u) * 0x9e3779b1u;
  Flow& flow = flows_[mixed >> 26];
  static_assert(kFlows == 1u << (32 - 26));
  if (flow.from != from)
    flow = {from, stack::FlowHeader(station_, station_of(from.address),
                                    {.source = from.address,
                                     .destination = own_.address,
                                     .source_port = from.port,
                                     .destination_port = own_.port})};
  return flow.header;
}

}  // namespace braid::proxy
