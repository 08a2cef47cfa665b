#include "dsm/once/courier.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/output_file.h"
#include "base/system_error.h"
#include "base/time.h"
#include "dsm/live/environment.h"
#include "dsm/once/image.h"
#include "dsm/once/layout.h"
#include "dsm/once/messages.h"
#include "dsm/program/failure.h"
#include "proxy/client/client.h"

namespace braid::dsm::once {

namespace {

// Where the courier listens, beside the runtimes' port (dsm/live/service_network.cpp).
constexpr PortId kImagePort{2};
constexpr std::uint32_t kFetcherWindow = 4u << 20;
constexpr std::uint32_t kCourierWindow = 64u << 10;
constexpr std::size_t kPartBytes = 1u << 20;
// Without any progress in sending; a host that is lost ends the run sooner.
constexpr Duration kSendTimeout = 60_s;
constexpr Duration kNap = 20_ms;
// How long the run may take to end when a host has failed.
constexpr int kEndByItselfMs = 5'000;

enum class Is : char { kHello = 'h', kLayout = 'l', kSize = 's', kPart = 'p', kAnswer = 'a', kGo = 'g' };

struct Received {
  proxy::Connection* from;
  Is is;
  std::string bytes;
};

Environment environment_of_run() {
  Result<Environment> environment = Environment::read();
  if (!environment) fail_with_text(environment.error());
  return std::move(environment).value();
}

std::unique_ptr<proxy::Client> attach(const Environment& environment, const proxy::ClientOptions& options) {
  Result<std::unique_ptr<proxy::Client>> client = proxy::Client::attach(environment.service, options);
  if (!client) fail_with_text(client.error());
  return std::move(client).value();
}

proxy::ConnectionOptions connection_options(std::uint32_t window_bytes) {
  proxy::ConnectionOptions options;
  options.window_bytes = window_bytes;
  return options;
}

bool send_as(proxy::Connection& to, Is is, std::string_view bytes) {
  std::string message(1, static_cast<char>(is));
  message += bytes;
  return to.send(std::as_bytes(std::span(message)), kSendTimeout) == proxy::SendStatus::kSent;
}

// What arrives within a moment.
std::vector<Received> receive_some(proxy::Endpoint& endpoint) {
  std::vector<Received> all;
  endpoint.doorbell().arm();
  if (!endpoint.has_arrivals()) endpoint.doorbell().wait(kNap);
  endpoint.poll([&](proxy::Connection& from, ByteView message) {
    if (message.empty()) return;
    const auto* const text = reinterpret_cast<const char*>(message.data());
    all.push_back({&from, Is{text[0]}, std::string(text + 1, message.size() - 1)});
  });
  return all;
}

std::uint64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// --- The courier

class Courier {
 public:
  Courier(unsigned wanted, int program, int file, std::unique_ptr<proxy::Client> client,
          const Environment& environment)
      : wanted_(wanted),
        program_(program),
        file_(file),
        client_(std::move(client)),
        endpoint_(client_->endpoint(0)),
        timeout_(environment.connect_timeout),
        deadline_(monotonic_now() + timeout_) {}

