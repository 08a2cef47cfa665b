// Random faults for the frames of one direction of a link, from a seed.
//
// The driver offers a frame to the link (sim/link.h), asks a FaultModel for the frame's
// fate, and applies it: loses the frame, delivers it late or twice, or changes a byte.
// Periods in which nothing passes (cuts) or everything waits (clogs) also occur at
// random, or by the driver's call: cut() of both directions is a partition in two.
//
// Lost frames use the link nevertheless, as on a real one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/bytes.h"
#include "base/check.h"
#include "base/prng.h"
#include "base/time.h"

namespace braid::sim {

// Recurring periods of a fault; times are exponentially distributed, with these means. `every` zero: none.
struct Stretches {
  Duration every{};   // from the end of one to the beginning of the next
  Duration length{};  // of one
  bool any() const { return every > Duration() && length > Duration(); }
};

// Probabilities are in [0, 1] and per frame.
struct FaultConfig {
  double loss = 0;
  // Bursts of loss (the two states of Gilbert and Elliott): each frame may move the
  // channel into or out of the bad state, where a frame is lost with another probability.
  double burst_begins = 0;
  double burst_ends = 0.2;
  double burst_loss = 0.9;
  // The frame arrives a second time, up to duplicate_within later.
  double duplicate = 0;
  Duration duplicate_within = 100_us;
  // The frame is delayed by up to reorder_within, so later ones overtake it.
  double reorder = 0;
  Duration reorder_within = 100_us;
  // One byte of the frame, headers included, is changed. A real NIC detects
  // nearly all of these by the FCS; Braid's checksums must detect the others.
  double corrupt = 0;
  // An additional delay, exponentially distributed; it does not delay later frames.
  double spike = 0;
  Duration spike_mean = 1_ms;
  // Nothing passes.
  Stretches cuts{};
  // Everything waits until the end, in order.
  Stretches clogs{};

  bool any() const {
    return loss > 0 || burst_begins > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || spike > 0 ||
           cuts.any() || clogs.any();
  }
};

// Exponentially distributed with this mean; at least one nanosecond.
inline Duration exponential(Prng& random, Duration mean) {
  const double ns = -std::log(1.0 - random.uniform()) * static_cast<double>(mean.ns());
  return Duration::ns(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(ns, 9e17))));
}

// The fate of one frame.
struct Fate {
  static constexpr unsigned kMaxCopies = 2;
  enum class Lost : std::uint8_t { kNot, kByChance, kInBurst, kCut };
  Lost lost = Lost::kNot;
  unsigned copies = 1;  // 0 when lost
  // In addition to the link's delay, by copy. The first copy is the frame itself.
  std::array<Duration, kMaxCopies> delay{};
  bool corrupt = false;  // every copy
  std::uint32_t corrupt_at = 0;
  std::byte corrupt_by{};  // applied by exclusive or; not zero

  void harm(MutableBytes frame) const {
    if (corrupt) frame[corrupt_at] ^= corrupt_by;
  }
};

class FaultModel {
 public:
  FaultModel(const FaultConfig& config, std::uint64_t seed)
      : config_(config),
        random_(seed),
        cuts_(config.cuts, seed ^ 0x63757473),
        clogs_(config.clogs, ~seed),
        any_(config.any()) {
    for (const double p : {config.loss, config.burst_begins, config.burst_ends, config.burst_loss,
                           config.duplicate, config.reorder, config.corrupt, config.spike}) {
      CHECK_GE(p, 0.0);
      CHECK_LE(p, 1.0);
    }
  }

  const FaultConfig& config() const { return config_; }

  // False: nothing would happen to a frame now, so neither strike() nor clogged_until() need be called.
  bool may_harm(Instant now) const { return any_ || now < cut_until_; }
  // The fate of a frame that leaves at `now`; `now` must not decrease from one call to the next.
  Fate strike(Instant now, std::uint32_t frame_bytes) {
    Fate fate;
    fate.lost = lost(now);
    if (fate.lost != Fate::Lost::kNot) {
      fate.copies = 0;
      return fate;
    }
    if (strikes(config_.reorder)) fate.delay[0] += up_to(config_.reorder_within);
    if (strikes(config_.spike)) fate.delay[0] += exponential(random_, config_.spike_mean);
    if (strikes(config_.duplicate)) {
      fate.copies = 2;
      fate.delay[1] = fate.delay[0] + up_to(config_.duplicate_within);
    }
    if (frame_bytes > 0 && strikes(config_.corrupt)) {
      fate.corrupt = true;
      fate.corrupt_at = static_cast<std::uint32_t>(random_.below(frame_bytes));
      fate.corrupt_by = static_cast<std::byte>(1 + random_.below(255));
    }
    return fate;
  }

  // Nothing passes until then.
  void cut(Instant until) { cut_until_ = std::max(cut_until_, until); }
  bool is_cut(Instant now) { return now < cut_until_ || cuts_.until(now) > now; }
  // When the current clog ends; `now` if there is none. For Link::clog() before a frame is offered.
  Instant clogged_until(Instant now) { return std::max(now, clogs_.until(now)); }
  // Ends all faults; frames in flight are not affected.
  void stop() {
    config_ = {};
    any_ = false;
    cuts_ = clogs_ = Process({}, 0);
    cut_until_ = Instant();
    bad_ = false;
  }

 private:
  // Alternating periods without and with a fault, of random lengths. Each Process
  // has its own generator, so the number of frames does not change the periods.
  class Process {
   public:
    Process(const Stretches& stretches, std::uint64_t seed) : stretches_(stretches), random_(seed) {}
    // The end of the fault period that contains `now`; otherwise an instant not after `now`.
    Instant until(Instant now) {
      if (!stretches_.any()) return now;
      if (!begun_) {
        begun_ = true;
        draw(now);
      }
      while (ends_ <= now) draw(ends_);
      return begins_ <= now ? ends_ : now;
    }

   private:
    void draw(Instant from) {
      begins_ = from + exponential(random_, stretches_.every);
      ends_ = begins_ + exponential(random_, stretches_.length);
    }
    Stretches stretches_;
    Prng random_;
    bool begun_ = false;
    Instant begins_;
    Instant ends_;
  };

  bool strikes(double p) { return p > 0 && random_.chance(p); }
  Duration up_to(Duration most) {
    return Duration::ns(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.ns()) + 1)));
  }
  Fate::Lost lost(Instant now) {
    if (is_cut(now)) return Fate::Lost::kCut;
    if (strikes(config_.loss)) return Fate::Lost::kByChance;
    if (config_.burst_begins > 0) {
      bad_ = bad_ ? !random_.chance(config_.burst_ends) : random_.chance(config_.burst_begins);
      if (bad_ && random_.chance(config_.burst_loss)) return Fate::Lost::kInBurst;
    }
    return Fate::Lost::kNot;
  }

  FaultConfig config_;
  Prng random_;
  Process cuts_;
  Process clogs_;
  Instant cut_until_;
  bool bad_ = false;
  bool any_;  // of config_
};

}  // namespace braid::sim
