// The key log: the file in which a node writes the keys of its sealed packets, if it is told to, so that captures can be
// read (docs/SECURITY.md, Reading captures). Who has it reads what those packets carried.
//
// One line for each key, as NSS writes those of TLS:
//
//   LABEL <sender's epoch> <receiver's epoch> <generation> <key>
//
// LABEL is BRAID_AES_256_GCM or BRAID_CHACHA20_POLY1305; the epochs are those of the packets' headers, 16 hexadecimal
// digits each; the generation is a packet's number divided by 2^20 (SE-7), decimal; the key has 64 hexadecimal digits.
// Empty lines and those that begin with '#' say nothing.
//
// Each line is one write() to the end of the file, so nodes of one host may share a file; nodes on a network's file
// system may not.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/secure/key_observer.h"

namespace braid::proxy {

class KeyLog final : public stack::KeyObserver {
 public:
  // Makes the file, for its owner alone, or adds to one that others cannot read. The error names it and the cure.
  static Result<std::unique_ptr<KeyLog>> open(const std::string& path);
  ~KeyLog();
  KeyLog(const KeyLog&) = delete;
  KeyLog& operator=(const KeyLog&) = delete;

  // Any thread. After a failure nothing more is written.
  void on_key(const stack::PacketKey& key) override;
  // Why keys are missing from now on, once. Any thread.
  std::optional<std::string> poll_problem();
  // The same at the end: an error if a key is missing.
  Result<void> outcome() const;

 private:
  KeyLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string problem_text() const;

  const std::string path_;
  const int fd_;
  std::atomic<int> problem_ = 0;  // the errno of the first write that failed
  std::atomic<int> told_ = 0;     // the problem that poll_problem() has told
};

// A line of the file with a key, without its end; nullopt: it is none. The key lies in `room`, which the caller wipes.
std::optional<stack::PacketKey> parse_key_line(std::string_view line, stack::KeyBytes& room);

// The longest line that parse_key_line() takes, and a little more.
inline constexpr std::size_t kMaxKeyLineBytes = 200;

}  // namespace braid::proxy
