// A capture whose sealed packets are opened. All else in it stays as it is: times, directions, interfaces, statistics,
// and packets that cannot be opened.
//
// An opened packet keeps its length: the records lie where they were sealed, then the packet's number, and 16 zeros in the
// place of the tag, by which tools/wireshark/braid.lua knows it. Its UDP checksum is made anew.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tools/braid/decrypt/key_ring.h"

namespace braid::cli {

// Packets of a capture, hellos not among them: they are never sealed.
struct OpenedPackets {
  std::uint64_t opened = 0;
  std::uint64_t without_key = 0;  // of an end whose hellos say that it seals, and no key is there
  std::uint64_t not_opened = 0;   // a key is there and does not open it: forged, or damaged
  std::uint64_t fragments = 0;    // pieces of IP packets, which are not looked into
};

struct OpenedCapture {
  OpenedPackets packets;
  std::string problem;  // why it was read up to there and no further; empty: to its end
};

// Writes the blocks of `capture`, a pcapng file that is named `name` in errors, to `write`. An error: it is none, or cannot be
// written. The capture may hold anything.
Result<OpenedCapture> open_capture(std::istream& capture, const std::string& name, KeyRing& keys,
                                   const std::function<Result<void>(ByteView)>& write);

}  // namespace braid::cli
