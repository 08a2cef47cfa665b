#include "proxy/nic/ethdev.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/prng.h"

namespace braid::proxy {
namespace {

using testing::HasSubstr;

struct Outcome {
  int status = -1;  // as of waitpid()
  std::string errors;
};

// A running ethdev_peer, killed when the test leaves.
class Peer {
 public:
  // With `own_network` it starts in a fresh network namespace and waits for go() before it runs.
  explicit Peer(std::vector<std::string> arguments, bool own_network = false) {
    CHECK_EQ(::pipe2(output_, O_CLOEXEC), 0);
    CHECK_EQ(::pipe2(errors_, O_CLOEXEC), 0);
    CHECK_EQ(::pipe2(go_, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), ETHDEV_PEER);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(output_[1], STDOUT_FILENO);
      ::dup2(errors_[1], STDERR_FILENO);
      ::close(go_[1]);
      char byte = own_network && ::unshare(CLONE_NEWNET) != 0 ? 'n' : 'y';
      if (own_network && (::write(STDOUT_FILENO, &byte, 1) != 1 || ::read(go_[0], &byte, 1) != 1))
        ::_exit(127);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    for (const int end : {output_[1], errors_[1], go_[0]}) ::close(end);
  }
  ~Peer() {
    if (!reaped_) {
      kill();
      ::waitpid(pid_, nullptr, 0);
    }
    for (const int end : {output_[0], errors_[0], go_[1]}) ::close(end);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void ask_to_leave() const { ::kill(pid_, SIGTERM); }
  void go() const { CHECK_EQ(::write(go_[1], "g", 1), 1); }
  // The next byte that it prints, or 0 when it has ended.
  char next_byte() const {
    char byte = 0;
    return ::read(output_[0], &byte, 1) == 1 ? byte : '\0';
  }
  // Its end; after a minute it is killed, which its status shows.
  Outcome wait() {
    Outcome outcome;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (::waitpid(pid_, &outcome.status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    reaped_ = true;
    char text[4096];
    for (ssize_t n; (n = ::read(errors_[0], text, sizeof text)) > 0;) outcome.errors.append(text, n);
    return outcome;
  }

 private:
  pid_t pid_;
  bool reaped_ = false;
  int output_[2];
  int errors_[2];
  int go_[2];
};

void expect_success(Peer& peer) {
  const Outcome outcome = peer.wait();
  EXPECT_EQ(outcome.status, 0) << (WIFSIGNALED(outcome.status) ? ::strsignal(WTERMSIG(outcome.status))
                                                               : "exit")
                               << ": " << outcome.errors;
}

std::string socket_name() {
  static int tests = 0;
  return fmt::format("braid-nic-test-{}-{}", ::getpid(), ++tests);
}

TEST(EthdevOptions, RefusesImpossibleValues) {
  EXPECT_EQ(EthdevOptions{}.validate().error().text, "DPDK: no vdev named, so no port to use");
  EXPECT_EQ((EthdevOptions{.vdevs = {"net_memif0"}, .queues = 0}).validate().error().text,
            "DPDK: 0 queues; 1 to 256 are possible");
  EXPECT_THAT((EthdevOptions{.vdevs = {"net_memif0,zero-copy=yes"}}).validate().error().text,
              HasSubstr("set zero-copy=no"));
  EXPECT_THAT((EthdevOptions{.vdevs = {"net_memif0"}, .file_prefix = "a/b"}).validate().error().text,
              HasSubstr("file_prefix 'a/b' must be a plain name"));
  EXPECT_TRUE((EthdevOptions{.vdevs = {memif_vdev(0, MemifRole::kServer, "x")}}).validate().ok());
}

TEST(Ethdev, NamesTheVdevThatCannotBeMade) {
  Peer unknown({"exchange", "net_nonsense0", "1", "1"});
  Outcome outcome = unknown.wait();
  EXPECT_TRUE(WIFEXITED(outcome.status));
  EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
  EXPECT_THAT(outcome.errors, HasSubstr("vdev 'net_nonsense0': cannot be made"));

  Peer no_interface({"exchange", af_packet_vdev(0, "braid-absent0", 1), "1", "1"});
  outcome = no_interface.wait();
  EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
  EXPECT_THAT(outcome.errors, HasSubstr("iface=braid-absent0"));
}

// DPDK's null port has a key and a redirection table, which is all zeroes until it is set, and takes
// no rules. The kernel's qdisc that net_tap's rules need (multiq) is in few kernels, so the rules themselves
// are tested by steering_test only.
TEST(EthdevSteering, APortWithAnRssHashUsesIt) {
  for (const char* const wanted : {"auto", "rss"}) {
    Peer peer({"steer", "net_null0", "4", wanted, "rss"});
    expect_success(peer);
  }
  Peer leaves_it({"steer", "net_null0", "4", "handoff", "handoff"});
  expect_success(leaves_it);
  Peer no_rules({"steer", "net_null0", "4", "flow", "flow"});
  const Outcome outcome = no_rules.wait();
  EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
  EXPECT_THAT(
      outcome.errors,
      HasSubstr("DPDK: vdev 'net_null0': steering: flow is not available: the port takes no rule that "
                "brings UDP port 7700 to queue 0: "));
  EXPECT_THAT(outcome.errors, HasSubstr("set steering: auto"));
}

TEST(EthdevSteering, APortWithoutSteeringFallsBackToHandoff) {
  for (const std::string wanted : {"auto", "handoff", "flow", "rss"}) {
    SCOPED_TRACE(wanted);
    const std::string socket = socket_name();
    Peer server({"visit", memif_vdev(0, MemifRole::kServer, socket), "2"});
    Peer client({"steer", memif_vdev(0, MemifRole::kClient, socket), "2", wanted, "handoff"});
    if (wanted == "auto" || wanted == "handoff") {
      expect_success(client);
      continue;
    }
    const Outcome outcome = client.wait();
    EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
    EXPECT_THAT(outcome.errors, HasSubstr("steering: " + wanted + " is not available: the port"));
  }
}

TEST(EthdevMemif, CarriesTenThousandFramesEachWayOnEveryQueue) {
  const std::string socket = socket_name();
  Peer server({"exchange", memif_vdev(0, MemifRole::kServer, socket), "2", "10000"});
  Peer client({"exchange", memif_vdev(0, MemifRole::kClient, socket), "2", "10000"});
  expect_success(server);
  expect_success(client);
}

TEST(EthdevMemif, ClientMayStartBeforeItsServer) {
  const std::string socket = socket_name();
  Peer client({"exchange", memif_vdev(0, MemifRole::kClient, socket), "1", "100"});
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  Peer server({"exchange", memif_vdev(0, MemifRole::kServer, socket), "1", "100"});
  expect_success(server);
  expect_success(client);
}

TEST(EthdevMemif, SurvivesAPeerKilledInTheMiddleOfItsTraffic) {
  constexpr std::uint64_t kSeed = 21;
  Prng random(kSeed);
  for (int trial = 0; trial < 6; ++trial) {
    SCOPED_TRACE(fmt::format("seed {}, trial {}", kSeed, trial));
    const bool server_dies = trial % 2 == 0;
    const std::string socket = socket_name();
    Peer survivor(
        {"survive", memif_vdev(0, server_dies ? MemifRole::kClient : MemifRole::kServer, socket), "1"});
    Peer victim({"flood", memif_vdev(0, server_dies ? MemifRole::kServer : MemifRole::kClient, socket), "1"});
    ASSERT_EQ(survivor.next_byte(), 'c') << survivor.wait().errors;
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random.below(30'000)));
    victim.kill();
    expect_success(survivor);
  }
}

// The one that stays has two proxies in the middle of bursts each time. Half of the others are killed, half
// leave as a daemon does.
TEST(EthdevMemif, SurvivesTwentyPeersThatConnectAndDisconnectUnderTraffic) {
  constexpr unsigned kPeers = 20;
  constexpr std::uint64_t kSeed = 22;
  Prng random(kSeed);
  const std::string socket = socket_name();
  Peer survivor({"outlive", memif_vdev(0, MemifRole::kServer, socket), "2", fmt::format("{}", kPeers)});
  for (unsigned n = 0; n < kPeers; ++n) {
    SCOPED_TRACE(fmt::format("seed {}, peer {}", kSeed, n));
    Peer peer({"visit", memif_vdev(0, MemifRole::kClient, socket), "2"});
    ASSERT_EQ(survivor.next_byte(), 'c') << survivor.wait().errors << peer.wait().errors;
    if (n % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(30'000)));
      peer.kill();
    } else {
      peer.ask_to_leave();
    }
    ASSERT_EQ(survivor.next_byte(), 'd') << survivor.wait().errors;
    if (n % 2 == 1) expect_success(peer);
  }
  expect_success(survivor);
}

TEST(EthdevAfPacket, CarriesFramesBetweenTwoNetworkNamespaces) {
  const std::string a = fmt::format("bn{}a", ::getpid()), b = fmt::format("bn{}b", ::getpid());
  Peer at_a({"exchange", af_packet_vdev(0, a, 1), "1", "10000"}, true);
  Peer at_b({"exchange", af_packet_vdev(0, b, 1), "1", "10000"}, true);
  if (at_a.next_byte() != 'y' || at_b.next_byte() != 'y') {
    GTEST_SKIP()
        << "no network namespaces for this user: run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN";
  }
  // The interfaces live in the two processes' namespaces and vanish with them, however this test ends.
  const std::string commands = fmt::format(
      "ip link add name {0} netns {2} type veth peer name {1} netns {3} && "
      "nsenter -t {2} -n ip link set {0} up && nsenter -t {3} -n ip link set {1} up",
      a, b, at_a.pid(), at_b.pid());
  if (std::system(commands.c_str()) != 0) {
    GTEST_SKIP() << "no veth pair available: it needs CAP_NET_ADMIN, iproute2 and a kernel with veth";
  }
  at_a.go();
  at_b.go();
  expect_success(at_a);
  expect_success(at_b);
}

}  // namespace
}  // namespace braid::proxy
