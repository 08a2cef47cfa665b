// Input from a broken or hostile cluster: bytes that are not a message, and messages at times when no engine
// sends them. They are counted and dropped; the engine keeps its invariants and its
// bounds.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

std::size_t payload_of(Kind kind);

// A message with `payload` bytes more than the minimum of its kind.
std::vector<std::byte> message(Kind kind, std::uint32_t id, std::uint32_t number = 0, std::size_t payload = 0,
                               std::uint8_t format = 0) {
  std::vector<std::byte> bytes(kHeaderBytes + payload_of(kind) + payload);
  write_header(bytes, {.kind = kind, .format = format, .id = id, .number = number});
  return bytes;
}

// Joins both to one message.
std::vector<std::byte> in_front(std::vector<std::byte> first, const std::vector<std::byte>& second) {
  write_length(first, first.size());
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

EngineConfig small() {
  return {.clusters = 3,
          .compute_nodes = 2,
          .pages = 6,
          .locks = 4,
          .barriers = 3,
          .flush_window = 2,
          .twins = 4,
          .fetch_ahead = 0,
          .pack = false,
          .words = 4,
          .flags = 4,
          .semaphores = 4,
          .conditions = 4,
          .barrier_fan_out = 1};
}

// The shortest payload of a message of this kind.
std::size_t payload_of(Kind kind) {
  switch (kind) {
    case Kind::kPageReply:
      return kPageBytes;
    case Kind::kBarrierArrive:
    case Kind::kBarrierDepart:
      return kBarrierValueBytes;
    case Kind::kSyncCall:
      return kSyncOperandBytes;
    case Kind::kSyncResult:
      return kSyncValueBytes;
    case Kind::kAllocate:
    case Kind::kRegion:
      return kHomesBytes;
    default:
      return 0;
  }
}

struct Hostile : testing::Test {
  EngineMachine m{small()};
  Engine& engine = m.engine(0);  // homes: page, lock and barrier 0, 3
  std::uint64_t refused(const std::vector<std::byte>& bytes, std::uint16_t from = 1) {
    const std::uint64_t before = engine.counts().bad_messages;
    engine.on_message(ClusterId(from), bytes);
    engine.check();
    return engine.counts().bad_messages - before;
  }
};

TEST_F(Hostile, MalformedMessagesAreCountedAndDropped) {  // PG-19
  EXPECT_EQ(refused({}), 1u);
  EXPECT_EQ(refused(std::vector<std::byte>(kHeaderBytes - 1)), 1u);
  EXPECT_EQ(refused(std::vector<std::byte>(kHeaderBytes)), 1u);              // kind 0
  EXPECT_EQ(refused(message(static_cast<Kind>(kKinds), 0)), 1u);             // a kind that is not one
  EXPECT_EQ(refused(message(Kind::kPageRequest, 0, 0, 1)), 1u);              // longer than its kind
  EXPECT_EQ(refused(message(Kind::kPageReply, 1, 0, ~std::size_t{0})), 1u);  // shorter by one
  EXPECT_EQ(refused(message(Kind::kSyncCall, 0, 0, ~std::size_t{0})), 1u);
  EXPECT_EQ(refused(message(Kind::kSyncResult, 0, 0, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kBarrierArrive, 0, 0, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kRegion, 0, 1, ~std::size_t{0})), 1u);
  EXPECT_EQ(refused(message(Kind::kSyncCall, 0, 0, 0,  // an operation that is none
                            static_cast<std::uint8_t>(kLastSyncOp) + 1)),
            1u);
  for (const std::size_t payload :
       {kVersionBytes, kPageBytes - 1, kPageBytes + kVersionBytes, 2 * kPageBytes,
        reply_payload(PageLength(), 2) + 1, reply_payload(PageLength(), max_reply_pages(PageLength()) + 1)}) {
    std::vector<std::byte> reply(kHeaderBytes + payload);
    write_header(reply, {.kind = Kind::kPageReply, .id = 1});
    EXPECT_EQ(refused(reply), 1u) << payload;  // not of whole pages and their versions, or of too many
  }
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0, 7)), 1u);  // a field that it does not have
  EXPECT_EQ(refused(message(Kind::kDiff, 0, 0, 0, 2)), 1u);   // a format that is not one
  EXPECT_EQ(refused(message(Kind::kDiff, 0, 0, 3)), 1u);      // a diff that is not one
  EXPECT_TRUE(engine.output_clusters().empty());
}

