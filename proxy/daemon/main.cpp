// braidd: the service of one node. It owns the node's proxies and their queues of the NICs, and the channels
// to clients.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/guarded.h"
#include "base/process_start.h"
#include "proxy/daemon/daemon.h"
#include "proxy/daemon/node_config.h"
#include "settings/document.h"

namespace {

using braid::error;
using braid::Result;

constexpr int kFilesIncompleteStatus = 73;  // EX_CANTCREAT

Result<std::string> read_fd(int fd) {
  std::string text;
  char buffer[4096];
  if (::lseek(fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
    return error("descriptor {}: {}", fd, std::strerror(errno));
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0) return error("descriptor {}: {}", fd, std::strerror(errno));
    if (got == 0 || text.size() > braid::settings::kMaxFileBytes)
      return text;  // which is refused as too long
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

constexpr int kCannotStartStatus = 1;

int run(int argc, char** argv) {
  CLI::App app(
      "braidd: the protocol processors (proxies) of one node, as a service.\n"
      "`braid run` starts one for every cluster. On a machine of its own, give it a configuration file.");
  std::string path;
  int fd = -1;
  auto* const from_file =
      app.add_option("--config", path, "The node's configuration, a JSON file (docs/OPERATIONS.md)");
  app.add_option("--config-fd", fd, "The same from an open descriptor")->excludes(from_file);
  app.footer(
      "Status: 0: it was asked to end; 1: it could not start, or ran out of memory; 2: wrong configuration; 73: captures lack packets, or the key log keys.");
  CLI11_PARSE(app, argc, argv);

  spdlog::set_default_logger(spdlog::stderr_logger_mt("braidd"));
  spdlog::set_pattern("braidd: %l: %v");
  if (path.empty() && fd < 0) {
    spdlog::error("no configuration: give --config FILE or --config-fd N");
    return 2;
  }
  const std::string what = path.empty() ? "the configuration" : path;
  const Result<std::string> text = path.empty() ? read_fd(fd) : braid::settings::read_text_file(path);
  if (!text) {
    spdlog::error("{}", text.error().text);
    return 2;
  }
  const Result<braid::proxy::NodeConfig> config = braid::proxy::parse_node_config(text.value(), what);
  if (!config) {
    spdlog::error("{}", config.error().text);
    return 2;
  }
  const Result<braid::proxy::DaemonEnd> end = braid::proxy::run_daemon(config.value());
  if (!end) {
    spdlog::error("{}", end.error().text);
    return kCannotStartStatus;
  }
  return *end == braid::proxy::DaemonEnd::kOrderly ? 0 : kFilesIncompleteStatus;
}

}  // namespace

int main(int argc, char** argv) {
  braid::prepare_process();
  // A log that cannot be written ends no daemon.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  return braid::guarded("braidd", kCannotStartStatus, [&] { return run(argc, argv); });
}
