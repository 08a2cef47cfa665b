// Whole runs: programs on several clusters, started by `braid run`, their pages as packets through daemons and
// wires, without faults and with them. Every program verifies its result bit by bit against a run in private
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/live/braid_run.h"

namespace braid {
namespace {

using namespace live::testing;  // NOLINT
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// Small enough for a second, large enough for hundreds of pages.
const Words kJacobi = {BRAID_JACOBI, "--size", "512"};
const Words kMatmul = {BRAID_MATMUL, "--size", "192"};
// Longer than any test waits.
const Words kEndlessJacobi = {BRAID_JACOBI, "--size", "256", "--iterations", "1000000"};

// --- without faults

TEST_F(BraidRun, RunsJacobiOverSharedMemory) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, kJacobi);
}

TEST_F(BraidRun, RunsJacobiOverMemif) {
  const Outcome o =
      expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2", "--wire", "dpdk"}, kJacobi);
  EXPECT_EQ(o.report["configuration"]["wire"], "dpdk");
}

TEST_F(BraidRun, RunsMatmulOnFourClusters) {
  expect_verified({"--clusters", "4", "--compute", "1", "--proxies", "1"}, kMatmul);
}

TEST_F(BraidRun, RunsMatmulOnFourClustersOverMemif) {
  expect_verified({"--clusters", "4", "--compute", "1", "--proxies", "1", "--wire", "dpdk"}, kMatmul);
}

TEST_F(BraidRun, TbbRunsTheLoopsInsideACluster) {
  for (const char* clusters : {"1", "2", "3"}) {
    SCOPED_TRACE(clusters);
    const Words options = {"--clusters", clusters, "--compute", "3"};
    expect_verified(options, kMatmul + Words{"--intra", "tbb"});
    expect_verified(options, kJacobi + Words{"--intra", "tbb"});
  }
}

TEST_F(BraidRun, RunsGauss) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_GAUSS, "--size", "256"});
  // Rows that share pages, and a number that the compute nodes do not divide.
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_GAUSS, "--size", "77"});
  expect_verified({"--clusters", "2", "--compute", "1"},
                  {BRAID_GAUSS, "--size", "77", "--reductions", "two"});
}

TEST_F(BraidRun, RunsTsp) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_TSP});
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_TSP, "--cities", "12", "--depth", "3"});
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_TSP, "--queue", "lock"});
}

TEST_F(BraidRun, RunsWater) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_WATER});
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_WATER, "--molecules", "65"});
}

TEST_F(BraidRun, RunsBarnes) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_BARNES, "--bodies", "512"});
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_BARNES, "--bodies", "101"});
}

TEST_F(BraidRun, RunsFft) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_FFT});
  // A number of rows that the compute nodes do not divide, and pages that several of them share.
  expect_verified({"--clusters", "3", "--compute", "1"}, {BRAID_FFT, "--points", "2048"});
}

TEST_F(BraidRun, RunsUnstructured) {
  expect_verified({"--clusters", "2", "--compute", "2", "--proxies", "2"}, {BRAID_UNSTRUCTURED});
  expect_verified({"--clusters", "3", "--compute", "1"},
                  {BRAID_UNSTRUCTURED, "--nodes", "301", "--edges", "1803", "--iterations", "2"});
}

TEST_F(BraidRun, RunsEveryProgramWithTheLazyProtocol) {
  const Words programs[] = {kJacobi,
                            kMatmul,
                            {BRAID_GAUSS, "--size", "77"},
                            {BRAID_TSP, "--queue", "lock"},
                            {BRAID_WATER, "--molecules", "65"},
                            {BRAID_BARNES, "--bodies", "101"},
                            {BRAID_FFT, "--points", "2048"},
                            {BRAID_UNSTRUCTURED, "--nodes", "301", "--edges", "1803", "--iterations", "2"}};
  for (const Words& program : programs) {
    SCOPED_TRACE(program.front());
    const Outcome o = expect_verified({"--clusters", "3", "--compute", "2", "--protocol", "lazy"}, program);
    EXPECT_EQ(o.report["configuration"]["protocol"], "lazy");
  }
}

