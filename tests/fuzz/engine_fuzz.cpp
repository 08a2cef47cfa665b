// Two clusters' page engines, and a third cluster that sends both what the input chooses, in its own name or in
// the other's: any bytes, and messages of the right form that are not expected. Messages between the two are
// damaged on the way now and then. Their compute nodes go on as they may. The engines refuse and
// count, keep their invariants and bounds, reach no byte outside their pages (the sanitizers see to that),
// and write only messages that can be read.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/check.h"
#include "dsm/engine/engine.h"
#include "dsm/engine/messages.h"
#include "tests/dsm/array_memory.h"
#include "tests/dsm/page_bytes.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"

namespace braid {
namespace {

using dsm::Access;
using dsm::Engine;
using dsm::Kind;
using fuzz::Input;
using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kEngines = 2;
constexpr std::uint16_t kUnknownCluster = 2;
constexpr std::uint16_t kNodes = 2;
constexpr std::uint32_t kPages = 8;
constexpr std::uint32_t kTaken = 5;  // together, at the beginning
constexpr std::uint32_t kEach = 4;   // locks, words and the like
constexpr std::size_t kMaxInFlight = 32;
constexpr std::uint32_t kRecent = 8;  // messages of each engine that forgeries answer

dsm::EngineConfig drawn(Input& in) {
  const std::uint32_t flush_window = 1 + in.below(3);
  const std::uint32_t local_handoffs = in.below(3);
  return {.clusters = 3,
          .compute_nodes = kNodes,
          .protocol = in.truth() ? dsm::Protocol::kLazy : dsm::Protocol::kEager,
          .pages = kPages,
          .locks = kEach,
          .barriers = kEach,
          .flush_window = flush_window,
          .local_handoffs = local_handoffs,
          .lease_uses = 2 - local_handoffs,  // with 2 of them a second round can begin
          .lease_time = Duration::ns(local_handoffs == 0 ? 1 : 0),
          .twins = 4,
          .migrate_after = in.below(3),
          .fetch_ahead = in.below(3),
          .scan_ahead = 0,
          .pack = in.truth(),
          .lock_words = 2,
          .words = kEach,
          .flags = kEach,
          .semaphores = kEach,
          .conditions = kEach,
          .barrier_fan_out = 1 + in.below(2)};
}

dsm::Homes homes(Input& in) {
  return {static_cast<dsm::Homes::Kind>(in.below(4)), ClusterId(static_cast<std::uint16_t>(in.below(3)))};
}

class Cluster {
 public:
  explicit Cluster(const dsm::EngineConfig& config)
      : config_(config), memory_(kPages), engine_(config, memory_) {}

  Engine& engine() { return engine_; }

  // A compute node does something that a program may do.
  void act(Input& in) {
    const auto node = static_cast<std::uint16_t>(in.below(kNodes));
    if (!engine_.done(node)) return;
    Node& n = nodes_[node];
    if (n.allocates != 0) got_pages(node);
    switch (in.below(8)) {
      case 0:
      case 1:
        touch(node, in);
        break;
      case 2:
        if (const dsm::LockId lock(in.below(kEach)); !engine_.holds(node, lock)) {
          if (!engine_.take_open_lock(node, lock)) (void)engine_.lock(node, lock);
          n.locks.push_back(lock);
        }
        break;
      case 3:
        if (!n.locks.empty()) {
          if (!engine_.free_open_lock(node, n.locks.back())) engine_.unlock(node, n.locks.back());
          n.locks.pop_back();
        }
        break;
      case 4:
        (void)engine_.barrier(node, dsm::BarrierId(in.below(kEach)), static_cast<dsm::Reduction>(in.below(4)),
                              in.byte());
        break;
      case 5:
        call(node, in);
        break;
      case 6:
        n.allocates = 1 + in.below(2);
        (void)engine_.allocate(node, n.allocates, homes(in));
        break;
      default:
        write(in);
        break;
    }
  }

  // The engine's next output for `to`, if any, which must be readable.
  Bytes next_for(ClusterId to) {
    Bytes room(dsm::max_message_bytes(dsm::PageLength()));
    room.resize(engine_.poll_transmit(to, room));
    for (ByteView rest = room; !rest.empty();) {
      const auto message = dsm::parse(dsm::PageLength(), rest);
      CHECK(message);
      fuzz::digest(rest);
      rest = message->rest;
    }
    return room;
  }

  // The message is a block of its own, so that the sanitizer knows where it ends.
  void receive(ClusterId from, const Bytes& message) {
    const std::uint64_t before = engine_.counts().bad_messages;
    engine_.on_message(from, message);
    if (engine_.counts().bad_messages == before) return;
    CHECK(engine_.refusal());
    CHECK(engine_.refusal()->what[0] != '\0' && engine_.refusal()->why[0] != '\0');
  }

 private:
  struct Node {
    std::vector<dsm::LockId> locks;
    std::uint32_t allocates = 0;
  };

