#include "convergence/control_message.h"

#include "base/check.h"

namespace braid::convergence {

void write_control(MutableBytes to, const ControlMessage& m) {
  CHECK_GE(to.size(), kControlBytes);
  store(to.data(), static_cast<std::uint8_t>(m.kind));
  store(to.data() + 1, static_cast<std::uint8_t>(m.ordered));
  store(to.data() + 2, m.reason);
  store(to.data() + 3, m.protocol.value());
  store(to.data() + 4, m.source.value());
  store(to.data() + 8, m.destination.value());
  store(to.data() + 12, m.window_bytes);
  store(to.data() + 16, m.serial);
  store(to.data() + 20, m.proxy);
  store(to.data() + 21, m.peer_proxy);
  store(to.data() + 22, std::uint16_t{0});
  store(to.data() + 24, m.epoch);
}

bool parse_control(ByteView bytes, ControlMessage* m) {
  if (bytes.size() != kControlBytes) return false;
  const auto kind = load<std::uint8_t>(bytes.data());
  const auto ordered = load<std::uint8_t>(bytes.data() + 1);
  m->reason = load<std::uint8_t>(bytes.data() + 2);
  if (kind < 1 || kind > static_cast<std::uint8_t>(ControlMessage::Kind::kFencedBefore) || ordered > 1 ||
      m->reason > static_cast<std::uint8_t>(Refusal::kProtocolMismatch))
    return false;
  m->kind = static_cast<ControlMessage::Kind>(kind);
  m->ordered = ordered == 1;
  m->protocol = stack::ProtocolId(load<std::uint8_t>(bytes.data() + 3));
  m->source = PortId(load<std::uint32_t>(bytes.data() + 4));
  m->destination = PortId(load<std::uint32_t>(bytes.data() + 8));
  m->window_bytes = load<std::uint32_t>(bytes.data() + 12);
  m->serial = load<std::uint32_t>(bytes.data() + 16);
  m->proxy = load<std::uint8_t>(bytes.data() + 20);
  m->peer_proxy = load<std::uint8_t>(bytes.data() + 21);
  m->epoch = load<std::uint64_t>(bytes.data() + 24);
  return true;
}

const char* to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "no refusal";
    case Refusal::kNoListener:
      return "nobody listens on that port of that cluster";
    case Refusal::kNoRoom:
      return "the listener has no receive buffer left: let it attach with more receive_bytes";
    case Refusal::kOrderMismatch:
      return "one end asks for ordered delivery and the other does not: ask for the same";
    case Refusal::kNoSuchCluster:
      return "there is no such cluster in this machine, or it is this one";
    case Refusal::kTimeout:
      return "no answer within the timeout";
    case Refusal::kPeerLost:
      return "the cluster was lost";
    case Refusal::kPortTaken:
      return "another listener has that port: choose another";
    case Refusal::kBadWindow:
      return "the window must be a power of two between 4 KiB and 16 MiB";
    case Refusal::kNoRoomHere:
      return "no receive buffer left here: attach with more receive_bytes";
    case Refusal::kClientGone:
      return "the client is gone";
    case Refusal::kBadPort:
      return "a listener's port is between 1 and 65535";
    case Refusal::kProtocolMismatch:
      return "the listener's connections are of another protocol: ask for the same";
  }
  return "unknown";
}

}  // namespace braid::convergence
