// Messages between clusters, without shared memory: cluster 0 asks, the other clusters listen and echo.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "proxy/client/client.h"

using namespace braid;
using namespace braid::proxy;

constexpr PortId kPort(9);  // the listeners' port; every cluster has its own ports

// Setting up returns a Result: a value, or a text that says what is wrong and how to cure it.
void check(const Result<void>& done) {
  if (!done) std::fprintf(stderr, "echo: %s\n", done.error().text.c_str()), std::exit(1);
}
template <class T>
T must(Result<T> made) {
  if (!made) check(made.error());
  return std::move(made).value();
}
// Hands messages that have arrived to `handler`, or sleeps until one arrives, for 100 ms at most.
template <class Handler>
void wait_and_poll(Endpoint& endpoint, Handler handler) {
  endpoint.doorbell().arm();  // an arrival from here on ends the wait below at once
  if (!endpoint.has_arrivals()) endpoint.doorbell().wait(100_ms);
  endpoint.poll(handler);
}

int main() {
  // `braid run` starts this program once for each cluster and names its service: the braidd of this cluster.
  const char* const service = std::getenv("BRAID_SERVICE");
  if (service == nullptr) return std::fprintf(stderr, "echo: start it with braid run\n"), 2;
  const auto client = must(Client::attach(service, {}));
  Endpoint& endpoint = client->endpoint(0);  // endpoint and connections belong to one thread

  if (client->cluster().value() != 0) {  // a listener
    check(endpoint.listen(kPort, {}));
    const Connection* const peer = must(endpoint.accept(10_s));
    while (peer->state() == ConnectionState::kOpen)  // until cluster 0 has what it wanted, and ends
      wait_and_poll(endpoint, [](Connection& from, ByteView message) {
        if (from.send(message, 10_s) != SendStatus::kSent) std::exit(1);  // waits for credit and room
      });
    return 0;
  }
  for (std::uint16_t cluster = 1; cluster < client->clusters(); ++cluster) {
    // Waits for the other cluster's listen().
    Connection* const to = must(endpoint.connect(ClusterId(cluster), kPort, {}, 10_s));
    const std::string text = "hello, cluster " + std::to_string(cluster);
    if (to->send(std::as_bytes(std::span(text)), 10_s) != SendStatus::kSent) return 1;
    std::string answer;
    while (answer.empty() && to->state() == ConnectionState::kOpen)
      wait_and_poll(endpoint, [&](Connection&, ByteView echo) {  // `echo` is valid in here only
        answer.assign(reinterpret_cast<const char*>(echo.data()), echo.size());
      });
    const bool same = answer == text;
    std::printf("cluster %u echoes \"%s\": %s\n", cluster, text.c_str(), same ? "right" : "WRONG");
    if (!same) return 1;
  }
}
