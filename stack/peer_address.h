// Where the packets of a sealed sub-connection go. That is the configured address of the peer, its home, until the peer is
// found at another one: behind a NAT, or because its host's address has changed (RFC 9000, 8.2 and 9).
//
//   newest packet from another address ──► candidate ── challenge answered from there ──► the peer's address
//                    newer packet from the peer's address, or no answer ──► nothing has changed
//
// A candidate is sent challenges and nothing else, a few of them, and at most three times the bytes that came from there
// (SE-9). The old address gets no challenge of its own: were the peer still there, its packets would be newer.
//
// Who passes on every packet, on the way or beside it, can make both ends move to addresses of his, and leave. So an end
// that hears nothing looks for its peer at the addresses before, too.
//
// Without a home, which plain sub-connections never have, no address matters here. Pure; owned by the sub-connection,
// which opens packets, draws challenges, and sends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "stack/remote.h"

namespace braid::stack {

// Where a packet came from, and by which link. Port 0: nobody said.
struct Origin {
  Endpoint end;
  LinkId link;
};

class PeerAddress {
 public:
  struct Counts {
    std::uint64_t moves = 0;
    std::uint64_t challenges = 0;          // sent
    std::uint64_t failed_validations = 0;  // addresses that did not answer, or were older
  };
  // What may be sent to an address that has not answered, for each byte from there (RFC 9000, 8.1).
  static constexpr std::size_t kAmplification = 3;
  static constexpr unsigned kMaxChallenges = 5;  // to one candidate
  static constexpr Duration kFirstWait = 20_ms;  // for an answer; then twice as long each time

  // The peer is to be found there, by that link; only packets by it move anything.
  void set_home(const Endpoint& home, LinkId link) {
    home_ = current_ = previous_ = hello_to_ = home;
    link_ = link;
    heard_from_ = {};
    stop();
  }
  bool has_home() const { return home_.port != 0; }
  const Endpoint& current() const { return current_; }
  const Counts& counts() const { return counts_; }

  // --- hellos (SE-10)

  // What came from there is answered by a hello, which goes there and has less than three times its bytes. `names_us`: it
  // was an authentic hello, whose sender has received one of ours.
  void answer_to(const Origin& from, bool names_us) {
    if (!counts(from)) return;
    hello_to_ = from.end;
    if (names_us) heard_from_ = from.end;
  }
  // The next one answers none: it goes home, or where the peer was last, in turn.
  void hello_unasked() {
    at_home_ = !at_home_;
    hello_to_ = at_home_ ? home_ : current_;
  }
  const Endpoint& hello_to() const { return hello_to_; }
  // The connection begins, by a hello that named us. Returns whether that is elsewhere than
  // before.
  bool settle() {
    stop();
    if (heard_from_.port == 0 || heard_from_ == current_) return false;
    go_to(heard_from_);
    return true;
  }
  // The connection is over.
  void stop() {
    candidate_ = {};
    response_due_ = false;
  }

  // --- packets of the connection, which were opened

  enum class Arrival : std::uint8_t {
    kKnown,      // nothing follows
    kBegins,     // from an address to be validated: begin()
    kCandidate,  // from the one that is being validated
  };
  // SE-8. `newest`: no packet with a higher number came before.
  Arrival arrived(const Origin& from, std::size_t bytes, bool newest) {
    if (!counts(from)) return Arrival::kKnown;
    if (from.end == current_) {
      if (newest && validates()) fail();
      return Arrival::kKnown;
    }
    if (from.end == candidate_) {
      received_bytes_ += bytes;
      return Arrival::kCandidate;
    }
    return newest ? Arrival::kBegins : Arrival::kKnown;
  }
  // After kBegins. `challenge` cannot be foreseen.
  void begin(Instant now, const Origin& from, std::size_t bytes, std::uint64_t challenge) {
    if (validates()) fail();
    candidate_ = from.end;
    challenge_ = challenge;
    received_bytes_ = bytes;
    sent_bytes_ = 0;
    left_ = kMaxChallenges;
    wait_ = kFirstWait;
    due_ = now;
  }
  // An answer to a challenge. True: that is where the peer is now.
  bool answered(const Origin& from, std::uint64_t challenge) {
    if (!validates() || !counts(from) || from.end != candidate_ || challenge != challenge_) return false;
    go_to(candidate_);
    candidate_ = {};
    ++counts_.moves;
    return true;
  }
  // The peer challenges this end; the answer goes to where that came from, and is no longer.
  void challenged(const Origin& from, std::uint64_t challenge) {
    response_ = challenge;
    response_to_ = counts(from) ? from.end : current_;
    response_due_ = true;
  }

  // --- what leaves

  bool validates() const { return candidate_.port != 0; }
  const Endpoint& candidate() const { return candidate_; }
  // When something should leave, or be given up.
  Instant due() const {
    if (response_due_) return Instant();
    return validates() ? due_ : Instant::never();
  }
  bool response_due() const { return response_due_; }
  const Endpoint& response_to() const { return response_to_; }
  std::uint64_t take_response() {
    response_due_ = false;
    return response_;
  }
  // Should a challenge of so many bytes leave now? It counts as sent then.
  bool take_challenge(Instant now, std::size_t bytes) {
    if (!validates() || due_ > now) return false;
    if (left_ == 0) {
      fail();
      return false;
    }
    --left_;
    due_ = now + wait_;
    wait_ = wait_ * 2;
    if (sent_bytes_ + bytes > kAmplification * received_bytes_) return false;  // SE-9
    sent_bytes_ += bytes;
    ++counts_.challenges;
    return true;
  }
  std::uint64_t challenge() const { return challenge_; }
  // Where the next packet goes of an end that has heard nothing for long: where the peer is, its home, and where it was
  // before, in turn.
  const Endpoint& next_while_silent() {
    looked_at_ = (looked_at_ + 1) % 3;
    return looked_at_ == 0 ? current_ : looked_at_ == 1 ? home_ : previous_;
  }

 private:
  bool counts(const Origin& from) const { return has_home() && from.end.port != 0 && from.link == link_; }
  void go_to(const Endpoint& address) {
    previous_ = current_;
    current_ = address;
  }
  void fail() {
    candidate_ = {};
    ++counts_.failed_validations;
  }

  Endpoint home_;
  Endpoint current_;
  Endpoint previous_;
  unsigned looked_at_ = 0;
  LinkId link_;
  Endpoint heard_from_;  // of the last hello that named us; port 0: none did
  Endpoint hello_to_;
  bool at_home_ = false;

  Endpoint candidate_;  // port 0: none
  std::uint64_t challenge_ = 0;
  std::size_t received_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
  unsigned left_ = 0;  // challenges
  Duration wait_{};
  Instant due_;

  bool response_due_ = false;
  std::uint64_t response_ = 0;
  Endpoint response_to_;
  Counts counts_;
};

}  // namespace braid::stack
