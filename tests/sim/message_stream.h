// One direction of a connection as the oracle sees it: which messages were sent, and whether what arrives is one
// of them, unchanged, once, and in order where order was asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace braid::sim {

// The contents of messages: the bytes of each follow from its stream, its number and its length.
class MessageContents {
 public:
  explicit MessageContents(std::uint64_t seed);
  // Valid until the next call. The first four bytes, if there are as many, are the number.
  ByteView of(std::uint64_t stream, std::uint32_t number, std::uint32_t bytes);

  static constexpr std::uint32_t kLongestMessage = 200'000;

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::byte> scratch_;
};

class MessageStream {
 public:
  // `stream` tells streams of one world apart. `contents` lives longer.
  MessageStream(MessageContents& contents, std::uint64_t stream, bool ordered, std::uint32_t planned)
      : contents_(&contents), stream_(stream), ordered_(ordered), planned_(planned) {}

  // The next message is about to be sent: from now on it may arrive. Returns its bytes, which are valid until
  // the next call for any stream of the same contents. `granules`: that it takes of the receiver's window; 0: it
  // is longer than a piece, and the window is not checked any more.
  ByteView offer(Instant now, std::uint32_t bytes, std::uint32_t granules);
  // The message was sent, or never will be.
  void confirm() { ++sent_; }
  void withdraw();

  struct Delivery {
    std::string wrong;  // empty: nothing is
    std::uint32_t number = 0;
    Duration took{};
  };
  // A message has arrived.
  Delivery deliver(Instant now, ByteView message);

  std::uint32_t planned() const { return planned_; }
  std::uint32_t sent() const { return sent_; }
  std::uint32_t delivered() const { return delivered_; }
  bool all_sent() const { return sent_ >= planned_; }
  bool is_missing_any() const { return !outstanding_.empty(); }
  // In flight, of messages that are no longer than a piece.
  std::uint32_t granules_in_flight() const { return granules_; }
  bool has_long() const { return has_long_; }

 private:
  struct Message {
    std::uint32_t number;
    std::uint32_t bytes;
    std::uint32_t granules;
    bool delivered;
    Instant sent_at;
  };
  using Found = std::deque<Message>::iterator;

  ByteView content(const Message& m) { return contents_->of(stream_, m.number, m.bytes); }
  // The outstanding message that this is; end(), with `wrong` set: none.
  Found find(ByteView message, std::string* wrong);

  MessageContents* contents_;
  std::uint64_t stream_;
  bool ordered_;
  std::uint32_t planned_;
  std::uint32_t sent_ = 0;
  std::uint32_t delivered_ = 0;
  std::uint32_t granules_ = 0;
  bool has_long_ = false;
  std::deque<Message> outstanding_;  // sent; the first is not delivered
};

}  // namespace braid::sim
