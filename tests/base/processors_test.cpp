// Lists of processors as text, and threads that run on some.
#include "base/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Processors, ListsAreReadAndWritten) {
  EXPECT_THAT(*parse_processors("0,2,1023"), ElementsAre(0, 2, 1023));
  EXPECT_THAT(*parse_processors("7"), ElementsAre(7));
  EXPECT_THAT(*parse_processors(""), IsEmpty());
  EXPECT_EQ(text_of_processors(*parse_processors("5,3,5")), "5,3,5");
  EXPECT_EQ(text_of_processors({}), "");
}

TEST(Processors, OtherTextsAreNone) {
  for (const char* const text : {"1,", ",1", "1,,2", "1024", "-1", "1-3", "a", " 1", "1 "})
    EXPECT_FALSE(parse_processors(text).has_value()) << text;
}

TEST(Processors, SetsAreReadAndWritten) {
  EXPECT_THAT(*parse_processor_set("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*parse_processor_set("8,2-3,3,0"), ElementsAre(0, 2, 3, 8));
  EXPECT_THAT(*parse_processor_set("1023"), ElementsAre(1023));
  EXPECT_EQ(parse_processor_set("0-1023")->size(), kMaxProcessors);
  EXPECT_EQ(text_of_processor_set(*parse_processor_set("0,1,2,3,8,10,11")), "0-3,8,10-11");
  EXPECT_EQ(text_of_processor_set({}), "");
}

TEST(Processors, OtherTextsAreNoSets) {
  for (const char* const text : {"", ",", "1,", ",1", "1-", "-1", "3-1", "1--2", "1-2-3", "0-1024", "1024",
                                 "4294967296", "0-7:2", "all", "0x1", " 1", "1 "})
    EXPECT_FALSE(parse_processor_set(text).has_value()) << text;
}

TEST(Processors, AThreadRunsOnWhatItIsGiven) {
  const std::vector<unsigned> all = processors_of_this_thread();
  ASSERT_FALSE(all.empty());
  std::vector<unsigned> of_thread, of_its_child;
  std::thread([&] {
    ASSERT_EQ(run_on_processors({&all.back(), 1}), 0);
    of_thread = processors_of_this_thread();
    std::thread([&] { of_its_child = processors_of_this_thread(); }).join();
  }).join();
  EXPECT_THAT(of_thread, ElementsAre(all.back()));
  EXPECT_THAT(of_its_child, ElementsAre(all.back()));
  EXPECT_EQ(processors_of_this_thread(), all) << "the caller is another thread";
}

TEST(Processors, WhatIsNotThereIsRefusedAndChangesNothing) {
  const std::vector<unsigned> all = processors_of_this_thread();
  const unsigned last = kMaxProcessors - 1;
  ASSERT_LT(all.back(), last);
  EXPECT_EQ(run_on_processors({&last, 1}), EINVAL);
  EXPECT_EQ(processors_of_this_thread(), all);
}

}  // namespace
}  // namespace braid
