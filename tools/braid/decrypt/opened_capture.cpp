#include "tools/braid/decrypt/opened_capture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "proxy/nic/pcapng.h"
#include "stack/handshake.h"
#include "stack/secure/packet_cipher.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::cli {
namespace {

using namespace proxy::pcapng;  // NOLINT(google-build-using-namespace)

// No block that a capture needs is longer.
constexpr std::uint32_t kMaxBlockBytes = 16u << 20;

// Opens packets in frames, in their place.
class FrameOpener {
 public:
  explicit FrameOpener(KeyRing& keys) : keys_(keys) {}

  void on_frame(MutableBytes frame) {
    stack::EthernetFrame ethernet;
    if (stack::parse_ethernet(frame, ethernet) != stack::EthernetParse::kOk ||
        ethernet.type != stack::EtherType::kIpv4)
      return;
    // Checksums are not looked at: a device may not have filled them in yet.
    stack::Ipv4Packet ip;
    const stack::Ipv4Parse parsed = stack::parse_ipv4(ethernet.payload, ip, stack::ChecksumBy::kHardware);
    if (parsed == stack::Ipv4Parse::kFragment) ++packets_.fragments;
    if (parsed != stack::Ipv4Parse::kOk || ip.protocol != stack::IpProtocol::kUdp) return;
    stack::UdpDatagram udp;
    if (stack::parse_udp(ip.payload, ip.source, ip.destination, udp, stack::ChecksumBy::kHardware) !=
        stack::UdpParse::kOk)
      return;
    const auto udp_at = static_cast<std::size_t>(ip.payload.data() - frame.data());
    if (!open(frame.subspan(udp_at + stack::kUdpHeaderBytes, udp.payload.size())) || !udp.has_checksum)
      return;
    stack::write_udp(frame.subspan(udp_at),
                     {ip.source, ip.destination, udp.source_port, udp.destination_port, udp.payload.size()},
                     stack::checksum_add(0, udp.payload));
  }
  const OpenedPackets& packets() const { return packets_; }

 private:
  // False: the packet is as it was.
  bool open(MutableBytes packet) {
    stack::PacketHeader header;
    std::size_t header_bytes = 0;
    if (!stack::parse_packet_header(packet, &header, &header_bytes)) return false;
    const MutableBytes rest = packet.subspan(header_bytes);
    if (header.type == stack::PacketType::kHello) {
      if (stack::Handshake::is_sealed_hello(rest.size())) sealing_.insert(header.sender_epoch);
      return false;
    }
    switch (keys_.open(header, packet.first(header_bytes), rest)) {
      case KeyRing::Opening::kNoKey:
        if (sealing_.count(header.sender_epoch) != 0) ++packets_.without_key;
        return false;
      case KeyRing::Opening::kNotOpened:
        ++packets_.not_opened;
        return false;
      case KeyRing::Opening::kOpened:
        break;
    }
    std::copy(keys_.opened().begin(), keys_.opened().end(), rest.begin());
    const MutableBytes tag = rest.last(stack::Aead::kTagBytes);
    std::fill(tag.begin(), tag.end(), std::byte{0});
    ++packets_.opened;
    return true;
  }

  KeyRing& keys_;
  OpenedPackets packets_;
  std::set<std::uint64_t> sealing_;  // epochs of ends that seal
};

class Reader {
 public:
  Reader(std::istream& capture, KeyRing& keys) : capture_(capture), frames_(keys) {}

  // The next block, with its packet opened; empty at the end, and where problem() says why it is none.
  ByteView next() {
    const std::optional<MutableBytes> block = read_block();
    if (!block || !on_block(*block)) return {};
    at_ += block->size();
    return *block;
  }
  const std::string& problem() const { return problem_; }
  const OpenedPackets& packets() const { return frames_.packets(); }
  bool at_begin() const { return at_ == 0; }

 private:
  bool fail(std::string_view what) {
    problem_ = fmt::format("at byte {} {}", at_, what);
    return false;
  }

  std::size_t read(MutableBytes to) {
    capture_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    return static_cast<std::size_t>(capture_.gcount());
  }

