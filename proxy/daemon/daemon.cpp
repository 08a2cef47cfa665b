#include "proxy/daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "proxy/channel/unix_socket.h"
#include "proxy/daemon/idle.h"
#include "proxy/daemon/node.h"

namespace braid::proxy {
namespace {

// Between looks at what proxies report: often while something is being set up, seldom otherwise.
constexpr int kBusyWaitMs = 1;
constexpr int kQuietWaitMs = 20;
constexpr int kBusyTurns = 200;  // after the last thing that happened

void run_proxy(Worker& worker, const IdleConfig& config, ProxyCounters& counters,
               const std::atomic<bool>& stop) {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // a sleep of 20 us shall not become one of 70
  Idle idle(config);
  while (!stop.load(std::memory_order_relaxed)) {
    const Instant now = monotonic_now();
    if (worker.do_work(now) > 0) {
      idle.worked();
      continue;
    }
    if (idle.about_to_sleep()) worker.about_to_sleep(now);
    const Instant deadline = worker.next_deadline();
    if (idle.idle(deadline == Instant::never() ? 1_s : deadline - now)) counters.sleeps.add();
  }
}

struct Connected {
  int fd;
  Node::ClientId id;
};

// Only this user's processes, and root's, may use the proxies: the kernel vouches for who they are.
bool permitted(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  if (peer.uid == ::geteuid() || peer.uid == 0) return true;
  spdlog::warn("process {} of user {} was refused: only users {} and 0 may attach", peer.pid, peer.uid,
               ::geteuid());
  return false;
}

class Server {
 public:
  Server(Node& node, int listener, int signals) : node_(node), listener_(listener), signals_(signals) {}
  ~Server() {
    for (const Connected& c : clients_) ::close(c.fd);
  }

  void serve(int ready_fd) {
    bool told_ready = false;
    bool told_refused = false;
    int busy = kBusyTurns;
    for (;;) {
      const int work = turn();
      busy = work > 0 ? kBusyTurns : std::max(busy - 1, 0);
      if (!told_ready && node_.ready()) {
        told_ready = true;
        if (ready_fd >= 0 && ::write(ready_fd, "R", 1) != 1)
          spdlog::warn("nobody waits for this node to be ready");
      }
      if (!told_refused && node_.refused_peer()) {
        told_refused = true;
        spdlog::error(
            "a peer has another configuration and is refused: give every node the same number of clusters, "
            "transport.mtu_bytes and transport.window_packets");
      }
      if (wait(!told_ready || busy > 0 ? kBusyWaitMs : kQuietWaitMs)) return;
    }
  }

 private:
  int turn() {
    int work = node_.do_control(monotonic_now());
    for (; const std::optional<Node::Outbound> out = node_.poll_outbound(); ++work) {
      const auto c = std::find_if(clients_.begin(), clients_.end(),
                                  [&](const Connected& x) { return x.id == out->client; });
      if (c != clients_.end())
        (void)send_message(c->fd, out->message, out->fd);  // a dead client is noticed below
    }
    while (const std::optional<Node::ClientId> id = node_.poll_expelled()) {
      spdlog::error("client {} wrote nonsense into its channel and is disconnected", *id);
      drop(*id);
    }
    while (const std::optional<ClusterId> lost = node_.poll_lost_peer())
      spdlog::error("cluster {} is lost: it was not heard for {} ms, or was restarted", lost->value(),
                    node_.config().transport.peer_death_ms);
    return work;
  }

  void drop(Node::ClientId id) {
    node_.client_gone(id);
    const auto c =
        std::find_if(clients_.begin(), clients_.end(), [&](const Connected& x) { return x.id == id; });
    if (c == clients_.end()) return;
    ::close(c->fd);
    clients_.erase(c);
  }

  // True when it is time to end.
  bool wait(int timeout_ms) {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Connected& c : clients_) fds.push_back({c.fd, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return false;
    if (fds[0].revents != 0) return true;
    if (fds[1].revents != 0) accept_client();
    for (std::size_t i = 2; i < fds.size(); ++i)
      if (fds[i].revents != 0) hear(fds[i].fd);
    return false;
  }

  void accept_client() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    if (!permitted(fd)) {
      ::close(fd);
      return;
    }
    clients_.push_back({fd, node_.add_client()});
  }

  void hear(int fd) {
    const auto c =
        std::find_if(clients_.begin(), clients_.end(), [&](const Connected& x) { return x.fd == fd; });
    if (c == clients_.end()) return;
    control::Message message;
    int passed = -1;
    if (!receive_message(fd, &message, &passed)) {
      drop(c->id);
      return;
    }
    if (passed >= 0) ::close(passed);  // nobody is asked for one
    node_.on_request(monotonic_now(), c->id, message);
  }

  Node& node_;
  int listener_;
  int signals_;
  std::vector<Connected> clients_;
};

}  // namespace

Result<void> run_daemon(const NodeConfig& config) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = ::signalfd(-1, &signals, SFD_CLOEXEC);
  if (signal_fd < 0) return error("signalfd: {}", std::strerror(errno));

  int listener = config.listen_fd;
  if (listener < 0) {
    const Result<int> made = listen_unix(config.listen_address);
    if (!made) return made.error();
    listener = made.value();
  }
  Result<std::unique_ptr<Node>> node = Node::create(config, monotonic_now());
  if (!node) return node.error();

  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < (*node)->proxies(); ++p) {
    threads.emplace_back([&, p] {
      ::pthread_setname_np(::pthread_self(), fmt::format("proxy {}", p).c_str());
      run_proxy((*node)->worker(p), config.idle, (*node)->counters(p), stop);
    });
  }
  {
    Server server(**node, listener, signal_fd);
    server.serve(config.ready_fd);
  }
  stop.store(true);
  for (std::thread& t : threads) t.join();
  ::close(signal_fd);
  if (config.listen_fd < 0) {
    ::close(listener);
    if (!config.listen_address.empty() && config.listen_address[0] != '@')
      ::unlink(config.listen_address.c_str());
  }
  return {};
}

}  // namespace braid::proxy
