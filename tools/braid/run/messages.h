// What `braid run` and the braid-node of another host say to each other through a pipe: maps of CBOR (RFC 8949), each
// after its length in four bytes, little-endian. Pure.
//
// To a braid-node ("do"):
//   program            bytes: the next of the program's file, before begin
//   begin              version, run, configuration, plans (of its clusters), application, command, exported, folder,
//                      labels (which outputs have them: all, stderr, none), is_quiet, placed (clusters of the run with their processors; without it the host places its own),
//                      is_sent (whether its program came before), secret (its bytes; missing: no link is sealed), or credential, in which it is (launchers/)
//   start_application  cluster, input (whether it reads any)
//   signal             role, cluster, number, group
//   ask_for_waits      cluster
//   input              cluster, bytes; end_input: cluster
//   beat               nothing; close: nothing, all processes of the run have ended
// From it ("is"):
//   started            role, cluster, pid
//   failed             text: what could not be done
//   ready              cluster: its daemon is connected to all others
//   ended              role, cluster, status; of an application its recorded end, and the figures of its cluster
//   state              clusters: waits, stopped, nodes (what they do), progress of each. It comes several times a second, so it is the beat, too
//   output             stream (1: standard output, 2: standard error), bytes
//   taken              cluster, bytes: so many of its input were read
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace braid::cli {

using Message = nlohmann::json;

// A braid-node writes this first. What a login shell writes before it is not ours.
inline constexpr std::string_view kAgentGreeting = "\nbraid-node 1\n";
// The longest message.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 20;
// Input of one application on its way, and output, or a part of a program, in one message.
inline constexpr std::size_t kInputOnTheWay = 256 << 10, kOutputAtOnce = 64 << 10, kProgramAtOnce = 64 << 10;

std::string encode(const Message& message);
Message bytes_value(std::string_view bytes);
// Throws nlohmann::json::exception where `value` has none.
std::string_view bytes_of(const Message& value);

// Throws nlohmann::json::exception: what was said is not possible.
[[noreturn]] void refuse_message(const char* what);

class MessageReader {
 public:
  void feed(std::string_view bytes) { text_.append(bytes); }
  // Skips what comes before `greeting`, and it. False: more must come; only what may be its beginning is kept. `skipped` gets what was
  // skipped.
  bool skip_to(std::string_view greeting, std::string& skipped);
  bool is_empty() const { return begin_ == text_.size(); }
  // Nothing: more must come. Throws nlohmann::json::exception for what is no message.
  std::optional<Message> next();

 private:
  std::string text_;
  std::size_t begin_ = 0;  // of what was not taken
};

}  // namespace braid::cli
