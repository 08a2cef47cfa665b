#include "tests/sim/world.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <span>
#include <variant>

#include "sim/virtual_config.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/segment.h"

namespace braid::sim {
namespace {

// After the faults everything must come to its end within this time, and longer than a peer's death if peers
// die. Far above what any of it takes: the slowest timers are 200 ms.
constexpr Duration kLiveness = 30_s;
// A world that has more events has failed: it never ends.
constexpr std::uint64_t kMaxEvents = 20'000'000;
// Beside what each pair of nodes may have.
constexpr std::uint32_t kMaxFrames = 40'000;
constexpr std::size_t kMaxHeap = std::size_t{256} << 20;
constexpr std::uint32_t kMaxFramesOfPair = 16;
constexpr std::size_t kMaxHeapOfPair = 64u << 10;
constexpr std::uint64_t kEventsBetweenMemoryChecks = 4096;

std::size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Of kPhase: the network is good from now on; or only the clock moves.
constexpr std::uint8_t kFaultsEnd = 0;
constexpr std::uint8_t kClock = 1;

}  // namespace

// ---------------------------------------------------------------- making a world

FaultWorld::FaultWorld(const WorldConfig& config, bool trace)
    : config_(config),
      random_(config.seed),
      log_(events_, trace),
      network_(config_, 1, static_cast<NetworkEvents&>(*this)),
      nodes_(config_, random_, events_, log_, network_),
      trouble_(config_, random_, events_),
      clients_(config_, random_, events_, log_, nodes_, trouble_, static_cast<FaultDriver&>(*this)),
      heap_at_start_(heap_bytes()) {
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    // Some come later than others.
    const Duration late = random_.chance(0.5) ? 0_us : from_us(random_.uniform() * 3000);
    trouble_.plan_start(n, Instant() + late);
  }
  clients_.plan();
  trouble_.plan(clients_.size());
  if (config_.shared_memory != 0)
    shared_memory_ = std::make_unique<SharedMemory>(static_cast<Stage&>(*this), random_.next(),
                                                    from_us(config_.pace_us), trace);
  events_.push(trouble_.faults_end(), {WorldEvent::Kind::kPhase, kFaultsEnd, 0, 0, 0});
}

FaultWorld::~FaultWorld() {
  shared_memory_.reset();
}

// ---------------------------------------------------------------- running it

WorldResult FaultWorld::run() {
  const Duration patience = kLiveness + from_ms(2 * config_.peer_death_ms);
  while (!all_over() && now() < trouble_.quiet_from() + patience && step()) {
  }
  if (!log_.has_failed() && !all_over())
    log_.fail(fmt::format("the network has been good for {:.1f} s, and this is still unfinished:{}",
                          (now() - trouble_.quiet_from()).s(), unfinished()));
  if (!log_.has_failed()) check_end();
  result_.failure = log_.failure();
  result_.events = events_.popped();
  result_.virtual_time = now() - Instant();
  result_.messages = clients_.flows().messages();
  result_.connections = clients_.flows().connections();
  result_.datagrams = clients_.datagrams().delivered();
  result_.datagrams_returned = clients_.datagrams().returned();
  result_.peers_lost = nodes_.peers_lost();
  result_.proxies_fenced = nodes_.proxies_fenced();
  result_.network = network_.counts();
  return result_;
}

bool FaultWorld::step() {
  if (log_.has_failed() || events_.empty()) return false;
  const WorldEvent event = events_.pop();
  if (handle(event)) {
    const std::uint64_t what = event.kind == WorldEvent::Kind::kFrame ? event.b : event.a;
    result_.trace_hash = mix(mix(result_.trace_hash, static_cast<std::uint64_t>(now().ns())),
                             static_cast<std::uint64_t>(event.kind) << 56 | std::uint64_t{event.node} << 48 |
                                 std::uint64_t{event.index} << 32 | what);
  }
  if (events_.popped() % kEventsBetweenMemoryChecks == 0) note_memory();
  if (events_.popped() >= kMaxEvents) log_.fail(fmt::format("it does not end:{}", unfinished()));
  return !log_.has_failed();
}

