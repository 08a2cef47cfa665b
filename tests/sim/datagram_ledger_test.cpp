// The oracle of datagrams: deliveries that it accepts, and those that it finds wrong.
#include "tests/sim/datagram_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::sim {
namespace {

using proxy::Datagram;
using proxy::DatagramReturn;

constexpr ClusterId kFrom{0};
constexpr ClusterId kTo{1};

struct Fixture {
  DatagramLedger ledger;
  DatagramLedger::Number number = 0;

  DatagramLedger::Number offer(std::uint32_t bytes = 20) {
    DatagramLedger::Entry e;
    e.from = kFrom;
    e.to = kTo;
    e.protocol = stack::kDatagrams;
    e.source = PortId(10);
    e.destination = PortId(11);
    e.bytes = bytes;
    return ledger.offer(e);
  }
  Datagram arriving(DatagramLedger::Number sent) {
    const DatagramLedger::Entry& e = ledger[sent];
    Datagram d;
    d.protocol = e.protocol;
    d.peer = e.from;
    d.source = e.source;
    d.destination = e.destination;
    const std::vector<std::byte> content = ledger.content(sent);
    d.bytes = static_cast<std::uint16_t>(content.size());
    std::copy(content.begin(), content.end(), d.data.begin());
    return d;
  }
  Datagram returning(DatagramLedger::Number sent, DatagramReturn reason) {
    Datagram d = arriving(sent);
    d.returned = reason;
    d.peer = ledger[sent].to;
    return d;
  }
  std::string deliver(const Datagram& d) { return ledger.arrive(kTo, d, &number); }
  std::string come_back(const Datagram& d) { return ledger.arrive(kFrom, d, &number); }
};

TEST(DatagramLedger, EachIsDeliveredOnce) {
  Fixture f;
  for (std::uint32_t bytes : {4u, 5u, 192u}) f.offer(bytes);
  EXPECT_EQ(f.ledger.open(), 3u);
  for (DatagramLedger::Number n : {2u, 0u, 1u}) {
    EXPECT_EQ(f.deliver(f.arriving(n)), "");
    EXPECT_EQ(f.number, n);
  }
  EXPECT_EQ(f.ledger.open(), 0u);
  EXPECT_NE(f.deliver(f.arriving(1)).find("delivered twice"), std::string::npos);
}

TEST(DatagramLedger, DatagramsThatWereNotSentAreFound) {
  Fixture f;
  Datagram d = f.arriving(f.offer());
  d.bytes = 3;
  EXPECT_NE(f.deliver(d).find("never sent"), std::string::npos);
  d = f.arriving(0);
  store(d.data.data(), std::uint32_t{1});
  EXPECT_NE(f.deliver(d).find("never sent"), std::string::npos);
  EXPECT_EQ(f.ledger.open(), 1u);
}

TEST(DatagramLedger, ChangedDatagramsAreFound) {
  Fixture f;
  const DatagramLedger::Number n = f.offer();
  const auto changed = [&](auto&& change) {
    Datagram d = f.arriving(n);
    change(d);
    return f.deliver(d);
  };
  EXPECT_NE(changed([](Datagram& d) { d.protocol = stack::kMessages; }).find("protocol 1"),
            std::string::npos);
  EXPECT_NE(changed([](Datagram& d) { d.destination = PortId(12); }).find("ports are 10 and 12"),
            std::string::npos);
  EXPECT_NE(changed([](Datagram& d) { d.peer = ClusterId(2); }).find("from c2"), std::string::npos);
  EXPECT_NE(changed([](Datagram& d) { d.data[19] ^= std::byte{1}; }).find("were changed"), std::string::npos);
  EXPECT_NE(changed([](Datagram& d) { d.bytes = 19; }).find("were changed"), std::string::npos);
  EXPECT_NE(f.come_back(f.arriving(n)).find("arrived at c0"), std::string::npos);
  EXPECT_EQ(f.deliver(f.arriving(n)), "");
}

TEST(DatagramLedger, OneThatComesBackWasNotDelivered) {
  Fixture f;
  f.offer();
  f.offer();
  EXPECT_EQ(f.come_back(f.returning(0, DatagramReturn::kNoSuchPort)), "");
  EXPECT_EQ(f.ledger.open(), 1u);
  EXPECT_NE(f.deliver(f.arriving(0)).find("after it had come back"), std::string::npos);
  EXPECT_NE(f.come_back(f.returning(0, DatagramReturn::kNoSuchPort)).find("came back twice"),
            std::string::npos);
  EXPECT_EQ(f.deliver(f.arriving(1)), "");
  EXPECT_NE(f.come_back(f.returning(1, DatagramReturn::kNoRoom)).find("after it had been delivered"),
            std::string::npos);
}

TEST(DatagramLedger, AfterAFailoverOneMayComeBackTwiceAndIsDeliveredOnce) {
  Fixture f;
  f.offer();
  f.offer();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f.ledger.arrive(kFrom, f.returning(0, DatagramReturn::kRefused), &f.number, true), "");
  }
  EXPECT_EQ(f.ledger.open(), 1u);
  EXPECT_EQ(f.ledger.arrive(kTo, f.arriving(1), &f.number, true), "");
  EXPECT_NE(f.ledger.arrive(kTo, f.arriving(1), &f.number, true), "");
}

TEST(DatagramLedger, PossibleDuplicateMayHaveBeenDelivered) {
  Fixture f;
  f.offer();
  f.offer();
  EXPECT_EQ(f.deliver(f.arriving(0)), "");
  EXPECT_EQ(f.come_back(f.returning(0, DatagramReturn::kMaybeDelivered)), "");
  EXPECT_EQ(f.come_back(f.returning(1, DatagramReturn::kMaybeDelivered)), "");
  EXPECT_EQ(f.deliver(f.arriving(1)), "");
  EXPECT_EQ(f.ledger.open(), 0u);
}

TEST(DatagramLedger, WithdrawnOneIsNotExpectedAndMustNotArrive) {
  Fixture f;
  f.ledger.withdraw(f.offer());
  EXPECT_EQ(f.ledger.open(), 0u);
  EXPECT_NE(f.deliver(f.arriving(0)), "");
}

}  // namespace
}  // namespace braid::sim