TEST_F(Hostile, FirstRefusalIsKept) {  // PG-27
  EXPECT_EQ(refused(message(Kind::kPageRequest, 3)), 0u);
  EXPECT_FALSE(engine.refusal());
  EXPECT_EQ(refused(message(Kind::kBarrierArrive, 0, 7), 2), 1u);
  EXPECT_EQ(refused(message(Kind::kLockGrant, 3)), 1u);
  ASSERT_TRUE(engine.refusal());
  EXPECT_EQ(engine.refusal()->from, ClusterId(2));
  EXPECT_STREQ(engine.refusal()->what, "an arrival at a barrier");
  EXPECT_EQ(engine.refusal()->id, 0u);
  EXPECT_EQ(engine.refusal()->number, 7u);
  EXPECT_EQ(engine.refusal()->bytes, kHeaderBytes + kBarrierValueBytes);
  EXPECT_NE(std::string(engine.refusal()->why).find("generation"), std::string::npos);
}

TEST_F(Hostile, PackedMessagesAreCheckedIndividually) {  // PG-19, PG-26
  const auto request = message(Kind::kPageRequest, 0);
  const auto nonsense = message(Kind::kPageRequest, 6);
  EXPECT_EQ(refused(in_front(nonsense, in_front(request, nonsense))), 2u);
  std::array<std::byte, max_message_bytes(PageLength())> room;
  EXPECT_EQ(engine.poll_transmit(ClusterId(1), room), kHeaderBytes + kPageBytes);
  // Bytes that are not a message make the rest of the packet unreadable too.
  EXPECT_EQ(refused(in_front(message(static_cast<Kind>(kKinds), 0), message(Kind::kPageRequest, 3))), 1u);
  auto lengths = in_front(message(Kind::kPageRequest, 3), message(Kind::kPageRequest, 3));
  for (const std::size_t wrong : {std::size_t{1}, kHeaderBytes - 1, kHeaderBytes + 1, 2 * kHeaderBytes - 1,
                                  2 * kHeaderBytes, 2 * kHeaderBytes + 1, std::size_t{0xffff}}) {
    write_length(lengths, wrong);
    EXPECT_EQ(refused(lengths), 1u) << wrong;
  }
  EXPECT_TRUE(engine.output_clusters().empty());
}

TEST_F(Hostile, IdsOutOfRangeAndWrongHomesAreRefused) {  // PG-19
  for (const std::uint32_t page : {6u, 1u << 31, ~0u}) {
    EXPECT_EQ(refused(message(Kind::kPageRequest, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kPageReply, page, 1)), 1u);
    EXPECT_EQ(refused(message(Kind::kDiff, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kDiffDone, page, 1)), 1u);
    EXPECT_EQ(refused(message(Kind::kInvalidate, page, 1)), 1u);
    EXPECT_EQ(refused(message(Kind::kInvalidateAck, page, 1)), 1u);
    EXPECT_EQ(refused(message(Kind::kLockRequest, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kLockGrant, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kLockRecall, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kLockProbe, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kLockProbeReply, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kBarrierArrive, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kBarrierDepart, page)), 1u);
    for (const SyncOp op :
         {SyncOp::kWordAdd, SyncOp::kFlagWait, SyncOp::kSemaphorePost, SyncOp::kConditionSignal})
      EXPECT_EQ(refused(message(Kind::kSyncCall, page, 0, 0, static_cast<std::uint8_t>(op))), 1u);
    EXPECT_EQ(refused(message(Kind::kSyncCall, 0, page)), 1u);  // a node that is none
    EXPECT_EQ(refused(message(Kind::kSyncResult, 0, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kAllocate, 1, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kAllocated, 0, page)), 1u);
    EXPECT_EQ(refused(message(Kind::kRegion, page, 1)), 1u);
    EXPECT_EQ(refused(message(Kind::kRegionKnown, page)), 1u);
  }
  EXPECT_EQ(refused(message(Kind::kDiff, 1)), 1u);              // page 1 is not homed here
  EXPECT_EQ(refused(message(Kind::kInvalidate, 0, 1)), 1u);     // page 0 is homed here
  EXPECT_EQ(refused(message(Kind::kInvalidate, 2, 1)), 1u);     // page 2 is not homed at cluster 1
  EXPECT_EQ(refused(message(Kind::kLockRequest, 1)), 1u);       // lock 1 is not managed here
  EXPECT_EQ(refused(message(Kind::kBarrierArrive, 0), 2), 1u);  // in a chain 0-1-2, it is not below this one
  EXPECT_EQ(refused(message(Kind::kSyncCall, 1)), 1u);          // word 1 lives elsewhere
  EXPECT_EQ(refused(message(Kind::kPageRequest, 0), 0), 1u);    // from ourselves
  EXPECT_EQ(refused(message(Kind::kPageRequest, 0), 3), 1u);    // from a cluster that is none
}

