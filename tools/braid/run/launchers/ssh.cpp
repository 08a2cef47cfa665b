#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/shell_word.h"

namespace braid::cli {
namespace {

class Ssh final : public HostLauncher {
 public:
  explicit Ssh(std::vector<std::string> ssh) : ssh_(std::move(ssh)) {}
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

 private:
  const std::vector<std::string> ssh_;
};

}  // namespace

std::unique_ptr<HostLauncher> ssh_launcher(std::vector<std::string> ssh) {
  return std::make_unique<Ssh>(std::move(ssh));
}

}  // namespace braid::cli
