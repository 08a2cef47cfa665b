#include "proxy/nic/faulty_queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/ethernet.h"

namespace braid::proxy {
namespace {

// No more of the formats than it takes to corrupt them: the stack's parsers stand above the wires.
constexpr std::size_t kIpv4Bytes = 20;
constexpr std::size_t kUdpBytes = 8;
constexpr std::size_t kUdpChecksumOffset = 6;
constexpr std::uint16_t kTypeIpv4 = 0x0800;
constexpr std::byte kProtocolUdp{17};

bool is_ipv4(ByteView frame) {
  return frame.size() >= kEthernetHeaderBytes + kIpv4Bytes &&
         load_be<std::uint16_t>(frame.data() + kEthernetHeaderBytes - 2) == kTypeIpv4;
}

// The UDP datagram in a frame that carries a whole one, header included.
std::optional<MutableBytes> udp_datagram(MutableBytes frame) {
  if (!is_ipv4(frame)) return std::nullopt;
  const std::byte* const ip = frame.data() + kEthernetHeaderBytes;
  const std::size_t header_bytes = (std::to_integer<std::size_t>(ip[0]) & 0xf) * 4;
  const std::size_t total_bytes = load_be<std::uint16_t>(ip + 2);
  const bool fragment = (load_be<std::uint16_t>(ip + 6) & 0x3fff) != 0;  // more fragments, or an offset
  if (fragment || ip[9] != kProtocolUdp || header_bytes < kIpv4Bytes ||
      total_bytes < header_bytes + kUdpBytes || !inside(kEthernetHeaderBytes, total_bytes, frame.size())) {
    return std::nullopt;
  }
  const MutableBytes datagram =
      frame.subspan(kEthernetHeaderBytes + header_bytes, total_bytes - header_bytes);
  if (load_be<std::uint16_t>(datagram.data() + 4) != datagram.size()) return std::nullopt;
  return datagram;
}

void flip_bit(std::byte& byte, std::uint64_t bit) {
  byte ^= static_cast<std::byte>(1u << bit);
}

// RFC 1624, equation 3: the checksum after the 16-bit word `before` became `after`.
std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t before, std::uint16_t after) {
  std::uint32_t sum = static_cast<std::uint16_t>(~checksum);
  sum += static_cast<std::uint16_t>(~before);
  sum += after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

// Flips one bit of the datagram's byte `at`, inside the payload, and corrects the checksum if it has one.
void flip_and_fix_checksum(MutableBytes datagram, std::size_t at, std::uint64_t bit) {
  // The last byte of an odd datagram is summed with a zero byte after it.
  const std::size_t word = at & ~std::size_t{1};
  const auto word_now = [&] {
    const bool alone = word + 1 == datagram.size();
    return static_cast<std::uint16_t>(std::to_integer<unsigned>(datagram[word]) << 8 |
                                      (alone ? 0u : std::to_integer<unsigned>(datagram[word + 1])));
  };
  const std::uint16_t before = word_now();
  flip_bit(datagram[at], bit);
  std::byte* const field = datagram.data() + kUdpChecksumOffset;
  const std::uint16_t checksum = load_be<std::uint16_t>(field);
  if (checksum == 0) return;  // the sender sent none
  const std::uint16_t corrected = updated_checksum(checksum, before, word_now());
  store_be<std::uint16_t>(
      field, corrected == 0 ? std::uint16_t{0xffff} : corrected);  // RFC 768: 0 would mean "none"
}

}  // namespace

Result<void> Faults::validate() const {
  const std::array<std::pair<const char*, double>, 4> probabilities{
      {{"loss", loss}, {"duplicate", duplicate}, {"reorder", reorder}, {"corrupt", corrupt}}};
  for (const auto& [name, p] : probabilities) {
    if (!(p >= 0 && p <= 1)) return error("faults: {} is {}; it is a probability from 0 to 1", name, p);
  }
  if (reorder_distance < 1 || reorder_calls < 1) {
    return error("faults: reorder_distance ({}) and reorder_calls ({}) must be at least 1", reorder_distance,
                 reorder_calls);
  }
  if ((reorder > 0 || duplicate > 0) && held_frames < 1) {
    return error("faults: reorder and duplicate need buffers: set held_frames to at least 1");
  }
  return {};
}

FaultyQueue::FaultyQueue(std::unique_ptr<NicQueue> wire, const Faults& faults)
    : NicQueueDecorator(std::move(wire)), faults_(faults), random_(faults.seed) {
  CHECK(faults.validate().ok());
  const unsigned buffers = faults.reorder > 0 || faults.duplicate > 0 ? faults.held_frames : 0;
  storage_.resize(std::size_t{buffers} * wire_->max_frame_bytes());
  free_.reserve(buffers);
  lent_.reserve(buffers);
  held_.reserve(buffers);
  for (std::uint32_t i = 0; i < buffers; ++i) free_.push_back(i);
}

std::size_t FaultyQueue::receive(std::span<MutableBytes> frames) {
  const std::size_t wanted = std::min(frames.size(), kMaxBurst);
  if (wanted == 0) return 0;
  free_.insert(free_.end(), lent_.begin(), lent_.end());
  lent_.clear();
  for (Held& held : held_) held.calls_to_go -= held.calls_to_go > 0;

  std::size_t filled = give_out_due(frames.first(wanted));
  std::array<MutableBytes, kMaxBurst> arrivals;
  const std::size_t arrived =
      filled < wanted ? wire_->receive(std::span(arrivals).first(wanted - filled)) : 0;
  counts_.arrived.add(arrived);
  for (std::size_t i = 0; i < arrived; ++i) {
    const MutableBytes frame = arrivals[i];
    const bool dropped = faults_.drop_all_after > 0 && ++frames_seen_ > faults_.drop_all_after;
    if (dropped || random_.chance(faults_.loss)) {
      counts_.lost.add();
      continue;
    }
    flip_bits(frame);
    if (random_.chance(faults_.duplicate) && hold(frame)) counts_.duplicated.add();
    if (random_.chance(faults_.reorder) && hold(frame)) {
      counts_.reordered.add();
      continue;
    }
    frames[filled++] = frame;
    for (Held& held : held_) held.frames_to_go -= held.frames_to_go > 0;
    // Room is kept for the arrivals still to come.
    filled += give_out_due(frames.subspan(filled, wanted - filled - (arrived - i - 1)));
  }
  return filled;
}

bool FaultyQueue::hold(MutableBytes frame) {
  if (free_.empty()) {
    counts_.no_buffer.add();
    return false;
  }
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  CHECK_LE(frame.size(), wire_->max_frame_bytes());
  std::memcpy(storage_.data() + std::size_t{buffer} * wire_->max_frame_bytes(), frame.data(), frame.size());
  held_.push_back({.buffer = buffer,
                   .length = static_cast<std::uint32_t>(frame.size()),
                   .frames_to_go = 1 + static_cast<unsigned>(random_.below(faults_.reorder_distance)),
                   .calls_to_go = faults_.reorder_calls});
  return true;
}

std::size_t FaultyQueue::give_out_due(std::span<MutableBytes> frames) {
  std::size_t filled = 0;
  for (std::size_t i = 0; i < held_.size() && filled < frames.size();) {
    const Held held = held_[i];
    if (held.frames_to_go > 0 && held.calls_to_go > 0) {
      ++i;
      continue;
    }
    frames[filled++] =
        MutableBytes(storage_.data() + std::size_t{held.buffer} * wire_->max_frame_bytes(), held.length);
    lent_.push_back(held.buffer);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return filled;
}

void FaultyQueue::flip_bits(MutableBytes frame) {
  if (random_.chance(faults_.corrupt) && is_ipv4(frame)) {
    const std::uint64_t bit = random_.below((frame.size() - kEthernetHeaderBytes) * 8);
    flip_bit(frame[kEthernetHeaderBytes + bit / 8], bit % 8);
    counts_.corrupted.add();
    return;  // its checksum must stay wrong
  }
  if (faults_.flip_past_checksum_every == 0 || frame.size() <= faults_.flip_longer_than_bytes) return;
  const std::optional<MutableBytes> datagram = udp_datagram(frame);
  if (!datagram || datagram->size() < kUdpBytes + 2) return;
  if (++flip_candidates_ % faults_.flip_past_checksum_every != 0) return;
  const std::size_t payload_bytes = datagram->size() - kUdpBytes;
  const std::size_t second_half = payload_bytes - payload_bytes / 2;
  const std::size_t at = kUdpBytes + payload_bytes / 2 + random_.below(second_half);
  flip_and_fix_checksum(*datagram, at, random_.below(8));
  counts_.flipped_past_checksum.add();
}

}  // namespace braid::proxy
