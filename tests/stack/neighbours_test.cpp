// The neighbour table as a story on one or two links: who is asked, when again, who is believed, who is
// forgotten.
#include "stack/neighbours.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace braid::stack {
namespace {

constexpr Ipv4Address kUs(10, 0, 0, 1);
constexpr Ipv4Address kUsRight(10, 0, 1, 1);
constexpr Ipv4Address kPeer(10, 0, 0, 2);
constexpr Ipv4Address kOther(10, 0, 0, 3);
constexpr LinkId kLeft(4);
constexpr LinkId kRight(9);
constexpr MacAddress kOurLeft(2, 0, 0, 0, 1, 4);
constexpr MacAddress kOurRight(2, 0, 0, 0, 1, 9);
constexpr MacAddress kPeerMac(2, 0, 0, 0, 2, 4);
constexpr MacAddress kPeerMacRight(2, 0, 0, 0, 2, 9);
constexpr MacAddress kOtherMac(2, 0, 0, 0, 3, 4);

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(1'000'000'000'000) + since_start;
}

ArpPacket reply(Ipv4Address from, const MacAddress& mac) {
  return {ArpOperation::kReply, mac, from, kOurLeft, kUs};
}
ArpPacket request(Ipv4Address from, const MacAddress& mac, Ipv4Address for_ip = kUs) {
  return {ArpOperation::kRequest, mac, from, MacAddress(), for_ip};
}
ArpPacket announcement(Ipv4Address from, const MacAddress& mac) {
  return request(from, mac, from);
}

struct Lan {
  explicit Lan(const NeighboursConfig& with = {}, std::vector<LocalLink> on = {{kLeft, kOurLeft, kUs}})
      : config(with), links(std::move(on)), table(config, links) {}

  std::optional<MacAddress> lookup(Ipv4Address ip, Instant now) { return table.lookup(kLeft, ip, now); }
  NeighbourState state(Ipv4Address ip) const { return table.state(kLeft, ip); }

  // Everything that should leave now, over all links.
  std::vector<OutgoingArp> sent(Instant now) {
    std::vector<OutgoingArp> out;
    for (const LocalLink& link : links) {
      while (const auto packet = table.poll(now, link.link)) out.push_back(*packet);
    }
    return out;
  }
  // The instants at which a driver that sleeps until each deadline sends something, up to and including
  // `until`.
  std::vector<Instant> instants_of_sending(Instant until) {
    std::vector<Instant> out;
    while (table.next_deadline() <= until) {
      const Instant now = table.next_deadline();
      if (!sent(now).empty()) out.push_back(now);
      EXPECT_GT(table.next_deadline(), now) << "a driver would spin";
      if (table.next_deadline() <= now) break;
    }
    return out;
  }
  // The peer is looked up at `now`, asked for and answers at once.
  void resolve(Instant now, Ipv4Address ip = kPeer, const MacAddress& mac = kPeerMac) {
    EXPECT_EQ(lookup(ip, now), std::nullopt);
    EXPECT_FALSE(sent(now).empty());
    EXPECT_EQ(table.on_arp(now, kLeft, reply(ip, mac)), ArpArrival::kLearned);
  }

  NeighboursConfig config;
  std::vector<LocalLink> links;
  Neighbours table;
};

const std::vector<LocalLink> kBothLinks = {{kLeft, kOurLeft, kUs}, {kRight, kOurRight, kUsRight}};

TEST(Neighbours, UnknownAddressIsRequestedByBroadcastAndLearnedFromTheReply) {
  Lan lan;
  EXPECT_EQ(lan.table.next_deadline(), Instant::never());
  EXPECT_EQ(lan.lookup(kPeer, at(0_us)), std::nullopt);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAsking);
  EXPECT_LE(lan.table.next_deadline(), at(0_us));

  const OutgoingArp question{MacAddress::broadcast(),
                             {ArpOperation::kRequest, kOurLeft, kUs, MacAddress(), kPeer}};
  EXPECT_EQ(lan.sent(at(0_us)), std::vector{question});
  EXPECT_EQ(lan.sent(at(0_us)), std::vector<OutgoingArp>{});

  EXPECT_EQ(lan.table.on_arp(at(50_us), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kLearned);
  EXPECT_EQ(lan.lookup(kPeer, at(50_us)), kPeerMac);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.sent(at(1_s)), std::vector<OutgoingArp>{});
}

