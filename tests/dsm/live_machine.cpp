#include "tests/dsm/live_machine.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ostream>

#include "base/check.h"
#include "base/prng.h"
#include "dsm/engine/types.h"
#include "dsm/live/machine.h"
#include "dsm/live/network.h"
#include "dsm/program/host.h"

namespace braid::dsm {

namespace {

constexpr unsigned kSecondsToLive = 60;
constexpr std::size_t kLongestMessage = kMessageHeaderBytes + max_message_bytes(PageLength());

// A packet socket to each other cluster.
class SocketNetwork final : public Network {
 public:
  SocketNetwork(std::uint16_t self, std::vector<int> sockets, const LiveMachine& machine)
      : self_(self),
        moves_only_in_poll_(machine.moves_only_in_poll),
        damage_(machine.damage),
        sockets_(std::move(sockets)),
        closed_(sockets_.size()),
        order_(machine.order),
        prng_(0x5eed + sockets_.size()),
        wake_(::eventfd(0, EFD_NONBLOCK)),
        slots_(kSlots) {
    CHECK_GE(wake_, 0);
    held_.reserve(kSlots);
    for (std::size_t i = 0; i < kSlots; ++i) free_.push_back(i);
  }
  ~SocketNetwork() override {
    for (const int socket : sockets_) {
      if (socket >= 0) ::close(socket);
    }
    ::close(wake_);
  }

  // The room is in this object, not in the socket, so a message that the socket cannot take yet blocks the next one.
  MutableBytes reserve(ClusterId to, std::uint32_t bytes, unsigned) override {
    if (unsent_bytes_ > 0 && !send_unsent()) {
      ++counts_.no_credit;
      return {};
    }
    unsent_to_ = to;
    CHECK_LE(bytes, room_.size());
    return MutableBytes(room_).first(bytes);
  }
  void commit(ClusterId to, std::uint32_t bytes) override {
    CHECK_EQ(to, unsent_to_);
    unsent_bytes_ = bytes;
    ++counts_.messages_sent;
    if (!moves_only_in_poll_) (void)send_unsent();
  }
  void flush() override {
    if (unsent_bytes_ > 0) (void)send_unsent();
  }
  bool moves_only_in_poll() const override { return moves_only_in_poll_; }

  int poll(Sink& sink, int limit) override {
    flush();
    int handed = 0;
    while (handed < limit) {
      if (!receive() && held_.empty()) break;
      // Shuffled: any message that has arrived; otherwise the oldest.
      const std::size_t pick = order_ == Order::kShuffled ? prng_.below(held_.size()) : 0;
      const std::size_t slot = held_[pick];
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(pick));
      held_count_.store(held_.size());
      ++handed;
      ++counts_.messages_received;
      const MutableBytes message = MutableBytes(slots_[slot].bytes).first(slots_[slot].length);
      damage_(slots_[slot].from.value(), self_, message);
      sink.on_message(slots_[slot].from, message);
      free_.push_back(slot);
    }
    return handed;
  }

  const char* trouble(ClusterId peer) override {
    return closed_[peer.value()].load() && held_.empty() ? "its socket was closed" : nullptr;
  }
  NetworkCounts counts() const override { return counts_; }

  bool has_arrivals() const override {
    if (held_count_.load() > 0) return true;
    std::array<pollfd, kMaxClusters + 1> fds;
    const nfds_t count = watch_sockets(fds.data());
    return ::poll(fds.data(), count, 0) > 0;
  }
  void arm() override {
    // A thread that sleeps already must watch the sockets from now on.
    if (!armed_.exchange(true)) call();
  }
  void disarm() override { armed_ = false; }
  void wait(Duration timeout) override {
    std::array<pollfd, kMaxClusters + 1> fds;
    fds[0] = {wake_, POLLIN, 0};
    const nfds_t count = armed_ ? 1 + watch_sockets(fds.data() + 1) : 1;
    ::poll(fds.data(), count, static_cast<int>(timeout.ns() / 1'000'000));
    std::uint64_t calls = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_, &calls, sizeof calls);
  }
  void wake() override { call(); }

 private:
  // Made beforehand: messages are taken inside page faults, where nothing may allocate.
  static constexpr std::size_t kSlots = 64;
  struct Slot {
    ClusterId from;
    std::size_t length = 0;
    std::array<std::byte, kLongestMessage> bytes;
  };

