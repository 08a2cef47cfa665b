#include "proxy/client/client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "proxy/client/socket_service.h"

namespace braid::proxy {
namespace {

using convergence::granules_of;
using convergence::kGranuleBytes;

// Between looks for an accepted connection or for room: what a yield costs when nobody else wants the core.
constexpr int kSpinsBeforeYield = 16;

// How long an arrival waits for the word that its connection exists, which the control plane gives within
// milliseconds.
constexpr Duration kPatienceWithEarlyArrivals = 5_s;

// Lets others run while this thread waits for something that another process does.
class Patience {
 public:
  void wait() {
    if (++turns_ > kSpinsBeforeYield) ::sched_yield();
  }

 private:
  int turns_ = 0;
};

}  // namespace

const char* to_string(ConnectionState state) {
  switch (state) {
    case ConnectionState::kOpen:
      return "open";
    case ConnectionState::kPeerClosed:
      return "the peer closed it, or died";
    case ConnectionState::kPeerLost:
      return "its cluster was not heard for the peer death time, or was restarted";
    case ConnectionState::kServiceLost:
      return "this node's braidd is gone";
  }
  return "unknown";
}

Instant Service::now() {
  return monotonic_now();
}

// ---------------------------------------------------------------- Client

Result<std::unique_ptr<Client>> Client::attach(const std::string& address, const ClientOptions& options) {
  Result<std::unique_ptr<Service>> service = connect_to_service(address);
  if (!service) return service.error();
  return attach(std::move(service).value(), options);
}

Result<std::unique_ptr<Client>> Client::attach(std::unique_ptr<Service> service,
                                               const ClientOptions& options) {
  control::Message request;
  request.kind = control::Kind::kAttach;
  request.attach = {options.endpoints, options.send_bytes, options.receive_bytes};
  int fd = -1;
  Result<control::Message> reply = service->call(request, 10_s, &fd);
  if (!reply) return reply.error();
  std::byte* const own = reply->kind == control::Kind::kAttached && fd < 0 ? service->memory() : nullptr;
  if (reply->kind != control::Kind::kAttached || (fd < 0 && own == nullptr))
    return error(
        "the service answered an attach request with something else: is it a braidd of this version?");
  std::unique_ptr<Client> client(new Client);
  client->geometry_ = reply->attached.geometry;
  client->cluster_ = ClusterId(reply->attached.cluster);
  client->clusters_ = reply->attached.clusters;
  client->memory_bytes_ = client->geometry_.total_bytes();
  client->memory_ = own;
  if (own == nullptr) {
    void* const memory = ::mmap(nullptr, client->memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int failure = errno;
    ::close(fd);
    if (memory == MAP_FAILED)
      return error("cannot map the {} bytes shared with the service: {}", client->memory_bytes_,
                   std::strerror(failure));
    client->memory_ = static_cast<std::byte*>(memory);
    client->mapped_ = true;
  }
  client->service_ = std::move(service);
  for (unsigned e = 0; e < client->geometry_.endpoints; ++e) {
    client->endpoints_.push_back(std::unique_ptr<Endpoint>(
        new Endpoint(*client, client->service_.get(), client->memory_, client->geometry_, e)));
  }
  return client;
}

Result<const NodeCounters*> Client::counters() {
  const std::lock_guard lock(counters_lock_);
  if (counters_ != nullptr) return counters_;
  control::Message request;
  request.kind = control::Kind::kCounters;
  int fd = -1;
  const Result<control::Message> reply = service_->call(request, 5_s, &fd);
  if (!reply) return reply.error();
  struct stat status {};
  const bool whole =
      fd >= 0 && ::fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(NodeCounters));
  void* const memory =
      whole ? ::mmap(nullptr, sizeof(NodeCounters), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED || static_cast<const NodeCounters*>(memory)->magic != NodeCounters::kMagic) {
    if (memory != MAP_FAILED) ::munmap(memory, sizeof(NodeCounters));
    return error("the node's counters cannot be read: build the application and braidd from the same source");
  }
  return counters_ = static_cast<const NodeCounters*>(memory);
}

Client::~Client() {
  for (const auto& endpoint : endpoints_) endpoint->flush();
  endpoints_.clear();
  service_.reset();  // in one process: the node is still using the memory until then
  if (mapped_) ::munmap(memory_, memory_bytes_);
  if (counters_ != nullptr) ::munmap(const_cast<NodeCounters*>(counters_), sizeof(NodeCounters));
}

// ---------------------------------------------------------------- Endpoint

Endpoint::Endpoint(Client& client, Service* service, std::byte* memory, const ChannelGeometry& g,
                   unsigned index)
    : client_(client),
      service_(service),
      memory_(memory),
      geometry_(g),
      index_(index),
      doorbell_(reinterpret_cast<Doorbell*>(memory + g.doorbell(index))),
      by_index_(64, nullptr),
      closed_(64) {
  for (unsigned p = 0; p < g.proxies; ++p) {
    Lane lane;
    lane.send = SendProducer(memory + g.send_ring(index, p), g.send_descriptors);
    lane.data = memory + g.send_data(index, p);
    lane.arrivals = ArrivalConsumer(memory + g.arrival_ring(index, p), g.arrivals);
    lane.arrival_control = reinterpret_cast<const RingControl*>(memory + g.arrival_ring(index, p));
    lane.data_bytes = g.send_bytes;
    lane.data_end.resize(g.send_descriptors);
    lanes_.push_back(std::move(lane));
  }
}

// Descriptors come back in order, and with each the data before its end.
void Endpoint::Lane::reclaim() {
  (void)send.refresh();
  if (send.consumed() == reclaimed) return;
  reclaimed = send.consumed();
  data_head = data_end[(reclaimed - 1) & (send.capacity() - 1)];
  if (data_head == data_tail) tail_offset = 0;  // empty: begin where the memory is warm
}

bool Endpoint::Lane::take_room(std::uint32_t bytes, std::uint32_t* offset) {
  const std::uint64_t need = round_up(bytes, kGranuleBytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::uint64_t waste = tail_offset + need > data_bytes ? data_bytes - tail_offset : 0;
    if (send.produced() - reclaimed < send.capacity() && data_tail + waste + need - data_head <= data_bytes) {
      *offset = waste > 0 ? 0 : tail_offset;
      return true;
    }
    if (attempt == 0) reclaim();
  }
  return false;
}

// The data area is a ring too: what lies between the old end and this piece is freed with it.
void Endpoint::Lane::use_room(std::uint32_t bytes, std::uint32_t offset) {
  const auto taken = static_cast<std::uint32_t>(round_up(bytes, kGranuleBytes));
  data_tail += (offset == tail_offset ? 0 : data_bytes - tail_offset) + taken;
  tail_offset = offset + taken == data_bytes ? 0 : offset + taken;
  data_end[send.produced() & (send.capacity() - 1)] = data_tail;
}

Connection* Endpoint::find(PortId port) {
  const std::size_t index = port.value() & 0xffff;
  Connection* const connection = index < by_index_.size() ? by_index_[index] : nullptr;
  return connection != nullptr && connection->port_ == port ? connection : nullptr;
}

Connection* Endpoint::open(const control::Opened& opened, convergence::Dispatch dispatch) {
  connections_.push_back(std::make_unique<Connection>(*this, opened, dispatch));
  Connection* const connection = connections_.back().get();
  const std::size_t index = connection->port_.value() & 0xffff;
  if (index >= by_index_.size()) {
    by_index_.resize(2 * index, nullptr);
    closed_.resize(2 * index);
  }
  by_index_[index] = connection;
  return connection;
}

Result<void> Endpoint::prepare(convergence::Dispatch dispatch) {
  if (dispatch != convergence::Dispatch::kLeastLoaded || counters_ != nullptr) return {};
  const Result<const NodeCounters*> counters = client_.counters();
  if (!counters) return error("dispatch least-loaded: {}", counters.error().text);
  counters_ = *counters;
  return {};
}

Result<void> Endpoint::listen(PortId port, const ConnectionOptions& options) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  control::Message request;
  request.kind = control::Kind::kListen;
  request.listen = {port.value(), index_, options.window_bytes, options.ordered ? 1u : 0u};
  const Result<control::Message> reply = service_->call(request, 5_s);
  if (!reply) return error("listen on port {}: {}", port.value(), reply.error().text);
  listeners_.push_back({port, options});
  return {};
}