TEST(Neighbours, RepeatedLookupsSendOneRequest) {
  Lan lan;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(lan.lookup(kPeer, at(Duration::us(i))), std::nullopt);
  EXPECT_EQ(lan.sent(at(100_us)).size(), 1u);
  EXPECT_EQ(lan.table.size(), 1u);
}

TEST(Neighbours, RequestsAreRepeatedWithDoublingWaitsUpToASecond) {
  Lan lan;
  EXPECT_EQ(lan.lookup(kPeer, at(0_ms)), std::nullopt);
  EXPECT_EQ(lan.instants_of_sending(at(4_s)),
            (std::vector{at(0_ms), at(10_ms), at(30_ms), at(70_ms), at(150_ms), at(310_ms), at(630_ms),
                         at(1270_ms), at(2270_ms), at(3270_ms)}));
}

TEST(Neighbours, UnansweredAndUnusedAddressIsForgotten) {
  Lan lan;
  EXPECT_EQ(lan.lookup(kPeer, at(0_s)), std::nullopt);
  const auto asked = lan.instants_of_sending(at(60_s));
  EXPECT_GE(asked.back(), at(9_s));
  EXPECT_LE(asked.back(), at(11_s));
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAbsent);
  EXPECT_EQ(lan.table.next_deadline(), Instant::never());
}

TEST(Neighbours, RequestsContinueWhileTheAddressIsLookedUp) {
  Lan lan;
  for (int second = 0; second < 60; ++second) {
    EXPECT_EQ(lan.lookup(kPeer, at(Duration::s(second))), std::nullopt);
    (void)lan.instants_of_sending(at(Duration::s(second)));
  }
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAsking);
  EXPECT_GE(lan.table.stats().requests_sent, 60u);
  EXPECT_EQ(lan.table.on_arp(at(60_s), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kLearned);
  EXPECT_TRUE(lan.lookup(kPeer, at(60_s)).has_value());
}

TEST(Neighbours, RequestsLeaveOnTheAddressesLinkFromItsStation) {
  Lan lan({}, kBothLinks);
  EXPECT_EQ(lan.table.lookup(kRight, kPeer, at(0_us)), std::nullopt);
  EXPECT_EQ(lan.table.poll(at(0_us), kLeft), std::nullopt);
  EXPECT_LE(lan.table.next_deadline(), at(0_us)) << "the right link has still to ask";
  const auto right = lan.table.poll(at(0_us), kRight);
  ASSERT_TRUE(right.has_value());
  EXPECT_EQ(right->packet.sender_mac, kOurRight);
  EXPECT_EQ(right->packet.sender_ip, kUsRight);
  EXPECT_EQ(lan.table.next_deadline(), at(10_ms));
}

