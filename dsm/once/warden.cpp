#include "dsm/once/warden.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/limits.h"
#include "base/time.h"
#include "dsm/live/environment.h"
#include "dsm/once/messages.h"
#include "dsm/once/stand_in.h"
#include "dsm/program/failure.h"

namespace braid::dsm::once {

int listen_for_stand_ins(const char* run, std::uint32_t first) {
  sockaddr_un address;
  const socklen_t length = rendezvous(run, first, &address);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(fd, kMaxClusters) == 0)
    return fd;
  const int problem = errno;
  ::close(fd);
  return -problem;
}

namespace {

// A cluster: its stand-in's connection and its program.
struct Place {
  int stand_in = -1;
  bool come = false;   // its stand-in has been here
  pid_t program = 0;   // 0: none yet
  bool ended = false;  // its program
  Message message;     // until it is handed to the program of cluster 0
  Descriptors with;
};

class Warden {
 public:
  explicit Warden(const WardenPlan& plan)
      : plan_(plan), deadline_(monotonic_now() + Duration::ms(plan.timeout_ms)), main_(plan.program) {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    children_ = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!has_cluster_0()) return;
    places_[0].stand_in = plan.stand_in;
    places_[0].come = true;
    places_[0].program = plan.first;
    (void)send(plan.stand_in, {.kind = Kind::kProgram, .pid = plan.first});
  }

  void run() {
    while (!finished()) turn();
  }

 private:
  bool has_cluster_0() const { return plan_.stand_in >= 0; }
  bool is_of_host(std::uint32_t cluster) const {
    return std::find(plan_.clusters.begin(), plan_.clusters.end(), cluster) != plan_.clusters.end();
  }

  // While programs run, and after a start that never came until every stand-in has been told so.
  bool finished() const {
    if ((!first_has_ended_ && !has_cluster_0()) || courier_ > 0) return false;
    for (const unsigned k : plan_.clusters) {
      if (places_[k].program > 0 && !places_[k].ended) return false;
    }
    return started_ || all_came() || monotonic_now() > deadline_;
  }

  bool all_came() const {
    for (const unsigned k : plan_.clusters) {
      if (!places_[k].come) return false;
    }
    return true;
  }

  void turn() {
    std::array<pollfd, kMaxClusters + 3> fds{};
    fds[0] = {children_, POLLIN, 0};
    fds[1] = {plan_.listener, POLLIN, 0};
    fds[2] = {main_, POLLIN, 0};
    std::size_t used = 3;
    for (const unsigned k : plan_.clusters) fds[used++] = {places_[k].stand_in, POLLIN, 0};
    const bool waits = !all_came() && (wanted_ || first_has_ended_);
    // No pidfd, no timer: a missed signal would leave a stand-in waiting for ever, so children are looked at each second.
    if (::poll(fds.data(), used, waits ? 50 : 1000) < 0) return;
    if (fds[1].revents != 0) accept_stand_in();
    if (fds[2].revents != 0) take_from_program();
    used = 3;
    for (const unsigned k : plan_.clusters) {
      if (fds[used++].revents != 0) take_from_stand_in(k);
    }
    drain_signals();
    reap();
    if (wanted_) give_places();
  }

  void drain_signals() {
    signalfd_siginfo info;
    while (::read(children_, &info, sizeof info) == sizeof info) {
    }
  }

