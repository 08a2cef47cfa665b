// Copies the output of child processes to the command's own outputs, in whole lines with
// a prefix that names the child, or unlabelled: byte for byte. No call blocks: bytes that a slow reader does not take
// are kept; if many are kept, the children's pipes are not read, so the children block.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/line_prefixer.h"
#include "tools/braid/process/process.h"
#include "tools/braid/process/sink.h"

namespace braid::cli {

class OutputRelay {
 public:
  OutputRelay(int out_fd, int err_fd) : out_(out_fd), err_(err_fd) {}

  // Takes the read ends from `process`; returns the number of this source.
  std::size_t add(Process& process, const std::string& prefix);
  // A descriptor to write to, for children: what comes there is copied to standard output (1) or standard error (2) as it
  // is. All children have the same one, so their writes keep their order. Until no_more_unlabelled().
  Result<int> unlabelled(int stream);
  // No further child gets one.
  void no_more_unlabelled();
  // Writes a line of the command's own to standard error: "braid: TEXT".
  void report(const std::string& text);
  // The same without "braid: ".
  void print_error(const std::string& text);

  // Writes what processes elsewhere wrote to their standard output (1) or standard error (2), as it is.
  void print(int stream, std::string_view bytes) { (stream == 1 ? out_ : err_).pending() += bytes; }

  // Appends the descriptors that poll() must wait for.
  void watch(std::vector<pollfd>& fds) const;
  void read_some();
  void read_some(std::size_t source);
  void read_unlabelled();
  void write_some();

  // Reads the pipes if the reader of the kept bytes is not far behind.
  bool is_reading() const { return out_.has_room() && err_.has_room(); }
  bool is_written() const { return !out_.wants_to_write() && !err_.wants_to_write(); }
  // The children can still write.
  bool is_open() const;
  // Takes an unfinished line as complete, and stops reading.
  void close_sources();
  // Standard output cannot be written any more. Returns true once.
  bool take_output_failure() { return out_.take_failure(); }
  // The errno of that failure; EPIPE: its reader has closed it.
  int output_problem() const { return out_.problem(); }

 private:
  struct Stream {
    Descriptor pipe;
    std::optional<LinePrefixer> lines;  // none: bytes as they are
    void read_some(Sink& to);
    void close(Sink& to);
  };
  struct Source {
    Stream out;
    Stream err;
  };

  Sink out_;
  Sink err_;
  std::vector<Source> sources_;
  Source unlabelled_;
  Descriptor unlabelled_ends_[2];  // which children write to
};

}  // namespace braid::cli
