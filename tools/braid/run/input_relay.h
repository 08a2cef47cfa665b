// The command's standard input, for the clusters that read it (`braid run --stdin`).
//
// A process of a cluster may not read a terminal itself, because its process group is not the terminal's; and of a pipe
// each byte goes to one reader. So these are read here and copied into a pipe for each reading cluster. A file is
// inherited by one reader; several open it anew, each with a position of its own.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

enum class InputReaders : std::uint8_t { kNone, kFirst, kAll };

class InputRelay {
 public:
  // What one cluster has read and another has not is kept. If it is more than this the run cannot continue.
  static constexpr std::size_t kMostKept = std::size_t{64} << 20;

  InputRelay(InputReaders readers, unsigned clusters);

  // The descriptor that this cluster reads; -1: none, so its input is empty. Once for each cluster, in any order. It stays
  // open until started(). Error: what the system refused.
  Result<int> open(unsigned cluster);
  void started(unsigned cluster) { readers_[cluster].theirs.close(); }
  // Nobody reads it any more.
  void close(unsigned cluster) { readers_[cluster].ours.close(); }

  // Appends the descriptors that poll() must wait for.
  void watch(std::vector<pollfd>& fds) const;
  // Copies what has come and what readers take. Does not block. Error, once: a cluster has left kMostKept unread that
  // another has read; nothing more is copied.
  Result<void> turn();

 private:
  struct Reader {
    Descriptor theirs, ours;
    std::uint64_t position = 0;  // in the input, of the next byte to write
  };
  std::uint64_t end() const { return first_ + kept_.size(); }
  Result<int> relay(Reader& reader);
  Result<void> open_source();
  bool wants_to_read() const;
  void read_some();
  void write_some(Reader& reader);
  void forget_what_all_have();
  std::string describe_distance() const;

  InputReaders who_;
  std::vector<Reader> readers_;  // by cluster
  Descriptor source_;            // of what is copied here
  bool is_terminal_ = false;
  bool has_failed_ = false;
  std::string kept_;         // what came and not all readers took
  std::uint64_t first_ = 0;  // the position of its first byte
};

}  // namespace braid::cli
