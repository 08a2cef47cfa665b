// The proxy's end of one lane of a client's endpoint: the descriptors that it takes there and the messages that
// they become, and the ring of arrivals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutant.h"
#include "base/time.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/doorbell.h"
#include "proxy/daemon/outgoing.h"
#include "proxy/daemon/port_entry.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

// The departures or the arrivals of a lane, or both. Made and destroyed by the control plane; in between only one
// worker uses it.
class Channel {
 public:
  // `memory` is that worker's mapping of the client's. `resumes`: another worker served the lane before.
  Channel(std::uint32_t client, const ChannelGeometry& geometry, std::byte* memory, unsigned endpoint,
          unsigned lane, bool resumes = false);
  // Another worker served the lane meanwhile, and does no longer.
  void resume_sending();

  // The client's descriptors are to be taken here.
  bool takes_descriptors() const { return sends && !closed && !detaching && !leaving; }
  // A look, whether there is a descriptor to take or a reason to take none any more.
  bool may_be_taken() { return send.readable() != 0 || send.peer() == Peer::kViolates; }
  // The next descriptor, copied and not checked, and the message to be made of it, which is not finished from
  // now on. send.readable() > 0.
  Outgoing& take(SendDescriptor* descriptor) {
    Outgoing& message = outgoing[send.taken() & (send.capacity() - 1)];
    if (maybe_duplicate_until && static_cast<std::int32_t>(send.taken() - *maybe_duplicate_until) >= 0)
      maybe_duplicate_until.reset();
    message.record.maybe_duplicate = maybe_duplicate_until.has_value();
    *descriptor = send.take();
    if (descriptor->messages != 0) take_lengths(message);
    ++unfinished;
    return message;
  }
  // The descriptor says nothing that the client may not send from this channel. `lengths`: of the messages of a train,
  // as take() took them.
  bool permits(const SendDescriptor& descriptor, const stack::TrainLengths& lengths = {}) const;
  // The message of a descriptor that permits() accepts and `port` may send.
  void describe(Outgoing& message, const SendDescriptor& d, const PortEntry& port) const {
    stack::Record& r = message.record;
    r.destination = port.peer_port;
    r.source = port.id;
    r.position = Position(d.position);
    r.kind = static_cast<stack::RecordKind>(d.kind);
    r.protocol = mutant(Mutant::kForgetProtocol) ? stack::kMessages : port.protocol;
    r.many_pieces = d.many_pieces();
    r.messages = d.messages;
    r.skip = d.skip;
    r.message_bytes = d.message_bytes;
    r.message_offset = d.message_offset;
    r.message = Position(d.message);
    message.data = data + d.data_offset;
    __builtin_prefetch(message.data);  // it is read once the packet's headers are written
    message.bytes = d.bytes;
    message.to = port.peer;
  }
  // A message that was taken is acknowledged, failed, or not to be sent at all.
  void finish(Outgoing& message) {
    message.done = true;
    --unfinished;
  }
  // Gives the client back what is finished, in the order in which it was taken. True: that was something.
  bool release();

  const std::uint32_t client;
  const std::uint32_t endpoint;
  const std::uint32_t lane;
  std::byte* const memory;
  bool sends = true;     // the client's descriptors are taken here
  bool leaving = false;  // no more of them: another proxy goes on when those that were taken are finished
  // The previous proxy of this lane may already have sent the messages up to this descriptor.
  std::optional<std::uint32_t> maybe_duplicate_until;
  SendConsumer send;
  const std::byte* const data;
  const std::uint32_t data_bytes;
  ArrivalProducer arrivals;
  Doorbell* const doorbell;
  std::vector<Outgoing> outgoing;  // beside the descriptors
  std::uint32_t unfinished = 0;    // taken and not finished
  bool closed = false;             // it violated the protocol: nothing of it is read any more
  bool detaching = false;
  Instant full_since = Instant::never();  // its ring of arrivals

 private:
  // The lengths of a train are the entry behind its descriptor. If that is not there they become
  // lengths that permits() refuses.
  void take_lengths(Outgoing& message);
  bool permits_train(const SendDescriptor& descriptor, const stack::TrainLengths& lengths) const;

  std::byte* const send_ring_;
  const TrainLimits train_limits_;
};

}  // namespace braid::proxy