  void touch(std::uint16_t node, Input& in) {
    const std::uint32_t page = in.below(kPages);
    const Access wanted = in.truth() ? Access::kWrite : Access::kRead;
    if (memory_.access(page) < wanted) (void)engine_.fault(node, PageId(page), wanted);
  }
  // Anywhere that is open for it.
  void write(Input& in) {
    const std::uint32_t page = in.below(kPages);
    if (memory_.access(page) == Access::kWrite)
      memory_.at(page * dsm::kPageBytes + in.byte() * 16u) = static_cast<std::byte>(in.byte());
  }
  void call(std::uint16_t node, Input& in) {
    dsm::SyncCall call{.op = static_cast<dsm::SyncOp>(in.below(13)),
                       .id = in.below(kEach),
                       .first = in.below(3),
                       .second = in.byte(),
                       .releases = in.truth()};
    if (call.op == dsm::SyncOp::kConditionWait) {
      if (nodes_[node].locks.empty()) return;
      call.lock = nodes_[node].locks.back();
    }
    (void)engine_.sync(node, call);
  }
  // A program will use them, whoever the answer came from.
  void got_pages(std::uint16_t node) {
    Node& n = nodes_[node];
    const std::uint64_t first = engine_.result(node);
    if (first != dsm::kNoPages) CHECK_LE(first + n.allocates, kPages - engine_.free_pages());
    n.allocates = 0;
  }

  const dsm::EngineConfig config_;
  dsm::ArrayMemory memory_;
  Engine engine_;
  std::array<Node, kNodes> nodes_;
};

class EngineFuzzWorld {
 public:
  explicit EngineFuzzWorld(Input& in) {
    dsm::EngineConfig config = drawn(in);
    for (std::uint16_t c = 0; c < kEngines; ++c) {
      config.cluster = ClusterId(c);
      clusters_[c] = std::make_unique<Cluster>(config);
    }
    const dsm::Homes where = homes(in);
    for (const auto& cluster : clusters_)
      CHECK(cluster->engine().allocate_together(kTaken, where) == PageId(0));
  }

  void run(Input& in) {
    while (!in.empty()) {
      const auto at = static_cast<std::uint16_t>(in.below(kEngines));
      switch (in.below(8)) {
        case 0:
        case 1:
        case 2:
          clusters_[at]->act(in);
          break;
        case 3:
        case 4:
          pass_on(at, in);
          break;
        case 5:
          remember(at, clusters_[at]->next_for(ClusterId(kUnknownCluster)));
          break;
        case 6:
          clusters_[at]->receive(forged_source(at, in), copied(in.some_bytes(64)));
          break;
        default: {
          const ClusterId from = forged_source(at, in);
          const Bytes message = made_up(at, in);
          // Now and then often enough to fill a queue that has no bound.
          for (std::uint32_t times = in.below(16) == 0 ? 100 : 1; times > 0; --times)
            clusters_[at]->receive(from, message);
          break;
        }
      }
      if (++operations_ % kOperationsPerCheck == 0) check();
    }
    check();
  }

 private:
  // A violated invariant stays so: a search may see it a little later. The replay of an input checks more often.
#ifdef BRAID_FUZZ
  static constexpr std::uint32_t kOperationsPerCheck = 8;
#else
  static constexpr std::uint32_t kOperationsPerCheck = 1;
#endif
  void check() {
    for (const auto& cluster : clusters_) cluster->engine().check();
  }
  static Bytes copied(ByteView bytes) {
    return {bytes.begin(), bytes.end()};
  }

  // The claimed sender: the third cluster, or the other engine's; now and then one that does not exist, or the
  // engine's own.
  static ClusterId forged_source(std::uint16_t to, Input& in) {
    const std::uint8_t which = in.byte();
    if (which < 160) return ClusterId(kUnknownCluster);
    return ClusterId(static_cast<std::uint16_t>(which < 250 ? 1 - to : which % 7));
  }

  // A message from one of the two to the other: it arrives now or later, in any order, and perhaps damaged.
  void pass_on(std::uint16_t from, Input& in) {
    std::vector<Bytes>& in_flight = in_flight_[from];
    if (in_flight.size() < kMaxInFlight) {
      Bytes message = clusters_[from]->next_for(ClusterId(1 - from));
      remember(from, message);
      if (!message.empty()) in_flight.push_back(std::move(message));
    }
    if (in_flight.empty() || in.below(4) == 0) return;
    const std::size_t i = in.below(static_cast<std::uint32_t>(in_flight.size()));
    Bytes message = std::move(in_flight[i]);
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(i));
    if (in.below(8) == 0) fuzz::mutate(in, message);
    clusters_[1 - from]->receive(ClusterId(from), message);
  }

  // Remembers the headers that an engine sent last: forgeries answer them.
  void remember(std::uint16_t from, ByteView message) {
    for (ByteView rest = message; !rest.empty();) {
      const auto one = dsm::parse(dsm::PageLength(), rest);
      recent_[from][next_recent_[from]++ % kRecent] = one->header;
      rest = one->rest;
    }
  }