  void run() {
    if (const Result<void> listening = endpoint_.listen(kImagePort, connection_options(kCourierWindow));
        !listening)
      refuse(listening.error().text);
    while (!is_asked()) serve();
    wait_for_all();
    send_image_to_all();
    while (std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return !host.has_answered; }))
      serve();
    for (const Host& host : hosts_) {
      if (!send_as(*host.connection, Is::kGo, {})) lose(host);
    }
    endpoint_.flush();
    (void)send(program_, {.kind = Kind::kImage});
    // They close when they have heard it.
    while (std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
      return host.connection->state() == proxy::ConnectionState::kOpen;
    }))
      (void)receive_some(endpoint_);
  }

 private:
  struct Host {
    proxy::Connection* connection;
    unsigned clusters = 0;
    bool has_answered = false;
  };

  void wait_for_all() {
    while (come_ < wanted_) {
      if (monotonic_now() > deadline_)
        refuse(fmt::format(
            "the processes of {} clusters on other hosts were not there within {} ms: a larger {} gives them more time",
            wanted_ - come_, timeout_.ns() / 1'000'000, variable::kConnectTimeoutMs));
      serve();
    }
  }

  // The program asks once.
  bool is_asked() {
    pollfd asked{program_, POLLIN, 0};
    if (::poll(&asked, 1, 0) <= 0) return false;
    Message message;
    if (!receive(program_, &message) || message.kind != Kind::kImage) {
      // main() has ended before it started the other clusters. Who has not come yet would wait for this process.
      wait_for_all();
      end();
    }
    return true;
  }

  // The processes of that host tell why, and end the run.
  [[noreturn]] void lose(const Host& host) {
    (void)::poll(nullptr, 0, kEndByItselfMs);
    refuse(fmt::format(
        "the connection to cluster {}, whose host is to go on with cluster 0's process, is closed: {}",
        host.connection->peer().value(), to_string(host.connection->state())));
  }

  void serve() {
    for (const Received& message : receive_some(endpoint_)) take(message);
    while (endpoint_.try_accept() != nullptr) {
    }
    if (!client_->service().alive()) refuse("its braidd has gone");
    for (const Host& host : hosts_) {
      if (host.connection->state() != proxy::ConnectionState::kOpen && !host.has_answered) lose(host);
    }
  }

  void take(const Received& message) {
    const auto known = std::find_if(hosts_.begin(), hosts_.end(),
                                    [&](const Host& host) { return host.connection == message.from; });
    if (message.is == Is::kHello && known == hosts_.end()) {
      Host& host = hosts_.emplace_back(Host{message.from});
      host.clusters = static_cast<unsigned>(std::atoi(message.bytes.c_str()));
      come_ += host.clusters;
      if (!send_as(*host.connection, Is::kLayout, layout_at_start())) lose(host);
      endpoint_.flush();
    } else if (message.is == Is::kAnswer && known != hosts_.end()) {
      known->has_answered = true;
    }
  }

  void send_image_to_all() {
    const std::uint64_t bytes = size_of(file_);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
    if (memory == MAP_FAILED)
      refuse(fmt::format("cannot map the program's image: {}", cause_and_cure(errno)));
    const std::string_view image(static_cast<const char*>(memory), bytes);
    for (const Host& host : hosts_) {
      if (!send_as(*host.connection, Is::kSize, std::to_string(bytes))) lose(host);
    }
    for (std::size_t at = 0; at < bytes; at += kPartBytes) {
      for (const Host& host : hosts_) {
        if (!send_as(*host.connection, Is::kPart, image.substr(at, kPartBytes))) lose(host);
      }
    }
    endpoint_.flush();
    ::munmap(memory, bytes);
  }

  [[noreturn]] void end() {
    client_.reset();
    ::_exit(0);
  }

  [[noreturn]] void refuse(const std::string& why) {
    Message failure;
    failure.kind = Kind::kFailure;
    const std::size_t length = std::min(why.size(), failure.text.size() - 1);
    std::memcpy(failure.text.data(), why.data(), length);
    failure.text_bytes = static_cast<std::uint32_t>(length + 1);
    (void)send(program_, failure);
    end();
  }

  const unsigned wanted_;  // clusters of other hosts
  const int program_;
  const int file_;
  std::unique_ptr<proxy::Client> client_;
  proxy::Endpoint& endpoint_;
  const Duration timeout_;
  const Instant deadline_;
  unsigned come_ = 0;  // clusters of the hosts that are there
  std::vector<Host> hosts_;
};

// --- The fetcher

class Fetcher {
 public:
  Fetcher(int file, std::unique_ptr<proxy::Client> client, proxy::Connection& connection)
      : file_(file), client_(std::move(client)), connection_(connection) {}

