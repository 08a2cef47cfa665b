// The messages by which a node of another cluster can acquire, in the lazy protocol, and the notices that belong to them.
// From a cluster to another such messages are numbered; the notices that leave before one have its
// number, and it says how many they are. A message is handled when its notices and all earlier messages are
// there, whatever the order in which they arrive:
//
//     arrived      notice 5   notice 4   message 5 (1 notice)   notice 4   message 4 (2 notices)
//     handled                                                              4, 5
//
// At most three messages for each compute node (a call, a result, a lock's token) and two for a barrier can be
// unhandled: their nodes wait for what follows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/mutant.h"
#include "base/zeroed_table.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Acquires {
 public:
  explicit Acquires(const EngineConfig& config)
      : self_(config.cluster),
        window_(3 * std::uint32_t{config.compute_nodes} + 2),
        slots_(std::bit_ceil(window_)),
        sent_(config.clusters),
        handled_(config.clusters),
        held_(config.protocol == Protocol::kLazy ? std::size_t{config.clusters} * slots_ : 0) {}

  // --- Sending
  // The number of the next message to that cluster, for a notice that leaves before it.
  std::uint32_t notice_sent(ClusterId to) {
    ++sent_[to.value()].notices;
    return sent_[to.value()].number + 1;
  }
  // The message leaves: writes its place.
  std::size_t write_place(ClusterId to, MutableBytes room) {
    Sent& s = sent_[to.value()];
    store(room.data(), ++s.number);
    store(room.data() + sizeof s.number, s.notices);
    s.notices = 0;
    return kPlaceBytes;
  }

  // --- Receiving. False: the message is invalid now; nothing was changed.
  // Of a notice that belongs to the message of that number.
  [[nodiscard]] bool on_notice(ClusterId from, std::uint32_t number) {
    Held* const h = find(from, number);
    if (h == nullptr || (h->here && h->missing == 0)) return mutant(Mutant::kAcquireEarly);
    --h->missing;
    return true;
  }
  // Keeps the message, whose payload ends in its place, for pop().
  [[nodiscard]] bool on_message(ClusterId from, const Header& header, ByteView payload) {
    const std::size_t bytes = payload.size() - kPlaceBytes;
    const ByteView place = payload.subspan(bytes);
    const auto notices = load<std::uint32_t>(&place[sizeof(std::uint32_t)]);
    Held* const h = find(from, load<std::uint32_t>(place.data()));
    // So many have come; more can be expected, not fewer.
    if (h == nullptr || h->here || notices + h->missing > kMaxNotices) return false;
    h->here = true;
    h->missing += notices;
    h->header = header;
    h->bytes = static_cast<std::uint8_t>(bytes);
    std::copy_n(payload.begin(), bytes, h->payload.begin());
    return true;
  }
  struct Message {
    Header header;
    std::array<std::byte, kMaxOwnPayloadBytes> bytes;
    std::size_t length;
    ByteView payload() const { return ByteView(bytes).first(length); }
  };
  // The next message of that cluster, if it can be handled now.
  std::optional<Message> pop(ClusterId from) {
    Held& h = *find(from, handled_[from.value()] + 1);
    if (!h.here || (h.missing != 0 && !mutant(Mutant::kAcquireEarly))) return std::nullopt;
    const Message message{.header = h.header, .bytes = h.payload, .length = h.bytes};
    h = {};
    ++handled_[from.value()];
    return message;
  }

  bool quiet() const {
    return std::ranges::none_of(held_, [](const Held& h) { return h.here || h.missing != 0; });
  }
  void describe(StateSink& sink) const {
    if (held_.size() == 0) return;
    for (std::uint16_t c = 0; c < sent_.size(); ++c) {
      const ClusterId other(c);
      sink.place(self_, other, sent_[c].number);
      sink.value(sent_[c].notices);
      sink.place(other, self_, handled_[c]);
      for (std::uint32_t i = 1; i <= window_; ++i) {
        const Held& h = held_[index(other, handled_[c] + i)];
        if (!h.here && h.missing == 0) continue;
        sink.values(i, h.here, h.missing);
        if (!h.here) continue;
        sink.values(h.header.kind, h.header.format, h.header.id, h.header.number);
        sink.bytes(ByteView(h.payload).first(h.bytes));
      }
      sink.value(0);
    }
  }

 private:
  // No engine sends more for a message; less than half of the numbers, so that `missing` has a sign.
  static constexpr std::uint32_t kMaxNotices = 1u << 30;

  struct Sent {
    std::uint32_t number = 0;   // of the last message; wraps
    std::uint32_t notices = 0;  // that have left before the next one
  };
  struct Held {
    bool here = false;
    std::uint8_t bytes = 0;
    std::uint32_t missing = 0;  // notices; below zero (modulo 2^32) while they are ahead of the message
    Header header;
    std::array<std::byte, kMaxOwnPayloadBytes> payload{};
  };

  std::size_t index(ClusterId from, std::uint32_t number) const {
    return std::size_t{from.value()} * slots_ + (number & (slots_ - 1));
  }
  Held* find(ClusterId from, std::uint32_t number) {
    const std::uint32_t ahead = number - handled_[from.value()];
    return held_.size() == 0 || ahead == 0 || ahead > window_ ? nullptr : &held_[index(from, number)];
  }

  const ClusterId self_;
  const std::uint32_t window_;
  const std::uint32_t slots_;           // a power of two: numbers wrap
  std::vector<Sent> sent_;              // by cluster
  std::vector<std::uint32_t> handled_;  // by cluster: the number of its last message
  ZeroedTable<Held> held_;  // by cluster and number; memory follows the clusters that are heard from
};

}  // namespace braid::dsm
