#include "tools/braid/doctor/host_side.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/doctor/findings.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/host_cores.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

constexpr Duration kMostTime = Duration::s(60);
constexpr std::uint32_t kIpUdpHeaderBytes = 28;
constexpr char kProbe[] = "braid doctor's probe";
// A single loss is not what the doctor looks for.
constexpr int kCopies = 3;

sockaddr_in socket_address(const std::string& address, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1)
    throw Json::other_error::create(500, "an address is none", nullptr);
  return name;
}

class HostSide {
 public:
  int serve() {
    begin(Json::parse(next_line()));
    send_probes(Json::parse(next_line()));
    while (wait_for_input()) (void)next_line();
    say({{"heard", heard_}});
    return 0;
  }

 private:
  static void say(const Json& message) {
    fmt::print("\n{}{}\n", kDoctorMark, message.dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  }

  // Of those that a firewall must let through; other programs hardly have it.
  static std::uint16_t port_of_runs() {
    return static_cast<std::uint16_t>(kFirstUdpPort + static_cast<unsigned>(::getpid()) * 7919u % kUdpPorts);
  }

  void begin(const Json& message) {
    Json ports = Json::object(), refused = Json::object();
    for (const Json& given : message.at("addresses")) {
      const auto address = given.get<std::string>();
      sockaddr_in name = socket_address(address, port_of_runs());
      Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      socklen_t length = sizeof name;
      const int whole_packets = IP_PMTUDISC_DO;
      if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
          ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0 ||
          ::setsockopt(socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, &whole_packets, sizeof whole_packets) !=
              0) {
        refused[address] = cause_and_cure(errno);
        continue;
      }
      ports[address] = ntohs(name.sin_port);
      sockets_[address] = std::move(socket);
    }
    const HostNeeds needs{.threads = message.at("threads").get<unsigned>(),
                          .is_sealed = message.at("is_sealed").get<bool>(),
                          // Another version of the doctor does not tell.
                          .memory = {.clusters = message.value("clusters", 0u),
                                     .heap_bytes = message.value("heap_bytes", std::uint64_t{0})}};
    std::vector<Finding> findings;
    // Another version of the doctor sends none.
    if (message.contains("cores")) findings = examine_cores(message["cores"].get<std::vector<unsigned>>());
    const std::vector<Finding> others = judge(read_facts(), needs);
    findings.insert(findings.end(), others.begin(), others.end());
    say({{"version", kVersion}, {"findings", findings}, {"ports", ports}, {"refused", refused}});
  }

  // Confines this process, so that what is counted afterwards is counted of these cores.
  static std::vector<Finding> examine_cores(std::span<const unsigned> named) {
    if (named.empty()) return {};
    const Result<std::string> kept = keep_to_cores(named);
    if (!kept) return {{"cores of the host file", Verdict::kBad, kept.error().text, "change the host file"}};
    return {{"cores of the host file", kept->empty() ? Verdict::kOk : Verdict::kWarning,
             kept->empty() ? text_of_processor_set(named) : *kept,
             kept->empty() ? "" : "name only those in the host file, or ask for the others"}};
  }

  void send_probes(const Json& message) {
    Json sent = Json::array(), refused = Json::array();
    for (const Json& probe : message.at("probes")) {
      Json lengths = Json::array();
      std::string why;
      const auto socket = sockets_.find(probe.at("from").get<std::string>());
      const sockaddr_in to =
          socket_address(probe.at("to").get<std::string>(), probe.at("port").get<std::uint16_t>());
      for (const Json& length : probe.at("bytes")) {
        if (socket == sockets_.end()) break;
        std::string packet(std::min(std::max(length.get<std::uint32_t>(), kIpUdpHeaderBytes + 64), 65000u) -
                               kIpUdpHeaderBytes,
                           '\0');
        packet.replace(0, sizeof kProbe, kProbe, sizeof kProbe);
        bool has_left = false;
        for (int copy = 0; copy < kCopies; ++copy) {
          if (::sendto(socket->second.get(), packet.data(), packet.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof to) >= 0)
            has_left = true;
          else
            why = cause_and_cure(errno);
        }
        if (has_left) lengths.push_back(length);
      }
      sent.push_back(lengths);
      refused.push_back(why);
    }
    const Duration now = unix_time_of_monotonic_zero() + (monotonic_now() - Instant::from_ns(0));
    say({{"sent", sent}, {"refused", refused}, {"clock", now.s()}});
  }

  // Takes what arrives meanwhile. False: the input has ended.
  bool wait_for_input() {
    for (;;) {
      std::vector<pollfd> fds{{STDIN_FILENO, POLLIN, 0}};
      for (const auto& [address, socket] : sockets_) fds.push_back({socket.get(), POLLIN, 0});
      const Duration left = kMostTime - (monotonic_now() - began_);
      if (left.ns() <= 0) refuse(kLostDaemonStatus, "braid doctor has said nothing for a minute");
      (void)::poll(fds.data(), fds.size(), static_cast<int>(left.ns() / 1'000'000 + 1));
      for (const auto& [address, socket] : sockets_) hear(address, socket.get());
      if (fds[0].revents == 0) continue;
      char bytes[65536];
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n > 0) input_.append(bytes, static_cast<std::size_t>(n));
      return n > 0;
    }
  }

  void hear(const std::string& address, int socket) {
    char bytes[65536];
    for (;;) {
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const ssize_t n =
          ::recvfrom(socket, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (n < 0) return;
      if (static_cast<std::size_t>(n) < sizeof kProbe || std::memcmp(bytes, kProbe, sizeof kProbe) != 0)
        continue;
      char text[INET_ADDRSTRLEN] = {};
      (void)::inet_ntop(AF_INET, &from.sin_addr, text, sizeof text);
      heard_.push_back(
          {{"to", address}, {"from", text}, {"bytes", static_cast<std::uint32_t>(n) + kIpUdpHeaderBytes}});
    }
  }

  std::string next_line() {
    for (;;) {
      const std::size_t end = input_.find('\n');
      if (end != std::string::npos) {
        std::string line = input_.substr(0, end);
        input_.erase(0, end + 1);
        return line;
      }
      if (!wait_for_input()) refuse(kLostDaemonStatus, "braid doctor has ended, or its connection");
    }
  }

  const Instant began_ = monotonic_now();
  std::map<std::string, Descriptor> sockets_;  // by address
  std::string input_;
  Json heard_ = Json::array();
};

}  // namespace

int serve_doctor() {
  try {
    return HostSide().serve();
  } catch (const Json::exception& problem) {
    refuse(kUsageStatus, fmt::format("what came is no message of braid doctor: {}", problem.what()));
  }
}

}  // namespace braid::cli