  std::optional<MutableBytes> read_block() {
    std::array<std::byte, kBlockHeaderBytes> head;
    const std::size_t got = read(head);
    if (got == 0) return std::nullopt;
    if (got < head.size()) return fail("it ends inside a block"), std::nullopt;
    const auto type = load<std::uint32_t>(head.data());
    const auto length = load<std::uint32_t>(head.data() + 4);
    if (at_ == 0 && type != kSectionHeader) return fail("there is no section header"), std::nullopt;
    // A section header of the other byte order has its length so, too; its magic number is read first.
    const bool may_be_swapped = type == kSectionHeader;
    if (!may_be_swapped && !is_length(length))
      return fail(fmt::format("a block has an impossible length of {} bytes", length)), std::nullopt;
    block_.resize(kBlockBytes);
    std::copy(head.begin(), head.end(), block_.begin());
    if (may_be_swapped) {
      if (read(MutableBytes(block_).subspan(head.size(), 4)) < 4)
        return fail("it ends inside a block"), std::nullopt;
      const auto magic = load<std::uint32_t>(block_.data() + head.size());
      if (magic == swapped(kByteOrderMagic))
        return fail(
                   "a machine of the other byte order wrote it; 'editcap' of Wireshark writes one of this order"),
               std::nullopt;
      if (magic != kByteOrderMagic || !is_length(length) || length < kBlockBytes + 16)
        return fail("there is no right section header"), std::nullopt;
    }
    const std::size_t have = may_be_swapped ? kBlockBytes : kBlockHeaderBytes;
    block_.resize(length);
    if (read(MutableBytes(block_).subspan(have)) < length - have)
      return fail("it ends inside a block"), std::nullopt;
    if (load<std::uint32_t>(block_.data() + length - 4) != length)
      return fail("a block's two lengths differ"), std::nullopt;
    return MutableBytes(block_);
  }

  static bool is_length(std::uint32_t bytes) {
    return bytes >= kBlockBytes && bytes <= kMaxBlockBytes && bytes % 4 == 0;
  }

  bool on_block(MutableBytes block) {
    const MutableBytes body = block.subspan(kBlockHeaderBytes, block.size() - kBlockBytes);
    switch (load<std::uint32_t>(block.data())) {
      case kSectionHeader:
        link_types_.clear();
        return true;
      case kInterfaceDescription:
        if (body.size() < 8) return fail("an interface is cut off");
        link_types_.push_back(load<std::uint16_t>(body.data()));
        return true;
      case kEnhancedPacket:
        return on_packet(body);
      default:
        return true;
    }
  }

  bool on_packet(MutableBytes body) {
    if (body.size() < kPacketFixedBytes) return fail("a packet is cut off");
    const auto interface = load<std::uint32_t>(body.data());
    const auto captured = load<std::uint32_t>(body.data() + kCapturedBytesAt);
    if (interface >= link_types_.size()) return fail("a packet has an interface that is not described");
    if (!inside(kPacketFixedBytes, captured, body.size())) return fail("a packet is longer than its block");
    if (link_types_[interface] == kLinkTypeEthernet)
      frames_.on_frame(body.subspan(kPacketFixedBytes, captured));
    return true;
  }

  std::istream& capture_;
  FrameOpener frames_;
  std::vector<std::uint16_t> link_types_;  // of the section's interfaces
  std::vector<std::byte> block_;
  std::uint64_t at_ = 0;  // of the block, in the file
  std::string problem_;
};

}  // namespace

Result<OpenedCapture> open_capture(std::istream& capture, const std::string& name, KeyRing& keys,
                                   const std::function<Result<void>(ByteView)>& write) {
  Reader reader(capture, keys);
  for (ByteView block = reader.next(); !block.empty(); block = reader.next())
    if (const Result<void> done = write(block); !done) return done.error();
  if (reader.at_begin())
    return error(
        "{}: it is no pcapng file ({}); name one that 'braid run --capture' wrote, or make one of another capture with "
        "'editcap -F pcapng'",
        name, reader.problem().empty() ? "it is empty" : reader.problem());
  OpenedCapture opened{reader.packets(), {}};
  if (!reader.problem().empty())
    opened.problem = fmt::format("{}: {}; the rest is left out", name, reader.problem());
  return opened;
}

}  // namespace braid::cli
