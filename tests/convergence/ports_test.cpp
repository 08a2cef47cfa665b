// Setting connections up and taking them down between the control planes of two clusters. Control messages
// lie in a box until the test lets them arrive, so every order can be tried.
#include "convergence/ports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/prng.h"

namespace braid::convergence {
namespace {

using Kind = Ports::Event::Kind;

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(1'000'000'000) + since_start;
}
constexpr PortId kService(9);
constexpr std::uint32_t kWindowBytes = 65536;
constexpr std::uint32_t kServer = 1;
constexpr std::uint32_t kCaller = 2;

// Memory that counts what is out.
struct Memory : Ports::Resources {
  std::optional<Ports::Grant> grant(Ports::Client, std::uint32_t, std::uint32_t window_bytes) override {
    if (left == 0) return std::nullopt;
    --left;
    ++next;
    out[next] = window_bytes;
    return Ports::Grant{next, std::uint64_t{next} << 20};
  }
  void give_back(Ports::Client, std::uint32_t, const Ports::Grant& grant,
                 std::uint32_t window_bytes) override {
    ASSERT_TRUE(out.contains(grant.cell)) << "given back twice";
    ASSERT_EQ(out[grant.cell], window_bytes);
    out.erase(grant.cell);
    ++left;
  }
  std::map<std::uint32_t, std::uint32_t> out;
  std::uint32_t next = 0;
  std::uint32_t left = 100;
};

// A cluster's node: its ports, and what they told it.
struct Side {
  explicit Side(std::uint16_t self) : ports(ClusterId(self), 2, memory) {}

  Memory memory;
  Ports ports;
  std::vector<Ports::Event> events;
  std::map<std::uint32_t, bool> installed;  // ports that the proxies know
  bool drains_at_once = true;

  std::size_t count(Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](const Ports::Event& e) { return e.kind == kind; }));
  }
  const Ports::End& end(Kind kind) const {
    const auto found =
        std::find_if(events.begin(), events.end(), [&](const Ports::Event& e) { return e.kind == kind; });
    EXPECT_NE(found, events.end());
    return found->end;
  }
  Refusal refusal() const {
    const auto found = std::find_if(events.begin(), events.end(),
                                    [](const Ports::Event& e) { return e.kind == Kind::kRefused; });
    return found == events.end() ? Refusal::kNone : found->refusal;
  }
};

struct Letter {
  int to;
  ControlMessage message;
};

struct TwoClusters {
  Side sides[2] = {Side(0), Side(1)};
  std::vector<Letter> box;  // in flight
  Instant now = at(0_s);

  Side& server() { return sides[0]; }
  Side& caller() { return sides[1]; }

  void listen(bool ordered = true) {
    EXPECT_EQ(server().ports.listen(kServer, kService, 3, kWindowBytes, ordered), Refusal::kNone);
  }
  void connect(bool ordered = true, Duration timeout = 1_s) {
    caller().ports.connect(now, kCaller, 77, 5, ClusterId(0), kService, 2 * kWindowBytes, ordered, timeout);
  }

