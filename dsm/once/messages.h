// Messages between stand-ins, warden and program (main_once.h), over sockets that keep the bounds of messages.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace braid::dsm::once {

enum class Kind : std::uint32_t {
  kPlace,  // stand-in to warden to program: the cluster's place, with its descriptors and environment
  kStart,  // program to warden: the places of all other clusters are wanted
  kProgram,  // program to warden: the clone of `cluster` is `pid`; the warden sends it to the stand-in, and back
  kEnd,      // warden to stand-in: its program has ended with `wait_status`, or there will be none
  kFailure,  // warden or courier to program: `text` says why there are no places, or why a host does not go on
  kImage,    // program to courier: its image is there; back: all other hosts go on with it
};

struct Message {
  static constexpr std::size_t kTextBytes = 4096;
  static constexpr std::size_t kMaxDescriptors = 5;

  Kind kind = Kind::kEnd;
  std::uint32_t cluster = 0;
  pid_t pid = 0;
  pid_t group = 0;  // kPlace: the stand-in's process group
  std::int32_t wait_status = 0;
  std::uint32_t text_bytes = 0;
  // kPlace: the numbers that the descriptors, which travel with the message, have in the stand-in. -1: none.
  std::array<std::int32_t, kMaxDescriptors> numbers{-1, -1, -1, -1, -1};
  // kPlace: the BRAID_ variables, each with a zero behind it. kFailure: a text with a zero behind it.
  std::array<char, kTextBytes> text{};
};

// The descriptors that came with a message; the receiver closes them.
struct Descriptors {
  std::array<int, Message::kMaxDescriptors> fds{-1, -1, -1, -1, -1};
  void close_all();
};

// False: the other side has gone. Neither allocates; both repeat a call that a signal has interrupted.
bool send(int socket, const Message& message, const Descriptors& with = {});
// Waits for a message. False: the other side has gone, or has sent something else.
bool receive(int socket, Message* message, Descriptors* with = nullptr);

}  // namespace braid::dsm::once