bool FaultWorld::run_until(Instant end) {
  while (events_.next_time() <= end)
    if (!step()) return false;
  // An event of its own moves the clock there.
  if (now() < end) {
    events_.push(end, {WorldEvent::Kind::kPhase, kClock, 0, 0, 0});
    while (now() < end)
      if (!step()) return false;
  }
  return true;
}

bool FaultWorld::handle(const WorldEvent& e) {
  switch (e.kind) {
    case WorldEvent::Kind::kFrame: {
      const int proxy = network_.land(e.node, e.index, {e.a, e.b});
      if (proxy >= 0) nodes_.wake_proxy(e.node, static_cast<unsigned>(proxy), now());
      return true;
    }
    case WorldEvent::Kind::kWorker:
      return nodes_.on_worker(e.node, e.index);
    case WorldEvent::Kind::kControl:
      return nodes_.on_control(e.node);
    case WorldEvent::Kind::kClient:
      return clients_.on_event(e.index);
    case WorldEvent::Kind::kProgram:
      if (shared_memory_ != nullptr) shared_memory_->turn(e.node);
      return true;
    case WorldEvent::Kind::kTrouble:
      on_trouble(e);
      return true;
    case WorldEvent::Kind::kPhase:
      if (e.node == kClock) return false;
      end_faults();
      return true;
  }
  return false;
}

void FaultWorld::end_faults() {
  log_.trace("--- the network is good from now on, and everybody takes what arrives");
  network_.stop_faults();
  nodes_.end_stalls();
  clients_.end_stops();
}

void FaultWorld::arrives(Instant at, unsigned node, unsigned link, FrameRef frame) {
  events_.push(at, {WorldEvent::Kind::kFrame, static_cast<std::uint8_t>(node),
                    static_cast<std::uint16_t>(link), frame.buffer, frame.length});
}

std::unique_ptr<proxy::Service> FaultWorld::service(unsigned cluster) {
  if (!nodes_.is_running(cluster)) return nullptr;
  return std::make_unique<FaultService>(static_cast<FaultDriver&>(*this), nodes_, cluster);
}

void FaultWorld::call_at(Instant at, unsigned cluster) {
  events_.push(at, {WorldEvent::Kind::kProgram, static_cast<std::uint8_t>(cluster), 0, 0, 0});
}

// ---------------------------------------------------------------- trouble

namespace {

double ms_of(Instant at) {
  return (at - Instant()).ms();
}

stack::MacAddress forged_station(const ForgedArp& forged) {
  return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(forged.station)};
}

std::array<std::byte, kEthernetHeaderBytes + 46> frame_of(const ForgedArp& forged) {
  const stack::MacAddress nobody = forged_station(forged);
  const stack::Ipv4Address address = *stack::Ipv4Address::parse(address_of(Station{forged.node, 0}));
  std::array<std::byte, kEthernetHeaderBytes + 46> frame{};
  const std::size_t at =
      stack::write_ethernet(frame, stack::MacAddress::broadcast(), nobody, stack::EtherType::kArp);
  stack::write_arp(
      std::span(frame).subspan(at),
      {.operation = forged.is_request ? stack::ArpOperation::kRequest : stack::ArpOperation::kReply,
       .sender_mac = nobody,
       .sender_ip = address,
       .target_mac = stack::MacAddress(),
       .target_ip = address});
  return frame;
}

}  // namespace

void FaultWorld::on_trouble(const WorldEvent& event) {
  // Of clients' trouble the event's number is no node.
  TroublePlanner::NodeState state;
  if (event.node < nodes_.size()) state = {nodes_.is_running(event.node), network_.link_up(event.node, 0)};
  if (const std::optional<Trouble> trouble = trouble_.decide(event, state))
    std::visit([this](const auto& t) { carry_out(t); }, *trouble);
  trouble_.plan_next(event);
}

void FaultWorld::carry_out(const Partition& p) {
  log_.trace("--- c{} and c{} do not hear each other until {:.6f} ms", p.node, p.other, ms_of(p.until));
  network_.cut(p.node, p.other, 0, p.until);
  network_.cut(p.other, p.node, 0, p.until);
}