  // The node's loop: events take effect, then control messages leave.
  void run_until_quiet() {
    for (int i = 0; i < 2; ++i) {
      Side& side = sides[i];
      for (;;) {
        if (const auto event = side.ports.poll_event()) {
          side.events.push_back(*event);
          const std::uint32_t port = event->end.port.value();
          if (event->kind == Kind::kInstall) {
            EXPECT_FALSE(side.installed[port]);
            EXPECT_TRUE(side.memory.out.contains(event->end.grant.cell)) << "it lies in memory that is ours";
            side.installed[port] = true;
          }
          if (event->kind == Kind::kRemove) {
            EXPECT_TRUE(side.installed[port]) << "only what was installed is removed";
            side.installed.erase(port);
          }
          if (event->kind == Kind::kOpened || event->kind == Kind::kAccepted) {
            EXPECT_TRUE(side.installed[port]) << "a client must not use what proxies do not know";
          }
          if (event->kind == Kind::kDrain && side.drains_at_once) side.ports.drained(event->end.port);
        } else if (const auto out = side.ports.poll_control()) {
          EXPECT_EQ(out->to, ClusterId(static_cast<std::uint16_t>(1 - i)));
          box.push_back({1 - i, out->message});
        } else {
          break;
        }
      }
    }
  }
  void deliver(std::size_t which) {
    const Letter letter = box[which];
    box.erase(box.begin() + static_cast<long>(which));
    std::byte bytes[kControlBytes];
    write_control(bytes, letter.message);
    ControlMessage read;
    ASSERT_TRUE(parse_control(bytes, &read));
    sides[letter.to].ports.on_control(now, ClusterId(static_cast<std::uint16_t>(1 - letter.to)), read);
    run_until_quiet();
  }
  void deliver_all() {
    run_until_quiet();
    while (!box.empty()) deliver(0);
  }
  // Time passes in steps; timers run when they are due.
  void wait(Duration d) {
    const Instant until = now + d;
    for (;;) {
      deliver_all();
      Instant next = until;
      for (Side& side : sides) next = earlier(next, side.ports.next_deadline());
      now = std::max(now, next);
      for (Side& side : sides) side.ports.on_timer(now);
      deliver_all();
      if (now >= until) return;
    }
  }
  void open() {
    listen();
    connect();
    deliver_all();
    ASSERT_EQ(caller().count(Kind::kOpened), 1u);
    ASSERT_EQ(server().count(Kind::kAccepted), 1u);
  }
  PortId caller_port() { return caller().end(Kind::kOpened).port; }
  PortId server_port() { return server().end(Kind::kAccepted).port; }
  void expect_nothing_left() {
    for (Side& side : sides) {
      EXPECT_TRUE(side.memory.out.empty());
      EXPECT_TRUE(side.installed.empty());
      EXPECT_EQ(side.ports.next_deadline(), Instant::never());
    }
    EXPECT_EQ(server().ports.held_by(kServer), 0u);
    EXPECT_EQ(caller().ports.held_by(kCaller), 0u);
  }
};

TEST(Ports, ConnectionIsOpenAtBothEndsBeforeEitherIsNotified) {  // CN-1
  TwoClusters t;
  t.listen();
  t.connect();
  t.run_until_quiet();
  ASSERT_EQ(t.box.size(), 1u);
  t.deliver(0);  // Connect
  EXPECT_EQ(t.server().count(Kind::kInstall), 1u);
  EXPECT_EQ(t.server().count(Kind::kAccepted), 0u) << "the caller's proxies do not know its port yet";
  t.deliver(0);  // Accept
  EXPECT_EQ(t.caller().count(Kind::kOpened), 1u);
  t.deliver(0);  // Confirm
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
  EXPECT_TRUE(t.box.empty());

  const Ports::End& theirs = t.server().end(Kind::kAccepted);
  const Ports::End& ours = t.caller().end(Kind::kOpened);
  EXPECT_EQ(theirs.port, ours.peer_port);
  EXPECT_EQ(theirs.peer_port, ours.port);
  EXPECT_EQ(theirs.peer, ClusterId(1));
  EXPECT_EQ(ours.peer, ClusterId(0));
  EXPECT_EQ(theirs.peer_window_bytes, 2 * kWindowBytes);
  EXPECT_EQ(ours.peer_window_bytes, kWindowBytes);
  EXPECT_EQ(theirs.listener, kService);
  EXPECT_EQ(theirs.client, kServer);
  EXPECT_EQ(theirs.endpoint, 3u);
  EXPECT_EQ(ours.listener, PortId());
  EXPECT_EQ(ours.serial, 77u);
  EXPECT_EQ(ours.endpoint, 5u);
}

TEST(Ports, ConnectWaitsForItsListener) {  // CN-2
  TwoClusters t;
  t.connect(true, 1_s);
  t.wait(500_ms);
  EXPECT_EQ(t.caller().count(Kind::kRefused), 0u);
  t.listen();
  t.wait(30_ms);
  EXPECT_EQ(t.caller().count(Kind::kOpened), 1u);
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
}

TEST(Ports, ConnectWithoutAListenerIsRefusedAtItsTimeout) {  // CN-2
  TwoClusters t;
  t.connect(true, 1_s);
  t.wait(970_ms);
  EXPECT_EQ(t.caller().count(Kind::kRefused), 0u);
  t.wait(30_ms);
  EXPECT_EQ(t.caller().refusal(), Refusal::kNoListener);
  EXPECT_EQ(t.caller().events.back().end.serial, 77u);
  t.expect_nothing_left();
}

