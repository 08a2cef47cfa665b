// The file of keys: who may read it, what its lines are, and what is refused.
#include "proxy/daemon/key_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/base/temporary_folder.h"

namespace braid::proxy {
namespace {

using stack::CipherKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

class KeyLogTest : public ::testing::Test {
 protected:
  KeyLogTest() {
    for (std::size_t i = 0; i < key_.size(); ++i) key_[i] = static_cast<std::byte>(i * 7);
  }

  stack::PacketKey key(CipherKind cipher = CipherKind::kAesGcm, std::uint64_t generation = 0) const {
    return {cipher, 0x1a, 0xfedcba9876543210, generation, key_};
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  std::string refusal() const {
    const auto log = KeyLog::open(path_);
    return log.ok() ? "(open)" : log.error().text;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "keys";
  stack::KeyBytes key_;
};

const std::string kKeyDigits = "00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9";
const std::string kLine = "BRAID_AES_256_GCM 000000000000001a fedcba9876543210 0 " + kKeyDigits;

TEST_F(KeyLogTest, HasALineForEachKeyAndIsItsOwnersAlone) {
  const mode_t before = ::umask(0);
  const auto log = KeyLog::open(path_);
  ::umask(before);
  ASSERT_TRUE(log.ok()) << log.error().text;
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
  (*log)->on_key(key());
  (*log)->on_key(key(CipherKind::kChaChaPoly, 123456789));
  EXPECT_EQ(text(), kLine + "\nBRAID_CHACHA20_POLY1305 000000000000001a fedcba9876543210 123456789 " +
                        kKeyDigits + "\n");
  EXPECT_TRUE((*log)->outcome().ok());
  EXPECT_EQ((*log)->poll_problem(), std::nullopt);
}

TEST_F(KeyLogTest, SeveralAddToOneFileAndKeepWhatIsThere) {
  {
    std::ofstream(path_) << "# kept\n";
    std::filesystem::permissions(path_, std::filesystem::perms(0600));
  }
  const auto one = KeyLog::open(path_), other = KeyLog::open(path_);
  ASSERT_TRUE(one.ok() && other.ok());
  (*one)->on_key(key());
  (*other)->on_key(key());
  (*one)->on_key(key());
  EXPECT_EQ(text(), "# kept\n" + kLine + "\n" + kLine + "\n" + kLine + "\n");
}

TEST_F(KeyLogTest, FileThatOthersMayUseIsRefusedAndLeftAsItIs) {
  std::ofstream(path_) << "x";
  for (const unsigned mode : {0640u, 0604u, 0620u, 0601u}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr(path_ + ": others than its owner may use it"), HasSubstr("chmod 600")));
  }
  EXPECT_EQ(text(), "x");
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(refusal(), "(open)");
}

TEST_F(KeyLogTest, WhatIsNoFileIsRefusedByName) {
  path_ = folder_.path().string();
  EXPECT_THAT(refusal(), HasSubstr(path_ + " cannot be written: Is a directory"));
  path_ = folder_ / "none/keys";
  EXPECT_THAT(refusal(), HasSubstr(path_ + " cannot be written: No such file or directory"));
  path_ = "/dev/null";
  EXPECT_THAT(refusal(), HasSubstr("/dev/null: it is no regular file; name a file"));
  path_ = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr(path_ + " cannot be written"));  // and does not block
}

TEST_F(KeyLogTest, FailedWriteIsToldOnceAndIsTheOutcome) {
  const auto log = KeyLog::open(path_);
  ASSERT_TRUE(log.ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  (*log)->on_key(key());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (*log)->on_key(key());
  EXPECT_EQ(text(), kLine.substr(0, 10)) << "nothing comes behind a line that was cut";
  EXPECT_THAT((*log)->poll_problem().value_or(""),
              AllOf(HasSubstr("key log: " + path_ + " cannot be written: File too large"),
                    HasSubstr("later keys are missing")));
  EXPECT_EQ((*log)->poll_problem(), std::nullopt);
  ASSERT_FALSE((*log)->outcome().ok());
  EXPECT_THAT((*log)->outcome().error().text, HasSubstr("it lacks keys"));
}

TEST_F(KeyLogTest, LinesAreReadAsTheyAreWritten) {
  const auto log = KeyLog::open(path_);
  ASSERT_TRUE(log.ok());
  (*log)->on_key(key(CipherKind::kChaChaPoly, ~std::uint64_t{0}));
  std::string line = text();
  EXPECT_LT(line.size(), kMaxKeyLineBytes);
  line.pop_back();
  stack::KeyBytes room;
  const auto read = parse_key_line(line, room);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->cipher, CipherKind::kChaChaPoly);
  EXPECT_EQ(read->sender_epoch, 0x1au);
  EXPECT_EQ(read->receiver_epoch, 0xfedcba9876543210u);
  EXPECT_EQ(read->generation, ~std::uint64_t{0});
  EXPECT_EQ(room, key_);
}

TEST_F(KeyLogTest, OtherLinesAreNoKeys) {
  stack::KeyBytes room;
  ASSERT_TRUE(parse_key_line(kLine, room).has_value());
  for (std::size_t length = 0; length < kLine.size(); ++length)
    EXPECT_FALSE(parse_key_line(kLine.substr(0, length), room).has_value()) << length;
  const std::string epochs = " 000000000000001a fedcba9876543210 ";
  for (const std::string& line :
       {kLine + "0", kLine + "00", kLine + " ", " " + kLine, kLine + "\r",
        "CLIENT_RANDOM" + epochs + "0 " + kKeyDigits, "BRAID_AES_256_GCM" + epochs + "-1 " + kKeyDigits,
        "BRAID_AES_256_GCM" + epochs + "+1 " + kKeyDigits,
        "BRAID_AES_256_GCM" + epochs + "18446744073709551616 " + kKeyDigits,
        "BRAID_AES_256_GCM" + epochs + "0x1 " + kKeyDigits, "BRAID_AES_256_GCM" + epochs + " " + kKeyDigits,
        "BRAID_AES_256_GCM 00000000000000-1 fedcba9876543210 0 " + kKeyDigits,
        "BRAID_AES_256_GCM 1a fedcba9876543210 0 " + kKeyDigits,
        "BRAID_AES_256_GCM" + epochs + "0 g" + kKeyDigits.substr(1),
        "BRAID_AES_256_GCM " + epochs + "0 " + kKeyDigits})
    EXPECT_FALSE(parse_key_line(line, room).has_value()) << line;
}

}  // namespace
}  // namespace braid::proxy
