#include <map>

#include "tools/braid/find_program.h"
#include "tools/braid/run/launchers/host_launcher.h"
#include "tools/braid/run/ranks/relay_order.h"
#include "tools/braid/run/ranks/serve_rank.h"
#include "tools/braid/run/shared_files.h"

namespace braid::cli {
namespace {

class Pmix final : public HostLauncher {
 public:
  explicit Pmix(std::map<std::string, Descriptor> orders) : orders_(std::move(orders)) {}
  const char* name() const override { return "pmix"; }

  // The rank there has a braid-node of its own.
  std::vector<std::string> command(const Host& host, const std::vector<std::string>& words) const override {
    const auto order = orders_.find(host.name);
    if (order == orders_.end()) return words;
    return {own_folder() + "/braid-node", "--relay", std::to_string(order->second.get())};
  }
  std::vector<int> inherited(const Host& host) const override {
    const auto order = orders_.find(host.name);
    return order == orders_.end() ? std::vector<int>() : std::vector<int>{order->second.get()};
  }

 private:
  std::map<std::string, Descriptor> orders_;  // of the hosts where other ranks are, by name: relay_order.h
};

}  // namespace

Result<std::unique_ptr<HostLauncher>> pmix_launcher(const RankedRun& run) {
  std::map<std::string, Descriptor> orders;
  for (const RankHost& host : run.hosts) {
    const unsigned rank = host.ranks.front();
    if (rank == 0) continue;
    Result<Descriptor> file = make_memory_file_of(
        "braid-relay", text_of(RelayOrder{.rank = rank,
                                          .address = host.host.addresses.front(),
                                          .port = run.cards[rank].port,
                                          .own = run.identity,
                                          .certificate_of_peer = run.cards[rank].certificate}));
    if (!file) return file.error();
    orders[host.host.name] = std::move(*file);
  }
  return std::unique_ptr<HostLauncher>(std::make_unique<Pmix>(std::move(orders)));
}

}  // namespace braid::cli
