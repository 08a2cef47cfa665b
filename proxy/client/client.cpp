#include "proxy/client/client.h"

#include <unistd.h>

#include <utility>

#include "proxy/client/socket_service.h"

namespace braid::proxy {
namespace {

// Of a descriptor that came with an answer, which is closed. -1: none came.
Result<Mapping> map_and_close(int fd, std::size_t bytes, Mapping::Access access) {
  if (fd < 0) return error("no descriptor came");
  Result<Mapping> mapping = Mapping::of(fd, bytes, access);
  ::close(fd);
  return mapping;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::attach(const std::string& address, const ClientOptions& options) {
  Result<std::unique_ptr<Service>> service = connect_to_service(address);
  if (!service) return service.error();
  return attach(std::move(service).value(), options);
}

Result<std::unique_ptr<Client>> Client::attach(std::unique_ptr<Service> service,
                                               const ClientOptions& options) {
  control::Message request;
  request.kind = control::Kind::kAttach;
  request.attach = {options.endpoints, options.send_bytes, options.receive_bytes};
  int fd = -1;
  Result<control::Message> reply = service->call(request, 10_s, &fd);
  if (!reply) return reply.error();
  std::byte* memory = reply->kind == control::Kind::kAttached && fd < 0 ? service->memory() : nullptr;
  if (reply->kind != control::Kind::kAttached || (fd < 0 && memory == nullptr))
    return error(
        "the service answered an attach request with something else: is it a braidd of this version?");
  std::unique_ptr<Client> client(new Client);
  client->geometry_ = reply->attached.geometry;
  client->cluster_ = ClusterId(reply->attached.cluster);
  client->clusters_ = reply->attached.clusters;
  if (memory == nullptr) {
    const std::uint64_t bytes = client->geometry_.total_bytes();
    Result<Mapping> mapping = map_and_close(fd, bytes, Mapping::Access::kReadAndWrite);
    if (!mapping)
      return error("cannot map the {} bytes shared with the service: {}", bytes, mapping.error().text);
    client->mapping_ = std::move(mapping).value();
    memory = client->mapping_.begin();
  }
  client->service_ = std::move(service);
  for (unsigned e = 0; e < client->geometry_.endpoints; ++e) {
    client->endpoints_.push_back(std::unique_ptr<Endpoint>(
        new Endpoint(*client, client->service_.get(), memory, client->geometry_, e)));
  }
  return client;
}

Result<const NodeCounters*> Client::counters() {
  const std::lock_guard lock(counters_lock_);
  if (counters_.begin() == nullptr) {
    control::Message request;
    request.kind = control::Kind::kCounters;
    int fd = -1;
    const Result<control::Message> reply = service_->call(request, 5_s, &fd);
    if (!reply) return reply.error();
    Result<Mapping> mapping = map_and_close(fd, sizeof(NodeCounters), Mapping::Access::kRead);
    if (!mapping || reinterpret_cast<const NodeCounters*>(mapping->begin())->magic != NodeCounters::kMagic)
      return error(
          "the node's counters cannot be read: build the application and braidd from the same source");
    counters_ = std::move(mapping).value();
  }
  return reinterpret_cast<const NodeCounters*>(counters_.begin());
}

Client::~Client() {
  for (const auto& endpoint : endpoints_) endpoint->flush();
}

}  // namespace braid::proxy