  // One to three messages in one, of the right form or nearly so.
  Bytes made_up(std::uint16_t to, Input& in) const {
    Bytes all = one_made_up(to, in);
    for (std::uint32_t more = in.below(8); more < 2; ++more) {
      Bytes first = one_made_up(to, in);
      dsm::write_length(first, first.size());
      first.insert(first.end(), all.begin(), all.end());
      all = std::move(first);
    }
    return all;
  }
  Bytes one_made_up(std::uint16_t to, Input& in) const {
    const dsm::Header header = in.truth() ? answer(to, in) : any_header(in);
    Bytes bytes(dsm::kHeaderBytes + payload_of(header, in));
    dsm::write_header(bytes, header);
    const ByteView payload = in.bytes(std::min<std::size_t>(bytes.size() - dsm::kHeaderBytes, in.below(32)));
    std::copy(payload.begin(), payload.end(), bytes.begin() + dsm::kHeaderBytes);
    return bytes;
  }
  static dsm::Header any_header(Input& in) {
    dsm::Header header{.kind = static_cast<Kind>(1 + in.below(dsm::kKinds - 1)), .id = in.below(kPages + 1)};
    if (in.below(3) == 0) header.format = in.byte() % 16;
    if (in.below(4) != 0) header.number = in.below(4);
    if (in.below(16) == 0) header.number = in.number<std::uint32_t>();
    if (header.kind == Kind::kPageForward) header.number = in.below(4) | in.below(3) << 16;
    return header;
  }
  // A header that `to` may be waiting for, correct or nearly so.
  dsm::Header answer(std::uint16_t to, Input& in) const {
    dsm::Header header = recent_[to][in.below(kRecent)];
    header.kind = answer_to(header.kind);
    header.format = static_cast<std::uint8_t>(in.below(4) == 0 ? in.byte() % 16 : 0);
    const std::uint32_t change = in.below(8);
    if (change == 0) header.id = in.below(kPages + 1);
    if (change == 1) header.number = in.below(4);
    return header;
  }
  static Kind answer_to(Kind kind) {
    switch (kind) {
      case Kind::kPageRequest:
      case Kind::kPageForward:
        return Kind::kPageReply;
      case Kind::kPageReply:
        return Kind::kDiff;
      case Kind::kDiff:
        return Kind::kDiffDone;
      case Kind::kDiffDone:
        return Kind::kInvalidate;
      case Kind::kInvalidate:
        return Kind::kInvalidateAck;
      case Kind::kInvalidateAck:
        return Kind::kWriteNotice;
      case Kind::kWriteNotice:
        return Kind::kPageRequest;
      case Kind::kLockRequest:
        return Kind::kLockGrant;
      case Kind::kLockGrant:
        return Kind::kLockRecall;
      case Kind::kLockRecall:
        return Kind::kLockBusy;
      case Kind::kLockBusy:
        return Kind::kLockProbe;
      case Kind::kLockProbe:
        return Kind::kLockProbeReply;
      case Kind::kLockProbeReply:
        return Kind::kLockRequest;
      case Kind::kBarrierArrive:
        return Kind::kBarrierDepart;
      case Kind::kBarrierDepart:
        return Kind::kBarrierArrive;
      case Kind::kSyncCall:
        return Kind::kSyncResult;
      case Kind::kSyncResult:
        return Kind::kSyncCall;
      case Kind::kAllocate:
        return Kind::kAllocated;
      case Kind::kAllocated:
        return Kind::kAllocate;
      case Kind::kRegion:
        return Kind::kRegionKnown;
      case Kind::kRegionKnown:
        return Kind::kRegion;
    }
    return kind;
  }
  static std::size_t payload_of(const dsm::Header& header, Input& in) {
    if (in.below(32) == 0) return in.byte();
    switch (header.kind) {
      case Kind::kDiff:
        return in.below(32);
      case Kind::kInvalidate:
      case Kind::kInvalidateAck:
        return 4 * in.below(4);
      case Kind::kWriteNotice:
        return 4 + 4 * in.below(4);
      case Kind::kPageReply:
        return header.format != 0 ? 0 : dsm::reply_payload(dsm::PageLength(), 1 + in.below(3));
      default:
        return dsm::payload_room(dsm::PageLength(), header) -
               (dsm::can_acquire_by(header) && in.truth() ? dsm::kPlaceBytes : 0);
    }
  }

  std::array<std::unique_ptr<Cluster>, kEngines> clusters_;
  std::array<std::vector<Bytes>, kEngines> in_flight_;  // by who sent them
  std::array<std::array<dsm::Header, kRecent>, kEngines> recent_{};
  std::array<std::uint32_t, kEngines> next_recent_{};
  std::uint32_t operations_ = 0;
};

// As run() reads it: a message in the name of the third cluster or of the other engine, at most as long as run() takes.
std::vector<std::byte> make_operation(fuzz::Draw& draw) {
  fuzz::Writer w;
  w.byte(draw.below(kEngines)).byte(6).byte(draw.one_in(2) ? 0 : 200);
  return w.some_bytes(fuzz::make_engine_message(draw, 64 - dsm::kHeaderBytes)).take();
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, size);
  fuzz::with_arena([&] { EngineFuzzWorld(in).run(in); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::make_operation);
}
