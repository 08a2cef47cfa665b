#include "tests/sim/message_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/prng.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

namespace {

constexpr std::size_t kContentBytes = 512u << 10;
constexpr std::size_t kNumberBytes = 4;

}  // namespace

MessageContents::MessageContents(std::uint64_t seed) : bytes_(kContentBytes), scratch_(kLongestMessage) {
  Prng prng(seed);
  for (std::size_t i = 0; i < bytes_.size(); i += 8) store(bytes_.data() + i, prng.next());
}

ByteView MessageContents::of(std::uint64_t stream, std::uint32_t number, std::uint32_t bytes) {
  const std::uint64_t at = mix(stream, number) % (bytes_.size() - kLongestMessage);
  if (bytes < kNumberBytes) return {bytes_.data() + at, bytes};
  std::memcpy(scratch_.data(), bytes_.data() + at, bytes);
  store(scratch_.data(), number);
  return {scratch_.data(), bytes};
}

ByteView MessageStream::offer(Instant now, std::uint32_t bytes, std::uint32_t granules) {
  outstanding_.push_back({sent_, bytes, granules, false, now});
  granules_ += granules;
  has_long_ = has_long_ || granules == 0;
  return content(outstanding_.back());
}

void MessageStream::withdraw() {
  granules_ -= outstanding_.back().granules;
  outstanding_.pop_back();
}

MessageStream::Found MessageStream::find(ByteView message, std::string* wrong) {
  const std::uint32_t number = message.size() >= kNumberBytes ? load<std::uint32_t>(message.data()) : 0;
  const auto may_be = [&](const Message& m) {
    return !m.delivered && m.bytes == message.size() && (m.bytes < kNumberBytes || m.number == number);
  };
  const auto none = outstanding_.end();
  if (outstanding_.empty()) {
    *wrong = fmt::format("message {} of {} bytes comes, and none is missing", number, message.size());
    return none;
  }
  const Found first = outstanding_.begin();
  if (ordered_) {
    if (may_be(*first)) return first;
    *wrong = fmt::format("message {} of {} bytes comes where {} of {} bytes is next", number, message.size(),
                         first->number, first->bytes);
    return none;
  }
  if (message.size() >= kNumberBytes) {
    const std::uint32_t index = number - first->number;
    if (index < outstanding_.size() && may_be(outstanding_[index]))
      return first + static_cast<std::ptrdiff_t>(index);
    *wrong = fmt::format("message {} of {} bytes comes, which is not missing", number, message.size());
    return none;
  }
  const Found found = std::find_if(first, none, [&](const Message& m) {
    if (!may_be(m)) return false;
    const ByteView expected = content(m);
    return std::equal(message.begin(), message.end(), expected.begin());
  });
  if (found == none)
    *wrong = fmt::format("a message of {} bytes comes, and none like it is missing", message.size());
  return found;
}

MessageStream::Delivery MessageStream::deliver(Instant now, ByteView message) {
  Delivery delivery;
  const Found found = find(message, &delivery.wrong);
  if (found == outstanding_.end()) return delivery;
  delivery.number = found->number;
  delivery.took = now - found->sent_at;
  const ByteView expected = content(*found);
  if (!std::equal(message.begin(), message.end(), expected.begin())) {
    delivery.wrong =
        fmt::format("message {} of {} bytes is not what was sent", found->number, message.size());
    return delivery;
  }
  found->delivered = true;
  granules_ -= found->granules;
  ++delivered_;
  while (!outstanding_.empty() && outstanding_.front().delivered) outstanding_.pop_front();
  return delivery;
}

}  // namespace braid::sim