TEST_F(Hostile, RunOfPagesIsRefusedAsAWhole) {  // PG-19, PG-21
  const auto run = [](Kind kind, std::uint32_t first, std::size_t pages) {
    return message(kind, first, 1, (pages - 1) * 4);
  };
  m.set_home(1, 3, 1);
  EXPECT_EQ(refused(run(Kind::kInvalidate, 1, 3)), 0u);
  EXPECT_EQ(refused(run(Kind::kInvalidate, 1, 4)), 1u);  // page 4 is another's
  EXPECT_EQ(refused(run(Kind::kInvalidate, 5, 2)), 1u);  // over the end
  EXPECT_EQ(refused(run(Kind::kInvalidate, ~0u, 2)), 1u);
  EXPECT_EQ(refused(run(Kind::kInvalidate, 1, kMaxRunPages + 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kInvalidate, 1, 1, 3)), 1u);  // not a whole version
  EXPECT_EQ(refused(run(Kind::kInvalidateAck, 5, 2)), 1u);
  EXPECT_EQ(refused(run(Kind::kInvalidate, 1, 3)), 0u);
  EXPECT_EQ(refused(run(Kind::kInvalidate, 1, 1)),
            1u);  // six are unanswered: three clusters, a window of two
}

TEST_F(Hostile, RunOfRequestsIsRefusedAsAWhole) {  // PG-19, PG-28
  const auto run = [](std::uint32_t first, std::uint32_t pages) {
    return message(Kind::kPageRequest, first, pages - 1);
  };
  m.set_home(0, 6, 0);
  m.set_home(2, 1, 1);
  EXPECT_EQ(refused(run(1, 3)), 1u);  // more than it has nodes
  EXPECT_EQ(refused(run(1, 2)), 1u);  // page 2 is its own
  EXPECT_EQ(refused(run(5, 2)), 1u);  // over the end
  EXPECT_EQ(refused(run(~0u, 2)), 1u);
  EXPECT_EQ(refused(run(0, 1u << 31)), 1u);
  EXPECT_EQ(refused(run(0, 0)), 1u);  // as many as there are numbers
  EXPECT_TRUE(engine.output_clusters().empty());
  EXPECT_EQ(refused(run(3, 2)), 0u);
  EXPECT_EQ(refused(run(5, 1)), 1u);  // two are unanswered
}

