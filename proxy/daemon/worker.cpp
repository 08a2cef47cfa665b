#include "proxy/daemon/worker.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <variant>

#include "base/mutant.h"
#include "convergence/ports.h"
#include "proxy/daemon/worker_counters.h"
#include "proxy/daemon/worker_turn.h"

namespace braid::proxy {
namespace {

// A turn that comes so late was held up by the scheduler; what was not heard meanwhile says nothing about
// peers.
constexpr Duration kSchedulingGap = 50_ms;
// Between looks at the paths, and between copies of the counters into memory that others read: so many turns, and such a
// time, because it takes as long as several idle turns. (So many turns suffice, should time stand still.)
constexpr std::uint64_t kTurnsPerWatch = 64;
constexpr Duration kWatchInterval = 20_us;
constexpr std::uint64_t kMostTurnsPerWatch = 1024;

// As a peer's record says it.
DatagramReturn returned_reason(std::uint16_t reason) {
  const bool known = reason >= static_cast<std::uint16_t>(DatagramReturn::kUnknownProtocol) &&
                     reason <= static_cast<std::uint16_t>(DatagramReturn::kMaybeDelivered);
  return known ? static_cast<DatagramReturn>(reason) : DatagramReturn::kRefused;
}

}  // namespace

Worker::Worker(const stack::StackConfig& config, std::vector<LinkQueue> queues, ProxyCounters& counters,
               ProxyStates& states, Instant now, std::uint32_t max_ports, const Protocols& protocols)
    : stack_(config, now),
      queues_(std::move(queues), config.interfaces.size(), stack_.frame_bytes()),
      counters_(counters),
      states_(states),
      own_state_(states[config.local.proxy.value()]),
      paths_(stack_),
      relays_(states),
      protocols_(protocols),
      ports_(max_ports, own_state_.writing, counters, protocols_),
      last_turn_(now) {}

bool Worker::resume(Instant now) {
  // The others have given it up, and not yet cut it off from what they share.
  if (!own_state_.isolated.load(std::memory_order_acquire)) return false;
  start_anew(now);
  return true;
}

// A turn in which nothing happens is the most frequent one, and each part of it delays the message that comes next.
// So it makes no call that a look at one word can save.
int Worker::do_work(Instant now) {
  if (!begin(now)) return 0;
  if (const Duration gap = now - last_turn_; gap > kSchedulingGap) [[unlikely]] {
    stack_.on_scheduling_gap(now, gap);
    counters_.scheduling_gaps.add();
  }
  last_turn_ = now;
  int served = 0;
  if (mailbox_.has_commands()) [[unlikely]] {
    served = obey_commands(now);
    told_ = true;
  }
  NoMeter none;
  int work = 0;
  // A message need not wait while the NICs are asked, which may take a system call.
  if (taking_ && take_descriptors(none) > 0) {
    ++served;
    if (stack_.wants_to_transmit(now)) work += transmit(now);
  }
  work += receive(now);
  if (ports_.any_unpublished()) ports_.publish();
  if (relays_.connected() != 0) served += run_relays();
  if (datagrams_.any_outgoing()) [[unlikely]]
    work += send_datagrams(now);
  if (stack_.wants_to_transmit(now)) work += transmit(now);
  if (has_finished()) served += finish();
  if (served > 0) served_ = true;
  work += served;
  if (paths_.draining()) end_drains(now);
  if (channels_.awaited()) answer_awaited();
  if (mailbox_.any_reported()) {
    mailbox_.publish();
    told_ = true;
  }
  if (work == 0)
    ++idle_turns_;
  else
    publish_load();
  if (turns_ % kTurnsPerWatch == 0 && (now >= watch_due_ || turns_ % kMostTurnsPerWatch == 0)) {
    watch_due_ = now + kWatchInterval;
    watch_paths(now);
    if (turns_ % kMostTurnsPerWatch == 0)
      publish_counters();
    else
      publish_own_counters();
  }
  return work;
}

// Ends every unit of work. Sends all that can be sent now, because the next unit begins only with the next
// event.
void Worker::end_unit(Instant now) {
  ports_.publish();
  transmit_all(now);
  finish();
  if (paths_.draining()) end_drains(now);
  if (stack_.agenda().any_changed() || waiting_.any_stranded()) {
    paths_.watch_changed(now);
    take_changes();
    transmit_all(now);  // what was stranded, or taken back
  }
  if (channels_.awaited()) answer_awaited();
  if (mailbox_.any_reported()) mailbox_.publish();
}

void Worker::transmit_all(Instant now) {
  while (stack_.wants_to_transmit(now) && transmit(now) > 0) {
  }
}

void Worker::about_to_sleep(Instant now) {
  stack_.flush_acks(now);
  watch_paths(now);
  publish_counters();
}

bool Worker::can_be_woken() {
  return !own_state_.fenced.load(std::memory_order_relaxed) && !stack_.wants_to_transmit(last_turn_) &&
         !waiting_.any_stranded() && !waiting_.any_deferred() && !channels_.awaited() &&
         !mailbox_.any_reported() && !paths_.draining();
}

void Worker::collect_wake_words(WakeWords& into) {
  into.words.clear();
  into.words.push_back(&wake_word_);
  into.polled_queues = queues_.collect_wake_words(into.words);
  into.links = into.words.size() - 1;
  if (taking_) channels_.for_each_wake_word([&](WakeWord& word) { into.words.push_back(&word); });
}

void Worker::announce_sleep() {
  wake_word_.announce();
  queues_.announce_sleep();
  channels_.for_each_wake_word([](WakeWord& word) { word.announce(); });
}

void Worker::withdraw_sleep() {
  wake_word_.withdraw();
  queues_.withdraw_sleep();
  channels_.for_each_wake_word([](WakeWord& word) { word.withdraw(); });
}

Instant Worker::next_deadline() {
  return earlier(stack_.next_deadline(), paths_.next_deadline());
}

// This proxy was stalled, and others have taken over (FO-6). Nothing that it had is of any use.
void Worker::start_anew(Instant now) {
  (void)mailbox_.take_commands([](const WorkerCommand&) {});
  mailbox_.drop_events();
  paths_.restart(now);
  relays_.restart();
  waiting_.clear();
  channels_.clear();
  control_.clear();
  datagram_outbox_.clear();
  (void)datagram_rings_.drain_outgoing([](const Datagram&) {});
  ports_.clear();
  last_turn_ = now;
  mailbox_.report(ProxyResumed{});
  own_state_.writing.store(0, std::memory_order_relaxed);
  for (std::atomic<std::uint64_t>& told : own_state_.reaches) told.store(0, std::memory_order_relaxed);
  own_state_.isolated.store(false, std::memory_order_relaxed);
  own_state_.fenced.store(false, std::memory_order_release);
}

bool Worker::all_acknowledged() const {
  return !waiting_.any_stranded() && !control_.any_queued() &&
         std::none_of(stack_.sub_connections().begin(), stack_.sub_connections().end(),
                      [](const auto& sub) { return sub->has_unfinished(); });
}

// ---------------------------------------------------------------- the control plane

int Worker::obey_commands(Instant now) {
  return mailbox_.take_commands([&](const WorkerCommand& command) {
    std::visit(
        [&](const auto& c) {
          if constexpr (requires { paths_.obey(now, c); })
            obey(now, c);
          else
            obey(c);
        },
        command);
  });
}

void Worker::obey(const DrainPort& c) {
  const PortEntry* const port = ports_.find(c.port);
  channels_.drain(c.port, port != nullptr ? port->channel : nullptr);
}

void Worker::obey(const SendControl& c) {
  control_.push(c);
  send_control();
}

void Worker::send_control() {
  ProtocolTraffic& traffic = protocols_[stack::kControl].traffic;
  while (Outgoing* const message = control_.poll()) {
    ++traffic.sent;
    traffic.sent_bytes += message->bytes;
    dispatch(*message);
  }
}

void Worker::obey(const SendDatagrams&) {
  (void)datagram_rings_.drain_outgoing([&](const Datagram& datagram) {
    // The control plane has no client for it.
    if (datagram.returned != DatagramReturn::kNone) ++protocols_[datagram.protocol].traffic.refused;
    if (send_datagram(datagram)) return;
    if (datagram.returned == DatagramReturn::kNone)
      report_returned(datagram, DatagramReturn::kNoRoom);
    else
      counters_.datagrams_dropped.add();
  });
}

void Worker::obey(const ReclaimLent& c) {
  for (Outgoing* const message : relays_.reclaim(c.proxy.value())) waiting_.strand(*message);
  waiting_.retry_stranded([&](Outgoing& message) { dispatch(message); });
}

void Worker::answer_awaited() {
  channels_.answer([&](const WorkerEvent& event) { mailbox_.report(event); });
}

void Worker::protocol_violation(Channel& channel) {
  if (channel.closed) return;
  channel.closed = true;
  counters_.bad_descriptors.add();
  mailbox_.report(ProtocolViolation{channel.client});
}

int Worker::send_datagrams(Instant now) {
  return datagrams_.drain_outgoing([&](const PlainDatagram& d) {
    (void)stack_.send_datagram(now, d.port, d.peer, ByteView(d.data).first(d.bytes));  // it counts drops
  });
}

// ---------------------------------------------------------------- arrivals

int Worker::receive(Instant now) {
  NoMeter none;
  int frames = 0;
  queues_.receive(frames, [&](LinkId link, ByteView frame) { receive_frame(now, link, frame, true, none); });
  handoffs_.drain(frames, [&](LinkId link, ByteView frame) { receive_frame(now, link, frame, false, none); });
  return frames;
}

// A frame that came to this proxy's queue and is for another one's port.
void Worker::hand_over(LinkId link, ByteView frame, const stack::Stack::Received& received,
                       bool may_hand_over) {
  counters_.misdirected.add();
  stack_.for_each_frame(link, received, frame, [&](ByteView f) {
    if (!may_hand_over || !handoffs_.push(received.proxy, link, f)) counters_.handoff_drops.add();
  });
}

// The packet's records of no connection. False: there is no room for its control messages, and nothing was done.
bool Worker::deliver_unconnected(Instant now, const stack::Stack::Received& received) {
  const auto is_control = [&](const stack::Record& r) {
    return r.kind == stack::RecordKind::kDatagram &&
           protocols_[r.protocol].carries == Protocol::Carries::kControl;
  };
  told_ = true;
  std::size_t control_messages = 0;
  stack::Record record;
  ByteView bytes;
  for (stack::RecordReader reader(received.records, received.record_count); reader.next(&record, &bytes);)
    control_messages += is_control(record) ? 1 : 0;
  if (!mailbox_.has_room(control_messages)) {
    counters_.arrival_ring_full.add();
    return false;
  }
  for (stack::RecordReader reader(received.records, received.record_count); reader.next(&record, &bytes);) {
    if (record.kind < stack::RecordKind::kDatagram) continue;
    if (is_control(record))
      deliver_control(received, bytes);
    else
      deliver_datagram(now, received.source, record, bytes);
  }
  return true;
}

void Worker::deliver_control(const stack::Stack::Received& received, ByteView bytes) {
  ControlReceived event;
  event.from = received.source;
  event.association = {received.sub_connection->config().incarnation,
                       received.sub_connection->peer_incarnation()};
  ProtocolTraffic& traffic = protocols_[stack::kControl].traffic;
  if (!convergence::parse_control(bytes, &event.message)) {
    ++traffic.refused;
    stack_.malformed();
    return;
  }
  ++traffic.received;
  traffic.received_bytes += bytes.size();
  mailbox_.publish(event);
}

// PS-4, PS-5
void Worker::deliver_datagram(Instant now, ClusterId source, const stack::Record& r, ByteView bytes) {
  const stack::ProtocolId id = mutant(Mutant::kConfuseProtocols) ? stack::kDatagrams : r.protocol;
  ProtocolSwitch::Entry& protocol = protocols_[id];
  if (!r.whole() || r.many_pieces || bytes.size() > Datagram::kMaxBytes) {
    ++protocol.traffic.refused;
    stack_.malformed();
    return;
  }
  Datagram d;
  d.protocol = id;
  d.peer = source;
  d.source = r.source;
  d.destination = r.destination;
  d.bytes = static_cast<std::uint16_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), d.data.begin());
  const bool known = protocol.carries == Protocol::Carries::kDatagrams;
  if (r.kind == stack::RecordKind::kReturned) {
    if (known)
      report_returned(d, returned_reason(r.skip));
    else
      ++protocol.traffic.refused;  // and nobody is told, or it would come back for ever
  } else if (!known) {
    refuse_datagram(d, DatagramReturn::kUnknownProtocol);
  } else if (r.maybe_duplicate && !mutant(Mutant::kDeliverDuplicates)) {
    refuse_datagram(d, DatagramReturn::kMaybeDelivered);
  } else {
    hand_to_protocol(now, *protocol.datagrams, d);
  }
}