// It knows the reason already.
TEST(Ports, TimeoutReportsTheLatestRefusalReceived) {  // CN-2
  TwoClusters t;
  t.connect(true, 1_s);
  t.wait(500_ms);
  t.now = t.now + 20_ms;
  t.caller().ports.on_timer(t.now);
  t.now = t.now + 1_s;
  t.caller().ports.on_timer(t.now);
  t.run_until_quiet();
  EXPECT_EQ(t.caller().refusal(), Refusal::kNoListener);
  t.expect_nothing_left();
}

TEST(Ports, ConnectWithoutAnAnswerIsRefusedAtItsTimeout) {  // CN-2
  TwoClusters t;
  t.connect(true, 1_s);
  t.run_until_quiet();
  t.box.clear();
  t.wait(1_s);
  EXPECT_EQ(t.caller().refusal(), Refusal::kTimeout);
  t.expect_nothing_left();
}

TEST(Ports, ImpossibleRequestsAreRefusedAtOnce) {  // CN-3
  const auto refusal_of = [](const std::function<void(TwoClusters&)>& with, ClusterId cluster,
                             std::uint32_t window, bool ordered) {
    TwoClusters t;
    with(t);
    t.caller().ports.connect(t.now, kCaller, 1, 0, cluster, kService, window, ordered, 1_s);
    t.deliver_all();
    EXPECT_EQ(t.caller().memory.out.size(), 0u);
    EXPECT_EQ(t.server().memory.out.size(), 0u);
    return t.caller().refusal();
  };
  const auto listening = [](TwoClusters& t) { t.listen(); };
  EXPECT_EQ(refusal_of(listening, ClusterId(0), 4096, false), Refusal::kOrderMismatch);
  EXPECT_EQ(refusal_of(listening, ClusterId(1), 4096, true), Refusal::kNoSuchCluster) << "oneself";
  EXPECT_EQ(refusal_of(listening, ClusterId(2), 4096, true), Refusal::kNoSuchCluster);
  for (const std::uint32_t window : {0u, 2048u, 4097u, 32u << 20})
    EXPECT_EQ(refusal_of(listening, ClusterId(0), window, true), Refusal::kBadWindow) << window;
  const auto full_there = [](TwoClusters& t) { t.listen(), t.server().memory.left = 0; };
  EXPECT_EQ(refusal_of(full_there, ClusterId(0), 4096, true), Refusal::kNoRoom);
  const auto full_here = [](TwoClusters& t) { t.listen(), t.caller().memory.left = 0; };
  EXPECT_EQ(refusal_of(full_here, ClusterId(0), 4096, true), Refusal::kNoRoomHere);
}

TEST(Ports, ConnectOfAnotherProtocolIsRefused) {  // PS-2
  for (const stack::ProtocolId protocol : {stack::kMessages, stack::ProtocolId(), stack::ProtocolId(255)}) {
    TwoClusters t;
    EXPECT_EQ(t.server().ports.listen(kServer, kService, 3, kWindowBytes, true, stack::kSharedMemory),
              Refusal::kNone);
    t.caller().ports.connect(t.now, kCaller, 1, 0, ClusterId(0), kService, 4096, true, 1_s, protocol);
    t.deliver_all();
    EXPECT_EQ(t.caller().refusal(), Refusal::kProtocolMismatch) << protocol.value();
    EXPECT_EQ(t.server().memory.out.size(), 0u);
  }
}

TEST(Ports, EndsOfAConnectionAreOfTheProtocolThatBothAskedFor) {  // PS-2
  TwoClusters t;
  EXPECT_EQ(t.server().ports.listen(kServer, kService, 3, kWindowBytes, true, stack::kSharedMemory),
            Refusal::kNone);
  t.caller().ports.connect(t.now, kCaller, 1, 0, ClusterId(0), kService, 4096, true, 1_s,
                           stack::kSharedMemory);
  t.deliver_all();
  EXPECT_EQ(t.caller().end(Kind::kInstall).protocol, stack::kSharedMemory);
  EXPECT_EQ(t.server().end(Kind::kInstall).protocol, stack::kSharedMemory);
}

