// The orderly end of a connection (SC-11): the end that closes tells its peer when everything is acknowledged, so
// that no timeout is needed.
//
//   open ── close() ──► closing ── Close sent ──► told ── the last Close, or the peer starts anew ──► over
//    ▲                     │                       │
//    └────── reopen() ─────┴───────────────────────┘
//
// The peer's Close ends the connection at once (peer_closed()); that is no state of this end.
//
// Pure; owned by the sub-connection, which knows what is acknowledged and goes on to its state kClosed when this
// says that the end is over.
#pragma once

#include "base/time.h"

namespace braid::stack {

class OrderlyEnd {
 public:
  // Close is repeated until the peer shows that it knows, but not more often.
  static constexpr unsigned kMaxCloses = 4;

  // This end closes: from now on nothing more is given to it.
  void close(Instant now) {
    closing_ = true;
    closes_sent_ = 0;
    close_due_ = now;
  }
  // It was fenced, or starts a new handshake.
  void reopen() { closing_ = false; }
  bool closing() const { return closing_; }

  // When a Close is due, once everything is acknowledged. This end is closing.
  Instant close_due() const { return close_due_; }
  // A Close left; the next one is due a retransmission timeout later. True: it was the last, the end is over.
  [[nodiscard]] bool close_sent(Instant now, Duration rto) {
    close_due_ = now + rto;
    return ++closes_sent_ == kMaxCloses;
  }
  // A new incarnation of the peer says hello. True: the peer has closed its end as well, nothing is left to be told.
  // Before the first Close this end may have unacknowledged messages, and the hello may be an old one.
  bool over_at_new_handshake() const { return closing_ && closes_sent_ > 0; }

  // The peer said that it ends.
  void on_close() { peer_closed_ = true; }
  // There is a peer.
  void on_established() { peer_closed_ = false; }
  // The last peer said that it ends: it was not merely silent.
  bool peer_closed() const { return peer_closed_; }

 private:
  bool closing_ = false;
  bool peer_closed_ = false;
  unsigned closes_sent_ = 0;
  Instant close_due_;
};

}  // namespace braid::stack