TEST_F(BraidRun, RunsProgramsWithLongerPages) {
  const auto run = [&](const Words& options, const Words& program) {
    SCOPED_TRACE(options[1] + " " + program.front());
    const Outcome o = expect_verified(options + Words{"--clusters", "3", "--compute", "1"}, program);
    EXPECT_EQ(std::to_string(o.report["configuration"]["engine"]["page_bytes"].get<unsigned>()), options[1]);
  };
  run({"--page-bytes", "8192"}, kJacobi);
  run({"--page-bytes", "8192", "--protocol", "lazy"}, {BRAID_BARNES, "--bodies", "101"});
  run({"--page-bytes", "16384"}, {BRAID_GAUSS, "--size", "77"});
  run({"--page-bytes", "32768", "--protocol", "lazy"}, {BRAID_GAUSS, "--size", "77"});
  run({"--page-bytes", "65536", "--window-kib", "512"}, {BRAID_BARNES, "--bodies", "101"});
  run({"--page-bytes", "65536", "--window-kib", "512", "--protection", "mprotect"},
      {BRAID_WATER, "--molecules", "65"});
}

TEST_F(BraidRun, RunsOnOneCluster) {
  expect_verified({"--clusters", "1"}, kJacobi);
}

TEST_F(BraidRun, RunsWithFixedDispatch) {
  expect_verified({"--dispatch", "fixed", "--proxies", "2"}, kJacobi);
}

TEST_F(BraidRun, RunsWithASmallMtu) {
  expect_verified({"--mtu", "576"}, kJacobi);
}

TEST_F(BraidRun, RunsMoreThreadsThanThereAreCores) {
  // 24 threads that work, and a server thread for each cluster.
  expect_verified({"--clusters", "4", "--compute", "4", "--proxies", "2"}, kJacobi);
}

TEST_F(BraidRun, RunsWithTheIncludedConfigurations) {
  for (const char* name : {"default.yaml", "two-by-two.yaml", "lossy.yaml", "dpdk-memif.yaml"}) {
    SCOPED_TRACE(name);
    expect_verified({"--config", std::string(BRAID_CONFIGS) + "/" + name}, {BRAID_JACOBI, "--size", "256"});
  }
}

TEST_F(BraidRun, TwoRunsAtOnceAreIndependent) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    Command first(Words{BRAID_COMMAND, "run", "--wire", wire} + kJacobi);
    Command second(Words{BRAID_COMMAND, "run", "--wire", wire} + kMatmul);
    EXPECT_EQ(first.wait().status, 0) << first.so_far().err;
    EXPECT_EQ(second.wait().status, 0) << second.so_far().err;
    EXPECT_THAT(first.so_far().out, HasSubstr(", verified\n"));
    EXPECT_THAT(second.so_far().out, HasSubstr(", verified\n"));
  }
}