  Fetched run(unsigned clusters_of_host) {
    say(Is::kHello, std::to_string(clusters_of_host));
    for (;;) {
      const proxy::ConnectionState state = connection_.state();
      for (const Received& message : receive_some(client_->endpoint(0))) {
        if (message.from == &connection_ && take(message)) return Fetched::kImage;
      }
      // It was closed before what has come now. If that is a failure, cluster 0's process tells it.
      if (state == proxy::ConnectionState::kPeerClosed || !client_->service().alive()) return Fetched::kNone;
      if (state != proxy::ConnectionState::kOpen)
        fail("the connection to cluster 0's host, whose process is to go on here, is closed: {}",
             proxy::to_string(state));
    }
  }

 private:
  void say(Is is, const std::string& bytes) {
    if (!send_as(connection_, is, bytes)) fail("the connection to cluster 0's host is closed");
    client_->endpoint(0).flush();
  }

  // True: all is there, and every host goes on.
  bool take(const Received& message) {
    switch (message.is) {
      case Is::kLayout:
        if (const std::string difference = difference_of_layouts(message.bytes, layout_at_start());
            !difference.empty())
          fail(
              "main() of this program runs once, in cluster 0, and this host cannot go on with its process: {}; give both hosts the same "
              "system, program and kind of processor, or run the program on one host",
              difference.c_str());
        return false;
      case Is::kSize:
        wanted_ = std::strtoull(message.bytes.c_str(), nullptr, 10);
        return false;
      case Is::kPart:
        if (const int problem = write_all(file_, message.bytes); problem != 0)
          fail("cannot keep the image of cluster 0's process: {}", cause_and_cure(problem).c_str());
        came_ += message.bytes.size();
        if (came_ == wanted_) answer();
        return false;
      case Is::kGo:
        return came_ == wanted_;
      case Is::kHello:
      case Is::kAnswer:
        break;
    }
    return false;
  }

  void answer() {
    check_image(file_);
    say(Is::kAnswer, {});
  }

  const int file_;
  std::unique_ptr<proxy::Client> client_;
  proxy::Connection& connection_;
  std::uint64_t wanted_ = 0, came_ = 0;
};

}  // namespace

void carry_image(int program, int file, unsigned clusters_elsewhere) {
  const Environment environment = environment_of_run();
  proxy::ClientOptions options;
  options.receive_bytes = kCourierWindow * (environment.clusters - 1u);
  options.send_bytes = kFetcherWindow;
  Courier(clusters_elsewhere, program, file, attach(environment, options), environment).run();
  ::_exit(0);
}

Fetched fetch_image(int file, unsigned clusters_of_host) {
  const Environment environment = environment_of_run();
  proxy::ClientOptions options;
  options.receive_bytes = kFetcherWindow;
  std::unique_ptr<proxy::Client> client = attach(environment, options);
  const Result<proxy::Connection*> connection = client->endpoint(0).connect(
      ClusterId(0), kImagePort, connection_options(kFetcherWindow), environment.connect_timeout);
  if (!connection) {
    if (!client->service().alive()) return Fetched::kNone;  // the run ends, and `braid run` tells why
    const std::string text = fmt::format(
        "the process of cluster 0, which runs main(), was not there within {} ms ({}): {}",
        environment.connect_timeout.ns() / 1'000'000, variable::kConnectTimeoutMs, connection.error().text);
    fail_with_text(text.data(), text.size());
  }
  return Fetcher(file, std::move(client), *connection.value()).run(clusters_of_host);
}

void send_image(int courier) {
  Message answer;
  if (!send(courier, {.kind = Kind::kImage}) || !receive(courier, &answer))
    fail("the process that carries the program to the other hosts has gone");
  if (answer.kind == Kind::kFailure) fail("{}", answer.text.data());
}

}  // namespace braid::dsm::once
