// A service in this process whose proxies can be paused, so that a bench has their turns apart from what a client does. A
// client's poll runs them otherwise: their instructions would be the client's, and on a slow machine the receiving proxy's
// delayed acknowledgement is due before that poll is over.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/control.h"
#include "proxy/client/service.h"

namespace braid::bench {

// Owned by the client. Its thread calls everything here.
class PausableService final : public proxy::Service {
 public:
  explicit PausableService(std::unique_ptr<proxy::Service> service) : service_(std::move(service)) {}

  // While paused, turn() does nothing: the proxies work when do_work() is called, and at no other time.
  void pause(bool paused) { paused_ = paused; }

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override {
    return service_->call(request, timeout, fd);
  }
  std::byte* memory() override { return service_->memory(); }
  bool next_event(unsigned endpoint, proxy::control::Message* event) override {
    return service_->next_event(endpoint, event);
  }
  void wait_for_event(Duration timeout) override { service_->wait_for_event(timeout); }
  int turn() override { return paused_ ? 0 : service_->turn(); }
  bool works_only_in_turn() const override { return service_->works_only_in_turn(); }
  int descriptor() const override { return service_->descriptor(); }
  bool alive() override { return service_->alive(); }
  Instant now() override { return service_->now(); }

 private:
  std::unique_ptr<proxy::Service> service_;
  bool paused_ = false;
};

}  // namespace braid::bench
