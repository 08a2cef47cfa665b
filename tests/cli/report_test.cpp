// The closing report, made from invented numbers.
#include "tools/braid/run/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace braid::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunReport made_up() {
  RunReport report;
  report.command = {"jacobi", "--size", "64"};
  report.start_time = Duration::ms(250);
  report.run_time = Duration::ms(1500);
  for (unsigned k = 0; k < 2; ++k) {
    ClusterReport cluster;
    cluster.daemon = 100 + static_cast<pid_t>(k);
    cluster.application = 200 + static_cast<pid_t>(k);
    cluster.daemon_end = cluster.application_end = "exited with status 0";
    cluster.proxies.push_back({{"messages_sent", 12345 + k},
                               {"message_bytes_sent", 50'000'000},
                               {"packets_sent", 678},
                               {"retransmissions", 9 * k},
                               {"misdirected", 0},
                               {"bad_udp", 4 * k},
                               {"turns", 99999}});
    cluster.application_report = R"({"cluster": 0, "protection": "mprotect", "nodes": [{"node": )" +
                                 std::to_string(k) +
                                 R"(, "read_faults": 11, "write_faults": 22, "fetches": 33, "lock_calls": 44,
        "remote_locks": 5, "barriers": 66, "sync_calls": 9, "faults_ns": 7700000, "locks_ns": 0,
        "barriers_ns": 1050000000, "syncs_ns": 3300000}],
        "cluster_counts": {"diffs_sent": 88, "diff_bytes_sent": 4096}})";
    report.clusters.push_back(std::move(cluster));
  }
  return report;
}

TEST(Report, TextHasATableForEachSubject) {
  EXPECT_EQ(
      render_text(made_up()),
      "braid: jacobi; 2 clusters of 2 compute nodes and 1 proxy, wire shm, dispatch rr\n"
      "  cluster  proxy  messages    bytes  received  bytes  packets  received  resent  misdirected  others\n"
      "        0      0     12345  50.0 MB         0    0 B      678         0       0            0\n"
      "        1      0     12346  50.0 MB         0    0 B      678         0       9            0  bad_udp 4\n"
      "  cluster  node  read faults  write faults  fetches  in faults  locks  remote  in locks  barriers  in barriers  words, flags ...  in these\n"
      "        0     0           11            22       33     7.7 ms     44       5      0 us        66       1.05 s                 9  3.3 ms\n"
      "        1     1           11            22       33     7.7 ms     44       5      0 us        66       1.05 s                 9  3.3 ms\n"
      "  cluster  diffs sent   bytes  diffs applied  pages sent  invalidations sent  received  protection\n"
      "        0          88  4096 B              0           0                   0         0  mprotect\n"
      "        1          88  4096 B              0           0                   0         0  mprotect\n"
      "braid: compute nodes spent 70 % of the time at barriers, node 1 1050.0 ms and node 0 1050.0 ms: give those that wait least less to do\n"
      "braid: ran 1.500 s after 0.250 s of starting; status 0\n");
}

TEST(Report, TextHasTheCostliestMemoryAndLocks) {
  RunReport report = made_up();
  for (unsigned k = 0; k < 2; ++k) {
    report.clusters[k].application_report =
        R"({"costly_pages": [{"page": 3, "faults_ns": 900000000, "read_faults": 1, "write_faults": 2, "written": [0, 8],
            "allocated": {"place": "solve(int) at solve.cpp:12", "bytes": 64, "offset": 0}}],
            "costly_locks": [{"lock": 7, "locks_ns": 5000000, "waits": 4, "longest_ns": 2000000}]})";
  }
  const std::string text = render_text(report);
  EXPECT_THAT(
      text,
      HasSubstr(
          "  costly memory: in faults  read faults  write faults  pages          used by  allocated in\n"
          "                    1.80 s            2             4      1  several writers  solve(int) at solve.cpp:12\n"));
  EXPECT_THAT(text, HasSubstr("  costly lock  waits  waiting  longest\n"
                              "       lock 7      8  10.0 ms  2.0 ms\n"));
  EXPECT_EQ(render_json(report)["costs"]["memory"][0]["allocated"], "solve(int) at solve.cpp:12");
}

TEST(Report, TextHasInjectedFaultsAndTheFailure) {
  RunReport report = made_up();
  report.config.faults.loss = 0.01;
  report.config.faults.seed = 5;
  report.status = 70;
  report.failure = "braidd of cluster 1 (pid 101) was killed by signal 9 (Killed)";
  const std::string text = render_text(report);
  EXPECT_THAT(text, HasSubstr("faults: loss 0.01, duplicate 0, reorder 0, corrupt 0, flip past checksum "
                              "every 0, drop all after 0, delay 0 ms, seed 5\n"));
  EXPECT_THAT(text, HasSubstr("status 70: braidd of cluster 1 (pid 101) was killed by signal 9 (Killed)\n"));
}

TEST(Report, WarnsOfAFileOfKeys) {
  RunReport report = made_up();
  EXPECT_THAT(render_text(report), Not(HasSubstr("keys of this run")));
  report.config.security.keylog = "some/keys";
  EXPECT_THAT(render_text(report),
              HasSubstr("\nbraid: the keys of this run are in some/keys: who has them can read all that "
                        "its clusters sent each other\n"));
  for (ClusterReport& cluster : report.clusters) cluster.host = "a";
  EXPECT_THAT(render_text(report), HasSubstr("are in some/keys.cluster<k> on its hosts: who"));
}