TEST(Neighbours, SameAddressOnTwoLinksIsTwoNeighbours) {
  Lan lan({}, kBothLinks);
  EXPECT_EQ(lan.table.lookup(kLeft, kPeer, at(0_ms)), std::nullopt);
  EXPECT_EQ(lan.table.lookup(kRight, kPeer, at(0_ms)), std::nullopt);
  EXPECT_EQ(lan.sent(at(0_ms)).size(), 2u);
  EXPECT_EQ(lan.table.on_arp(at(1_ms), kRight, reply(kPeer, kPeerMacRight)), ArpArrival::kLearned);
  EXPECT_EQ(lan.table.lookup(kLeft, kPeer, at(1_ms)), std::nullopt);
  EXPECT_EQ(lan.table.on_arp(at(1_ms), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kLearned);
  EXPECT_EQ(lan.table.lookup(kLeft, kPeer, at(1_ms)), kPeerMac);
  EXPECT_EQ(lan.table.lookup(kRight, kPeer, at(1_ms)), kPeerMacRight);
}

TEST(Neighbours, LinkThatCannotSendDoesNotDelayRequestsOnOthers) {
  Lan lan({}, kBothLinks);
  EXPECT_EQ(lan.table.lookup(kLeft, kPeer, at(0_ms)), std::nullopt);
  EXPECT_EQ(lan.table.lookup(kRight, kPeer, at(0_ms)), std::nullopt);
  EXPECT_TRUE(lan.table.poll(at(0_ms), kLeft).has_value());
  EXPECT_FALSE(lan.table.poll(at(9_ms), kLeft).has_value());
  EXPECT_TRUE(lan.table.poll(at(10_ms), kLeft).has_value());
  EXPECT_TRUE(lan.table.poll(at(10_ms), kRight).has_value());
  EXPECT_FALSE(lan.table.poll(at(10_ms), kRight).has_value()) << "one round, one request";
}

TEST(Neighbours, ReplyCancelsARequestThatHasNotLeft) {
  Lan lan;
  EXPECT_EQ(lan.lookup(kPeer, at(0_ms)), std::nullopt);
  EXPECT_EQ(lan.table.on_arp(at(1_ms), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kLearned);
  EXPECT_EQ(lan.table.next_deadline(), at(60_s) + 1_ms);
  EXPECT_EQ(lan.lookup(kOther, at(2_ms)), std::nullopt);
  const auto sent = lan.sent(at(2_ms));
  ASSERT_EQ(sent.size(), 1u) << "about the other";
  EXPECT_EQ(sent[0].packet.target_ip, kOther);
}

TEST(Neighbours, AnnouncesItselfOnceWhereConfigured) {  // ARP-3
  Lan lan({}, {{kLeft, kOurLeft, kUs, true}, {kRight, kOurRight, kUsRight, false}});
  EXPECT_LE(lan.table.next_deadline(), at(0_ms));
  const OutgoingArp announced{MacAddress::broadcast(),
                              {ArpOperation::kRequest, kOurLeft, kUs, MacAddress(), kUs}};
  EXPECT_EQ(lan.sent(at(0_ms)), std::vector{announced});
  EXPECT_TRUE(announced.packet.is_gratuitous());
  EXPECT_EQ(lan.table.next_deadline(), Instant::never());
  EXPECT_EQ(lan.table.stats().announcements_sent, 1u);
}

TEST(Neighbours, AnswersARequestForUsAndLearnsItsSender) {  // ARP-3
  Lan lan;
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, request(kPeer, kPeerMac)), ArpArrival::kLearned);
  EXPECT_LE(lan.table.next_deadline(), at(0_us));
  const OutgoingArp answer{kPeerMac, {ArpOperation::kReply, kOurLeft, kUs, kPeerMac, kPeer}};
  EXPECT_EQ(lan.sent(at(0_us)), std::vector{answer});
  EXPECT_EQ(lan.lookup(kPeer, at(1_us)), kPeerMac);
  EXPECT_EQ(lan.table.stats().replies_sent, 1u);
}

TEST(Neighbours, AnswersOnTheLinkOfTheRequest) {
  Lan lan({}, {{kLeft, kOurLeft, kUs}, {kRight, kOurRight, kUs}});
  EXPECT_EQ(lan.table.on_arp(at(0_us), kRight, request(kPeer, kPeerMacRight)), ArpArrival::kLearned);
  EXPECT_EQ(lan.table.poll(at(0_us), kLeft), std::nullopt);
  const auto answer = lan.table.poll(at(0_us), kRight);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->packet.sender_mac, kOurRight);
}

TEST(Neighbours, LinkAnswersForItsOwnAddressOnly) {
  Lan lan({}, kBothLinks);
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, request(kPeer, kPeerMac, kUsRight)), ArpArrival::kNotForUs);
  EXPECT_EQ(lan.sent(at(0_us)), std::vector<OutgoingArp>{});
  EXPECT_EQ(lan.table.on_arp(at(0_us), kRight, request(kPeer, kPeerMacRight, kUsRight)),
            ArpArrival::kLearned);
  const auto answer = lan.sent(at(0_us));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].packet.sender_ip, kUsRight);
  EXPECT_EQ(answer[0].packet.sender_mac, kOurRight);
}

TEST(Neighbours, ProbeForOurAddressIsAnsweredAndNotLearned) {
  Lan lan;
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, request(Ipv4Address(), kPeerMac)), ArpArrival::kNotForUs);
  const auto answer = lan.sent(at(0_us));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].destination, kPeerMac);
  EXPECT_EQ(answer[0].packet.sender_ip, kUs);
  EXPECT_EQ(lan.table.size(), 0u);
}

