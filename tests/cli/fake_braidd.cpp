// Stands in for braidd in the supervisor's tests: takes its configuration as braidd does, and then behaves as
// FAKE_BRAIDD says: nothing (default), "refuses" (at start), "silent" (never ready), "dies" (cluster 1, once
// an application is there), "stubborn" (ignores SIGTERM), "fails-late" (a bad status when it is asked to
// end). FAKE_BRAIDD_SECRET is the secret that it wants, where it needs one.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "proxy/channel/node_counters.h"
#include "proxy/daemon/node_config.h"

namespace {

std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  ssize_t n;
  while ((n = ::pread(fd, bytes, sizeof bytes, static_cast<off_t>(text.size()))) > 0)
    text.append(bytes, static_cast<std::size_t>(n));
  return text;
}

void end_badly(int) {
  ::_exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--config-fd") return 64;
  const auto config = braid::proxy::parse_node_config(read_all(std::stoi(argv[2])), "fake");
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().text.c_str());
    return 65;
  }
  // A secret comes to those daemons that need it, and to no other.
  const int secret = config->security.secret_fd;
  if (braid::settings::needs_secret(*config) != (secret >= 0)) return 69;
  const char* const expected = std::getenv("FAKE_BRAIDD_SECRET");
  if (secret >= 0 && read_all(secret) != (expected == nullptr ? read_all(secret).substr(0, 32) : expected))
    return 69;
  const char* const variable = std::getenv("FAKE_BRAIDD");
  const std::string behaviour = variable == nullptr ? "" : variable;
  if (behaviour == "refuses" && config->cluster == 1) {
    std::fprintf(stderr, "this machine has no such device");
    return 5;
  }
  if (behaviour == "stubborn") std::signal(SIGTERM, SIG_IGN);
  if (behaviour == "fails-late" && config->cluster == 1) std::signal(SIGTERM, end_badly);
  if (behaviour == "silent" && config->cluster == 1) ::pause();

  auto* const counters = static_cast<braid::proxy::NodeCounters*>(
      ::mmap(nullptr, sizeof(braid::proxy::NodeCounters), PROT_READ | PROT_WRITE, MAP_SHARED,
             config->counters_fd, 0));
  if (counters == MAP_FAILED) return 66;
  for (unsigned p = 0; p < config->proxies; ++p) {
    counters->proxy[p].messages_sent.set(1000 * config->cluster + p + 1);
    counters->proxy[p].misdirected.set(7);
    if (config->cluster == 1) counters->proxy[p].duplicates.set(3);
  }
  for (const auto& link : config->links) {
    if (link.kind == braid::proxy::LinkConfig::Kind::kShm && ::lseek(link.fd, 0, SEEK_END) <= 0) return 67;
  }
  std::printf("cluster %u of %u, mtu %u, %zu links\n", config->cluster, config->clusters,
              config->transport.mtu_bytes, config->links.size());
  std::fflush(stdout);
  if (::write(config->ready_fd, "r", 1) != 1) return 68;
  if (behaviour == "dies" && config->cluster == 1) {
    ::accept(config->listen_fd, nullptr, nullptr);
    ::raise(SIGABRT);  // which no sanitizer takes for itself
  }
  for (;;) ::pause();
}
