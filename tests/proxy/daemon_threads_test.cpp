// Two daemons in one process, each with its proxies' threads, and clients in threads of theirs: what
// ThreadSanitizer is to see of the hand-over between control plane and proxies, and from proxy to proxy.
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "proxy/daemon/daemon.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

class DaemonThreads : public ::testing::Test {
 protected:
  DaemonThreads() {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &term, nullptr);  // before there are threads: it is for the daemons
    NodesOptions o;
    o.proxies = {2, 2};
    o.misdirect = true;
    o.transport.peer_death_ms = 60'000;
    o.transport.path_death_ms = 20'000;
    const auto wires = make_wires(o);
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    for (std::uint16_t c = 0; c < 2; ++c) {
      NodeConfig config = node_config(o, c, wires);
      config.idle.spins = 0;
      config.idle.yields = 20;
      address_[c] = fmt::format("@braid-threads-test-{}-{}", ::getpid(), c);
      config.listen_address = address_[c];
      config.ready_fd = ready[1];
      daemons_.emplace_back([config] {
        const Result<DaemonEnd> done = run_daemon(config);
        EXPECT_TRUE(done.ok()) << done.error().text;
      });
    }
    for (int n = 0; n < 2; ++n) {
      char byte = 0;
      EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    }
    for (const int fd : ready) ::close(fd);
    for (const auto& [ends, fd] : wires) ::close(fd);
  }
  ~DaemonThreads() override {
    ::kill(::getpid(), SIGTERM);  // stays pending, so each daemon sees it
    for (std::thread& t : daemons_) t.join();
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    const timespec now{0, 0};
    ::sigtimedwait(&term, nullptr, &now);
  }

  std::unique_ptr<Client> attach(unsigned cluster, const ClientOptions& options = {}) {
    Result<std::unique_ptr<Client>> made = Client::attach(address_[cluster], options);
    if (!made) ADD_FAILURE() << made.error().text;
    CHECK(made.ok());
    return std::move(made).value();
  }

  std::string address_[2];
  std::vector<std::thread> daemons_;
};

// Every endpoint belongs to a thread of its own, of the same two clients.
TEST_F(DaemonThreads, EndpointsOfOneClientInDifferentThreads) {
  constexpr unsigned kThreads = 2;
  constexpr std::uint32_t kMessages = 300;
  ClientOptions options;
  options.endpoints = kThreads;
  auto a = attach(0, options);
  auto b = attach(1, options);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {  // echoes what comes
      Endpoint& endpoint = b->endpoint(t);
      ConnectionOptions o;
      o.ordered = t % 2 == 0;
      ASSERT_TRUE(endpoint.listen(PortId(10 + t), o).ok());
      std::uint32_t echoed = 0;
      EXPECT_TRUE(until(
          [&] {
            const int handed = endpoint.poll([&](Connection& from, ByteView message) {
              EXPECT_EQ(from.try_send(message), SendStatus::kSent);
              ++echoed;
            });
            if (handed == 0) ::sched_yield();
          },
          [&] { return echoed == kMessages; }, 120_s));
      endpoint.flush();
    });
    threads.emplace_back([&, t] {
      Endpoint& endpoint = a->endpoint(t);
      ConnectionOptions o;
      o.ordered = t % 2 == 0;
      const Result<Connection*> c = endpoint.connect(ClusterId(1), PortId(10 + t), o, 60_s);
      ASSERT_TRUE(c.ok()) << c.error().text;
      std::uint32_t sent = 0;
      std::uint32_t got = 0;
      EXPECT_TRUE(until(
          [&] {
            // Few in flight, so that the echo always has credit.
            if (sent < kMessages && sent - got < 16 &&
                (*c)->try_send(numbered(sent, 300)) == SendStatus::kSent)
              ++sent;
            const int handed = endpoint.poll([&](Connection&, ByteView message) {
              EXPECT_TRUE(intact(message));
              ++got;
            });
            if (handed == 0) ::sched_yield();
          },
          [&] { return got == kMessages; }, 120_s));
    });
  }
  for (std::thread& t : threads) t.join();
}

// Clients come and go, with connections open and messages in flight, while others go on.
TEST_F(DaemonThreads, ClientsComeAndGoMeanwhile) {
  auto b = attach(1);
  ASSERT_TRUE(b->endpoint(0).listen(PortId(9), {}).ok());
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> gone{0};
  // The listener has room for a few connections. If the thread below is slow to close those that are over, a connect()
  // is refused until it has.
  const auto connect = [](Endpoint& from) {
    for (const Instant limit = monotonic_now() + 60_s;;) {
      Result<Connection*> c = from.connect(ClusterId(1), PortId(9), {}, 60_s);
      if (c || monotonic_now() > limit || c.error().text.find("no receive buffer left") == std::string::npos)
        return c;
      ::sched_yield();
    }
  };
  std::thread coming_and_going([&] {
    for (std::uint32_t n = 0; n < 15; ++n) {
      auto a = attach(0);
      for (int i = 0; i < 2; ++i) {
        const Result<Connection*> c = connect(a->endpoint(0));
        ASSERT_TRUE(c.ok()) << c.error().text;
        EXPECT_EQ((*c)->try_send(numbered(n, 1000)), SendStatus::kSent);
      }
      ++gone;
    }
    stop = true;
  });
  std::uint32_t got = 0;
  EXPECT_TRUE(until(
      [&] {
        std::vector<Connection*> over;
        const int handed = b->endpoint(0).poll([&](Connection&, ByteView message) {
          EXPECT_TRUE(intact(message));
          ++got;
        });
        for (const auto& c : b->endpoint(0).connections())
          if (handed == 0 && c->state() == ConnectionState::kPeerClosed) over.push_back(c.get());
        // Messages of a closed peer can be taken before its state is closed.
        if (!over.empty() && b->endpoint(0).poll([&](Connection&, ByteView) { ++got; }) == 0)
          for (Connection* c : over) b->endpoint(0).close(c);
        if (handed == 0) ::sched_yield();
      },
      [&] { return stop && got >= 2 * gone; }, 120_s));
  coming_and_going.join();
  EXPECT_EQ(got, 2 * gone);
}

}  // namespace
}  // namespace braid::proxy::test
