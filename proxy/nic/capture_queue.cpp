#include "proxy/nic/capture_queue.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "proxy/nic/pcapng.h"

namespace braid::proxy {
namespace {

// Holds the longest frame there is with its block, several times over.
constexpr std::size_t kBufferBytes = 256 * 1024;

using namespace pcapng;  // NOLINT(google-build-using-namespace)

// Options: a code, a length, the value filled up to 32 bits; code 0 ends them.
constexpr std::size_t kOptionHeaderBytes = 4;
constexpr std::uint16_t kOptionsEnd = 0;
constexpr std::uint16_t kSectionApplication = 4;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kInterfaceTimeResolution = 9;
constexpr std::uint16_t kStatisticsFrames = 4;
constexpr std::uint16_t kStatisticsMissing = 5;
constexpr std::uint16_t kPacketFlags = 2;

constexpr std::size_t option_bytes(std::size_t value_bytes) {
  return kOptionHeaderBytes + round_up(value_bytes, 4);
}

std::byte* put_option(std::byte* to, std::uint16_t code, const void* value, std::size_t bytes) {
  store(to, code);
  store(to + 2, static_cast<std::uint16_t>(bytes));
  if (bytes > 0) std::memcpy(to + kOptionHeaderBytes, value, bytes);
  return to + option_bytes(bytes);
}

// The draft keeps the two halves of a time apart, the upper first, whatever the byte order.
void put_time(std::byte* to, std::uint64_t ns) {
  store(to, static_cast<std::uint32_t>(ns >> 32));
  store(to + 4, static_cast<std::uint32_t>(ns));
}

}  // namespace

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(const std::string& path, const Options& options) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return error("capture: {} cannot be written: {}", path, cause_and_cure(errno));
  return std::unique_ptr<CaptureFile>(new CaptureFile(path, fd, options));
}

CaptureFile::CaptureFile(const std::string& path, int fd, const Options& options)
    : path_(path), fd_(fd), options_(options), buffer_(kBufferBytes), oldest_(options.clock()) {
  constexpr std::string_view kApplication = "braid";
  const std::size_t length = 16 + option_bytes(kApplication.size()) + option_bytes(0);
  std::byte* const body = begin_block(kSectionHeader, length);
  store(body, kByteOrderMagic);
  store(body + 4, std::uint16_t{1});  // version 1.0
  store(body + 6, std::uint16_t{0});
  store(body + 8, ~std::uint64_t{0});  // the section's length: not known beforehand
  std::byte* const end = put_option(body + 16, kSectionApplication, kApplication.data(), kApplication.size());
  put_option(end, kOptionsEnd, nullptr, 0);
}

CaptureFile::~CaptureFile() {
  (void)finish();
}

Result<void> CaptureFile::finish() {
  if (fd_ >= 0) {
    flush();
    full_ = false;  // where a frame had no room the statistics may have it
    put_statistics();
    flush();
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) problem_ = errno;
  }
  if (problem_ == 0 || problem_ == kLimitReached) return {};
  return error("{}; it lacks {} frames", problem_text(), missing());
}

std::string CaptureFile::problem_text() const {
  return problem_ == kLimitReached
             ? fmt::format("capture: {} has reached its limit of {} MiB (capture.limit_mib)", path_,
                           options_.limit_bytes >> 20)
             : fmt::format("capture: {} cannot be written: {}", path_, cause_and_cure(problem_));
}

std::optional<std::string> CaptureFile::poll_problem() {
  const int problem = problem_;
  if (problem == told_) return {};
  told_ = problem;
  return problem_text() + "; later frames are missing from it";
}

unsigned CaptureFile::add_interface(const std::string& name, std::uint32_t snap_bytes) {
  const std::uint8_t kNanoseconds = 9;
  const std::size_t length = 8 + option_bytes(name.size()) + option_bytes(1) + option_bytes(0);
  std::byte* const body = begin_block(kInterfaceDescription, length);
  store(body, kLinkTypeEthernet);
  store(body + 2, std::uint16_t{0});
  store(body + 4, snap_bytes);
  std::byte* at = put_option(body + 8, kInterfaceName, name.data(), name.size());
  at = put_option(at, kInterfaceTimeResolution, &kNanoseconds, 1);
  put_option(at, kOptionsEnd, nullptr, 0);
  interfaces_.push_back({.snap_bytes = snap_bytes});
  return static_cast<unsigned>(interfaces_.size() - 1);
}