TEST(Ports, ListenersPortIsExclusive) {  // CN-3
  TwoClusters t;
  t.listen();
  EXPECT_EQ(t.server().ports.listen(5, kService, 0, kWindowBytes, true), Refusal::kPortTaken);
  EXPECT_EQ(t.server().ports.listen(5, PortId(10), 0, 5000, true), Refusal::kBadWindow);
  EXPECT_EQ(t.server().ports.listen(5, PortId(), 0, kWindowBytes, true), Refusal::kBadPort);
  EXPECT_EQ(t.server().ports.listen(5, PortId(65536), 0, kWindowBytes, true), Refusal::kBadPort);
  t.server().ports.close(5, kService);
  EXPECT_EQ(t.server().ports.listen(5, kService, 0, kWindowBytes, true), Refusal::kPortTaken)
      << "not its to close";
  t.server().ports.close(kServer, kService);
  EXPECT_EQ(t.server().ports.listen(5, kService, 0, kWindowBytes, true), Refusal::kNone);
}

TEST(Ports, EveryRefusalHasItsReason) {
  for (int r = 0; r <= static_cast<int>(Refusal::kBadPort); ++r)
    EXPECT_STRNE(to_string(static_cast<Refusal>(r)), "unknown");
}

TEST(Ports, LateAcceptIsClosed) {  // CN-4
  TwoClusters t;
  t.listen();
  t.connect(true, 1_s);
  t.run_until_quiet();
  t.deliver(0);  // Connect; the Accept is in flight
  t.now = t.now + 1_s;
  t.caller().ports.on_timer(t.now);
  t.deliver_all();
  EXPECT_EQ(t.caller().refusal(), Refusal::kTimeout);
  EXPECT_EQ(t.server().count(Kind::kAccepted), 0u) << "the listener is not told";
  t.expect_nothing_left();
}

TEST(Ports, ClosedEndDrainsThenTellsItsPeer) {  // CN-6
  TwoClusters t;
  t.open();
  t.caller().drains_at_once = false;
  t.caller().ports.close(kCaller, t.caller_port());
  t.deliver_all();
  EXPECT_EQ(t.caller().count(Kind::kDrain), 1u);
  EXPECT_EQ(t.caller().count(Kind::kRemove), 0u) << "not before everything has been sent";
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 0u);
  t.caller().ports.drained(t.caller_port());
  t.deliver_all();
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 1u);
  EXPECT_EQ(t.caller().memory.out.size(), 0u);
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  t.expect_nothing_left();
}

TEST(Ports, BothEndsMayCloseAtOnce) {  // CN-6
  TwoClusters t;
  t.open();
  t.caller().ports.close(kCaller, t.caller_port());
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  EXPECT_EQ(t.server().count(Kind::kPeerClosed) + t.caller().count(Kind::kPeerClosed), 0u);
  t.expect_nothing_left();
}

TEST(Ports, PeerThatClosedDuringDrainIsNotNotified) {  // CN-6
  TwoClusters t;
  t.open();
  t.caller().drains_at_once = false;
  t.caller().ports.close(kCaller, t.caller_port());
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  t.caller().ports.drained(t.caller_port());
  t.run_until_quiet();
  EXPECT_TRUE(t.box.empty());
  t.expect_nothing_left();
}

TEST(Ports, OnlyItsPeersPortMayCloseAConnection) {  // CN-10
  TwoClusters t;
  t.open();
  ControlMessage m;
  m.kind = ControlMessage::Kind::kClose;
  m.source = PortId(t.caller_port().value() + 1);
  m.destination = t.server_port();
  t.server().ports.on_control(t.now, ClusterId(1), m);
  t.run_until_quiet();
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 0u);
  m.source = t.caller_port();
  t.server().ports.on_control(t.now, ClusterId(0), m);
  t.run_until_quiet();
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 0u) << "from another cluster";
  t.server().ports.on_control(t.now, ClusterId(1), m);
  t.run_until_quiet();
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 1u);
}

TEST(Ports, OnlyItsClientMayCloseAnEnd) {  // CN-6
  TwoClusters t;
  t.open();
  t.caller().ports.close(kCaller + 1, t.caller_port());
  t.caller().ports.close(kCaller, PortId(t.caller_port().value() + 1));
  t.deliver_all();
  EXPECT_EQ(t.caller().count(Kind::kDrain), 0u);
}

TEST(Ports, DeadClientHoldsNothingAndItsPeersAreNotified) {  // CN-7
  TwoClusters t;
  t.open();
  t.connect();  // a second one, still asking
  t.run_until_quiet();
  EXPECT_EQ(t.caller().ports.held_by(kCaller), 2u);
  t.caller().ports.client_gone(kCaller);
  t.deliver_all();
  EXPECT_EQ(t.caller().ports.held_by(kCaller), 0u);
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 1u);
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
  t.server().ports.client_gone(kServer);
  t.deliver_all();
  EXPECT_EQ(t.server().ports.listen(5, kService, 0, kWindowBytes, true), Refusal::kNone)
      << "its listener is gone";
  t.expect_nothing_left();
}

