#include "proxy/daemon/served_channels.h"

namespace braid::proxy {

void ServedChannels::detach(Channel& channel) {
  channel.detaching = true;
  awaited_.push_back(WholeChannel{&channel});
}

void ServedChannels::release_lane(Channel& channel) {
  channel.leaving = true;
  awaited_.push_back(WholeChannel{&channel});
}

void ServedChannels::drain(PortId port, const Channel* own) {
  for (Channel* channel : channels_) {
    if (own == nullptr || !channel->sends || channel->client != own->client ||
        channel->endpoint != own->endpoint)
      continue;
    (void)channel->send.refresh();
    awaited_.push_back(PortOfChannel{port, channel, channel->send.taken() + channel->send.readable()});
  }
  // Answered when the last of them is done; at once where there is none.
  awaited_.push_back(WholePort{port});
}

// A channel that has given the lane away has finished what it took before; the rest is the next one's.
bool ServedChannels::is_done(const PortOfChannel& a, std::size_t) {
  release(*a.channel);
  if (a.channel->closed) return a.channel->unfinished == 0;
  return !a.channel->sends || static_cast<std::int32_t>(a.channel->send.released() - a.upto) >= 0;
}

bool ServedChannels::is_done(const WholePort& a, std::size_t index) {
  return std::none_of(awaited_.begin(), awaited_.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const Awaited& before) {
                        const auto* const channel = std::get_if<PortOfChannel>(&before);
                        return channel != nullptr && channel->port == a.port;
                      });
}

// The control plane asks to detach it when all of the client's ports are drained.
bool ServedChannels::is_done(const WholeChannel& a, std::size_t) {
  release(*a.channel);
  return a.channel->unfinished == 0;
}

void ServedChannels::release() {
  release_due_ = false;
  for (Channel* channel : channels_) release(*channel);
}

void ServedChannels::clear() {
  channels_.clear();
  awaited_.clear();
}

}  // namespace braid::proxy
