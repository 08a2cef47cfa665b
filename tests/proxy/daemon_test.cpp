// braidd itself, as a process: real sockets, real kills. Two of them over a shm wire, clients in processes of
// their own where they are to die.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/wake_word.h"
#include "proxy/channel/unix_socket.h"
#include "proxy/client/socket_service.h"
#include "proxy/daemon/node_config.h"
#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr PortId kPort{9};

int text_in_memory(const std::string& text) {
  const int fd = ::memfd_create("config", 0);
  CHECK_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

// A process of this test, killed at the latest when it goes out of scope.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) kill_and_wait(SIGKILL);
  }
  pid_t pid() const { return pid_; }
  // The status of waitpid().
  int kill_and_wait(int signal) {
    ::kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return status;
  }
  bool running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
    pid_ = -1;
    return false;
  }

 private:
  pid_t pid_;
};

// As a container's profile does that does not know the system call.
void refuse_futex_waitv() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(126);
}

enum class Kernel { kAsItIs, kWithoutFutexWaitv };

// `log_fd`: what it writes to standard error; -1: that of this test.
Child start_braidd(const NodeConfig& config, int log_fd = -1, Kernel kernel = Kernel::kAsItIs) {
  const int fd = text_in_memory(to_json(config));
  const std::string number = std::to_string(fd);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  CHECK_GE(pid, 0);
  if (pid == 0) {
    ::alarm(280);  // whatever becomes of this test
    if (::getppid() != parent) ::_exit(1);
    for (const LinkConfig& link : config.links) ::fcntl(link.fd, F_SETFD, 0);
    if (config.counters_fd >= 0) ::fcntl(config.counters_fd, F_SETFD, 0);
    if (config.ready_fd >= 0) ::fcntl(config.ready_fd, F_SETFD, 0);
    if (log_fd >= 0) ::dup2(log_fd, STDERR_FILENO);
    if (kernel == Kernel::kWithoutFutexWaitv) refuse_futex_waitv();
    ::execl(BRAIDD, BRAIDD, "--config-fd", number.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(fd);
  return Child(pid);
}

// Runs `f` in a process of its own; what it returns is the exit status.
template <class F>
Child in_child(F&& f) {
  const pid_t pid = ::fork();
  CHECK_GE(pid, 0);
  if (pid == 0) {
    ::alarm(120);
    ::_exit(f());
  }
  return Child(pid);
}

class Daemons : public ::testing::Test {
 protected:
  explicit Daemons(Kernel kernel = Kernel::kAsItIs, std::uint32_t yields = 20) {
    NodesOptions o;
    o.proxies = {2, 2};
    o.transport.peer_death_ms = 2000;
    const auto wires = make_wires(o);
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    for (std::uint16_t c = 0; c < 2; ++c) {
      NodeConfig config = node_config(o, c, wires);
      // More threads than cores: no thread spins.
      config.idle.spins = 0;
      config.idle.yields = yields;
      address_[c] = fmt::format("@braid-daemon-test-{}-{}", ::getpid(), c);
      config.listen_address = address_[c];
      config.ready_fd = ready[1];
      counters_fd_[c] = ::memfd_create("counters", MFD_CLOEXEC);
      EXPECT_EQ(::ftruncate(counters_fd_[c], sizeof(NodeCounters)), 0);
      config.counters_fd = counters_fd_[c];
      counters_[c] = static_cast<const NodeCounters*>(
          ::mmap(nullptr, sizeof(NodeCounters), PROT_READ, MAP_SHARED, counters_fd_[c], 0));
      log_fd_[c] = ::memfd_create("log", MFD_CLOEXEC);
      braidd_.push_back(start_braidd(config, log_fd_[c], kernel));
    }
    ::close(ready[1]);
    for (int n = 0; n < 2; ++n) {
      char byte = 0;
      EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "a braidd died at start";
    }
    ::close(ready[0]);
    for (const auto& [ends, fd] : wires) ::close(fd);
  }
  ~Daemons() override {
    for (Child& braidd : braidd_) {
      // It lives, and ends in order: with no complaint of a sanitizer.
      EXPECT_TRUE(braidd.running());
      if (!braidd.running()) continue;
      const int status = braidd.kill_and_wait(SIGTERM);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    }
    for (int c = 0; c < 2; ++c) {
      ::munmap(const_cast<NodeCounters*>(counters_[c]), sizeof(NodeCounters));
      ::close(counters_fd_[c]);
      show_log(c);
    }
  }
  // Where the test has failed, for the reader.
  void show_log(int cluster) const {
    char text[4096];
    const ssize_t n = HasFailure() ? ::pread(log_fd_[cluster], text, sizeof text, 0) : 0;
    if (n > 0) ::fprintf(stderr, "braidd %d: %.*s\n", cluster, static_cast<int>(n), text);
    ::close(log_fd_[cluster]);
  }

  std::unique_ptr<Client> attach(unsigned cluster, const ClientOptions& options = {}) {
    Result<std::unique_ptr<Client>> made = Client::attach(address_[cluster], options);
    if (!made) ADD_FAILURE() << made.error().text;
    CHECK(made.ok());
    return std::move(made).value();
  }
  std::uint64_t count(unsigned cluster, Counter ProxyCounters::*counter) const {
    std::uint64_t sum = 0;
    for (const ProxyCounters& p : counters_[cluster]->proxy) sum += (p.*counter).get();
    return sum;
  }
  static std::size_t descriptors_of(pid_t pid) {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid)))
      ++n;
    return n;
  }

  // Two clients that keep the rules and send both ways.
  void begin_traffic() {
    a_ = attach(0);
    b_ = attach(1);
    good_ = connect(a_->endpoint(0), ClusterId(1), b_->endpoint(0), PortId(1));
  }
  void traffic() {
    if (talk_both_ways(good_, a_->endpoint(0), b_->endpoint(0), sent_, got_) == 0) ::sched_yield();
  }
  // One message, as soon as there is credit: on a busy machine that of earlier messages may still be on its way.
  void send_now(std::uint32_t number) {
    ASSERT_TRUE(until([&] { a_->endpoint(0).poll(ignore()); },
                      [&] { return good_.out->try_send(numbered(number, 100)) == SendStatus::kSent; }));
    a_->endpoint(0).flush();
  }
  void expect_unharmed(std::uint32_t messages = 100) {
    const std::uint32_t first = got_[0], second = got_[1];
    ASSERT_TRUE(until([&] { traffic(); },
                      [&] { return got_[0] - first >= messages && got_[1] - second >= messages; }));
    EXPECT_EQ(good_.out->state(), ConnectionState::kOpen);
    EXPECT_EQ(good_.in->state(), ConnectionState::kOpen);
  }

  std::string address_[2];
  int counters_fd_[2];
  int log_fd_[2];
  const NodeCounters* counters_[2];
  std::vector<Child> braidd_;
  std::unique_ptr<Client> a_;
  std::unique_ptr<Client> b_;
  Pair good_;
  std::array<std::uint32_t, 2> sent_{};
  std::array<std::uint32_t, 2> got_{};
};

