// Which proxy serves which lane of the node's clients. An endpoint of a client has a lane for each proxy.
// Arrivals of proxy p come through lane p for good; what the client sends through it is served by any proxy:
// usually by p; by another one if p is inactive or stalled.
//
//           ReleaseLane                    LaneReleased
//   served ─────────────► moving: no proxy ─────────────► served by another, or by p again
//                         takes from it      AttachChannel (another's), ServeLane (p's own)
//
// It owns the proxies' ends of the lanes (Channel). Commands for proxies come out of poll_command(), to be
// given to them in that order before anything else is.
//
// Owned by the control plane. It asks the monitor which proxies run and which serve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/daemon/client_memory.h"
#include "proxy/daemon/proxy_monitor.h"
#include "proxy/daemon/worker.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class Lanes {
 public:
  using Channels = std::vector<std::unique_ptr<Channel>>;

  // All proxies are active. The monitor outlives this.
  explicit Lanes(const ProxyMonitor& monitor) : monitor_(monitor), active_(monitor.proxies()) {}

  // --- servers

  // The first `count` proxies serve clients.
  void set_active(unsigned count);
  unsigned active() const { return active_; }
  // The proxy that shall serve that lane of every endpoint now: the lane's own, or else one of those that can.
  unsigned server_for(unsigned lane) const;
  // A proxy was fenced, settled or taken back: lanes may belong elsewhere.
  void proxies_changed() { unbalanced_ = true; }
  // Some lane may not be served by its proxy of server_for().
  bool unbalanced() const { return unbalanced_; }
  // Lanes begin to move to the proxies of server_for(); returns how many.
  int rebalance();
  // Lanes that no proxy serves, because they move.
  unsigned moving() const { return moving_; }

  // --- clients

  // The memory outlives the client's stay.
  void add(ClientId client, ClientMemory& memory);
  // It was added, and detach() was not called.
  bool serves(ClientId client) const;
  // No more messages are taken from the client or delivered to it.
  void detach(ClientId client);
  // After detach(): no proxy uses its memory.
  bool detached(ClientId client) const;
  void remove(ClientId client) { clients_.erase(client); }
  // A proxy's end of the lane that its arrivals come through; nullptr while it is stalled.
  Channel* receiver(ClientId client, std::uint32_t endpoint, unsigned proxy) const;

  // --- events of proxies

  // LaneReleased. Returns who serves the lane next; whether it does already is monitor.serves().
  unsigned released(const Channel* channel);
  // ChannelDetached.
  void detached(const Channel* channel);

  // --- a stalled proxy

  // The monitor has fenced it. Returns its ends, which its thread may still be using.
  [[nodiscard]] Channels fence(unsigned proxy);
  // It is back, and the client's memory has a view for it: it gets that and its receiving ends.
  void take_back(unsigned proxy, ClientId client);
  // It is settled, and serves its lanes again from where others stopped.
  void serve_again(unsigned proxy);

  std::optional<AddressedCommand> poll_command();

 private:
  struct Lane {
    unsigned server = 0;
    bool moving = false;                // its server was told to release it
    std::unique_ptr<Channel> receiver;  // of the lane's own proxy; none while that is stalled
    std::unique_ptr<Channel> sender;    // of `server`, if that is another
  };
  // The former server's end of a lane that has moved, until that proxy no longer uses it.
  struct Retired {
    unsigned proxy = 0;
    std::unique_ptr<Channel> channel;
  };
  struct Client {
    ClientMemory* memory = nullptr;
    std::vector<Lane> lanes;  // endpoint * proxies + lane
    std::vector<Retired> retired;
    bool detaching = false;
    unsigned awaited = 0;  // answers to DetachChannel
  };

  unsigned proxies() const { return monitor_.proxies(); }
  void tell(unsigned proxy, const WorkerCommand& command) { commands_.push_back({proxy, command}); }
  bool move(ClientId id, Client& client, unsigned index);
  void attach_proxy(ClientId id, Client& client, unsigned proxy, bool resumes);
  void add_sender(ClientId id, Client& client, unsigned index, bool resumes);
  void serve(ClientId id, Client& client, unsigned index);
  void detach_channel(Client& client, unsigned proxy, Channel* channel);
  void fence(unsigned proxy, Client& client, Channels& ends);

  const ProxyMonitor& monitor_;
  unsigned active_;
  bool unbalanced_ = false;
  unsigned moving_ = 0;
  std::map<ClientId, Client> clients_;
  std::deque<AddressedCommand> commands_;
};

}  // namespace braid::proxy