TEST_F(BraidRun, ReportsWhatEveryProxyAndComputeNodeDid) {
  const Outcome o = expect_verified({"--clusters", "3", "--compute", "2", "--proxies", "2"}, kJacobi);
  EXPECT_THAT(o.finished.err,
              HasSubstr("3 clusters of 2 compute nodes and 2 proxies, wire shm, dispatch rr"));
  ASSERT_EQ(o.report["clusters"].size(), 3u);
  std::set<unsigned> nodes;
  std::uint64_t fetches = 0, pages_sent = 0;
  for (const Json& cluster : o.report["clusters"]) {
    ASSERT_EQ(cluster["proxies"].size(), 2u);
    for (const Json& proxy : cluster["proxies"]) {
      // Round-robin, so no proxy is idle; and what is sent is carried by packets of which each is in a frame.
      EXPECT_GT(proxy["messages_sent"], 0);
      EXPECT_GT(proxy["message_bytes_sent"], 0);
      EXPECT_GT(proxy["packets_sent"], 0);
      EXPECT_GT(proxy["frame_bytes_sent"], proxy["message_bytes_sent"]);
    }
    const Json& application = cluster["application"]["report"];
    ASSERT_EQ(application["nodes"].size(), 2u);
    for (const Json& node : application["nodes"]) {
      nodes.insert(node["node"].get<unsigned>());
      EXPECT_GT(node["barriers"], 0);
      EXPECT_LE(node["fetches"],
                node["read_faults"].get<std::uint64_t>() + node["write_faults"].get<std::uint64_t>());
      if (node["fetches"] > 0) {
        EXPECT_GT(node["faults_ns"], 0);
      }
      fetches += node["fetches"].get<std::uint64_t>();
    }
    pages_sent += application["cluster_counts"]["pages_sent"].get<std::uint64_t>();
  }
  EXPECT_EQ(nodes, (std::set<unsigned>{0, 1, 2, 3, 4, 5}));
  // Cluster 0 verifies, so it gets the grid of the other two: 512 rows of 4 KiB, a third of them at home. It
  // reads them in order, so most come ahead of the faults.
  EXPECT_GT(fetches, 0u);
  EXPECT_LT(fetches, 340u);
  EXPECT_GE(pages_sent, 340u);
  EXPECT_GT(total(o.report, "message_bytes_sent"), 340u * 4096u);
}

TEST_F(BraidRun, CountersAreShownDuringARun) {
  EndlessRun run({}, kEndlessJacobi);
  const pid_t application = run.application(0);
  ASSERT_GT(application, 0) << run.command.so_far().err;
  const Words ask = {BRAID_COMMAND, "counters", "--process", std::to_string(application)};
  const auto packets = [&] {
    const Finished shown = cli::testing::run(ask);
    EXPECT_EQ(shown.status, 0) << shown.err;
    const std::size_t at = shown.out.find("packets_sent");
    return at == std::string::npos ? 0 : std::stoull(shown.out.substr(at + 12));
  };
  const std::uint64_t before = packets();
  const auto limit = Clock::now() + 30s;
  std::uint64_t after = before;
  while (after <= before && Clock::now() < limit) after = packets();
  EXPECT_GT(after, before);
  run.command.signal(SIGINT);
  run.command.wait();
}

TEST_F(BraidRun, ReportsWhyCountersCannotBeShown) {
  EXPECT_THAT(cli::testing::run({BRAID_COMMAND, "counters", "--service", "@no-such-braidd"}).err,
              HasSubstr("no-such-braidd"));
  EXPECT_THAT(cli::testing::run({BRAID_COMMAND, "counters", "--process", std::to_string(::getpid())}).err,
              HasSubstr("has no BRAID_SERVICE in its environment"));
  EXPECT_THAT(cli::testing::run({BRAID_COMMAND, "counters"}).err, HasSubstr("of which node?"));
}

// --- proxies that come and go

// The thread of a process that has a name; 0: none.
pid_t thread_of(pid_t process, const std::string& name) {
  std::error_code problem;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", problem)) {
    std::ifstream file(task.path() / "comm");
    std::string comm;
    if (std::getline(file, comm) && comm == name)
      return static_cast<pid_t>(std::stol(task.path().filename()));
  }
  return 0;
}

// Long enough that a test can interfere meanwhile.
const Words kLongJacobi = {BRAID_JACOBI, "--size", "512", "--iterations", "2000"};

// `braid proxies --cluster 0` finds a run only if it is the only one on this machine.
bool another_run_is_on_this_machine() {
  return !cli::testing::run({BRAID_COMMAND, "proxies", "--cluster", "0"})
              .err.starts_with("braid: no cluster 0 runs on this machine");
}

