// The rings through which one proxy exchanges frames with the others of its node: frames that its queue received
// for another proxy's port go out, frames that others received for it come in.
//
// Owned by the proxy's worker; the rings are the node's, which connects them before the first turn.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "proxy/daemon/handoff.h"

namespace braid::proxy {

class Handoffs {
 public:
  // Frames for proxy `to` go into `out`; frames for this one come out of every `in`.
  void connect(unsigned to, Handoff* out) { to_[to] = out; }
  void add_source(Handoff* in) { from_.push_back(in); }

  // False: no ring leads there, or it has no room for the frame.
  [[nodiscard]] bool push(unsigned to, LinkId link, ByteView frame) {
    if (to_[to] == nullptr) return false;
    woken_ |= 1u << to;
    return to_[to]->push(link, frame);
  }
  // To each proxy that a ring leads to. Returns how many had no room for the frame. Rare, and kept out of what
  // happens to each frame.
  [[gnu::noinline]] unsigned push_to_all(LinkId link, ByteView frame) {
    unsigned dropped = 0;
    for (unsigned to = 0; to < to_.size(); ++to)
      if (to_[to] != nullptr && !push(to, link, frame)) ++dropped;
    return dropped;
  }
  // Hands each frame for this proxy to f(link, frame) in place, and adds to `frames` how many: a turn counts on.
  template <class F>
  void drain(int& frames, F&& f) {
    for (Handoff* const in : from_) frames += in->drain(f);
  }
  // Proxies, one bit each, that frames were handed to since the last call.
  std::uint32_t take_woken() { return std::exchange(woken_, 0); }

 private:
  std::array<Handoff*, kMaxProxies> to_{};
  std::vector<Handoff*> from_;
  std::uint32_t woken_ = 0;
};

}  // namespace braid::proxy