void Worker::hand_to_protocol(Instant now, DatagramProtocol& protocol, const Datagram& d) {
  Datagram answer;
  answer.protocol = d.protocol;
  answer.peer = d.peer;
  answer.source = d.destination;
  answer.destination = d.source;
  switch (protocol.receive(now, d, answer)) {
    case DatagramProtocol::Verdict::kForClient:
      if (!datagram_rings_.arrived(d)) return refuse_datagram(d, DatagramReturn::kNoRoom);
      break;
    case DatagramProtocol::Verdict::kAnswered:
      if (!send_datagram(answer)) counters_.datagrams_dropped.add();
      break;
    case DatagramProtocol::Verdict::kTaken:
      break;
    case DatagramProtocol::Verdict::kRefused:
      return refuse_datagram(d, DatagramReturn::kRefused);
  }
  ProtocolTraffic& traffic = protocols_[d.protocol].traffic;
  ++traffic.received;
  traffic.received_bytes += d.bytes;
}

// ---------------------------------------------------------------- departures

// A message without a sub-connection that lives, or before anybody looked.
void Worker::dispatch(Outgoing& m) {
  if (stack::SubConnection* const sub = paths_.routes().pick(m.to)) return sub->send(m);
  if (m.borrowed() != nullptr)  // its lender knows better than to pass it round
    return relays_.give_back(m, RelayReturn::Outcome::kNoWay);
  if (relays_.lend(m)) return counters_.lent.add();
  if (stack::SubConnection* const sub = paths_.routes().waiting_place(m.to)) return sub->send(m);
  waiting_.strand(m);
}

