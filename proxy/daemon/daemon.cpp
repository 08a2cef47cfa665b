#include "proxy/daemon/daemon.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "proxy/channel/unix_socket.h"
#include "proxy/daemon/client_sockets.h"
#include "proxy/daemon/limited_log.h"
#include "proxy/daemon/node.h"
#include "proxy/daemon/proxy_loop.h"
#include "proxy/daemon/proxy_sleep.h"

namespace braid::proxy {
namespace {

// Between turns of the control plane: short while something is being set up; otherwise it is woken by clients and
// proxies. Other machines are contacted by the clock.
constexpr int kBusyWaitMs = 1;
constexpr int kMachinesWaitMs = 20;
constexpr int kQuietWaitMs = 100;
constexpr int kBusyTurns = 200;  // after the last thing that happened
// The longest time to wait until all messages of clients are acknowledged, and then until the connections are
// closed.
constexpr Duration kCloseTimeout = 200_ms;

// Ends a proxy when all proxies of the node have nothing more to send: otherwise one of them would tell a
// peer that the node ends, and the messages of another would be lost.
void close_together(Worker& worker, unsigned proxies, std::atomic<unsigned>& acknowledged) {
  const auto turns_until = [&](auto&& done) {
    for (const Instant deadline = monotonic_now() + kCloseTimeout; !done() && monotonic_now() < deadline;)
      if (worker.do_work(monotonic_now()) == 0) ::sched_yield();
  };
  worker.stop_taking();
  turns_until([&] { return worker.all_acknowledged(); });
  ++acknowledged;
  turns_until([&] { return acknowledged.load() == proxies; });
  worker.close(monotonic_now());
  turns_until([&] { return worker.closed(); });
}

// Whether proxies can sleep until they are woken; if the kernel refuses what it takes, the log says so once.
bool proxies_can_sleep(const NodeConfig& config) {
  if (!config.idle.wakeups) return false;
  const Result<void> supported = ProxySleep::supported();
  if (!supported)
    spdlog::warn("idle proxies poll every {} us, because they cannot be woken: {}", config.idle.sleep_max_us,
                 supported.error().text);
  return supported.ok();
}

void log_polled_queues(Node& node) {
  Worker::WakeWords words;
  for (unsigned p = 0; p < node.proxies(); ++p) {
    node.worker(p).collect_wake_words(words);
    if (words.polled_queues == 0) continue;
    spdlog::info("idle proxies poll every {} us, because {} of proxy {}'s queues cannot wake it",
                 node.config().idle.sleep_max_us, words.polled_queues, p);
    return;
  }
}

// Of the calling proxy.
void take_processor(const NodeConfig& config, unsigned proxy) {
  const std::vector<unsigned> all = parse_processors(config.processors).value_or(std::vector<unsigned>());
  if (all.empty()) return;
  if (const int problem = run_on_processors({&all[proxy], 1}); problem != 0)
    spdlog::warn("proxy {} runs on any processor, because it is refused processor {}: {}", proxy, all[proxy],
                 std::strerror(problem));
}

constexpr Duration kNoDescriptorsPause = 100_ms;

// Nothing where the process may use the proxies: only this user's and root's may. The kernel vouches for who it is.
std::optional<std::string> refusal(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return fmt::format("a process of an unknown user may not attach: {}", std::strerror(errno));
  if (peer.uid == ::geteuid() || peer.uid == 0) return {};
  return fmt::format(
      "process {} of user {} may not attach to this braidd, which is user {}'s: only processes of that "
      "user and of root may",
      peer.pid, peer.uid, ::geteuid());
}

// Tells a process why it is refused. It does not know that it is, so its first call gets this as the answer.
void send_refusal(int fd, const std::string& text) {
  control::Message message;
  message.kind = control::Kind::kRefused;
  text.copy(message.refused.text, sizeof message.refused.text - 1);
  (void)send_message(fd, message, -1, false);
}

// Lines of the log about what anybody can cause: so many at once.
constexpr std::uint32_t kLinesAtOnce = 5;
// Connections that are taken in one turn, so that a crowd of refused ones delays nobody for long.
constexpr int kAcceptsPerTurn = 16;

class Server {
 public:
  // `told`: an eventfd that proxies write to.
  Server(Node& node, int listener, int signals, int told)
      : node_(node), listener_(listener), signals_(signals), told_(told) {}

  void serve(int ready_fd) {
    bool told_ready = false;
    bool told_refused = false;
    bool told_version = false;
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
      if (const std::uint8_t version = node_.other_version(); !told_version && version != 0) {  // PS-7
        told_version = true;
        spdlog::error(
            "packets of version {} of the transport arrive and are refused, this braidd has version {}: build every "
            "node from the same source",
            version, stack::kWireVersion);
      }
      if (wait(!told_ready || busy > 0 ? kBusyWaitMs : quiet_wait_ms())) return;
    }
  }

