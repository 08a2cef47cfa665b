// Ranks of a PMIx job: what they tell each other, the hosts that follow from it, and who may speak on the connection between two of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "tools/braid/process/pipe.h"
#include "tools/braid/run/ranks/rank_card.h"
#include "tools/braid/run/ranks/relay_order.h"
#include "tools/braid/run/ranks/tls_connection.h"
#include "tools/braid/run/ranks/tls_relay.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Side = TlsConnection::Side;
using Step = TlsConnection::Step;

RankCard card(const std::string& host, std::vector<OwnAddress> addresses,
              std::vector<unsigned> processors = {0}) {
  return {.version = kVersion,
          .host = host,
          .machine = "machine of " + host,
          .addresses = std::move(addresses),
          .port = 4711,
          .certificate = std::string("\0\x7f\xff", 3),
          .pid = 12,
          .processors = std::move(processors)};
}

TEST(RankCards, ComeBackAsTheyWere) {
  const RankCard told = card("a", {{"10.0.0.1", 24}, {"192.168.7.9", 16}}, {1, 3});
  const Result<RankCard> read = read_card(2, text_of(told));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->host, "a");
  EXPECT_EQ(read->machine, told.machine);
  ASSERT_THAT(read->addresses, SizeIs(2));
  EXPECT_EQ(read->addresses[1].address, "192.168.7.9");
  EXPECT_EQ(read->addresses[1].prefix, 16u);
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->certificate, told.certificate);
  EXPECT_EQ(read->pid, 12);
  EXPECT_THAT(read->processors, ElementsAre(1, 3));
}

TEST(RankCards, NameTheRankThatIsOfAnotherVersion) {
  const std::string older = R"({"version": "0.0.1", "of": "a braid that tells other things"})";
  const Result<RankCard> read = read_card(3, older);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text, HasSubstr("rank 3: its braid has version 0.0.1"));
  EXPECT_THAT(read.error().text, HasSubstr("install the same version on every host"));
}

TEST(RankCards, RefuseWhatIsNone) {
  std::string wrong_address = text_of(card("a", {{"10.0.0.1", 24}}));
  wrong_address.replace(wrong_address.find("10.0.0.1"), 8, "10.0.0.x");
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1, 2]"), std::string("\xff"), wrong_address,
        text_of(card("a", {{"10.0.0.1", 33}}))}) {
    const Result<RankCard> read = read_card(0, text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().text,
                HasSubstr("rank 0: what it tells is not what a braid of this version tells"));
  }
}

