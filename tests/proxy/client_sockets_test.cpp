#include "proxy/daemon/client_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "proxy/channel/unix_socket.h"

namespace braid::proxy {
namespace {

ClientMessage message(ClientId client, std::uint32_t serial) {
  ClientMessage m;
  m.client = client;
  m.message.serial = serial;
  return m;
}

// Clients that are attached: the other ends of their sockets are the test's.
class ClientSocketsTest : public ::testing::Test {
 protected:
  ~ClientSocketsTest() override {
    for (const int fd : theirs_)
      if (fd >= 0) ::close(fd);
  }
  // Returns the number of its end in theirs_.
  std::size_t attach(ClientId id) {
    std::array<int, 2> ends{};
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    sockets_.add(ends[0], id);
    ours_.push_back(ends[0]);
    theirs_.push_back(ends[1]);
    return theirs_.size() - 1;
  }
  void send(std::size_t client, std::uint32_t serial) {
    ASSERT_EQ(send_message(theirs_[client], message(0, serial).message, -1, false), Sent::kSent);
  }
  // Serials of what the client can read now.
  std::vector<std::uint32_t> read(std::size_t client) {
    std::vector<std::uint32_t> serials;
    control::Message m;
    for (int fd = -1; receive_message(theirs_[client], &m, &fd);) serials.push_back(m.serial);
    return serials;
  }
  short awaited(std::size_t client) {
    std::vector<pollfd> fds;
    sockets_.append_to(fds);
    for (const pollfd& p : fds)
      if (p.fd == ours_[client]) return p.events;
    return 0;
  }
  static bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

  ClientSockets sockets_;
  std::vector<int> ours_, theirs_;
};

TEST_F(ClientSocketsTest, MessageReachesItsClientAtOnce) {
  attach(7);
  attach(8);
  EXPECT_TRUE(sockets_.send(message(8, 1)));
  EXPECT_TRUE(sockets_.send(message(8, 2)));
  EXPECT_TRUE(sockets_.send(message(99, 3))) << "it is gone";
  EXPECT_TRUE(read(0).empty());
  EXPECT_EQ(read(1), (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(ClientSocketsTest, RequestComesWithItsClient) {
  attach(7);
  attach(8);
  EXPECT_FALSE(sockets_.serve(ours_[1]).has_value()) << "nothing was sent";
  send(1, 5);
  const std::optional<ClientSockets::Request> request = sockets_.serve(ours_[1]);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->client, 8u);
  ASSERT_TRUE(request->message.has_value());
  EXPECT_EQ(request->message->serial, 5u);
  EXPECT_FALSE(sockets_.serve(-2).has_value()) << "nobody's socket";
}

TEST_F(ClientSocketsTest, ClientThatIsGoneOrSendsNoMessageIsReported) {
  attach(7);
  ::close(theirs_[0]);
  theirs_[0] = -1;
  std::optional<ClientSockets::Request> request = sockets_.serve(ours_[0]);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->client, 7u);
  EXPECT_FALSE(request->message.has_value());
  attach(8);
  ASSERT_EQ(::send(theirs_[1], "short", 5, 0), 5);
  request = sockets_.serve(ours_[1]);
  ASSERT_TRUE(request.has_value());
  EXPECT_FALSE(request->message.has_value());
}

TEST_F(ClientSocketsTest, RequestsOfAClientThatDoesNotReadWaitUntilItHasReadAll) {
  attach(7);
  EXPECT_EQ(awaited(0), POLLIN);
  std::uint32_t sent = 0;
  while (awaited(0) == POLLIN) ASSERT_TRUE(sockets_.send(message(7, sent++)));
  ASSERT_TRUE(sockets_.send(message(7, sent++)));
  send(0, 5);
  EXPECT_FALSE(sockets_.serve(ours_[0]).has_value());
  EXPECT_EQ(awaited(0), POLLOUT);
  std::vector<std::uint32_t> all = read(0);
  const std::optional<ClientSockets::Request> request = sockets_.serve(ours_[0]);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->message->serial, 5u);
  EXPECT_EQ(awaited(0), POLLIN);
  for (const std::uint32_t serial : read(0)) all.push_back(serial);
  ASSERT_EQ(all.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) EXPECT_EQ(all[i], i) << "in order";
}

TEST_F(ClientSocketsTest, ClientWithTooManyUnreadMessagesIsReported) {
  attach(7);
  while (awaited(0) == POLLIN) ASSERT_TRUE(sockets_.send(message(7, 0)));
  for (std::size_t unsent = 1; unsent < ClientSockets::kMaxUnsent; ++unsent)
    ASSERT_TRUE(sockets_.send(message(7, 0))) << unsent;
  EXPECT_FALSE(sockets_.send(message(7, 0)));
}

TEST_F(ClientSocketsTest, FirstSilentClientIsTheOldestThatNeverSentARequest) {
  EXPECT_FALSE(sockets_.first_silent().has_value());
  attach(7);
  attach(8);
  attach(9);
  EXPECT_EQ(sockets_.first_silent(), ClientId{7});
  send(0, 1);
  ASSERT_TRUE(sockets_.serve(ours_[0]).has_value());
  EXPECT_EQ(sockets_.first_silent(), ClientId{8});
  sockets_.remove(8);
  EXPECT_EQ(sockets_.first_silent(), ClientId{9});
}

TEST_F(ClientSocketsTest, RemovedClientsSocketIsClosed) {
  attach(7);
  attach(8);
  EXPECT_TRUE(sockets_.has(7));
  sockets_.remove(7);
  sockets_.remove(7);
  EXPECT_FALSE(sockets_.has(7));
  EXPECT_TRUE(sockets_.has(8));
  EXPECT_FALSE(is_open(ours_[0]));
  EXPECT_TRUE(is_open(ours_[1]));
  sockets_.remove(8);
  EXPECT_TRUE(sockets_.empty());
}

TEST_F(ClientSocketsTest, AllSocketsAreClosedAtTheEnd) {
  int ours = -1;
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  {
    ClientSockets sockets;
    sockets.add(ends[0], 7);
    ours = ends[0];
    EXPECT_TRUE(is_open(ours));
  }
  EXPECT_FALSE(is_open(ours));
  ::close(ends[1]);
}

TEST_F(ClientSocketsTest, NumberOfClientsIsBounded) {
  for (ClientId id = 0; id < ClientSockets::kMaxClients; ++id) {
    EXPECT_FALSE(sockets_.full());
    attach(id);
  }
  EXPECT_TRUE(sockets_.full());
  sockets_.remove(3);
  EXPECT_FALSE(sockets_.full());
}

}  // namespace
}  // namespace braid::proxy