void Worker::dispatch_list(stack::OutMessage* list, bool maybe_duplicates) {
  while (list != nullptr) {
    Outgoing& m = static_cast<Outgoing&>(*list);
    list = list->next;
    m.record.maybe_duplicate = m.record.maybe_duplicate || maybe_duplicates;
    counters_.failed_over.add();
    dispatch(m);
  }
}

// False: too many are in flight (PS-6).
bool Worker::send_datagram(const Datagram& d) {
  Outgoing* const message = datagram_outbox_.put(d);
  if (message == nullptr) return false;
  if (d.returned == DatagramReturn::kNone) {
    ProtocolTraffic& traffic = protocols_[d.protocol].traffic;
    ++traffic.sent;
    traffic.sent_bytes += d.bytes;
  }
  dispatch(*message);
  return true;
}

// It goes back to its sender.
void Worker::refuse_datagram(const Datagram& d, DatagramReturn reason) {
  ++protocols_[d.protocol].traffic.refused;
  Datagram back = d;
  back.returned = reason;
  if (!send_datagram(back)) counters_.datagrams_dropped.add();
}

// One of this node came back.
void Worker::report_returned(Datagram d, DatagramReturn reason) {
  ++protocols_[d.protocol].traffic.returned;
  d.returned = reason;
  told_ = true;
  if (!datagram_rings_.arrived(d)) counters_.datagrams_dropped.add();
}