TEST(RankHosts, HaveASlotForEachRank) {
  const std::vector<RankCard> cards{card("a", {{"10.0.0.1", 24}}, {4}), card("b", {{"10.0.0.2", 24}}),
                                    card("a", {{"10.0.0.1", 24}}, {1})};
  const Result<std::vector<RankHost>> hosts = hosts_of(cards);
  ASSERT_TRUE(hosts) << hosts.error().text;
  ASSERT_THAT(*hosts, SizeIs(2));
  EXPECT_EQ((*hosts)[0].host.name, "a");
  EXPECT_EQ((*hosts)[0].host.slots, 2u);
  EXPECT_THAT((*hosts)[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT((*hosts)[0].host.addresses, ElementsAre("10.0.0.1"));
  EXPECT_THAT((*hosts)[1].ranks, ElementsAre(1));
  EXPECT_THAT(processors_of((*hosts)[0], cards), ElementsAre(1, 4));
}

TEST(RankHosts, MeetInANetworkThatAllHaveAndThatIsNotInsideThem) {
  // Docker's network has the same address on each.
  const std::vector<RankCard> cards{card("a", {{"172.17.0.1", 16}, {"192.168.1.5", 24}, {"10.1.0.1", 16}}),
                                    card("b", {{"10.1.3.7", 16}, {"172.17.0.1", 16}})};
  const Result<std::vector<RankHost>> hosts = hosts_of(cards);
  ASSERT_TRUE(hosts) << hosts.error().text;
  EXPECT_THAT((*hosts)[0].host.addresses, ElementsAre("10.1.0.1"));
  EXPECT_THAT((*hosts)[1].host.addresses, ElementsAre("10.1.3.7"));
}

TEST(RankHosts, MayBeBehindRouters) {
  const std::vector<RankCard> cards{card("a", {{"10.1.0.1", 24}}), card("b", {{"10.2.0.1", 24}})};
  const Result<std::vector<RankHost>> hosts = hosts_of(cards);
  ASSERT_TRUE(hosts) << hosts.error().text;
  EXPECT_THAT((*hosts)[1].host.addresses, ElementsAre("10.2.0.1"));
}

TEST(RankHosts, WithoutAddressesAreNamed) {
  for (const std::vector<OwnAddress>& addresses :
       {std::vector<OwnAddress>{}, std::vector<OwnAddress>{{"10.0.0.1", 24}}}) {
    const std::vector<RankCard> cards{card("a", {{"10.0.0.1", 24}}), card("b", addresses)};
    const Result<std::vector<RankHost>> hosts = hosts_of(cards);
    ASSERT_FALSE(hosts);
    EXPECT_THAT(hosts.error().text, HasSubstr("have no IPv4 addresses of which each has its own"));
  }
}

TEST(RankHosts, OfOneMachineNeedNoAddress) {
  const std::vector<RankCard> cards{card("a", {}), card("a", {})};
  const Result<std::vector<RankHost>> hosts = hosts_of(cards);
  ASSERT_TRUE(hosts) << hosts.error().text;
  ASSERT_THAT(*hosts, SizeIs(1));
  EXPECT_EQ(hosts->front().host.slots, 2u);
}

TlsIdentity identity() {
  Result<TlsIdentity> made = make_tls_identity();
  EXPECT_TRUE(made) << made.error().text;
  return std::move(*made);
}

// Two ends of a connection; each expects a certificate.
struct Ends {
  Ends(const TlsIdentity& a, const std::string& a_expects, const TlsIdentity& b,
       const std::string& b_expects) {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    connects.emplace(TlsConnection::create(Descriptor(sockets[0]), Side::kConnects, a, a_expects).value());
    accepts.emplace(TlsConnection::create(Descriptor(sockets[1]), Side::kAccepts, b, b_expects).value());
  }
  // What each comes to.
  std::vector<Step> greet() {
    Step a = Step::kWaits, b = Step::kWaits;
    for (int i = 0; i < 10; ++i) {
      if (a == Step::kWaits) a = connects->greet();
      if (b == Step::kWaits) b = accepts->greet();
    }
    return {a, b};
  }
  std::optional<TlsConnection> connects, accepts;
};

TEST(RankConnection, CarriesBytesBetweenTheTwoThatExpectEachOther) {
  const TlsIdentity a = identity(), b = identity();
  Ends ends(a, b.certificate, b, a.certificate);
  ASSERT_THAT(ends.greet(), ElementsAre(Step::kDone, Step::kDone));
  std::string sent = "do this", got;
  EXPECT_EQ(ends.connects->write(sent), Step::kDone);
  EXPECT_EQ(sent, "");
  EXPECT_EQ(ends.accepts->read(got), Step::kDone);
  EXPECT_EQ(got, "do this");
  EXPECT_EQ(ends.accepts->read(got), Step::kWaits);
  ends.connects->say_end();
  EXPECT_EQ(ends.accepts->read(got), Step::kEnded);
}

TEST(RankConnection, TakesOrdersOnlyFromTheCertificateThatItExpects) {
  const TlsIdentity a = identity(), b = identity(), another = identity();
  Ends ends(another, b.certificate, b, a.certificate);
  // In TLS 1.3 the one that connects has done its part before it hears that it is refused.
  EXPECT_EQ(ends.greet()[1], Step::kFailed);
  std::string got;
  EXPECT_EQ(ends.connects->read(got), Step::kFailed);
  EXPECT_THAT(ends.accepts->problem(), HasSubstr("certificate verify failed"));
}

TEST(RankConnection, GivesOrdersOnlyToTheCertificateThatItExpects) {
  const TlsIdentity a = identity(), b = identity(), another = identity();
  Ends ends(a, b.certificate, another, a.certificate);
  EXPECT_THAT(ends.greet(), ElementsAre(Step::kFailed, Step::kFailed));
}

TEST(RankConnection, RefusesWhoHasTheCertificateAndNotItsKey) {
  const TlsIdentity a = identity(), b = identity();
  const TlsIdentity thief{.key = identity().key, .certificate = a.certificate};
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  const Descriptor other(sockets[1]);
  EXPECT_FALSE(TlsConnection::create(Descriptor(sockets[0]), Side::kConnects, thief, b.certificate));
}

TEST(RankConnection, EndsAtWhatIsNoTls) {
  const TlsIdentity a = identity(), b = identity();
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  const Descriptor other(sockets[1]);
  Result<TlsConnection> accepts =
      TlsConnection::create(Descriptor(sockets[0]), Side::kAccepts, b, a.certificate);
  ASSERT_TRUE(accepts);
  EXPECT_EQ(accepts->greet(), Step::kWaits);
  ASSERT_EQ(::send(other.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_EQ(accepts->greet(), Step::kFailed);
}

// Two relays: what is written to the one's pipe comes out of the other's, and so does its end.
struct Relayed {
  Relayed() : a(identity()), b(identity()), ends(a, b.certificate, b, a.certificate) {
    ::signal(SIGPIPE, SIG_IGN);  // as relays want it
    EXPECT_THAT(ends.greet(), ElementsAre(Step::kDone, Step::kDone));
    for (Result<Pipe>* const pipe : {&in, &out, &back_in, &back_out}) *pipe = make_pipe();
    one.emplace(std::move(*ends.connects), in->read.get(), back_out->write.get());
    two.emplace(std::move(*ends.accepts), back_in->read.get(), out->write.get());
  }
  void turn() {
    for (int i = 0; i < 20; ++i) one->turn(), two->turn();
  }
  TlsIdentity a, b;
  Ends ends;
  Result<Pipe> in = error("none"), out = error("none"), back_in = error("none"), back_out = error("none");
  std::optional<TlsRelay> one, two;
};

TEST(Relay, CarriesAnEndThatWasSaid) {
  Relayed relayed;
  const std::string text(40'000, 'x');  // more than a record of TLS, less than a pipe
  ASSERT_EQ(::write(relayed.in->write.get(), text.data(), text.size()), 40'000);
  relayed.in->write.close();
  relayed.turn();
  EXPECT_TRUE(relayed.one->has_sent_all());
  EXPECT_TRUE(relayed.two->has_received_all());
  EXPECT_FALSE(relayed.two->is_lost());
  std::string got(50'000, '\0');
  EXPECT_EQ(::read(relayed.out->read.get(), got.data(), got.size()), 40'000);
  EXPECT_FALSE(relayed.one->has_received_all());
  relayed.back_in->write.close();
  relayed.turn();
  EXPECT_TRUE(relayed.one->has_received_all());
  EXPECT_TRUE(relayed.two->has_sent_all());
  EXPECT_FALSE(relayed.one->is_lost());
}

TEST(Relay, TellsALostConnectionFromAnEnd) {
  Relayed relayed;
  relayed.turn();
  relayed.one.reset();
  for (int i = 0; i < 20; ++i) relayed.two->turn();
  EXPECT_TRUE(relayed.two->has_received_all());
  EXPECT_TRUE(relayed.two->is_lost());
  EXPECT_NE(relayed.two->problem(), "");
}

TEST(RelayOrder, ComesBackAsItWas) {
  const RelayOrder told{.rank = 3,
                        .address = "10.0.0.9",
                        .port = 4000,
                        .own = identity(),
                        .certificate_of_peer = identity().certificate};
  const Result<RelayOrder> read = read_relay_order(text_of(told));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->rank, 3u);
  EXPECT_EQ(read->address, "10.0.0.9");
  EXPECT_EQ(read->port, 4000);
  EXPECT_EQ(read->own.key, told.own.key);
  EXPECT_EQ(read->own.certificate, told.own.certificate);
  EXPECT_EQ(read->certificate_of_peer, told.certificate_of_peer);
  EXPECT_FALSE(read_relay_order(""));
  EXPECT_FALSE(read_relay_order(text_of(told).substr(0, 100)));
  EXPECT_FALSE(read_relay_order(std::string("\1\0\0\0\x01", 5)));
}

}  // namespace
}  // namespace braid::cli
