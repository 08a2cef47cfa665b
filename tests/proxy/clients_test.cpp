#include "proxy/daemon/clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace braid::proxy {
namespace {

using ::testing::HasSubstr;

control::Attach request(std::uint64_t receive_bytes = 16 << 10) {
  control::Attach a{};
  a.endpoints = 1;
  a.send_bytes = 64 << 10;
  a.receive_bytes = receive_bytes;
  return a;
}

class ClientsTest : public ::testing::Test {
 protected:
  Clients clients_{{.channel = {}, .memory_bytes = 4 << 20}, make_plain_region};
};

TEST_F(ClientsTest, NumbersAreNotUsedTwice) {
  EXPECT_EQ(clients_.add(), 1u);
  EXPECT_EQ(clients_.add(), 2u);
  clients_.erase(2);
  EXPECT_EQ(clients_.add(), 3u);
  EXPECT_EQ(clients_.find(2), nullptr);
}

TEST_F(ClientsTest, ClientAttachesOnce) {
  const ClientId id = clients_.add();
  EXPECT_EQ(clients_.memory(id), nullptr);
  const Result<ClientMemory*> memory = clients_.attach(*clients_.find(id), request(), 2);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(clients_.memory(id), *memory);
  EXPECT_EQ((*memory)->geometry().proxies, 2);
  EXPECT_EQ(clients_.attach(*clients_.find(id), request(), 2).error().text, "attached already");
}

TEST_F(ClientsTest, MemoryOfAllClientsIsBounded) {
  const ClientId first = clients_.add(), second = clients_.add();
  ASSERT_TRUE(clients_.attach(*clients_.find(first), request(1 << 20), 1).ok());
  EXPECT_THAT(clients_.attach(*clients_.find(second), request(2 << 20), 1).error().text,
              HasSubstr("of at most 4 MiB"));
  ASSERT_TRUE(clients_.attach(*clients_.find(second), request(), 1).ok()) << "a smaller one fits";
  clients_.erase(first);
  clients_.erase(second);
  const ClientId third = clients_.add();
  EXPECT_TRUE(clients_.attach(*clients_.find(third), request(2 << 20), 1).ok());
}

TEST_F(ClientsTest, MemoryThatCannotBeMadeIsAnError) {
  Clients none({}, [](std::uint64_t) -> Result<std::unique_ptr<SharedRegion>> { return error("no memory"); });
  const ClientId id = none.add();
  EXPECT_EQ(none.attach(*none.find(id), request(), 1).error().text, "no memory");
  EXPECT_EQ(none.memory(id), nullptr);
}

TEST_F(ClientsTest, AnswersWaitInOrderAndCanBePickedByClient) {
  const ClientId a = clients_.add(), b = clients_.add();
  clients_.answer(a, control::Kind::kOk, 1);
  clients_.answer(b, control::Kind::kOk, 2, {}, 77);
  clients_.answer(a, control::Kind::kOk, 3);
  EXPECT_EQ(clients_.poll_message(b)->fd, 77);
  EXPECT_FALSE(clients_.poll_message(b));
  EXPECT_EQ(clients_.poll_message()->message.serial, 1u);
  EXPECT_EQ(clients_.poll_message(a)->message.serial, 3u);
  EXPECT_FALSE(clients_.poll_message());
}

TEST_F(ClientsTest, RefusalTextIsCutToItsRoom) {
  const ClientId id = clients_.add();
  clients_.refuse(id, 9, std::string(1000, 'x'));
  const std::optional<ClientMessage> message = clients_.poll_message();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->message.kind, control::Kind::kRefused);
  EXPECT_EQ(message->message.serial, 9u);
  EXPECT_EQ(std::strlen(message->message.refused.text), sizeof message->message.refused.text - 1);
}

TEST_F(ClientsTest, GoneClientIsToldNothingAndGrantedNothing) {
  const ClientId id = clients_.add(), other = clients_.add();
  ASSERT_TRUE(clients_.attach(*clients_.find(id), request(), 1).ok());
  const auto grant = clients_.grant(id, 0, 4096);
  ASSERT_TRUE(grant);
  clients_.answer(id, control::Kind::kOk, 1);
  clients_.answer(other, control::Kind::kOk, 2);
  clients_.gone(id);
  clients_.answer(id, control::Kind::kOk, 3);
  clients_.expel(id);
  EXPECT_EQ(clients_.poll_message()->client, other);
  EXPECT_FALSE(clients_.poll_message());
  EXPECT_FALSE(clients_.poll_expelled());
  EXPECT_FALSE(clients_.grant(id, 0, 4096));
  EXPECT_EQ(clients_.memory(id), nullptr);
  clients_.give_back(id, 0, *grant, 4096);  // its connections end one by one
  EXPECT_EQ(clients_.find(id)->memory->windows().longest_free_bytes(), 16u << 10);
}

TEST_F(ClientsTest, ExpelledClientsAreNamed) {
  const ClientId id = clients_.add();
  clients_.expel(id);
  clients_.expel(id + 1);  // there is none
  EXPECT_EQ(clients_.poll_expelled(), id);
  EXPECT_FALSE(clients_.poll_expelled());
}

TEST_F(ClientsTest, ConnectionsOfAClientShareItsMemory) {
  const ClientId id = clients_.add();
  EXPECT_FALSE(clients_.grant(id, 0, 4096)) << "it has not attached";
  ASSERT_TRUE(clients_.attach(*clients_.find(id), request(), 1).ok());
  EXPECT_TRUE(clients_.grant(id, 0, 16 << 10));
  EXPECT_FALSE(clients_.grant(id, 0, 4096));
  EXPECT_FALSE(clients_.grant(id + 1, 0, 4096)) << "there is none";
}

}  // namespace
}  // namespace braid::proxy