void FaultWorld::carry_out(const PathCut& cut) {
  log_.trace("--- c{}.p{} and c{}.p{} do not hear each other {}", cut.proxy.cluster, cut.proxy.proxy,
             cut.peer.cluster, cut.peer.proxy,
             cut.until == Instant::never() ? "again" : fmt::format("until {:.6f} ms", ms_of(cut.until)));
  network_.cut_path(cut.proxy, cut.peer, cut.until);
}

void FaultWorld::carry_out(const LinkChange& change) {
  log_.trace("--- the link of c{} is {}", change.node, change.up ? "up" : "down");
  network_.set_link(change.node, 0, change.up);
}

void FaultWorld::carry_out(const ProxyStall& stall) {
  log_.trace("--- c{}.p{} is not scheduled until {:.6f} ms", stall.proxy.cluster, stall.proxy.proxy,
             ms_of(stall.until));
  nodes_.stall(stall.proxy, stall.until);
}

void FaultWorld::carry_out(const ProxyDeath& death) {
  log_.trace("--- c{}.p{} is dead until {:.6f} ms", death.proxy.cluster, death.proxy.proxy,
             ms_of(death.until));
  nodes_.stall_for_good(death.proxy, death.until);
}

void FaultWorld::carry_out(const ProxyResize& resize) {
  log_.trace("--- c{} has {} active proxies", resize.node, resize.active);
  nodes_.set_active_proxies(resize.node, resize.active);
}

void FaultWorld::carry_out(const ControlStall& stall) {
  log_.trace("--- the control plane of c{} is not scheduled until {:.6f} ms", stall.node, ms_of(stall.until));
  nodes_.stall_control(stall.node, stall.until);
}

void FaultWorld::carry_out(const ClockJump& jump) {
  log_.trace("--- the clock of c{} jumps by {:.6f} ms", jump.node, jump.by.ms());
  nodes_.jump(jump.node, jump.by);
}

void FaultWorld::carry_out(const NodeHold& hold) {
  log_.trace("--- nothing of c{} is scheduled until {:.6f} ms", hold.node, ms_of(hold.until));
  nodes_.hold(hold.node, hold.until);
}

void FaultWorld::carry_out(const NodeStop& stop) {
  log_.trace("--- c{} is stopped until {:.6f} ms", stop.node, ms_of(stop.until));
  nodes_.stop(stop.node, stop.until);
}

void FaultWorld::carry_out(const NodeContinue& node) {
  log_.trace("--- c{} goes on", node.node);
  nodes_.end_stop();
}

void FaultWorld::carry_out(const ForgedArp& forged) {
  log_.trace("--- c{} is told that c{} is at {}", forged.receiver, forged.node,
             forged_station(forged).to_string());
  network_.inject(forged.node, forged.receiver, 0, frame_of(forged));
}

void FaultWorld::carry_out(const NodeDeath& death) {
  log_.trace("--- c{} dies", death.node);
  nodes_.kill(death.node);
  clients_.kill_those_of(death.node);
}

void FaultWorld::carry_out(const NodeStart& start) {
  log_.trace("--- c{} starts", start.node);
  nodes_.start(start.node);
}

void FaultWorld::carry_out(const ClientDeath& death) {
  log_.trace("--- client {} dies", death.client);
  clients_.kill(death.client);
}

void FaultWorld::carry_out(const ClientStop& stop) {
  log_.trace("--- client {} takes nothing until {:.6f} ms", stop.client, ms_of(stop.until));
  clients_.stop(stop.client, stop.until);
}

void FaultWorld::carry_out(const Pause& pause) {
  log_.trace("--- all clients pause until {:.6f} ms", ms_of(pause.until));
  for (unsigned c = 0; c < clients_.size(); ++c) clients_.stop(c, pause.until);
}

// ---------------------------------------------------------------- the end

bool FaultWorld::all_over() const {
  if (now() < trouble_.faults_end() || !clients_.all_over()) return false;
  for (unsigned n = 0; n < nodes_.size(); ++n)
    if (!nodes_.is_running(n)) return false;
  return shared_memory_ == nullptr || shared_memory_->over();
}

