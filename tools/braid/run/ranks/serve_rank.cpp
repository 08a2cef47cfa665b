#include "tools/braid/run/ranks/serve_rank.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "base/process_end.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "tools/braid/ask.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/process/child_processes.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/run/ranks/pmix_job.h"
#include "tools/braid/run/ranks/tls_relay.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

// For rank 0 to come, where it cannot be seen whether it lives.
constexpr Duration kMeet = 60_s;
// For one that has come to show that it is rank 0. Others may come, too; so many are looked at at a time.
constexpr Duration kGreet = 5_s;
constexpr std::size_t kMostGuests = 16;
// For a braid-node to end what it has started, and for rank 0 to take the last of what is said.
constexpr Duration kEnd = 5_s, kLinger = 2_s;

std::vector<OwnAddress> own_addresses() {
  std::vector<OwnAddress> all;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return all;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr || i->ifa_addr->sa_family != AF_INET ||
        (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0)
      continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    const std::uint32_t mask = reinterpret_cast<const sockaddr_in*>(i->ifa_netmask)->sin_addr.s_addr;
    all.push_back({text, static_cast<unsigned>(std::popcount(mask))});
  }
  ::freeifaddrs(first);
  return all;
}

std::string own_name() {
  char name[HOST_NAME_MAX + 1] = {};
  (void)::gethostname(name, HOST_NAME_MAX);
  return name;
}

// The booted system and its network namespace.
std::string own_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code problem;
  return own_name() + " " + boot + " " + std::filesystem::read_symlink("/proc/self/ns/net", problem).string();
}

struct ListenerTcp {
  Descriptor socket;
  std::uint16_t port;
};

Result<ListenerTcp> listen_tcp() {
  ListenerTcp made{Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), 0};
  sockaddr_in own{};
  own.sin_family = AF_INET;
  socklen_t length = sizeof own;
  if (!made.socket || ::bind(made.socket.get(), reinterpret_cast<const sockaddr*>(&own), length) != 0 ||
      ::listen(made.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(made.socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return error("a TCP port for the other ranks: {}", cause_and_cure(errno));
  made.port = ntohs(own.sin_port);
  return made;
}

const RankHost& host_of(const RankedRun& run, unsigned rank) {
  return *std::find_if(run.hosts.begin(), run.hosts.end(), [&](const RankHost& host) {
    return std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end();
  });
}

// A connection that nobody takes: it ends when rank 0 does.
class RankZero {
 public:
  explicit RankZero(const RankedRun& run)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(run.cards.front().port);
    ::inet_pton(AF_INET, run.hosts.front().host.addresses.front().c_str(), &to.sin_addr);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
        errno != EINPROGRESS)
      socket_.close();
  }

  // poll() ignores it where there is none.
  pollfd to_watch() const { return {socket_.get(), static_cast<short>(is_there_ ? POLLIN : POLLOUT), 0}; }
  // Whether it can be seen.
  bool is_there() const { return is_there_; }
  bool has_ended() {
    pollfd look = to_watch();
    if (!socket_ || ::poll(&look, 1, 0) <= 0) return false;
    int problem = 0;
    socklen_t length = sizeof problem;
    (void)::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &problem, &length);
    if (is_there_ || problem == ECONNREFUSED) return true;
    if (problem == 0)
      is_there_ = true;
    else
      socket_.close();
    return false;
  }

 private:
  Descriptor socket_;
  bool is_there_ = false;
};

class RankServer {
 public:
  RankServer(RankedRun run, ChildProcesses children)
      : run_(std::move(run)), children_(std::move(children)), zero_(run_) {}

  int serve(const std::vector<std::string>& node) {
    std::optional<TlsConnection> connection = meet();
    if (!connection) return status_;
    Result<Pipe> to = make_pipe(), from = make_pipe();
    for (const Result<Pipe>* pipe : {&to, &from})
      if (!*pipe) return fail(pipe->error().text);
    ProcessOptions options;
    options.path = node.front();
    options.arguments = node;
    options.environment = own_environment();
    options.stdin_fd = to->read.get();
    options.stdout_fd = from->write.get();
    options.contained = false;  // what it starts has a container of its own
    const Result<ChildId> child = children_.start(options);
    if (!child) return fail(child.error().text);
    to->read.close();
    from->write.close();
    TlsRelay relay(std::move(*connection), from->read.get(), to->write.get());
    return carry(relay, to->write);
  }

 private:
  struct Guest {
    TlsConnection connection;
    Instant until;
  };

  int fail(const std::string& text) {
    fmt::print(stderr, "braid: rank {} on {}: {}\n", run_.rank, host_of(run_, run_.rank).host.name, text);
    return 0;
  }

  bool take_signals() {
    for (const int signal : children_.take_signals()) status_ = 128 + signal;
    return status_ != 0;
  }

