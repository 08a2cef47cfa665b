// The messages of a train (CV-11), each as if it had come in a record of its own.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "convergence/position.h"
#include "stack/wire/segment.h"

namespace braid::convergence {

// Granules that a train takes in its receiver's ring.
constexpr std::uint32_t train_granules(const stack::TrainLengths& lengths, unsigned messages) {
  std::uint32_t granules = 0;
  for (unsigned i = 0; i < messages; ++i) granules += granules_of(lengths[i]);
  return granules;
}

// Calls f(record, bytes) for each message of `train`, whose record has these `bytes`, until f returns false. The
// train is_train().
template <class F>
void for_each_message(const stack::Record& train, ByteView bytes, const stack::TrainLengths& lengths, F&& f) {
  stack::Record one = train;
  one.messages = 0;
  std::uint32_t offset = 0;
  for (unsigned i = 0; i < train.messages; ++i) {
    one.bytes = lengths[i];
    one.message_bytes = lengths[i];
    one.message = one.position;
    if (!f(static_cast<const stack::Record&>(one), bytes.subspan(offset, lengths[i]))) return;
    offset += stack::train_aligned(lengths[i]);
    one.position += granules_of(lengths[i]);
    one.skip = 0;
  }
}

}  // namespace braid::convergence
