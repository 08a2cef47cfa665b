// The channels that a proxy serves, and what the control plane waits for at them: that everything which was
// taken from a lane is finished, or everything that was handed over for a port is sent.
//
// Pure but for the rings in clients' memory. Owned by the proxy's worker; the control plane owns the channels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "proxy/daemon/proxy_channel.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class ServedChannels {
 public:
  // --- commands of the control plane

  void attach(Channel& channel) {
    channels_.push_back(&channel);
    inherited_ = true;
  }
  // Answered by ChannelDetached; the channel is not served from then on.
  void detach(Channel& channel);
  // Answered by LaneReleased; its descriptors are not taken from now on.
  void release_lane(Channel& channel);
  void serve_lane(Channel& channel) {
    channel.resume_sending();
    inherited_ = true;
  }
  // Answered by PortDrained. `own`: a channel of the port's endpoint; nullptr: there is no such port here.
  void drain(PortId port, const Channel* own);
  bool awaited() const { return !awaited_.empty(); }
  // Calls report(event) for each of them that has come about.
  template <class Report>
  void answer(Report&& report) {
    for (std::size_t i = 0; i < awaited_.size();) {
      const Awaited awaited = awaited_[i];
      if (!std::visit([&](const auto& a) { return is_done(a, i); }, awaited)) {
        ++i;
        continue;
      }
      awaited_.erase(awaited_.begin() + static_cast<std::ptrdiff_t>(i));
      std::visit([&](const auto& a) { conclude(a, report); }, awaited);
    }
  }

  // --- sleeping until a client hands something over

  // Calls f(word) with the word of each channel whose descriptors are taken.
  template <class F>
  void for_each_wake_word(F&& f) {
    for (Channel* const channel : channels_)
      if (channel->takes_descriptors()) f(channel->send.wake_word());
  }

  // --- messages that were taken

  // A message of a channel's is finished; the client gets its place back in release().
  void finish(Outgoing& message) {
    message.channel->finish(message);
    release_due_ = true;
  }
  bool release_due() const { return release_due_; }
  // Gives clients back what is finished.
  void release();
  void release(Channel& channel) { released_ = channel.release() || released_; }
  // Since the last call: a client has got something back.
  bool take_released() { return std::exchange(released_, false); }
  // Since the last call: a channel came whose descriptors another proxy may have left there.
  bool take_inherited() { return std::exchange(inherited_, false); }

  std::span<Channel* const> all() const { return channels_; }
  // None is served, and nothing is awaited.
  void clear();

 private:
  // Messages that must be finished: a port's in one channel, up to a descriptor; a port's in all of its channels,
  // whose entries precede this one; all of a channel.
  struct PortOfChannel {
    PortId port;
    Channel* channel;
    std::uint32_t upto;
  };
  struct WholePort {
    PortId port;
  };
  struct WholeChannel {
    Channel* channel;
  };
  using Awaited = std::variant<PortOfChannel, WholePort, WholeChannel>;

  bool is_done(const PortOfChannel& awaited, std::size_t index);
  bool is_done(const WholePort& awaited, std::size_t index);
  bool is_done(const WholeChannel& awaited, std::size_t index);
  template <class Report>
  void conclude(const PortOfChannel&, Report&) {}
  template <class Report>
  void conclude(const WholePort& awaited, Report& report) {
    report(PortDrained{awaited.port});
  }
  template <class Report>
  void conclude(const WholeChannel& awaited, Report& report) {
    Channel& channel = *awaited.channel;
    if (channel.detaching) {
      std::erase(channels_, &channel);
      report(ChannelDetached{&channel});
    } else {
      channel.leaving = false;
      channel.sends = false;
      report(LaneReleased{&channel});
    }
  }

  std::vector<Channel*> channels_;
  std::vector<Awaited> awaited_;
  bool release_due_ = false;
  bool released_ = false;
  bool inherited_ = false;
};

}  // namespace braid::proxy