std::string FaultWorld::unfinished() const {
  std::string text = clients_.unfinished();
  if (shared_memory_ != nullptr) text += shared_memory_->unfinished();
  return text;
}

void FaultWorld::note_memory() {
  heap_most_ = std::max(heap_most_, heap_bytes());
  const std::size_t pairs = std::size_t{nodes_.size()} * (nodes_.size() - 1);
  if (network_.frames_in_flight() > kMaxFrames + pairs * kMaxFramesOfPair)
    log_.fail(fmt::format("{} frames are in flight", network_.frames_in_flight()));
  if (heap_most_ > heap_at_start_ + kMaxHeap + pairs * kMaxHeapOfPair)
    log_.fail(fmt::format("{} MiB of heap are in use", (heap_most_ - heap_at_start_) >> 20));
}

// Everybody goes home; what is left then is a leak.
void FaultWorld::check_end() {
  if (shared_memory_ != nullptr) result_.programs = shared_memory_->given_up() ? 0 : 1;
  shared_memory_.reset();
  clients_.end();
  bool patient = false;
  for (unsigned a = 0; a < nodes_.size(); ++a)
    for (unsigned b = 0; b < nodes_.size(); ++b) patient = patient || (a != b && may_lose(a, b));
  // While a proxy is dead its peers may not be able to tell its node that they have fenced it.
  const Instant patience =
      std::max(now(), trouble_.quiet_from()) + 2_s + (patient ? from_ms(2 * config_.peer_death_ms) : 0_s);
  while (nodes_.holds_clients() && now() < patience && step()) {
  }
  if (const std::string held = nodes_.held_clients(); !held.empty())
    log_.fail(fmt::format("something is still held of clients that are gone:{}", held));
  const FaultNodes::Totals totals = nodes_.check_counters();
  clients_.check_counters();
  result_.retransmissions = totals.retransmissions;
  result_.paths_fenced = totals.paths_fenced;
  result_.trains_sent = totals.trains_sent;
  result_.trains_received = totals.trains_received;
}

namespace {

const char* record_name(const stack::Record& r) {
  switch (r.kind) {
    case stack::RecordKind::kMessage:
      return "message";
    case stack::RecordKind::kCredit:
      return "credit";
    case stack::RecordKind::kDatagram:
      return r.protocol == stack::kControl ? "control" : "datagram";
    case stack::RecordKind::kReturned:
      return "returned datagram";
  }
  return "?";
}

}  // namespace

// A frame as a person reads it.
void FaultWorld::traced(unsigned from, unsigned to, unsigned link, const char* fate, ByteView frame) {
  if (!log_.tracing()) return;
  static constexpr const char* kTypes[] = {"?", "hello", "data", "ack", "probe"};
  constexpr std::size_t kHeaders = 42;
  stack::PacketHeader h;
  std::size_t length = 0;
  std::string text = fmt::format("{} bytes", frame.size());
  if (frame.size() > kHeaders && stack::parse_packet_header(frame.subspan(kHeaders), &h, &length)) {
    text = fmt::format("p{} to p{}  {:5} epochs {:04x} {:04x}  seq {} ack {}", h.source.proxy.value(),
                       h.destination.proxy.value(), kTypes[static_cast<unsigned>(h.type) % 5],
                       h.sender_epoch & 0xffff, h.receiver_epoch & 0xffff, h.seq.value(), h.ack.value());
    for (unsigned w = 0; w < h.sack_words; ++w) text += fmt::format(" {:x}", h.sack[w]);
    stack::RecordReader reader(frame.subspan(kHeaders + length), h.records);
    stack::Record r;
    for (ByteView bytes; reader.next(&r, &bytes);)
      text +=
          fmt::format(" [{}{} {:x} to {:x} at {}: {}+{} of {}]", record_name(r),
                      r.messages > 0 ? fmt::format(" train of {}", r.messages) : "", r.source.value(),
                      r.destination.value(), r.position.value(), r.message_offset, r.bytes, r.message_bytes);
  }
  log_.trace("c{} to c{} link {}  {}  {}", from, to, link, text, fate);
}

}  // namespace braid::sim