TEST_F(Daemons, MessagesOfManyMiBBothOrders) {
  for (const bool ordered : {true, false}) {
    ClientOptions large;
    large.receive_bytes = 4u << 20;
    auto b = attach(1, large);
    ConnectionOptions o;
    o.ordered = ordered;
    o.window_bytes = 1u << 20;
    ASSERT_TRUE(b->endpoint(0).listen(kPort, o).ok());
    const std::size_t sizes[] = {0, 5u << 20, 100, 32769, 3'333'333, 8u << 20};
    Child sender = in_child([&] {
      auto a = Client::attach(address_[0], {});
      if (!a) return 10;
      const auto c = (*a)->endpoint(0).connect(ClusterId(1), kPort, o, 20_s);
      if (!c) return 11;
      for (std::uint32_t n = 0; n < std::size(sizes); ++n)
        if ((*c)->send(numbered(n, sizes[n]), 60_s) != SendStatus::kSent) return 12;
      return 0;  // and exits at once: what it has handed over is still delivered
    });
    std::size_t got = 0;
    ConnectionState state = ConnectionState::kOpen;
    ASSERT_TRUE(until(
        [&] {
          const int handed = b->endpoint(0).poll([&](Connection& from, ByteView message) {
            const std::size_t n = message.empty() ? 0 : number_of(message);
            ASSERT_LT(n, std::size(sizes));
            if (ordered) {
              EXPECT_EQ(n, got);
            }
            EXPECT_EQ(message.size(), sizes[n]);
            EXPECT_TRUE(message.empty() || intact(message));
            ++got;
            state = from.state();
          });
          if (handed == 0) ::sched_yield();
          if (!b->endpoint(0).connections().empty()) state = b->endpoint(0).connections()[0]->state();
        },
        [&] { return got == std::size(sizes) && state == ConnectionState::kPeerClosed; }, 100_s))
        << got;
    EXPECT_EQ(WEXITSTATUS(sender.wait()), 0);
  }
}

