// A client's access to the control plane of a node in virtual time. A request is a call of
// the node; while the client waits for the answer, the driver of the node lets time pass.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "proxy/client/service.h"
#include "proxy/daemon/node.h"

namespace braid::sim {

// Used by the thread that drives the node. A driver derives from it and defines
// where the node is, how time passes, and how the client's end affects the node.
class VirtualService : public proxy::Service {
 public:
  explicit VirtualService(proxy::Node& node) : client_(node.add_client()) {}

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override;
  std::byte* memory() override;
  bool next_event(unsigned endpoint, proxy::control::Message* event) override;
  void wait_for_event(Duration) override { (void)step(); }
  bool alive() override;

 protected:
  // The node, or nullptr when the client can no longer reach it.
  virtual proxy::Node* node() = 0;
  // The node's control plane has a request.
  virtual void on_posted() = 0;
  // Handles the next event. Returns false if nothing will ever happen again.
  virtual bool step() = 0;

  proxy::Node::ClientId client() const { return client_; }
  // Posts a request and returns its serial number, under
  // which wait_for() returns the answer. Requires node().
  std::uint32_t post(proxy::control::Message request);
  bool has_answer(std::uint32_t serial);
  // Waits until the request is answered, and removes it. `fd` is as in call().
  Result<proxy::control::Message> wait_for(std::uint32_t serial, Duration timeout, int* fd);

 private:
  struct Answer {
    proxy::control::Message message;
    int fd = -1;  // the node's own
  };
  void collect();

  const proxy::Node::ClientId client_;
  std::uint32_t serial_ = 0;
  std::map<std::uint32_t, std::optional<Answer>> requests_;  // by serial number: requests that are waited for
  std::deque<proxy::control::Message> opened_;               // events that were not taken yet
};

}  // namespace braid::sim