TEST(Neighbours, ArpBetweenUnknownStationsIsIgnored) {  // ARP-3
  Lan lan;
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, request(kPeer, kPeerMac, kOther)), ArpArrival::kNotForUs);
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, announcement(kPeer, kPeerMac)), ArpArrival::kNotForUs);
  EXPECT_EQ(lan.table.on_arp(at(0_us), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kNotForUs)
      << "nobody asked";
  EXPECT_EQ(lan.table.size(), 0u);
  EXPECT_EQ(lan.sent(at(0_us)), std::vector<OutgoingArp>{});
}

TEST(Neighbours, AnnouncedStationIsTakenIfTheKnownOneDoesNotAnswer) {  // ARP-4
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.table.on_arp(at(100_ms), kLeft, announcement(kPeer, kOtherMac)), ArpArrival::kContested);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kContested);
  const OutgoingArp question{kPeerMac, {ArpOperation::kRequest, kOurLeft, kUs, MacAddress(), kPeer}};
  EXPECT_EQ(lan.sent(at(100_ms)), std::vector{question}) << "to the known station alone";
  EXPECT_EQ(lan.lookup(kPeer, at(500_ms)), kPeerMac) << "usable meanwhile";
  EXPECT_EQ(lan.instants_of_sending(at(599_ms)),
            (std::vector{at(110_ms), at(130_ms), at(170_ms), at(250_ms), at(410_ms)}));
  EXPECT_EQ(lan.sent(at(600_ms)), std::vector<OutgoingArp>{});
  EXPECT_EQ(lan.lookup(kPeer, at(600_ms)), kOtherMac);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.table.stats().moved, 1u);
  EXPECT_EQ(lan.table.stats().address_conflicts, 0u) << "it is its only station";
  EXPECT_EQ(lan.table.take_conflict(), std::nullopt);
}

