#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/ethernet.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "stack/wire/checksum.h"
#include "stack/wire/flow.h"

namespace braid::bench {

HeaderTimes time_headers(unsigned samples) {
  using namespace stack;  // NOLINT
  const MacAddress mac(2, 0, 0, 0, 0, 1);
  const UdpFields udp{Ipv4Address(10, 0, 0, 1), Ipv4Address(10, 0, 0, 2), 7700, 7700, 0};
  const Ipv4Fields ip{.source = udp.source, .destination = udp.destination, .payload_bytes = kUdpHeaderBytes};
  alignas(64) std::array<std::byte, 64> frame{};
  const MutableBytes bytes(frame);
  const MutableBytes ip_bytes = bytes.subspan(kEthernetHeaderBytes, kIpv4HeaderBytes + kUdpHeaderBytes);
  const MutableBytes udp_bytes = ip_bytes.subspan(kIpv4HeaderBytes);
  const FlowHeader header(mac, mac, udp);
  const FlowFilter filter(mac, udp.destination, udp.destination_port);

  const double both_send = ns_each(samples, kRow, [&](int i) {
    header.write(frame.data(), 0, static_cast<std::uint64_t>(i));
    keep(frame);
  });
  const double ip_write = ns_each(samples, kRow, [&](int) {
    write_ethernet(bytes, mac, mac, EtherType::kIpv4);
    write_ipv4(ip_bytes, ip);
    keep(frame);
  });
  const double udp_write = ns_each(samples, kRow, [&](int) {
    write_udp(udp_bytes, udp, 0);
    keep(frame);
  });
  header.write(frame.data(), 0, 0);
  const double both_receive = ns_each(samples, kRow, [&](int) {
    keep(frame);
    Ipv4Address source;
    CHECK(filter.match(ByteView(frame).first(kFlowHeaderBytes), source).data() != nullptr);
  });
  const double ip_read = ns_each(samples, kRow, [&](int) {
    keep(frame);
    EthernetFrame e;
    Ipv4Packet p;
    CHECK(parse_ethernet(ByteView(frame).first(kFlowHeaderBytes), e) == EthernetParse::kOk);
    CHECK(parse_ipv4(e.payload, p) == Ipv4Parse::kOk);
  });
  const double udp_read = ns_each(samples, kRow, [&](int) {
    keep(frame);
    UdpDatagram d;
    CHECK(parse_udp(udp_bytes, udp.source, udp.destination, d) == UdpParse::kOk);
  });
  const double send_share = udp_write / (udp_write + ip_write);
  const double receive_share = udp_read / (udp_read + ip_read);
  return {both_send * send_share, both_send * (1 - send_share), both_receive * receive_share,
          both_receive * (1 - receive_share)};
}

namespace {

// A byte of a long block, the block's fixed part taken off.
template <class OfBytes>
double ns_per_byte(unsigned samples, OfBytes&& of_bytes) {
  const auto whole = [&](std::uint32_t bytes) {
    return ns_each(samples, kRow, [&](int) { of_bytes(bytes); });
  };
  return (whole(kLong) - whole(kShort)) / static_cast<double>(kLong - kShort);
}

}  // namespace

ByteTimes time_bytes(unsigned samples) {
  std::vector<std::byte> from(kLong, std::byte{0x5a}), to(kLong);
  ByteTimes t;
  t.sum = ns_per_byte(samples, [&](std::uint32_t bytes) {
    keep(from);
    keep(stack::checksum_add(0, ByteView(from).first(bytes)));
  });
  t.copy = ns_per_byte(samples, [&](std::uint32_t bytes) {
    std::memcpy(to.data(), from.data(), bytes);
    keep(to);
  });
  return t;
}

}  // namespace braid::bench