TEST_F(Hostile, RunOfPagesThatWereNotRequestedIsRefusedAsAWhole) {  // PG-19, PG-28
  const auto reply = [](std::uint32_t first, std::size_t pages) {
    std::vector<std::byte> bytes(kHeaderBytes + reply_payload(PageLength(), pages));
    write_header(bytes, {.kind = Kind::kPageReply, .id = first, .number = 1});
    return bytes;
  };
  m.set_home(1, 5, 1);
  EXPECT_FALSE(engine.fault(0, PageId(2), Access::kRead));
  EXPECT_FALSE(engine.fault(1, PageId(3), Access::kRead));
  m.transmit_all();
  EXPECT_EQ(refused(reply(1, 3)), 1u);  // page 1 was not requested
  EXPECT_EQ(refused(reply(2, 3)), 1u);  // nor was page 4
  EXPECT_EQ(refused(reply(3, 4)), 1u);  // over the end
  EXPECT_EQ(refused(reply(~0u, 2)), 1u);
  EXPECT_FALSE(engine.done(0) || engine.done(1));
  EXPECT_EQ(refused(reply(2, 2)), 0u);
  EXPECT_TRUE(engine.done(0) && engine.done(1));
  EXPECT_EQ(refused(reply(2, 2)), 1u);  // it has them now
}

TEST_F(Hostile, InvalidForwardedRequestsAreRefused) {  // PG-19, PG-24
  const auto forwarded = [](std::uint32_t page, std::uint32_t asks, std::uint32_t hops) {
    return message(Kind::kPageForward, page, asks | hops << 16);
  };
  EXPECT_EQ(refused(forwarded(0, 2, 0)), 1u);       // not by anybody
  EXPECT_EQ(refused(forwarded(0, 2, 0xffff)), 1u);  // in circles
  EXPECT_EQ(refused(forwarded(0, 0, 1)), 1u);       // our own
  EXPECT_EQ(refused(forwarded(0, 1, 1)), 1u);       // the sender's own
  EXPECT_EQ(refused(forwarded(0, 3, 1)), 1u);       // of a cluster that is none
  EXPECT_EQ(refused(forwarded(6, 2, 1)), 1u);       // a page that is none
  m.set_home(2, 1, 2);
  EXPECT_EQ(refused(forwarded(2, 2, 1)), 1u);  // the home asks for its own page
  EXPECT_EQ(refused(forwarded(0, 2, 1)), 0u);
  EXPECT_EQ(refused(forwarded(3, 2, 1)), 0u);
  EXPECT_EQ(refused(forwarded(3, 2, 1)), 1u);  // more than it has nodes
}

TEST_F(Hostile, UnrequestedHomeIsRefused) {  // PG-19, PG-22, PG-23
  auto zeros = message(Kind::kPageReply, 1, 0, 0, 1);
  EXPECT_EQ(refused(zeros), 1u);  // with bytes
  zeros.resize(kHeaderBytes);
  EXPECT_EQ(refused(zeros), 1u);
  EXPECT_EQ(refused(message(Kind::kDiffDone, 1, 1, 0, 1)), 1u);
}

TEST_F(Hostile, UnexpectedAnswersAreRefused) {  // PG-19
  EXPECT_EQ(refused(message(Kind::kPageReply, 1, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kDiffDone, 1, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kInvalidateAck, 0, 0)), 1u);
  EXPECT_EQ(refused(message(Kind::kLockGrant, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kLockProbeReply, 0)), 1u);
  EXPECT_EQ(refused(message(Kind::kBarrierDepart, 1, 0)), 1u);
  EXPECT_EQ(refused(message(Kind::kBarrierArrive, 0, 5)), 1u);
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1)), 1u);
  EXPECT_EQ(refused(message(Kind::kAllocated, 0)), 1u);
  EXPECT_EQ(refused(message(Kind::kRegionKnown, 0)), 1u);
  // An answer to a question that has not left yet.
  EXPECT_FALSE(engine.fault(0, PageId(1), Access::kRead));
  EXPECT_EQ(refused(message(Kind::kPageReply, 1, 1)), 1u);
  EXPECT_FALSE(engine.sync(1, {.op = SyncOp::kFlagWait, .id = 1}));
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1, 1)), 1u);
  m.transmit_all();
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1, 1), 2), 1u);     // not from its home
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1, 1, 0, 1)), 1u);  // no wait for a condition
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1, 1)), 0u);
  EXPECT_EQ(refused(message(Kind::kSyncResult, 1, 1)), 1u);
}