int Worker::run_relays() {
  int work = 0;
  for (std::uint32_t left = relays_.connected(); left != 0; left &= left - 1) {
    const auto p = static_cast<unsigned>(std::countr_zero(left));
    for (; const std::optional<Relays::Returned> returned = relays_.poll_returned(p); ++work) {
      Outgoing& m = *returned->message;
      if (returned->outcome == RelayReturn::Outcome::kNoWay) {
        m.record.maybe_duplicate = true;
        waiting_.strand(m);
      } else {
        m.failed = returned->outcome == RelayReturn::Outcome::kFailed;
        finish(m);
      }
    }
    for (; Outgoing* const message = relays_.poll_borrowed(p); ++work) dispatch(*message);
    if (relays_.poll_forgotten(p)) mailbox_.report(ProxyForgotten{ProxyId(static_cast<std::uint8_t>(p))});
  }
  return work;
}

int Worker::transmit(Instant now) {
  return queues_.transmit([&](LinkId link, MutableBytes room) {
    const std::size_t length = stack_.poll_transmit(now, link, room);
    if (length > 0) counters_.frame_bytes_sent.add(length);
    return length;
  });
}

int Worker::finish() {
  int finished = 0;
  stack_.agenda().take_finished([&](std::size_t i) {
    stack::OutMessage* m = stack_.sub_connections()[i]->take_finished();
    while (m != nullptr) {
      stack::OutMessage* const next = m->next;
      finish(static_cast<Outgoing&>(*m));
      m = next;
      ++finished;
    }
  });
  if (waiting_.any_deferred()) retry_deferred();
  if (channels_.release_due()) channels_.release();
  return finished;
}

