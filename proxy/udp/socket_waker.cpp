#include "proxy/udp/socket_waker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "base/check.h"

namespace braid::proxy {

Result<std::unique_ptr<SocketWaker>> SocketWaker::start() {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return error("epoll_create1: {}", std::strerror(errno));
  const int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop < 0) {
    const int why = errno;
    ::close(epoll);
    return error("eventfd: {}", std::strerror(why));
  }
  std::unique_ptr<SocketWaker> waker(new SocketWaker(epoll, stop));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, stop, &event) != 0)
    return error("epoll_ctl: {}", std::strerror(errno));
  try {
    waker->thread_ = std::thread([w = waker.get()] { w->run(); });
  } catch (const std::system_error& e) {
    return error("a thread that wakes proxies could not be started: {}", e.what());
  }
  return waker;
}

SocketWaker::~SocketWaker() {
  const std::uint64_t one = 1;
  (void)!::write(stop_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  ::close(stop_);
  ::close(epoll_);
}

Result<WakeWord*> SocketWaker::add(int socket) {
  epoll_event disarmed{.events = EPOLLONESHOT, .data = {.ptr = &words_.emplace_back()}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &disarmed) != 0) {
    const int why = errno;
    words_.pop_back();
    return error("epoll_ctl: {}", std::strerror(why));
  }
  return &words_.back();
}

void SocketWaker::arm(int socket, WakeWord* word) {
  epoll_event armed{.events = EPOLLIN | EPOLLONESHOT, .data = {.ptr = word}};
  int status = ::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &armed);
  if (status != 0 && errno == ENOENT) status = ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &armed);
  CHECK_EQ(status, 0);
}

void SocketWaker::leave(int socket) {
  // An error: it is another socket than the one that was watched, which was closed.
  (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
}

void SocketWaker::run() {
  std::array<epoll_event, 32> events;
  while (true) {
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      auto* const word = static_cast<WakeWord*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (word == nullptr) return;  // the eventfd
      if (word->asleep()) word->ring();
    }
    CHECK(count >= 0 || errno == EINTR);
  }
}

}  // namespace braid::proxy