TEST(Neighbours, AnnouncementChangesNothingIfTheKnownStationAnswers) {  // ARP-4
  // A request, a reply, and one that asks us: whatever it is, it is a claim and no more.
  for (const ArpPacket& claim :
       {announcement(kPeer, kOtherMac), reply(kPeer, kOtherMac), request(kPeer, kOtherMac)}) {
    Lan lan;
    lan.resolve(at(0_s));
    EXPECT_EQ(lan.table.on_arp(at(100_ms), kLeft, claim), ArpArrival::kContested);
    EXPECT_EQ(lan.table.on_arp(at(101_ms), kLeft, claim), ArpArrival::kContested) << "nor if it is repeated";
    EXPECT_FALSE(lan.sent(at(101_ms)).empty());
    EXPECT_EQ(lan.table.on_arp(at(102_ms), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
    EXPECT_EQ(lan.lookup(kPeer, at(10_s)), kPeerMac);
    EXPECT_EQ(lan.instants_of_sending(at(10_s)), std::vector<Instant>{});
    EXPECT_EQ(lan.table.stats().moved, 0u);
    EXPECT_EQ(lan.table.take_conflict(), (AddressConflict{kPeer, kPeerMac, kOtherMac, false}));
    EXPECT_EQ(lan.table.take_conflict(), std::nullopt) << "once";
  }
}

TEST(Neighbours, FloodOfClaimsCostsOneContestASecond) {  // ARP-4
  Lan lan;
  lan.resolve(at(0_s));
  for (int ms = 0; ms < 10'000; ++ms) {
    const Instant now = at(1_s + Duration::ms(ms));
    EXPECT_EQ(lan.table.on_arp(now, kLeft, announcement(kPeer, kOtherMac)), ArpArrival::kContested);
    if (!lan.sent(now).empty()) (void)lan.table.on_arp(now, kLeft, reply(kPeer, kPeerMac));
    ASSERT_EQ(lan.lookup(kPeer, now), kPeerMac) << ms;
  }
  EXPECT_LE(lan.table.stats().requests_sent, 12u);
  EXPECT_EQ(lan.table.stats().address_conflicts, 10'000u);
  int named = 0;
  while (lan.table.take_conflict()) ++named;
  EXPECT_EQ(named, 1) << "the latest";
}

TEST(Neighbours, SecondAnswerToARequestIsAClaim) {  // ARP-4
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.table.on_arp(at(1_ms), kLeft, reply(kPeer, kOtherMac)), ArpArrival::kContested);
  EXPECT_FALSE(lan.sent(at(1_ms)).empty());
  EXPECT_EQ(lan.table.on_arp(at(2_ms), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
  EXPECT_EQ(lan.lookup(kPeer, at(3_ms)), kPeerMac);
}

TEST(Neighbours, DoubtedAddressIsAskedForByBroadcastAndUsableMeanwhile) {  // ARP-5
  Lan lan;
  lan.resolve(at(0_s));
  lan.table.doubt(kLeft, kPeer, at(5_s));
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kDoubted);
  const OutgoingArp question{MacAddress::broadcast(),
                             {ArpOperation::kRequest, kOurLeft, kUs, MacAddress(), kPeer}};
  EXPECT_EQ(lan.sent(at(5_s)), std::vector{question});
  EXPECT_EQ(lan.lookup(kPeer, at(5_s)), kPeerMac);
  EXPECT_EQ(lan.table.on_arp(at(5_s) + 1_ms, kLeft, reply(kPeer, kOtherMac)), ArpArrival::kMoved);
  EXPECT_EQ(lan.lookup(kPeer, at(5_s) + 1_ms), kOtherMac);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
}

TEST(Neighbours, AnswerOfTheStationThatLeadsNowhereDoesNotEndTheDoubt) {  // ARP-5
  Lan lan;
  lan.resolve(at(0_s));
  lan.table.doubt(kLeft, kPeer, at(5_s));
  EXPECT_EQ(lan.table.on_arp(at(5_s) + 1_ms, kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
  EXPECT_EQ(lan.table.on_arp(at(5_s) + 2_ms, kLeft, reply(kPeer, kOtherMac)), ArpArrival::kMoved);
  // The new station has time to prove itself, then the former one is tried again.
  lan.table.doubt(kLeft, kPeer, at(5_s) + 3_ms);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  lan.table.doubt(kLeft, kPeer, at(6_s) + 2_ms);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kDoubted);
  EXPECT_EQ(lan.table.on_arp(at(6_s) + 3_ms, kLeft, reply(kPeer, kPeerMac)), ArpArrival::kMoved);
  EXPECT_EQ(lan.lookup(kPeer, at(6_s) + 3_ms), kPeerMac);
}

TEST(Neighbours, DoubtEndsWhenItIsNotRepeated) {  // ARP-5
  Lan lan;
  lan.resolve(at(0_s));
  for (int i = 0; i < 20; ++i) {
    lan.table.doubt(kLeft, kPeer, at(1_s + 100_ms * i));
    (void)lan.instants_of_sending(at(1_s + 100_ms * i));
  }
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kDoubted);
  EXPECT_LE(lan.table.stats().requests_sent, 10u) << "ever less often";
  (void)lan.instants_of_sending(at(4_s));
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.instants_of_sending(at(50_s)), std::vector<Instant>{});
  EXPECT_EQ(lan.table.stats().moved, 0u);
}

TEST(Neighbours, DoubtAboutAnAddressThatIsNotKnownDoesNothing) {  // ARP-5
  Lan lan;
  lan.table.doubt(kLeft, kPeer, at(0_s));
  EXPECT_EQ(lan.table.size(), 0u);
  ASSERT_TRUE(lan.table.add_static(kLeft, kOther, kOtherMac));
  lan.table.doubt(kLeft, kOther, at(0_s));
  EXPECT_EQ(lan.state(kOther), NeighbourState::kStatic);
  EXPECT_EQ(lan.sent(at(0_s)), std::vector<OutgoingArp>{});
}

TEST(Neighbours, AddressConflictsAreCounted) {
  Lan lan({}, kBothLinks);
  EXPECT_EQ(lan.table.on_arp(at(0_s), kLeft, announcement(kUs, kPeerMac)), ArpArrival::kOurAddress);
  EXPECT_EQ(lan.table.on_arp(at(0_s), kLeft, request(kUs, kPeerMac)), ArpArrival::kOurAddress);
  EXPECT_EQ(lan.table.stats().address_conflicts, 2u);
  EXPECT_EQ(lan.table.take_conflict(), (AddressConflict{kUs, kOurLeft, kPeerMac, true}));
  EXPECT_EQ(lan.table.take_conflict(), std::nullopt) << "one in ten seconds";
  EXPECT_EQ(lan.sent(at(0_s)), std::vector<OutgoingArp>{});
  // Our own question, come round over the other link, is no conflict.
  EXPECT_EQ(lan.table.on_arp(at(0_s), kRight, request(kUs, kOurLeft, kPeer)), ArpArrival::kNotForUs);
  EXPECT_EQ(lan.table.stats().address_conflicts, 2u);
}

TEST(Neighbours, StaticEntryIsKnownAtOnceAndNeverExpires) {
  Lan lan;
  ASSERT_TRUE(lan.table.add_static(kLeft, kPeer, kPeerMac));
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kStatic);
  EXPECT_EQ(lan.table.next_deadline(), Instant::never());
  for (const Duration later : {0_s, 60_s, 1'000'000_s}) {
    EXPECT_EQ(lan.lookup(kPeer, at(later)), kPeerMac);
    EXPECT_EQ(lan.sent(at(later)), std::vector<OutgoingArp>{});
  }
}

TEST(Neighbours, StaticEntryIgnoresArp) {  // ARP-3
  Lan lan;
  ASSERT_TRUE(lan.table.add_static(kLeft, kPeer, kPeerMac));
  EXPECT_EQ(lan.table.on_arp(at(0_s), kLeft, announcement(kPeer, kOtherMac)), ArpArrival::kStaticKept);
  EXPECT_EQ(lan.table.on_arp(at(0_s), kLeft, reply(kPeer, kOtherMac)), ArpArrival::kStaticKept);
  EXPECT_EQ(lan.table.take_conflict(), (AddressConflict{kPeer, kPeerMac, kOtherMac, false}));
  EXPECT_EQ(lan.table.on_arp(at(0_s), kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
  EXPECT_EQ(lan.lookup(kPeer, at(1_s)), kPeerMac);
  // But it is answered: it may know us less well.
  EXPECT_EQ(lan.table.on_arp(at(1_s), kLeft, request(kPeer, kPeerMac)), ArpArrival::kConfirmed);
  EXPECT_EQ(lan.sent(at(1_s)).size(), 1u);
}

TEST(Neighbours, StaticEntryReplacesALearnedOne) {
  Lan lan;
  EXPECT_EQ(lan.lookup(kPeer, at(0_s)), std::nullopt);
  ASSERT_TRUE(lan.table.add_static(kLeft, kPeer, kPeerMac));
  EXPECT_EQ(lan.lookup(kPeer, at(0_s)), kPeerMac);
  EXPECT_EQ(lan.sent(at(0_s)), std::vector<OutgoingArp>{}) << "the question is off";
  ASSERT_TRUE(lan.table.add_static(kLeft, kPeer, kOtherMac));
  EXPECT_EQ(lan.lookup(kPeer, at(0_s)), kOtherMac);
  EXPECT_EQ(lan.table.size(), 1u);
}

TEST(Neighbours, EntryInUseIsConfirmedByUnicastBeforeItExpires) {  // ARP-1
  Lan lan({}, kBothLinks);
  lan.resolve(at(0_s));
  EXPECT_TRUE(lan.lookup(kPeer, at(1_s)).has_value());
  EXPECT_EQ(lan.table.next_deadline(), at(55_s));
  EXPECT_EQ(lan.sent(at(55_s) - 1_ns), std::vector<OutgoingArp>{});

  const OutgoingArp question{kPeerMac, {ArpOperation::kRequest, kOurLeft, kUs, MacAddress(), kPeer}};
  EXPECT_EQ(lan.sent(at(55_s)), std::vector{question});
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kRefreshing);
  EXPECT_TRUE(lan.lookup(kPeer, at(55_s)).has_value()) << "usable meanwhile";

  EXPECT_EQ(lan.table.on_arp(at(55_s) + 1_ms, kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_TRUE(lan.lookup(kPeer, at(100_s)).has_value()) << "a new minute has begun";
}

TEST(Neighbours, EntryInUseStaysKnownWhileItsPeerAnswers) {
  Lan lan;
  lan.resolve(at(0_s));
  for (int ms = 0; ms < 600'000; ms += 100) {
    const Instant now = at(Duration::ms(ms));
    ASSERT_TRUE(lan.lookup(kPeer, now).has_value()) << ms << " ms";
    if (!lan.sent(now).empty()) {
      ASSERT_EQ(lan.table.on_arp(now, kLeft, reply(kPeer, kPeerMac)), ArpArrival::kConfirmed);
    }
  }
  EXPECT_LE(lan.table.stats().requests_sent, 12u) << "about one a minute";
}

TEST(Neighbours, IdleEntryExpiresWithoutARequest) {
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.table.next_deadline(), at(60_s));
  EXPECT_EQ(lan.instants_of_sending(at(300_s)), std::vector<Instant>{});
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAbsent);
}

TEST(Neighbours, EntryUsedLateInItsLifetimeIsConfirmed) {
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_TRUE(lan.lookup(kPeer, at(58_s)).has_value());
  EXPECT_EQ(lan.sent(at(58_s)).size(), 1u);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kRefreshing);
}

TEST(Neighbours, EntryInUseIsRequestedByBroadcastWhenItExpires) {
  Lan lan({}, kBothLinks);
  lan.resolve(at(0_s));
  EXPECT_TRUE(lan.lookup(kPeer, at(50_s)).has_value());
  const auto asked = lan.instants_of_sending(at(60_s) - 1_ns);
  EXPECT_EQ(asked.front(), at(55_s));
  EXPECT_GE(asked.size(), 8u);
  EXPECT_TRUE(lan.lookup(kPeer, at(60_s) - 1_ns).has_value());

  EXPECT_EQ(lan.lookup(kPeer, at(60_s)), std::nullopt);
  const auto questions = lan.sent(at(60_s));
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].destination, MacAddress::broadcast());
  EXPECT_EQ(lan.table.on_arp(at(61_s), kLeft, reply(kPeer, kOtherMac)), ArpArrival::kLearned);
  EXPECT_EQ(lan.lookup(kPeer, at(61_s)), kOtherMac);
}

