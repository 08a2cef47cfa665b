#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/shell_word.h"

namespace braid::cli {
namespace {

class Ssh final : public HostLauncher {
 public:
  Ssh(std::vector<std::string> ssh, std::size_t fan_out) : ssh_(std::move(ssh)), fan_out_(fan_out) {}
  const char* name() const override { return "ssh"; }

  // The host's shell reads the words. Nobody is there to type a password, and no terminal is wanted.
  std::vector<std::string> command(const Host& host, const std::vector<std::string>& words) const override {
    std::vector<std::string> all = ssh_;
    for (const char* const option : {"-T", "-o", "BatchMode=yes", "--"}) all.emplace_back(option);
    all.push_back(host.name);
    std::string line = "exec";
    for (const std::string& word : words) line += " " + for_shell(word);
    all.push_back(std::move(line));
    return all;
  }

  std::size_t fan_out() const override { return fan_out_; }

 private:
  const std::vector<std::string> ssh_;
  const std::size_t fan_out_;
};

}  // namespace

std::unique_ptr<HostLauncher> ssh_launcher(std::vector<std::string> ssh, std::size_t fan_out) {
  return std::make_unique<Ssh>(std::move(ssh), fan_out);
}

}  // namespace braid::cli
