#include "proxy/daemon/security.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/hex.h"

namespace braid::proxy {
namespace {

using SharedSecret = std::shared_ptr<const stack::Secret>;

constexpr std::size_t kBytes = stack::Secret::kBytes;
constexpr std::size_t kDigits = 2 * kBytes;

// Memory for what is secret, which is overwritten when it goes.
template <std::size_t Size>
struct Wiped {
  std::array<std::byte, Size> bytes{};
  ~Wiped() { stack::wipe(bytes); }
};

struct Opened {
  int fd;
  ~Opened() { ::close(fd); }
};

// As many bytes as there are, at most those of `room`; -1 and errno.
ssize_t read_all(int fd, MutableBytes room) {
  std::size_t got = 0;
  while (got < room.size()) {
    const ssize_t n = ::read(fd, room.data() + got, room.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

constexpr PrivateFileCures kCures = {
    .kind = "name a file that 'braid secret FILE' has made",
    .owner = "copy it, and name the copy",
    .mode = "chmod 600 it, and make a new secret if others may have read this one"};

Result<SharedSecret> secret_of(std::span<const std::byte, kBytes> bytes, const std::string& what) {
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
    return error("{}: the secret is all zeros, which is none; make one with 'braid secret FILE'", what);
  return SharedSecret(std::make_shared<const stack::Secret>(bytes));
}

Result<SharedSecret> read_secret_descriptor(int fd) {
  const Opened descriptor{fd};
  Wiped<kBytes + 1> bytes;
  (void)::lseek(fd, 0, SEEK_SET);  // a pipe has no beginning
  const ssize_t got = read_all(fd, bytes.bytes);
  if (got < 0) return error("security.secret_fd {}: {}", fd, std::strerror(errno));
  if (got != kBytes)
    return error("security.secret_fd {}: it does not hold exactly {} bytes, which the secret has", fd,
                 kBytes);
  return secret_of(std::span(bytes.bytes).first<kBytes>(), fmt::format("security.secret_fd {}", fd));
}

}  // namespace

Result<void> check_private(const struct stat& about, const std::string& what, const PrivateFileCures& cures) {
  if (S_ISDIR(about.st_mode)) return error("{}: it is a folder; {}", what, cures.kind);
  if (!S_ISREG(about.st_mode)) return error("{}: it is no regular file; {}", what, cures.kind);
  if (about.st_uid != 0 && about.st_uid != ::geteuid())
    return error("{}: it belongs to user {}, who can change it; it must be this user's ({}) or root's: {}",
                 what, about.st_uid, ::geteuid(), cures.owner);
  if ((about.st_mode & 077) != 0)
    return error("{}: others than its owner may use it (its mode is {:03o}): {}", what, about.st_mode & 0777,
                 cures.mode);
  return {};
}

Result<SharedSecret> read_secret_file(const std::string& path) {
  // A pipe without a writer would block, and is refused below.
  const Opened file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const int problem = errno;
    return error("security.secret_file {}: {}; {}", path, std::strerror(problem),
                 problem == ENOENT ? "make a secret with 'braid secret FILE', and copy the file to every node"
                                   : "name a file that this user may read, in a folder that it may enter");
  }
  struct stat about {};
  if (::fstat(file.fd, &about) != 0) return error("security.secret_file {}: {}", path, std::strerror(errno));
  if (const Result<void> own = check_private(about, "security.secret_file " + path, kCures); !own)
    return own.error();
  Wiped<kDigits + 2> text;
  const ssize_t got = read_all(file.fd, text.bytes);
  if (got < 0) return error("security.secret_file {}: {}", path, std::strerror(errno));
  const bool fits = got == kDigits || (got == kDigits + 1 && text.bytes[kDigits] == std::byte{'\n'});
  Wiped<kBytes> bytes;
  const std::string_view digits(reinterpret_cast<const char*>(text.bytes.data()), kDigits);
  if (!fits || !read_hex(digits, bytes.bytes))
    return error(
        "security.secret_file {}: it does not hold exactly {} hexadecimal digits and an end of line; make a secret with "
        "'braid secret FILE'",
        path, kDigits);
  return secret_of(bytes.bytes, fmt::format("security.secret_file {}", path));
}

Result<SharedSecret> load_secret(const NodeConfig& config) {
  if (!settings::needs_secret(config)) return SharedSecret();
  if (config.secret) return config.secret;
  if (config.security.secret_fd >= 0) return read_secret_descriptor(config.security.secret_fd);
  return read_secret_file(config.security.secret_file);
}

}  // namespace braid::proxy