void CaptureFile::record(unsigned interface, CaptureDirection direction, Instant now, ByteView frame) {
  CHECK_LT(interface, interfaces_.size());
  Interface& at = interfaces_[interface];
  const std::size_t captured = std::min<std::size_t>(frame.size(), at.snap_bytes);
  const std::size_t padded = round_up(captured, 4);
  const std::size_t length = kPacketFixedBytes + padded + option_bytes(4) + option_bytes(0);
  if (buffered_ + length + kBlockBytes > buffer_.size()) flush();
  const bool at_limit = written_ + buffered_ + length + kBlockBytes > options_.limit_bytes;
  if (full_ || at_limit) {
    if (problem_ == 0) problem_ = kLimitReached;
    ++at.missing;
    return;
  }
  if (buffered_ == 0) oldest_ = now;
  std::byte* const body = begin_block(kEnhancedPacket, length);
  store(body, std::uint32_t{interface});
  put_time(body + 4, since_1970(now));
  store(body + kCapturedBytesAt, static_cast<std::uint32_t>(captured));
  store(body + kFrameBytesAt, static_cast<std::uint32_t>(frame.size()));
  std::memcpy(body + kPacketFixedBytes, frame.data(), captured);
  const auto flags = static_cast<std::uint32_t>(direction);
  std::byte* const end = put_option(body + kPacketFixedBytes + padded, kPacketFlags, &flags, sizeof flags);
  put_option(end, kOptionsEnd, nullptr, 0);
  ++at.recorded;
  ++at.buffered;
}

// A block with `bytes` of zeroes between its head and its tail; the caller fills them. There is room.
std::byte* CaptureFile::begin_block(std::uint32_t type, std::size_t bytes) {
  const std::size_t total = bytes + kBlockBytes;
  if (buffered_ + total > buffer_.size()) flush();
  CHECK_LE(buffered_ + total, buffer_.size());
  std::byte* const block = buffer_.data() + buffered_;
  std::memset(block, 0, total);
  store(block, type);
  store(block + 4, static_cast<std::uint32_t>(total));
  store(block + total - 4, static_cast<std::uint32_t>(total));
  buffered_ += total;
  return block + kBlockHeaderBytes;
}

void CaptureFile::put_statistics() {
  for (std::uint32_t i = 0; i < interfaces_.size(); ++i) {
    const std::uint64_t seen = interfaces_[i].recorded + interfaces_[i].missing;
    const std::size_t length = 12 + 2 * option_bytes(8) + option_bytes(0);
    std::byte* const body = begin_block(kInterfaceStatistics, length);
    store(body, i);
    put_time(body + 4, since_1970(now()));
    std::byte* at = put_option(body + 12, kStatisticsFrames, &seen, sizeof seen);
    at = put_option(at, kStatisticsMissing, &interfaces_[i].missing, sizeof seen);
    put_option(at, kOptionsEnd, nullptr, 0);
  }
}

void CaptureFile::flush() {
  if (fd_ < 0) return;
  const std::string_view blocks(reinterpret_cast<const char*>(buffer_.data()), buffered_);
  if (const int problem = full_ ? 0 : write_all(fd_, blocks); problem != 0) {
    // The file cannot grow. A block that was cut is removed; what lies before it can be read.
    full_ = true;
    problem_ = problem;
    (void)!::ftruncate(fd_, static_cast<off_t>(written_));
    (void)::lseek(fd_, static_cast<off_t>(written_), SEEK_SET);
  }
  if (!full_) written_ += buffered_;
  buffered_ = 0;
  for (Interface& i : interfaces_) {
    if (full_) {
      i.recorded -= i.buffered;
      i.missing += i.buffered;
    }
    i.buffered = 0;
  }
}

std::uint64_t CaptureFile::since_1970(Instant now) const {
  return static_cast<std::uint64_t>(now.ns() + options_.clock_since_1970.ns());
}

std::uint64_t CaptureFile::recorded() const {
  std::uint64_t sum = 0;
  for (const Interface& i : interfaces_) sum += i.recorded;
  return sum;
}

std::uint64_t CaptureFile::missing() const {
  std::uint64_t sum = 0;
  for (const Interface& i : interfaces_) sum += i.missing;
  return sum;
}

std::size_t CaptureQueue::receive(std::span<MutableBytes> frames) {
  const std::size_t n = wire_->receive(frames);
  if (n == 0) {
    file_->tick();
    return 0;
  }
  const Instant now = file_->now();
  for (std::size_t i = 0; i < n; ++i) file_->record(interface_, CaptureDirection::kReceived, now, frames[i]);
  return n;
}

void CaptureQueue::commit(std::span<const TxFrame> frames) {
  // Before the wire has them: then they are the other side's to overwrite.
  const Instant now = file_->now();
  for (const TxFrame& f : frames)
    file_->record(interface_, CaptureDirection::kSent, now, ByteView(f.data, f.length));
  wire_->commit(frames);
}

}  // namespace braid::proxy
