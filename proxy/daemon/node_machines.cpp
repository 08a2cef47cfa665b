// What a node's control plane does about clusters of other logical machines: it carries out what Machines
// decides. And what it says about paths that do not come up, to whichever cluster.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/take_first.h"
#include "proxy/daemon/node.h"

namespace braid::proxy {
namespace {

// Of proxy 0, whose datagrams they are.
constexpr unsigned kSpeaker = 0;

}  // namespace

void Node::make_machines(const std::vector<stack::Interface>& links, std::uint64_t seed) {
  Machines::Config m;
  m.self.cluster = ClusterId(config_.cluster);
  m.self.proxies = config_.proxies;
  m.self.udp_port = config_.udp_port;
  m.self.link = {config_.transport.mtu_bytes, static_cast<std::uint16_t>(config_.transport.window_packets),
                 config_.transport.fragmentation, config_.transport.all_pairs};
  for (const stack::Interface& own : links) {
    std::vector<stack::Ipv4Address>& all = m.self.addresses;
    if (std::find(all.begin(), all.end(), own.address) == all.end() && all.size() < kMaxNis)
      all.push_back(own.address);
  }
  m.links = links;
  m.introduction_port = config_.machines.udp_port;
  m.first_place = ClusterId(config_.clusters);
  m.places = places();
  m.most_proxies = config_.machines.most_proxies;
  m.may_connect = config_.machines.connect;
  m.may_accept = config_.machines.accept;
  m.seed = seed ^ 0x6d616368696e6573;
  machines_ = std::make_unique<Machines>(m);
  for (unsigned p = 0; p < proxies(); ++p)
    for (unsigned theirs = 0; theirs < places() * m.most_proxies; ++theirs)
      paths_->set_present({ProxyId(static_cast<std::uint8_t>(p)),
                           ClusterId(static_cast<std::uint16_t>(config_.clusters + theirs / m.most_proxies)),
                           ProxyId(static_cast<std::uint8_t>(theirs % m.most_proxies))},
                          false);
  // Also where nobody is let in: then it is said so.
  if (!config_.links.empty() && !workers_[kSpeaker]->bind(config_.machines.udp_port))
    CHECK(!config_.machines.any());  // a proxy has that port; validate() has seen to it otherwise
}

void Node::connect_machine(Instant now, ClientId id, const Client& client, const control::Message& m) {
  const control::ConnectMachine& c = m.connect_machine;
  if (c.connect.endpoint >= client.geometry.endpoints) {
    refuse(id, m.serial, "no such endpoint");
    return;
  }
  if (c.nis < 1 || c.nis > kMaxNis || c.udp_port == 0) {
    refuse(id, m.serial,
           fmt::format("{} addresses, UDP port {}: name 1 to {}, and the port of its machines.udp_port",
                       c.nis, c.udp_port, kMaxNis));
    return;
  }
  Machines::Request request;
  request.client = id;
  request.serial = m.serial;
  request.endpoint = c.connect.endpoint;
  request.port = PortId(c.connect.port);
  request.window_bytes = c.connect.window_bytes;
  request.ordered = c.connect.ordered != 0;
  request.deadline = now + Duration::ms(c.connect.timeout_ms);
  request.introduction_port = c.udp_port;
  for (std::size_t i = 0; i < c.nis; ++i) {
    const stack::Ipv4Address address(c.addresses[i]);
    if (!address.is_unicast() ||
        std::find(request.addresses.begin(), request.addresses.end(), address) != request.addresses.end()) {
      refuse(id, m.serial,
             fmt::format("{}: must be one host's address, and named once", address.to_string()));
      return;
    }
    request.addresses.push_back(address);
  }
  machines_->connect(now, std::move(request));
}

int Node::run_machines(Instant now) {
  int work = 0;
  // What was decided before has been carried out: the paths of these are known.
  for (const ClusterId place : machines_->occupied()) {
    if (machines_->is_meeting(place)) {
      unsigned up = 0, all = 0;
      for (const Remote& r : remotes_[place.value()]) {
        all += running(r.path.local.value()) ? 1 : 0;
        up += paths_->alive(r.path) ? 1 : 0;
      }
      machines_->on_paths(now, place, up, all, path_problems(place));
    }
    machines_->in_use(now, place, ports_.held_with(place));
  }
  for (Worker::Datagram d; workers_[kSpeaker]->take_datagram(&d); ++work) {
    if (d.port != config_.machines.udp_port) continue;
    if (d.unreachable)
      machines_->on_unreachable(d.peer, *d.unreachable);
    else
      machines_->on_datagram(now, d.peer, ByteView(d.data).first(d.bytes));
  }
  machines_->on_timer(now);
  for (; const std::optional<Machines::Event> event = machines_->poll_event(); ++work) carry_out(now, *event);
  for (auto next = parting_.begin(); next != parting_.end();) {
    const auto parting = next++;
    if (parting->second.empty()) work += parted(ClusterId(parting->first)) ? 1 : 0;
  }
  for (; const std::optional<Machines::Datagram> out = machines_->poll_datagram(); ++work) {
    Worker::Datagram d;
    d.port = config_.machines.udp_port;
    d.peer = out->to;
    d.bytes = kIntroductionBytes;
    static_assert(kIntroductionBytes <= Worker::kMaxDatagramBytes);
    std::copy(out->bytes.begin(), out->bytes.end(), d.data.begin());
    workers_[kSpeaker]->send_datagram(d);
  }
  return work;
}

void Node::carry_out(Instant now, const Machines::Event& event) {
  const Machines::Request& r = event.request;
  switch (event.kind) {
    case Machines::Event::Kind::kMeet:
      meet(event.place, event.peer);
      return;
    case Machines::Event::Kind::kConnect:
      ports_.connect(now, r.client, r.serial, r.endpoint, event.place, r.port, r.window_bytes, r.ordered,
                     r.deadline - now);
      return;
    case Machines::Event::Kind::kRefused:
      refuse(r.client, r.serial, event.text);
      return;
    case Machines::Event::Kind::kPart:
      part(event.place);
      return;
  }
}

void Node::meet(ClusterId place, const Introduction& peer) {
  std::vector<Remote>& remotes = remotes_[place.value()];
  remotes.clear();
  for (unsigned p = 0; p < proxies(); ++p) {
    for (unsigned theirs = 0; theirs < peer.proxies; ++theirs) {
      const bool aligned = convergence::are_aligned(p, proxies(), theirs, peer.proxies);
      if (!config_.transport.all_pairs && !aligned) continue;
      const ProxyId own(static_cast<std::uint8_t>(p)), their_proxy(static_cast<std::uint8_t>(theirs));
      stack::RemoteStack r;
      r.id = {place, their_proxy};
      r.address = peer.addresses[theirs % peer.addresses.size()];
      r.udp_port = static_cast<std::uint16_t>(peer.udp_port + theirs);
      r.link = *stack::link_to(interfaces_, r.address);
      r.incarnation = paths_->own_incarnation(place);
      r.preferred = convergence::is_preferred(config_.transport.peer, aligned);
      r.names = {{peer.place, own}, {peer.cluster, their_proxy}, shared_hash(config_, 0)};
      remotes.push_back({{own, place, their_proxy}, r, std::nullopt});
      paths_->set_present(remotes.back().path, true);
      if (running(p)) tell_of_remote(remotes.back(), true);
    }
  }
  news_.push_back(
      fmt::format("the cluster at {} is known as cluster {}", machines_->name(place), place.value()));
}

void Node::tell_of_remote(const Remote& remote, bool opens) {
  tell_worker(remote.path.local.value(), ConnectPath{remote.path, remote.stack, opens});
}

void Node::part(ClusterId place) {
  std::set<unsigned>& awaited = parting_[place.value()];
  tell_running(DrainCluster{place});
  for (unsigned p = 0; p < proxies(); ++p)
    if (running(p)) awaited.insert(p);
  news_.push_back(
      fmt::format("the cluster at {}, known as cluster {}, is left", machines_->name(place), place.value()));
}

// No proxy has anything of it any more. While clients have not closed what was lost with it, its ports are
// still the former's. True if all is gone.
bool Node::parted(ClusterId place) {
  if (ports_.held_with(place) > 0) return false;
  // Nothing that was said to it, or comes from it, is its successor's.
  paths_->give_up(place);
  for (const Remote& r : remotes_[place.value()]) paths_->set_present(r.path, false);
  run_paths();
  remotes_.erase(place.value());
  parting_.erase(place.value());
  deaf_since_.erase(place.value());
  machines_->gone(place);
  return true;
}

std::optional<std::string> Node::poll_news() {
  return take_first(news_);
}

void Node::on_event(Instant, unsigned, const PathUnreachable& event) {
  for (Remote& r : remotes_[event.path.cluster.value()])
    if (r.path == event.path) r.unreachable = event.reason;
}

// As much as a refusal has room for.
std::string Node::path_problems(ClusterId cluster) const {
  const auto remotes = remotes_.find(cluster.value());
  std::string text;
  if (remotes == remotes_.end()) return text;
  for (const Remote& r : remotes->second) {
    if (paths_->alive(r.path)) continue;
    const std::string one =
        fmt::format("{}{}:{} {}", text.empty() ? "" : ", ", r.stack.address.to_string(), r.stack.udp_port,
                    r.unreachable ? stack::to_string(*r.unreachable) : "is silent");
    if (text.size() + one.size() > 100) return text + ", …";
    text += one;
  }
  return text;
}

}  // namespace braid::proxy