TEST_F(Daemons, KilledClientIsFreedAndItsPeerTold) {
  begin_traffic();
  ClientOptions large;
  large.receive_bytes = 512u << 20;
  ASSERT_TRUE(b_->endpoint(0).listen(kPort, {}).ok());
  traffic();
  const std::size_t descriptors = descriptors_of(braidd_[0].pid());
  for (int round = 0; round < 20; ++round) {
    Child sender = in_child([&] {
      auto a = Client::attach(address_[0], large);
      if (!a) return 10;
      std::vector<Connection*> all;
      for (int i = 0; i < 3; ++i) {
        const auto c = (*a)->endpoint(0).connect(ClusterId(1), kPort, {}, 20_s);
        if (!c) return 11;
        all.push_back(c.value());
      }
      for (std::uint32_t n = 0;; ++n) {
        for (Connection* c : all) (void)c->try_send(numbered(n, 2000));
        (*a)->endpoint(0).poll(ignore());
      }
    });
    // In the middle of sending, once something has come over each of its connections.
    std::set<Connection*> ends;
    ASSERT_TRUE(until(
        [&] {
          b_->endpoint(0).poll([&](Connection& from, ByteView message) {
            if (&from == good_.in) {
              ++got_[0];
              return;
            }
            EXPECT_TRUE(intact(message));
            ends.insert(&from);
          });
          ::sched_yield();
        },
        [&] { return ends.size() == 3 || !sender.running(); }));
    ASSERT_EQ(ends.size(), 3u) << round;
    sender.kill_and_wait(SIGKILL);
    ASSERT_TRUE(until([&] { traffic(); },
                      [&] {
                        return std::all_of(ends.begin(), ends.end(), [](const Connection* c) {
                          return c->state() == ConnectionState::kPeerClosed;
                        });
                      }))
        << round;
    while (b_->endpoint(0).try_accept() != nullptr) continue;
    for (Connection* c : ends) b_->endpoint(0).close(c);
    expect_unharmed(20);
  }
  EXPECT_TRUE(until([&] { traffic(); }, [&] { return descriptors_of(braidd_[0].pid()) == descriptors; }))
      << descriptors_of(braidd_[0].pid()) << " descriptors, " << descriptors << " before";
  EXPECT_EQ(count(0, &ProxyCounters::bad_descriptors), 0u);
}

