// A NicQueue that records the frames that pass through it, as pcapng, for Wireshark and tshark
// (tools/wireshark/ has a dissector for the packets).
//
// One file for each proxy, with an interface for each of its links. It shows what the proxy sees and sends:
// put outside a FaultyQueue it lacks the frames that were lost on the way, and has the bad ones in it.
//
// Frames are copied into a buffer; the owner's thread writes it out when it is full, or when its oldest frame
// has waited kLongestWait and the queue is polled. A capture costs a copy per frame and now and then a
// write(): do not measure with it. Whatever happens to the process, everything up to the last
// write can be read. A file stops growing at its limit, or at the first write that fails: later frames are
// counted, the statistics at the file's orderly end report them as missing, and poll_problem() tells of it at once.
//
// Format: draft-ietf-opsawg-pcapng; blocks of 32-bit words, here in the machine's own order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/time.h"
#include "proxy/nic/nic_queue_decorator.h"

namespace braid::proxy {

// epb_flags, bits 0 and 1
enum class CaptureDirection : std::uint32_t { kReceived = 1, kSent = 2 };

class CaptureFile {
 public:
  static constexpr Duration kLongestWait = 100_ms;

  struct Options {
    std::uint64_t limit_bytes = std::uint64_t{1} << 30;
    // The clock of the frames' time stamps, and the time since 1970 at its instant 0.
    Instant (*clock)() = monotonic_now;
    Duration clock_since_1970 = unix_time_of_monotonic_zero();
  };

  // Makes the file, or empties it: readable by its owner only, since it will hold applications' memory.
  static Result<std::unique_ptr<CaptureFile>> create(const std::string& path, const Options& options);
  static Result<std::unique_ptr<CaptureFile>> create(const std::string& path) { return create(path, {}); }
  // finish(), if nobody has called it.
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  // All of them before the first frame; returns its number. Frames are recorded up to `snap_bytes`.
  unsigned add_interface(const std::string& name, std::uint32_t snap_bytes);

  // The rest belongs to the owner of the queues that write here.
  void record(unsigned interface, CaptureDirection direction, Instant now, ByteView frame);
  // Writes what has waited long enough; costs a comparison when nothing waits.
  void tick() {
    if (buffered_ > 0 && options_.clock() - oldest_ >= kLongestWait) flush();
  }
  void flush();
  Instant now() const { return options_.clock(); }

  // The orderly end: statistics, and what was not yet written. Nothing may be recorded afterwards. An error names
  // the file, why it lacks frames and how many; a file that has reached its limit is none.
  Result<void> finish();

  // Any thread's: why frames are missing from now on, once.
  std::optional<std::string> poll_problem();

  std::uint64_t recorded() const;
  // Frames for which the file had no room.
  std::uint64_t missing() const;

 private:
  struct Interface {
    std::uint32_t snap_bytes;
    std::uint64_t recorded = 0;
    std::uint64_t buffered = 0;  // of these, in the buffer
    std::uint64_t missing = 0;
  };

  static constexpr int kLimitReached = -1;

  CaptureFile(const std::string& path, int fd, const Options& options);
  std::string problem_text() const;
  std::byte* begin_block(std::uint32_t type, std::size_t bytes);
  void put_statistics();
  std::uint64_t since_1970(Instant now) const;

  const std::string path_;
  int fd_;  // -1: finished
  const Options options_;
  std::vector<Interface> interfaces_;
  std::vector<std::byte> buffer_;
  std::size_t buffered_ = 0;  // bytes of whole blocks
  Instant oldest_;            // when the first of them came
  std::uint64_t written_ = 0;
  bool full_ = false;             // nothing more can be written
  std::atomic<int> problem_ = 0;  // why frames are missing: the errno of a write, or kLimitReached
  std::atomic<int> told_ = 0;     // the problem that poll_problem() has told
};

class CaptureQueue final : public NicQueueDecorator {
 public:
  CaptureQueue(std::unique_ptr<NicQueue> wire, std::shared_ptr<CaptureFile> file, unsigned interface)
      : NicQueueDecorator(std::move(wire)), file_(std::move(file)), interface_(interface) {}

  std::size_t receive(std::span<MutableBytes> frames) override;
  void commit(std::span<const TxFrame> frames) override;

 private:
  const std::shared_ptr<CaptureFile> file_;
  const unsigned interface_;
};

}  // namespace braid::proxy
