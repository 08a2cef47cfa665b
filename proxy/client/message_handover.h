// Hands an endpoint's messages over to the application's handler, which may close any connection meanwhile,
// its own too; and keeps the message that a limit left over.
//
// Owned by the endpoint's thread.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "proxy/client/connection.h"

namespace braid::proxy {

class MessageHandover {
 public:
  // Brackets the calls of run(); a handler may not begin another.
  void begin() {
    CHECK(!active_);
    active_ = true;
  }
  void end() {
    active_ = false;
    closed_.clear();
  }

  // Calls handler(connection, message) for `message` and all that follow it on `connection`, at most `limit`
  // times; returns how often. What the limit leaves over is kept.
  template <class Handler>
  int run(Connection& connection, std::optional<ByteView> message, Handler&& handler, int limit) {
    return run(connection, message, handler, limit, [&](int) { return connection.next_message(); });
  }
  // next(left) returns the message that follows; `left` more of them may be handed over.
  template <class Handler, class Next>
  int run(Connection& connection, std::optional<ByteView> message, Handler&& handler, int limit,
          Next&& next) {
    int handed = 0;
    current_ = &connection;
    while (message && handed < limit) {
      ++handed;
      handler(connection, *message);
      if (current_ == nullptr) return handed;  // the handler closed it
      message = next(limit - handed);
    }
    current_ = nullptr;
    if (message) {
      left_over_ = &connection;
      left_over_message_ = *message;
    }
    return handed;
  }

  // The connection whose message a limit left over; nullptr if there is none.
  Connection* left_over() const { return left_over_; }
  // Goes on with what was left over; left_over() is not nullptr.
  template <class Handler>
  int resume(Handler&& handler, int limit) {
    Connection* const connection = std::exchange(left_over_, nullptr);
    return run(*connection, left_over_message_, handler, limit);
  }

  // The application has closed a connection. It is freed once no handler can be looking at it.
  void closed(std::unique_ptr<Connection> connection) {
    if (current_ == connection.get()) current_ = nullptr;
    if (left_over_ == connection.get()) left_over_ = nullptr;
    if (active_) closed_.push_back(std::move(connection));
  }

 private:
  bool active_ = false;
  Connection* current_ = nullptr;    // whose message the handler has; nullptr once it closed it
  Connection* left_over_ = nullptr;  // beside left_over_message_
  ByteView left_over_message_;
  std::vector<std::unique_ptr<Connection>> closed_;
};

}  // namespace braid::proxy