TEST_F(Daemons, InvalidControlMessagesHarmOnlyTheirSender) {
  begin_traffic();
  const std::size_t descriptors = descriptors_of(braidd_[0].pid());
  const auto hung_up = [&](int fd) {
    return until([&] { traffic(); },
                 [&] {
                   char byte[1024];
                   return ::recv(fd, byte, sizeof byte, MSG_DONTWAIT) == 0;
                 });
  };
  // A packet that is not a message ends the connection.
  for (const std::size_t bytes :
       {std::size_t{1}, sizeof(control::Message) - 1, sizeof(control::Message) + 1, std::size_t{60'000}}) {
    const int fd = connect_unix(address_[0]).value();
    const std::vector<std::byte> junk(bytes, std::byte{0xa5});
    ASSERT_GT(::send(fd, junk.data(), bytes, MSG_NOSIGNAL), 0);
    EXPECT_TRUE(hung_up(fd)) << bytes;
    ::close(fd);
  }
  // An invalid message is refused with a reason.
  const auto answer = [&](const control::Message& request) {
    const int fd = connect_unix(address_[0]).value();
    EXPECT_TRUE(send_message(fd, request, -1));
    control::Message reply;
    int passed = -1;
    EXPECT_TRUE(until([&] { traffic(); }, [&] { return receive_message(fd, &reply, &passed); }));
    EXPECT_EQ(passed, -1);
    ::close(fd);
    EXPECT_EQ(reply.serial, request.serial);
    reply.refused.text[sizeof reply.refused.text - 1] = '\0';
    return reply.kind == control::Kind::kRefused ? std::string(reply.refused.text) : std::string("(granted)");
  };
  control::Message m;
  m.serial = 5;
  m.kind = control::Kind::kAttach;
  m.version = 99;
  EXPECT_THAT(answer(m), HasSubstr(fmt::format("speaks version {} of the control protocol, the client 99",
                                               control::kVersion)));
  m = {};
  m.magic = 0;
  EXPECT_THAT(answer(m), HasSubstr("control protocol"));
  m = {};
  m.kind = static_cast<control::Kind>(12345);
  EXPECT_THAT(answer(m), HasSubstr("attach first"));
  for (const control::Kind kind : {control::Kind::kListen, control::Kind::kConnect, control::Kind::kClose}) {
    m.kind = kind;
    EXPECT_THAT(answer(m), HasSubstr("attach first"));
  }
  m.kind = control::Kind::kAttach;
  std::memset(m.bytes, 0xff, sizeof m.bytes);
  EXPECT_THAT(answer(m), HasSubstr("receive_bytes"));

  // Random bytes from a seed, with unexpected descriptors, from an attached client.
  Prng prng(4);
  for (int round = 0; round < 20; ++round) {
    const int fd = connect_unix(address_[0]).value();
    control::Message attach;
    attach.kind = control::Kind::kAttach;
    attach.attach = {1, 65536, 65536};
    ASSERT_TRUE(send_message(fd, attach, -1));
    for (int i = 0; i < 50; ++i) {
      control::Message junk;
      junk.serial = static_cast<std::uint32_t>(prng.below(3));
      junk.kind = static_cast<control::Kind>(prng.below(6));
      for (std::size_t at = 0; at < sizeof junk.bytes; at += 4)
        store(junk.bytes + at, static_cast<std::uint32_t>(prng.chance(0.6) ? prng.below(10) : prng.next()));
      if (send_message(fd, junk, prng.chance(0.3) ? STDERR_FILENO : -1, false) == Sent::kGone) break;
      if (i % 10 == 0) traffic();
    }
    ::close(fd);
  }
  expect_unharmed();
  EXPECT_TRUE(until([&] { traffic(); }, [&] { return descriptors_of(braidd_[0].pid()) <= descriptors; }))
      << descriptors_of(braidd_[0].pid()) << " descriptors, " << descriptors << " before";
}

// It asks and asks and reads no answer: the others are served meanwhile.
TEST_F(Daemons, ClientThatDoesNotReadDelaysNoOther) {
  begin_traffic();
  const int fd = connect_unix(address_[0]).value();
  control::Message m;
  m.kind = control::Kind::kCounters;
  int sent = 0;
  for (int quiet = 0; quiet < 200;) {
    if (send_message(fd, m, -1, false) == Sent::kSent) {
      ++sent;
      quiet = 0;
    } else {
      ++quiet;
      traffic();
    }
  }
  EXPECT_GT(sent, 100);
  // The control plane answers others.
  ASSERT_TRUE(b_->endpoint(0).listen(kPort, {}).ok());
  auto other = attach(0);
  EXPECT_TRUE(other->endpoint(0).connect(ClusterId(1), kPort, {}, 20_s).ok());
  expect_unharmed();
  ::close(fd);
}

TEST_F(Daemons, FloodOfConnectionsLeavesRoomForAttachedClients) {
  begin_traffic();
  std::vector<int> flood;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t many = std::min<std::size_t>(600, limit.rlim_cur - 100);
  for (std::size_t i = 0; i < many; ++i) {
    // The daemon takes them one per turn; its queue holds some.
    ASSERT_TRUE(until([&] { traffic(); },
                      [&] {
                        const Result<int> fd = connect_unix(address_[0]);
                        if (fd) flood.push_back(fd.value());
                        return fd.ok();
                      }));
  }
  auto other = attach(0);
  EXPECT_EQ(other->cluster(), ClusterId(0));
  EXPECT_LT(descriptors_of(braidd_[0].pid()), 400u);
  for (const int fd : flood) ::close(fd);
  expect_unharmed();
}

TEST_F(Daemons, AnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  begin_traffic();
  Child unknown = in_child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 10;
    const auto client = Client::attach(address_[0], {});
    if (client.ok()) return 11;
    const std::string why = client.error().text;
    if (why.find("of user 65534 may not attach to this braidd, which is user 0's") == std::string::npos) {
      ::fprintf(stderr, "%s\n", why.c_str());
      return 12;
    }
    return 0;
  });
  int status = -1;
  ASSERT_TRUE(
      until([&] { traffic(); }, [&] { return ::waitpid(unknown.pid(), &status, WNOHANG) == unknown.pid(); }));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(counters_[0]->refused_connections.get(), 1u);
  expect_unharmed();
}

