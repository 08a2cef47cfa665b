// How daemons and applications are started, and how their records are read, with stand-ins for both.
#include "tools/braid/run/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    ::unsetenv("FAKE_BRAIDD");
    ::unsetenv("FAKE_BRAIDD_SECRET");
    options_.daemon = FAKE_BRAIDD;
    options_.application = FAKE_APP;
    options_.config.clusters = 2;
    options_.config.heap_mib = 16;
  }
  void SetUp() override {
    Result<ChildProcesses> made =
        ChildProcesses::create({.signals = {}, .out_fd = out_->write.get(), .err_fd = out_->write.get()});
    ASSERT_TRUE(made.ok()) << made.error().text;
    children_.emplace(std::move(*made));
  }

  // Of a run whose clusters are all on this host.
  Launcher all_clusters() {
    const std::string run = unique_run_name();
    return Launcher(options_, run, plan_nodes(options_.config, run, usable_cores()));
  }
  void start_daemons(Launcher& launcher) {
    const Result<void> wires = launcher.make_wires();
    ASSERT_TRUE(wires.ok()) << wires.error().text;
    for (unsigned k = 0; k < options_.config.clusters; ++k) {
      const Result<ChildId> child = launcher.start_daemon(*children_, k);
      ASSERT_TRUE(child.ok()) << child.error().text;
    }
    launcher.daemons_started();
  }
  bool become_ready(Launcher& launcher, Duration timeout) {
    for (const Instant end = monotonic_now() + timeout; monotonic_now() < end;) {
      launcher.take_ready();
      if (launcher.late_clusters().empty()) return true;
      std::vector<pollfd> fds;
      launcher.watch_ready(fds);
      children_->wait(end, fds);
      (void)children_->take_signals();
    }
    return false;
  }
  // Runs the started processes to their ends; daemons are not waited for.
  void finish(ChildId application) {
    for (const Instant end = monotonic_now() + 20_s;
         monotonic_now() < end && children_->is_alive(application);) {
      children_->wait(end);
      (void)children_->take_signals();
      (void)children_->take_ended();
    }
    EXPECT_FALSE(children_->is_alive(application));
  }

  RunOptions options_;
  Result<Pipe> out_ = make_pipe();
  std::optional<ChildProcesses> children_;
};

TEST_F(LauncherTest, DaemonsBecomeReadyWhenAllAreConnected) {
  Launcher launcher = all_clusters();
  start_daemons(launcher);
  EXPECT_THAT(launcher.late_clusters(), ElementsAre(0, 1));
  EXPECT_TRUE(become_ready(launcher, 20_s));
  EXPECT_THAT(launcher.late_clusters(), IsEmpty());
}

TEST_F(LauncherTest, DaemonsOfSealedLinksGetTheSecretAndOthersDoNot) {
  stack::KeyBytes bytes;
  bytes.fill(std::byte{'s'});
  ::setenv("FAKE_BRAIDD_SECRET", "ssssssssssssssssssssssssssssssss", 1);
  options_.secret = std::make_shared<const stack::Secret>(bytes);
  for (const auto& [wire, mode] : {std::pair{settings::Wire::kUdp, settings::SecurityMode::kAuto},
                                   std::pair{settings::Wire::kUdp, settings::SecurityMode::kOff},
                                   std::pair{settings::Wire::kShm, settings::SecurityMode::kAuto},
                                   std::pair{settings::Wire::kShm, settings::SecurityMode::kRequired}}) {
    options_.config.wire = wire;
    options_.config.security.mode = mode;
    Launcher launcher = all_clusters();
    start_daemons(launcher);  // a stand-in with a wrong secret ends
    EXPECT_TRUE(become_ready(launcher, 20_s));
  }
}

TEST_F(LauncherTest, ADaemonOfASealedLinkIsNotStartedWithoutASecret) {
  options_.config.wire = settings::Wire::kUdp;
  Launcher launcher = all_clusters();
  const Result<ChildId> child = launcher.start_daemon(*children_, 0);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().text, HasSubstr("the run has given no secret, and a link is to be sealed"));
}

TEST_F(LauncherTest, NamesTheClustersWhoseDaemonsAreLate) {
  ::setenv("FAKE_BRAIDD", "silent", 1);  // cluster 1
  Launcher launcher = all_clusters();
  start_daemons(launcher);
  while (launcher.late_clusters().size() == 2) EXPECT_FALSE(become_ready(launcher, 50_ms));
  EXPECT_THAT(launcher.late_clusters(), ElementsAre(1));
}

TEST_F(LauncherTest, ADaemonThatEndedIsNotReady) {
  ::setenv("FAKE_BRAIDD", "refuses", 1);  // cluster 1
  Launcher launcher = all_clusters();
  start_daemons(launcher);
  EXPECT_FALSE(become_ready(launcher, 500_ms));
}

