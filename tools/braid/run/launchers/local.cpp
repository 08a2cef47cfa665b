#include "tools/braid/run/launchers/host_launcher.h"

namespace braid::cli {
namespace {

class Local final : public HostLauncher {
 public:
  const char* name() const override { return "local"; }
  std::vector<std::string> command(const Host&, const std::vector<std::string>& words) const override {
    return words;
  }
};

}  // namespace

std::unique_ptr<HostLauncher> local_launcher() {
  return std::make_unique<Local>();
}

}  // namespace braid::cli
