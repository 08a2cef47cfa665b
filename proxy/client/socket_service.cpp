#include "proxy/client/socket_service.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "base/wake_word.h"
#include "proxy/channel/unix_socket.h"

namespace braid::proxy {
namespace {

// turn() is called in every loop that waits; the socket is looked at once in so many turns.
constexpr std::uint32_t kTurnsPerLook = 1024;
constexpr Duration kLookInterval = 5_ms;

class SocketService final : public Service {
 public:
  explicit SocketService(int fd) : fd_(fd) {}
  ~SocketService() override { ::close(fd_); }

  Result<control::Message> call(const control::Message& request, Duration timeout, int* fd) override {
    const std::scoped_lock lock(mutex_);
    control::Message message = request;
    message.serial = ++serial_;
    if (!send_message(fd_, message, -1)) return gone();
    const Instant deadline = monotonic_now() + timeout;
    for (;;) {
      control::Message answer;
      int passed = -1;
      switch (receive(deadline - monotonic_now(), &answer, &passed)) {
        case Received::kNothing:
          return error("the service at its socket did not answer within {:.1f} s", timeout.s());
        case Received::kGone:
          return gone();
        case Received::kMessage:
          break;
      }
      if (answer.kind == control::Kind::kRefused && answer.serial == 0) return refused(answer);
      if (answer.serial == message.serial) {
        if (fd != nullptr)
          *fd = passed;
        else if (passed >= 0)
          ::close(passed);
        if (answer.kind == control::Kind::kRefused) return refused(answer);
        return answer;
      }
      if (passed >= 0) ::close(passed);
      keep(answer);
    }
  }

  bool next_event(unsigned endpoint, control::Message* event) override {
    const std::scoped_lock lock(mutex_);
    take_events(Duration());
    const auto found = std::find_if(events_.begin(), events_.end(),
                                    [&](const control::Message& m) { return m.opened.endpoint == endpoint; });
    if (found == events_.end()) return false;
    *event = *found;
    events_.erase(found);
    return true;
  }

  void wait_for_event(Duration timeout) override {
    pollfd p{fd_, POLLIN, 0};
    ::poll(&p, 1, static_cast<int>(timeout.ns() / 1'000'000));
  }

  int turn() override {
    if (turns_.fetch_add(1, std::memory_order_relaxed) % kTurnsPerLook == 0) look();
    return 0;
  }

  int descriptor() const override { return fd_; }

  bool alive() override {
    const std::int64_t now = monotonic_now().ns();
    if (now >= next_look_ns_.load(std::memory_order_relaxed)) {
      next_look_ns_.store(now + kLookInterval.ns(), std::memory_order_relaxed);
      look();
    }
    return alive_.load(std::memory_order_relaxed);
  }

 private:
  enum class Received { kMessage, kNothing, kGone };

  static Error refused(control::Message& answer) {
    answer.refused.text[sizeof answer.refused.text - 1] = '\0';
    return error("{}", answer.refused.text);
  }

  // A service that refuses a process says why before it closes the socket. What came before the end can still be
  // read, after the error that the kernel reports first if the service did not read our request.
  Error gone() {
    alive_.store(false, std::memory_order_relaxed);
    control::Message last;
    for (int attempt = 0; attempt < 2; ++attempt) {
      int passed = -1;
      const bool received = receive_message(fd_, &last, &passed);
      if (passed >= 0) ::close(passed);
      if (received && last.kind == control::Kind::kRefused && last.serial == 0) return refused(last);
    }
    return error("the service is gone: its braidd ended or died");
  }

  // Notes when the other side has hung up.
  void look() {
    pollfd p{fd_, POLLRDHUP, 0};
    if (::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
      alive_.store(false, std::memory_order_relaxed);
  }

  Received receive(Duration timeout, control::Message* message, int* passed) {
    pollfd p{fd_, POLLIN, 0};
    const Instant deadline = monotonic_now() + timeout;
    int ready = 0;
    do {
      const std::int64_t left_ns = (deadline - monotonic_now()).ns();
      ready = ::poll(&p, 1,
                     static_cast<int>(std::clamp<std::int64_t>((left_ns + 999'999) / 1'000'000, 0, INT_MAX)));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) return Received::kNothing;
    if (receive_message(fd_, message, passed)) return Received::kMessage;
    alive_.store(false, std::memory_order_relaxed);
    return Received::kGone;
  }

  void take_events(Duration timeout) {
    control::Message message;
    int passed = -1;
    while (receive(timeout, &message, &passed) == Received::kMessage) {
      if (passed >= 0) ::close(passed);
      passed = -1;
      keep(message);
    }
  }

  void keep(const control::Message& m) {
    if (m.kind != control::Kind::kOpened) return;
    if (m.serial == 0) {
      events_.push_back(m);
      return;
    }
    // The answer to a connect that was given up: it will not be used.
    control::Message request;
    request.kind = control::Kind::kClose;
    request.serial = ++serial_;
    request.close = {m.opened.port};
    (void)send_message(fd_, request, -1);
  }

  const int fd_;
  std::mutex mutex_;  // set-up only, never on the message path
  std::uint32_t serial_ = 0;
  std::deque<control::Message> events_;
  std::atomic<std::uint32_t> turns_{0};
  std::atomic<std::int64_t> next_look_ns_{0};
  std::atomic<bool> alive_{true};
};

}  // namespace

Result<std::unique_ptr<Service>> connect_to_service(const std::string& address) {
  const Result<int> fd = connect_unix(address);
  if (!fd) return fd.error();
  (void)WakeBarrier::join();  // a refusal costs a fence whenever messages are handed over, and nothing else
  return std::unique_ptr<Service>(std::make_unique<SocketService>(fd.value()));
}

}  // namespace braid::proxy