  // Nothing: there is no run any more.
  std::optional<TlsConnection> meet() {
    const Instant end = monotonic_now() + kMeet;
    for (;;) {
      std::vector<pollfd> fds{zero_.to_watch()};
      if (guests_.size() < kMostGuests) fds.push_back({run_.listener.get(), POLLIN, 0});
      Instant until = zero_.is_there() ? Instant::never() : end;
      for (const Guest& guest : guests_) {
        fds.push_back({guest.connection.fd(), guest.connection.events(), 0});
        until = earlier(until, guest.until);
      }
      children_.wait(until, fds);
      if (take_signals()) return {};
      const Instant now = monotonic_now();
      take_guests(now);
      for (Guest& guest : guests_) {
        switch (guest.connection.greet()) {
          case TlsConnection::Step::kDone:
            return std::move(guest.connection);
          case TlsConnection::Step::kWaits:
            break;
          case TlsConnection::Step::kEnded:
          case TlsConnection::Step::kFailed:
            guest.until = now;
        }
      }
      forget_guests(now);
      if (zero_.has_ended()) return {};
      if (!zero_.is_there() && now >= end) {
        fail(
            fmt::format("rank 0 has not come for {:.0f} s; a firewall may drop what goes to TCP port {} here",
                        kMeet.s(), run_.cards[run_.rank].port));
        return {};
      }
    }
  }

  void take_guests(Instant now) {
    while (guests_.size() < kMostGuests) {
      Descriptor socket(::accept4(run_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      int on = 1;
      (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      Result<TlsConnection> connection = TlsConnection::create(
          std::move(socket), TlsConnection::Side::kAccepts, run_.identity, run_.cards.front().certificate);
      if (connection) guests_.push_back({std::move(*connection), now + kGreet});
    }
  }

  void forget_guests(Instant now) {
    std::vector<Guest> stay;
    for (Guest& guest : guests_)
      if (now < guest.until) stay.push_back(std::move(guest));
    guests_.swap(stay);
  }

  int carry(TlsRelay& relay, Descriptor& to_node) {
    guests_.clear();
    Instant end_by = Instant::never();
    bool node_has_ended = false;
    for (;;) {
      std::vector<pollfd> fds;
      relay.watch(fds);
      children_.wait(end_by, fds);
      const Instant now = monotonic_now();
      // Rank 0 has been sent the signal, too, and ends the run.
      if (take_signals()) end_by = earlier(end_by, now + kEnd);
      relay.turn();
      children_.output().write_some();
      for (const EndedChild& ended : children_.take_ended()) {
        node_has_ended = true;
        end_by = earlier(end_by, now + kLinger);
        if (WIFSIGNALED(ended.wait_status)) fail("its braid-node " + describe_end(ended.wait_status));
      }
      if (relay.has_received_all() && to_node) {
        if (relay.is_lost()) fail("the connection to rank 0 has ended: " + relay.problem());
        to_node.close();
        end_by = earlier(end_by, now + kEnd);
      }
      if ((node_has_ended && relay.has_sent_all() && relay.has_received_all()) || now >= end_by) break;
    }
    children_.stop_all();
    return status_;
  }

  RankedRun run_;
  ChildProcesses children_;
  RankZero zero_;
  std::vector<Guest> guests_;
  int status_ = 0;
};

// Until the first rank of this host has ended.
void wait_for(pid_t first) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, first, 0)));
  if (!process) return;
  pollfd ends{process.get(), POLLIN, 0};
  while (::poll(&ends, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

RankedRun join_job() {
  Result<TlsIdentity> identity = make_tls_identity();
  if (!identity) refuse(kLostDaemonStatus, identity.error().text);
  Result<ListenerTcp> listener = listen_tcp();
  if (!listener) refuse(kLostDaemonStatus, listener.error().text);
  const RankCard own{.version = kVersion,
                     .host = own_name(),
                     .machine = own_machine(),
                     .addresses = own_addresses(),
                     .port = listener->port,
                     .certificate = identity->certificate,
                     .pid = ::getpid(),
                     .processors = processors_of_this_thread()};
  const Result<JobTexts> job = exchange_in_job(text_of(own));
  if (!job) refuse(kLostDaemonStatus, job.error().text);
  const auto fail = [&](const Error& problem) {
    if (job->rank != 0) std::exit(0);
    refuse(kLostDaemonStatus, problem.text);
  };
  RankedRun run{.rank = job->rank,
                .cards = {},
                .hosts = {},
                .identity = std::move(*identity),
                .listener = std::move(listener->socket)};
  for (unsigned rank = 0; rank < job->texts.size(); ++rank) {
    Result<RankCard> card = read_card(rank, job->texts[rank]);
    if (!card) fail(card.error());
    run.cards.push_back(std::move(*card));
  }
  Result<std::vector<RankHost>> hosts = hosts_of(run.cards);
  if (!hosts) fail(hosts.error());
  run.hosts = std::move(*hosts);
  const RankHost& host = host_of(run, run.rank);
  if (run.rank == host.ranks.front()) (void)run_on_processors(processors_of(host, run.cards));
  return run;
}

int serve_rank(RankedRun run, const std::vector<std::string>& node) {
  // srun gives its input to all ranks, and waits for those that leave it unread.
  if (const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC)); nothing)
    (void)::dup2(nothing.get(), STDIN_FILENO);
  const unsigned first = host_of(run, run.rank).ranks.front();
  if (run.rank != first) {
    wait_for(run.cards[first].pid);
    return 0;
  }
  Result<ChildProcesses> children = ChildProcesses::create({.signals = {SIGINT, SIGTERM, SIGHUP}});
  if (!children) refuse(kLostDaemonStatus, children.error().text);
  return RankServer(std::move(run), std::move(*children)).serve(node);
}

}  // namespace braid::cli