void Worker::finish(Outgoing& m) {
  if (m.borrowed() != nullptr)
    return relays_.give_back(m, m.failed ? RelayReturn::Outcome::kFailed : RelayReturn::Outcome::kDelivered);
  if (m.channel != nullptr) return channels_.finish(m);
  if (m.record.protocol != stack::kControl) {
    const bool failed = m.failed;
    const Datagram d = datagram_outbox_.finish(m);
    if (failed && d.returned == DatagramReturn::kNone) report_returned(d, DatagramReturn::kMaybeDelivered);
    return;
  }
  control_.finish(m);
  send_control();
}

void Worker::fail(Outgoing& m) {
  m.failed = true;
  finish(m);
}

// Credits that no proxy's writing keeps back any more. Whose port is gone, nobody writes for.
void Worker::retry_deferred() {
  waiting_.retry_deferred([&](Outgoing& m) {
    const PortEntry* const port = ports_.find(m.record.source);
    if (port != nullptr && !may_grant(states_, proxies(), port->id, m.record.position))
      waiting_.defer(m);
    else
      dispatch(m);
  });
}

// ---------------------------------------------------------------- paths

void Worker::watch_paths(Instant now) {
  paths_.watch(now);
  take_changes();
}

void Worker::take_changes() {
  carry_out_paths();
  if (paths_.refused_peer()) refused_peer_.store(true, std::memory_order_relaxed);
  if (const std::uint8_t other = stack_.other_version(); other != 0)
    other_version_.store(other, std::memory_order_relaxed);
  const std::span<const std::uint64_t> reached = paths_.reached().words();
  for (std::size_t i = 0; i < reached.size(); ++i) {
    std::atomic<std::uint64_t>& told = own_state_.reaches[i];
    if (reached[i] != told.load(std::memory_order_relaxed)) told.store(reached[i], std::memory_order_relaxed);
  }
  paths_.recall_waiting([&](std::size_t word) {
    std::uint64_t all = 0;
    for (unsigned p = 0; p < proxies(); ++p) all |= states_[p].reaches[word].load(std::memory_order_relaxed);
    return all;
  });
  carry_out_paths();
  if (waiting_.any_stranded()) waiting_.retry_stranded([&](Outgoing& message) { dispatch(message); });
  if (const auto conflict = stack_.take_address_conflict()) mailbox_.report(AddressClaimed{*conflict});
  while (const auto move = stack_.take_address_move()) mailbox_.report(PeerMoved{*move});
  const bool ready = stack_.all_established();
  if (ready != ready_.load(std::memory_order_relaxed)) ready_.store(ready, std::memory_order_release);
}

void Worker::end_drains(Instant now) {
  paths_.end_drains(now, [&](ClusterId cluster) { return relays_.any_lent(cluster); });
  carry_out_paths();
}

void Worker::carry_out_paths() {
  while (const std::optional<PathMonitor::Decision> decision = paths_.poll())
    std::visit([&](const auto& d) { carry_out(d); }, *decision);
}

void Worker::carry_out(const PathMonitor::Fail& decision) {
  for (stack::OutMessage* m = decision.messages; m != nullptr;) {
    stack::OutMessage* const next = m->next;
    fail(static_cast<Outgoing&>(*m));
    m = next;
  }
}

void Worker::carry_out(const PathMonitor::FailWaiting& decision) {
  waiting_.remove(decision.to, [&](Outgoing& message) { fail(message); });
}

// ---------------------------------------------------------------- counters

// Publishes the load that Dispatch::kLeastLoaded compares: at every turn that changed it.
void Worker::publish_load() {
  std::uint64_t queued = 0;
  for (const auto& sub : stack_.sub_connections()) queued += sub->queued_bytes();
  counters_.queued_bytes.set(queued);
}

void Worker::publish_counters() {
  publish_own_counters();
  counters_.receive_drops.set(queues_.receive_drops());  // a system call for each socket
}

void Worker::publish_own_counters() {
  counters_.turns.set(turns_);
  counters_.idle_turns.set(idle_turns_);
  publish_stack_counters(stack_, counters_);
  protocols_.publish(counters_);
  counters_.transmit_drops.set(queues_.transmit_drops());
  counters_.icmp_errors.set(queues_.icmp_errors());
  counters_.address_changes.set(queues_.address_changes());
}

}  // namespace braid::proxy
