// Files that Braid writes. Every byte arrives, or the owner gets an error that names the file, the cause and the
// cure: a full disk, a limit of file sizes and a pipe without a reader are errors here, and end no process.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace braid {

// While it lives, a write of this thread that exceeds RLIMIT_FSIZE (`pipes`: or whose pipe has no reader) fails with
// an errno; SIGXFSZ (SIGPIPE), which would end the process, is dropped. The same holds for ftruncate().
class HeldWriteSignals {
 public:
  explicit HeldWriteSignals(bool pipes);
  ~HeldWriteSignals();
  HeldWriteSignals(const HeldWriteSignals&) = delete;
  HeldWriteSignals& operator=(const HeldWriteSignals&) = delete;

 private:
  sigset_t held_;  // those that were not pending before
  sigset_t before_;
};

// Writes all of it, however often it takes. Returns 0, or the errno of the write that failed; `*written` then tells
// how many bytes came before it. `pipes`: see HeldWriteSignals.
[[nodiscard]] int write_all(int fd, std::string_view bytes, bool pipes = true,
                            std::size_t* written = nullptr);

// One thread's. After a failure the file takes nothing more, and every call returns that failure.
class OutputFile {
 public:
  enum class Existing { kEmptied, kKept };

  // Makes the file, with these permissions where it is new.
  static Result<OutputFile> create(const std::string& path, mode_t permissions,
                                   Existing existing = Existing::kEmptied);
  // The process's own, which keeps it open.
  static Result<OutputFile> standard_output();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Closes the file and ignores failures. To learn of a failure, call close() first.
  ~OutputFile();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  bool failed() const { return problem_ != 0; }

  // Buffered.
  Result<void> append(std::string_view text);
  // In place of all that the file has, or behind what standard output has; written at once.
  Result<void> replace(std::string_view text);
  Result<void> flush();
  // Flushes and closes. Some file systems report a failed write only here.
  Result<void> close();

 private:
  OutputFile(std::string path, int fd, bool is_own) : path_(std::move(path)), fd_(fd), is_own_(is_own) {}
  Result<void> outcome() const;

  std::string path_;
  int fd_;
  bool is_own_;  // nobody else writes to it
  std::string buffer_;
  int problem_ = 0;  // the first errno
};

}  // namespace braid