control::Connect Endpoint::connect_request(PortId port, const ConnectionOptions& options,
                                           Duration timeout) const {
  return {0,
          port.value(),
          index_,
          options.window_bytes,
          options.ordered ? 1u : 0u,
          static_cast<std::uint32_t>(timeout.ns() / 1'000'000)};
}

Result<Connection*> Endpoint::connect(const RemoteCluster& cluster, PortId port,
                                      const ConnectionOptions& options, Duration timeout) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  if (cluster.addresses.empty() || cluster.addresses.size() > kMaxNis)
    return error("connect to port {} of another machine: {} addresses: name 1 to {}", port.value(),
                 cluster.addresses.size(), kMaxNis);
  control::Message request;
  request.kind = control::Kind::kConnectMachine;
  request.connect_machine = {};
  request.connect_machine.connect = connect_request(port, options, timeout);
  request.connect_machine.udp_port = cluster.udp_port;
  std::string names;
  for (const std::string& text : cluster.addresses) {
    in_addr address{};
    if (::inet_pton(AF_INET, text.c_str(), &address) != 1)
      return error("connect to port {} of another machine: '{}' is no IPv4 address, e.g. 10.98.0.1",
                   port.value(), text);
    request.connect_machine.addresses[request.connect_machine.nis++] = ntohl(address.s_addr);
    names += (names.empty() ? "" : ", ") + text;
  }
  const Result<control::Message> reply = service_->call(request, timeout + 1_s);
  if (!reply) return error("connect to port {} of {}: {}", port.value(), names, reply.error().text);
  return open(reply.value().opened, options.dispatch);
}