TEST(Neighbours, UnusedEntryIsRemovedWhenItsPeerStopsAnswering) {
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_TRUE(lan.lookup(kPeer, at(1_s)).has_value());
  const auto asked = lan.instants_of_sending(at(300_s));
  EXPECT_EQ(asked.front(), at(55_s));
  EXPECT_LT(asked.back(), at(60_s));
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAbsent);
}

TEST(Neighbours, EntryExpiresEvenWithoutPolling) {
  Lan lan;
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.lookup(kPeer, at(3600_s)), std::nullopt);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kAsking);
  EXPECT_EQ(lan.sent(at(3600_s)).size(), 1u);
}

TEST(Neighbours, AddressesThatNoOtherHostCanHaveAreNeverRequested) {
  Lan lan;
  for (const Ipv4Address ip :
       {kUs, Ipv4Address(), Ipv4Address(255, 255, 255, 255), Ipv4Address(224, 0, 0, 1)}) {
    EXPECT_EQ(lan.lookup(ip, at(0_s)), std::nullopt) << ip.to_string();
  }
  EXPECT_EQ(lan.table.size(), 0u);
  EXPECT_EQ(lan.sent(at(0_s)), std::vector<OutgoingArp>{});
}

TEST(Neighbours, FullTableEvictsTheLeastRecentlyUsedEntry) {
  Lan lan({.capacity = 3});
  ASSERT_TRUE(lan.table.add_static(kLeft, Ipv4Address(10, 0, 1, 0), kOtherMac));
  lan.resolve(at(0_s), kPeer, kPeerMac);
  lan.resolve(at(1_s), kOther, kOtherMac);
  EXPECT_TRUE(lan.lookup(kPeer, at(2_s)).has_value());

  EXPECT_EQ(lan.lookup(Ipv4Address(10, 0, 0, 4), at(3_s)), std::nullopt);
  EXPECT_EQ(lan.state(kOther), NeighbourState::kAbsent);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.state(Ipv4Address(10, 0, 1, 0)), NeighbourState::kStatic);
  EXPECT_EQ(lan.table.stats().evicted, 1u);
  EXPECT_EQ(lan.table.size(), 3u);
}

