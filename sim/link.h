// One direction of a link, as arithmetic: when a frame that is offered now has arrived at the other end.
//
//     offered        its turn comes        last bit sent           arrives
//     |---- queue ----|---- serialisation ----|---- propagation ----|
//
// Frames are bytes from the Ethernet header to the end of the payload, as NicQueue has them; what goes over
// the wire besides is added here. Nothing is lost but by a full queue or an overlong frame: sim/faults.h
// harms what a link carries.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/ethernet.h"
#include "base/time.h"

namespace braid::sim {

struct LinkConfig {
  std::uint64_t bits_per_second = 10'000'000'000;
  // From the last bit sent to the last bit received; a frame is handed over whole.
  Duration propagation = 5_us;
  // Bytes on the wire that may wait or be in flight into the link, the frame that is just being sent with
  // them; one that does not fit is dropped. The default is what a port of a small switch has for itself.
  std::uint64_t queue_bytes = 512u << 10;
  // The longest IP packet; the Ethernet header comes on top.
  std::uint32_t mtu_bytes = 1500;
};

// IEEE 802.3: what a frame costs on the wire beside its own bytes, and the least that it can be.
inline constexpr std::uint32_t kPreambleBytes = 8;
inline constexpr std::uint32_t kFcsBytes = 4;
inline constexpr std::uint32_t kGapBytes = 12;
inline constexpr std::uint32_t kMinFrameBytes = 60;  // without FCS; shorter ones are padded

// Bytes that a frame occupies the wire for.
constexpr std::uint64_t wire_bytes(std::uint32_t frame_bytes) {
  return std::uint64_t{std::max(frame_bytes, kMinFrameBytes)} + kPreambleBytes + kFcsBytes + kGapBytes;
}

class Link {
 public:
  enum class Verdict : std::uint8_t { kCarried, kQueueFull, kTooLong };
  struct Transit {
    Verdict verdict = Verdict::kCarried;
    Instant begins;  // its turn has come; valid when carried, like the others
    Instant sent;    // its last bit has left
    Instant arrives;
  };

  explicit Link(const LinkConfig& config) : config_(config) {
    CHECK_GT(config.bits_per_second, 0u);
    CHECK_GE(config.queue_bytes, wire_bytes(config.mtu_bytes + kEthernetHeaderBytes));
  }

  const LinkConfig& config() const { return config_; }

  // `now` never goes back from one call to the next.
  Transit offer(Instant now, std::uint32_t frame_bytes) {
    if (frame_bytes > config_.mtu_bytes + kEthernetHeaderBytes) {
      ++dropped_;
      return {Verdict::kTooLong, {}, {}, {}};
    }
    const std::uint64_t bytes = wire_bytes(frame_bytes);
    if (backlog_bytes(now) + bytes > config_.queue_bytes) {
      ++dropped_;
      return {Verdict::kQueueFull, {}, {}, {}};
    }
    if (free_at_ <= now) {
      free_at_ = now;
      remainder_ = 0;
    }
    const Instant begins = free_at_;
    // Whole nanoseconds; what is left over goes to the next frame of the same busy period, so a busy link
    // runs at its exact rate.
    const auto work = static_cast<unsigned __int128>(bytes) * 8 * 1'000'000'000 + remainder_;
    free_at_ = free_at_ + Duration::ns(static_cast<std::int64_t>(work / config_.bits_per_second));
    remainder_ = static_cast<std::uint64_t>(work % config_.bits_per_second);
    ++carried_;
    carried_bytes_ += frame_bytes;
    return {Verdict::kCarried, begins, free_at_, free_at_ + config_.propagation};
  }

  // How long a frame takes to be sent, whatever waits before it.
  Duration serialisation(std::uint32_t frame_bytes) const {
    return Duration::ns(static_cast<std::int64_t>(static_cast<unsigned __int128>(wire_bytes(frame_bytes)) *
                                                  8 * 1'000'000'000 / config_.bits_per_second));
  }

  // Bytes on the wire that are not sent yet; of the frame that is just being sent, the part that is left. The
  // time for which the link is clogged holds no bytes.
  std::uint64_t backlog_bytes(Instant now) const {
    if (free_at_ <= now) return 0;
    Duration busy = free_at_ - now;
    if (clog_ends_ > now) busy = busy - (clog_ends_ - std::max(clog_begins_, now));
    return bytes_in(busy);
  }
  Instant free_at() const { return free_at_; }

  // Clogs the link: what is offered waits at least until then, in order, as far as the queue goes. (Of two
  // clogs with frames between them only the later is known to be no bytes.)
  void clog(Instant now, Instant until) {
    const Instant begins = std::max(free_at_, now);
    if (until <= begins) return;
    if (clog_ends_ <= now || clog_ends_ < begins) clog_begins_ = begins;
    free_at_ = clog_ends_ = until;
    remainder_ = 0;
  }

  std::uint64_t carried() const { return carried_; }
  std::uint64_t carried_bytes() const { return carried_bytes_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::uint64_t bytes_in(Duration time) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(time.ns()) * config_.bits_per_second /
                                      8'000'000'000u);
  }

  LinkConfig config_;
  Instant free_at_;
  Instant clog_begins_;
  Instant clog_ends_;
  std::uint64_t remainder_ = 0;  // of a nanosecond, in 1 / bits_per_second
  std::uint64_t carried_ = 0;
  std::uint64_t carried_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace braid::sim