TEST(Ports, ListenerThatDiesDuringAcceptRefusesTheConnect) {  // CN-5, CN-7
  for (const bool close_first : {false, true}) {
    SCOPED_TRACE(close_first);
    TwoClusters t;
    t.listen();
    t.connect();
    t.run_until_quiet();
    t.deliver(0);  // Connect
    t.server().ports.client_gone(kServer);
    t.run_until_quiet();
    ASSERT_EQ(t.box.size(), 2u);  // Accept, Close
    t.deliver(close_first ? 1 : 0);
    t.deliver_all();
    if (close_first) {
      EXPECT_EQ(t.caller().refusal(), Refusal::kClientGone);
    } else {
      EXPECT_EQ(t.caller().count(Kind::kPeerClosed), 1u);
    }
    t.caller().ports.client_gone(kCaller);
    t.deliver_all();
    t.expect_nothing_left();
  }
}

TEST(Ports, CloseThatOvertakesTheConfirmIsReportedToTheListener) {  // CN-5
  TwoClusters t;
  t.listen();
  t.connect();
  t.run_until_quiet();
  t.deliver(0);  // Connect
  t.deliver(0);  // Accept; the Confirm is in flight
  t.caller().ports.close(kCaller, t.caller_port());
  t.run_until_quiet();
  ASSERT_EQ(t.box.size(), 2u);
  t.deliver(1);  // Close
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u) << "what was sent before the close waits there";
  EXPECT_EQ(t.server().count(Kind::kPeerClosed), 1u);
  t.deliver(0);  // Confirm
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  t.expect_nothing_left();
}

TEST(Ports, LostPeerEndsItsConnections) {  // CN-8
  TwoClusters t;
  t.open();
  t.connect();  // asking
  t.run_until_quiet();
  t.caller().ports.peer_lost(ClusterId(0));
  t.server().ports.peer_lost(ClusterId(1));
  t.box.clear();
  t.deliver_all();
  EXPECT_EQ(t.caller().refusal(), Refusal::kPeerLost);
  EXPECT_EQ(t.caller().count(Kind::kPeerLost), 1u);
  EXPECT_EQ(t.server().count(Kind::kPeerLost), 1u);
  t.caller().ports.close(kCaller, t.caller_port());
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  EXPECT_TRUE(t.box.empty()) << "nobody is there to be told";
  t.expect_nothing_left();
}

// It may have sent something before it was confirmed, and that lies in the window.
TEST(Ports, PeerLostDuringAcceptIsReportedAcceptedThenLost) {  // CN-8
  TwoClusters t;
  t.listen();
  t.connect();
  t.run_until_quiet();
  t.deliver(0);
  t.server().ports.peer_lost(ClusterId(1));
  t.run_until_quiet();
  EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
  EXPECT_EQ(t.server().count(Kind::kPeerLost), 1u);
  EXPECT_EQ(t.server().installed.size(), 1u) << "its client's to close";
}

TEST(Ports, MessagesForADeadIncarnationAreNotSentToItsSuccessor) {  // CN-8
  TwoClusters t;
  t.listen();
  t.connect();
  t.run_until_quiet();
  const Letter connect = t.box.front();
  t.box.clear();
  t.server().ports.on_control(t.now, ClusterId(1), connect.message);
  while (t.server().ports.poll_event()) {
  }
  t.server().ports.peer_lost(ClusterId(1));  // before the Accept could leave
  while (t.server().ports.poll_event()) {
  }
  EXPECT_EQ(t.server().ports.poll_control(), std::nullopt);
}

TEST(Ports, PortOfAnEarlierConnectionIsInvalid) {  // CN-9
  TwoClusters t;
  t.open();
  const PortId old = t.caller_port();
  t.caller().ports.close(kCaller, old);
  t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  t.caller().events.clear();
  std::map<std::uint32_t, int> seen;
  for (int i = 0; i < 30; ++i) {
    t.connect();
    t.deliver_all();
    for (const Ports::Event& e : t.caller().events)
      if (e.kind == Kind::kOpened) ++seen[e.end.port.value()];
    t.caller().events.clear();
    t.caller().ports.client_gone(kCaller);
    t.deliver_all();
  }
  EXPECT_FALSE(seen.contains(old.value()));
  for (const auto& [port, times] : seen) {
    EXPECT_EQ(times, 1);
    EXPECT_GT(port, Ports::kMaxListenerPort) << "it can be no listener's";
  }
}