TEST_F(Hostile, RequestsBeyondTheNodesOfAClusterAreRefused) {  // PG-19
  EXPECT_EQ(refused(message(Kind::kPageRequest, 0)), 0u);
  EXPECT_EQ(refused(message(Kind::kPageRequest, 3)), 0u);
  EXPECT_EQ(refused(message(Kind::kPageRequest, 3)), 1u);
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0)), 0u);
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0)), 1u);  // it has that lock now
}

TEST_F(Hostile, MessagesOfLocksOutOfPlaceAreRefused) {  // PG-19, LK-1, LK-8
  // Locks 0 and 3 are managed here, 1 by cluster 1, which has one token of it.
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0)), 0u);
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0), 2), 0u);
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0)), 1u);     // its recall has not left
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0), 2), 1u);  // it is the end of the chain
  m.transmit_all();
  EXPECT_EQ(refused(message(Kind::kLockRequest, 0)), 0u);
  EXPECT_FALSE(engine.lock(0, LockId(1)));
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 2)), 1u);  // the request has not left
  m.transmit_all();
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 2), 2), 1u);  // not from the manager
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 0)), 1u);     // to ourselves
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 3)), 1u);     // to a cluster that is none
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 2)), 0u);
  EXPECT_EQ(refused(message(Kind::kLockRecall, 1, 2)), 1u);
  EXPECT_EQ(refused(message(Kind::kLockGrant, 1), 2), 0u);  // from whichever cluster had it
  EXPECT_EQ(refused(message(Kind::kLockGrant, 1), 2), 1u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(refused(message(Kind::kLockProbe, 1), 2), 0u);
  EXPECT_EQ(refused(message(Kind::kLockProbe, 1), 2), 1u);
}

TEST_F(Hostile, DiffsBeyondTheWindowAreRefused) {  // PG-19
  for (std::uint32_t page = 0; page < 6; page += 3) EXPECT_EQ(refused(message(Kind::kDiff, page)), 0u);
  EXPECT_EQ(refused(message(Kind::kDiff, 0)), 1u);  // two are unanswered, the window is 2
}

