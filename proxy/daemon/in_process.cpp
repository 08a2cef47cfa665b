#include "proxy/daemon/in_process.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "base/clock.h"

namespace braid::proxy {
namespace {

// The control plane's turn takes as long as a message does, so it comes by time and not by turns, which are short
// while a message is awaited. Its clock is looked at in some of them.
constexpr int kTurnsPerControl = 64;
constexpr Duration kControlInterval = 100_us;
// How long a client that goes waits for what it sent to arrive.
constexpr Duration kLinger = 1_s;

class InProcessService final : public Service {
 public:
  InProcessService(std::shared_ptr<Node> node, std::vector<std::shared_ptr<Node>> others)
      : node_(std::move(node)), others_(std::move(others)), client_(node_->add_client()) {}

  ~InProcessService() override {
    node_->client_gone(client_);
    const Instant deadline = monotonic_now() + kLinger;
    while (node_->has_client(client_) && monotonic_now() < deadline) work_on();
  }

  Result<control::Message> call(const control::Message& request, Duration timeout, int* fd) override {
    control::Message message = request;
    message.serial = ++serial_;
    const Instant deadline = monotonic_now() + timeout;
    node_->on_request(monotonic_now(), client_, message);
    for (;;) {
      work_on();
      while (const std::optional<Node::Outbound> out = node_->poll_outbound(client_)) {
        if (out->message.serial != message.serial) {
          keep(out->message);
          continue;
        }
        if (out->message.kind == control::Kind::kRefused) return error("{}", out->message.refused.text);
        if (fd != nullptr && out->fd >= 0) *fd = ::fcntl(out->fd, F_DUPFD_CLOEXEC, 0);
        return out->message;
      }
      if (monotonic_now() >= deadline) return error("no answer within {:.1f} s", timeout.s());
    }
  }

  bool next_event(unsigned endpoint, control::Message* event) override {
    node_->do_control(monotonic_now());
    while (const std::optional<Node::Outbound> out = node_->poll_outbound(client_)) keep(out->message);
    const auto found = std::find_if(events_.begin(), events_.end(),
                                    [&](const control::Message& m) { return m.opened.endpoint == endpoint; });
    if (found == events_.end()) return false;
    *event = *found;
    events_.erase(found);
    return true;
  }

  void wait_for_event(Duration) override { work_on(); }

  int turn() override {
    const Instant now = monotonic_now();
    int work = work_of(*node_, now);
    for (const auto& other : others_) work += work_of(*other, now);
    if (++turns_ % kTurnsPerControl == 0 && now >= control_due_) {
      control_due_ = now + kControlInterval;
      work += control(now);
    }
    return work;
  }

  bool works_only_in_turn() const override { return true; }

  bool alive() override { return node_->has_client(client_); }

 private:
  static int work_of(Node& node, Instant now) {
    int work = 0;
    for (unsigned p = 0; p < node.proxies(); ++p) work += node.worker(p).do_work(now);
    return work;
  }
  int control(Instant now) {
    int work = control_of(*node_, now);
    for (const auto& other : others_) work += control_of(*other, now);
    return work;
  }
  // A client that violated the protocol is removed; alive() tells it so.
  static int control_of(Node& node, Instant now) {
    while (const std::optional<Node::ClientId> expelled = node.poll_expelled()) node.client_gone(*expelled);
    return node.do_control(now);
  }
  // One turn of everything; lets others run when nothing was to be done.
  void work_on() {
    if (turn() + control(monotonic_now()) == 0) ::sched_yield();
  }
  void keep(const control::Message& m) {
    if (m.kind != control::Kind::kOpened) return;
    if (m.serial == 0) {
      events_.push_back(m);
      return;
    }
    // The answer to a connect that was given up: nobody will ever use it.
    control::Message request;
    request.kind = control::Kind::kClose;
    request.serial = ++serial_;
    request.close = {m.opened.port};
    node_->on_request(monotonic_now(), client_, request);
  }

  std::shared_ptr<Node> node_;
  std::vector<std::shared_ptr<Node>> others_;
  Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::uint64_t turns_ = 0;
  Instant control_due_;
  std::deque<control::Message> events_;
};

}  // namespace

std::unique_ptr<Service> in_process_service(std::shared_ptr<Node> node,
                                            std::vector<std::shared_ptr<Node>> others) {
  return std::make_unique<InProcessService>(std::move(node), std::move(others));
}

}  // namespace braid::proxy
