#include "stack/sub_connection.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/mutant.h"

namespace braid::stack {

namespace {

// What follows the header of a challenge, and of its answer. They carry no words of selective acknowledgement.
constexpr std::size_t kChallengeBytes = 8;
constexpr std::size_t kChallengePacketBytes = kPacketHeaderBytes + kChallengeBytes + kSealBytes;

// What of a packet is the header's and the records'.
std::size_t max_packet_bytes(const SubConnectionConfig& config) {
  return config.max_payload_bytes - seal_bytes(config);
}

// Differs between the sub-connections of a stack, and between incarnations that were given the same seed.
std::array<std::byte, 14> purpose_of_keys(const SubConnectionConfig& config, std::uint64_t epoch) {
  std::array<std::byte, 14> purpose;
  store(purpose.data(), config.local.cluster.value());
  store(purpose.data() + 2, config.local.proxy.value());
  store(purpose.data() + 3, config.remote.cluster.value());
  store(purpose.data() + 5, config.remote.proxy.value());
  store(purpose.data() + 6, epoch);
  return purpose;
}

}  // namespace

SubConnection::Seal::Seal(const SubConnectionConfig& config, std::uint64_t epoch)
    : exchange(config.security, purpose_of_keys(config, epoch)) {}

SubConnection::SubConnection(const SubConnectionConfig& config, std::uint64_t epoch, Instant now,
                             Agenda::Entry entry)
    : config_(config),
      seal_(config.security.secret ? std::make_unique<Seal>(config, epoch) : nullptr),
      handshake_(config_, epoch, now, seal_ ? &seal_->exchange : nullptr),
      messages_(max_packet_bytes(config)),
      recovery_(config),
      acknowledger_(config),
      liveness_(config, now),
      entry_(entry) {
  entry_.set_due(now);
  wipe(config_.security.seed);
  CHECK_GE(max_packet_bytes(config), kMaxPacketHeaderBytes + kPartRecordBytes + kCutBytes);
  CHECK_LT(config.peer_death, kTimestampRange);
  CHECK_NE(epoch, 0u);
}

SubConnectionStats SubConnection::stats() const {
  SubConnectionStats stats = stats_;
  add_verdicts(stats);
  stats.messages_sent = messages_.messages();
  stats.message_bytes_sent = messages_.bytes();
  if (seal_ != nullptr) {
    const PeerAddress::Counts& counts = seal_->address.counts();
    stats.address_moves = counts.moves;
    stats.address_challenges = counts.challenges;
    stats.address_validations_failed = counts.failed_validations;
  }
  return stats;
}

void SubConnection::add_verdicts(SubConnectionStats& stats) const {
  const RetransmissionVerdicts& verdicts = recovery_.window().verdicts();
  stats.spurious_timeouts += verdicts.spurious_by(LossCause::kTimeout);
  stats.spurious_fast_retransmissions += verdicts.spurious_by(LossCause::kOvertaken);
}

// ---------------------------------------------------------------- sending

void SubConnection::send(OutMessage& m) {
  CHECK(!end_.closing());
  if (!messages_.push(m)) return;
  entry_.set_ready();
  if (handshake_.asleep()) [[unlikely]]
    greet(Instant());
  if (shut_out()) entry_.set_due(Instant());  // so that the window is probed
}

std::size_t SubConnection::poll(Instant now, MutableBytes room, std::uint64_t* sum) {
  if (entry_.due() <= now) on_timer(now);
  elsewhere_ = nullptr;
  if (lost_) return 0;  // SC-7
  if (handshake_.hello_due()) return write_hello(now, room, sum);
  if (!established()) return 0;
  if (seal_ != nullptr && seal_->address.due() <= now) [[unlikely]] {
    if (const std::size_t written = write_validation(now, room, sum)) return written;
  }
  std::size_t written = 0;
  if (const std::optional<Seq> lost = recovery_.window().next_lost())
    written = write_lost(now, *lost, room, sum);
  else if (messages_.has_unsent() && may_send(now))
    written = write_new(now, room, sum);
  else
    written = write_due(now, room, sum);
  if (entry_.due() <= now) schedule();
  if (written != 0 && seal_ != nullptr && liveness_.path_dead()) [[unlikely]]
    go_elsewhere(seal_->address.next_while_silent());  // SE-8
  return written;
}

[[gnu::always_inline]] inline PacketHeader SubConnection::header_of(Instant now, PacketType type, Seq seq) {
  PacketHeader h;
  h.type = type;
  h.source = config_.local;
  h.destination = config_.remote;
  h.sender_epoch = handshake_.epoch();
  h.receiver_epoch = handshake_.candidate().epoch;
  h.seq = seq;
  h.timestamp = timestamp(now);
  acknowledger_.describe(now, h);
  return h;
}

[[gnu::always_inline]] inline PacketWriter SubConnection::open_packet(Instant now, PacketType type, Seq seq,
                                                                      MutableBytes room) {
  return {room, header_of(now, type, seq), seal_ == nullptr ? nullptr : &seal_->unmoved};
}

[[gnu::always_inline]] inline std::size_t SubConnection::close_packet(Instant now, const PacketWriter& packet,
                                                                      std::uint8_t records, bool ack_at_once,
                                                                      std::uint64_t* sum) {
  ++stats_.packets_sent;
  liveness_.sent(now);
  acknowledger_.sent();
  const std::size_t written = packet.finish(records, ack_at_once, sum);
  return seal_ == nullptr ? written : seal(packet.begin(), written, sum);
}

// SE-5
std::size_t SubConnection::seal(std::byte* packet, std::size_t bytes, std::uint64_t* sum) {
  PacketHeader h;
  std::size_t header = 0;
  CHECK(parse_packet_header({packet, bytes}, &h, &header));
  const std::size_t whole = seal_->sealer.seal(packet, header, bytes, seal_->unmoved.parts());
  seal_->unmoved.clear();
  *sum = checksum_add(0, {packet, whole});
  return whole;
}

[[gnu::always_inline]] inline std::size_t SubConnection::write_new(Instant now, MutableBytes room,
                                                                   std::uint64_t* sum) {
  PacketWriter packet = open_packet(now, PacketType::kData, recovery_.window().next(), room);
  const PacketContent content = messages_.cut(packet);
  // Nothing else would soon acknowledge the last packet of a burst (SW-8). A packet alone is often answered,
  // and the answer acknowledges it.
  const bool last = !messages_.has_unsent();
  const bool ask = ++burst_ > 1 && last;
  if (last) burst_ = 0;
  const std::size_t written = close_packet(now, packet, content.records, ask, sum);
  recovery_.sent(now, content, static_cast<std::uint32_t>(written), ask);
  data_left(now);
  return written;
}

std::size_t SubConnection::write_lost(Instant now, Seq seq, MutableBytes room, std::uint64_t* sum) {
  const PacketContent& content = recovery_.window().content(seq);
  PacketWriter packet = open_packet(now, PacketType::kData, seq, room);
  MessageQueue::write(content, packet);
  const std::size_t written = close_packet(now, packet, content.records, true, sum);
  recovery_.resent(now, seq);
  ++stats_.retransmissions;
  data_left(now);
  return written;
}

void SubConnection::data_left(Instant now) {
  liveness_.active(now);
  wake(recovery_.deadline_after_sending(now));
  const Instant departure = recovery_.congestion().departure();
  if (messages_.has_unsent() && departure > now) wake(departure);
}

std::size_t SubConnection::write_due(Instant now, MutableBytes room, std::uint64_t* sum) {
  if (recovery_.probe_wanted()) {  // SW-10; it acknowledges, too
    recovery_.probed(now);
    return write_empty(now, PacketType::kProbe, room, sum, true);
  }
  if (acknowledger_.due() <= now) {
    ++stats_.acknowledgements_sent;
    return write_empty(now, PacketType::kAck, room, sum);
  }
  if (shut_out() && peer_window_.probe_due() <= now) {  // SW-9
    ++stats_.window_probes;
    liveness_.active(now);
    peer_window_.probed(now, liveness_.probe_interval());
    return write_empty(now, PacketType::kProbe, room, sum);
  }
  if (may_end() && end_.close_due() <= now) {  // SC-11
    const std::size_t written = write_empty(now, PacketType::kClose, room, sum);
    if (end_.close_sent(now, recovery_.rtt().rto())) start_over(now, SubConnectionEvent::kEnded, epoch());
    return written;
  }
  if (liveness_.probe_due() <= now) return write_empty(now, PacketType::kProbe, room, sum);  // SC-8
  return 0;
}

std::size_t SubConnection::write_empty(Instant now, PacketType type, MutableBytes room, std::uint64_t* sum,
                                       bool ack_at_once) {
  return close_packet(now, open_packet(now, type, Seq(), room), 0, ack_at_once, sum);
}

std::size_t SubConnection::write_hello(Instant now, MutableBytes room, std::uint64_t* sum) {
  ++stats_.packets_sent;
  liveness_.sent(now);
  liveness_.active(now);
  if (seal_ != nullptr) go_elsewhere(seal_->address.hello_to());  // SE-10
  return handshake_.write_hello(now, room, sum);
}

// SE-8. It acknowledges nothing that other packets do not: it may get lost on purpose.
std::size_t SubConnection::write_validation(Instant now, MutableBytes room, std::uint64_t* sum) {
  PeerAddress& address = seal_->address;
  const bool responds = address.response_due();
  if (!responds && !address.take_challenge(now, kChallengePacketBytes)) return 0;
  PacketHeader h = header_of(now, responds ? PacketType::kResponse : PacketType::kChallenge, Seq());
  h.sack_words = 0;
  h.timestamp_echo = 0;
  const std::size_t header = write_packet_header(room.data(), h);
  store(room.data() + header, responds ? address.take_response() : address.challenge());
  go_elsewhere(responds ? address.response_to() : address.candidate());
  ++stats_.packets_sent;
  return seal(room.data(), header + kChallengeBytes, sum);
}

// SC-14
void SubConnection::greet(Instant when) {
  handshake_.greet(when);
  if (state_ == State::kHandshake) wake(handshake_.timer_due());
}

// ---------------------------------------------------------------- receiving

PacketFate SubConnection::on_packet(Instant now, const PacketHeader& h, ByteView rest, Duration unseen,
                                    const Origin& from) {
  if (h.sender_epoch == 0) return PacketFate::kRefused;
  if (state_ == State::kFenced || state_ == State::kClosed) return PacketFate::kUnknownEpoch;  // SC-10
  if (h.type == PacketType::kHello) return on_hello(now, h, rest, from);
  if (seal_ != nullptr) [[unlikely]] {
    if (const std::optional<PacketFate> fate = open(now, h, rest, from)) return *fate;
  }
  const bool validates = h.type >= PacketType::kChallenge;
  if (validates && seal_ == nullptr) return PacketFate::kRefused;
  if (h.type != PacketType::kData && (h.records != 0 || rest.size() != (validates ? kChallengeBytes : 0)))
    return PacketFate::kRefused;
  if (handshake_.answers_challenge(h)) {  // SC-3
    take_over(now);                       // what else the packet says is retransmitted
    handshake_.confirm();
    schedule();
    return PacketFate::kNothing;
  }
  // SC-2. An unknown sender in the handshake is one whose hello, and shared hash, we have not seen.
  if (!handshake_.is_current(h) && !mutant(Mutant::kAcceptOldEpoch)) return unknown_epoch(now);
  if (lost_) return PacketFate::kNothing;  // SC-7
  if (!established()) establish(now, Handshake::Peer(handshake_.candidate()));
  if (!on_acknowledgement(now, h, unseen)) return PacketFate::kRefused;

  liveness_.received(now);
  if (liveness_.path_dead() || !handshake_.confirmed()) [[unlikely]] {
    liveness_.set_path_alive();
    handshake_.confirm();
    entry_.set_changed();
  }
  PacketFate fate = PacketFate::kNothing;
  if (h.type == PacketType::kClose) return on_close(now);
  if (h.type == PacketType::kProbe) acknowledger_.probed(now, h, unseen);
  if (h.type == PacketType::kResponse) on_response(from, load<std::uint64_t>(rest.data()));
  if (h.type == PacketType::kChallenge) {
    seal_->address.challenged(from, load<std::uint64_t>(rest.data()));
    wake(now);
  }
  if (h.type == PacketType::kData) {
    liveness_.active(now);
    switch (acknowledger_.arrived(now, h, unseen)) {
      case PacketArrival::kNew:
        return PacketFate::kRecords;
      case PacketArrival::kDuplicate:
        fate = PacketFate::kDuplicate;
        break;
      case PacketArrival::kBeyondWindow:  // SW-1
        fate = PacketFate::kRefused;
        break;
    }
  }
  wake(acknowledger_.due());
  return fate;
}

// An end that waits for its first use has had a predecessor, and the peer has not noticed yet (SC-14).
PacketFate SubConnection::unknown_epoch(Instant now) {
  if (handshake_.asleep()) greet(now);
  return PacketFate::kUnknownEpoch;
}

// SE-5, SE-6. Before the keys are known nothing can be opened.
std::optional<PacketFate> SubConnection::open(Instant now, const PacketHeader& h, ByteView& rest,
                                              const Origin& from) {
  if (!established() || !handshake_.is_current(h)) {
    if (handshake_.ask_again(now, h)) {
      seal_->address.answer_to(from, false);
      entry_.set_due(now);
    }
    return unknown_epoch(now);
  }
  if (rest.size() > config_.max_payload_bytes) return PacketFate::kForged;
  if (rest.size() > seal_->room.size())
    seal_->room.resize(rest.size() <= kChallengePacketBytes ? kChallengePacketBytes
                                                            : config_.max_payload_bytes);
  const std::size_t header = packet_header_bytes(h.sack_words);
  switch (seal_->opener.open({rest.data() - header, header}, rest, seal_->room.data())) {
    case Opening::kForged:
      return PacketFate::kForged;
    case Opening::kReplayed:
      return PacketFate::kReplayed;
    case Opening::kOpened:
      break;
  }
  if (from.end.port != 0)
    watch_address(now, from, header + rest.size(), packet_number(rest) + 1 == seal_->opener.end());
  rest = seal_->records = ByteView(seal_->room).first(rest.size() - kSealBytes);
  return std::nullopt;
}

// SE-8
void SubConnection::watch_address(Instant now, const Origin& from, std::size_t bytes, bool newest) {
  if (seal_->address.arrived(from, bytes, newest) != PeerAddress::Arrival::kBegins) return;
  seal_->address.begin(now, from, bytes, seal_->exchange.random_number());
  wake(now);
}

void SubConnection::on_response(const Origin& from, std::uint64_t challenge) {
  const Ipv4Address before = seal_->address.current().address;
  if (!seal_->address.answered(from, challenge)) return;
  moved_ = true;
  // Another port of a NAT is no other way (RFC 9000, 9.4).
  if (before != seal_->address.current().address) recovery_.start_path(config_);
}

void SubConnection::delivered(Instant now, const PacketHeader& h) {
  if (!handshake_.is_current(h)) return;  // fenced in between (SC-10)
  acknowledger_.delivered(now, h);
  wake(acknowledger_.due());
}

void SubConnection::set_receive_window(Instant now, std::uint32_t packets, std::uint32_t bytes) {
  if (!acknowledger_.set_window(packets, bytes) || !established()) return;
  acknowledger_.acknowledge_at(now);  // a peer that is shut out waits for this
  wake(now);
}

void SubConnection::update_peer_window(Instant now, const PacketHeader& h) {
  peer_window_.update(now, h, recovery_.rtt().rto());
  if (messages_.has_unsent()) entry_.set_ready();
  if (peer_window_.closed()) wake(peer_window_.probe_due());
}

bool SubConnection::on_acknowledgement(Instant now, const PacketHeader& h, Duration unseen) {
  if (h.timestamp_echo == 0 && h.ack == recovery_.window().base() && h.sack_words == 0) {  // it tells nothing
    if (peer_window_.differs(h)) update_peer_window(now, h);
    return true;
  }
  const LossRecovery::AckOutcome outcome =
      recovery_.on_ack(now, h, unseen, [&](const PacketContent& content) {
        messages_.acknowledged(content);
        entry_.set_finished();
      });
  if (outcome.ack == LossRecovery::Ack::kImpossible) return false;
  if (outcome.ack == LossRecovery::Ack::kProgress) wake(recovery_.window().loss_due());
  if (outcome.ack != LossRecovery::Ack::kOld && peer_window_.differs(h)) update_peer_window(now, h);
  if (outcome.found_loss) ++stats_.fast_retransmissions;
  if (outcome.spurious_probe) ++stats_.spurious_tail_probes;
  if (messages_.has_unsent() || recovery_.lost_any()) entry_.set_ready();
  return true;
}

PacketFate SubConnection::on_hello(Instant now, const PacketHeader& h, ByteView rest, const Origin& from) {
  using Hello = Handshake::Hello;
  const Hello hello = handshake_.on_hello(h, rest, established(), end_.over_at_new_handshake());
  const bool is_ignored = hello == Hello::kMalformed || hello == Hello::kOtherSettings ||
                          hello == Hello::kRefusedSender || hello == Hello::kUnknownEpoch;
  const bool names_us =
      hello == Hello::kContinues || hello == Hello::kEstablishes || hello == Hello::kTakesOver;
  if (seal_ != nullptr && !is_ignored) seal_->address.answer_to(from, names_us);
  if (handshake_.asleep() && !is_ignored)
    handshake_.greet(now + config_.hello_retry);  // the answer leaves now
  switch (hello) {
    case Hello::kMalformed:
      return PacketFate::kRefused;
    case Hello::kOtherSettings:
      entry_.set_changed();
      return PacketFate::kRefused;
    case Hello::kRefusedSender:
      entry_.set_changed();
      return PacketFate::kRefusedSender;
    case Hello::kUnknownEpoch:
      return PacketFate::kUnknownEpoch;
    case Hello::kContinues:
      schedule();
      return PacketFate::kNothing;
    case Hello::kEnds:  // SC-11
      start_over(now, SubConnectionEvent::kEnded, epoch());
      schedule();
      return PacketFate::kNothing;
    case Hello::kUnknownPeer:
      // With a secret it has to prove first that it is no old hello (SE-3).
      if (end_.over_at_new_handshake() && seal_ == nullptr) {  // SC-11
        start_over(now, SubConnectionEvent::kEnded, epoch());
        schedule();
      } else {
        handshake_.challenge(h);
        entry_.set_due(now);
      }
      return PacketFate::kUnknownEpoch;
    case Hello::kIntroduced:
      break;
    case Hello::kEstablishes:
      establish(now, Handshake::Peer(handshake_.candidate()));
      if (const std::optional<Duration> rtt = recovery_.round_trip(now, h)) recovery_.on_round_trip(*rtt);
      break;
    case Hello::kOfPeer:
      if (h.receiver_epoch == epoch()) liveness_.received(now);
      break;
    case Hello::kTakesOver:
      take_over(now);
      break;
  }
  // A sender that does not know our epoch learns it from a hello; one that does learns from any packet that we
  // know it.
  if (established() && h.receiver_epoch == epoch())
    acknowledger_.acknowledge_at(now);
  else
    handshake_.answer(h);
  if (seal_ != nullptr && established()) handshake_.answer_exchange(h);
  schedule();
  return PacketFate::kNothing;
}

// SC-11
PacketFate SubConnection::on_close(Instant now) {
  lose_peer(now, handshake_.next_epoch());
  end_.on_close();
  schedule();
  return PacketFate::kNothing;
}

// ---------------------------------------------------------------- beginning and end of connections

void SubConnection::enter(SubConnectionEvent event) {
  const std::optional<State> next = next_state(state_, event);
  CHECK(next.has_value());
  state_ = *next;
  entry_.set_changed();
}

void SubConnection::establish(Instant now, const Handshake::Peer& peer) {
  enter(SubConnectionEvent::kPeerKnown);
  handshake_.establish(peer);
  if (seal_ == nullptr) {
    ++stats_.handshakes_plain;
  } else {
    ++(seal_->exchange.cipher() == CipherKind::kAesGcm ? stats_.handshakes_aes_gcm
                                                       : stats_.handshakes_chacha20);
    std::optional<Noise::Keys> keys = seal_->exchange.take_keys();
    CHECK(keys.has_value());
    KeyObserver* const observer = config_.security.observer;
    seal_->sealer.start(seal_->exchange.cipher(), keys->send, 0, {observer, epoch(), peer.epoch});
    seal_->opener.start(seal_->exchange.cipher(), keys->receive, {observer, peer.epoch, epoch()});
    keys->wipe_all();
    moved_ = seal_->address.settle() || moved_;  // SE-10
  }
  end_.on_established();
  liveness_.received(now);
  liveness_.active(now);
  liveness_.set_path_alive();
  acknowledger_.acknowledge_at(now);  // the peer may not know yet that we know it: any packet tells
  wake(now);
}

void SubConnection::start_over(Instant now, SubConnectionEvent why, std::uint64_t epoch) {
  enter(why);
  handshake_.start_over(now, epoch);
  if (seal_ != nullptr) {
    seal_->sealer.stop();
    seal_->opener.stop();
    seal_->address.stop();
  }
  add_verdicts(stats_);
  recovery_ = LossRecovery(config_);
  peer_window_ = PeerWindow();
  acknowledger_.restart(config_.first_seq);
  burst_ = 0;
}

void SubConnection::lose_peer(Instant now, std::uint64_t epoch) {
  messages_.fail_all(recovery_.window());
  entry_.set_finished();
  handshake_.lose_peer();
  start_over(now, SubConnectionEvent::kPeerGone, epoch);
  lost_ = true;
  ++stats_.peers_lost;
}

// SC-3
void SubConnection::take_over(Instant now) {
  const Handshake::Peer peer = handshake_.challenged();
  const std::uint64_t epoch = handshake_.challenge_epoch();
  if (peer.incarnation == 0 || peer.incarnation != handshake_.peer_incarnation()) {
    lose_peer(now, epoch);
  } else {
    // SC-13: the peer has closed its end, so nothing of this can still arrive there from the old one.
    OutMessage* const unacknowledged = messages_.take_back(recovery_.window());
    start_over(now, SubConnectionEvent::kPeerGone, epoch);
    messages_.push_again(unacknowledged);
    ++stats_.renewals;
  }
  establish(now, peer);
}

// SC-10
OutMessage* SubConnection::fence(Instant now) {
  OutMessage* const first = messages_.take_back(recovery_.window());
  messages_.forget_load();
  end_.reopen();
  start_over(now, SubConnectionEvent::kFenced, epoch());
  liveness_.set_path_alive();
  schedule();
  return first;
}

void SubConnection::close(Instant now) {
  if (state_ == State::kFenced || state_ == State::kClosed) return;
  end_.close(now);
  if (!established() && !has_unfinished()) start_over(now, SubConnectionEvent::kEnded, epoch());
  schedule();
}

OutMessage* SubConnection::recall() {
  CHECK(state_ == State::kHandshake);
  CHECK(recovery_.idle());
  OutMessage* const first = messages_.take_back(recovery_.window());
  messages_.forget_load();
  return first;
}

void SubConnection::rename(StackId local, StackId remote, std::uint64_t shared_hash) {
  CHECK(state_ == State::kFenced || state_ == State::kClosed);
  config_.local = local;
  config_.remote = remote;
  config_.shared_hash = shared_hash;
  handshake_.forget_refusal();
}

void SubConnection::let_move(const Endpoint& home, LinkId link) {
  if (seal_ != nullptr) seal_->address.set_home(home, link);
}

void SubConnection::reopen(Instant now, std::uint64_t incarnation, std::uint64_t epoch) {
  end_.reopen();
  config_.incarnation = incarnation;
  start_over(now, SubConnectionEvent::kReopened, epoch != 0 ? epoch : handshake_.next_epoch());
  schedule();
}

// ---------------------------------------------------------------- time

void SubConnection::on_timer(Instant now) {
  switch (state_) {
    case State::kFenced:
    case State::kClosed:
      return;
    case State::kHandshake:
      if (may_end())
        start_over(now, SubConnectionEvent::kEnded, epoch());
      else if (handshake_.on_timer(now) && seal_ != nullptr)
        seal_->address.hello_unasked();
      break;
    case State::kEstablished:
      judge_peer(now);
      break;
  }
  schedule();
}

void SubConnection::give_back() {
  recovery_.give_back();
  if (seal_ != nullptr) seal_->room = {};
}

// SC-8
void SubConnection::judge_peer(Instant now) {
  switch (liveness_.judge(now)) {
    case Liveness::Verdict::kPeerDied:
      // It may be alive, and only its packets lost: its next handshake is another incarnation's (FO-7).
      lose_peer(now, handshake_.next_epoch());
      return;
    case Liveness::Verdict::kPathDied:
      entry_.set_changed();
      ++stats_.path_deaths;
      break;
    case Liveness::Verdict::kUnchanged:
      break;
  }
  const LossRecovery::Expired expired = recovery_.on_timer(now);
  stats_.fast_retransmissions += expired.loss ? 1 : 0;
  stats_.timeouts += expired.timeout ? 1 : 0;
  stats_.tail_probes += expired.tail_probe ? 1 : 0;
  if (recovery_.lost_any()) entry_.set_ready();
  if (liveness_.quiet()) give_back();
}

Instant SubConnection::next_event() const {
  if (state_ == State::kFenced || state_ == State::kClosed) return Instant::never();
  if (handshake_.hello_due()) return Instant();
  if (!established()) return handshake_.timer_due();
  if (recovery_.probe_wanted()) return Instant();
  Instant next = earlier(acknowledger_.due(), liveness_.probe_due());
  next = earlier(next, recovery_.next_deadline());
  // Held back by pacing alone.
  const Congestion& congestion = recovery_.congestion();
  if (messages_.has_unsent() && congestion.enabled() && may_send(congestion.departure()))
    next = earlier(next, congestion.departure());
  if (shut_out()) next = earlier(next, peer_window_.probe_due());
  if (may_end()) next = earlier(next, end_.close_due());
  if (seal_ != nullptr) next = earlier(next, seal_->address.due());
  return earlier(next, liveness_.judgement_due());
}

void SubConnection::on_scheduling_gap(Instant now, Duration gap) {
  liveness_.on_scheduling_gap(now, gap);
  recovery_.on_scheduling_gap(now, gap);
  schedule();
}

void SubConnection::flush_ack(Instant now) {
  if (acknowledger_.due() == Instant::never() || acknowledger_.due() <= now) return;
  acknowledger_.acknowledge_at(now);
  wake(now);
}

void SubConnection::check() const {
  recovery_.check();
  acknowledger_.check();
  messages_.check();
}

}  // namespace braid::stack