  void call() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_, &one, sizeof one);
  }
  nfds_t watch_sockets(pollfd* fds) const {
    nfds_t count = 0;
    for (std::size_t k = 0; k < sockets_.size() && !moves_only_in_poll_; ++k) {
      if (sockets_[k] >= 0 && !closed_[k].load()) fds[count++] = {sockets_[k], POLLIN, 0};
    }
    return count;
  }
  bool send_unsent() {
    const ssize_t n =
        ::send(sockets_[unsent_to_.value()], room_.data(), unsent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    unsent_bytes_ = 0;  // sent, or the peer is gone: then receive() will tell
    return true;
  }
  // Takes one message from each socket that has one.
  bool receive() {
    bool any = false;
    for (std::size_t k = 0; k < sockets_.size(); ++k) {
      if (sockets_[k] < 0 || closed_[k].load() || free_.empty()) continue;
      Slot& slot = slots_[free_.back()];
      const ssize_t n = ::recv(sockets_[k], slot.bytes.data(), slot.bytes.size(), MSG_DONTWAIT);
      if (n > 0) {
        slot.from = ClusterId(static_cast<std::uint16_t>(k));
        slot.length = static_cast<std::size_t>(n);
        held_.push_back(free_.back());
        free_.pop_back();
        any = true;
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        closed_[k] = true;
      }
    }
    held_count_.store(held_.size());
    return any;
  }

  const std::uint16_t self_;
  const bool moves_only_in_poll_;
  const decltype(LiveMachine::damage) damage_;
  std::vector<int> sockets_;
  std::vector<std::atomic<bool>> closed_;
  Order order_;
  Prng prng_;
  int wake_;
  std::atomic<bool> armed_{false};
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;  // slots
  std::vector<std::size_t> held_;  // slots, the oldest first
  std::atomic<std::size_t> held_count_{0};
  std::array<std::byte, kLongestMessage> room_;
  ClusterId unsent_to_;
  std::uint32_t unsent_bytes_ = 0;
  NetworkCounts counts_;
};

struct Process {
  pid_t pid = -1;
  int errors = -1;  // its standard error
};

Process start(const std::function<int()>& program) {
  int errors[2];
  CHECK_EQ(::pipe(errors), 0);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  CHECK_GE(pid, 0);
  if (pid != 0) {
    ::close(errors[1]);
    return {pid, errors[0]};
  }
  ::dup2(errors[1], STDERR_FILENO);
  ::close(errors[0]);
  ::close(errors[1]);
  ::alarm(kSecondsToLive);
  const int status = program();
  std::fflush(nullptr);
  ::_exit(status);
}

Ending end_of(const Process& process) {
  Ending ending;
  std::array<char, 4096> buffer;
  ssize_t n = 0;
  while ((n = ::read(process.errors, buffer.data(), buffer.size())) > 0)
    ending.text.append(buffer.data(), static_cast<std::size_t>(n));
  ::close(process.errors);
  int status = 0;
  CHECK_EQ(::waitpid(process.pid, &status, 0), process.pid);
  if (WIFEXITED(status)) ending.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  return ending;
}

}  // namespace

bool crashed(const Ending& ending) {
  const auto says = [&](const char* word) { return ending.text.find(word) != std::string::npos; };
  return ending.signal == SIGSEGV || ending.signal == SIGBUS ||
         (says("Sanitizer") && (says("SEGV") || says("BUS")));
}

std::string shape_of(const LiveMachine& machine) {
  return std::to_string(machine.clusters) + "x" + std::to_string(machine.compute) +
         (machine.order == Order::kShuffled ? "Shuffled" : "") +
         (machine.moves_only_in_poll ? "Driven" : "") +
         (machine.protect == Environment::Protect::kMprotect ? "Mprotect" : "");
}

void PrintTo(const LiveMachine& machine, std::ostream* out) {
  *out << shape_of(machine);
}

Ending in_a_process(const std::function<int()>& program) {
  return end_of(start(program));
}

std::vector<Ending> run_machine(const LiveMachine& machine, const std::function<int()>& program) {
  const unsigned n = machine.clusters;
  std::vector<std::vector<int>> sockets(n, std::vector<int>(n, -1));
  for (unsigned a = 0; a < n; ++a) {
    for (unsigned b = a + 1; b < n; ++b) {
      int pair[2];
      CHECK_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  const auto close_all_but = [&](unsigned kept) {
    for (unsigned k = 0; k < n; ++k) {
      for (const int socket : sockets[k]) {
        if (k != kept && socket >= 0) ::close(socket);
      }
    }
  };
  std::vector<Process> processes;
  for (unsigned k = 0; k < n; ++k) {
    processes.push_back(start([&] {
      close_all_but(k);
      Environment environment;
      environment.cluster = static_cast<std::uint16_t>(k);
      environment.clusters = static_cast<std::uint16_t>(n);
      environment.compute = static_cast<std::uint16_t>(machine.compute);
      environment.heap_mib = machine.heap_mib;
      environment.protect = machine.protect;
      machine.adjust(environment);
      join_machine(
          environment,
          n == 1 ? nullptr : std::make_unique<SocketNetwork>(environment.cluster, sockets[k], machine));
      return program();
    }));
  }
  close_all_but(n);
  std::vector<Ending> endings;
  for (const Process& process : processes) endings.push_back(end_of(process));
  return endings;
}

void expect_runs(const LiveMachine& machine, const std::function<int()>& program) {
  const std::vector<Ending> endings = run_machine(machine, program);
  for (std::size_t k = 0; k < endings.size(); ++k) {
    EXPECT_EQ(endings[k].exit_status, 0)
        << "cluster " << k << ", signal " << endings[k].signal << ": " << endings[k].text;
  }
}

}  // namespace braid::dsm
