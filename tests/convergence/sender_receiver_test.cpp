// A sender and a receiver with what lies between them in a cluster: pieces are dispatched over several
// sub-connections, cut into records, overtaken and doubled. Every message arrives once, whole, and in order
// where that was asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/prng.h"
#include "convergence/dispatch.h"
#include "convergence/receiver.h"
#include "convergence/sender.h"

namespace braid::convergence {
namespace {

using stack::Record;
using Bytes = std::vector<std::byte>;

// Message number `n` of its run; its length and bytes follow from the seed.
Bytes message(std::uint64_t seed, std::uint32_t n, std::uint32_t bytes) {
  Bytes out(bytes);
  Prng prng(seed * 1'000'003 + n);
  std::size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) store(out.data() + i, prng.next());
  for (; i < out.size(); ++i) out[i] = static_cast<std::byte>(prng.next());
  return out;
}

struct Channel {
  Channel(std::uint64_t s, bool in_order, std::uint32_t window_bytes, Position start)
      : seed(s),
        prng(s),
        ordered(in_order),
        window(window_bytes),
        sender(window_bytes, start),
        buffer(window_bytes),
        receiver(buffer, in_order, start) {}

  struct Packet {
    Record record;
    Bytes bytes;
    bool copy = false;
  };

  // Sends as a client does: in one piece if it can be one, else in shorter ones. True when all of it has been handed over.
  bool send_some() {
    const Bytes& m = outgoing.front();
    const auto total = static_cast<std::uint32_t>(m.size());
    const bool many = total > sender.max_run_bytes();
    do {
      const std::uint32_t bytes = many ? std::min(total - offset, sender.max_piece_bytes()) : total;
      const auto place = sender.place(bytes);
      if (!place) return false;
      if (offset == 0) first = place->position;
      sender.sent(*place, bytes);
      cut(*place, bytes, many ? first : place->position, many ? total : bytes, many ? offset : 0, many,
          m.data() + offset);
      offset += bytes;
    } while (offset < total);
    offset = 0;
    outgoing.pop_front();
    return true;
  }

  // Cuts a piece as the window layer does: into records of whole granules, except the last.
  void cut(const Sender::Place& place, std::uint32_t bytes, Position message_at, std::uint32_t message_bytes,
           std::uint32_t message_offset, bool many, const std::byte* data) {
    std::uint32_t at = 0;
    do {
      std::uint32_t take = bytes - at;
      if (prng.chance(0.5) && take > 64)
        take = 64 * static_cast<std::uint32_t>(1 + prng.below((take - 1) / 64));
      if (take > 8192) take = 8192;
      Packet p;
      p.record.position = place.position + at / kGranuleBytes;
      p.record.skip = at == 0 ? place.skip : std::uint16_t{0};
      p.record.bytes = static_cast<std::uint16_t>(take);
      p.record.message = message_at;
      p.record.message_bytes = message_bytes;
      p.record.message_offset = message_offset + at;
      p.record.many_pieces = many;
      p.bytes.assign(data + at, data + at + take);
      in_flight.push_back(std::move(p));
      at += take;
    } while (at < bytes);
  }

  // One record arrives, not always the oldest, and now and then once more later.
  void arrive() {
    const std::size_t i = prng.chance(0.5) ? 0 : prng.below(in_flight.size());
    Packet p = in_flight[i];
    in_flight.erase(in_flight.begin() + static_cast<long>(i));
    // The proxy's check: what lies outside the window is not written.
    const std::int32_t ahead = p.record.position - receiver.consumed();
    const std::uint32_t granules = granules_of(p.record.bytes);
    if (ahead < 0 || static_cast<std::uint32_t>(ahead) + granules > window / kGranuleBytes) {
      ASSERT_TRUE(p.copy) << "the sender kept to its credit";
      return;
    }
    const std::size_t at = std::size_t{p.record.position.value() % (window / kGranuleBytes)} * kGranuleBytes;
    ASSERT_LE(at + p.bytes.size(), buffer.size());
    std::copy(p.bytes.begin(), p.bytes.end(), buffer.begin() + static_cast<long>(at));
    const Accepted accepted = receiver.on_arrival(p.record);
    ASSERT_EQ(accepted, p.copy ? Accepted::kDuplicate : Accepted::kNew);
    if (prng.chance(0.1)) {
      p.copy = true;
      in_flight.push_back(std::move(p));
    }
    take();
  }