TEST_F(BraidRun, TheNumberOfActiveProxiesChangesWhileAProgramRuns) {
  if (another_run_is_on_this_machine()) GTEST_SKIP() << "another run is on this machine";
  Command command(Words{BRAID_COMMAND, "run", "--proxies", "3"} + kLongJacobi);
  const auto of = [](unsigned cluster, const Words& more) {
    return cli::testing::run(Words{BRAID_COMMAND, "proxies", "--cluster", std::to_string(cluster)} + more);
  };
  const auto limit = Clock::now() + 30s;
  while (of(0, {}).status != 0 && Clock::now() < limit) std::this_thread::sleep_for(10ms);
  const std::string shown = of(0, {}).out;
  EXPECT_THAT(shown, StartsWith("3 of 3 proxies are active\n"));
  for (const char* protocol : {"messages", "shared_memory", "datagrams", "control"})
    EXPECT_THAT(shown, HasSubstr(std::string("\n") + protocol + " "));
  EXPECT_THAT(of(0, {"--set", "4"}).err, HasSubstr("this node was started with 3, so 1 to 3 can be active"));
  int changes = 0;
  for (const char* number : {"1", "3", "2", "1", "2"}) {
    const Finished set = of(0, {"--set", number});
    if (set.status == 0) {
      EXPECT_EQ(set.out, std::string(number) + " of 3 proxies are active\n");
      ++changes;
    }
    of(1, {"--set", number});
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_GE(changes, 3) << "the program was over too soon";
  EXPECT_EQ(command.wait(120s).status, 0) << command.so_far().err;
  EXPECT_THAT(command.so_far().out, HasSubstr(", verified\n"));
}

TEST_F(BraidRun, ReportsWhyProxiesCannotBeChanged) {
  EXPECT_THAT(cli::testing::run({BRAID_COMMAND, "proxies"}).err, HasSubstr("of which node?"));
  EXPECT_THAT(cli::testing::run({BRAID_COMMAND, "proxies", "--cluster", "63"}).err,
              HasSubstr("no cluster 63 runs on this machine"));
}

TEST_F(BraidRun, AStalledProxyIsReplacedAndTakenBack) {
  if (another_run_is_on_this_machine()) GTEST_SKIP() << "another run is on this machine";
  const TemporaryFile report;
  Command command(
      Words{BRAID_COMMAND, "run", "--proxies", "2", "--path-death", "300", "--report", report.path()} +
      kLongJacobi);
  pid_t proxy = 0;
  for (const auto limit = Clock::now() + 30s; proxy == 0 && Clock::now() < limit;) {
    const Finished there = cli::testing::run({BRAID_COMMAND, "proxies", "--cluster", "0"});
    for (const auto& [pid, line] : command.processes())
      if (there.status == 0 && proxy == 0 && line.starts_with("braidd ")) proxy = thread_of(pid, "proxy 1");
  }
  ASSERT_GT(proxy, 0) << command.so_far().err;
  if (::ptrace(PTRACE_SEIZE, proxy, nullptr, nullptr) != 0) {
    command.signal(SIGTERM);
    GTEST_SKIP() << "threads of other processes cannot be stopped here: " << std::strerror(errno);
  }
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, proxy, nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(proxy, &status, __WALL), proxy);
  EXPECT_TRUE(command.expect("proxy 1 has not moved for 300 ms")) << command.so_far().err;
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, proxy, nullptr, nullptr), 0);
  EXPECT_EQ(command.wait(120s).status, 0) << command.so_far().err;
  EXPECT_THAT(command.so_far().out, HasSubstr(", verified\n"));
}

// --- faults of the wire

TEST_F(BraidRun, LossDuplicationAndReorderingOnlyDelay) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    for (const char* seed : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string("--wire ") + wire + " --seed " + seed);
      // Some 300 packets: of so many, one in a hundred is none in a few runs of a hundred.
      const Outcome o = expect_verified({"--wire", wire, "--proxies", "2", "--loss", "0.05", "--duplicate",
                                         "0.05", "--reorder", "0.05", "--seed", seed},
                                        kJacobi);
      EXPECT_GT(total(o.report, "retransmissions"), 0u);
      // Where packets are sealed, one that the wire has repeated is not opened again.
      EXPECT_GT(total(o.report, "duplicates") + total(o.report, "replayed_packets"), 0u);
      EXPECT_EQ(o.report["seed"], std::stoi(seed));
    }
  }
}