Result<Connection*> Endpoint::connect(ClusterId cluster, PortId port, const ConnectionOptions& options,
                                      Duration timeout) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  control::Message request;
  request.kind = control::Kind::kConnect;
  request.connect = connect_request(port, options, timeout);
  request.connect.cluster = cluster.value();
  const Result<control::Message> reply = service_->call(request, timeout + 1_s);
  if (!reply)
    return error("connect to port {} of cluster {}: {}", port.value(), cluster.value(), reply.error().text);
  return open(reply.value().opened, options.dispatch);
}

Connection* Endpoint::try_accept() {
  service_->turn();
  take_accepted();
  if (accepted_.empty()) return nullptr;
  Connection* const connection = accepted_.front();
  accepted_.pop_front();
  return connection;
}

void Endpoint::take_accepted() {
  control::Message event;
  while (service_->next_event(index_, &event)) {
    const auto listener = std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) {
      return l.port.value() == event.opened.listener;
    });
    const ConnectionOptions options = listener == listeners_.end() ? ConnectionOptions{} : listener->options;
    accepted_.push_back(open(event.opened, options.dispatch));
  }
}

Result<Connection*> Endpoint::accept(Duration timeout) {
  const Instant deadline = service_->now() + timeout;
  for (;;) {
    if (Connection* const connection = try_accept()) return connection;
    if (!service_->alive()) return error("accept: {}", to_string(ConnectionState::kServiceLost));
    if (service_->now() >= deadline) return error("accept: nobody connected within {:.3f} s", timeout.s());
    service_->wait_for_event(5_ms);
  }
}

void Endpoint::close(Connection* connection) {
  flush();
  control::Message request;
  request.kind = control::Kind::kClose;
  request.close = {connection->port_.value()};
  (void)service_->call(request, 5_s);  // if the service is gone there is nothing to close
  const std::size_t index = connection->port_.value() & 0xffff;
  by_index_[index] = nullptr;
  closed_[index] = connection->port_;
  if (handing_over_ == connection) handing_over_ = nullptr;
  if (unfinished_ == connection) unfinished_ = nullptr;
  std::erase(accepted_, connection);
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& c) { return c.get() == connection; });
  // A handler may be looking at it still.
  if (polling_) closed_while_polling_.push_back(std::move(*found));
  connections_.erase(found);
}

void Endpoint::flush() {
  for (Lane& lane : lanes_) lane.send.publish();
}

bool Endpoint::has_arrivals() const {
  if (left_over_.load(std::memory_order_relaxed)) return true;
  for (const Lane& lane : lanes_) {
    if (lane.arrival_control->tail.load(std::memory_order_acquire) !=
        lane.arrival_control->head.load(std::memory_order_relaxed))
      return true;
  }
  return false;
}

