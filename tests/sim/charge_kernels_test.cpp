// Results and charges of the kernels (charge_kernels.h), compiled in several ways and compared.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Output {
  std::vector<std::string> results;
  std::vector<std::string> units;
};

std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> some;
  while (const std::size_t n = std::fread(some.data(), 1, some.size(), pipe)) text.append(some.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

Output run(const std::string& flavour) {
  std::istringstream lines(output_of(std::string(BRAID_KERNELS) + flavour));
  Output output;
  for (std::string line; std::getline(lines, line);)
    (line.starts_with("units ") ? output.units : output.results).push_back(line);
  EXPECT_GT(output.results.size(), 300u) << flavour;
  EXPECT_EQ(output.results.size(), output.units.size()) << flavour;
  return output;
}

TEST(ChargeKernels, ChargedKernelsComputeTheSameAsPlainOnes) {
  const Output plain = run("plain");
  EXPECT_EQ(run("charged").results, plain.results);
  EXPECT_EQ(run("everywhere").results, plain.results);
  EXPECT_EQ(run("unoptimised").results, plain.results);
  for (const std::string& line : plain.units) EXPECT_TRUE(line.ends_with(" 0")) << line;
}

TEST(ChargeKernels, UnitsAreEqualInEveryRun) {
  const Output first = run("charged");
  for (int run_number = 0; run_number < 3; ++run_number) EXPECT_EQ(run("charged").units, first.units);
}

// Charges may be combined, made early, or made once for a whole loop: at every boundary their sum is the cost
// of the statements executed before.
TEST(ChargeKernels, UnitsAtEveryBoundaryAreTheSumOfTheSegments) {
  EXPECT_EQ(run("charged").units, run("everywhere").units);
}

#ifdef BRAID_CHECKS_ACCESSES
// Of private memory; checks that cost nothing are not seen.
TEST(ChargeKernels, CheckedKernelsComputeTheSameInTheSameTime) {
  const Output checked = run("checked");
  EXPECT_EQ(checked.results, run("plain").results);
  EXPECT_EQ(checked.units, run("charged").units);
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers add branches of their own.
TEST(ChargeKernels, UnitsPerElementFollowTheCostTable) {
  std::map<std::string, std::vector<long>> units;  // by name of the kernel: for sizes 0, 1, 1000, 2000
  for (const std::string& line : run("charged").units) {
    const std::size_t space = line.rfind(' ');
    units[line.substr(6, space - 6)].push_back(std::atol(line.c_str() + space));
  }
  const auto per_element = [&](const char* what) {
    return static_cast<double>(units[what].at(3) - units[what].at(2)) / 1000;
  };
  // Address 1, load 2, add 4; next index 1, compare and branch 2.
  EXPECT_EQ(per_element("sum"), 10);
  // Address 1, load 2, divide 20, store 3; 3.
  EXPECT_EQ(per_element("quotients"), 29);
  // Address 1, load 2, absolute value 1, root 30, compare with 0 and branch 5 (else the library's sets
  // errno), store 3; 3.
  EXPECT_EQ(per_element("roots"), 45);
  EXPECT_EQ(per_element("memcpy"), 0.5);
}
#endif

}  // namespace