TEST_F(BraidRun, RunsWithIpFragmentation) {  // IP-3
  for (const char* loss : {"0", "0.01"}) {
    SCOPED_TRACE(std::string("--loss ") + loss);
    const Outcome o = expect_verified(
        {"--fragmentation", "ip", "--mtu", "1500", "--proxies", "2", "--loss", loss}, kJacobi);
    EXPECT_GT(total(o.report, "fragments_sent"), 0u);
    EXPECT_GT(total(o.report, "packets_reassembled"), 0u);
    EXPECT_EQ(o.report["configuration"]["transport"]["fragmentation"], "ip");
  }
}

TEST_F(BraidRun, CompletesOverAVeryBadWire) {
  expect_verified({"--loss", "0.2", "--duplicate", "0.1", "--reorder", "0.2", "--peer-death", "60000"},
                  {BRAID_JACOBI, "--size", "128"});
}

TEST_F(BraidRun, ChecksumsDetectFlippedBits) {
  const Outcome o = expect_verified({"--corrupt", "0.05"}, kJacobi);
  EXPECT_GT(total(o.report, "bad_ip") + total(o.report, "bad_udp") + total(o.report, "bad_frames"), 0u);
}

TEST_F(BraidRun, ABitFlippedPastTheChecksumMakesTheResultWrong) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    const Outcome o = run({"--wire", wire, "--security", "off", "--flip-past-checksum", "20"}, kJacobi);
    EXPECT_NE(o.finished.status, 0);
    EXPECT_THAT(o.finished.out, HasSubstr("WRONG"));
    EXPECT_THAT(o.finished.out, Not(HasSubstr("verified")));
  }
}

TEST_F(BraidRun, ABitFlippedInASealedPacketIsNoMessage) {  // SE-5
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    const Outcome o =
        expect_verified({"--wire", wire, "--security", "required", "--flip-past-checksum", "20"}, kJacobi);
    EXPECT_GT(total(o.report, "forged_packets"), 0u);
  }
}

// Several messages travel in a frame, so headers are hit too.
TEST_F(BraidRun, AMessageDamagedPastTheChecksumEndsTheRunAndItsSenderIsNamed) {
  const Outcome o = run(
      {"--clusters", "4", "--compute", "4", "--mtu", "1500", "--flip-past-checksum", "3", "--watchdog", "20"},
      {BRAID_WATER});
  EXPECT_EQ(o.finished.status, 70);
  EXPECT_THAT(o.finished.err, ContainsRegex("cluster [0-3]: cluster [0-3] sent .* which is refused|"
                                            "lost cluster [0-3]: a message from it was damaged"));
  EXPECT_THAT(o.finished.out, Not(HasSubstr("verified")));
}

TEST_F(BraidRun, ClustersCommunicateOnlyOverTheWire) {
  const Outcome o =
      run({"--loss", "1", "--path-death", "300", "--peer-death", "1000", "--start-timeout", "2000"}, kJacobi);
  EXPECT_EQ(o.finished.status, 70);
  EXPECT_THAT(o.finished.err, ContainsRegex("braidd of cluster 0, 1 is not connected to all others"));
  EXPECT_THAT(o.finished.out, Not(HasSubstr("verified")));
  EXPECT_LT(o.finished.seconds, 10);
}

TEST_F(BraidRun, StopsWithinTheDeathTimeWhenTheWireIsCut) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    const Outcome o =
        run({"--wire", wire, "--drop-all-after", "500", "--path-death", "300", "--peer-death", "1000"},
            kEndlessJacobi);
    EXPECT_NE(o.finished.status, 0);
    // Starting, five hundred frames, the death time, then what ending takes.
    EXPECT_LT(o.finished.seconds, 10);
    EXPECT_THAT(o.finished.err, ContainsRegex("\\[c[01]\\] braid: .*cluster [01]"));
    EXPECT_THAT(o.finished.out, Not(HasSubstr("verified")));
    EXPECT_GT(total(o.report, "messages_received"), 0u) << "the wire worked before";
  }
}

