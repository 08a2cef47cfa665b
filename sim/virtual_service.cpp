#include "sim/virtual_service.h"

#include <fcntl.h>

#include <algorithm>

namespace braid::sim {

using proxy::control::Kind;
using proxy::control::Message;

Result<Message> VirtualService::call(const Message& request, Duration timeout, int* fd) {
  if (node() == nullptr) return error("the node is gone");
  return wait_for(post(request), timeout, fd);
}

std::byte* VirtualService::memory() {
  proxy::Node* const here = node();
  return here == nullptr ? nullptr : here->client_memory(client_);
}

bool VirtualService::next_event(unsigned endpoint, Message* event) {
  collect();
  const auto found = std::find_if(opened_.begin(), opened_.end(),
                                  [&](const Message& m) { return m.opened.endpoint == endpoint; });
  if (found == opened_.end()) return false;
  *event = *found;
  opened_.erase(found);
  return true;
}

bool VirtualService::alive() {
  const proxy::Node* const here = node();
  return here != nullptr && here->has_client(client_);
}

std::uint32_t VirtualService::post(Message request) {
  request.serial = ++serial_;
  requests_.emplace(request.serial, std::nullopt);
  node()->on_request(now(), client_, request);
  on_posted();
  return request.serial;
}

bool VirtualService::has_answer(std::uint32_t serial) {
  collect();
  const auto found = requests_.find(serial);
  return found != requests_.end() && found->second.has_value();
}

Result<Message> VirtualService::wait_for(std::uint32_t serial, Duration timeout, int* fd) {
  const Instant deadline = now() + timeout;
  while (!has_answer(serial)) {
    const char* gone = nullptr;
    if (now() >= deadline) {
      requests_.erase(serial);
      return error("no answer within {:.1f} s of virtual time", timeout.s());
    }
    if (!step()) gone = "the simulation has ended";
    if (gone == nullptr && node() == nullptr) gone = "the node is gone";
    if (gone == nullptr) continue;
    requests_.erase(serial);
    return error("{}", gone);
  }
  const Answer answer = *requests_.at(serial);
  requests_.erase(serial);
  if (answer.message.kind == Kind::kRefused) return error("{}", answer.message.refused.text);
  if (fd != nullptr && answer.fd >= 0) *fd = ::fcntl(answer.fd, F_DUPFD_CLOEXEC, 0);
  return answer.message;
}

void VirtualService::collect() {
  proxy::Node* const here = node();
  if (here == nullptr) return;
  while (const std::optional<proxy::Node::Outbound> out = here->poll_outbound(client_)) {
    if (out->message.serial == 0) {
      if (out->message.kind == Kind::kOpened) opened_.push_back(out->message);
      continue;
    }
    // The request timed out: nobody waits for this answer.
    const auto found = requests_.find(out->message.serial);
    if (found != requests_.end()) found->second = Answer{out->message, out->fd};
  }
}

}  // namespace braid::sim