TEST_F(LauncherTest, ReportsWhyADaemonIsNotStarted) {
  options_.daemon = "/nonexistent/braidd";
  Launcher launcher = all_clusters();
  ASSERT_TRUE(launcher.make_wires().ok());
  const Result<ChildId> child = launcher.start_daemon(*children_, 0);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().text, HasSubstr("cannot start /nonexistent/braidd"));
  std::vector<ClusterReport> clusters(2);
  launcher.collect(clusters);
  EXPECT_TRUE(clusters[0].proxies.empty()) << "nothing is known of what was not started";
}

TEST_F(LauncherTest, CollectsCountersAndReports) {
  options_.command = {"app", "report={\"cluster\": true}"};
  options_.config.proxies = 2;
  Launcher launcher = all_clusters();
  start_daemons(launcher);
  ASSERT_TRUE(become_ready(launcher, 20_s));
  const Result<ChildId> application = launcher.start_application(*children_, 1, -1);
  ASSERT_TRUE(application.ok()) << application.error().text;
  finish(*application);
  std::vector<ClusterReport> clusters(2);
  launcher.collect(clusters);
  EXPECT_EQ(clusters[0].application_report, "") << "it was not started";
  EXPECT_EQ(clusters[1].application_report, "{\"cluster\": true}");
  // The stand-in counts 1000 x cluster + proxy + 1 messages.
  for (std::size_t k = 0; k < 2; ++k) {
    ASSERT_EQ(clusters[k].proxies.size(), 2u);
    for (std::size_t p = 0; p < 2; ++p)
      EXPECT_THAT(clusters[k].proxies[p], ::testing::Contains(std::pair<std::string, std::uint64_t>(
                                              "messages_sent", 1000 * k + p + 1)));
  }
}

TEST_F(LauncherTest, TellsWhereComputeNodesAndProxiesRun) {
  options_.command = {"app", "tell"};
  options_.config.proxies = 2;
  Launcher launcher = all_clusters();
  launcher.place(std::vector<PlacedCluster>{{1, {7, 8}, {3, 4}}});
  start_daemons(launcher);
  ASSERT_TRUE(become_ready(launcher, 20_s));
  std::string told[2];
  for (unsigned k = 0; k < 2; ++k) {
    const Result<ChildId> application = launcher.start_application(*children_, k, -1);
    ASSERT_TRUE(application.ok()) << application.error().text;
    finish(*application);
    children_->output().write_some();
    char bytes[65536];
    const ssize_t n = ::read(out_->read.get(), bytes, sizeof bytes);
    ASSERT_GT(n, 0);
    told[k].assign(bytes, static_cast<std::size_t>(n));
  }
  EXPECT_THAT(told[0], ::testing::Not(HasSubstr("BRAID_PROCESSORS")));
  EXPECT_THAT(told[1], HasSubstr("BRAID_PROCESSORS=3,4\n"));
}

TEST_F(LauncherTest, ApplicationWithoutCountsIsNotWaiting) {
  options_.command = {"app", "hold"};
  Launcher launcher = all_clusters();
  start_daemons(launcher);
  ASSERT_TRUE(become_ready(launcher, 20_s));
  ASSERT_TRUE(launcher.start_application(*children_, 0, -1).ok());
  EXPECT_FALSE(launcher.waits(0));
  EXPECT_FALSE(launcher.waits(1)) << "it was not started";
  EXPECT_EQ(launcher.progress(), 0u);
}

// --- shared files

TEST(SharedFiles, SharedObjectContainsTheBytesOfItsFile) {
  struct Numbers {
    std::uint32_t a = 1, b = 2;
  };
  auto shared = SharedObject<Numbers>::make("numbers");
  ASSERT_TRUE(shared.ok());
  (*shared)->b = 7;
  Numbers seen{0, 0};
  ASSERT_EQ(::pread(shared->fd(), &seen, sizeof seen, 0), static_cast<ssize_t>(sizeof seen));
  EXPECT_EQ(seen.a, 1u);
  EXPECT_EQ(seen.b, 7u);
}

TEST(SharedFiles, ContentsAreTheWholeFileUpToABound) {
  const Result<Descriptor> file = make_memory_file_of("text", "all of it");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(contents(file->get(), 100), "all of it");
  EXPECT_EQ(contents(file->get(), 3), "all");
  EXPECT_EQ(contents(make_memory_file("empty", 0)->get(), 100), "");
}

TEST(SharedFiles, TwoListenersAndTwoRunsHaveDifferentNames) {
  const Result<Listener> one = make_listener(), other = make_listener();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->address, other->address);
  EXPECT_NE(unique_run_name(), unique_run_name());

  const Descriptor client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, one->address.data() + 1, one->address.size() - 1);
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address),
                      static_cast<socklen_t>(sizeof(sa_family_t) + one->address.size())),
            0);
}

}  // namespace
}  // namespace braid::cli
