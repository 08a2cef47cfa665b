#include "proxy/daemon/in_process.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "base/clock.h"

namespace braid::proxy {
namespace {

constexpr int kTurnsPerControl = 64;
// How long a client that goes waits for what it sent to arrive.
constexpr Duration kLinger = 1_s;

class InProcessService final : public Service {
 public:
  explicit InProcessService(std::shared_ptr<Node> node)
      : node_(std::move(node)), client_(node_->add_client()) {}

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
      while (const std::optional<Node::Outbound> out = node_->poll_outbound()) {
        if (out->message.serial == 0) {
          events_.push_back(out->message);
        } else if (out->message.serial == message.serial) {
          if (out->message.kind == control::Kind::kRefused) return error("{}", out->message.refused.text);
          if (fd != nullptr && out->fd >= 0) *fd = ::dup(out->fd);
          return out->message;
        }
      }
      if (monotonic_now() >= deadline) return error("no answer within {:.1f} s", timeout.s());
    }
  }

  bool next_event(unsigned endpoint, control::Message* event) override {
    node_->do_control(monotonic_now());
    while (const std::optional<Node::Outbound> out = node_->poll_outbound())
      if (out->message.serial == 0) events_.push_back(out->message);
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
    int work = 0;
    for (unsigned p = 0; p < node_->proxies(); ++p) work += node_->worker(p).do_work(now);
    if (++turns_ % kTurnsPerControl == 0) work += node_->do_control(now);
    return work;
  }

  bool alive() override { return true; }

 private:
  // One turn of everything; lets others run when nothing was to be done.
  void work_on() {
    if (turn() + node_->do_control(monotonic_now()) == 0) ::sched_yield();
  }

  std::shared_ptr<Node> node_;
  Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::uint64_t turns_ = 0;
  std::deque<control::Message> events_;
};

}  // namespace

std::unique_ptr<Service> in_process_service(std::shared_ptr<Node> node) {
  return std::make_unique<InProcessService>(std::move(node));
}

}  // namespace braid::proxy