TEST(Neighbours, RequestsOfUnknownStationsAreAnsweredWithoutEviction) {
  Lan lan({.capacity = 1});
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.table.on_arp(at(1_s), kLeft, request(kOther, kOtherMac)), ArpArrival::kTableFull);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.table.stats().no_room, 1u);
  const auto answer = lan.sent(at(1_s));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].destination, kOtherMac);
}

TEST(Neighbours, UnconfirmedNeighboursAreEvictedFirst) {
  Lan lan({.capacity = 2});
  lan.resolve(at(0_s));
  EXPECT_EQ(lan.table.on_arp(at(1_s), kLeft, request(kOther, kOtherMac)), ArpArrival::kLearned);
  EXPECT_EQ(lan.lookup(Ipv4Address(10, 0, 0, 4), at(2_s)), std::nullopt);
  EXPECT_EQ(lan.state(kPeer), NeighbourState::kKnown);
  EXPECT_EQ(lan.state(kOther), NeighbourState::kAbsent);
}

TEST(Neighbours, TableFullOfStaticEntriesRefusesMore) {
  Lan lan({.capacity = 1});
  ASSERT_TRUE(lan.table.add_static(kLeft, kPeer, kPeerMac));
  EXPECT_FALSE(lan.table.add_static(kLeft, kOther, kOtherMac));
  EXPECT_EQ(lan.lookup(kOther, at(0_s)), std::nullopt);
  EXPECT_EQ(lan.table.stats().no_room, 2u);
  EXPECT_EQ(lan.table.next_deadline(), Instant::never());
}

