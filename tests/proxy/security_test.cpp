// Where a node reads its secret: what is refused, and that a message names the file and the cure and never what the file holds.
#include "proxy/daemon/security.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/hex.h"
#include "proxy/daemon/node.h"
#include "tests/base/temporary_folder.h"

namespace braid::proxy {
namespace {

using settings::SecurityMode;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits = "00112233445566778899aabbccddeeff0123456789ABCDEFfedcba9876543210";

std::string hex(const stack::Secret& secret) {
  std::string text(2 * secret.bytes().size(), ' ');
  write_hex(secret.bytes(), text.data());
  return text;
}

class SecretFile : public ::testing::Test {
 protected:
  // Makes the file that is read.
  void holds(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  std::string refusal() const {
    const auto read = read_secret_file(path_);
    return read.ok() ? "(read)" : read.error().text;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "secret";
};

TEST_F(SecretFile, HoldsDigitsWithOrWithoutAnEndOfLine) {
  for (const char* const end : {"", "\n"}) {
    holds(kDigits + end);
    const auto read = read_secret_file(path_);
    ASSERT_TRUE(read.ok()) << read.error().text;
    EXPECT_EQ(hex(**read), "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210");
  }
  holds(kDigits, 0400);
  EXPECT_EQ(refusal(), "(read)");
}

TEST_F(SecretFile, IsRefusedWithTheCureIfItHoldsAnythingElse) {
  for (const std::string& text :
       {std::string(), kDigits.substr(1), kDigits + "0", kDigits + "\n\n", kDigits + " ",
        "\n" + kDigits.substr(1), "0x" + kDigits.substr(2), kDigits.substr(1) + "g", std::string(32, '\x7f'),
        std::string(100'000, 'a')}) {
    holds(text);
    EXPECT_THAT(refusal(), HasSubstr(path_ + ": it does not hold exactly 64 hexadecimal digits")) << text;
    EXPECT_THAT(refusal(), HasSubstr("'braid secret FILE'"));
    EXPECT_THAT(refusal(), Not(HasSubstr("00112233"))) << "the secret itself";
  }
  holds(std::string(64, '0'));
  EXPECT_THAT(refusal(), HasSubstr("the secret is all zeros"));
}

TEST_F(SecretFile, IsRefusedIfOthersMayUseIt) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0644, 0777}) {
    holds(kDigits, mode);
    EXPECT_THAT(refusal(), HasSubstr(fmt::format("may use it (its mode is {:03o}): chmod 600 it", mode)));
  }
}

TEST_F(SecretFile, IsRefusedIfItIsNoFileOfThisUser) {
  EXPECT_THAT(refusal(), HasSubstr(path_ + ": No such file or directory; make a secret"));
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(refusal(), HasSubstr("it is a folder"));
  ASSERT_EQ(::rmdir(path_.c_str()), 0);
  // Nobody writes to it: reading would wait for ever.
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("it is no regular file"));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  holds(kDigits);
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
    EXPECT_THAT(refusal(), HasSubstr("Permission denied; name a file that this user may read"));
    return;
  }
  ASSERT_EQ(::chown(path_.c_str(), 12345, 0), 0);
  EXPECT_THAT(refusal(), HasSubstr("it belongs to user 12345, who can change it"));
  // What is asked about is what a link leads to.
  const std::string link = folder_ / "link";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_THAT(read_secret_file(link).error().text, HasSubstr("it belongs to user 12345"));
}

NodeConfig node_with(LinkConfig::Kind kind, SecurityMode mode) {
  NodeConfig node;
  node.links.push_back({.kind = kind, .fd = 3, .device = "net_null0"});
  node.security.mode = mode;
  return node;
}

TEST(Secret, IsOnlyReadWhereALinkIsSealed) {
  using enum LinkConfig::Kind;
  struct Case {
    LinkConfig::Kind kind;
    SecurityMode mode;
    bool is_sealed;
  };
  for (const Case& c : {Case{kShm, SecurityMode::kAuto, false}, Case{kUdp, SecurityMode::kAuto, true},
                        Case{kEthdev, SecurityMode::kAuto, true}, Case{kShm, SecurityMode::kRequired, true},
                        Case{kUdp, SecurityMode::kRequired, true}, Case{kUdp, SecurityMode::kOff, false},
                        Case{kEthdev, SecurityMode::kOff, false}, Case{kShm, SecurityMode::kOff, false}}) {
    NodeConfig node = node_with(c.kind, c.mode);
    EXPECT_EQ(settings::is_sealed(node, node.links[0]), c.is_sealed);
    node.security.secret_file = "/no/such/file";
    const auto secret = load_secret(node);
    EXPECT_EQ(secret.ok(), !c.is_sealed);
    if (secret.ok()) {
      EXPECT_EQ(*secret, nullptr);
    }
  }
  // One sealed link is enough, and a node without links has none.
  NodeConfig both = node_with(kShm, SecurityMode::kAuto);
  both.links.push_back({.kind = kUdp, .device = ""});
  EXPECT_TRUE(settings::needs_secret(both));
  EXPECT_FALSE(settings::needs_secret(NodeConfig()));
}

// A descriptor that holds these bytes.
int descriptor_of(const std::string& bytes) {
  const int fd = ::memfd_create("secret", MFD_CLOEXEC);
  CHECK_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

TEST(Secret, ComesFromADescriptorWhichIsClosed) {
  NodeConfig node = node_with(LinkConfig::Kind::kUdp, SecurityMode::kAuto);
  node.security.secret_fd = descriptor_of("the secret that all of them have");
  const auto secret = load_secret(node);
  ASSERT_TRUE(secret.ok()) << secret.error().text;
  EXPECT_EQ(std::memcmp((*secret)->bytes().data(), "the secret that all of them have", 32), 0);
  EXPECT_EQ(::fcntl(node.security.secret_fd, F_GETFD), -1);

  for (const std::size_t bytes : {0, 31, 33}) {
    node.security.secret_fd = descriptor_of(std::string(bytes, 'x'));
    EXPECT_THAT(load_secret(node).error().text, HasSubstr("does not hold exactly 32 bytes"));
    EXPECT_EQ(::fcntl(node.security.secret_fd, F_GETFD), -1);
  }
  node.security.secret_fd = descriptor_of(std::string(32, '\0'));
  EXPECT_THAT(load_secret(node).error().text, HasSubstr("the secret is all zeros"));
  node.security.secret_fd = 999;
  EXPECT_THAT(load_secret(node).error().text, HasSubstr("security.secret_fd 999: Bad file descriptor"));
}

TEST(Secret, IsReadBeforeTheNodeOpensItsLinks) {
  NodeConfig node = node_with(LinkConfig::Kind::kUdp, SecurityMode::kAuto);
  node.security.secret_file = "/no/such/file";
  node.address = "10.98.0.1";
  node.listen_address = "@none";
  EXPECT_THAT(Node::create(node, Instant::from_ns(1)).error().text,
              HasSubstr("security.secret_file /no/such/file"));
}

}  // namespace
}  // namespace braid::proxy
