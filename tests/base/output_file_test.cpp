#include "base/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/base/temporary_folder.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

// A folder of its own, and the limit of file sizes as it was afterwards.
class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() { ::getrlimit(RLIMIT_FSIZE, &limit_); }
  ~OutputFileTest() override { ::setrlimit(RLIMIT_FSIZE, &limit_); }

  std::string path() const { return folder_ / "file"; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }
  void limit_files_to(rlim_t bytes) const {
    rlimit lower = limit_;
    lower.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
  }
  static bool pending(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal) == 1;
  }

  TemporaryFolder folder_;
  rlimit limit_{};
};

TEST_F(OutputFileTest, AppendedTextIsInTheFileAfterClose) {
  Result<OutputFile> file = OutputFile::create(path(), 0600);
  ASSERT_TRUE(file.ok());
  std::string expected;
  for (int i = 0; i < 30'000; ++i) {
    const std::string line = std::to_string(i) + "\n";
    expected += line;
    EXPECT_TRUE(file->append(line).ok());
  }
  EXPECT_TRUE(file->close().ok());
  EXPECT_EQ(text(), expected);
  struct stat status {};
  ::stat(path().c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(OutputFileTest, ReplaceLeavesNothingOfALongerText) {
  Result<OutputFile> file = OutputFile::create(path(), 0600);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->replace("a longer text").ok());
  EXPECT_TRUE(file->replace("short").ok());
  EXPECT_EQ(text(), "short");
}

TEST_F(OutputFileTest, ExistingTextIsKeptUntilSomethingIsWritten) {
  std::ofstream(path()) << "earlier";
  { EXPECT_TRUE(OutputFile::create(path(), 0600, OutputFile::Existing::kKept).ok()); }
  EXPECT_EQ(text(), "earlier");
  { EXPECT_TRUE(OutputFile::create(path(), 0600).ok()); }
  EXPECT_EQ(text(), "");
}

TEST_F(OutputFileTest, FullDeviceIsAnErrorThatStays) {
  Result<OutputFile> file = OutputFile::create("/dev/full", 0600);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->append("some").ok()) << "it is buffered";
  const Result<void> flushed = file->flush();
  ASSERT_FALSE(flushed.ok());
  EXPECT_EQ(
      flushed.error().text,
      "/dev/full cannot be written: No space left on device: make room on that file system, or name another");
  EXPECT_TRUE(file->failed());
  EXPECT_FALSE(file->append("more").ok());
  EXPECT_FALSE(file->replace("all").ok());
  EXPECT_FALSE(file->close().ok());
}

TEST_F(OutputFileTest, LimitOfFileSizesIsAnErrorAndNoSignal) {
  Result<OutputFile> file = OutputFile::create(path(), 0600);
  ASSERT_TRUE(file.ok());
  limit_files_to(1000);
  const Result<void> written = file->replace(std::string(3000, 'x'));
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().text, HasSubstr("File too large: raise the limit of file sizes (ulimit -f)"));
  EXPECT_EQ(text().size(), 1000u);
  EXPECT_FALSE(pending(SIGXFSZ));
}

TEST_F(OutputFileTest, PipeWithoutAReaderIsAnErrorAndNoSignal) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "text"), EPIPE);
  EXPECT_FALSE(pending(SIGPIPE));
  ::close(ends[1]);
}

TEST_F(OutputFileTest, SignalThatWasPendingBeforeStaysPending) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  ::raise(SIGPIPE);
  { const HeldWriteSignals held(true); }
  EXPECT_TRUE(pending(SIGPIPE));
  const timespec at_once{};
  EXPECT_EQ(sigtimedwait(&one, nullptr, &at_once), SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(OutputFileTest, MissingFolderIsNamedWithTheCure) {
  const Result<OutputFile> file = OutputFile::create(folder_ / "none/file", 0600);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().text,
            folder_.path().string() +
                "/none/file cannot be written: No such file or directory: name a folder that "
                "exists and that this user may write in");
}

}  // namespace
}  // namespace braid
