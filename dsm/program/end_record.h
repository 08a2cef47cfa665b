// Why a program's process ends, for the one who watches it: `braid run` maps the record and reads it when the process has
// ended. Of several causes the first is recorded. Writing allocates nothing and takes no lock, so it may be done in signal
// handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace braid::dsm {

enum class EndCause : std::uint32_t {
  kNone,         // nothing was recorded: killed from outside, or _exit()
  kLostCluster,  // another cluster has gone: a consequence. `text` says which, and was not printed
  kFailure,      // the runtime ended it, and has printed why
  kExit,         // exit() before finish(), or main() returned
  kSignal,       // a signal whose default ends the process; where it came from was printed
};

// In memory that both processes map; zeros at first.
struct EndRecord {
  static constexpr std::size_t kTextBytes = 384;

  std::atomic<std::uint32_t> joined{0};    // 1: the process is a cluster of the machine
  std::atomic<std::uint32_t> finished{0};  // 1: finish() has returned, and no other cluster needs it any more
  // An EndCause, written after what follows.
  std::atomic<std::uint32_t> cause{0};
  std::int32_t node = -1;    // the compute node of the machine that caused it; -1: none, or not known
  std::int64_t time_ns = 0;  // of monotonic_now()
  std::int32_t signal = 0;   // kSignal
  std::uint32_t has_address = 0;
  std::uint64_t address = 0;   // kSignal, if it has_address: what was accessed
  char text[kTextBytes] = {};  // kLostCluster, and kFailure where it could not be printed
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

// `record` is the process's from now on, until nullptr is set; it lives as long. A child of fork() writes nothing into
// it.
void set_end_record(EndRecord* record);
// The process has joined the machine; finish() has returned. Nothing where there is no record.
void record_joined();
void record_finished();

struct EndFacts {
  int node = -1;
  int signal = 0;
  bool has_address = false;
  std::uint64_t address = 0;
  std::string_view text{};  // a longer one is cut
};
// False: there is no record, and nobody will print `facts.text`. Only the first call is recorded.
bool record_end(EndCause cause, const EndFacts& facts);

}  // namespace braid::dsm
