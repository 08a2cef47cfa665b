// The memory of one client (proxy/channel/channel.h draws its layout): how large it is made, the views that the
// control plane and each proxy have of it, and what connections have of it.
//
// Owned by the control plane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "proxy/daemon/shared_region.h"
#include "proxy/daemon/window_space.h"
#include "settings/node.h"

namespace braid::proxy {

// The layout of what a client asks for, on a node with so many proxies. An error is for the client.
Result<ChannelGeometry> channel_geometry(const control::Attach& request, unsigned proxies,
                                         const settings::ChannelConfig& channel = {},
                                         const TrainLimits& train = {});

class ClientMemory {
 public:
  // An error is for the client.
  static Result<std::unique_ptr<ClientMemory>> create(const ChannelGeometry& geometry, unsigned proxies,
                                                      const MakeRegion& make_region);

  const ChannelGeometry& geometry() const { return geometry_; }
  // The descriptor that the client maps, valid while this lives; -1: a client in this process, which uses address().
  int fd() const { return region_->fd(); }
  // The control plane's view.
  std::byte* address() const { return own_.begin(); }
  // A proxy's; nullptr: it has none now.
  std::byte* view(unsigned proxy) const { return views_[proxy].begin(); }

  // A connection's cell, in the control plane's view.
  PortCell* cell(std::uint32_t index) const { return cell_in(own_, index); }
  // In a proxy's view, which it has.
  PortCell* cell(std::uint32_t index, unsigned proxy) const { return cell_in(views_[proxy], index); }
  WindowSpace& windows() { return windows_; }

  // Cuts the proxy off: its writes through its view are not seen by others from now on. The view that is
  // returned must live as long as the proxy may use it. Empty if it has none.
  RegionView isolate(unsigned proxy);
  // Gives the proxy a view again, unless it has one: of a client that attached while it was stalled. False: the
  // system has no more.
  [[nodiscard]] bool map(unsigned proxy);

 private:
  ClientMemory(const ChannelGeometry& geometry, std::shared_ptr<SharedRegion> region)
      : geometry_(geometry), region_(std::move(region)), windows_(geometry) {}
  PortCell* cell_in(const RegionView& view, std::uint32_t index) const {
    return reinterpret_cast<PortCell*>(view.begin() + geometry_.cell(index));
  }

  const ChannelGeometry geometry_;
  std::shared_ptr<SharedRegion> region_;
  RegionView own_;
  std::vector<RegionView> views_;  // by proxy
  WindowSpace windows_;
};

}  // namespace braid::proxy
