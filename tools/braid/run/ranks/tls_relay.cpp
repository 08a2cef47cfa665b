#include "tools/braid/run/ranks/tls_relay.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/process/forget.h"
#include "tools/braid/run/ranks/relay_order.h"
#include "tools/braid/run/shared_files.h"

namespace braid::cli {
namespace {

constexpr std::size_t kMostSending = 256 << 10;
constexpr std::size_t kLongestOrder = 64 << 10;
constexpr Duration kConnect = 20_s;

bool is_ready(int fd, short events, Duration timeout) {
  pollfd waits{fd, events, 0};
  return ::poll(&waits, 1, static_cast<int>(timeout.ms())) > 0;
}

// The error is the cause alone.
Result<Descriptor> connect_to(const RelayOrder& order) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(order.port);
  ::inet_pton(AF_INET, order.address.c_str(), &to.sin_addr);
  if (!socket || (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
                  errno != EINPROGRESS))
    return error("{}", ::strerror(errno));
  if (!is_ready(socket.get(), POLLOUT, kConnect))
    return error("it has not answered for {:.0f} s; a firewall may drop what goes there", kConnect.s());
  int problem = 0, on = 1;
  socklen_t length = sizeof problem;
  (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &length);
  if (problem != 0) return error("{}", ::strerror(problem));
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Result<TlsConnection> meet(const RelayOrder& order) {
  Result<Descriptor> socket = connect_to(order);
  if (!socket) return socket.error();
  Result<TlsConnection> connection = TlsConnection::create(std::move(*socket), TlsConnection::Side::kConnects,
                                                           order.own, order.certificate_of_peer);
  if (!connection) return connection;
  const Instant end = monotonic_now() + kConnect;
  for (;;) {
    const TlsConnection::Step step = connection->greet();
    if (step == TlsConnection::Step::kDone) return connection;
    if (step != TlsConnection::Step::kWaits)
      return error("it is not the rank that PMIx knows: {}", connection->problem());
    const Instant now = monotonic_now();
    if (now >= end || !is_ready(connection->fd(), connection->events(), end - now))
      return error("it has not answered for {:.0f} s", kConnect.s());
  }
}

}  // namespace

void TlsRelay::watch(std::vector<pollfd>& fds) const {
  short events = 0;
  if (!has_ended_ && to_.has_room()) events |= POLLIN;
  if (!sending_.empty() && !cannot_send_) events |= connection_.events();
  if (events != 0) fds.push_back({connection_.fd(), events, 0});
  if (!pipe_has_ended_ && sending_.size() < kMostSending) fds.push_back({from_, POLLIN, 0});
  if (to_.wants_to_write()) fds.push_back({to_fd_, POLLOUT, 0});
}

void TlsRelay::read_pipe() {
  while (!pipe_has_ended_ && sending_.size() < kMostSending && is_ready(from_, POLLIN, Duration())) {
    char bytes[16384];
    const ssize_t n = ::read(from_, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0)
      pipe_has_ended_ = true;
    else
      sending_.append(bytes, static_cast<std::size_t>(n));
    forget(bytes);
  }
}

// After either has said that no more comes, it is no loss.
void TlsRelay::lose() {
  if (!has_ended_ && !told_end_) problem_ = connection_.problem();
  has_ended_ = cannot_send_ = true;
}

void TlsRelay::turn() {
  read_pipe();
  while (!has_ended_ && to_.has_room()) {
    const TlsConnection::Step step = connection_.read(to_.pending());
    if (step == TlsConnection::Step::kWaits) break;
    if (step == TlsConnection::Step::kEnded) has_ended_ = true;
    if (step == TlsConnection::Step::kFailed) lose();
  }
  if (!cannot_send_ && !sending_.empty() && connection_.write(sending_) == TlsConnection::Step::kFailed)
    lose();
  if (pipe_has_ended_ && sending_.empty() && !told_end_ && !cannot_send_) {
    connection_.say_end();
    told_end_ = true;
  }
  to_.write_some();
}

int serve_relay(int file) {
  ::signal(SIGPIPE, SIG_IGN);
  const Result<RelayOrder> order = read_relay_order(contents(file, kLongestOrder));
  if (!order) refuse(kUsageStatus, order.error().text);
  ::close(file);
  const std::string peer = fmt::format("rank {} ({}, TCP port {})", order->rank, order->address, order->port);
  Result<TlsConnection> connection = meet(*order);
  if (!connection) refuse(kLostDaemonStatus, fmt::format("{}: {}", peer, connection.error().text));
  TlsRelay relay(std::move(*connection), STDIN_FILENO, STDOUT_FILENO);
  while (!relay.has_received_all()) {
    std::vector<pollfd> fds;
    relay.watch(fds);
    (void)::poll(fds.data(), fds.size(), -1);
    relay.turn();
  }
  if (relay.is_lost())
    refuse(kLostDaemonStatus, fmt::format("{}: its connection has ended: {}", peer, relay.problem()));
  return 0;
}

}  // namespace braid::cli