  void take() {
    while (const auto m = receiver.next()) {
      Bytes got(m->begin(), m->end());
      if (ordered) {
        ASSERT_LT(delivered, expected.size());
        ASSERT_EQ(got, expected[delivered]) << "message " << delivered;
      } else {
        // Its number is nowhere in it: it is the first of the open ones with these bytes.
        const auto found =
            std::find_if(expected.begin(), expected.end(), [&](const Bytes& e) { return e == got; });
        ASSERT_NE(found, expected.end()) << "never sent, or delivered twice";
        expected.erase(found);
      }
      ++delivered;
    }
    receiver.check();
    if (const auto due = receiver.credit_due()) {
      receiver.credit_returned(*due);
      credits.push_back(*due);
    }
  }

  void run(const std::vector<std::uint32_t>& lengths) {
    std::uint32_t n = 0;
    for (const std::uint32_t bytes : lengths) {
      outgoing.push_back(message(seed, n++, bytes));
      expected.push_back(outgoing.back());
    }
    while (!outgoing.empty() || !in_flight.empty()) {
      const bool sent = !outgoing.empty() && prng.chance(0.4) && send_some();
      if (!in_flight.empty()) {
        arrive();
        if (testing::Test::HasFatalFailure()) return;
      } else if (!sent && credits.empty() && !outgoing.empty()) {
        ASSERT_TRUE(send_some() || !in_flight.empty()) << "nothing in flight, no credit on its way, no place";
      }
      // Credits travel in any order too, some twice.
      while (!credits.empty() && (prng.chance(0.3) || in_flight.empty())) {
        const std::size_t i = prng.below(credits.size());
        ASSERT_TRUE(sender.on_credit(credits[i]));
        if (!prng.chance(0.1)) credits.erase(credits.begin() + static_cast<long>(i));
      }
    }
    EXPECT_EQ(delivered, lengths.size());
  }

  std::uint64_t seed;
  Prng prng;
  bool ordered;
  std::uint32_t window;
  Sender sender;
  Bytes buffer;
  Receiver receiver;
  std::deque<Bytes> outgoing;
  std::uint32_t offset = 0;  // of the front message, handed over so far
  Position first;
  std::deque<Packet> in_flight;
  std::vector<Position> credits;
  std::vector<Bytes> expected;
  std::size_t delivered = 0;
};

void run(std::uint64_t seed, bool ordered, std::uint32_t longest, int messages) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << (ordered ? ", ordered" : ", unordered"));
  Prng prng(seed ^ 0x5555);
  const std::uint32_t window = kMinWindowBytes << prng.below(7);
  // Somewhere before the wrap, so that most runs cross it.
  const Position start(0u - static_cast<std::uint32_t>(prng.below(4 * window / kGranuleBytes)));
  Channel channel(seed, ordered, window, start);
  std::vector<std::uint32_t> lengths;
  for (int i = 0; i < messages; ++i) {
    const std::uint32_t most = longest >> prng.below(21);
    lengths.push_back(static_cast<std::uint32_t>(prng.below(most + 1)));
  }
  channel.run(lengths);
}

TEST(SenderAndReceiver, OrderedMessagesArriveOnceWholeAndInOrder) {  // CV-2, CV-3, CV-4, CV-6, CV-7, CV-8
  for (std::uint64_t seed = 1; seed <= 60; ++seed) run(seed, true, 1 << 20, 60);
}

TEST(SenderAndReceiver, UnorderedMessagesArriveOnceAndWhole) {  // CV-2, CV-3, CV-5, CV-6, CV-7, CV-8
  for (std::uint64_t seed = 1; seed <= 60; ++seed) run(seed, false, 1 << 20, 60);
}

TEST(SenderAndReceiver, ManyShortMessages) {  // CV-2, CV-3, CV-4, CV-5, CV-6
  for (std::uint64_t seed = 200; seed < 210; ++seed) {
    run(seed, true, 2000, 2000);
    run(seed, false, 2000, 1000);
  }
}

}  // namespace
}  // namespace braid::convergence