Endpoint::Arrived Endpoint::take_arrival(Lane& lane, Connection** to) {
  const ArrivalDescriptor d = lane.early ? *lane.early : lane.arrivals.take();
  lane.early.reset();
  *to = nullptr;
  Connection* connection = find(PortId(d.destination_port));
  if (connection == nullptr) {
    take_accepted();  // a peer that has connected may send before we have heard of it
    connection = find(PortId(d.destination_port));
  }
  if (connection == nullptr) {
    const std::size_t index = d.destination_port & 0xffff;
    if (index < closed_.size() && closed_[index] == PortId(d.destination_port)) return Arrived::kTaken;
    const Instant now = service_->now();
    if (lane.early_until == Instant()) lane.early_until = now + kPatienceWithEarlyArrivals;
    if (now < lane.early_until) {
      lane.early = d;
      return Arrived::kTooEarly;
    }
    // Its connection was taken down before we were told of it. What waits behind it shall not wait for ever.
    lane.early_until = Instant();
    ++counts_.bad_arrivals;
    return Arrived::kTaken;
  }
  lane.early_until = Instant();
  stack::Record r;
  r.position = Position(d.position);
  r.bytes = d.bytes;
  r.skip = d.skip;
  r.many_pieces = d.many_pieces != 0;
  r.message_bytes = d.message_bytes;
  r.message_offset = d.message_offset;
  r.message = Position(d.message);
  switch (connection->receiver_.on_arrival(r)) {
    case convergence::Accepted::kNew:
      *to = connection;
      break;
    case convergence::Accepted::kDuplicate:
      ++counts_.duplicates;
      break;
    case convergence::Accepted::kBeyondWindow:
    case convergence::Accepted::kMalformed:
      ++counts_.bad_arrivals;
      connection->corrupted_ = true;
      break;
  }
  return Arrived::kTaken;
}

// ---------------------------------------------------------------- Connection

Connection::Connection(Endpoint& endpoint, const control::Opened& o, convergence::Dispatch dispatch)
    : endpoint_(endpoint),
      peer_(o.peer_cluster),
      port_(o.port),
      peer_port_(o.peer_port),
      listener_(o.listener),
      cell_(reinterpret_cast<PortCell*>(endpoint.memory_ + endpoint.geometry_.cell(o.cell))),
      sender_(o.peer_window_bytes),
      receiver_({endpoint.memory_ + o.window_offset, o.window_bytes}, o.ordered != 0),
      dispatcher_(dispatch, endpoint.proxies(), o.port) {}

ConnectionState Connection::state() const {
  switch (cell_->state.load(std::memory_order_acquire)) {
    case PortState::kPeerClosed:
      return ConnectionState::kPeerClosed;
    case PortState::kPeerLost:
      return ConnectionState::kPeerLost;
    case PortState::kUnused:
    case PortState::kOpen:
      break;
  }
  if (failed_) return ConnectionState::kPeerClosed;
  return endpoint_.service_->alive() ? ConnectionState::kOpen : ConnectionState::kServiceLost;
}

// CV-10
bool Connection::corrupted() const {
  return corrupted_ || cell_->corrupted.load(std::memory_order_acquire) != 0;
}

void Connection::read_credit() {
  for (unsigned p = 0; p < endpoint_.proxies(); ++p) {
    // What the service writes here came from the peer's client. A position that was never sent is not
    // believed.
    std::uint32_t left = cell_->credit[p].load(std::memory_order_acquire);
    (void)sender_.on_credit(Position(left));
    // Unless the proxy has just written.
    if (const auto instead = sender_.instead_of(Position(left)))
      cell_->credit[p].compare_exchange_strong(left, instead->value(), std::memory_order_relaxed);
  }
}

// What waits at the proxy that serves a lane, and what this endpoint has put before it that it has not taken.
unsigned Connection::pick_proxy(unsigned lane) {
  return dispatcher_.pick(lane, [&](unsigned p) {
    const Endpoint::Lane& l = endpoint_.lanes_[p];
    const NodeCounters& node = *endpoint_.counters_;
    const unsigned server = node.server[p].load(std::memory_order_relaxed) % kMaxProxies;
    return node.proxy[server].queued_bytes.get() + (l.data_tail - l.data_head);
  });
}

SendStatus Connection::take_room(std::uint32_t bytes, unsigned lane) {
  room_bytes_ = 0;
  if (bytes > max_message_bytes()) return SendStatus::kTooLong;
  if (failed_ || cell_->state.load(std::memory_order_relaxed) != PortState::kOpen) return SendStatus::kClosed;
  std::optional<convergence::Sender::Place> place = sender_.place(bytes);
  if (!place) {
    read_credit();
    place = sender_.place(bytes);
  }
  if (!place) {
    ++endpoint_.counts_.no_credit;
    return state() == ConnectionState::kOpen ? SendStatus::kNoCredit : SendStatus::kClosed;
  }
  proxy_ = pick_proxy(lane);
  if (!endpoint_.lanes_[proxy_].take_room(bytes, &data_offset_)) {
    ++endpoint_.counts_.channel_full;
    return state() == ConnectionState::kOpen ? SendStatus::kChannelFull : SendStatus::kClosed;
  }
  place_ = *place;
  room_bytes_ = bytes;
  room_at_ = endpoint_.lanes_[proxy_].send.produced();
  return SendStatus::kSent;
}

