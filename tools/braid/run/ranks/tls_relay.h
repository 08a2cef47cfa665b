// Carries bytes between a TLS connection and two pipes. Used by one thread, which ignores SIGPIPE; no call blocks.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/time.h"
#include "tools/braid/process/sink.h"
#include "tools/braid/run/ranks/tls_connection.h"

namespace braid::cli {

class TlsRelay {
 public:
  // What comes from `from` is sent, and what is received goes to `to`. Both are the caller's. The handshake is done.
  TlsRelay(TlsConnection connection, int from, int to)
      : connection_(std::move(connection)), from_(from), to_fd_(to), to_(to) {}

  void watch(std::vector<pollfd>& fds) const;
  void turn();

  // The other end has said that nothing more comes, or the connection is lost, and what came has been written.
  bool has_received_all() const { return has_ended_ && !to_.wants_to_write(); }
  // `from` has ended, and all that came from it, and its end, has been sent; or the connection is lost.
  bool has_sent_all() const { return cannot_send_ || told_end_; }
  bool is_lost() const { return !problem_.empty(); }
  // Of a lost connection.
  const std::string& problem() const { return problem_; }

 private:
  void read_pipe();
  void lose();

  TlsConnection connection_;
  const int from_, to_fd_;
  Sink to_;
  std::string sending_, problem_;
  bool pipe_has_ended_ = false, told_end_ = false, has_ended_ = false, cannot_send_ = false;
};

// What `braid-node --relay FD` does: connects its standard input and output with the rank that the file FD describes (relay_order.h)
// Blocks until one of the two has ended. Returns the status of the process.
int serve_relay(int order);

}  // namespace braid::cli