TEST(Ports, PortNumberIsReusedOnlyAfterAllGenerations) {  // CN-9
  Memory memory;
  Ports ports(ClusterId(1), 2, memory, 2);  // one entry
  std::map<std::uint32_t, int> seen;
  for (int i = 0; i < 65535; ++i) {
    ports.connect(at(0_s), kCaller, 1, 0, ClusterId(0), kService, 4096, true, 1_s);
    const auto out = ports.poll_control();
    ASSERT_TRUE(out.has_value());
    ASSERT_EQ(++seen[out->message.source.value()], 1) << i;
    ASSERT_GT(out->message.source.value(), Ports::kMaxListenerPort);
    ports.client_gone(kCaller);
  }
}

TEST(Ports, ConnectWithoutAFreePortIsRefused) {  // CN-3
  Memory memory;
  Ports ports(ClusterId(1), 2, memory, 4);
  for (std::uint32_t i = 0; i < 4; ++i)
    ports.connect(at(0_s), kCaller, i, 0, ClusterId(0), kService, 4096, true, 1_s);
  const auto event = ports.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->refusal, Refusal::kNoRoomHere);
  EXPECT_EQ(event->end.serial, 3u);
  EXPECT_EQ(memory.out.size(), 3u);
}

TEST(Ports, NoControlMessageCrashes) {  // CN-10
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    TwoClusters t;
    t.open();
    std::vector<std::uint32_t> numbers = {0,          1, 9, t.caller_port().value(), t.server_port().value(),
                                          0xffff'ffff};
    for (int i = 0; i < 100; ++i) {
      ControlMessage m;
      m.kind = static_cast<ControlMessage::Kind>(1 + prng.below(5));
      m.ordered = prng.chance(0.5);
      m.reason = static_cast<std::uint8_t>(prng.below(13));
      m.source = PortId(numbers[prng.below(numbers.size())]);
      m.destination = PortId(numbers[prng.below(numbers.size())]);
      m.window_bytes = prng.chance(0.7) ? 4096 : static_cast<std::uint32_t>(prng.next());
      Side& side = t.sides[prng.below(2)];
      side.ports.on_control(t.now, ClusterId(static_cast<std::uint16_t>(prng.below(2))), m);
      while (const auto event = side.ports.poll_event()) {
        numbers.push_back(event->end.port.value());
        if (event->kind == Kind::kDrain) side.ports.drained(event->end.port);
      }
      while (side.ports.poll_control()) {
      }
    }
    t.server().ports.client_gone(kServer);
    t.caller().ports.client_gone(kCaller);
    for (Side& side : t.sides) {
      while (const auto event = side.ports.poll_event())
        if (event->kind == Kind::kDrain) side.ports.drained(event->end.port);
      EXPECT_TRUE(side.memory.out.empty());
    }
  }
}

// ---------------------------------------------------------------- every order

// The life of a connection: the caller connects and, once told that it is open, closes; the listener closes
// once it was told that its peer has gone; one of them may die at any moment instead. Control messages arrive
// in every order, some twice. In each case the events of both ends are consistent and nothing is left.
struct Explorer {
  enum class Fate { kNone, kCallerDies, kListenerDies, kTimeout };

  struct Choice {
    std::size_t taken;
    std::size_t of;
  };
  std::vector<Choice> path;
  std::size_t depth = 0;

  std::size_t choose(std::size_t of) {
    if (depth == path.size()) path.push_back({0, of});
    EXPECT_EQ(path[depth].of, of);
    return path[depth++].taken;
  }
  bool next_path() {
    depth = 0;
    while (!path.empty() && path.back().taken + 1 == path.back().of) path.pop_back();
    if (path.empty()) return false;
    ++path.back().taken;
    return true;
  }
};

