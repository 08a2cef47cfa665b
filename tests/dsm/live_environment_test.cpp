// The environment of a program: what `braid run` sets, and the errors for everything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "dsm/live/environment.h"
#include "settings/limits.h"

namespace braid::dsm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<Environment> read(const Variables& variables) {
  return Environment::read([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Environment, DefaultsToOneClusterWithoutAService) {
  const Result<Environment> e = read({});
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->service, "");
  EXPECT_EQ(e->clusters, 1);
  EXPECT_EQ(e->compute, 1);
  EXPECT_EQ(e->heap_mib, 256u);
  EXPECT_EQ(e->report_fd, -1);
}

TEST(Environment, ReadsTheVariablesOfBraidRun) {
  const Result<Environment> e = read({{"BRAID_SERVICE", "@braid-7-1"},
                                      {"BRAID_CLUSTER", "1"},
                                      {"BRAID_CLUSTERS", "4"},
                                      {"BRAID_COMPUTE", "2"},
                                      {"BRAID_HEAP_MIB", "512"},
                                      {"BRAID_DISPATCH", "fixed"},
                                      {"BRAID_WINDOW_KIB", "128"},
                                      {"BRAID_PROTECTION", "userfaultfd"},
                                      {"BRAID_PROCESSORS", "2,5"},
                                      {"BRAID_REPORT_FD", "1"},
                                      {"BRAID_CONNECT_TIMEOUT_MS", "2500"}});
  ASSERT_TRUE(e.ok()) << e.error().text;
  EXPECT_EQ(e->service, "@braid-7-1");
  EXPECT_EQ(e->cluster, 1);
  EXPECT_EQ(e->clusters, 4);
  EXPECT_EQ(e->compute, 2);
  EXPECT_EQ(e->heap_mib, 512u);
  EXPECT_EQ(e->dispatch, convergence::Dispatch::kFixed);
  EXPECT_EQ(e->window_kib, 128u);
  EXPECT_EQ(e->protect, Environment::Protect::kUserfaultfd);
  EXPECT_EQ(e->processors, (std::vector<unsigned>{2, 5}));
  EXPECT_EQ(e->report_fd, 1);
  EXPECT_EQ(e->connect_timeout, 2500_ms);
}

TEST(Environment, TakesTheLargestSettingsOfBraidRun) {
  const Result<Environment> e = read({{"BRAID_HEAP_MIB", std::to_string(settings::kMaxHeapMib)},
                                      {"BRAID_WINDOW_KIB", std::to_string(settings::kMaxWindowKib)},
                                      {"BRAID_CONNECT_TIMEOUT_MS", std::to_string(settings::kDayMs)}});
  ASSERT_TRUE(e.ok()) << e.error().text;
  EXPECT_EQ(e->heap_mib, settings::kMaxHeapMib);
  EXPECT_EQ(e->window_kib, settings::kMaxWindowKib);
  EXPECT_EQ(e->connect_timeout, Duration::ms(settings::kDayMs));
}

struct Refused {
  Variables variables;
  std::string name;
  std::string cure;
};

TEST(Environment, ErrorNamesTheVariableItsValueAndTheCure) {
  const Refused cases[] = {
      {{{"BRAID_COMPUTE", "two"}}, "BRAID_COMPUTE is 'two'", "a whole number from 1 to 128"},
      {{{"BRAID_COMPUTE", "0"}}, "BRAID_COMPUTE is '0'", "from 1 to 128"},
      {{{"BRAID_COMPUTE", "-1"}}, "BRAID_COMPUTE is '-1'", "from 1 to 128"},
      {{{"BRAID_COMPUTE", "2 "}}, "BRAID_COMPUTE is '2 '", "from 1 to 128"},
      {{{"BRAID_CLUSTERS", "1025"}}, "BRAID_CLUSTERS is '1025'", "from 1 to 1024"},
      {{{"BRAID_HEAP_MIB", ""}}, "BRAID_HEAP_MIB is ''", "braid run"},
      {{{"BRAID_WINDOW_KIB", "16"}}, "BRAID_WINDOW_KIB is '16'", "from 32 to"},
      {{{"BRAID_WINDOW_KIB", "100"}}, "BRAID_WINDOW_KIB is 100", "a power of two"},
      {{{"BRAID_PAGE_BYTES", "131072"}}, "BRAID_PAGE_BYTES is '131072'", "from 4096 to 65536"},
      {{{"BRAID_PAGE_BYTES", "5000"}}, "BRAID_PAGE_BYTES is 5000", "a power of two"},
      {{{"BRAID_PAGE_BYTES", "65536"}, {"BRAID_WINDOW_KIB", "256"}},
       "BRAID_WINDOW_KIB is 256",
       "at least 512"},
      {{{"BRAID_DISPATCH", "random"}},
       "BRAID_DISPATCH is 'random'",
       "it must be one of 'fixed', 'rr', 'round-robin', 'least-loaded'"},
      {{{"BRAID_PROTOCOL", "mgs"}}, "BRAID_PROTOCOL is 'mgs'", "take 'eager' or 'lazy'"},
      {{{"BRAID_PROTECTION", "none"}},
       "BRAID_PROTECTION is 'none'",
       "one of 'auto', 'mprotect', 'userfaultfd'"},
      {{{"BRAID_CLUSTER", "2"}, {"BRAID_CLUSTERS", "2"}, {"BRAID_SERVICE", "@x"}},
       "BRAID_CLUSTER is 2",
       "from 0"},
      {{{"BRAID_CLUSTERS", "2"}}, "BRAID_SERVICE names no braidd", "start the program with `braid run`"},
      {{{"BRAID_PROCESSORS", "0,x"}}, "BRAID_PROCESSORS is '0,x'", "numbers of processors"},
      {{{"BRAID_COMPUTE", "2"}, {"BRAID_PROCESSORS", "0,1,2"}}, "BRAID_PROCESSORS is '0,1,2'", "at most 2"},
      {{{"BRAID_REPORT_FD", "1000000"}}, "BRAID_REPORT_FD is 1000000", "no open descriptor"},
      {{{"BRAID_CONNECT_TIMEOUT_MS", "0"}}, "BRAID_CONNECT_TIMEOUT_MS is '0'", "from 1 to"},
  };
  for (const Refused& c : cases) {
    const Result<Environment> e = read(c.variables);
    ASSERT_FALSE(e.ok()) << c.name;
    EXPECT_THAT(e.error().text, AllOf(HasSubstr(c.name), HasSubstr(c.cure)));
  }
}

}  // namespace
}  // namespace braid::dsm