 private:
  int turn() {
    int work = node_.do_control(monotonic_now());
    for (; const std::optional<Node::Outbound> out = node_.poll_outbound(); ++work) {
      if (clients_.send(*out)) continue;
      if (expulsions_.on_event(monotonic_now()))
        spdlog::error("client {} does not read what it is told and is disconnected", out->client);
      drop(out->client);
    }
    while (const std::optional<Node::ClientId> id = node_.poll_expelled()) {
      if (!clients_.has(*id)) continue;
      if (expulsions_.on_event(monotonic_now()))
        spdlog::error("client {} wrote nonsense into its channel and is disconnected", *id);
      drop(*id);
    }
    while (const std::optional<ClusterId> lost = node_.poll_lost_peer())
      spdlog::error("cluster {} is lost: it was not heard for {} ms, or was restarted", lost->value(),
                    node_.config().transport.peer_death_ms);
    while (const std::optional<ClusterId> ended = node_.poll_ended_peer())
      if (!clients_.empty()) spdlog::info("cluster {} has ended", ended->value());  // else a run is over
    while (const std::optional<std::string> event = node_.poll_machine_event())
      if (machine_events_.on_event(monotonic_now())) spdlog::info("{}", *event);
    tell_untold(refusals_, "connections were refused");
    tell_untold(expulsions_, "clients were disconnected");
    tell_untold(machine_events_, "events of other machines happened");
    while (const std::optional<std::string> problem = node_.poll_file_problem()) spdlog::warn("{}", *problem);
    while (const std::optional<stack::AddressConflict> conflict = node_.poll_address_conflict())
      spdlog::warn("{}", AddressConflicts::text(*conflict));
    while (const std::optional<stack::AddressMove> move = node_.poll_address_move()) {
      if (!moves_.on_event(monotonic_now())) continue;
      spdlog::info("cluster {} proxy {} was at {}:{} and is at {}:{} now", move->peer.cluster.value(),
                   move->peer.proxy.value(), move->from.address.to_string(), move->from.port,
                   move->to.address.to_string(), move->to.port);
    }
    tell_untold(moves_, "peers had another address");
    while (const std::optional<PeerRefused> refused = node_.poll_refused_peer())
      spdlog::error("{}", RefusedPeers::text(node_.config(), *refused));
    while (const std::optional<unsigned> fenced = node_.poll_fenced_proxy())
      spdlog::error("proxy {} has not moved for {} ms: the others go on without it", *fenced,
                    node_.config().transport.path_death_ms);
    return work;
  }

  static void tell_untold(LimitedLog& log, const char* what) {
    if (const std::optional<std::uint64_t> untold = log.poll_untold(monotonic_now()))
      spdlog::warn("{} more {}, {} in all since this braidd began", *untold, what, log.all());
  }

  void drop(Node::ClientId id) {
    node_.client_gone(id);
    clients_.remove(id);
  }

  // Clients and proxies end the wait; what goes by the clock limits it.
  int quiet_wait_ms() const {
    const auto until_deadline_ms = (node_.next_deadline() - monotonic_now()).ns() / 1'000'000;
    return static_cast<int>(std::clamp<std::int64_t>(
        until_deadline_ms, kBusyWaitMs, node_.config().machines.any() ? kMachinesWaitMs : kQuietWaitMs));
  }

  // True when it is time to end.
  bool wait(int timeout_ms) {
    const Instant now = monotonic_now();
    node_.pauses_until(now + Duration::ms(timeout_ms));
    fds_.clear();
    fds_.push_back({signals_, POLLIN, 0});
    fds_.push_back({told_, POLLIN, 0});
    fds_.push_back({now < accept_paused_until_ ? -1 : listener_, POLLIN, 0});
    clients_.append_to(fds_);
    if (::poll(fds_.data(), fds_.size(), timeout_ms) <= 0) return false;
    if (fds_[0].revents != 0) return true;
    // The new one comes last: a client that is dropped to make room for it must not take its descriptor's
    // number into the look-ups below.
    for (std::size_t i = 3; i < fds_.size(); ++i)
      if (fds_[i].revents != 0) serve_client(clients_.serve(fds_[i].fd));
    if (fds_[2].revents != 0) accept_clients();
    if (std::uint64_t times = 0; fds_[1].revents != 0) (void)!::read(told_, &times, sizeof times);
    return false;
  }

  void accept_clients() {
    pollfd waiting{listener_, POLLIN, 0};
    for (int n = 0; n<kAcceptsPerTurn&& ::poll(&waiting, 1, 0)> 0; ++n)
      if (!accept_client()) return;
  }