TEST_F(Daemons, AFloodOfRefusedConnectionsIsCountedAndFillsNoLog) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr int kConnections = 3000;
  begin_traffic();
  Child flood = in_child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 10;
    for (int n = 0; n < kConnections; ++n) {
      const Result<int> fd = connect_unix(address_[0]);
      if (!fd) return 11;
      ::close(fd.value());
    }
    return 0;
  });
  ASSERT_TRUE(
      until([&] { traffic(); }, [&] { return counters_[0]->refused_connections.get() == kConnections; }));
  EXPECT_EQ(flood.wait(), 0);
  std::string log(1u << 20, '\0');
  log.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(log_fd_[0], log.data(), log.size(), 0), 0)));
  EXPECT_THAT(log, HasSubstr("of user 65534 may not attach"));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 40) << "it was told a few times in each interval";
  expect_unharmed();
}

TEST_F(Daemons, DeadBraiddIsNoticedByItsClientsAndItsPeers) {
  begin_traffic();
  const Instant before = monotonic_now();
  braidd_[1].kill_and_wait(SIGKILL);
  braidd_.pop_back();
  EXPECT_TRUE(until([&] { b_->endpoint(0).poll(ignore()); },
                    [&] { return good_.in->state() == ConnectionState::kServiceLost; }));
  EXPECT_LT(monotonic_now() - before, 2_s);
  EXPECT_TRUE(until([&] { a_->endpoint(0).poll(ignore()); },
                    [&] { return good_.out->state() == ConnectionState::kPeerLost; }));
  EXPECT_GE(monotonic_now() - before, 1900_ms);
  const auto more = b_->endpoint(0).listen(PortId(77), {});
  ASSERT_FALSE(more.ok());
  EXPECT_THAT(more.error().text, HasSubstr("braidd ended or died"));
}

TEST_F(Daemons, BraiddReportsItsEnd) {
  begin_traffic();
  expect_unharmed();
  const Instant before = monotonic_now();
  EXPECT_EQ(braidd_[1].kill_and_wait(SIGTERM), 0);
  braidd_.pop_back();
  EXPECT_TRUE(until([&] { a_->endpoint(0).poll(ignore()); },
                    [&] { return good_.out->state() == ConnectionState::kPeerLost; }));
  EXPECT_LT(monotonic_now() - before, 1500_ms) << "peer_death is 2 s";
}