TEST_F(BraidRun, ASilentClusterIsDeclaredDead) {
  EndlessRun run({"--path-death", "300", "--peer-death", "1000"}, kEndlessJacobi);
  const pid_t silent = run.daemon(1);
  ASSERT_GT(silent, 0) << run.command.so_far().err;
  ::kill(silent, SIGSTOP);
  // The death time, then what ending takes.
  EXPECT_LT(run.time_to_end(), 1.0 + 5.0);
  EXPECT_NE(run.command.so_far().status, 0);
  EXPECT_THAT(run.command.so_far().err, ContainsRegex("cluster 1"));
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

TEST_F(BraidRun, PacketsForAnotherProxyAreHandedOver) {
  for (const char* wire : {"shm", "dpdk"}) {
    SCOPED_TRACE(wire);
    const Outcome o = expect_verified({"--wire", wire, "--proxies", "4", "--misdirect"}, kJacobi);
    EXPECT_GT(total(o.report, "misdirected"), 0u);
    // Each packet is seen twice: by the proxy whose queue it came on, which hands it over, and by the right
    // one.
    for (const Json& cluster : o.report["clusters"]) {
      for (const Json& proxy : cluster["proxies"]) {
        EXPECT_GT(proxy["misdirected"], 0);
        EXPECT_GT(proxy["packets_received"], 0) << "from others";
      }
    }
  }
}

// --- processes that are killed

TEST_F(BraidRun, EndsWhenAnApplicationProcessIsKilled) {
  for (const char* wire : {"shm", "dpdk"}) {
    SCOPED_TRACE(wire);
    EndlessRun run({"--wire", wire}, kEndlessJacobi);
    const pid_t victim = run.application(1);
    ASSERT_GT(victim, 0) << run.command.so_far().err;
    ::kill(victim, SIGKILL);
    EXPECT_LT(run.time_to_end(), 5.0);
    EXPECT_EQ(run.command.so_far().status, 137);
    EXPECT_THAT(run.command.so_far().err,
                ContainsRegex("braid: application of cluster [01] \\(pid " + std::to_string(victim) +
                              "\\) was killed by signal 9 \\(Killed\\) before finish\\(\\); ending the run"));
    EXPECT_THAT(run.command.left_over(), IsEmpty());
    EXPECT_EQ(run.report()["status"], 137);
  }
}

TEST_F(BraidRun, EndsWhenADaemonIsKilled) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    EndlessRun run({"--wire", wire}, kEndlessJacobi);
    const pid_t victim = run.daemon(1);
    ASSERT_GT(victim, 0) << run.command.so_far().err;
    ::kill(victim, SIGKILL);
    EXPECT_LT(run.time_to_end(), 5.0);
    EXPECT_EQ(run.command.so_far().status, 70);
    EXPECT_THAT(run.command.so_far().err,
                ContainsRegex("braid: braidd of cluster [01] \\(pid " + std::to_string(victim) +
                              "\\) was killed by signal 9 \\(Killed\\); ending the run"));
    EXPECT_THAT(run.command.left_over(), IsEmpty());
    EXPECT_GT(run.report()["totals"]["messages_sent"], 0) << "the report has what was done before";
  }
}

TEST_F(BraidRun, LeavesNoProcessWhenTheCommandIsKilled) {
  for (const char* wire : {"shm", "udp", "dpdk"}) {
    SCOPED_TRACE(wire);
    EndlessRun run({"--wire", wire}, kEndlessJacobi);
    ASSERT_GT(run.application(1), 0) << run.command.so_far().err;
    run.command.signal(SIGKILL);
    run.command.wait();
    EXPECT_THAT(run.command.left_over(), IsEmpty());
  }
}

