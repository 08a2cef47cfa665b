#include "proxy/daemon/proxy_channel.h"

#include <bit>

#include "convergence/ports.h"
#include "convergence/position.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

Channel::Channel(std::uint32_t client_id, const ChannelGeometry& g, std::byte* client_memory,
                 unsigned its_endpoint, unsigned its_lane, bool resumes)
    : client(client_id),
      endpoint(its_endpoint),
      lane(its_lane),
      memory(client_memory),
      send(memory + g.send_ring(endpoint, lane), g.send_descriptors, resumes),
      data(memory + g.send_data(endpoint, lane)),
      data_bytes(g.send_bytes),
      arrivals(memory + g.arrival_ring(endpoint, lane), g.arrivals, resumes),
      doorbell(reinterpret_cast<Doorbell*>(memory + g.doorbell(endpoint))),
      outgoing(g.send_descriptors),
      send_ring_(memory + g.send_ring(endpoint, lane)),
      train_limits_(g.train) {
  for (Outgoing& o : outgoing) o.channel = this;
  if (resumes) resume_sending();
}

void Channel::resume_sending() {
  send = SendConsumer(send_ring_, send.capacity(), true);
  // The previous proxy may have taken and sent messages that were published until now.
  maybe_duplicate_until.reset();
  if (send.refresh() == Peer::kHonest) maybe_duplicate_until = send.taken() + send.readable();
  sends = true;
}

void Channel::take_lengths(Outgoing& message) {
  message.lengths.fill(0xffff);
  if (send.readable() == 0) return;
  // It is given back with the descriptor before it.
  outgoing[send.taken() & (send.capacity() - 1)].done = true;
  message.lengths = std::bit_cast<stack::TrainLengths>(send.take());
}

bool Channel::permits_train(const SendDescriptor& d, const stack::TrainLengths& lengths) const {
  return d.kind == static_cast<std::uint8_t>(stack::RecordKind::kMessage) && d.message_offset == 0 &&
         d.messages <= train_limits_.messages && d.bytes <= train_limits_.bytes &&
         d.message_bytes == d.bytes && inside(d.data_offset, d.bytes, data_bytes) &&
         stack::is_train(lengths, d.messages, d.bytes);
}

bool Channel::permits(const SendDescriptor& d, const stack::TrainLengths& lengths) const {
  if (d.messages != 0) return permits_train(d, lengths);
  if (d.kind == static_cast<std::uint8_t>(stack::RecordKind::kCredit))
    return d.bytes == 0 && d.message_bytes == 0 && d.message_offset == 0;
  if (d.kind != static_cast<std::uint8_t>(stack::RecordKind::kMessage)) return false;
  if (d.bytes > (d.many_pieces() ? stack::kMaxPieceBytes : convergence::kMaxRunBytes)) return false;
  if (!inside(d.data_offset, d.bytes, data_bytes)) return false;
  if (d.message_bytes > convergence::kMaxMessageBytes || d.message_offset % convergence::kGranuleBytes != 0)
    return false;
  if (!inside(d.message_offset, d.bytes, d.message_bytes)) return false;
  return true;
}

bool Channel::release() {
  std::uint32_t upto = send.released();
  while (upto != send.taken()) {
    Outgoing& m = outgoing[upto & (send.capacity() - 1)];
    if (!m.done) break;
    m.done = false;
    ++upto;
  }
  const bool any = upto != send.released();
  send.release(upto);
  return any;
}

}  // namespace braid::proxy
