#include "proxy/daemon/key_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>

#include "base/hex.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "proxy/daemon/security.h"

namespace braid::proxy {
namespace {

struct Label {
  stack::CipherKind cipher;
  std::string_view text;
};
constexpr Label kLabels[] = {{stack::CipherKind::kAesGcm, "BRAID_AES_256_GCM"},
                             {stack::CipherKind::kChaChaPoly, "BRAID_CHACHA20_POLY1305"}};
constexpr std::size_t kEpochDigits = 16;

constexpr PrivateFileCures kCures = {
    .kind = "name a file that braid may make, or one of an earlier run",
    .owner = "name another file",
    .mode = "chmod 600 it, or name another; others may have read the keys that are in it"};

std::string_view label_of(stack::CipherKind cipher) {
  return kLabels[cipher == stack::CipherKind::kAesGcm ? 0 : 1].text;
}

// The words of a line that single spaces separate: the first, which is taken off.
std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  return word;
}

// All of `text` is a number of that base.
std::optional<std::uint64_t> number_of(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::unique_ptr<KeyLog>> KeyLog::open(const std::string& path) {
  // A pipe without a reader would block; anything but a file is refused below.
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return error("{} cannot be written: {}", path, cause_and_cure(errno));
  std::unique_ptr<KeyLog> log(new KeyLog(path, fd));
  struct stat about {};
  if (::fstat(fd, &about) != 0) return error("{}: {}", path, cause_and_cure(errno));
  if (const Result<void> own = check_private(about, path, kCures); !own) return own.error();
  return log;
}

KeyLog::~KeyLog() {
  ::close(fd_);
}

void KeyLog::on_key(const stack::PacketKey& key) {
  if (problem_ != 0) return;
  std::array<char, kMaxKeyLineBytes> line;
  // Not format_to(): clang and g++, which built the library, name it differently.
  const std::string whose = fmt::format("{} {:016x} {:016x} {} ", label_of(key.cipher), key.sender_epoch,
                                        key.receiver_epoch, key.generation);
  char* end = write_hex(key.key, std::copy(whose.begin(), whose.end(), line.data()));
  *end++ = '\n';
  const std::string_view text(line.data(), static_cast<std::size_t>(end - line.data()));
  if (const int problem = write_all(fd_, text); problem != 0) {
    int none = 0;
    problem_.compare_exchange_strong(none, problem);
  }
  stack::wipe(std::as_writable_bytes(std::span(line)));
}

std::string KeyLog::problem_text() const {
  return fmt::format("key log: {} cannot be written: {}", path_, cause_and_cure(problem_));
}

std::optional<std::string> KeyLog::poll_problem() {
  const int problem = problem_;
  if (told_.exchange(problem) == problem) return {};
  return problem_text() + "; later keys are missing from it";
}

Result<void> KeyLog::outcome() const {
  if (problem_ == 0) return {};
  return error("{}; it lacks keys", problem_text());
}

std::optional<stack::PacketKey> parse_key_line(std::string_view line, stack::KeyBytes& room) {
  const std::string_view label = take_word(line);
  const Label* const known =
      std::find_if(std::begin(kLabels), std::end(kLabels), [&](const Label& l) { return l.text == label; });
  if (known == std::end(kLabels)) return std::nullopt;
  const std::string_view sender = take_word(line), receiver = take_word(line);
  if (sender.size() != kEpochDigits || receiver.size() != kEpochDigits) return std::nullopt;
  const std::optional<std::uint64_t> sender_epoch = number_of(sender, 16),
                                     receiver_epoch = number_of(receiver, 16),
                                     generation = number_of(take_word(line), 10);
  if (!sender_epoch || !receiver_epoch || !generation || !read_hex(line, room)) return std::nullopt;
  return stack::PacketKey{known->cipher, *sender_epoch, *receiver_epoch, *generation, room};
}

}  // namespace braid::proxy