TEST_F(BraidRun, EndsWhenItIsInterrupted) {
  EndlessRun run({}, kEndlessJacobi);
  ASSERT_GT(run.application(1), 0) << run.command.so_far().err;
  run.command.signal(SIGINT);
  EXPECT_LT(run.time_to_end(), 5.0);
  EXPECT_EQ(run.command.so_far().status, 130);
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

// --- a wire of the kernel

// Two network namespaces joined by a veth pair, as configs/dpdk-veth.yaml tells how to make them. Needs root.
class Veth {
 public:
  Veth() : id_(std::to_string(::getpid() % 100000)) {
    for (const int k : {0, 1}) ip({"netns", "add", space(k)});
    ip({"link", "add", "braid0", "netns", space(0), "type", "veth", "peer", "name", "braid1", "netns",
        space(1)});
    for (const int k : {0, 1}) {
      const std::string device = "braid" + std::to_string(k);
      in(k, {"sysctl", "-qw", "net.ipv6.conf." + device + ".disable_ipv6=1"});
      in(k, {"ethtool", "-K", device, "tx", "off"});
      ip({"-n", space(k), "link", "set", device, "address", "02:62:72:64:00:0" + std::to_string(k)});
      ip({"-n", space(k), "link", "set", device, "up"});
    }
  }
  ~Veth() {
    for (const int k : {0, 1}) ip({"netns", "del", space(k)});
  }

  const std::string& problem() const { return problem_; }
  void cut() { ip({"-n", space(0), "link", "set", "braid0", "down"}); }
  std::string config(unsigned proxies, bool with_macs) const {
    std::string text = "clusters: 2\ncompute: 2\nproxies: " + std::to_string(proxies) +
                       "\nwire: dpdk\ndpdk:\n  kind: af_packet\n  interfaces:\n";
    for (const int k : {0, 1}) {
      const std::string n = std::to_string(k);
      text += "    - {cluster: " + n + ", netns: " + space(k) + ", interface: braid" + n +
              ", address: 10.98." + n + ".1" + (with_macs ? ", mac: \"02:62:72:64:00:0" + n + "\"" : "") +
              "}\n";
    }
    return text;
  }

 private:
  std::string space(int k) const { return "braid-test-" + id_ + "-" + std::to_string(k); }
  void ip(const Words& words) { check({"/usr/bin/env", "ip"}, words); }
  void in(int k, const Words& words) { check({"/usr/bin/env", "ip", "netns", "exec", space(k)}, words); }
  void check(const Words& head, const Words& words) {
    const Finished done = cli::testing::run(head + words);
    if (done.status == 0 || !problem_.empty()) return;
    for (const std::string& word : head + words) problem_ += word + " ";
    problem_ += ": " + done.err;
  }

  const std::string id_;
  std::string problem_;
};

class BraidRunOnVeth : public BraidRun {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: network namespaces and packet sockets";
    veth_ = std::make_unique<Veth>();
    if (!veth_->problem().empty())
      GTEST_SKIP() << "no veth pair between namespaces here: " << veth_->problem();
  }
  std::unique_ptr<Veth> veth_;
};

TEST_F(BraidRunOnVeth, RunsJacobiOverPacketSockets) {
  for (const bool with_macs : {true, false}) {
    const TemporaryFile config(veth_->config(2, with_macs));
    const Outcome o = expect_verified({"--config", config.path()}, kJacobi);
    EXPECT_EQ(o.report["configuration"]["dpdk"]["kind"], "af_packet");
  }
}

TEST_F(BraidRunOnVeth, RunsMatmulOverPacketSockets) {
  const TemporaryFile config(veth_->config(1, true));
  expect_verified({"--config", config.path()}, kMatmul);
}

TEST_F(BraidRunOnVeth, StopsWithinTheDeathTimeWhenTheCableIsPulled) {
  const TemporaryFile config(veth_->config(1, true));
  EndlessRun run({"--config", config.path(), "--path-death", "300", "--peer-death", "1000"}, kEndlessJacobi);
  ASSERT_GT(run.application(1), 0) << run.command.so_far().err;
  veth_->cut();
  EXPECT_LT(run.time_to_end(), 1.0 + 5.0);
  EXPECT_NE(run.command.so_far().status, 0);
  EXPECT_THAT(run.command.so_far().err, ContainsRegex("cluster [01]"));
  EXPECT_THAT(run.command.left_over(), IsEmpty());
}

}  // namespace
}  // namespace braid