  void accept_stand_in() {
    const int fd = ::accept4(plan_.listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ucred who{};
    socklen_t bytes = sizeof who;
    Message message;
    Descriptors with;
    const bool ours = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
                      who.uid == ::geteuid() && receive(fd, &message, &with) &&
                      message.kind == Kind::kPlace && is_of_host(message.cluster) &&
                      !places_[message.cluster].come;
    if (!ours) {
      with.close_all();
      ::close(fd);
      return;
    }
    Place& place = places_[message.cluster];
    place.stand_in = fd;
    place.come = true;
    place.message = message;
    place.with = with;
    if (first_has_ended_ && !started_) release(place);
  }

  // There is no program for this cluster: the one that was to be cloned has ended without it.
  void release(Place& place) {
    if (place.stand_in >= 0)
      (void)send(place.stand_in, {.kind = Kind::kEnd, .wait_status = status_without_program_});
    place.with.close_all();
  }

  void take_from_program() {
    Message message;
    if (!receive(main_, &message)) {
      ::close(main_);
      main_ = -1;
    } else if (message.kind == Kind::kStart) {
      wanted_ = true;
    } else if (message.kind == Kind::kProgram && is_of_host(message.cluster)) {
      Place& place = places_[message.cluster];
      place.program = message.pid;
      if (place.stand_in < 0) ::kill(place.program, SIGKILL);
      (void)send(place.stand_in, message);
      (void)send(main_, message);
    }
  }

  // A stand-in sends one message, its place; what comes then is its end.
  void take_from_stand_in(unsigned cluster) {
    Place& place = places_[cluster];
    Message message;
    if (receive(place.stand_in, &message)) return;
    ::close(place.stand_in);
    place.stand_in = -1;
    if (place.program > 0 && !place.ended) ::kill(place.program, SIGKILL);
  }

  void give_places() {
    for (const unsigned k : plan_.clusters) {
      if (places_[k].come && places_[k].stand_in < 0) return refuse("the process of cluster {} has gone", k);
      if (!places_[k].come && monotonic_now() > deadline_)
        return refuse("the process of cluster {} was not there within {} ms: a larger {} gives it more time",
                      k, plan_.timeout_ms, variable::kConnectTimeoutMs);
    }
    if (!all_came()) return;
    wanted_ = false;
    started_ = true;
    for (const unsigned k : plan_.clusters) {
      if (k == 0) continue;  // its program has its place
      (void)send(main_, places_[k].message, places_[k].with);
      places_[k].with.close_all();
    }
  }

  template <class... Args>
  void refuse(fmt::format_string<Args...> format, const Args&... args) {
    wanted_ = false;
    Message failure;
    failure.kind = Kind::kFailure;
    const std::size_t length =
        format_within(failure.text.data(), failure.text.size() - 1, format, fmt::make_format_args(args...));
    failure.text[length] = '\0';
    failure.text_bytes = static_cast<std::uint32_t>(length + 1);
    (void)send(main_, failure);
  }

  void reap() {
    int wait_status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      for (const unsigned k : plan_.clusters) {
        if (places_[k].program == pid) end(k, wait_status);
      }
      if (pid == courier_) courier_ = -1;
      if (pid == plan_.first) end_first(wait_status);
    }
  }

  void end(unsigned cluster, int wait_status) {
    Place& place = places_[cluster];
    place.ended = true;
    if (place.stand_in >= 0)
      (void)send(place.stand_in, {.kind = Kind::kEnd, .cluster = cluster, .wait_status = wait_status});
  }

  void end_first(int wait_status) {
    first_has_ended_ = true;
    // That of cluster 0 is told by its own stand-in.
    if (!has_cluster_0()) status_without_program_ = wait_status;
    if (started_ && has_cluster_0()) return;
    for (const unsigned k : plan_.clusters) {
      if (places_[k].program == 0 && places_[k].come) release(places_[k]);
    }
  }

  const WardenPlan& plan_;
  const Instant deadline_;
  int children_ = -1;
  int main_;
  bool wanted_ = false;   // the program has asked for the places
  bool started_ = false;  // and has got them
  bool first_has_ended_ = false;
  pid_t courier_ = plan_.courier;   // -1: it has ended
  int status_without_program_ = 0;  // of a cluster that gets no program
  std::array<Place, kMaxClusters> places_;
};

}  // namespace

void watch(const WardenPlan& plan) {
  // It must not hold a terminal or a pipe of the program open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2 && null >= 0; ++fd) ::dup2(null, fd);
  static Warden warden(plan);
  warden.run();
  ::_exit(0);
}

}  // namespace braid::dsm::once
