#include "sim/stage_costs.h"

#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::sim {

FrameShape shape_of(ByteView frame) {
  FrameShape shape;
  shape.frame_bytes = static_cast<std::uint32_t>(frame.size());
  stack::EthernetFrame ethernet;
  stack::Ipv4Packet ip;
  if (stack::parse_ethernet(frame, ethernet) != stack::EthernetParse::kOk ||
      ethernet.type != stack::EtherType::kIpv4)
    return shape;
  const stack::Ipv4Parse parsed = stack::parse_ipv4(ethernet.payload, ip);
  if (parsed != stack::Ipv4Parse::kOk && parsed != stack::Ipv4Parse::kFragment) return shape;
  shape.ip = true;
  shape.first = ip.fragment_offset_bytes == 0;
  shape.last = !ip.more_fragments;
  shape.datagram_end = static_cast<std::uint32_t>(ip.fragment_offset_bytes + ip.payload.size());
  if (shape.first && ip.payload.size() > stack::kUdpHeaderBytes) {
    shape.udp_port = load_be<std::uint16_t>(ip.payload.data() + 2);
    shape.datagram_bytes = load_be<std::uint16_t>(ip.payload.data() + 4);
    // The number of records in a packet's header (stack/wire/segment.h).
    if (ip.payload.size() > stack::kUdpHeaderBytes + 2)
      shape.has_records = load<std::uint8_t>(ip.payload.data() + stack::kUdpHeaderBytes + 2) > 0;
  }
  return shape;
}

Service StageCosts::send(const FrameShape& frame) const {
  Service service;
  service.add(Stage::kNiSend, model_.ni_send + model_.ni_byte * frame.frame_bytes);
  if (!frame.ip) return service;
  service.add(Stage::kIpSend, model_.ip_send);
  if (!frame.first) return service;
  service.add(Stage::kUdpSend, model_.udp_send + checksum_byte_ * frame.datagram_bytes);
  if (frame.has_records)
    service.add(Stage::kWindowSend, model_.window_send);
  else
    service.add(Stage::kAckSend, model_.ack_send);
  return service;
}

Service StageCosts::receive(const FrameShape& frame, const stack::Stack::Received& received) const {
  Service service;
  service.add(Stage::kNiReceive, model_.ni_receive + model_.ni_byte * frame.frame_bytes);
  if (!frame.ip) return service;
  service.add(Stage::kIpReceive, model_.ip_receive);
  if (!frame.last && !received.reassembled) return service;  // the datagram is not complete
  service.add(Stage::kUdpReceive, model_.udp_receive + checksum_byte_ * frame.datagram_end);
  if (received.what != stack::Stack::Received::What::kRecords) {
    service.add(Stage::kAckReceive, model_.ack_receive);
    return service;
  }
  service.add(Stage::kWindowReceive, model_.window_receive);
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  while (reader.next(&record, &bytes)) {
    // A train is looked up, copied and announced once (proxy/daemon/port_table.cpp: deliver_train).
    service.add(Stage::kDeliver, model_.deliver + model_.deliver_byte * static_cast<double>(bytes.size()));
  }
  return service;
}

Service StageCosts::timer() const {
  Service service;
  service.add(Stage::kTimer, model_.timer);
  return service;
}

Duration StageCosts::least_to_send() const {
  return time(model_.window_send + model_.udp_send + model_.ip_send + model_.ni_send);
}

Duration StageCosts::least_to_receive() const {
  return time(model_.ni_receive + model_.ip_receive + model_.udp_receive + model_.window_receive +
              model_.deliver);
}

}  // namespace braid::sim