// Two machines of one cluster each, which know nothing of each other until a client names an address.
TEST(TwoMachines, ClientConnectsFromOneToTheOther) {  // CN-12, CN-13
  NodesOptions o;
  o.proxies = {2, 3};
  const auto wires = make_wires(o);
  std::vector<Child> braidd;
  std::string address[2];
  for (std::uint16_t c = 0; c < 2; ++c) {
    NodeConfig config = node_config(o, c, wires);
    config.cluster = 0;
    config.clusters = 1;
    config.peers.clear();
    config.machines.connect = config.machines.accept = c == 0;
    config.machines.accept = true;
    config.idle.spins = 0;
    config.idle.yields = 20;
    config.listen_address = address[c] = fmt::format("@braid-two-machines-{}-{}", ::getpid(), c);
    braidd.push_back(start_braidd(config));
  }
  for (const auto& [ends, fd] : wires) ::close(fd);
  std::unique_ptr<Client> client[2];
  for (int c = 0; c < 2; ++c) {
    ASSERT_TRUE(until([] { ::usleep(1000); }, [&] { return connect_to_service(address[c]).ok(); }));
    auto made = Client::attach(address[c], {});
    ASSERT_TRUE(made.ok()) << made.error().text;
    client[c] = std::move(made).value();
  }
  Endpoint &a = client[0]->endpoint(0), &b = client[1]->endpoint(0);
  ASSERT_TRUE(b.listen(kPort, {}).ok());
  const auto none = b.connect(RemoteCluster{.addresses = {"10.98.0.1"}}, kPort, {}, 5_s);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, HasSubstr("machines.connect"));
  const auto nobody = a.connect(RemoteCluster{.addresses = {"10.98.0.7"}}, kPort, {}, 300_ms);
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(nobody.error().text, HasSubstr("no answer from 10.98.0.7"));
  const auto out = a.connect(RemoteCluster{.addresses = {"10.98.0.2"}}, kPort, {}, 20_s);
  ASSERT_TRUE(out.ok()) << out.error().text;
  const auto in = b.accept(20_s);
  ASSERT_TRUE(in.ok()) << in.error().text;
  const Pair pair{*out, *in};
  std::array<std::uint32_t, 2> sent{}, got{};
  EXPECT_TRUE(until(
      [&] {
        if (talk_both_ways(pair, a, b, sent, got) == 0) ::sched_yield();
      },
      [&] { return got[0] >= 500 && got[1] >= 500; }));
  // When one machine ends the other knows.
  EXPECT_EQ(braidd[1].kill_and_wait(SIGTERM), 0);
  EXPECT_TRUE(
      until([&] { a.poll(ignore()); }, [&] { return pair.out->state() == ConnectionState::kPeerLost; }, 8_s));
  EXPECT_EQ(braidd[0].kill_and_wait(SIGTERM), 0);
}

// A profiler's or a timer's signals interrupt system calls; nothing is lost or given up for it.
TEST_F(Daemons, SignalsInterruptNoCall) {
  struct sigaction old {};
  struct sigaction handler {};
  handler.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &handler, &old), 0);
  const itimerval often{{0, 500}, {0, 500}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  begin_traffic();
  expect_unharmed();
  for (int i = 0; i < 5; ++i) {
    auto a = attach(0);
    const Result<Connection*> none = a->endpoint(0).connect(ClusterId(1), PortId(99), {}, 500_ms);
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(none.error().text, HasSubstr("nobody listens"));
    const Instant before = monotonic_now();
    EXPECT_FALSE(a->endpoint(0).accept(50_ms).ok());
    EXPECT_GE(monotonic_now() - before, 50_ms);
  }
  expect_unharmed();
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &old, nullptr);
}