// Well-formed messages with any content at any time, mixed with operations of the cluster's own nodes. The output
// is drained irregularly, because the bounds must hold without it.
TEST(HostileRandom, NoSequenceOfMessagesBreaksAnInvariantOrABound) {
  static std::uint64_t seed;
  std::signal(SIGABRT,
              [](int) { std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed)); });
  std::uint64_t taken = 0, refused = 0;
  for (seed = 1; seed <= 2000; ++seed) {
    Prng random(seed);
    EngineConfig config = small();
    config.cluster = ClusterId(0);
    config.migrate_after = static_cast<std::uint32_t>(random.below(3));
    config.fetch_ahead = static_cast<std::uint32_t>(random.below(3));
    config.scan_ahead = static_cast<std::uint32_t>(random.below(4));
    config.pack = random.chance(0.5);
    config.run_pages = 1 + static_cast<std::uint32_t>(random.below(3));
    ArrayMemory memory(config.pages);
    Engine engine(config, memory);
    if (random.chance(0.5)) engine.set_home(PageId(1), 4, ClusterId(1));  // neighbours
    if (random.chance(0.3)) engine.set_first_touch(PageId(3), 3);
    std::array<std::byte, max_message_bytes(PageLength())> room;
    std::array<std::vector<std::uint32_t>, 2> held;
    std::vector<std::vector<std::byte>> together;
    std::uint64_t sent = 0;
    const std::uint64_t drain = random.below(8);
    for (int turn = 0; turn < 1500; ++turn) {
      const auto node = static_cast<std::uint16_t>(random.below(2));
      const auto other = static_cast<std::uint16_t>(1 + random.below(2));
      switch (random.below(15)) {
        case 0:
          if (engine.done(node))
            (void)engine.fault(node, PageId(static_cast<std::uint32_t>(random.below(6))),
                               random.chance(0.5) ? Access::kWrite : Access::kRead);
          break;
        case 1:
          if (engine.done(node) && held[node].empty()) {
            held[node].push_back(static_cast<std::uint32_t>(random.below(4)));
            (void)engine.lock(node, LockId(held[node][0]));
          }
          break;
        case 2:
          if (engine.done(node) && !held[node].empty()) {
            engine.unlock(node, LockId(held[node][0]));
            held[node].clear();
          }
          break;
        case 3:
          if (engine.done(node) && held[node].empty() && random.chance(0.1)) {
            (void)engine.barrier(node, BarrierId(random.chance(0.5) ? 0 : 1));
          }
          break;
        case 4:
          for (std::uint32_t p = 0; p < config.pages; ++p)
            if (memory.access(p) == Access::kWrite)
              memory.at(p * kPageBytes + random.below(64)) = std::byte{1};
          break;
        case 5:
          for (std::uint64_t n = random.below(1 + drain); n > 0; --n)
            (void)engine.poll_transmit(ClusterId(other), room);
          break;
        case 6:
          if (engine.done(node)) {
            SyncCall call{.op = static_cast<SyncOp>(random.below(13)),
                          .id = static_cast<std::uint32_t>(random.below(4)),
                          .first = random.below(3),
                          .releases = random.chance(0.3)};
            if (!held[node].empty() && random.chance(0.5)) call.op = SyncOp::kConditionWait;
            if (call.op == SyncOp::kConditionWait) {
              if (held[node].empty()) break;
              call.lock = LockId(held[node][0]);
            }
            (void)engine.sync(node, call);
          }
          break;
        case 7:
          if (engine.done(node) && random.chance(0.2))
            (void)engine.allocate(node, 1 + static_cast<std::uint32_t>(random.below(3)), Homes{});
          break;
        default: {
          const auto kind = static_cast<Kind>(1 + random.below(kKinds - 1));
          const bool diff = kind == Kind::kDiff;
          const bool run = kind == Kind::kInvalidate || kind == Kind::kInvalidateAck;
          const std::size_t more_pages = (kPageBytes + kVersionBytes) * random.below(3);
          const std::size_t payload = diff                       ? 5 * random.below(2)
                                      : run                      ? 4 * random.below(3)
                                      : kind == Kind::kPageReply ? more_pages
                                                                 : 0;
          const bool numbered =
              kind == Kind::kPageRequest || kind == Kind::kPageReply || kind == Kind::kDiffDone ||
              kind == Kind::kInvalidate || kind == Kind::kInvalidateAck || kind == Kind::kLockRecall ||
              (kind >= Kind::kBarrierArrive && kind <= Kind::kRegion) || kind == Kind::kPageForward;
          const std::uint64_t formats =
              kind == Kind::kSyncResult || kind == Kind::kDiffDone || kind == Kind::kInvalidateAck ? 2
              : kind == Kind::kBarrierArrive                                                       ? 3
              : kind == Kind::kSyncCall                                                            ? 13
                                                                                                   : 1;
          auto bytes = message(kind, static_cast<std::uint32_t>(random.below(6)),
                               numbered ? static_cast<std::uint32_t>(random.below(4)) : 0, payload,
                               static_cast<std::uint8_t>(random.below(formats)));
          if (kind == Kind::kPageReply && random.chance(0.1)) {  // the home of a page that is all zeros
            bytes.resize(kHeaderBytes);
            bytes[1] = std::byte{1};
          }
          if (kind == Kind::kPageForward) bytes[10] = static_cast<std::byte>(random.below(3));  // hops
          if (diff && payload != 0) bytes[kHeaderBytes + 2] = std::byte{1};  // a run of one byte
          ++sent;
          if (random.chance(0.1)) {  // others follow in the same message
            together.push_back(std::move(bytes));
            break;
          }
          for (std::size_t i = together.size(); i-- > 0;) bytes = in_front(std::move(together[i]), bytes);
          together.clear();
          engine.on_message(ClusterId(other), bytes);
        }
      }
      engine.check();
    }
    sent -= together.size();
    refused += engine.counts().bad_messages;
    taken += sent - engine.counts().bad_messages;
  }
  std::signal(SIGABRT, SIG_DFL);
  EXPECT_GT(taken, refused / 50) << "the messages must be likely enough to get anywhere";
}

}  // namespace
}  // namespace braid::dsm
