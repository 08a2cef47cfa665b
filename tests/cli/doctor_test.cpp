// What the doctor makes of facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "tools/braid/doctor/consulted_host.h"
#include "tools/braid/doctor/findings.h"

namespace braid::cli {
namespace {

using ::testing::HasSubstr;

const HostFacts kGood{.processors = 8,
                      .open_files = 4096,
                      .locked_bytes = 65536,
                      .memory = {.available_bytes = 4ull << 30},
                      .mappings = 65530,
                      .has_userfaultfd = true,
                      .receive_buffer_bytes = 8 << 20,
                      .is_root = false,
                      .has_aes = true,
                      .missing_daemon = ""};

Finding found(const HostFacts& facts, const std::string& what, unsigned threads = 8) {
  for (const Finding& finding : judge(facts, {.threads = threads}))
    if (finding.what == what) return finding;
  ADD_FAILURE() << what;
  return {};
}

TEST(Doctor, GoodHostGetsNoCure) {
  for (const Finding& finding : judge(kGood, {.threads = 8})) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.what;
    EXPECT_EQ(finding.cure, "") << finding.what;
  }
}

TEST(Doctor, SaysWhetherPacketsAreSealedAndWithWhat) {
  HostFacts facts = kGood;
  const auto encryption = [&](bool is_sealed) {
    for (const Finding& finding : judge(facts, {.threads = 8, .is_sealed = is_sealed}))
      if (finding.what == "encryption") return finding.found;
    return std::string("nothing");
  };
  EXPECT_THAT(encryption(false), HasSubstr("packets are plain"));
  EXPECT_THAT(encryption(true), HasSubstr("sealed, with AES-256-GCM"));
  facts.has_aes = false;
  EXPECT_THAT(encryption(true), HasSubstr("sealed, with ChaCha20-Poly1305"));
}

TEST(Doctor, EachShortageIsNamedWithItsCure) {
  HostFacts facts = kGood;
  EXPECT_EQ(found(facts, "processors", 9).verdict, Verdict::kWarning);
  EXPECT_EQ(found(facts, "processors", 9).found, "8, for 9 threads of compute nodes and proxies");
  facts.open_files = 256;
  EXPECT_EQ(found(facts, "open files").verdict, Verdict::kWarning);
  EXPECT_THAT(found(facts, "open files").cure, HasSubstr("ulimit -Hn"));
  facts.memory.available_bytes = 100 << 20;
  EXPECT_EQ(found(facts, "memory").found, "100 MiB available");
  EXPECT_EQ(found(facts, "memory").verdict, Verdict::kWarning);
  facts.has_userfaultfd = false;
  EXPECT_EQ(found(facts, "page protection").verdict, Verdict::kWarning);
  facts.mappings = 1 << 20;
  EXPECT_EQ(found(facts, "page protection").verdict, Verdict::kOk) << "mprotect has enough";
  facts.receive_buffer_bytes = 212992;
  EXPECT_THAT(found(facts, "socket buffers").cure, HasSubstr("net.core.rmem_max=4194304"));
  facts.is_root = true;
  EXPECT_EQ(found(facts, "socket buffers").verdict, Verdict::kOk) << "root is not bound by it";
  facts.missing_daemon = "no braidd beside it";
  EXPECT_EQ(found(facts, "braidd").verdict, Verdict::kBad);
  EXPECT_EQ(found(facts, "braidd").found, "no braidd beside it");
}

TEST(Doctor, MemoryIsThatOfTheCgroupWhereItHasLess) {
  constexpr std::uint64_t kMib = 1 << 20;
  MemoryFacts facts{.available_bytes = 4096 * kMib, .limit = MemoryLimit{600 * kMib, 500 * kMib}};
  const MemoryNeeds two{.clusters = 2, .heap_bytes = 128 * kMib};
  EXPECT_EQ(judge(facts, two).verdict, Verdict::kOk);
  EXPECT_EQ(
      judge(facts, two).found,
      "500 MiB of the 600 MiB that the cgroup permits, for 2 clusters, which take 64 MiB before the program has any, and "
      "320 MiB with the whole heap");
  facts.limit->free_bytes = 319 * kMib;
  EXPECT_EQ(judge(facts, two).verdict, Verdict::kWarning);
  EXPECT_THAT(judge(facts, two).cure, HasSubstr("memory.max"));
  EXPECT_THAT(judge(facts, two).cure, HasSubstr("--heap-mib"));
  facts.limit->free_bytes = 63 * kMib;
  EXPECT_EQ(judge(facts, two).verdict, Verdict::kBad);
  facts.available_bytes = 62 * kMib;
  EXPECT_THAT(judge(facts, two).found, HasSubstr("62 MiB available, for"));
  EXPECT_EQ(judge(facts, two).verdict, Verdict::kBad);
  EXPECT_THAT(judge(facts, two).cure, HasSubstr("end other programs"));
}

TEST(Doctor, PathIsBadIfThePacketsOfRunsDoNotArrive) {
  PathFacts path;
  path.from = "a";
  path.to = "b";
  path.sent = {576, 1280, 1400, 1500};
  path.heard = {576, 1280, 1400, 1500};
  EXPECT_EQ(judge(path, 1500).verdict, Verdict::kOk);
  EXPECT_EQ(judge(path, 1400).verdict, Verdict::kOk);
  EXPECT_EQ(judge(path, 9000).cure, "--mtu 1500: runs would send packets of 9000");
  path.heard = {576, 1280};
  EXPECT_EQ(judge(path, 1500).verdict, Verdict::kBad);
  EXPECT_EQ(judge(path, 1500).found, "packets of up to 1280 bytes arrive");
  EXPECT_EQ(judge(path, 1300).verdict, Verdict::kBad) << "1400 was tried, and did not arrive";
  path.heard = {};
  EXPECT_EQ(judge(path, 1500).found, "nothing arrives");
  path.sent = {};
  path.refusal = "no route";
  EXPECT_EQ(judge(path, 1500).found, "cannot be sent: no route");
}

TEST(Doctor, PathIsGoodAtALengthBetweenTriedOnes) {
  PathFacts path;
  path.sent = path.heard = {576, 1280, 1400};
  EXPECT_EQ(judge(path, 1390).verdict, Verdict::kOk);
}

TEST(Doctor, ClocksMayDifferByASecondOrWhatCannotBeTold) {
  EXPECT_EQ(judge_clock(0.9, 0.01).verdict, Verdict::kOk);
  EXPECT_EQ(judge_clock(-3, 2.5).verdict, Verdict::kOk);
  EXPECT_EQ(judge_clock(-3, 0.1).verdict, Verdict::kWarning);
  EXPECT_THAT(judge_clock(-3, 0.1).found, HasSubstr("-3.000 s"));
}

TEST(Doctor, FindingsTravelAsJson) {
  const Finding sent = judge_version("0.0.9", "0.1.0");
  EXPECT_EQ(sent.verdict, Verdict::kBad);
  const nlohmann::json json = sent;
  const Finding got = nlohmann::json::parse(json.dump()).get<Finding>();
  EXPECT_EQ(text_of(got), text_of(sent));
  EXPECT_THAT(text_of(got),
              HasSubstr("  bad      version: 0.0.9, and 0.1.0 here\n           install the same"));
  for (const char* const nonsense :
       {"{}", "[]", "3", R"({"what":"a","verdict":"so so","found":"b","cure":"c"})"})
    EXPECT_THROW((void)nlohmann::json::parse(nonsense).get<Finding>(), nlohmann::json::exception) << nonsense;
}

// While one host is waited for, another's answer waits.
TEST(Doctor, ReadsWhatWasSaidBeforeADeadlineThatHasPassed) {
  Result<ConsultedHost> host =
      ConsultedHost::start({"sh", "-c", "echo 'braid-doctor {\"is\": 1}'; exec sleep 100"});
  ASSERT_TRUE(host.ok()) << host.error().text;
  Result<nlohmann::json> answer = host->next(monotonic_now());
  for (int tries = 0; !answer && tries < 1000; ++tries) {
    ::usleep(10'000);
    answer = host->next(monotonic_now());
  }
  ASSERT_TRUE(answer.ok()) << answer.error().text;
  EXPECT_EQ(answer->dump(), "{\"is\":1}");
  EXPECT_EQ(host->next(monotonic_now()).error().text, "its braid-node has not answered");
}

}  // namespace
}  // namespace braid::cli