void Connection::send_piece(std::uint32_t bytes, const Piece& piece) {
  Endpoint::Lane& lane = endpoint_.lanes_[proxy_];
  SendDescriptor d{};
  d.source_port = port_.value();
  d.position = place_.position.value();
  d.message_bytes = piece.message_bytes;
  d.message_offset = piece.message_offset;
  d.message = (piece.message_offset == 0 ? place_.position : message_).value();
  d.data_offset = data_offset_;
  d.bytes = bytes;
  d.skip = place_.skip;
  d.kind = static_cast<std::uint8_t>(stack::RecordKind::kMessage);
  d.many_pieces = piece.many_pieces ? 1 : 0;
  if (piece.message_offset == 0) message_ = place_.position;
  lane.use_room(bytes, data_offset_);
  lane.send.push(d);
  sender_.sent(place_, bytes);
  room_bytes_ = 0;
}

SendStatus Connection::try_send(ByteView message, unsigned lane) {
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(message.size(), convergence::kMaxMessageBytes));
  if (const SendStatus status = take_room(bytes, lane); status != SendStatus::kSent) return status;
  if (bytes > 0) std::memcpy(endpoint_.lanes_[proxy_].data + data_offset_, message.data(), bytes);
  send_piece(bytes, {bytes, 0, false});
  ++endpoint_.counts_.messages_sent;
  return SendStatus::kSent;
}

MutableBytes Connection::reserve(std::uint32_t bytes, unsigned lane, SendStatus* status) {
  const SendStatus got = take_room(bytes, lane);
  if (status != nullptr) *status = got;
  if (got != SendStatus::kSent) return {};
  return {endpoint_.lanes_[proxy_].data + data_offset_, bytes};
}

void Connection::commit(std::uint32_t bytes) {
  CHECK_LE(bytes, room_bytes_);
  CHECK_EQ(room_at_, endpoint_.lanes_[proxy_].send.produced());  // nothing was sent in between
  // It was placed for the whole reservation; the shorter message has a place at least as good.
  if (const auto place = sender_.place(bytes)) place_ = *place;
  send_piece(bytes, {bytes, 0, false});
  ++endpoint_.counts_.messages_sent;
}

SendStatus Connection::send(ByteView message, Duration timeout, unsigned lane) {
  if (message.size() > convergence::kMaxMessageBytes) return SendStatus::kTooLong;
  const auto total = static_cast<std::uint32_t>(message.size());
  const std::uint32_t most = max_message_bytes();
  const bool many = total > most;
  const Instant deadline = endpoint_.service_->now() + timeout;
  std::uint32_t offset = 0;
  Patience patience;
  do {
    const std::uint32_t bytes = std::min(most, total - offset);
    const SendStatus status = take_room(bytes, lane);
    if (status == SendStatus::kSent) {
      if (bytes > 0)
        std::memcpy(endpoint_.lanes_[proxy_].data + data_offset_, message.data() + offset, bytes);
      send_piece(bytes, {total, offset, many});
      endpoint_.flush();
      offset += bytes;
      if (offset == total) break;
      continue;
    }
    if (status == SendStatus::kClosed) return status;
    endpoint_.flush();
    if (endpoint_.service_->turn() == 0) patience.wait();
    if (endpoint_.service_->now() >= deadline) {
      failed_ = failed_ || offset > 0;
      return SendStatus::kTimeout;
    }
  } while (true);
  ++endpoint_.counts_.messages_sent;
  return SendStatus::kSent;
}

void Connection::return_credit() {
  const Position consumed = receiver_.consumed();
  cell_->consumed.store(consumed.value(), std::memory_order_release);
  const std::optional<Position> due = receiver_.credit_due();
  if (!due) return;
  // Credit needs no credit, but a descriptor; without one it is due again with the next message, or poll.
  Endpoint::Lane& lane = endpoint_.lanes_[pick_proxy(0)];
  std::uint32_t offset = 0;
  if (!lane.take_room(0, &offset)) {
    endpoint_.owes_credit_ = true;
    return;
  }
  SendDescriptor d{};
  d.source_port = port_.value();
  d.position = due->value();
  d.kind = static_cast<std::uint8_t>(stack::RecordKind::kCredit);
  lane.use_room(0, lane.tail_offset);
  lane.send.push(d);
  receiver_.credit_returned(*due);
}

void Endpoint::return_credit(Connection* connection) {
  if (connection != nullptr && find(connection->port_) == connection) connection->return_credit();
}

void Endpoint::return_owed_credit() {
  owes_credit_ = false;
  for (const auto& connection : connections_) connection->return_credit();
}

}  // namespace braid::proxy