TEST(Neighbours, FloodOfRequestsFillsOnlyTheReplyQueue) {
  Lan lan({.capacity = 4, .reply_queue = 3});
  for (std::uint8_t i = 2; i < 12; ++i) {
    (void)lan.table.on_arp(at(0_s), kLeft, request(Ipv4Address(10, 0, 0, i), MacAddress(2, 0, 0, 0, 0, i)));
  }
  EXPECT_EQ(lan.sent(at(0_s)).size(), 3u);
  EXPECT_EQ(lan.table.stats().replies_dropped, 7u);
  EXPECT_EQ(lan.table.on_arp(at(1_s), kLeft, request(kPeer, kPeerMac)), ArpArrival::kContested);
  EXPECT_EQ(lan.sent(at(1_s)).size(), 2u)
      << "there is room again; and the station that had the address is asked";
}

TEST(Neighbours, BoundsHoldInAnyOrderOfEvents) {
  constexpr std::uint64_t kSeed = 826;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  Lan lan({.capacity = 8, .reply_queue = 2}, kBothLinks);
  const auto any_ip = [&] { return Ipv4Address(10, 0, 0, static_cast<std::uint8_t>(prng.below(20))); };
  const auto any_mac = [&] { return MacAddress(2, 0, 0, 0, 0, static_cast<std::uint8_t>(prng.below(4))); };
  Instant now = at(0_s);
  std::uint64_t known = 0;
  for (int step = 0; step < 20'000; ++step) {
    now = now + Duration::us(static_cast<std::int64_t>(prng.below(200'000)));
    const LinkId link = prng.chance(0.5) ? kLeft : kRight;
    switch (prng.below(6)) {
      case 3:
        lan.table.doubt(link, any_ip(), now);
        break;
      case 0:
        (void)lan.table.on_arp(now, link,
                               prng.chance(0.5) ? request(any_ip(), any_mac()) : reply(any_ip(), any_mac()));
        break;
      case 1:
        (void)lan.table.poll(now, link);
        break;
      case 2:
        for (const OutgoingArp& out : lan.sent(now))
          ASSERT_TRUE(out.packet.sender_ip == kUs || out.packet.sender_ip == kUsRight);
        ASSERT_GT(lan.table.next_deadline(), now) << "all was sent, step " << step;
        break;
      default:
        if (lan.table.lookup(link, any_ip(), now)) ++known;
    }
    ASSERT_LE(lan.table.size(), 8u);
  }
  EXPECT_GT(known, 100u);
}

}  // namespace
}  // namespace braid::stack