void live(Explorer& explorer, Explorer::Fate fate) {
  TwoClusters t;
  t.listen();
  t.connect(true, 1_s);
  t.run_until_quiet();
  bool caller_closed = false;
  bool listener_closed = false;
  bool fate_came = fate == Explorer::Fate::kNone;
  for (;;) {
    struct Step {
      enum What { kDeliver, kCallerCloses, kListenerCloses, kFate } what;
      std::size_t letter;
    };
    std::vector<Step> steps;
    for (std::size_t i = 0; i < t.box.size(); ++i) steps.push_back({Step::kDeliver, i});
    if (!caller_closed && t.caller().count(Kind::kOpened) > 0) steps.push_back({Step::kCallerCloses, 0});
    if (!listener_closed && t.server().count(Kind::kPeerClosed) > 0)
      steps.push_back({Step::kListenerCloses, 0});
    if (!fate_came) steps.push_back({Step::kFate, 0});
    if (steps.empty()) break;
    const Step step = steps[explorer.choose(steps.size())];
    switch (step.what) {
      case Step::kDeliver:
        t.deliver(step.letter);
        break;
      case Step::kCallerCloses:
        t.caller().ports.close(kCaller, t.caller_port());
        caller_closed = true;
        break;
      case Step::kListenerCloses:
        t.server().ports.close(kServer, t.server_port());
        listener_closed = true;
        break;
      case Step::kFate:
        fate_came = true;
        if (fate == Explorer::Fate::kCallerDies) t.caller().ports.client_gone(kCaller), caller_closed = true;
        if (fate == Explorer::Fate::kListenerDies)
          t.server().ports.client_gone(kServer), listener_closed = true;
        if (fate == Explorer::Fate::kTimeout) t.now = t.now + 1_s, t.caller().ports.on_timer(t.now);
        break;
    }
    t.run_until_quiet();
  }
  // A caller that waits for an answer that never arrives gets its timeout.
  t.wait(2_s);
  if (!caller_closed && t.caller().count(Kind::kOpened) > 0) t.caller().ports.close(kCaller, t.caller_port());
  t.deliver_all();
  EXPECT_LE(t.caller().count(Kind::kOpened) + t.caller().count(Kind::kRefused), 1u) << "one answer";
  if (fate != Explorer::Fate::kCallerDies) {
    EXPECT_EQ(t.caller().count(Kind::kOpened) + t.caller().count(Kind::kRefused), 1u);
  }
  EXPECT_LE(t.server().count(Kind::kAccepted), 1u);
  if (fate == Explorer::Fate::kNone) {
    EXPECT_EQ(t.server().count(Kind::kAccepted), 1u);
    EXPECT_EQ(t.server().count(Kind::kPeerClosed), 1u);
  }
  EXPECT_EQ(
      t.server().count(Kind::kPeerClosed) + (listener_closed ? 1 : 0) >= t.server().count(Kind::kAccepted),
      true)
      << "whoever was told that it is open is told that it is closed";
  if (t.server().count(Kind::kAccepted) > 0) t.server().ports.close(kServer, t.server_port());
  t.deliver_all();
  t.expect_nothing_left();
}

std::size_t explore(Explorer::Fate fate) {
  Explorer explorer;
  std::size_t lives = 0;
  do {
    explorer.depth = 0;
    live(explorer, fate);
    ++lives;
    if (testing::Test::HasFailure()) {
      std::string path;
      for (const Explorer::Choice& c : explorer.path)
        path += " " + std::to_string(c.taken) + "/" + std::to_string(c.of);
      ADD_FAILURE() << "on the path" << path;
      break;
    }
  } while (explorer.next_path() && lives < 200'000);
  EXPECT_LT(lives, 200'000u) << "too many to be exhaustive";
  return lives;
}

TEST(Ports, EveryOrderOfControlMessagesCompletes) {  // CN-1, CN-5, CN-6
  EXPECT_GT(explore(Explorer::Fate::kNone), 1u);
}
TEST(Ports, EveryOrderCompletesIfTheConnectorDies) {  // CN-5, CN-7
  EXPECT_GT(explore(Explorer::Fate::kCallerDies), 5u);
}
TEST(Ports, EveryOrderCompletesIfTheListenerDies) {  // CN-5, CN-7
  EXPECT_GT(explore(Explorer::Fate::kListenerDies), 5u);
}
TEST(Ports, EveryOrderCompletesIfTheConnectorTimesOut) {  // CN-2, CN-4
  EXPECT_GT(explore(Explorer::Fate::kTimeout), 5u);
}

}  // namespace
}  // namespace braid::convergence