// A client that sleeps on its doorbell is woken.
TEST_F(Daemons, SleepingClientIsWokenByAnArrival) {
  begin_traffic();
  expect_unharmed();
  while (a_->endpoint(0).poll(ignore()) + b_->endpoint(0).poll(ignore()) > 0) continue;
  Doorbell& bell = b_->endpoint(0).doorbell();
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::thread sender([&] {
      ::usleep(5000);
      send_now(round);
    });
    bool got = false;
    const Instant before = monotonic_now();
    while (!got && monotonic_now() - before < 20_s) {
      bell.arm();
      if (!b_->endpoint(0).has_arrivals()) bell.wait(20_s);
      bell.disarm();
      b_->endpoint(0).poll([&](Connection&, ByteView message) { got = number_of(message) == round; });
    }
    sender.join();
    EXPECT_TRUE(got);
    EXPECT_LT(monotonic_now() - before, 10_s);
  }
}

// Single messages with pauses, after each of which every proxy has been asleep.
class IdleDaemons : public Daemons {
 protected:
  static constexpr int kMessages = 20;

  // Without yields: on busy cores each can take longer than a pause.
  explicit IdleDaemons(Kernel kernel = Kernel::kAsItIs) : Daemons(kernel, 0) {}

  void begin() {
    begin_traffic();
    expect_unharmed();
    while (a_->endpoint(0).poll(ignore()) + b_->endpoint(0).poll(ignore()) > 0) continue;
    pause();
  }
  void pause() { ::usleep(30'000); }
  // Both clients are idle until the doorbell of the receiver rings.
  void send_one(std::uint32_t number) {
    ASSERT_NO_FATAL_FAILURE(send_now(number));
    Doorbell& bell = b_->endpoint(0).doorbell();
    bool got = false;
    for (const Instant until = monotonic_now() + 20_s; !got && monotonic_now() < until;) {
      bell.arm();
      if (!b_->endpoint(0).has_arrivals()) bell.wait(20_s);
      bell.disarm();
      b_->endpoint(0).poll([&](Connection&, ByteView message) { got = number_of(message) == number; });
    }
    EXPECT_TRUE(got);
    a_->endpoint(0).poll(ignore());
  }
  void send_after_pauses() {
    for (std::uint32_t n = 0; n < kMessages; ++n) {
      pause();
      ASSERT_NO_FATAL_FAILURE(send_one(n));
    }
  }
  std::string log(int cluster) const {
    std::string text(65536, ' ');
    text.resize(static_cast<std::size_t>(::pread(log_fd_[cluster], text.data(), text.size(), 0)));
    return text;
  }
};

TEST_F(IdleDaemons, MessageWakesEveryProxyOnItsWay) {
  if (!WakeWait::probe()) GTEST_SKIP() << "this kernel cannot wait on several words";
  begin();
  const std::uint64_t naps = count(0, &ProxyCounters::naps) + count(1, &ProxyCounters::naps);
  const std::uint64_t by_client = count(0, &ProxyCounters::woken_by_clients);
  const std::uint64_t by_link = count(1, &ProxyCounters::woken_by_links);
  send_after_pauses();
  pause();  // counters are published before a sleep
  // Now and then a proxy is awake for a timer of its own.
  EXPECT_GE(count(0, &ProxyCounters::woken_by_clients) - by_client, kMessages / 2u);
  EXPECT_GE(count(1, &ProxyCounters::woken_by_links) - by_link, kMessages / 2u);
  // A wake can come when its reason has been found already; a proxy that polls takes thousands of naps here.
  EXPECT_LE(count(0, &ProxyCounters::naps) + count(1, &ProxyCounters::naps) - naps, kMessages);
}

// A sleeping proxy is neither stalled nor held up by the scheduler.
TEST_F(IdleDaemons, SleepIsNoSchedulingGap) {
  begin();
  const std::uint64_t gaps = count(0, &ProxyCounters::scheduling_gaps);
  const std::uint64_t sleeps = count(0, &ProxyCounters::sleeps);
  ::usleep(800'000);  // longer than path_death_ms
  EXPECT_GT(count(0, &ProxyCounters::sleeps), sleeps);
  // The machine may hold a proxy up; a gap for each sleep would be sixteen at least.
  EXPECT_LT(count(0, &ProxyCounters::scheduling_gaps) - gaps, 8u);
  EXPECT_THAT(log(0), Not(HasSubstr("has not moved")));
  send_one(0);
}

// A client that writes nonsense into its wake words harms no other: messages of others arrive, and proxies sleep when it is
// gone.
TEST_F(IdleDaemons, NonsenseInWakeWordsHarmsOnlyItsClient) {
  begin();
  for (const std::uint32_t value : {0u, 1u, 2u, 0xffff'ffffu, 0x7fff'fffeu}) {
    const int fd = connect_unix(address_[0]).value();
    control::Message attach, reply;
    attach.kind = control::Kind::kAttach;
    attach.attach = {1, 65536, 65536};
    ASSERT_TRUE(send_message(fd, attach, -1));
    int memory_fd = -1;
    ASSERT_TRUE(until([] { ::usleep(1000); }, [&] { return receive_message(fd, &reply, &memory_fd); }));
    ASSERT_EQ(reply.kind, control::Kind::kAttached);
    const ChannelGeometry& g = reply.attached.geometry;
    auto* const memory = static_cast<std::byte*>(
        ::mmap(nullptr, g.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0));
    ASSERT_NE(memory, MAP_FAILED);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      while (!stop) {
        for (unsigned lane = 0; lane < g.proxies; ++lane) {
          auto* const ring = reinterpret_cast<RingControl*>(memory + g.send_ring(0, lane));
          std::memcpy(static_cast<void*>(&ring->wake), &value, sizeof value);
          ring->wake.wake();
        }
        ::usleep(300);
      }
    });
    for (std::uint32_t n = 0; n < 4; ++n) {
      pause();
      send_one(n);
    }
    stop = true;
    writer.join();
    ::munmap(memory, g.total_bytes());
    ::close(memory_fd);
    ::close(fd);
  }
  send_after_pauses();
  EXPECT_EQ(count(0, &ProxyCounters::bad_descriptors), 0u);
  EXPECT_EQ(good_.out->state(), ConnectionState::kOpen);
}

class IdleDaemonsThatMustPoll : public IdleDaemons {
 protected:
  IdleDaemonsThatMustPoll() : IdleDaemons(Kernel::kWithoutFutexWaitv) {}
};

TEST_F(IdleDaemonsThatMustPoll, SayOnceWhyAndDeliver) {
  begin();
  send_after_pauses();
  pause();
  for (const int c : {0, 1}) {
    EXPECT_GT(count(c, &ProxyCounters::naps), 0u);
    EXPECT_EQ(count(c, &ProxyCounters::naps), count(c, &ProxyCounters::sleeps));
    EXPECT_EQ(count(c, &ProxyCounters::woken_by_clients) + count(c, &ProxyCounters::woken_by_links), 0u);
    const std::string text = log(c);
    const std::size_t first = text.find("futex_waitv(2)");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("futex_waitv(2)", first + 1), std::string::npos) << text;
  }
}

TEST(DaemonStart, LeavesNoSocketBehind) {
  const std::string path = fmt::format("{}/braid-daemon-test-{}.sock", ::testing::TempDir(), ::getpid());
  NodesOptions o;
  o.proxies = {1};
  NodeConfig config = node_config(o, 0, {});
  config.listen_address = path;
  {
    Child braidd = start_braidd(config);
    ASSERT_TRUE(until([] { ::usleep(1000); }, [&] { return connect_to_service(path).ok(); }));
    EXPECT_EQ(WEXITSTATUS(braidd.kill_and_wait(SIGTERM)), 0);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  // Nor when it cannot start: its counters' memory is too small.
  const int small = ::memfd_create("small", 0);
  config.counters_fd = small;
  {
    Child braidd = start_braidd(config);
    const int status = braidd.wait();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  ::close(small);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace braid::proxy::test
