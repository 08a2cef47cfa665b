// A message under way is found by the position where it begins, however many others are; what has arrived is not.
#include "sim/message_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.h"

namespace braid::sim {
namespace {

constexpr ClusterId kFrom{1}, kTo{0};

MessageLog::Index send(MessageLog& log, std::uint32_t position) {
  const MessageLog::Index i = log.make();
  log[i].report.from = kFrom;
  log[i].report.to = kTo;
  log.place(kFrom, kTo, Position(position), i);
  return i;
}

TEST(MessageLog, FindsEachOfAsManyMessagesAsAWindowHolds) {
  constexpr std::uint32_t kGranules = 64;
  MessageLog log(2, 1, kGranules);
  // Two windows' worth, the second when the first has arrived; and positions wrap.
  std::uint32_t begin = ~std::uint32_t{0} - 40;
  for (int round = 0; round < 2; ++round, begin += kGranules) {
    std::vector<MessageLog::Index> sent;
    for (std::uint32_t k = 0; k < kGranules; ++k) sent.push_back(send(log, begin + k));
    for (std::uint32_t k = 0; k < kGranules; ++k) {
      MessageLog::Index found = MessageLog::kNone;
      ASSERT_EQ(log.find(kFrom, kTo, Position(begin + k), &found), &log[sent[k]]) << k;
      EXPECT_EQ(found, sent[k]);
      EXPECT_EQ(log.find(kFrom, kTo, Position(begin + k + kGranules), &found), nullptr);
      EXPECT_EQ(log.find(kTo, kFrom, Position(begin + k), &found), nullptr);
    }
    for (std::uint32_t k = 0; k < kGranules; ++k) {
      log[sent[k]].is_delivered = true;
      MessageLog::Index found = MessageLog::kNone;
      EXPECT_EQ(log.find(kFrom, kTo, Position(begin + k), &found), nullptr) << "it has arrived";
      log.release(sent[k]);
    }
    EXPECT_EQ(log.in_use(), 0u);
  }
}

// Entries are used again while their former places are still in the table of another connection, or of this one.
TEST(MessageLog, AgreesWithAMapOfWhatIsUnderWay) {
  constexpr std::uint32_t kGranules = 256;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    MessageLog log(3, 1, kGranules);
    Prng prng(seed);
    struct Sent {
      ClusterId to;
      std::uint32_t position;
      MessageLog::Index index;
    };
    std::vector<Sent> under_way;
    std::uint32_t next[2] = {0, 1000};
    for (int step = 0; step < 3000; ++step) {
      const auto which = static_cast<std::uint16_t>(prng.below(2));
      const ClusterId to(which == 0 ? 0 : 2);
      const auto same = [&](const Sent& s) { return s.to == to; };
      const auto oldest = std::ranges::find_if(under_way, same);
      const bool fits = oldest == under_way.end() || next[which] + 3 - oldest->position < kGranules;
      if (fits && prng.below(100) < 55) {
        const MessageLog::Index i = log.make();
        log[i].report.from = kFrom;
        log[i].report.to = to;
        log.place(kFrom, to, Position(next[which]), i);
        under_way.push_back({to, next[which], i});
        next[which] += 1 + static_cast<std::uint32_t>(prng.below(3));
      } else if (!under_way.empty()) {
        const auto s = under_way.begin() + static_cast<std::ptrdiff_t>(prng.below(under_way.size()));
        log[s->index].is_delivered = true;
        log.release(s->index);
        under_way.erase(s);
      }
      for (const Sent& s : under_way) {
        MessageLog::Index found = MessageLog::kNone;
        ASSERT_EQ(log.find(kFrom, s.to, Position(s.position), &found), &log[s.index])
            << "seed " << seed << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace braid::sim