  // False: there is none, or no descriptor for it.
  bool accept_client() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_paused_until_ = monotonic_now() + kNoDescriptorsPause;  // it would be reported again and again
      return false;
    }
    std::optional<std::string> refused = refusal(fd);
    if (!refused && !make_room())
      refused = fmt::format("{} clients are attached to this braidd, the most that it serves: end some",
                            ClientSockets::kMaxClients);
    if (refused) {
      refuse(fd, *refused);
    } else {
      clients_.add(fd, node_.add_client());
    }
    return true;
  }

  void refuse(int fd, const std::string& text) {
    node_.count_refused_connection();
    if (refusals_.on_event(monotonic_now())) spdlog::warn("refused: {}", text);
    send_refusal(fd, text);
    ::close(fd);
  }

  // A connection that has sent no request is closed to make room for a new one.
  bool make_room() {
    if (!clients_.full()) return true;
    const std::optional<ClientId> silent = clients_.first_silent();
    if (!silent) return false;
    drop(*silent);
    return true;
  }

  void serve_client(const std::optional<ClientSockets::Request>& request) {
    if (!request) return;
    if (request->message)
      node_.on_request(monotonic_now(), request->client, *request->message);
    else
      drop(request->client);
  }

  Node& node_;
  int listener_;
  int signals_;
  int told_;
  ClientSockets clients_;
  std::vector<pollfd> fds_;
  Instant accept_paused_until_;
  LimitedLog refusals_{kLinesAtOnce};
  LimitedLog expulsions_{kLinesAtOnce};
  LimitedLog moves_{4 * kLinesAtOnce};           // a peer's proxies move together
  LimitedLog machine_events_{4 * kLinesAtOnce};  // a machine comes and goes with several
};

// The descriptors that the daemon opened itself; closed on every way out.
struct Opened {
  int signals = -1;
  int told = -1;  // proxies write to it when they have told the control plane something
  int listener = -1;
  std::string path;  // of the listener, to be removed
  ~Opened() {
    if (signals >= 0) ::close(signals);
    if (told >= 0) ::close(told);
    if (listener >= 0) ::close(listener);
    if (!path.empty()) ::unlink(path.c_str());
  }
};

// They end when `stop` is set; the destructor sets it, whichever way it is reached.
class ProxyThreads {
 public:
  ProxyThreads(Node& node, std::atomic<bool>& stop) : node_(node), stop_(stop) {}
  ~ProxyThreads() {
    stop_.store(true);
    for (unsigned p = 0; p < node_.proxies(); ++p) node_.worker(p).wake();
    for (std::thread& t : threads_) t.join();
  }
  template <class Run>
  Result<void> start(unsigned proxies, const Run& run) {
    threads_.reserve(proxies);
    for (unsigned p = 0; p < proxies; ++p) {
      try {
        threads_.emplace_back(run, p);
      } catch (const std::system_error& e) {
        return error("cannot start the thread of proxy {}: {}", p, cause_and_cure(e.code().value()));
      }
    }
    return {};
  }

 private:
  Node& node_;
  std::atomic<bool>& stop_;
  std::vector<std::thread> threads_;
};

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<DaemonEnd> run_daemon(const NodeConfig& config) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  // A signal that is ignored (by the parent: a shell that runs this in the background) is delivered where it is
  // blocked.
  if (!is_ignored(SIGINT)) sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Opened opened;
  opened.signals = ::signalfd(-1, &signals, SFD_CLOEXEC);
  if (opened.signals < 0) return error("cannot receive signals: {}", cause_and_cure(errno));
  opened.told = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (opened.told < 0) return error("cannot make an eventfd: {}", cause_and_cure(errno));

  int listener = config.listen_fd;
  if (listener < 0) {
    const Result<int> made = listen_unix(config.listen_address);
    if (!made) return made.error();
    listener = opened.listener = made.value();
    if (config.listen_address[0] != '@') opened.path = config.listen_address;
  }
  Result<std::unique_ptr<Node>> node = Node::create(config, monotonic_now());
  if (!node) return node.error();

  // `braid run` says it itself.
  if (!config.security.keylog.empty() && !config.security.secret_file.empty())
    spdlog::warn("security.keylog: who has {} can read all that this node sends and receives",
                 config.security.keylog);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> acknowledged{0};
  std::atomic<bool> failed{false};
  {
    const bool can_sleep = proxies_can_sleep(config);
    if (can_sleep) log_polled_queues(**node);
    ProxyThreads threads(**node, stop);
    const Result<void> started = threads.start((*node)->proxies(), [&](unsigned p) {
      const int status = guarded("braidd", 1, [&] {
        ::pthread_setname_np(::pthread_self(), fmt::format("proxy {}", p).c_str());
        take_processor(config, p);
        ProxyLoop(**node, p, can_sleep, opened.told).run(stop);
        close_together((*node)->worker(p), (*node)->proxies(), acknowledged);
        return 0;
      });
      if (status == 0) return;
      failed.store(true);
      ::kill(::getpid(), SIGTERM);
    });
    if (!started) return started.error();
    Server server(**node, listener, opened.signals, opened.told);
    server.serve(config.ready_fd);
  }
  if (failed.load()) return error("a proxy has ended, see the messages above");
  if (const Result<void> finished = (*node)->finish_files(); !finished) {
    spdlog::error("{}", finished.error().text);
    return DaemonEnd::kFilesIncomplete;
  }
  return DaemonEnd::kOrderly;
}

}  // namespace braid::proxy
