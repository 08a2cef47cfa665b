#include "bench/latency_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "tests/cli/command.h"

namespace braid::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::StartsWith;

// 1000 of 10 us, then 5 of 100 us.
Operation mostly_fast() {
  Operation operation;
  operation.take([](Latencies* round) {
    round->record(10_us, 1000);
    round->record(100_us, 5);
  });
  return operation;
}

class LatencyReportTest : public ::testing::Test {
 protected:
  LatencyReportTest() {
    folder_ = ::testing::TempDir() + "/braid-latency-report-" + std::to_string(::getpid());
    std::filesystem::create_directory(folder_);
  }
  ~LatencyReportTest() override { std::filesystem::remove_all(folder_); }

  std::string text(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const Operation operation_ = mostly_fast();
  const NamedOperations operations_ = {{"read miss, 64 B", &operation_}};
  std::string folder_;
};

TEST_F(LatencyReportTest, OperationHasTheMediansOfItsRounds) {
  Operation operation = mostly_fast();
  operation.take([](Latencies* round) { round->record(30_us); });
  operation.take([](Latencies* round) { round->record(20_us); });
  EXPECT_EQ(operation.medians_us.size(), 3u);
  EXPECT_NEAR(operation.us(), 20, 0.02);
  EXPECT_EQ(operation.all.count(), 1007u);
}

TEST_F(LatencyReportTest, LineHasPercentilesAlsoCorrectedOnes) {
  ::testing::internal::CaptureStdout();
  print_latencies("us", operations_);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed,
              StartsWith("us                    p50       p99     p99.9      most     p99 *   p99.9 *"));
  // Corrected, the last 15 of 1045 latencies are five each of 80, 90 and 100 us.
  EXPECT_THAT(
      printed,
      ContainsRegex(
          "\nread miss, 64 B +10\\.0[0-9]+ +10\\.0[0-9]+ +100\\.0[0-9]+ +100\\.0 +(79\\.9|80\\.0)[0-9]+ "
          "+100\\.0[0-9]+ +[0-9]+ times, "));
}

TEST_F(LatencyReportTest, FilesAreWrittenAsMeasuredAndCorrected) {
  EXPECT_TRUE(write_output("bench", {.json = "", .percentiles = folder_, .against = ""}, {}, operations_));
  EXPECT_EQ(text("read-miss--64-B.hgrm"), operation_.all.text());
  EXPECT_EQ(text("read-miss--64-B.corrected.hgrm"), operation_.corrected().text());
  EXPECT_NE(operation_.all.text(), operation_.corrected().text());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(LatencyReportTest, FiguresAreWrittenAsJson) {
  const std::string file = folder_ + "/figures.json";
  EXPECT_TRUE(write_output("bench", {.json = file, .percentiles = "", .against = ""},
                           percentiles_json(operations_), operations_));
  const nlohmann::json json = nlohmann::json::parse(text("figures.json"));
  EXPECT_NEAR(json["read miss, 64 B"]["p50"].get<double>(), 10, 0.01);
  EXPECT_NEAR(json["read miss, 64 B"]["p99"].get<double>(), 10, 0.01);
  EXPECT_NEAR(json["read miss, 64 B"]["p99.9"].get<double>(), 100, 0.1);
}

TEST_F(LatencyReportTest, FileThatCannotBeWrittenIsReported) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(
      write_output("bench", {.json = "/dev/full", .percentiles = "", .against = ""}, {}, operations_));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), StartsWith("bench: /dev/full cannot be written"));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(
      write_output("bench", {.json = "", .percentiles = folder_ + "/no", .against = ""}, {}, operations_));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), StartsWith("bench: " + folder_ + "/no/read-miss"));
}

}  // namespace
}  // namespace braid::bench