TEST(Report, TellsHowPacketsWereProtected) {
  RunReport report = made_up();
  EXPECT_TRUE(protections_of(report.clusters).empty()) << "there were no handshakes";
  EXPECT_EQ(render_json(report)["security"].size(), 0u);
  const auto said = [&] {
    report.protections = protections_of(report.clusters);
    const std::string text = render_text(report);
    const std::size_t begin = text.find("dispatch rr") + 11;
    return text.substr(begin, text.find('\n') - begin);
  };
  report.clusters[0].proxies[0].emplace_back("handshakes_plain", 0);
  report.clusters[0].proxies[0].emplace_back("handshakes_aes_gcm", 2);
  EXPECT_EQ(said(), ", packets sealed with AES-256-GCM");
  report.clusters[1].proxies[0].emplace_back("handshakes_chacha20", 1);
  EXPECT_EQ(said(), ", packets sealed with AES-256-GCM and ChaCha20-Poly1305");
  report.clusters[1].proxies[0].emplace_back("handshakes_plain", 1);
  EXPECT_EQ(said(),
            ", packets sealed with AES-256-GCM and ChaCha20-Poly1305, on links of shared memory plain");
  EXPECT_EQ(render_json(report)["security"], nlohmann::json({"AES-256-GCM", "ChaCha20-Poly1305", "plain"}));
  report.clusters[0].proxies.clear();
  report.clusters[1].proxies = {{{"handshakes_plain", 4}}};
  EXPECT_EQ(said(), ", packets plain");
  EXPECT_THAT(render_text(report), Not(HasSubstr("handshakes"))) << "they are in every run";
}

TEST(Report, ClustersOfOneHostAreJoinedBySharedMemory) {
  RunReport report = made_up();
  report.config.wire = settings::Wire::kUdp;
  EXPECT_THAT(render_text(report), HasSubstr(", wire udp,"));
  report.clusters[0].host = "a";
  report.clusters[1].host = "b";
  EXPECT_THAT(render_text(report), HasSubstr(", wire udp,"));
  report.clusters[1].host = "a";
  EXPECT_THAT(render_text(report), HasSubstr(", wire shm,"));
}

TEST(Report, SaysThatAProgramUsedNothingOfBraid) {
  RunReport report = made_up();
  for (ClusterReport& cluster : report.clusters) {
    cluster.application_report.clear();
    cluster.proxies = {{{"messages_sent", 2}, {"control.sent", 2}}, {{"messages_sent", 0}}};
  }
  EXPECT_THAT(render_text(report),
              HasSubstr("used nothing of Braid: build a pthread program by 'braid-cc --pthreads'"));

  RunReport sends_messages = report;
  sends_messages.clusters[1].proxies[1] = {{"messages_sent", 1}, {"messages.sent", 1}};
  RunReport shares_memory = report;
  shares_memory.clusters[0].application_report = "{}";
  RunReport fails = report;
  fails.status = 1;
  RunReport of_one_cluster = report;
  of_one_cluster.clusters.pop_back();
  RunReport never_started = report;
  for (ClusterReport& cluster : never_started.clusters) cluster.application = 0;
  for (const RunReport& other : {sends_messages, shares_memory, fails, of_one_cluster, never_started})
    EXPECT_THAT(render_text(other), Not(HasSubstr("used nothing of Braid")));
}

TEST(Report, RunThatNeverStartedHasAReport) {
  RunReport report;
  report.command = {"jacobi"};
  report.status = 70;
  report.clusters.resize(2);
  EXPECT_THAT(render_text(report), Not(HasSubstr("node  read")));
  const nlohmann::ordered_json json = render_json(report);
  EXPECT_EQ(json["clusters"][0]["braidd"]["pid"], 0);
  EXPECT_TRUE(json["clusters"][0]["application"]["report"].is_null());
}

TEST(Report, JsonHasEverything) {
  const nlohmann::ordered_json json = render_json(made_up());
  EXPECT_EQ(json["status"], 0);
  EXPECT_TRUE(json["failure"].is_null());
  EXPECT_EQ(json["wall_seconds"], 1.5);
  EXPECT_EQ(json["start_seconds"], 0.25);
  EXPECT_EQ(json["configuration"]["clusters"], 2);
  EXPECT_EQ(json["configuration"]["transport"]["mtu_bytes"], "auto");
  EXPECT_EQ(json["clusters"][1]["proxies"][0]["retransmissions"], 9);
  EXPECT_EQ(json["clusters"][1]["proxies"][0]["turns"], 99999);
  EXPECT_EQ(json["clusters"][0]["application"]["report"]["nodes"][0]["faults_ns"], 7700000);
  EXPECT_EQ(json["totals"]["messages_sent"], 24691);
}

TEST(Report, InvalidReportOfAnApplicationIsIgnored) {
  for (const char* nonsense :
       {"[]", "3", "{\"nodes\": 3}", "{\"nodes\": [3, {\"node\": \"x\"}]}", "{", "\xff\xfe",
        "{\"cluster_counts\": []}",
        "{\"cluster_counts\": {\"diffs_sent\": -1, \"pages_sent\": 1e300}, \"protection\": 5}",
        "{\"costly_pages\": [{\"page\": -1, \"written\": [\"a\", 2], \"allocated\": 5}]}",
        "{\"costly_pages\": [{\"allocated\": {\"place\": 5}}], \"costly_locks\": {}}"}) {
    RunReport report = made_up();
    report.clusters[0].application_report = nonsense;
    EXPECT_THAT(render_text(report), HasSubstr("status 0")) << nonsense;
    EXPECT_FALSE(render_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace).empty())
        << nonsense;
  }
}

}  // namespace
}  // namespace braid::cli
